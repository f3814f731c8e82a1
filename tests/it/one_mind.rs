//! Findings, matrix and remedies of one report are of one mind: none contradicts another, and a remedy that was followed
//! is no new finding.

use serde_json::{Value, json};

use crate::reports::{doctor, need_for};
use crate::story::{USER, findings, fix, one};
use crate::world::World;
use crate::world::daemons::{Opencode, Start, Zeroclaw};
use crate::world::look::{self, wait_until};
use crate::world::parts::Agent;
use crate::world::peers;
use crate::world::sshd::{Login, X11, words};
use crate::world::stub_model::StubModel;

/// The variables of the matrix, and what their findings begin with.
const JUDGED: [(&str, &str); 3] = [("DISPLAY", "display"), ("WAYLAND_DISPLAY", "wayland"), ("SSH_AUTH_SOCK", "ssh_agent")];

/// States that a finding is named after, beside `unknown`.
const DEAD: [&str; 4] = ["reused", "refused", "dangling", "rejected"];

/// No row of a daemon's matrix contradicts a finding on the same daemon. A part that is not the daemon's own value (a
/// layer dropped it) is missing, or dead as that one is.
pub fn assert_of_one_mind(document: &Value) {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    for daemon in list(&document["data"]["daemons"]) {
        let subject = format!("{} (pid {})", daemon["agent"].as_str().unwrap(), daemon["pid"]);
        let needs = list(&daemon["needs"]);
        for (name, topic) in JUDGED {
            let parts: Vec<Value> = needs.iter().flat_map(|need| list(&need["parts"])).filter(|part| part["name"] == name).collect();
            let states: Vec<&str> = parts.iter().map(|part| part["state"].as_str().unwrap()).collect();
            assert!(states.iter().all(|state| *state == states[0]), "{name} stands in two ways: {daemon:#}");
            for finding in list(&document["findings"]).iter().filter(|finding| finding["subject"] == subject.as_str()) {
                let problem = finding["id"].as_str().unwrap().strip_prefix(&format!("{topic}.")).unwrap_or_default();
                for state in &states {
                    let fits = match problem {
                        dead if DEAD.contains(&dead) => *state == dead || *state == "missing",
                        "missing" => *state == "missing",
                        "foreign" => ["alive", "missing", "unknown"].contains(state),
                        "unknown" => ["unknown", "missing"].contains(state),
                        _ => true,
                    };
                    assert!(fits, "{} and {name} {state}: {document:#}", finding["id"]);
                }
            }
        }
        // What works, works by a part that is alive.
        for need in needs.iter().filter(|need| need["verdict"] == "works") {
            let alive = |name: &str| list(&need["parts"]).iter().any(|part| part["name"] == name && part["state"] == "alive");
            let by = if need["purpose"] == "git_over_ssh" { &["SSH_AUTH_SOCK"][..] } else { &["DISPLAY", "WAYLAND_DISPLAY"] };
            assert!(by.iter().any(|name| alive(name)), "{need:#}");
        }
    }
}

fn verdicts(document: &Value) -> [String; 2] {
    ["gui", "clipboard"].map(|purpose| need_for(&document["data"]["daemons"][0]["needs"], purpose)["verdict"].as_str().unwrap().to_owned())
}

/// A shell of ZeroClaw does not get SSH_CONNECTION: what its DISPLAY leads to is judged by the login of the daemon all the
/// same.
#[test]
fn a_shell_s_display_is_judged_by_the_login_that_its_daemon_was_born_in() {
    let world = need!(World::new());
    let model = StubModel::start("true");
    let config = Zeroclaw::configure(&world.user, &model, &["DISPLAY"]);
    world.user.write(&world.user.home.join("bin/xclip"), "#!/bin/sh\n");
    let mut a = need!(world.user_from(2));
    a.stdout("chmod +x $HOME/bin/xclip; export PATH=$HOME/bin:$PATH");
    let mut b = need!(world.user_from(3));
    let daemon = need!(Zeroclaw::start(Start::In(&mut a), &config));
    let (document, _) = doctor(&mut b);
    assert_eq!(verdicts(&document), ["works", "works"], "{document:#}");
    let display = a.display().to_owned();
    a.disconnect();
    let (document, _) = doctor(&mut b);
    assert_eq!((findings(&document, "display.refused").len(), verdicts(&document)), (1, ["broken", "broken"].map(str::to_owned)));
    let c = need!(world.user_from(5));
    assert_eq!(c.display(), display, "the number is given out again");
    let (document, code) = doctor(&mut b);
    let reused = one(&document, "display.reused");
    assert_eq!((code, &reused["severity"]), (1, &json!("error")));
    assert_eq!(verdicts(&document), ["broken", "broken"], "{document:#}");
    let gui = need_for(&document["data"]["daemons"][0]["needs"], "gui");
    assert!(gui["detail"].as_str().unwrap().contains("127.0.0.2"), "the login that has ended is named: {gui:#}");
    // One profile lets it through, another does not: dead or missing, a window opens in neither case.
    let file = config.join("config.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    let other = format!("{text}\n[risk_profiles.shut]\nlevel = \"full\"\n[agents.other]\nrisk_profile = \"shut\"\n");
    world.user.write(&file, &other);
    let (document, _) = doctor(&mut b);
    assert_eq!(verdicts(&document), ["broken", "broken"], "{document:#}");
    drop(daemon);
}

