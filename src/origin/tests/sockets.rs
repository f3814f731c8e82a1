//! Agents, editors, buses, compositors, authority files.

use super::*;
use crate::origin::made_up::MINUTE_OLD;

const AGENT: &str = "/tmp/ssh-AbCdEf1234/agent.50";

#[test]
fn r02_an_agent_socket_that_is_gone_is_dangling() {
    let named = login_a().named(Kind::SshAgent, AGENT, &[A]);
    assert_eq!((named.liveness.state, named.liveness.detail.as_str()), (State::Dangling, "the path is gone"));
    assert_eq!(named.evidence[0].source, AGENT);
}

#[test]
fn r03_missing_dangling_and_another_logins_are_three_answers() {
    let mut made = login_a();
    assert_eq!(made.named(Kind::SshAgent, "", &[A]).liveness.state, State::Missing);
    assert_eq!(made.named(Kind::SshAgent, AGENT, &[A]).liveness.state, State::Dangling);
    made.socket(AGENT, Some(5));
    let own = made.named(Kind::SshAgent, AGENT, &[A]);
    assert_eq!((state(&own), own.owner.unwrap().pid), ((State::Alive, Some(true)), 50));
    let other = made.named(Kind::SshAgent, AGENT, &["SSH_CONNECTION=127.0.0.9 1 127.0.0.1 22"]);
    assert_eq!(state(&other), (State::Alive, Some(false)));
    assert_eq!(other.liveness.detail, "the agent is the login's from 127.0.0.2:50001, since before this process began");
    // Younger than the process, it is none that it was started with.
    made.process(50, "sshd", 1, MINUTE_OLD + 1_000, "");
    let other = made.named(Kind::SshAgent, AGENT, &["SSH_CONNECTION=127.0.0.9 1 127.0.0.1 22"]);
    assert_eq!(state(&other), (State::Reused, Some(false)));
    assert_eq!(other.liveness.detail, "the agent is the login's from 127.0.0.2:50001; this process was born in the one from 127.0.0.9:1");
}

#[test]
fn a_socket_file_on_which_nothing_listens_is_refused() {
    let mut made = login_a();
    made.socket(AGENT, None);
    assert_eq!(made.named(Kind::SshAgent, AGENT, &[A]).liveness.state, State::Refused);
    // Bound by a relative name, or by one that was changed since: it may be this one.
    for (bound, state) in [
        ("agent.50", State::Unknown),
        ("x/agent.50", State::Unknown),
        ("agent.51", State::Refused),
        ("@agent.50", State::Refused),
        ("/tmp/ssh-AbCdEf1234/before", State::Unknown),
        ("/tmp/elsewhere/before", State::Refused),
    ] {
        let mut made = login_a();
        made.socket(AGENT, None).unix_row(bound, 77);
        assert_eq!(made.named(Kind::SshAgent, AGENT, &[A]).liveness.state, state, "{bound}");
    }
    made.file("/tmp/plain", "");
    assert_eq!(made.named(Kind::SshAgent, "/tmp/plain", &[A]).liveness.state, State::Refused);
}

#[test]
fn an_agent_of_its_own_outlives_the_login() {
    let mut made = login_a();
    made.hang_up(901).socket("/tmp/ssh-Zz/agent.80", Some(5));
    made.process(81, "ssh-agent", 1, 100, "");
    let named = made.named(Kind::SshAgent, "/tmp/ssh-Zz/agent.80", &[A]);
    assert_eq!(named.liveness.state, State::Alive, "{named:?}");
    assert_eq!(named.owner.unwrap().pid, 81);
}

#[test]
fn a_forwarded_agent_of_the_new_scheme_ends_with_its_login() {
    let path = "/home/u/.ssh/agent/s.Zk3hQ1xYt9.sshd.Ab12Cd34Ef";
    let mut made = login_a();
    made.socket(path, Some(5));
    assert_eq!(state(&made.named(Kind::SshAgent, path, &[A])), (State::Alive, None));
    made.hang_up(901);
    assert_eq!(state(&made.named(Kind::SshAgent, path, &[A])), (State::Reused, Some(false)));
}

