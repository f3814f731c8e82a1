//! The cases beside the story: other things that a login, a session or a daemon can leave behind, each for real, and
//! what the tool has to say of it. What it is held against comes from the kernel or from another program.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::made_up::{Made, MadeUp};
use crate::reports::{doctor, variable};
use crate::run::Sleeper;
use crate::story::{USER, evidence, findings, fix, one, row};
use crate::world::daemons::{Opencode, Start, Zeroclaw};
use crate::world::display::{Greeting, greet};
use crate::world::guard::Other;
use crate::world::look::{self, wait_until};
use crate::world::need::tool;
use crate::world::parts::{Agent, Bus, Tmux};
use crate::world::sshd::{Login, Session, Terminal, X11, quoted};
use crate::world::stub_model::StubModel;
use crate::world::wayland::Wayland;
use crate::world::{Needed, World, need, peers};

/// `owner NAME TARGET`'s data.
fn owner(asker: &mut Session, query: &str, target: &str) -> Value {
    asker.whoseenv(&["owner", query, target, "--json"]).0["data"].clone()
}

fn state(data: &Value) -> &str {
    data["liveness"]["state"].as_str().unwrap_or_else(|| panic!("no state in {data:#}"))
}

/// The row of `ps` for a pid.
fn listed(asker: &mut Session, pid: u32) -> Value {
    let (ps, code) = asker.whoseenv(&["ps", "--user", USER, "--json"]);
    assert_eq!(code, 0);
    let rows = ps["data"]["processes"].as_array().expect("rows");
    rows.iter().find(|row| row["pid"] == pid).unwrap_or_else(|| panic!("no {pid} in {ps:#}")).clone()
}

/// The story, told of SSH_AUTH_SOCK: with the login it is alive and the login's; after it, gone.
#[test]
fn a_forwarded_agent_lives_as_long_as_its_login() {
    let world = need!(World::new());
    let agent = need!(Agent::start(world.dir()));
    let mut a = need!(world.login(Login::from(2, &world.user).agent(&agent)));
    let mut b = need!(world.login(Login::from(3, &world.user)));
    let sleeper = a.spawn("sleep 300");
    let pid = sleeper.pid.to_string();
    let connection = a.connection().to_owned();
    assert_eq!(state(&owner(&mut b, "SSH_AUTH_SOCK", &pid)), "alive");
    let (connected, _) = b.whoseenv(&["owner", "SSH_AUTH_SOCK", &pid, "--connect", "--json"]);
    assert_eq!((state(&connected["data"]), &connected["data"]["liveness"]["how"]), ("alive", &json!("connects")));
    a.disconnect();
    let gone = owner(&mut b, "SSH_AUTH_SOCK", &pid);
    assert_eq!((state(&gone), &gone["birth_connection"]), ("dangling", &json!(connection)));
    sleeper.stop();
}

/// An agent of one's own that crashes leaves its socket file behind: refused, not dangling, and not alive.
#[test]
fn a_crashed_agent_refuses_and_a_restarted_one_on_its_path_is_alive() {
    let world = need!(World::new());
    let dir = world.user.private_dir(&world.dir().join("agent"));
    let agent = need!(Agent::start_as(&world.user, &dir));
    let mut login = need!(world.login(Login::from(2, &world.user)));
    let sleeper = login.spawn(&format!("env SSH_AUTH_SOCK={} sleep 300", agent.socket.display()));
    let pid = sleeper.pid.to_string();
    assert_eq!(state(&owner(&mut login, "SSH_AUTH_SOCK", &pid)), "alive");
    let socket = agent.socket.clone();
    agent.crash();
    assert!(socket.exists());
    assert_eq!(state(&owner(&mut login, "SSH_AUTH_SOCK", &pid)), "refused");
    std::fs::remove_file(&socket).unwrap();
    assert_eq!(state(&owner(&mut login, "SSH_AUTH_SOCK", &pid)), "dangling");
    // A stable path outlives its server: younger than the process, and all the same what it is meant to be.
    let again = need!(Agent::start_as(&world.user, &dir));
    let (document, _) = need!(world.ask_as_root(&mut login, &["owner", "SSH_AUTH_SOCK", &pid, "--json"]));
    assert_eq!((state(&document["data"]), &document["data"]["owner"]["pid"]), ("alive", &json!(again.pid())));
    sleeper.stop();
}