/// The remedy's own link, followed as it stands: no finding, and the login named is the one behind it now.
#[test]
fn the_link_that_doctor_advises_is_no_finding_afterwards() {
    let world = need!(World::new());
    let agent = need!(Agent::start(world.dir()));
    let login = |last| world.login(Login::from(last, &world.user).agent(&agent));
    let (mut a, mut b) = (need!(login(2)), need!(login(3)));
    let service = need!(Opencode::service(Start::In(&mut a)));
    a.disconnect();
    let (document, _) = doctor(&mut b);
    let lines = fix(one(&document, "ssh_agent.dangling"));
    let line = lines.lines().find(|line| line.contains("ln -sfn")).expect("the line for every login").to_owned();
    let link = world.user.home.join(".ssh/agent.sock");
    let dir = world.user.home.join(".ssh");
    let _ = std::fs::remove_dir_all(&dir);
    assert!(!dir.exists(), "an account that never used ssh");
    b.stdout(&line);
    assert_eq!(b.stdout("stat -c %a $HOME/.ssh").trim(), "700");
    assert_eq!(std::fs::read_link(&link).unwrap().display().to_string(), b.var("SSH_AUTH_SOCK").unwrap());
    b.stdout(&format!("SSH_AUTH_SOCK={} {}", link.display(), words(&service.program, &["service", "restart"])));
    let after = |document: &Value| {
        let ids: Vec<String> =
            document["findings"].as_array().unwrap().iter().map(|finding| finding["id"].as_str().unwrap().to_owned()).collect();
        let git = need_for(&document["data"]["daemons"][0]["needs"], "git_over_ssh").clone();
        (ids.into_iter().filter(|id| id.starts_with("ssh_agent.")).collect::<Vec<_>>(), git["verdict"].clone(), git["detail"].to_string())
    };
    let (document, _) = doctor(&mut b);
    let (ids, verdict, detail) = after(&document);
    assert_eq!((ids, verdict), (vec![], json!("works")), "{document:#}");
    assert!(detail.contains("login from 127.0.0.3"), "{detail}");

    let mut c = need!(login(5));
    c.stdout(&line.replace(b.var("SSH_AUTH_SOCK").unwrap(), c.var("SSH_AUTH_SOCK").unwrap()));
    for asker in [&mut b, &mut c] {
        let (document, _) = doctor(asker);
        let (ids, verdict, detail) = after(&document);
        assert_eq!((ids, verdict), (vec![], json!("works")), "{document:#}");
        assert!(detail.contains("login from 127.0.0.5") && !detail.contains("127.0.0.3"), "{detail}");
    }
    // The login behind it goes: the link is pointed anew, and nothing is started.
    c.disconnect();
    let (document, code) = doctor(&mut b);
    let dangling = one(&document, "ssh_agent.dangling");
    let lines = fix(dangling);
    assert!(code == 1 && !lines.contains("restart"), "{lines}");
    b.stdout(&lines);
    let (document, _) = doctor(&mut b);
    assert_eq!(after(&document).0, [""; 0], "{document:#}");
    let (listed, _) = b.whoseenv(&["ps", "--user", USER, "--json"]);
    for row in listed["data"]["processes"].as_array().unwrap().iter().filter(|row| row["role"] == "daemon") {
        let _ = b.run(&format!("kill {}", row["pid"]));
    }
}

