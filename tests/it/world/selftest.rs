//! The harness, tried on itself: what each part claims, read back from the kernel or from another program.

use super::daemons::{Client, Opencode, Start, Zeroclaw};
use super::display::{Greeting, greet};
use super::look::{self, Process, wait_until};
use super::parts::{Agent, Bus, Tmux};
use super::sshd::{Login, Terminal, X11};
use super::stub_model::StubModel;
use super::wayland::Wayland;
use super::world::alone;
use super::{Story, World, peers};
use serde_json::json;

const WINDOW: Terminal = Terminal::Window { columns: 40, rows: 24 };

#[test]
fn the_story_s_states_are_real() {
    let mut story = need!(Story::new());
    let (first, port) = (story.world.display(0), story.world.port(0));
    assert_eq!((story.birth_display.as_str(), story.b.display()), (first.as_str(), story.world.display(1).as_str()));
    let a = story.a.as_ref().expect("A is connected");
    let (client, server) = a.ends();
    assert_eq!((client.ip().to_string(), server.port()), ("127.0.0.2".into(), story.world.sshd.port));
    assert_eq!(look::server_row(client, server).map(|r| r.state), Some(look::ESTABLISHED));

    // 1: the service was born in A, and has A's environment.
    let daemon = story.service.process();
    assert_eq!((daemon.comm.as_str(), daemon.ppid, daemon.tty_nr), ("opencode2", 1, 0));
    assert_eq!(daemon.var("DISPLAY").as_ref(), Some(&story.birth_display));
    assert_eq!(daemon.var("SSH_CONNECTION").as_ref(), Some(&story.birth_connection));

    // Both loopbacks listen, and the rows carry the account's uid, not sshd's.
    let rows = look::listeners(port);
    assert_eq!(rows.iter().map(|r| r.local.to_string()).collect::<Vec<_>>(), [format!("127.0.0.1:{port}"), format!("[::1]:{port}")]);
    assert!(rows.iter().all(|r| r.uid == story.world.user.uid));

    // 2: A goes; its port refuses at once, and the daemon stays.
    story.a_disconnects();
    assert_eq!(look::server_row(client, server), None);
    assert!(look::listeners(port).is_empty() && !look::listeners(story.world.port(1)).is_empty());
    assert!(story.service.process().runs());

    // 3: C is given the number that was A's.
    need!(story.c_logs_in());
    let c = story.c.as_ref().expect("C is connected");
    assert_eq!(c.display(), first);
    assert_ne!(c.connection(), story.birth_connection);

    // 4: a stranger sees that the daemon is there, and not what is in it.
    let stranger = need!(story.stranger());
    assert_eq!(stranger.display(), story.world.display(2));
    let environ = format!("/proc/{}/environ", story.service.pid());
    let denied = story.world.stranger.act(move || std::fs::read(environ)).expect_err("not a stranger's to read");
    assert_eq!(denied.kind(), std::io::ErrorKind::PermissionDenied);
}

#[test]
fn an_account_may_not_look_into_its_own_sshd() {
    let world = need!(World::new());
    let login = need!(world.user_from(2));
    let sshd = Process::read(login.shell()).and_then(|shell| Process::read(shell.ppid)).expect("sshd is the shell's parent");
    assert_eq!((sshd.comm.starts_with("sshd"), sshd.uid), (true, world.user.uid), "{sshd:?}");
    for secret in ["environ", "fd"] {
        let path = format!("/proc/{}/{secret}", sshd.pid);
        let denied = world.user.act(move || std::fs::read_dir(&path).map(drop).and_then(|()| std::fs::read(&path).map(drop)));
        let denied = denied.expect_err("sshd is not dumpable");
        assert!(secret == "environ" || denied.kind() == std::io::ErrorKind::PermissionDenied, "{secret}: {denied}");
    }
}

#[test]
fn a_trusted_display_shows_windows_to_those_with_its_cookie() {
    let world = need!(World::new());
    let mut login = need!(world.user_from(2));
    let cookie = login.cookie();
    assert_eq!(greet(world.port(0), &cookie), Greeting::Accepted);
    assert_eq!(greet(world.port(0), &"00".repeat(16)), Greeting::Closed);
    login.disconnect();
    assert_eq!(greet(world.port(0), &cookie), Greeting::NoListener);
}