/// The story, told of WAYLAND_DISPLAY.
#[test]
fn a_compositor_is_alive_then_gone_and_a_crash_leaves_a_file_that_refuses() {
    let world = need!(World::new());
    let runtime = world.dir().join("runtime");
    let mut wayland = need!(Wayland::start(&world.user, &runtime, "wayland-7"));
    let mut login = need!(world.login(Login::from(2, &world.user)));
    login.stdout(&format!("export XDG_RUNTIME_DIR={} WAYLAND_DISPLAY=wayland-7", runtime.display()));
    let service = need!(Opencode::service(Start::In(&mut login)));
    let pid = service.pid().to_string();
    let alive = owner(&mut login, "WAYLAND_DISPLAY", &pid);
    assert_eq!((state(&alive), &alive["kind"]), ("alive", &json!("wayland_display")));
    // An absolute path is as good a value.
    let absolute = wayland.socket().display().to_string();
    let by_path = login.spawn(&format!("env WAYLAND_DISPLAY={absolute} sleep 300"));
    assert_eq!(state(&owner(&mut login, "WAYLAND_DISPLAY", &by_path.pid.to_string())), "alive");
    let (document, _) = need!(world.ask_as_root(&mut login, &["owner", "WAYLAND_DISPLAY", &pid, "--json"]));
    assert_eq!((&document["data"]["owner"]["pid"], &document["data"]["owner"]["comm"]), (&json!(wayland.pid()), &json!("weston")));

    wayland.stop();
    assert!(!runtime.join("wayland-7").exists());
    login.stdout("unset WAYLAND_DISPLAY");
    let (document, code) = doctor(&mut login);
    let dangling = one(&document, "wayland.dangling");
    assert_eq!((code, &dangling["severity"], &dangling["outcome"]), (1, &json!("error"), &json!("confirmed")));
    assert_eq!(state(&owner(&mut login, "WAYLAND_DISPLAY", &by_path.pid.to_string())), "dangling");

    wayland = need!(Wayland::start(&world.user, &runtime, "wayland-7"));
    assert_eq!(state(&owner(&mut login, "WAYLAND_DISPLAY", &pid)), "alive", "a compositor on the same path again");
    wayland.crash();
    assert!(runtime.join("wayland-7").exists());
    let (document, _) = doctor(&mut login);
    assert_eq!(one(&document, "wayland.refused")["severity"], "error");
    assert!(findings(&document, "wayland.dangling").is_empty());
    by_path.stop();
}

/// D-Bus: the address of a bus that runs, and of one that has ended.
#[test]
fn a_session_bus_is_alive_then_gone() {
    let world = need!(World::new());
    let dir = world.user.private_dir(&world.dir().join("runtime"));
    let bus = need!(Bus::start(&world.user, &dir));
    let mut login = need!(world.login(Login::from(2, &world.user)));
    let sleeper = login.spawn(&format!("env DBUS_SESSION_BUS_ADDRESS={} sleep 300", quoted(&bus.address)));
    let pid = sleeper.pid.to_string();
    let (document, _) = need!(world.ask_as_root(&mut login, &["owner", "DBUS_SESSION_BUS_ADDRESS", &pid, "--json"]));
    let data = &document["data"];
    assert_eq!((state(data), &data["kind"], &data["owner"]["pid"]), ("alive", &json!("bus_address"), &json!(bus.pid())));
    let (document, _) = login.whoseenv(&["owner", "DBUS_SESSION_BUS_ADDRESS", &pid, "--connect", "--json"]);
    assert_eq!((state(&document["data"]), &document["data"]["liveness"]["how"]), ("alive", &json!("connects")));
    let socket = bus.socket.clone();
    bus.stop();
    let expected = if socket.exists() { "refused" } else { "dangling" };
    assert_eq!(state(&owner(&mut login, "DBUS_SESSION_BUS_ADDRESS", &pid)), expected);
    let _ = std::fs::remove_file(&socket);
    assert_eq!(state(&owner(&mut login, "DBUS_SESSION_BUS_ADDRESS", &pid)), "dangling");
    sleeper.stop();
}