/// A daemon with another home finds no cookie there: neither a window nor the clipboard works, and the repair names the
/// file.
#[test]
fn a_display_without_its_cookie_opens_nothing_and_the_repair_brings_it() {
    let world = need!(World::new());
    let program = need!(peers::opencode_v1());
    let mut login = need!(world.user_from(2));
    world.user.write(&world.user.home.join("bin/xclip"), "#!/bin/sh\n");
    login.stdout("chmod +x $HOME/bin/xclip; mkdir -p $HOME/elsewhere; export PATH=$HOME/bin:$PATH");
    let port = look::free_port();
    let elsewhere = world.user.home.join("elsewhere");
    let server = login.spawn(&format!("env HOME={} {}", elsewhere.display(), words(&program, &["serve", "--port", &port.to_string()])));
    wait_until("the server", || !look::listeners(port).is_empty());
    let (document, code) = doctor(&mut login);
    assert_eq!(document["data"]["daemons"].as_array().map(Vec::len), Some(1), "{document:#}");
    assert_eq!((code, verdicts(&document)), (1, ["broken", "broken"].map(str::to_owned)), "{document:#}");
    // Xlib's own word for it.
    let tried = login.run(&format!("HOME={} xauth -n list {} | wc -l", elsewhere.display(), login.display()));
    assert_eq!(tried.stdout.trim(), "0");
    let lines = fix(one(&document, "gui.incomplete"));
    let named = format!("XAUTHORITY={}", world.user.home.join(".Xauthority").display());
    assert!(lines.contains(&named) && lines.contains(&format!("HOME={} ", elsewhere.display())), "{lines}");
    let script = world.user.home.join("pasted");
    world.user.write(&script, &lines);
    let pasted = login.spawn(&format!("bash {}", script.display()));
    wait_until("the end of the old one", || !server.runs());
    let is_new = |process: &look::Process| process.exe().as_deref() == Some(&program) && process.pid != server.pid;
    wait_until("the new one", || look::processes_of(world.user.uid).iter().any(is_new) && !look::listeners(port).is_empty());
    let (document, _) = doctor(&mut login);
    assert_eq!(document["data"]["daemons"].as_array().map(Vec::len), Some(1), "{document:#}");
    assert_eq!(
        (findings(&document, "gui.incomplete").len(), verdicts(&document)),
        (0, ["works", "works"].map(str::to_owned)),
        "{document:#}"
    );
    pasted.stop();
    for process in look::processes_of(world.user.uid).iter().filter(|process| process.exe().as_deref() == Some(&program)) {
        let _ = login.run(&format!("kill {}", process.pid));
    }
}

/// `sudo whoseenv doctor` on root's daemon: the display of the person's terminal is of use to root only with the
/// person's cookie.
#[test]
fn root_s_daemon_is_offered_the_display_with_the_cookie_that_opens_it() {
    let world = need!(World::new());
    let program = need!(peers::opencode_v1());
    let mut login = need!(world.user_from(2));
    let home = world.dir().join("roots");
    std::fs::create_dir_all(&home).unwrap();
    let port = look::free_port();
    let mut command = need!(crate::world::guard::tied(&program));
    command.args(["serve", "--port", &port.to_string()]).env_clear().env("HOME", &home).env("PATH", "/usr/bin:/bin");
    command.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
    let server = crate::world::guard::Proc::spawn("root's server", &mut command);
    wait_until("the server", || !look::listeners(port).is_empty());
    let pid = server.pid().to_string();
    let (document, _) = need!(world.ask_as_root(&mut login, &["doctor", "--pid", &pid, "--json"]));
    let lines = fix(one(&document, "display.missing"));
    let cookies = world.user.home.join(".Xauthority").display().to_string();
    assert!(lines.contains(&format!("DISPLAY={} ", login.display())) && lines.contains(&format!("XAUTHORITY={cookies} ")), "{lines}");
    drop(server);
    // With these values it works: asked of the X server itself.
    let mut command = need!(crate::world::guard::tied(&program));
    command.args(["serve", "--port", &port.to_string()]).env_clear().env("HOME", &home).env("PATH", "/usr/bin:/bin");
    command.env("DISPLAY", login.display()).env("XAUTHORITY", &cookies);
    command.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
    let server = crate::world::guard::Proc::spawn("root's server", &mut command);
    wait_until("the server", || !look::listeners(port).is_empty());
    let pid = server.pid().to_string();
    let (document, _) = need!(world.ask_as_root(&mut login, &["doctor", "--pid", &pid, "--connect", "--json"]));
    for id in ["display.rejected", "gui.incomplete", "display.missing"] {
        assert!(findings(&document, id).is_empty(), "{document:#}");
    }
    assert_eq!(need_for(&document["data"]["daemons"][0]["needs"], "gui")["verdict"], "works");
}

