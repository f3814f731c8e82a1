//! One thing is told once and by what it is: reached by default, by another spelling, or since before the process began, it is no
//! finding; and a snapshot says of it what the machine said.

use std::os::unix::net::UnixListener;

use serde_json::{Value, json};

use crate::bad_input::{as_nobody, envelope, own_root, public};
use crate::run::{PROGRAM, Sleeper};
use crate::story::{findings, one};
use crate::truths::Daemon;
use crate::world::World;
use crate::world::guard::Other;
use crate::world::look::{self, wait_until};
use crate::world::parts::{Agent, Tmux};
use crate::world::sshd::{Login, Terminal, X11};

fn has(ids: &[String], id: &str) -> bool {
    ids.iter().any(|found| found == id)
}

/// libdbus looks below the runtime directory, docker and gpg have places of their own, and most programs take a proxy by either case.
#[test]
fn what_is_reached_without_the_variable_is_not_missing() {
    let dir = tempfile::tempdir().unwrap();
    let run = dir.path().display().to_string();
    std::fs::create_dir_all(dir.path().join("pulse")).unwrap();
    std::fs::create_dir_all(dir.path().join(".gnupg")).unwrap();
    let _open = ["bus", "pulse/native", "other"].map(|name| UnixListener::bind(dir.path().join(name)).unwrap());
    let proxy = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let proxy = format!("http://{}", proxy.local_addr().map(|at| (Box::leak(Box::new(proxy)), at)).unwrap().1);
    let (bus, sound, keys) = (format!("unix:path={run}/bus"), format!("unix:{run}/pulse/native"), format!("{run}/.gnupg"));
    let terminal = Sleeper::start(&[
        ("XDG_RUNTIME_DIR", &run),
        ("HOME", &run),
        ("DBUS_SESSION_BUS_ADDRESS", &bus),
        ("PULSE_SERVER", &sound),
        ("GNUPGHOME", &keys),
        ("https_proxy", &proxy),
    ]);
    let (ids, document, _) = Daemon::start(&[("XDG_RUNTIME_DIR", &run), ("HOME", &run), ("HTTPS_PROXY", &proxy)]).beside(&terminal);
    assert!(ids.iter().all(|id| !id.ends_with(".missing")), "{document:#}");
    // Elsewhere, or with nothing there to lead to it, it is.
    let (ids, document, _) = Daemon::start(&[("HOME", "/nonexistent"), ("HTTPS_PROXY", "http://127.0.0.1:9")]).beside(&terminal);
    for id in ["bus.missing", "audio.missing", "gpg.missing", "proxy.missing"] {
        assert!(has(&ids, id), "{id}: {document:#}");
    }
    let other = format!("unix:path={run}/other");
    let terminal = Sleeper::start(&[("DBUS_SESSION_BUS_ADDRESS", &other), ("http_proxy", &proxy)]);
    let (ids, document, _) = Daemon::start(&[("XDG_RUNTIME_DIR", &run), ("HTTP_PROXY", &proxy)]).beside(&terminal);
    assert!(has(&ids, "bus.missing") && has(&ids, "proxy.missing"), "another bus, and a name that curl does not take: {document:#}");
}

/// A restart from a terminal that names the same directories in vain takes none of them away.
#[test]
fn a_directory_that_the_terminal_names_in_vain_as_well_is_no_finding() {
    let path = "/usr/bin:/bin:/nonexistent/snap/bin";
    let terminal = Sleeper::start(&[("PATH", path)]);
    let (ids, document, code) = Daemon::start(&[("PATH", path)]).beside(&terminal);
    assert!(!has(&ids, "path.missing_directory") && code == 0, "{document:#}");
    assert_eq!(document["data"]["daemons"][0]["path"]["missing"], json!(["/nonexistent/snap/bin"]));
    let (_, document, code) = Daemon::start(&[("PATH", &format!("/nonexistent/old:{path}"))]).beside(&terminal);
    let missing = one(&document, "path.missing_directory");
    assert_eq!((code, &missing["message"]), (1, &json!("PATH names directories that are not there: /nonexistent/old")));
}