/// tmux: the server was started in login A, and login B attaches. What B brought is in the session's layer; the shell in
/// the pane still has what A had.
#[test]
fn a_pane_keeps_what_its_session_layer_has_renewed() {
    const WINDOW: Terminal = Terminal::Window { columns: 100, rows: 30 };
    let world = need!(World::new());
    let login = |last| world.login(Login::from(last, &world.user).x11(X11::Trusted).terminal(WINDOW));
    let mut a = need!(login(2));
    let tmux = need!(Tmux::start_in(&mut a, "work"));
    let mut b = need!(login(3));
    a.disconnect();
    let brought = b.display().to_owned();
    tmux.attach(&mut b);
    assert_eq!(tmux.ask(&["show-environment", "-t", "main", "DISPLAY"]).trim(), format!("DISPLAY={brought}"));

    // In the pane, as its user types it. Files, since the pane is 80 columns of somebody else's window.
    let home = world.user.home.clone();
    let asked = |number: u32, arguments: &str| -> (Value, i32) {
        let (out, rc) = (home.join(format!("pane-{number}.json")), home.join(format!("pane-{number}.rc")));
        let line =
            format!("{} {arguments} >{} 2>/dev/null; echo $? >{}_; mv {2}_ {2}", world.whoseenv.display(), out.display(), rc.display());
        tmux.ask(&["send-keys", "-t", "main", "-l", &line]);
        tmux.ask(&["send-keys", "-t", "main", "Enter"]);
        wait_until("the answer from the pane", || rc.exists());
        let json = std::fs::read_to_string(&out).unwrap();
        (
            serde_json::from_str(&json).unwrap_or_else(|error| panic!("{error}: {json}")),
            std::fs::read_to_string(&rc).unwrap().trim().parse().unwrap(),
        )
    };
    let (diff, code) = asked(1, "diff tmux:main self --json");
    assert_eq!(code, 1, "{diff:#}");
    let display = row(&diff, "DISPLAY");
    assert_eq!(
        (&display["state"], &display["a"]["value"], &display["b"]["value"]),
        (&json!("differs"), &json!(brought), &json!(world.display(0)))
    );
    assert_eq!((&display["liveness_a"]["state"], &display["liveness_b"]["state"]), (&json!("alive"), &json!("refused")));
    assert!(row(&diff, "SSH_CONNECTION")["a"]["value"].as_str().unwrap().starts_with("127.0.0.3 "));
    assert!(row(&diff, "SSH_CONNECTION")["b"]["value"].as_str().unwrap().starts_with("127.0.0.2 "));

    let (document, code) = asked(2, "doctor --user weuser --json");
    assert_eq!(code, 1);
    let stale = one(&document, "multiplexer.pane_stale");
    assert_eq!((&stale["severity"], &stale["outcome"]), (&json!("warning"), &json!("confirmed")));
    assert!(stale["message"].as_str().unwrap().contains("127.0.0.3"), "{stale:#}");
    assert!(fix(stale).contains("show-environment -s"));

    let (document, code) = asked(3, "owner TMUX --json");
    let data = &document["data"];
    assert_eq!((code, &data["kind"], state(data)), (0, &json!("tmux"), "alive"), "{data:#}");
    assert_eq!(data["owner"]["pid"], tmux.pid());

    // What the fix says does what it promises.
    tmux.ask(&["send-keys", "-t", "main", "-l", &fix(stale)]);
    tmux.ask(&["send-keys", "-t", "main", "Enter"]);
    let (document, _) = asked(4, "owner DISPLAY --json");
    assert_eq!((&document["data"]["query"]["value"], state(&document["data"])), (&json!(brought), "alive"));
    let (document, _) = asked(5, "doctor --user weuser --json");
    assert!(findings(&document, "multiplexer.pane_stale").is_empty(), "{document:#}");

    // The server ends; what the processes of its panes carry names nobody's server any more.
    let carrier = b.account.clone();
    let environ = look::Process::read(tmux.pane).unwrap().var("TMUX").unwrap();
    let sleeper = world.user.command("sleep").arg("300").env("TMUX", &environ).spawn().unwrap();
    let mut sleeper = crate::run::Sleeper(sleeper);
    let pid = sleeper.pid();
    tmux.stop();
    let mut c = need!(world.login(Login::from(5, &carrier)));
    let gone = owner(&mut c, "TMUX", &pid);
    assert!(["dangling", "refused"].contains(&state(&gone)), "{gone:#}");
    let _ = sleeper.0.kill();
}

/// ControlMaster: two logins over one connection have two displays, and both belong to it.
#[test]
fn two_displays_of_one_connection_are_both_its_own() {
    let world = need!(World::new());
    let socket = world.dir().join("master");
    let mut first = need!(world.login(Login::from(2, &world.user).x11(X11::Trusted).master(&socket)));
    let second = need!(world.login(Login::from(2, &world.user).x11(X11::Trusted).over(&socket)));
    assert_eq!((first.display(), second.display()), (world.display(0).as_str(), world.display(1).as_str()));
    let connection = first.connection().to_owned();
    for shell in [first.shell(), second.shell()] {
        let pid = shell.to_string();
        let as_user = owner(&mut first, "DISPLAY", &pid);
        assert_eq!(state(&as_user), "alive", "{as_user:#}");
        let (document, _) = need!(world.ask_as_root(&mut first, &["owner", "DISPLAY", &pid, "--json"]));
        let data = &document["data"];
        assert_eq!(
            (state(data), &data["same_connection"], &data["owner"]["connection"]),
            ("alive", &json!(true), &json!(connection)),
            "{data:#}"
        );
    }
    // The second ends and the connection stays: its display is gone, and nobody else's.
    let left = first.spawn(&format!("env DISPLAY={} sleep 300", second.display()));
    second.disconnect();
    assert_eq!(state(&owner(&mut first, "DISPLAY", &left.pid.to_string())), "refused");
    left.stop();
}