#[test]
fn an_untrusted_display_past_its_time_listens_and_rejects() {
    let world = need!(World::new());
    let wanted = Login::from(2, &world.user).x11(X11::Untrusted { timeout: 1 });
    let mut login = need!(world.login(wanted));
    let cookie = login.cookie();
    wait_until("the end of the untrusted display's time", || greet(world.port(0), &cookie) == Greeting::Closed);
    assert!(!look::listeners(world.port(0)).is_empty());
}

#[test]
fn two_logins_over_one_connection_have_two_displays() {
    let world = need!(World::new());
    let socket = world.dir().join("master");
    let master = need!(world.login(Login::from(2, &world.user).x11(X11::Trusted).master(&socket)));
    let second = need!(world.login(Login::from(2, &world.user).x11(X11::Trusted).over(&socket)));
    assert_eq!((master.display(), second.display()), (world.display(0).as_str(), world.display(1).as_str()));
    assert_eq!(master.connection(), second.connection());
    let sshd = |shell: u32| Process::read(shell).map(|p| p.ppid);
    assert_eq!(sshd(master.shell()), sshd(second.shell()));
    second.disconnect();
    assert!(look::listeners(world.port(1)).is_empty() && !look::listeners(world.port(0)).is_empty());
}

#[test]
fn a_forwarded_agent_answers_and_goes_with_its_login() {
    let world = need!(World::new());
    let agent = need!(Agent::start(world.dir()));
    let mut login = need!(world.login(Login::from(2, &world.user).agent(&agent)));
    let socket = std::path::PathBuf::from(login.var("SSH_AUTH_SOCK").expect("the agent is forwarded"));
    assert!(look::unix_socket_listens(&socket));
    assert!(login.stdout("ssh-add -l").contains("whoseenv-test-key"));
    login.disconnect();
    assert!(!socket.exists() && !look::unix_socket_listens(&socket));
}

#[test]
fn a_compositor_s_socket_goes_with_it_and_stays_after_a_crash() {
    let world = need!(World::new());
    let runtime = world.dir().join("runtime");
    let wayland = need!(Wayland::start(&world.user, &runtime, "wayland-7"));
    let socket = wayland.socket();
    assert_eq!(Process::read(wayland.pid()).map(|p| (p.comm, p.uid)), Some(("weston".into(), world.user.uid)));
    wayland.stop();
    assert!(!socket.exists());
    need!(Wayland::start(&world.user, &runtime, "wayland-7")).crash();
    assert!(socket.exists() && !look::unix_socket_listens(&socket));
}

#[test]
fn a_bus_and_an_agent_of_the_account_s_own() {
    let world = need!(World::new());
    let dir = world.user.private_dir(&world.dir().join("runtime"));
    let bus = need!(Bus::start(&world.user, &dir));
    assert!(bus.address.starts_with(&format!("unix:path={}", bus.socket.display())), "{}", bus.address);
    let agent = need!(Agent::start_as(&world.user, &dir));
    for (pid, socket) in [(bus.pid(), &bus.socket), (agent.pid(), &agent.socket)] {
        assert!(look::unix_socket_listens(socket));
        assert_eq!(Process::read(pid).map(|p| p.uid), Some(world.user.uid));
    }
    let socket = agent.socket.clone();
    agent.crash();
    assert!(socket.exists() && !look::unix_socket_listens(&socket));
}

