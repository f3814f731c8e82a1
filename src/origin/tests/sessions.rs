//! Terminals, multiplexers and pids.

use super::*;
use crate::origin::made_up::MINUTE_OLD;

/// Device number of `pts/3`.
const PTS_3: u32 = 34_819;

/// A made-up tree cannot have devices without root, but a link to one of ours is followed as the tree's own.
fn with_terminal(made: &MadeUp) -> bool {
    std::fs::create_dir_all(made.path("dev/pts")).unwrap();
    let made = rustix::fs::mknodat(
        rustix::fs::CWD,
        made.path("dev/pts/3"),
        rustix::fs::FileType::CharacterDevice,
        rustix::fs::Mode::RUSR,
        rustix::fs::makedev(1, 3),
    );
    made.is_ok()
}

/// What the process of these tests carries.
const TTY: &str = "SSH_TTY=/dev/pts/3";

#[test]
fn a_terminal_that_was_never_the_process_s_own_is_neither_the_one_of_birth_nor_another() {
    let made = login_a();
    if !with_terminal(&made) {
        return;
    }
    made.on_tty(51, "bash", 50, 110, "", PTS_3);
    for environ in [&[A][..], &[A, "SSH_TTY=/dev/pts/4"]] {
        let named = made.named(Kind::Tty, "/dev/pts/3", environ);
        assert_eq!((state(&named), named.owner.map(|owner| owner.pid)), ((State::Alive, None), Some(51)));
    }
    assert_eq!(state(&made.named(Kind::Tty, "/dev/pts/3", &["GPG_TTY=/dev/pts/3"])), (State::Alive, Some(true)));
}

#[test]
fn a_terminal_that_is_gone_is_dangling() {
    assert_eq!(login_a().named(Kind::Tty, "/dev/pts/3", &[A, TTY]).liveness.state, State::Dangling);
}

#[test]
fn a_terminal_with_an_older_process_on_it_is_that_of_birth() {
    let made = login_a();
    if !with_terminal(&made) {
        return;
    }
    made.on_tty(51, "bash", 50, 110, "", PTS_3);
    assert_eq!(state(&made.named(Kind::Tty, "/dev/pts/3", &[A, TTY])), (State::Alive, Some(true)));
}

#[test]
fn a_number_given_to_another_session_is_reused() {
    let mut made = login_a();
    if !with_terminal(&made) {
        return;
    }
    made.on_tty(90, "zsh", 70, MINUTE_OLD + 3_000, "SSH_CONNECTION=127.0.0.4 1 127.0.0.1 22", PTS_3);
    let named = made.named(Kind::Tty, "/dev/pts/3", &[A, TTY]);
    assert_eq!(state(&named), (State::Reused, Some(false)), "younger than the process, and so is everything on it");
    assert_eq!(named.owner.unwrap().connection.as_deref(), Some("127.0.0.4 1 127.0.0.1 22"));
    made.hang_up(901);
    assert_eq!(state(&made.named(Kind::Tty, "/dev/pts/3", &[A, TTY])), (State::Reused, Some(false)));
    std::fs::remove_dir_all(made.path("proc/90")).unwrap();
    made.connected("127.0.0.2:50001", 901);
    assert_eq!(made.named(Kind::Tty, "/dev/pts/3", &[A, TTY]).liveness.state, State::Unknown, "its age alone proves nothing");
}

#[test]
fn a_tmux_server_of_birth_another_one_and_none() {
    let mut made = MadeUp::new();
    made.socket("/tmp/tmux-7/default", Some(5)).process(40, "tmux: server", 1, 100, "").holds(40, 6, 5);
    let named = |made: &MadeUp, value: &str| made.named(Kind::Tmux, value, &[A]);
    let alive = named(&made, "/tmp/tmux-7/default,40,0");
    assert_eq!((state(&alive), alive.owner.unwrap().pid), ((State::Alive, Some(true)), 40));
    let other = named(&made, "/tmp/tmux-7/default,39,0");
    assert_eq!((state(&other), other.owner.unwrap().pid), ((State::Reused, Some(false)), 40));
    assert_eq!(named(&made, "/tmp/tmux-7/gone,40,0").liveness.state, State::Dangling);
    // The pid has been given to another tmux since.
    std::fs::remove_dir_all(made.path("proc/40/fd")).unwrap();
    made.process(40, "tmux: server", 1, MINUTE_OLD + 500, "");
    assert_eq!(state(&named(&made, "/tmp/tmux-7/default,40,0")), (State::Reused, Some(false)));
    let mut made = MadeUp::new();
    made.socket("/tmp/tmux-7/default", None);
    assert_eq!(named(&made, "/tmp/tmux-7/default,40,0").liveness.state, State::Refused);
}

#[test]
fn attached_clients_are_found_by_what_they_were_told() {
    let made = MadeUp::new();
    made.process(40, "tmux: server", 1, 100, "");
    made.on_tty(41, "tmux: client", 1, 200, "DISPLAY=localhost:11.0|SSH_CONNECTION=127.0.0.3 1 127.0.0.1 22", PTS_3);
    made.file("proc/41/cmdline", "tmux\0-L\0work\0attach\0");
    made.on_tty(42, "tmux: client", 1, 300, "", PTS_3 + 1);
    let host = made.host();
    let server = host.process(40).stat().unwrap();
    let path = format!("/tmp/tmux-{}/work", server.euid);
    let clients = tmux::clients(&host, path.as_bytes(), &server).unwrap();
    assert_eq!(clients.iter().map(|client| client.stat.pid).collect::<Vec<_>>(), [41]);
    assert_eq!(clients[0].connection().as_deref(), Some("127.0.0.3 1 127.0.0.1 22"));
}

#[test]
fn a_screen_session_by_its_socket() {
    let mut made = MadeUp::new();
    made.socket("/home/u/.screen/40.pts-3.vm", Some(5)).process(40, "screen", 1, 100, "").holds(40, 3, 5);
    let environ = ["HOME=/home/u"];
    let named = made.named(Kind::Screen, "40.pts-3.vm", &environ);
    assert_eq!((named.liveness.state, named.owner.unwrap().pid), (State::Alive, 40));
    assert_eq!(made.named(Kind::Screen, "41.pts-3.vm", &environ).liveness.state, State::Dangling);
    assert_eq!(made.named(Kind::Screen, "../../x", &environ).liveness.state, State::Unknown);
}

#[test]
fn a_pid_is_that_process_another_one_or_none() {
    let made = MadeUp::new();
    made.process(40, "node", 1, 100, "").process(41, "vim", 1, MINUTE_OLD + 500, "").process(42, "ssh-agent", 1, MINUTE_OLD + 1, "");
    let state = |value: &str| made.named(Kind::ProcessId, value, &[]).liveness.state;
    assert_eq!(state("40"), State::Alive);
    assert_eq!(state("41"), State::Reused);
    assert_eq!(state("42"), State::Alive, "`exec ssh-agent shell` starts the agent after the shell's process");
    assert_eq!(state("43"), State::Dangling);
    assert_eq!(state("x"), State::None);
}