/// `ssh -X` past its timeout: the port listens, and whoever opens a window is turned away.
#[test]
fn an_untrusted_display_past_its_time_looks_alive_and_rejects() {
    let world = need!(World::new());
    let mut login = need!(world.login(Login::from(2, &world.user).x11(X11::Untrusted { timeout: 1 })));
    let cookie = login.cookie();
    wait_until("the end of the untrusted display's time", || greet(world.port(0), &cookie) == Greeting::Closed);
    let passive = owner(&mut login, "DISPLAY", "self");
    assert_eq!((state(&passive), &passive["liveness"]["how"]), ("alive", &json!("passive")));
    let (document, _) = login.whoseenv(&["owner", "DISPLAY", "--connect", "--json"]);
    let data = &document["data"];
    assert_eq!((state(data), &data["liveness"]["how"]), ("rejected", &json!("connects")), "{data:#}");
    let (document, code) = login.whoseenv(&["doctor", "--user", USER, "--connect", "--json"]);
    assert_eq!((code, &one(&document, "display.rejected")["severity"]), (1, &json!("error")));

    // A trusted one, opened, is what it seems.
    let mut trusted = need!(world.user_from(3));
    let (document, _) = trusted.whoseenv(&["owner", "DISPLAY", "--connect", "--json"]);
    assert_eq!((state(&document["data"]), &document["data"]["liveness"]["how"]), ("alive", &json!("connects")));
}

/// From OpenSSH 9.8 on a login's process is called `sshd-session`: a machine made up after that.
#[test]
fn the_processes_of_openssh_9_8_are_known_for_what_they_are() {
    const A: &str = "SSH_CONNECTION=192.0.2.7 50001 192.0.2.1 22";
    let mut made = MadeUp::new();
    made.tcp("127.0.0.1:6010", None, 610);
    made.tcp("192.0.2.1:22", Some("192.0.2.7:50001"), 901);
    let argv = ["sshd-session: ann@pts/0"];
    made.process(&Made {
        pid: 50,
        ppid: 1,
        comm: "sshd-session",
        exe: "/usr/lib/openssh/sshd-session",
        argv: &argv,
        sockets: &[901, 610],
        ..Made::default()
    });
    let environ = [A, "DISPLAY=localhost:10.0", "PATH=/usr/bin"];
    made.process(&Made { pid: 51, ppid: 50, comm: "bash", exe: "/usr/bin/bash", argv: &["-bash"], environ: &environ, ..Made::default() });
    made.terminal(&["PATH=/usr/bin"]);
    let (document, code) = made.ask(&["owner", "DISPLAY", "51", "--json"]);
    let data = &document["data"];
    assert_eq!((code, state(data), &data["same_connection"]), (0, "alive", &json!(true)), "{data:#}");
    assert_eq!(
        (&data["owner"]["pid"], &data["owner"]["comm"], &data["owner"]["connection"]),
        (&json!(50), &json!("sshd-session"), &json!("192.0.2.7 50001 192.0.2.1 22"))
    );
}