#[test]
fn an_agent_s_socket_that_is_older_than_the_process_is_what_it_was_started_with() {
    // An ordinary account, which sees of sshd nothing: the socket's own age tells. It is a file of now, so the process is of later.
    let path = "/home/u/.ssh/agent/s.Zk3hQ1xYt9.sshd.Ab12Cd34Ef";
    let mut made = login_a();
    made.socket(path, Some(5)).hang_up(901);
    let host = made.host();
    let environ = Environ::parse(A.as_bytes());
    let state_at = |ticks: u64| {
        let line = format!("100 (opencode) S 1 100 100 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 {ticks}");
        let stat = crate::host::Stat::parse(line.as_bytes(), rustix::process::geteuid().as_raw()).unwrap();
        let carrier = Carrier { host: &host, process: Some(&stat), view: View::OURS, environ: &environ, born: &environ, connect: false };
        state(&examine(&carrier, Kind::SshAgent, path.as_bytes()))
    };
    assert_eq!(state_at(3_700 * 100), (State::Alive, Some(false)));
    assert_eq!(state_at(MINUTE_OLD), (State::Reused, Some(false)));
}

#[test]
fn a_stable_link_stays_alive_and_says_where_it_leads() {
    let mut made = login_a();
    made.socket(AGENT, Some(5));
    std::fs::create_dir_all(made.path("/home/u/.ssh")).unwrap();
    std::os::unix::fs::symlink(AGENT, made.path("/home/u/.ssh/agent.sock")).unwrap();
    let named = made.named(Kind::SshAgent, "/home/u/.ssh/agent.sock", &["SSH_CONNECTION=127.0.0.9 1 127.0.0.1 22"]);
    assert_eq!(named.liveness.state, State::Alive);
    assert!(named.notes.iter().any(|note| note.contains(AGENT) && note.contains("127.0.0.2:50001")), "{:?}", named.notes);
    std::fs::remove_file(made.path(AGENT)).unwrap();
    assert_eq!(made.named(Kind::SshAgent, "/home/u/.ssh/agent.sock", &[A]).liveness.state, State::Dangling);
}

#[test]
fn a_restarted_server_on_a_stable_path_is_alive_with_a_note() {
    let mut made = MadeUp::new();
    made.socket("/run/user/7/gnupg/S.gpg-agent.ssh", Some(5));
    let named = made.named(Kind::SshAgent, "/run/user/7/gnupg/S.gpg-agent.ssh", &[A]);
    assert_eq!(named.liveness.state, State::Alive);
    assert!(named.notes.iter().any(|note| note.contains("s younger than this process")), "{:?}", named.notes);
}

#[test]
fn r21_any_socket_is_dangling_refused_or_alive() {
    let mut made = MadeUp::new();
    made.socket("/run/user/7/vscode-ipc-1.sock", Some(5)).socket("/run/user/7/vscode-ipc-2.sock", None);
    let state = |path: &str| made.named(Kind::UnixSocket, path, &[]).liveness.state;
    assert_eq!(state("/run/user/7/vscode-ipc-1.sock"), State::Alive);
    assert_eq!(state("/run/user/7/vscode-ipc-2.sock"), State::Refused);
    assert_eq!(state("/run/user/7/vscode-ipc-3.sock"), State::Dangling);
    assert_eq!(state("relative.sock"), State::Unknown);
}

#[test]
fn a_socket_bound_by_another_name_of_the_same_file_listens() {
    let mut made = MadeUp::new();
    made.socket("/run/docker.sock", None).unix_row("/var/run/docker.sock", 5);
    std::fs::create_dir_all(made.path("/var")).unwrap();
    std::os::unix::fs::symlink("/run", made.path("/var/run")).unwrap();
    assert_eq!(made.named(Kind::SocketAddress, "unix:///run/docker.sock", &[]).liveness.state, State::Alive);
}

