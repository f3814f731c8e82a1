//! A pasted fix works: the lines that `doctor` prints, put into the terminal it was asked from, word for word, by an
//! ordinary account and with the real programs. Afterwards another daemon runs, in its place and with this terminal's
//! display, and the finding is gone. What runs then is read from the kernel.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::made_up::{Made, MadeUp};
use crate::reports::{self, need_for};
use crate::story::{USER, findings, fix, one};
use crate::world::daemons::{Opencode, Start, Zeroclaw};
use crate::world::guard::Other;
use crate::world::look::{self, Process, wait_for, wait_until};
use crate::world::parts::{Agent, Tmux};
use crate::world::sshd::{Login, Session, Terminal, X11, words};
use crate::world::stub_model::StubModel;
use crate::world::{World, peers};

/// `doctor`'s answer; no fix of it says a thing twice, and none undoes another.
fn doctor(asker: &mut Session) -> (Value, i32) {
    let (document, code) = reports::doctor(asker);
    for finding in document["findings"].as_array().unwrap() {
        let lines = fix_of(finding);
        let mut once = lines.clone();
        once.sort_unstable();
        once.dedup();
        assert_eq!(once.len(), lines.len(), "{lines:#?}");
    }
    // The command replaces the whole list.
    let mut lists: Vec<&str> = document["findings"].as_array().unwrap().iter().flat_map(fix_of).collect();
    lists.retain(|line| line.contains(" config set "));
    lists.dedup();
    assert!(lists.len() < 2, "{lists:#?}");
    (document, code)
}

/// A snapshot taken now says the same as the machine.
fn as_captured(asker: &mut Session, document: &Value) {
    let place = asker.account.home.join(format!("captured-{}", asker.display_port()));
    let place = place.to_str().unwrap();
    asker.whoseenv(&["snapshot", place, "--json"]);
    let (captured, _) = asker.whoseenv(&["--from", place, "doctor", "--user", USER, "--json"]);
    let told = |document: &Value| -> Vec<Value> {
        let findings = document["findings"].as_array().unwrap();
        findings.iter().map(|finding| json!([finding["id"], finding["message"], finding["fix"]])).collect()
    };
    assert_eq!(told(&captured), told(document));
    assert_eq!(captured["data"]["daemons"][0]["dropped"], document["data"]["daemons"][0]["dropped"]);
}

fn fix_of(finding: &Value) -> Vec<&str> {
    finding["fix"].as_array().map(Vec::as_slice).unwrap_or_default().iter().filter_map(Value::as_str).collect()
}

/// Pastes lines that end by themselves.
fn paste(login: &mut Session, lines: &str) {
    login.stdout(&format!("set -e\n{lines}\nset +e"));
}

/// Pastes lines of which the last one stays in the foreground.
fn paste_and_leave(login: &mut Session, lines: &str) -> Other {
    let script = login.account.home.join("pasted");
    login.account.write(&script, lines);
    login.spawn(&format!("bash {}", script.display()))
}

/// The account's process of this program that listens here, and is not the one that was there before.
fn successor(port: u16, program: &Path, (before, uid): (u32, u32)) -> Process {
    wait_for("the new daemon", || {
        let here = |process: &Process| process.exe().as_deref() == Some(program) && process.pid != before;
        let found = look::processes_of(uid).into_iter().find(here)?;
        (!look::listeners(port).is_empty()).then_some(found)
    })
}

/// No finding says any more that a display is dead, another login's or missing.
fn display_findings(document: &Value) -> Vec<&str> {
    let ids = document["findings"].as_array().unwrap().iter().map(|finding| finding["id"].as_str().unwrap());
    ids.filter(|id| id.starts_with("display.")).collect()
}