/// `export GPG_TTY=$(tty)` without a terminal.
#[test]
fn what_tty_prints_without_a_terminal_names_none() {
    let output = std::process::Command::new("tty").stdin(std::process::Stdio::null()).output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap().trim().to_owned();
    assert!(!said.starts_with('/'), "{said}");
    let (ids, document, _) = Daemon::start(&[("GPG_TTY", &said)]).beside(&Sleeper::start(&[("LANG", "C")]));
    assert!(ids.iter().all(|id| !id.starts_with("gpg.")), "{document:#}");
}

/// A socket through a link, and a proxy with and without the `/` at its end.
#[test]
fn one_address_in_two_spellings_does_not_differ() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("real")).unwrap();
    std::os::unix::fs::symlink("real", dir.path().join("link")).unwrap();
    let _open = ["real/docker.sock", "real/other.sock"].map(|name| UnixListener::bind(dir.path().join(name)).unwrap());
    let at = |name: &str| format!("unix://{}/{name}", dir.path().display());
    let terminal = Sleeper::start(&[("DOCKER_HOST", &at("real/docker.sock")), ("HTTP_PROXY", "http://127.0.0.1:9/")]);
    let (ids, document, _) =
        Daemon::start(&[("DOCKER_HOST", &at("link/docker.sock")), ("HTTP_PROXY", "http://127.0.0.1:9")]).beside(&terminal);
    assert!(!has(&ids, "environ.differs"), "{document:#}");
    let (_, document, _) =
        Daemon::start(&[("DOCKER_HOST", &at("real/other.sock")), ("HTTP_PROXY", "http://127.0.0.1:8")]).beside(&terminal);
    let differs = one(&document, "environ.differs")["message"].as_str().unwrap();
    assert!(differs.contains("DOCKER_HOST") && differs.contains("HTTP_PROXY"), "{differs}");
}

/// Whether a process is a daemon that may not be looked into, nobody can say who may not look into it.
#[test]
fn what_a_stranger_may_not_look_into_is_not_said_to_be_none() {
    need!(own_root());
    let (_dir, program) = public();
    let daemon = Sleeper::start(&[("LANG", "C")]);
    let ran = as_nobody("", &program, &["doctor", "--pid", &daemon.pid(), "--json"]);
    assert_eq!((ran.code, &ran.json()["status"]), (4, &json!("not_permitted")), "{}", ran.stdout);
    let ran = crate::run::run(&["doctor", "--pid", &daemon.pid(), "--json"]);
    assert_eq!(ran.code, 3, "{PROGRAM}: its owner sees that it is none: {:#}", envelope(&ran));
}

/// The kernel's table names a socket as it was when it was bound; connect(2) goes by the file.
#[test]
fn a_socket_whose_file_was_renamed_is_not_said_to_be_refused() {
    let dir = tempfile::tempdir().unwrap();
    let (bound, now) = (dir.path().join("bound.sock"), dir.path().join("now.sock"));
    let listener = std::os::unix::net::UnixListener::bind(&bound).unwrap();
    std::fs::rename(&bound, &now).unwrap();
    std::os::unix::net::UnixStream::connect(&now).expect("it answers by its new name");
    let carrier = Sleeper::start(&[("SSH_AUTH_SOCK", now.to_str().unwrap())]);
    let state = || crate::run::run(&["owner", "SSH_AUTH_SOCK", &carrier.pid(), "--json"]).json()["data"]["liveness"]["state"].clone();
    assert_eq!(state(), "unknown");
    drop(listener);
    // A child of another test may have it for a moment.
    wait_until("its end", || std::os::unix::net::UnixStream::connect(&now).is_err());
    assert_eq!(state(), "refused");
}