#[test]
fn addresses_of_many_forms() {
    let mut made = MadeUp::new();
    made.socket("/run/user/7/pulse/native", Some(5)).unix_row("@kitty-7", 6).listens("127.0.0.1:2375", 7).listens("127.0.0.1:3128", 8);
    made.socket("/run/user/7/pipewire-0", Some(9)).socket("/run/user/7/sp ace.sock", Some(10));
    let state = |value: &str| made.named(Kind::SocketAddress, value, &["XDG_RUNTIME_DIR=/run/user/7"]).liveness.state;
    for (value, expected) in [
        ("unix:/run/user/7/pulse/native", State::Alive),
        ("/run/user/7/pulse/native", State::Alive),
        ("/run/user/7/pulse/native:4711:1", State::Alive),
        ("unix:@kitty-7", State::Alive),
        ("unix:@kitty-8", State::Refused),
        ("pipewire-0", State::Unknown),
        ("unix:///run/user/7/sp ace.sock", State::Alive),
        ("/run/user/7/sp ace.sock", State::Alive),
        ("/run/user/7/sp ace.sock:4711:1", State::Alive),
        ("tcp://127.0.0.1:2375", State::Alive),
        ("tcp:localhost:2376", State::Refused),
        ("localhost:2375", State::Alive),
        ("http://user:secret@127.0.0.1:3128/", State::Alive),
        ("http://127.0.0.1", State::Refused),
        ("ssh://user@elsewhere", State::Unknown),
        ("tcp://192.0.2.1:2375", State::Unknown),
        ("unix:///var/run/docker.sock", State::Dangling),
        ("fd:3", State::None),
    ] {
        assert_eq!(state(value), expected, "{value}");
    }
    let proxy = made.named(Kind::SocketAddress, "http://user:secret@192.0.2.1:3128/", &[]);
    assert!(!format!("{proxy:?}").contains("secret"), "{proxy:?}");
}

/// The forms of pulse-client.conf(5).
#[test]
fn a_sound_server_by_socket_or_by_host() {
    let mut made = MadeUp::new();
    made.socket("/run/user/7/pulse/native", Some(5)).listens("127.0.0.1:4713", 7);
    let state = |value: &str| made.named(Kind::PulseServer, value, &["XDG_RUNTIME_DIR=/run/user/7"]).liveness.state;
    for (value, expected) in [
        ("{0123}unix:/run/user/7/pulse/native tcp:elsewhere:4713", State::Alive),
        ("/run/user/7/pulse/native", State::Alive),
        ("/run/user/7/pulse/gone /run/user/7/pulse/native", State::Alive),
        ("/run/user/7/pulse/gone", State::Dangling),
        ("mediahost", State::Unknown),
        ("localhost", State::Alive),
        ("tcp:127.0.0.1", State::Alive),
        ("tcp4:localhost:4714", State::Refused),
        ("tcp6:[::1]:4713", State::Refused),
    ] {
        assert_eq!(state(value), expected, "{value}");
    }
}

#[test]
fn a_bus_by_path_abstract_name_or_port() {
    let mut made = MadeUp::new();
    made.socket("/run/user/7/bus", Some(5)).unix_row("@/tmp/dbus-x", 6);
    made.process(60, "dbus-daemon", 1, 100, "").holds(60, 3, 5);
    let named = made.named(Kind::BusAddress, "unix:path=/run/user/7/b%75s,guid=ab", &[]);
    assert_eq!((named.liveness.state, named.owner.unwrap().pid), (State::Alive, 60));
    let state = |value: &str| made.named(Kind::BusAddress, value, &[]).liveness.state;
    assert_eq!(state("unix:abstract=/tmp/dbus-x"), State::Alive);
    assert_eq!(state("unix:path=/gone;unix:abstract=/tmp/dbus-x"), State::Alive);
    assert_eq!(state("unix:path=/gone"), State::Dangling);
    assert_eq!(state("tcp:host=localhost,port=5"), State::Refused);
    assert_eq!(state("autolaunch:"), State::Unknown);
}