/// The program is gone and nothing of its name is on PATH: no line ends the daemon. With one there, that one is named.
#[test]
fn nothing_is_ended_that_cannot_be_started_again() {
    let world = need!(World::new());
    let program = need!(peers::opencode_preview());
    let copy = world.dir().join("renamed-bin");
    std::fs::hard_link(&program, &copy).or_else(|_| std::fs::copy(&program, &copy).map(drop)).unwrap();
    let mut login = need!(world.user_from(2));
    let port = look::free_port();
    let server = login.spawn(&words(&copy, &["serve", "--port", &port.to_string()]));
    wait_until("the server", || !look::listeners(port).is_empty());
    std::fs::remove_file(&copy).unwrap();
    login.stdout("command -v opencode2 && exit 1; export PATH=/usr/bin:/bin");
    let (document, _) = doctor(&mut login);
    let lines = fix(one(&document, "daemon.deleted_exe"));
    assert!(lines.starts_with("# install opencode2 first: ") && lines.contains("renamed-bin is gone"), "{lines}");
    for finding in document["findings"].as_array().unwrap() {
        assert!(!fix(finding).contains("kill "), "{finding:#}");
    }
    let bin = world.user.home.join("bin");
    login.stdout("mkdir -p $HOME/bin");
    std::os::unix::fs::symlink(&program, bin.join("opencode2")).unwrap();
    let mut other = need!(world.user_from(3));
    let whoseenv = other.whoseenv.clone().unwrap();
    let answer =
        other.run(&format!("PATH={}:$PATH sh -c '{}; exit $?'", bin.display(), words(&whoseenv, &["doctor", "--user", USER, "--json"])));
    let document: Value = serde_json::from_str(&answer.stdout).unwrap();
    let lines = fix(one(&document, "daemon.deleted_exe"));
    assert!(
        lines.contains(&format!("kill {} && ", server.pid)) && lines.contains(&format!("{}/opencode2 serve", bin.display())),
        "{lines}"
    );
    server.stop();
}

/// ControlMaster: both displays are of one connection, and the daemon's is nobody else's.
#[test]
fn two_displays_of_one_connection_are_not_foreign_to_each_other() {
    let world = need!(World::new());
    let socket = world.dir().join("master");
    let mut first = need!(world.login(Login::from(2, &world.user).x11(X11::Trusted).master(&socket)));
    let mut second = need!(world.login(Login::from(2, &world.user).x11(X11::Trusted).over(&socket)));
    let service = need!(Opencode::service(Start::In(&mut first)));
    let (document, _) = doctor(&mut second);
    assert_eq!(document["data"]["daemons"][0]["pid"], service.pid());
    assert!(findings(&document, "display.foreign").is_empty(), "{document:#}");
    let (document, _) = need!(world.ask_as_root(&mut second, &["doctor", "--user", USER, "--json"]));
    assert!(findings(&document, "display.foreign").is_empty(), "{document:#}");
}

/// Nine dead values that this terminal does not have: a restart from here is all it takes, and is all that is said.
#[test]
fn what_only_the_daemon_has_and_is_dead_goes_with_a_restart_from_here() {
    let world = need!(World::new());
    let gone = |name: &str| world.dir().join(name).display().to_string();
    let values: Vec<(String, String)> = (1..=9).map(|number| (format!("TOOL{number}_SOCKET"), gone(&format!("{number}.sock")))).collect();
    let env: Vec<(&str, &str)> = values.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let service = need!(Opencode::service(Start::as_account(&world.user, &env)));
    let mut login = need!(world.login(Login::from(2, &world.user)));
    let (document, code) = doctor(&mut login);
    let dead = findings(&document, "socket.dangling");
    assert_eq!((dead.len(), code), (9, 1));
    for finding in dead {
        let lines = fix(finding);
        assert!(lines.ends_with("service restart") && !lines.contains("do this from one"), "{lines}");
    }
    let before = service.process();
    login.stdout(&fix(findings(&document, "socket.dangling")[0]));
    wait_until("the end of the old one", || !look::runs(before.pid, before.start_ticks));
    let (document, _) = doctor(&mut login);
    assert!(findings(&document, "socket.dangling").is_empty(), "{document:#}");
    for process in look::processes_of(world.user.uid).iter().filter(|process| process.exe() == before.exe()) {
        let _ = login.run(&format!("kill {}", process.pid));
    }
}