/// SSH_TTY: the login's own while it lasts; then gone, or the same number on somebody else's terminal.
#[test]
fn a_terminal_s_number_is_given_away_when_its_login_ends() {
    let world = need!(World::new());
    let mut a = need!(world.login(Login::from(2, &world.user).terminal(Terminal::Tty)));
    let tty = a.var("SSH_TTY").expect("a terminal").to_owned();
    // Started as a daemon is: on no terminal itself.
    a.stdout("setsid -f sleep 300.271 >/dev/null 2>&1");
    let sleeper = look::wait_for("the daemon", || {
        let found = look::processes().into_iter().find(|process| process.argv() == ["sleep", "300.271"] && process.tty_nr == 0)?;
        Other::new(found.pid)
    });
    let pid = sleeper.pid.to_string();
    let mut b = need!(world.login(Login::from(3, &world.user).terminal(Terminal::Tty)));
    assert_eq!(state(&owner(&mut b, "SSH_TTY", &pid)), "alive");
    a.disconnect();
    wait_until("the end of the terminal", || !std::path::Path::new(&tty).exists());
    assert_eq!(state(&owner(&mut b, "SSH_TTY", &pid)), "dangling");
    // The kernel gives out the lowest free number: to C, unless somebody else on the machine was faster.
    let c = need!(world.login(Login::from(5, &world.user).terminal(Terminal::Tty)));
    wait_until("the number to be somebody's", || std::path::Path::new(&tty).exists());
    let reused = owner(&mut b, "SSH_TTY", &pid);
    assert_eq!((state(&reused), &reused["same_connection"]), ("reused", &json!(false)), "{reused:#}");
    if c.var("SSH_TTY") == Some(&tty) {
        assert_eq!(reused["owner"]["connection"], c.connection());
    }
    sleeper.stop();
}

/// `sudo whoseenv`: the terminal is the person's, with her environment, and the answer has root's eyes.
#[test]
fn sudo_keeps_the_person_s_terminal() {
    let world = need!(World::new());
    let mut login = need!(world.login(Login::from(2, &world.user).x11(X11::Trusted).terminal(Terminal::Tty)));
    login.stdout("export XDG_EXPORTED_LATER=yes");
    let (mine, _) = login.whoseenv(&["show", "self", "--json"]);
    let (roots, code) = need!(world.ask_as_root(&mut login, &["show", "self", "--json"]));
    assert_eq!(code, 0);
    for document in [&mine, &roots] {
        assert_eq!(document["data"]["process"]["pid"], login.shell());
        assert_eq!(document["data"]["birth"]["ssh_connection"], login.connection());
        assert_eq!(variable(document, "DISPLAY")["value"], login.display());
    }
    assert_eq!((&mine["privilege"]["uid"], &roots["privilege"]["uid"]), (&json!(world.user.uid), &json!(0)));
}

/// OpenCode 1.x: the daemon and a tool's shell of it, in `ps` and `show`.
#[test]
fn opencode_v1_and_its_tool_are_daemon_and_tool() {
    let world = need!(World::new());
    // Without any model it starts no shell either.
    Opencode::configure(&world.user, &StubModel::start("true"));
    let mut login = need!(world.user_from(2));
    let server = need!(Opencode::v1(Start::In(&mut login), "serve"));
    let child = server.shell_child();
    let daemon = listed(&mut login, server.pid());
    assert_eq!(
        (&daemon["agent"], &daemon["role"], &daemon["product_version"], &daemon["birth"]["ssh_connection"]),
        (&json!("opencode"), &json!("daemon"), &json!("1.18.34"), &json!(login.connection()))
    );
    let tool = listed(&mut login, child.shell.pid);
    assert_eq!((&tool["agent"], &tool["role"]), (&json!("opencode"), &json!("tool")));
    let (shown, code) = login.whoseenv(&["show", &child.shell.pid.to_string(), "--json"]);
    assert_eq!(
        (code, &shown["data"]["process"]["role"], variable(&shown, "OPENCODE_PID")["value"].as_str()),
        (0, &json!("tool"), Some(server.pid().to_string().as_str()))
    );
    let chain: Vec<u64> = shown["data"]["chain"].as_array().unwrap().iter().filter_map(|link| link["pid"].as_u64()).collect();
    assert_eq!(chain[..2], [u64::from(child.shell.pid), u64::from(server.pid())]);
    // The shell's own block, counted by the kernel's separator.
    let block = std::fs::read(format!("/proc/{}/environ", child.shell.pid)).unwrap();
    assert_eq!(shown["data"]["environment"].as_array().unwrap().len(), block.iter().filter(|byte| **byte == 0).count());
}