#[test]
fn a_wayland_name_needs_the_runtime_directory() {
    let mut made = MadeUp::new();
    made.socket("/run/user/7/wayland-1", Some(5)).socket("/run/user/7/wayland-2", None);
    made.process(60, "weston", 1, 100, "").holds(60, 3, 5);
    let run = "XDG_RUNTIME_DIR=/run/user/7";
    assert_eq!(made.named(Kind::WaylandDisplay, "wayland-1", &[run]).owner.unwrap().comm, "weston");
    let state = |value: &str, environ: &[&str]| made.named(Kind::WaylandDisplay, value, environ).liveness.state;
    assert_eq!(state("wayland-2", &[run]), State::Refused);
    assert_eq!(state("wayland-3", &[run]), State::Dangling);
    assert_eq!(state("wayland-1", &[]), State::Dangling);
    assert_eq!(state("/run/user/7/wayland-1", &[]), State::Alive);
}

#[test]
fn waypipe_serves_one_login() {
    let mut made = MadeUp::new();
    made.socket("/run/user/7/wayland-Xy", Some(5));
    made.process(60, "waypipe", 1, 100, "SSH_CONNECTION=127.0.0.4 1 127.0.0.1 22").holds(60, 3, 5);
    let environ = ["XDG_RUNTIME_DIR=/run/user/7", A];
    assert_eq!(state(&made.named(Kind::WaylandDisplay, "wayland-Xy", &environ)), (State::Reused, Some(false)));
}

#[test]
fn an_authority_file_has_a_cookie_for_the_display_or_not() {
    let made = MadeUp::new();
    let cookie = "\x01\x02\x03secretcookie!";
    let mut file = b"\x01\x00\x00\x02vm\x00\x0210\x00\x12MIT-MAGIC-COOKIE-1\x00\x10".to_vec();
    file.extend_from_slice(cookie.as_bytes());
    made.file("/home/u/.Xauthority", &file);
    let named = |display: &str| made.named(Kind::XAuthority, "/home/u/.Xauthority", &[display]);
    assert_eq!(named("DISPLAY=localhost:10.0").liveness.detail, "the file has a cookie for display 10");
    let without = named("DISPLAY=localhost:11.0");
    assert_eq!(
        (without.liveness.state, without.liveness.detail.as_str()),
        (State::Alive, "the file is there and has no cookie for display 11")
    );
    assert!(!format!("{without:?}").contains("secretcookie"));
    assert_eq!(made.named(Kind::XAuthority, "/gone", &[]).liveness.state, State::Dangling);
    assert_eq!(made.named(Kind::XAuthority, "", &[]).liveness.state, State::Dangling);
    made.file("/home/u/text", "hello");
    assert_eq!(made.named(Kind::XAuthority, "/home/u/text", &[]).liveness.state, State::Unknown);
    let host = made.host();
    let environ = Environ::parse(b"HOME=/home/u\0DISPLAY=:10");
    let carrier = Carrier { host: &host, process: None, view: View::OURS, environ: &environ, born: &environ, connect: false };
    assert_eq!(xauthority::cookie(&carrier), Ok(xauthority::Cookie::Listed));
}

#[test]
fn places_are_there_or_not() {
    let made = MadeUp::new();
    made.file("/home/u/x", "");
    let state = |kind, value: &str| made.named(kind, value, &[]).liveness.state;
    assert_eq!(state(Kind::Directory, "/home/u"), State::Alive);
    assert_eq!(state(Kind::Directory, "/home/u/x"), State::Dangling);
    assert_eq!(state(Kind::Directory, "/home/v"), State::Dangling);
    assert_eq!(state(Kind::File, "/home/u/x"), State::Alive);
    assert_eq!(state(Kind::File, "/home/u"), State::Dangling);
    assert_eq!(state(Kind::RuntimeDir, "/home/u"), State::Alive);
    assert_eq!(state(Kind::PathList, "/a:/b"), State::None);
    assert_eq!(state(Kind::Plain, ""), State::None);
}