#[test]
fn for_the_preview_s_service() {
    let world = need!(World::new());
    let mut a = need!(world.user_from(2));
    let service = need!(Opencode::service(Start::In(&mut a)));
    let before = service.process();
    let port = service.endpoint.address.port();
    let mut b = need!(world.user_from(3));
    a.disconnect();
    let (document, _) = doctor(&mut b);
    let lines = fix(one(&document, "display.refused"));
    paste(&mut b, &lines);
    let after = successor(port, &service.program, (before.pid, before.uid));
    assert_eq!(after.var("DISPLAY").as_deref(), Some(b.display()), "{lines}");
    assert!(!look::runs(before.pid, before.start_ticks));
    let (document, _) = doctor(&mut b);
    assert_eq!(display_findings(&document), [""; 0], "{document:#}");
    assert_eq!(document["data"]["daemons"][0]["pid"], after.pid);
    let _after = Other::new(after.pid);
}

#[test]
fn for_a_server_of_1_x_with_words_a_directory_and_a_password_of_its_own() {
    let world = need!(World::new());
    let program = need!(peers::opencode_v1());
    let mut a = need!(world.user_from(2));
    let port = look::free_port();
    a.stdout("mkdir -p 'my work' && cd 'my work' && export OPENCODE_SERVER_PASSWORD=canary-5f1 XDG_DATA_HOME=$HOME/elsewhere");
    let arguments = ["serve", "--port", &port.to_string(), "--cors", "https://canary.example", "--cors", "http://localhost:5173"];
    let before = a.spawn(&words(&program, &arguments));
    wait_until("the server", || !look::listeners(port).is_empty());
    let mut b = need!(world.user_from(3));
    a.disconnect();
    let (document, _) = doctor(&mut b);
    assert!(!document.to_string().contains("canary"), "{document:#}");
    as_captured(&mut b, &document);
    let lines = fix(one(&document, "display.refused"));
    // A person sees each command once, and the one that does more.
    let whoseenv = b.whoseenv.clone().unwrap();
    let screen = b.program(&whoseenv, &["doctor", "--user", USER]).stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!((screen.matches("tail --pid=").count(), screen.matches("OPENCODE_SERVER_PASSWORD=\"$").count()), (1, 1), "{screen}");
    let pasted = paste_and_leave(&mut b, &lines);
    let after = successor(port, &program, (before.pid, world.user.uid));
    assert!(!before.runs());
    assert_eq!(after.argv()[1..], arguments, "{lines}");
    assert_eq!(std::fs::read_link(format!("/proc/{}/cwd", after.pid)).unwrap(), world.user.home.join("my work"));
    let elsewhere = world.user.home.join("elsewhere").display().to_string();
    assert_eq!(
        ["DISPLAY", "OPENCODE_SERVER_PASSWORD", "XDG_DATA_HOME"].map(|name| after.var(name)),
        [b.display(), "canary-5f1", &elsewhere].map(|value| Some(value.to_owned()))
    );
    let (document, _) = doctor(&mut b);
    assert_eq!(display_findings(&document), [""; 0], "{document:#}");
    if let Some(after) = Other::new(after.pid) {
        after.stop();
    }
    pasted.stop();
}