/// ZeroClaw: a daemon of no login, and the shell it runs for a client's session.
#[test]
fn a_zeroclaw_shell_names_its_session() {
    let world = need!(World::new());
    let model = StubModel::start("true");
    let config = Zeroclaw::configure(&world.user, &model, &[]);
    let daemon = need!(Zeroclaw::start(Start::as_account(&world.user, &[]), &config));
    let mut login = need!(world.user_from(2));
    let child = daemon.client(&[("DISPLAY", login.display())]).tool_child(&model, &world.user.home);
    let row = listed(&mut login, daemon.pid());
    assert_eq!((&row["agent"], &row["role"], &row["product_version"]), (&json!("zeroclaw"), &json!("daemon"), &json!("0.8.7")));
    let row = listed(&mut login, child.shell.pid);
    assert_eq!((&row["agent"], &row["role"], &row["session_id"]), (&json!("zeroclaw"), &json!("tool"), &json!(child.session_id)));
    // The client's display reached the shell, not the daemon.
    let shell = owner(&mut login, "DISPLAY", &child.shell.pid.to_string());
    assert_eq!((state(&shell), &shell["query"]["value"]), ("alive", &json!(login.display())));
    assert_eq!(login.whoseenv(&["owner", "DISPLAY", &daemon.pid().to_string(), "--json"]).1, 3, "not set there");
    let (document, _) = doctor(&mut login);
    assert_eq!(document["data"]["daemons"][0]["agent"], "zeroclaw");
    assert_eq!(one(&document, "display.missing")["severity"], "warning");
}

/// A service that was killed leaves its registration file: clients look for a process that is gone.
#[test]
fn a_registration_without_its_process_is_found() {
    let world = need!(World::new());
    let mut login = need!(world.user_from(2));
    let service = need!(Opencode::service(Start::In(&mut login)));
    let (document, _) = doctor(&mut login);
    let registration = &document["data"]["daemons"][0]["registration"];
    assert_eq!(
        (&registration["pid"], &registration["pid_is"], &registration["listener"], &registration["deleted_exe"], &registration["version"]),
        (&json!(service.pid()), &json!("agent"), &json!("named"), &json!(false), &json!("0.0.0-next-16350")),
        "{registration:#}"
    );
    let (pid, file) = (service.pid(), service.registration.clone().expect("a service has one"));
    let killed = service.process();
    login.stdout(&format!("kill -9 {pid}"));
    wait_until("the end of the service", || !look::runs(pid, killed.start_ticks));
    assert!(file.exists(), "nobody is left to remove it");
    let (document, code) = doctor(&mut login);
    let stale = one(&document, "registration.pid");
    assert_eq!((code, &stale["severity"], &stale["outcome"]), (1, &json!("error"), &json!("confirmed")));
    assert!(stale["message"].as_str().unwrap().contains(&pid.to_string()), "{stale:#}");
    assert!(evidence(stale).contains(&file.display().to_string()), "{}", evidence(stale));
    assert!(document["data"]["daemons"].as_array().unwrap().is_empty());
    assert!(!document.to_string().contains("password\":"), "no password of the file's is told");
}

/// A copy of the preview under another name, where it can be deleted.
fn copied(world: &World, name: &str) -> Needed<PathBuf> {
    let copy = world.dir().join(name);
    let program = peers::opencode_preview()?;
    if std::fs::hard_link(&program, &copy).is_err() {
        std::fs::copy(&program, &copy).expect("a program can be copied");
    }
    Ok(copy)
}

/// An update replaces the program file under the running daemon.
#[test]
fn a_daemon_whose_program_was_replaced_is_told() {
    let world = need!(World::new());
    let program = need!(copied(&world, "opencode2"));
    let mut login = need!(world.user_from(2));
    let served = login.spawn(&format!("{} serve --port {}", program.display(), look::free_port()));
    wait_until("the server", || login.spawned_log().contains("listening"));
    let (document, _) = doctor(&mut login);
    assert!(findings(&document, "daemon.deleted_exe").is_empty());
    std::fs::remove_file(&program).unwrap();
    let exe = std::fs::read_link(format!("/proc/{}/exe", served.pid)).unwrap().display().to_string();
    assert!(exe.ends_with(" (deleted)"), "{exe}");
    let (document, code) = doctor(&mut login);
    let deleted = one(&document, "daemon.deleted_exe");
    assert_eq!((code, &deleted["severity"], &deleted["outcome"]), (1, &json!("warning"), &json!("confirmed")));
    assert!(evidence(deleted).contains(&exe), "{}", evidence(deleted));
    let row = listed(&mut login, served.pid);
    assert_eq!((&row["agent"], &row["role"], &row["exe"]), (&json!("opencode"), &json!("daemon"), &json!(exe)));
    served.stop();
}