/// A named server of tmux, started in a login that has ended, and the login that is attached to it: what its clients were told is in
/// their arguments. In the pane what the living login has is given to a program, beside the connection of the one that has ended.
#[test]
fn in_a_pane_of_a_named_server_what_the_attached_login_has_is_alive_and_a_snapshot_says_the_same() {
    const WINDOW: Terminal = Terminal::Window { columns: 100, rows: 30 };
    let world = need!(World::new());
    let agent = need!(Agent::start(world.dir()));
    let login = |last| world.login(Login::from(last, &world.user).x11(X11::Trusted).agent(&agent).terminal(WINDOW));
    let mut a = need!(login(2));
    let tmux = need!(Tmux::start_in(&mut a, "work-Rv3"));
    let mut b = need!(login(3));
    a.disconnect();
    tmux.attach(&mut b);
    let home = world.user.home.clone();
    let mut number = 0;
    let mut typed = |line: &str| -> String {
        number += 1;
        let (out, done) = (home.join(format!("one-{number}.out")), home.join(format!("one-{number}.done")));
        let line = format!("{{ {line}; }} >{} 2>/dev/null; touch {}", out.display(), done.display());
        tmux.ask(&["send-keys", "-t", "main", "-l", &line]);
        tmux.ask(&["send-keys", "-t", "main", "Enter"]);
        wait_until("the answer from the pane", || done.exists());
        std::fs::read_to_string(&out).unwrap()
    };
    let whoseenv = world.whoseenv.display().to_string();
    let json = |text: &str| -> Value { serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}")) };
    let told = |document: &Value| -> Vec<(String, String, String)> {
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let each = document["findings"].as_array().unwrap().iter();
        each.map(|finding| (text(&finding["id"]), text(&finding["subject"]), text(&finding["message"]))).collect()
    };

    let snapshot = home.join("sn");
    typed(&format!("{whoseenv} snapshot {}", snapshot.display()));
    let live = json(&typed(&format!("{whoseenv} doctor --user weuser --json")));
    let kept = json(&typed(&format!("{whoseenv} --from {} doctor --user weuser --json", snapshot.display())));
    one(&live, "multiplexer.pane_stale");
    assert!(findings(&live, "multiplexer.stale_environment").is_empty(), "{live:#}");
    assert_eq!(told(&kept), told(&live));
    // Without what they were told nothing is claimed of the server.
    let holed = snapshot.join("clients.json");
    std::fs::remove_file(&holed).unwrap();
    let without = json(&typed(&format!("{whoseenv} --from {} doctor --user weuser --json", snapshot.display())));
    assert!(findings(&without, "multiplexer.stale_environment").iter().all(|finding| finding["outcome"] == "undetermined"), "{without:#}");

    let (display, sock) = (b.display().to_owned(), b.var("SSH_AUTH_SOCK").unwrap().to_owned());
    let pid = typed(&format!("export DISPLAY={display} SSH_AUTH_SOCK={sock}; sleep 300 & echo $!")).trim().to_owned();
    wait_until("the program", || look::Process::read(pid.parse().unwrap()).is_some_and(|process| process.comm == "sleep"));
    // Another program reaches both.
    assert!(typed("ssh-add -l >/dev/null; echo $?").trim().parse::<u8>().unwrap() < 2);
    for name in ["DISPLAY", "SSH_AUTH_SOCK"] {
        let answer = json(&typed(&format!("{whoseenv} owner {name} {pid} --json")));
        let data = &answer["data"];
        assert_eq!((&data["liveness"]["state"], &data["same_connection"]), (&json!("alive"), &json!(false)), "{name}: {data:#}");
        let (by_root, _) = need!(world.ask_as_root(&mut b, &["owner", name, &pid, "--json"]));
        assert_eq!(by_root["data"]["liveness"]["state"], "alive", "{name}: {by_root:#}");
    }
    let document = json(&typed(&format!("{whoseenv} doctor --user weuser --json")));
    assert!(findings(&document, "display.reused").is_empty() && findings(&document, "ssh_agent.reused").is_empty(), "{document:#}");
    Other::new(pid.parse().unwrap()).unwrap().stop();
}