/// The daemon's own environment is not what its shells get: the matrix, held against the block of a real shell.
#[test]
fn for_a_zeroclaw_daemon_whose_shells_get_what_the_matrix_says() {
    let world = need!(World::new());
    let program = need!(peers::zeroclaw());
    let model = StubModel::start("true");
    let home = Zeroclaw::configure(&world.user, &model, &["EDITOR"]);
    // Not where ZeroClaw would look by itself.
    let config = world.user.home.join("claw");
    std::fs::rename(&home, &config).unwrap();
    let mut a = need!(world.user_from(2));
    a.stdout("export EDITOR=ed SSH_AUTH_SOCK=/nonexistent/agent XAUTHORITY=$HOME/.Xauthority");
    let daemon = need!(Zeroclaw::start(Start::In(&mut a), &config));
    let before = daemon.process();
    let mut b = need!(world.user_from(3));

    let (document, _) = doctor(&mut b);
    let child = daemon.client(&[]).tool_child(&model, &world.user.home);
    let got = names(&child.process().environ());
    child.stop();
    assert!(got.contains(&"EDITOR".to_owned()) && !got.contains(&"DISPLAY".to_owned()), "{got:?}");
    let row = &document["data"]["daemons"][0];
    let mut all: Vec<String> = names(&before.environ());
    let dropped: Vec<&str> = row["dropped"].as_array().unwrap().iter().map(|row| row["name"].as_str().unwrap()).collect();
    all.retain(|name| !dropped.contains(&name.as_str()));
    assert_eq!(got.iter().filter(|name| *name != "ZEROCLAW_SESSION_ID").cloned().collect::<Vec<_>>(), all, "{row:#}");
    let gui = need_for(&row["needs"], "gui");
    assert_eq!(
        (&gui["verdict"], &gui["detail"]),
        (&json!("missing"), &json!("DISPLAY: set in the daemon, dropped by ZeroClaw's safe list")),
        "{gui:#}"
    );
    let missing = one(&document, "display.missing");
    assert!(missing["message"].as_str().unwrap().contains("dropped by ZeroClaw's safe list"), "{missing:#}");

    a.disconnect();
    let (document, _) = doctor(&mut b);
    as_captured(&mut b, &document);
    let lines = fix(one(&document, "display.refused"));
    let pasted = paste_and_leave(&mut b, &lines);
    wait_until("the end of the old daemon", || !look::runs(before.pid, before.start_ticks));
    let socket = daemon.socket.clone();
    let after = wait_for("the new daemon", || {
        let here =
            |process: &Process| process.exe().as_deref() == Some(&program) && process.argv().get(1).is_some_and(|word| word == "daemon");
        look::processes_of(before.uid).into_iter().find(here).filter(|_| look::unix_socket_listens(&socket))
    });
    assert_eq!(after.argv()[1..], ["daemon", "--config-dir", config.to_str().unwrap()], "{lines}");
    assert_eq!(after.var("DISPLAY").as_deref(), Some(b.display()));
    let written = std::fs::read_to_string(config.join("config.toml")).unwrap();
    assert!(written.contains(r#"shell_env_passthrough = ["EDITOR", "DISPLAY", "XAUTHORITY"]"#), "{written}");
    let (document, _) = doctor(&mut b);
    assert_eq!(display_findings(&document), [""; 0], "{document:#}");
    assert_eq!(need_for(&document["data"]["daemons"][0]["needs"], "gui")["verdict"], "works");

    // What decides cannot be read: neither works nor missing.
    world.user.write(&config.join("config.toml"), "api_key = canary");
    let (document, code) = doctor(&mut b);
    let unread = one(&document, "environ.handed_on_unknown");
    assert_eq!((code, &unread["outcome"]), (5, &json!("undetermined")), "{document:#}");
    assert!(unread["message"].as_str().unwrap().ends_with("the config.toml in its --config-dir: it is not TOML"), "{unread:#}");
    assert_eq!(need_for(&document["data"]["daemons"][0]["needs"], "gui")["verdict"], "unknown");
    assert!(!document.to_string().contains("canary"));
    if let Some(after) = Other::new(after.pid) {
        after.stop();
    }
    pasted.stop();
}

/// The names of a block, sorted.
fn names(block: &[String]) -> Vec<String> {
    let mut names: Vec<String> = block.iter().filter_map(|entry| Some(entry.split_once('=')?.0.to_owned())).collect();
    names.sort();
    names
}

/// A service whose file was removed under it: nobody finds it. Asked before it looks for its file itself.
#[test]
fn for_a_service_without_its_registration_file() {
    let world = need!(World::new());
    let mut b = need!(world.user_from(3));
    let service = need!(Opencode::service(Start::In(&mut b)));
    let before = service.process();
    let file: PathBuf = service.registration.clone().unwrap();
    wait_until("a service that is some seconds old", || before.runs() && age_s(&before) > 4.0);
    let (document, _) = doctor(&mut b);
    assert!(findings(&document, "registration.missing").is_empty());
    std::fs::remove_file(&file).unwrap();
    let (document, code) = doctor(&mut b);
    if !look::runs(before.pid, before.start_ticks) {
        // It looked for its file just then.
        return;
    }
    let missing = one(&document, "registration.missing");
    assert_eq!((code, &missing["outcome"]), (1, &json!("confirmed")));
    let seen = missing["evidence"][0]["source"].as_str().unwrap();
    assert_eq!(Some(Path::new(seen)), file.parent());
    paste(&mut b, &fix(missing));
    let after = wait_for("the new service", || {
        let registered: Value = serde_json::from_slice(&std::fs::read(&file).ok()?).ok()?;
        Other::new(u32::try_from(registered["pid"].as_u64()?).ok()?).filter(|after| after.pid != before.pid)
    });
    wait_until("the old service to end itself", || !look::runs(before.pid, before.start_ticks));
    let (document, _) = doctor(&mut b);
    assert!(findings(&document, "registration.missing").is_empty(), "{document:#}");
    after.stop();
}

fn age_s(process: &Process) -> f64 {
    let uptime = std::fs::read_to_string("/proc/uptime").unwrap();
    let up: f64 = uptime.split(' ').next().unwrap().parse().unwrap();
    up - process.start_ticks as f64 / rustix::param::clock_ticks_per_second() as f64
}

/// Two tmux servers of one user, both started in a login that has ended: each line reaches the one it is for.
#[test]
fn for_one_of_two_tmux_servers() {
    let world = need!(World::new());
    let mut a = need!(world.user_from(2));
    let (one_of, other) = (need!(Tmux::start_in(&mut a, "one")), need!(Tmux::start_in(&mut a, "two")));
    let mut b = need!(world.user_from(3));
    let (document, _) = doctor(&mut b);
    assert!(findings(&document, "multiplexer.stale_environment").is_empty(), "{document:#}");
    a.disconnect();
    let (document, code) = doctor(&mut b);
    let both = findings(&document, "multiplexer.stale_environment");
    assert_eq!((both.len(), code), (2, 0), "{document:#}");
    let of = |tmux: &Tmux| {
        let named = format!("tmux (pid {})", tmux.pid());
        fix(both.iter().find(|finding| finding["subject"] == named).unwrap_or_else(|| panic!("no {named} in {both:#?}")))
    };
    let lines = of(&one_of);
    paste(&mut b, &lines);
    assert_eq!(one_of.ask(&["show-environment", "-g", "DISPLAY"]).trim(), format!("DISPLAY={}", b.display()), "{lines}");
    assert_eq!(other.ask(&["show-environment", "-g", "DISPLAY"]).trim(), format!("DISPLAY={}", world.display(0)));

    // A new window has it, and so the server is not stale any more.
    one_of.ask(&["new-window", "-d"]);
    let named = format!("tmux (pid {})", one_of.pid());
    wait_until("the window's shell", || {
        let (document, _) = doctor(&mut b);
        findings(&document, "multiplexer.stale_environment").iter().all(|finding| finding["subject"] != named)
    });

    // A client that attaches brings its login's values into the session: nothing is stale then.
    let mut c = need!(world.login(Login::from(5, &world.user).x11(X11::Trusted).terminal(Terminal::Window { columns: 80, rows: 24 })));
    other.attach(&mut c);
    let (document, _) = doctor(&mut b);
    let named = format!("tmux (pid {})", other.pid());
    assert!(findings(&document, "multiplexer.stale_environment").iter().all(|finding| finding["subject"] != named), "{document:#}");
    assert!(findings(&document, "display.reused").is_empty(), "the terminal that pasted keeps its own: {document:#}");
    one_of.stop();
    other.stop();
}

/// Root asks about another account's daemon: what belongs to root is of no use to that account, and is not offered.
#[test]
fn not_with_what_the_daemon_s_user_may_not_open() {
    let world = need!(World::new());
    let mut a = need!(world.login(Login::from(2, &world.user).x11(X11::Trusted)));
    let server = need!(Opencode::v1(Start::In(&mut a), "serve"));
    // Root's login has a display too, and its cookie in a file of root's.
    let b = need!(world.user_from(3));
    a.disconnect();
    let agent = need!(Agent::start(world.dir()));
    let socket = agent.socket.display().to_string();
    let cookies = world.dir().join("roots-cookies");
    std::fs::copy(world.user.home.join(".Xauthority"), &cookies).unwrap();
    let ask = |socket: &str| {
        let mut command = crate::run::whoseenv(&["doctor", "--user", USER, "--json"]);
        command.env("SSH_AUTH_SOCK", socket).env("DISPLAY", b.display()).env("XAUTHORITY", &cookies);
        crate::run::ran(&mut command).json()
    };
    let document = ask(&socket);
    let missing = one(&document, "ssh_agent.missing");
    let lines = fix(missing);
    assert!(!lines.contains(&format!("SSH_AUTH_SOCK={socket}")), "{lines}");
    assert!(lines.contains("is no use to it") && lines.contains("weuser may not use") && lines.contains("mode"), "{lines}");
    assert!(lines.contains("weuser has to ask"), "{lines}");
    let lines = fix(one(&document, "display.refused"));
    assert!(!lines.contains("DISPLAY=localhost") && lines.contains("roots-cookies: it is root's, mode 0600"), "{lines}");
    rustix::fs::chmod(&cookies, rustix::fs::Mode::from_raw_mode(0o644)).unwrap();
    let lines = fix(one(&ask(&socket), "display.refused"));
    assert!(lines.contains(&format!("DISPLAY={}", b.display())), "what everybody may read is of use: {lines}");
    // What a group of the daemon's may read is of use too; what another group may is not.
    rustix::fs::chmod(&cookies, rustix::fs::Mode::from_raw_mode(0o640)).unwrap();
    let lines = fix(one(&ask(&socket), "display.refused"));
    assert!(!lines.contains("DISPLAY=localhost"), "root's group: {lines}");
    std::os::unix::fs::chown(&cookies, None, Some(world.user.gid)).unwrap();
    let lines = fix(one(&ask(&socket), "display.refused"));
    assert!(lines.contains(&format!("DISPLAY={}", b.display())), "{lines}");
    // One that the daemon's user owns is.
    let dir = world.user.private_dir(&world.dir().join("own"));
    let own = need!(Agent::start_as(&world.user, &dir));
    let socket = own.socket.display().to_string();
    let lines = fix(one(&ask(&socket), "ssh_agent.missing"));
    assert!(lines.contains(&format!("SSH_AUTH_SOCK={socket} ")), "{lines}");
    assert!(lines.starts_with("# as weuser, from the terminal"), "{lines}");
    server.stop();
}

/// Behind the lines for a server that goes on.
const WINDOW: &str = "# then open a window: what a running server was told shows in its new windows alone";

/// A service whose program was removed: restarting it would end what runs and start nothing. With a program there again, also of
/// another release behind the path that the unit names, it is restarted.
#[test]
fn not_for_a_service_whose_program_is_gone() {
    let ask = |argv: &str, there: bool| {
        let made = MadeUp::new();
        made.process(&Made {
            pid: 200,
            ppid: 1,
            comm: "codex",
            exe: "/opt/codex-1/codex (deleted)",
            argv: &[argv, "app-server"],
            environ: &["PATH=/usr/bin", "HOME=/home/ann", "USER=ann", "DEBUG=0"],
            cgroup: "0::/user.slice/user-0.slice/user@0.service/app.slice/codex.service",
            ..Made::default()
        });
        made.file("home/ann/.config/systemd/user/codex.service", "[Service]\nExecStart=/opt/codex app-server\nEnvironment=DEBUG=1\n");
        made.terminal(&["HOME=/home/ann", "USER=ann", "PATH=/usr/bin:/opt/bin", "DISPLAY=:0"]);
        if there {
            made.program("opt/codex");
        }
        let (document, _) = made.ask(&["doctor", "--json"]);
        let findings = document["findings"].as_array().unwrap().clone();
        assert!(findings.iter().any(|finding| finding["id"] == "unit.differs"), "{document:#}");
        findings.iter().flat_map(fix_of).map(str::to_owned).collect::<Vec<_>>()
    };
    let gone = ask("/opt/codex", false);
    assert!(!gone.is_empty() && gone.iter().all(|line| !line.starts_with("systemctl")), "{gone:?}");
    assert!(gone.iter().any(|line| line.starts_with("# put ") && line.contains("codex.service would be ended")), "{gone:?}");
    let there = ask("/opt/codex", true);
    assert!(there.iter().any(|line| line == "systemctl --user restart codex.service"), "{there:?}");
}

/// What no real program is at hand for: servers of a captured machine.
fn made(comm: &str, exe: &str, argv: &[&str], environ: &[&str]) -> (Value, i32) {
    let made = MadeUp::new();
    made.process(&Made { pid: 20, ppid: 1, comm, exe, argv, environ, ..Made::default() });
    made.terminal(&["PATH=/usr/bin"]);
    made.ask(&["doctor", "--json"])
}

#[test]
fn for_a_screen_server_by_its_pid_and_a_zellij_server_by_hand() {
    let environ = ["PATH=/usr/bin", "SSH_AUTH_SOCK=/tmp/ssh-gone/agent.7"];
    let (document, code) = made("screen", "/usr/bin/screen", &["SCREEN", "-dmS", "x"], &environ);
    let stale = one(&document, "multiplexer.stale_environment");
    assert_eq!(
        (code, &stale["severity"], fix(stale).as_str()),
        (0, &json!("info"), format!("screen -S 20 -X unsetenv SSH_AUTH_SOCK\n{WINDOW}").as_str())
    );
    assert!(stale["message"].as_str().unwrap().contains("SSH_AUTH_SOCK=/tmp/ssh-gone/agent.7"), "{stale:#}");
    let (document, _) = made("zellij", "/usr/bin/zellij", &["/usr/bin/zellij", "--server", "/run/x"], &environ);
    let lines = fix(one(&document, "multiplexer.stale_environment"));
    assert_eq!(lines, "unset SSH_AUTH_SOCK\n# restart it (pid 20) from this terminal");
}

/// In a window of a screen session that was attached again: the client has a live display, and its value is what to take.
#[test]
fn for_a_window_of_screen_with_what_the_attached_client_has() {
    let mut made = MadeUp::new();
    made.tcp("127.0.0.1:6011", None, 611);
    made.tcp("192.0.2.1:22", Some("192.0.2.8:50002"), 902);
    let (a, b) = ("SSH_CONNECTION=192.0.2.7 50001 192.0.2.1 22", "SSH_CONNECTION=192.0.2.8 50002 192.0.2.1 22");
    let exe = "/usr/bin/screen";
    let old = ["PATH=/usr/bin", a, "DISPLAY=localhost:10.0"];
    made.process(&Made { pid: 20, ppid: 1, comm: "screen", exe, argv: &["SCREEN"], environ: &old, ..Made::default() });
    let new = ["PATH=/usr/bin", b, "DISPLAY=localhost:11.0"];
    made.process(&Made { pid: 30, ppid: 1, comm: "screen", exe, argv: &["screen", "-r"], environ: &new, pts: Some(4), ..Made::default() });
    made.terminal(&["PATH=/usr/bin", "STY=20.pts-1.vm", a, "DISPLAY=localhost:10.0"]);
    let (document, code) = made.ask(&["doctor", "--json"]);
    let refused = document["findings"].as_array().unwrap().iter().find(|finding| finding["id"] == "display.refused").unwrap();
    assert_eq!(
        (code, fix(refused).as_str()),
        (
            1,
            "export DISPLAY=localhost:11.0 SSH_CONNECTION='192.0.2.8 50002 192.0.2.1 22'\n# and for new windows:\n\
             screen -S 20.pts-1.vm -X setenv DISPLAY localhost:11.0\n\
             screen -S 20.pts-1.vm -X setenv SSH_CONNECTION '192.0.2.8 50002 192.0.2.1 22'"
        )
    );
}

#[test]
fn not_where_the_block_was_written_over() {
    let (document, code) = made("emacs", "/usr/bin/emacs-nox", &["emacs", "--daemon=x"], &["emacs: title and nothing else"]);
    let unreadable = one(&document, "daemon.unreadable");
    assert_eq!((code, &unreadable["outcome"]), (5, &json!("undetermined")), "{document:#}");
    assert!(unreadable["message"].as_str().unwrap().contains("wrote over its environment block"), "{unreadable:#}");
    assert_eq!(document["data"]["daemons"][0]["needs"], json!([]), "neither set nor unset");
    let ids: Vec<&Value> = document["findings"].as_array().unwrap().iter().map(|finding| &finding["id"]).collect();
    assert_eq!(ids, ["daemon.unreadable"]);
}