#[test]
fn tmux_started_in_one_login_is_attached_from_another() {
    let world = need!(World::new());
    let terminal = |last| Login::from(last, &world.user).x11(X11::Trusted).terminal(WINDOW);
    let mut a = need!(world.login(terminal(2)));
    let tmux = need!(Tmux::start_in(&mut a, "work"));
    a.disconnect();
    let mut b = need!(world.login(terminal(3)));
    assert_eq!(b.display(), world.display(0), "A's number is free again");
    let mut c = need!(world.login(terminal(5)));
    tmux.attach(&mut c);
    // Three layers: the pane has A's, the session has what the attached client brought.
    let pane = Process::read(tmux.pane).expect("the pane's shell runs");
    assert_eq!(pane.var("SSH_CONNECTION").map(|c| c.starts_with("127.0.0.2 ")), Some(true));
    assert_eq!(tmux.ask(&["show-environment", "-t", "main", "DISPLAY"]).trim(), format!("DISPLAY={}", world.display(1)));
    assert_eq!(tmux.ask(&["show-environment", "-g", "DISPLAY"]).trim(), format!("DISPLAY={}", world.display(0)));
    assert_eq!(b.stdout("echo still here").trim(), "still here");
}

#[test]
fn a_window_shows_what_a_person_sees() {
    let world = need!(World::new());
    let mut login = need!(world.login(Login::from(2, &world.user).terminal(WINDOW)));
    assert!(login.var("SSH_TTY").is_some_and(|tty| tty.starts_with("/dev/pts/")));
    assert_eq!(login.stdout("stty size </dev/tty").trim(), "24 40");
    // Exactly what is printed, wrapped where the window ends.
    let line = "0123456789".repeat(5);
    assert_eq!(login.seen(&format!("echo {line}; echo grün")), format!("{}\n{}\ngrün", &line[..40], &line[40..]));
    login.resize(80, 24);
    assert_eq!(login.seen(&format!("echo {line}; echo grün")), format!("{line}\ngrün"));
}

#[test]
fn commands_come_back_exactly() {
    let world = need!(World::new());
    for terminal in [Terminal::None, Terminal::Tty, WINDOW] {
        let mut login = need!(world.login(Login::from(2, &world.user).terminal(terminal)));
        let answer = login.run("printf 'a\\nb'; printf 'no\\tnewline' >&2; cd /tmp; (exit 7)");
        assert_eq!((answer.stdout.as_str(), answer.stderr.as_str(), answer.code), ("a\nb", "no\tnewline", 7));
        assert_eq!(login.stdout("pwd").trim(), "/tmp");
        assert_eq!(login.run("(((").code, 2, "a broken script is an answer too");
        assert_eq!(login.program("/bin/echo".as_ref(), &["it's", "$HOME", ""]).stdout, "it's $HOME \n");
    }
}

#[test]
fn root_asks_from_a_user_s_own_shell() {
    let world = need!(World::new());
    let mut login = need!(world.login(Login::from(2, &world.user).x11(X11::Trusted).terminal(Terminal::Tty)));
    let script = "echo $(id -ru) $(id -u) $PPID $SUDO_UID $DISPLAY; tty </dev/tty >/dev/null && echo tty";
    let answer = need!(world.as_root(&mut login, "/bin/sh".as_ref(), &["-c", script]));
    assert_eq!(answer.stdout, format!("0 0 {} {} {}\ntty\n", login.shell(), world.user.uid, world.display(0)), "{answer:?}");
    assert!(!world.dir().join("sudo").exists());
}

#[test]
fn opencode_v1_and_what_it_runs() {
    let world = need!(World::new());
    let model = StubModel::start("true");
    Opencode::configure(&world.user, &model);
    let mut login = need!(world.user_from(2));
    let server = need!(Opencode::v1(Start::In(&mut login), "serve"));
    assert_eq!(server.process().comm, "opencode");
    for child in [server.shell_child(), server.tool_child(&model)] {
        let shell = child.process();
        assert_eq!((shell.comm.as_str(), shell.ppid), ("bash", server.pid()));
        assert_eq!(shell.var("OPENCODE_PID"), Some(server.pid().to_string()));
        assert_eq!(shell.var("DISPLAY").as_ref(), Some(&world.display(0)));
    }
}