/// What a process is called decides nothing, and what it is decides everything.
#[test]
fn a_decoy_is_no_agent_and_a_renamed_program_is_one() {
    let world = need!(World::new());
    let program = need!(copied(&world, "notes"));
    let mut login = need!(world.user_from(2));
    let script = world.user.home.join("decoy");
    world.user.write(&script, "exec -a opencode sleep 300\n");
    let decoy = login.spawn(&format!("bash {}", script.display()));
    wait_until("the decoy's argv", || look::Process::read(decoy.pid).is_some_and(|process| process.argv() == ["opencode", "300"]));
    let renamed = login.spawn(&format!("bash -c 'exec -a vi {} serve --port {}'", program.display(), look::free_port()));
    wait_until("the server", || login.spawned_log().contains("listening"));
    let (ps, _) = login.whoseenv(&["ps", "--user", USER, "--json"]);
    let rows = ps["data"]["processes"].as_array().unwrap();
    assert!(rows.iter().all(|row| row["pid"] != decoy.pid), "{ps:#}");
    let row = rows.iter().find(|row| row["pid"] == renamed.pid).expect("the renamed server");
    assert_eq!((&row["agent"], &row["role"], &row["product_version"]), (&json!("opencode"), &json!("daemon"), &json!("0.0.0-next-16350")));
    let (ps, _) = login.whoseenv(&["ps", "--all", "--user", USER, "--json"]);
    let row = ps["data"]["processes"].as_array().unwrap().iter().find(|row| row["pid"] == decoy.pid).expect("every process").clone();
    assert_eq!((&row["agent"], &row["role"]), (&Value::Null, &json!("other")));
    decoy.stop();
    renamed.stop();
}

/// A program that was started in a pane carries the tty of the login that started the server: it was never on that one.
#[test]
fn what_was_started_in_a_pane_was_not_born_on_the_login_s_tty() {
    let world = need!(World::new());
    let mut a = need!(world.login(Login::from(2, &world.user).terminal(Terminal::Window { columns: 100, rows: 30 })));
    let tmux = need!(Tmux::start_in(&mut a, "work"));
    let pid = world.user.home.join("started.pid");
    let line = format!("setsid sh -c 'echo $$ >{0}_; mv {0}_ {0}; exec sleep 600' &", pid.display());
    tmux.ask(&["send-keys", "-t", "main", "-l", &line]);
    tmux.ask(&["send-keys", "-t", "main", "Enter"]);
    wait_until("the program in the pane", || pid.exists());
    let pid = std::fs::read_to_string(&pid).unwrap().trim().to_owned();
    let tty = a.var("SSH_TTY").expect("a login with a terminal").to_owned();
    wait_until("setsid", || look::Process::read(pid.parse().unwrap()).is_some_and(|process| process.comm == "sleep"));
    let (show, _) = a.whoseenv(&["show", &pid, "--json"]);
    assert_eq!(variable(&show, "SSH_TTY")["value"], tty);
    assert!(show["data"]["birth"].get("tty").is_none(), "{:#}", show["data"]["birth"]);
    assert!(show["data"]["birth"]["tmux"].as_str().unwrap().starts_with(tmux.socket.to_str().unwrap()));
    let (ps, _) = a.whoseenv(&["ps", "--all", "--pid", &pid, "--json"]);
    assert_eq!(ps["data"]["processes"][0]["birth"], show["data"]["birth"]);
    Other::new(pid.parse().unwrap()).unwrap().stop();
}

/// Whatever its owner runs is looked through for a socket that no sshd and no X server has, and by path as by name.
#[test]
fn who_listens_is_found_among_what_the_socket_s_owner_runs() {
    let world = need!(World::new());
    let perl = need!(need::tool("perl", "perl-base"));
    let mut a = need!(world.user_from(2));
    let number = (48..200).find(|number| look::listeners(6000 + number).is_empty()).unwrap();
    let script =
        format!("$s = IO::Socket::INET->new(LocalAddr => \"127.0.0.1\", LocalPort => {}, Listen => 1) or die; sleep 600", 6000 + number);
    let listener = a.spawn(&format!("{} -MIO::Socket::INET -e {}", perl.display(), quoted(&script)));
    wait_until("the listener", || !look::listeners(6000 + number).is_empty());
    let tmux = need!(Tmux::start_in(&mut a, "inner"));
    let comm = look::Process::read(listener.pid).unwrap().comm;
    let display = format!("localhost:{number}.0");
    let socket = tmux.socket.to_str().unwrap().to_owned();
    let inherited = a.display().to_owned();
    a.stdout(&format!("export DISPLAY={display}"));
    let sleeper = a.spawn("setsid sleep 600");
    let pid = sleeper.pid.to_string();
    for root in [false, true] {
        let mut ask = |arguments: &[&str]| match root {
            true => Needed::Ok(world.ask_as_root(&mut a, arguments)?),
            false => Ok(a.whoseenv(arguments)),
        };
        let (owner, _) = need!(ask(&["owner", "DISPLAY", &pid, "--json"]));
        // Nobody can say whether it speaks X. That it is no sshd is known, and so is its name.
        let data = &owner["data"];
        assert_eq!((&data["owner"]["pid"], &data["owner"]["comm"]), (&json!(listener.pid), &json!(comm)), "root {root}: {owner:#}");
        assert_eq!(data["liveness"]["state"], "unknown", "{owner:#}");
        assert!(!owner.to_string().contains("may not be read from this account"), "{owner:#}");
        let (owner, _) = need!(ask(&["owner", &socket, "--json"]));
        assert_eq!(
            (&owner["data"]["liveness"]["state"], &owner["data"]["owner"]["pid"]),
            (&json!("alive"), &json!(tmux.pid())),
            "root {root}: {owner:#}"
        );
    }
    // Born in a login that has ended, it is not that login's forward.
    a.disconnect();
    let mut b = need!(world.user_from(3));
    let (owner, _) = b.whoseenv(&["owner", "DISPLAY", &pid, "--json"]);
    assert_eq!(
        (&owner["data"]["liveness"]["state"], &owner["data"]["owner"]["pid"]),
        (&json!("reused"), &json!(listener.pid)),
        "{owner:#}"
    );
    assert_ne!(inherited, display);
    sleeper.stop();
    listener.stop();
}