#[test]
fn pipewire_by_name_or_path_and_in_its_own_directory_first() {
    let mut made = MadeUp::new();
    made.socket("/run/user/1000/pipewire-0", Some(5)).socket("/run/pw/pipewire-0", None).socket("/run/pw/a pw", Some(6));
    let state = |value: &str, environ: &[&str]| made.named(Kind::PipewireRemote, value, environ).liveness.state;
    let (xdg, own) = ("XDG_RUNTIME_DIR=/run/user/1000", "PIPEWIRE_RUNTIME_DIR=/run/pw");
    assert_eq!(state("/tmp/pw", &[xdg]), State::Dangling);
    assert_eq!(state("/run/pw/a pw", &[]), State::Alive);
    assert_eq!(state("pipewire-0", &[xdg]), State::Alive);
    assert_eq!(state("pipewire-0", &[xdg, own]), State::Refused, "its own directory is looked into, and no other");
    assert_eq!(state("pipewire-9", &[xdg]), State::Dangling);
    assert_eq!(state("pipewire-0", &[]), State::Dangling, "a name that leads nowhere");
    assert_eq!(state("[pipewire-0-manager,pipewire-0]", &[xdg]), State::Alive);
}

#[test]
fn hyprland_by_its_signature_below_the_runtime_directory_or_where_it_was_before() {
    let mut made = MadeUp::new();
    made.socket("/run/user/1000/hypr/5e54c88_1747_3/.socket.sock", Some(5)).socket("/run/user/1000/hypr/crashed/.socket.sock", None);
    made.socket("/tmp/hypr/older/.socket.sock", Some(6));
    let xdg = ["XDG_RUNTIME_DIR=/run/user/1000"];
    let state = |value: &str| made.named(Kind::HyprlandInstance, value, &xdg).liveness.state;
    assert_eq!(["5e54c88_1747_3", "crashed", "older", "gone"].map(state), [State::Alive, State::Refused, State::Alive, State::Dangling]);
    assert_eq!(made.named(Kind::HyprlandInstance, "5e54c88_1747_3", &[]).liveness.state, State::Dangling);
    assert_eq!(state("../x"), State::Unknown);
}

#[test]
fn the_gpg_agent_of_gnupg_2_0_has_its_pid_and_protocol_behind_its_path() {
    let mut made = MadeUp::new();
    made.socket("/tmp/gpg-AbCdEf/S.gpg-agent", Some(5));
    let state = |value: &str| made.named(Kind::SocketAddress, value, &[]).liveness.state;
    assert_eq!(state("/tmp/gpg-AbCdEf/S.gpg-agent:2711:1"), State::Alive);
    assert_eq!(state("/tmp/gpg-gone/S.gpg-agent:2711:1"), State::Dangling);
}

#[test]
fn a_proxy_on_this_machine_listens_or_not_and_another_machine_s_is_not_looked_at() {
    let mut made = MadeUp::new();
    made.listens("127.0.0.1:3128", 5).listens("127.0.0.1:1080", 6);
    let state = |value: &str| made.named(Kind::Proxy, value, &[]).liveness.state;
    for alive in
        ["http://127.0.0.1:3128", "http://ann:pw@localhost:3128/", "localhost:3128", "socks5h://127.0.0.1", "HTTP://127.0.0.1:3128"]
    {
        assert_eq!(state(alive), State::Alive, "{alive}");
    }
    for refused in ["http://127.0.0.1:9", "http://[::1]:9/", "socks5://localhost:9050", "127.0.0.1:9"] {
        assert_eq!(state(refused), State::Refused, "{refused}");
    }
    for unknown in ["http://proxy.example:3128", "http://192.0.2.1:3128", "http://localhost", "nonsense", "http://:0"] {
        assert_eq!(state(unknown), State::Unknown, "{unknown}");
    }
    assert_eq!(state(""), State::Missing);
}