#[test]
fn the_preview_in_the_foreground_and_what_it_runs() {
    let world = need!(World::new());
    let model = StubModel::start("true");
    Opencode::configure(&world.user, &model);
    let start = Start::as_account(&world.user, &[("DISPLAY", "localhost:99.0")]);
    let server = need!(Opencode::preview_serve(start));
    assert_eq!(server.registration, None);
    for child in [server.shell_child(), server.tool_child(&model)] {
        let shell = child.process();
        assert_eq!((shell.comm.as_str(), shell.ppid), ("bash", server.pid()));
        assert_eq!(shell.var("OPENCODE_TERMINAL").as_deref(), Some("1"));
        assert_eq!(shell.var("DISPLAY").as_deref(), Some("localhost:99.0"));
    }
    let process = server.process();
    server.stop();
    assert!(!look::runs(process.pid, process.start_ticks));
}

#[test]
fn a_standalone_client_has_a_server_of_its_own() {
    let world = need!(World::new());
    let program = need!(peers::opencode_preview());
    let mut window = need!(world.login(Login::from(2, &world.user).x11(X11::Trusted).terminal(Terminal::Window { columns: 80, rows: 24 })));
    let client = Client::start_in(&mut window, &program, &["--standalone"]);
    let server = client.child("the private server", |p| p.argv().iter().any(|a| a == "--stdio"));
    assert!(server.var("OPENCODE_PASSWORD").is_some() && server.tty_nr == 0);
    assert_eq!(server.var("DISPLAY").as_ref(), Some(&world.display(0)));
    client.stop();
    wait_until("the server to follow its client", || !look::runs(server.pid, server.start_ticks));
}

#[test]
fn zeroclaw_and_what_it_runs() {
    let world = need!(World::new());
    let model = StubModel::start("true");
    let config = Zeroclaw::configure(&world.user, &model, &["PASSED"]);
    let start = Start::as_account(&world.user, &[("DISPLAY", "localhost:98.0"), ("PASSED", "by the daemon")]);
    let daemon = need!(Zeroclaw::start(start, &config));
    let child = daemon.client(&[("DISPLAY", "localhost:99.0")]).tool_child(&model, &world.user.home);
    let shell = child.process();
    assert_eq!((shell.ppid, shell.sid), (daemon.pid(), shell.pid));
    assert_eq!(shell.var("ZEROCLAW_SESSION_ID").as_ref(), Some(&child.session_id));
    assert_eq!(shell.var("DISPLAY").as_deref(), Some("localhost:99.0"), "the client's value wins");
    assert_eq!(shell.var("PASSED").as_deref(), Some("by the daemon"));
    child.stop();

    // zerocode, in a person's window, is a client that the daemon knows by its pid.
    let mut window = need!(world.login(Login::from(3, &world.user).x11(X11::Trusted).terminal(Terminal::Window { columns: 80, rows: 24 })));
    let client = need!(Client::zerocode(&mut window, &config));
    let mut asking = daemon.client(&[]);
    let label = format!("unix:pid={},uid={}", client.pid(), world.user.uid);
    wait_until("the daemon to name zerocode", || asking.call("tui/list", json!({})).to_string().contains(&label));
}

#[test]
fn nothing_is_left_behind_not_even_by_a_panic() {
    let world = need!(World::new());
    let (dir, user) = (world.dir().to_owned(), world.user.clone());
    let ports = [world.sshd.port, world.port(0)];
    let servers = [world.sshd.pid(), world.screen.pid()];
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(move || {
        let mut login = world.user_from(2).expect("it logs in");
        let _tmux = Tmux::start_in(&mut login, "left");
        // Nobody holds these: the account's end has to find them.
        login.spawn("sleep 300");
        login.stdout("touch ~/left; mkdir /tmp/left");
        std::panic::resume_unwind(Box::new("as a failing test does"));
    }));
    assert!(panicked.is_err());
    // With nobody else in the world, what is there now is what was left.
    let _alone = alone();
    assert!(look::processes_of(user.uid).is_empty(), "{:?}", look::processes_of(user.uid));
    assert!(servers.iter().all(|pid| Process::read(*pid).is_none()), "sshd and Xvfb are waited for");
    assert!(ports.iter().all(|port| look::listeners(*port).is_empty()));
    assert!(!dir.exists() && !user.home.join("left").exists() && !std::path::Path::new("/tmp/left").exists());
}