/// GNU screen itself: server, window and the line that doctor gives for a display that is gone, pasted.
#[test]
fn a_real_screen_is_known_and_told_what_is_gone() {
    need!(tool("screen", "screen"));
    let dir = tempfile::tempdir().unwrap();
    let sockets = dir.path().join("sockets");
    std::fs::create_dir(&sockets).unwrap();
    std::fs::set_permissions(&sockets, std::fs::Permissions::from_mode(0o700)).unwrap();
    let command = |program: &str| {
        let mut command = Command::new(program);
        command.env_clear().env("PATH", "/usr/bin:/bin").env("HOME", dir.path()).env("SCREENDIR", &sockets).stdin(Stdio::null());
        command
    };
    let screen = |arguments: &[&str]| command("screen").env("DISPLAY", ":7779").args(arguments).status().unwrap();
    screen(&["-dmS", "we", "sh", "-c", "echo $$ > $HOME/first; exec sleep 600"]);
    let window = |name: &str| {
        let mut pid = String::new();
        wait_until("a window of screen", || {
            pid = std::fs::read_to_string(dir.path().join(name)).unwrap_or_default().trim().to_owned();
            !pid.is_empty()
        });
        pid
    };
    let first = window("first");
    let ask = |arguments: &[&str]| crate::run::ran(command(crate::run::PROGRAM).args(arguments).arg("--json")).json();
    let sty = ask(&["owner", "STY", &first]);
    let server = sty["data"]["owner"]["pid"].to_string();
    assert_eq!((&sty["data"]["liveness"]["state"], &sty["data"]["owner"]["comm"]), (&json!("alive"), &json!("screen")), "{sty:#}");
    assert_eq!(sty["data"]["query"]["value"], json!(format!("{server}.we")));
    let listed = ask(&["ps", "--pid", &server]);
    assert_eq!(
        (&listed["data"]["processes"][0]["agent"], &listed["data"]["processes"][0]["role"]),
        (&json!("screen"), &json!("multiplexer"))
    );
    let document = ask(&["doctor", "--pid", &server]);
    assert_eq!(document["status"], "not_found", "a multiplexer is no daemon");
    let document = ask(&["doctor", "--agent", "screen"]);
    let finding = document["findings"].as_array().unwrap().iter().find(|finding| finding["subject"].to_string().contains(&server));
    let lines = fix(finding.unwrap_or_else(|| panic!("{document:#}")));
    assert!(lines.starts_with(&format!("screen -S {server}.we -X unsetenv DISPLAY")), "{lines}");
    assert!(command("sh").args(["-c", &lines]).status().unwrap().success(), "{lines}");
    screen(&["-S", "we", "-X", "screen", "sh", "-c", "echo $$ > $HOME/second; exec sleep 600"]);
    let set = |pid: &str| ask(&["show", pid])["data"]["environment"].as_array().unwrap().iter().any(|row| row["name"] == "DISPLAY");
    assert_eq!((set(&first), set(&window("second"))), (true, false));
    let mut orphan = command("sleep");
    let orphan = Sleeper::of(orphan.env("STY", format!("{server}.we")).arg("600"));
    screen(&["-S", "we", "-X", "quit"]);
    let state = || ask(&["owner", "STY", &orphan.pid()])["data"]["liveness"]["state"].clone();
    wait_until("the end of screen", || state() == "dangling");
}
