//! Verdicts on made-up machines, named after the field reports where one applies.

use super::made_up::{MINUTE_OLD, MadeUp, named};
use super::*;
use crate::host::Value;
use crate::host::snapshot::{Captured, Mask};

mod names;
mod sessions;
mod sockets;

const A: &str = "SSH_CONNECTION=127.0.0.2 50001 127.0.0.1 22";
const DISPLAY: &str = "localhost:10.0";

fn state(named: &Named) -> (State, Option<bool>) {
    (named.liveness.state, named.same_connection)
}

/// Login A (sshd 50, shell 51) with display 10; process 100 was born in it.
fn login_a() -> MadeUp {
    let mut made = MadeUp::new();
    made.listens("127.0.0.1:6010", 610).connected("127.0.0.2:50001", 901).listens("0.0.0.0:22", 1);
    made.process(50, "sshd", 1, 100, "").holds(50, 4, 901).holds(50, 9, 610);
    made.process(51, "bash", 50, 110, "SSH_CONNECTION=127.0.0.2 50001 127.0.0.1 22|DISPLAY=localhost:10.0");
    made
}

#[test]
fn a_forwarded_display_of_the_connection_of_birth_is_alive() {
    let named = login_a().named(Kind::Display, DISPLAY, &[A]);
    assert_eq!(state(&named), (State::Alive, Some(true)));
    let owner = named.owner.unwrap();
    assert_eq!((owner.pid, owner.connection.as_deref()), (50, Some("127.0.0.2 50001 127.0.0.1 22")));
    assert!(named.evidence.iter().any(|seen| seen.source == "/proc/net/tcp" && seen.detail.contains("127.0.0.1:6010 listens")));
}

#[test]
fn after_logout_the_port_refuses() {
    let mut made = login_a();
    made.hang_up(901).hang_up(610);
    made.file("etc/hosts", "127.0.1.1 vm.example.org vm\n");
    for value in [DISPLAY, "127.0.0.1:10", "[::1]:10", "::1:10.0", "vm:10.0", "VM.example.org:10"] {
        assert_eq!(state(&made.named(Kind::Display, value, &[A])), (State::Refused, None), "{value}");
    }
}

#[test]
fn r04_the_next_login_gets_the_number_and_root_sees_whose_it_is() {
    let mut made = login_a();
    made.hang_up(901).hang_up(610);
    std::fs::remove_dir_all(made.path("proc/50")).unwrap();
    std::fs::remove_dir_all(made.path("proc/51")).unwrap();
    made.connected("127.0.0.4:50003", 903).listens("127.0.0.1:6010", 613);
    made.process(70, "sshd-session", 1, MINUTE_OLD + 1_000, "").holds(70, 4, 903).holds(70, 9, 613);
    let named = made.named(Kind::Display, DISPLAY, &[A]);
    assert_eq!(state(&named), (State::Reused, Some(false)));
    assert_eq!(named.owner.unwrap().connection.as_deref(), Some("127.0.0.4 50003 127.0.0.1 22"));
    assert_eq!(
        named.liveness.detail,
        "display 10 belongs to the login from 127.0.0.4:50003 now; this process was born in the one from 127.0.0.2:50001"
    );
}

#[test]
fn r04_an_ordinary_account_can_prove_it_without_knowing_the_owner() {
    let mut made = login_a();
    made.hang_up(901).hang_up(610).connected("127.0.0.4:50003", 903).listens("127.0.0.1:6010", 613);
    std::fs::remove_dir_all(made.path("proc/50")).unwrap();
    std::fs::remove_dir_all(made.path("proc/51")).unwrap();
    made.process(70, "sshd", 1, MINUTE_OLD + 1_000, "");
    made.process(71, "bash", 70, MINUTE_OLD + 1_010, "SSH_CONNECTION=127.0.0.4 50003 127.0.0.1 22|DISPLAY=localhost:10.0");
    let named = made.named(Kind::Display, DISPLAY, &[A]);
    assert_eq!(state(&named), (State::Reused, Some(false)));
    assert_eq!(named.owner, None);
    assert!(named.notes.iter().any(|note| note.contains("127.0.0.4:50003")), "{:?}", named.notes);
}

#[test]
fn a_number_that_was_bound_again_beside_a_living_connection_is_reused() {
    // ControlMaster: the session with display 10 has ended, its connection has not, and another login got the number.
    let mut made = login_a();
    made.hang_up(610).listens("127.0.0.1:6010", 613).connected("127.0.0.4:50003", 903);
    made.process(70, "sshd", 1, MINUTE_OLD + 1_000, "").holds(70, 4, 903).holds(70, 9, 613);
    assert_eq!(state(&made.named(Kind::Display, DISPLAY, &[A])), (State::Reused, Some(false)));
}

/// Login B (sshd 80, shell 81) with display 11, both from before process 100 began, which says that it is of a login that has ended:
/// a pane's shell whose server an earlier login started, and a display of the login that is attached.
fn login_b(made: &mut MadeUp, shell_since: u64) {
    made.connected("127.0.0.3:50002", 902).listens("127.0.0.1:6011", 611);
    made.process(80, "sshd", 1, 9_000, "");
    made.process(81, "bash", 80, shell_since, "SSH_CONNECTION=127.0.0.3 50002 127.0.0.1 22|DISPLAY=localhost:11.0");
}

#[test]
fn a_display_that_another_login_had_before_the_process_began_is_what_it_was_started_with_where_it_was_set_anew() {
    const DISPLAY_B: &str = "DISPLAY=localhost:11.0";
    let ended = "SSH_CONNECTION=127.0.0.99 1 127.0.0.1 22";
    // What the shell was started with from which the process comes.
    let below = |made: &MadeUp, birth: &str, shell: &str| {
        made.process(91, "bash", 1, 9_500, &format!("{birth}|{shell}"));
        made.process(100, "opencode", 91, MINUTE_OLD, &format!("{birth}|{DISPLAY_B}"));
    };
    let judged = |made: &MadeUp, birth: &str| made.named(Kind::Display, "localhost:11.0", &[birth, DISPLAY_B]);
    for birth in [ended, A] {
        let mut made = login_a();
        login_b(&mut made, 9_010);
        below(&made, birth, "DISPLAY=localhost:10.0");
        let by_shell = judged(&made, birth);
        assert_eq!((state(&by_shell), by_shell.owner.is_none()), ((State::Alive, Some(false)), true), "{birth}");
        made.holds(80, 9, 611).holds(80, 4, 902);
        let by_root = judged(&made, birth);
        assert_eq!((state(&by_root), by_root.owner.unwrap().pid), ((State::Alive, Some(false)), 80), "{birth}");
        // It came down from the login of birth, and its number was given to another one before this process began.
        below(&made, birth, DISPLAY_B);
        assert_eq!(state(&judged(&made, birth)), (State::Reused, Some(false)), "{birth}");
        below(&made, birth, "DISPLAY=localhost:10.0");
        std::fs::remove_dir_all(made.path("proc/81")).unwrap();
        assert_eq!(state(&judged(&made, birth)), (State::Alive, Some(false)), "sshd is older: {birth}");
        // Nobody above it is left who could tell.
        std::fs::remove_dir_all(made.path("proc/91")).unwrap();
        assert_eq!(state(&judged(&made, birth)), (State::Reused, Some(false)), "{birth}");
    }
    // A second session of an older connection got the number only since.
    let mut made = login_a();
    login_b(&mut made, MINUTE_OLD + 1_000);
    below(&made, ended, "DISPLAY=localhost:10.0");
    assert_eq!(state(&judged(&made, ended)), (State::Reused, Some(false)));
    made.holds(80, 9, 611).holds(80, 4, 902);
    assert_eq!(state(&judged(&made, ended)), (State::Reused, Some(false)));
}

#[test]
fn of_a_value_that_is_not_its_own_nothing_was_given_to_another_while_its_login_lives() {
    let mut made = login_a();
    login_b(&mut made, MINUTE_OLD + 1_000);
    made.holds(80, 9, 611).holds(80, 4, 902);
    let judged = |made: &MadeUp| {
        let host = made.host();
        let environ = Environ::parse(A.as_bytes());
        let carrier = Carrier { host: &host, process: None, view: View::OURS, environ: &environ, born: &environ, connect: false };
        state(&ssh::of_others(&carrier, made.named(Kind::Display, "localhost:11.0", &[A])))
    };
    assert_eq!(judged(&made), (State::Alive, Some(false)));
    made.hang_up(901);
    assert_eq!(judged(&made), (State::Reused, Some(false)), "the birth is gone, and another answers");
}

#[test]
fn however_its_host_is_written_a_display_is_one_where_one_listener_answers() {
    use crate::verdict::registry::Topic;
    let mut made = login_a();
    made.listens("127.0.0.1:6011", 611).file("etc/hosts", "127.0.0.1 vm\n");
    let host = made.host();
    let environ = Environ::parse(A.as_bytes());
    let carrier = Carrier { host: &host, process: None, view: View::OURS, environ: &environ, born: &environ, connect: false };
    let is_one = |a: &str, b: &str| one_place::is_one(Topic::Display, (&carrier, a.as_bytes()), (&carrier, b.as_bytes()));
    for other in ["vm:10.0", "127.0.0.1:10", "localhost:10.1"] {
        assert!(is_one(other, DISPLAY), "{other}");
    }
    for other in ["vm:11.0", "localhost:11.0", "192.0.2.1:10.0", ":10.0", "localhost:12.0"] {
        assert!(!is_one(other, DISPLAY), "{other}");
    }
}

#[test]
fn two_displays_on_one_connection_are_both_alive() {
    let mut made = login_a();
    made.listens("127.0.0.1:6011", 611).holds(50, 10, 611);
    assert_eq!(state(&made.named(Kind::Display, "localhost:11.0", &[A])), (State::Alive, Some(true)));
}

#[test]
fn a_client_on_the_forwarded_display_is_not_taken_for_the_connection() {
    let made = login_a();
    let row = "   0: 0100007F:177A 0100007F:9999 01 00000000:00000000 00:00000000 00000000  0        0 777 1 0 20 4 30 10 -1\n";
    let table = std::fs::read_to_string(made.path("proc/net/tcp")).unwrap();
    made.file("proc/net/tcp", table + row);
    made.holds(50, 3, 777);
    let owner = made.named(Kind::Display, DISPLAY, &[A]).owner.unwrap();
    assert_eq!(owner.connection.as_deref(), Some("127.0.0.2 50001 127.0.0.1 22"));
}

#[test]
fn mosh_outlives_its_connection_by_design() {
    let mut made = login_a();
    made.hang_up(901);
    std::fs::remove_dir_all(made.path("proc/50/fd")).unwrap();
    let named = made.named(Kind::Display, DISPLAY, &[A, "NCURSES_NO_UTF8_ACS=1"]);
    assert_eq!(state(&named), (State::Alive, None));
    assert!(named.liveness.detail.contains("mosh"));
}

#[test]
fn without_an_ssh_connection_nothing_is_claimed_of_birth() {
    assert_eq!(state(&login_a().named(Kind::Display, DISPLAY, &[])), (State::Alive, None));
}

#[test]
fn a_server_of_its_own_is_no_matter_of_connections() {
    let mut made = MadeUp::new();
    made.listens("0.0.0.0:6000", 600);
    assert_eq!(state(&made.named(Kind::Display, "localhost:0", &[A])), (State::Alive, None));
}

#[test]
fn another_host_and_nonsense_are_unknown() {
    let made = login_a();
    for value in ["elsewhere.example:10.0", "192.0.2.1:0", "host::0", "nonsense", "localhost:x", "localhost:1.2.3", ":99999", "vm/x"] {
        assert_eq!(made.named(Kind::Display, value, &[A]).liveness.state, State::Unknown, "{value}");
    }
    assert_eq!(made.named(Kind::Display, "", &[A]).liveness.state, State::Missing);
}

#[test]
fn a_table_that_cannot_be_read_is_unknown_and_never_dead() {
    let made = login_a();
    std::fs::remove_file(made.path("proc/net/tcp")).unwrap();
    std::fs::create_dir(made.path("proc/net/tcp")).unwrap();
    for (kind, value) in [(Kind::Display, DISPLAY), (Kind::SshConnection, "127.0.0.2 50001 127.0.0.1 22")] {
        assert_eq!(made.named(kind, value, &[A]).liveness.state, State::Unknown);
    }
}

#[test]
fn a_local_display_by_file_or_by_abstract_name() {
    let mut made = MadeUp::new();
    made.socket("/tmp/.X11-unix/X7", Some(77)).socket("/tmp/.X11-unix/X8", None).unix_row("@/tmp/.X11-unix/X9", 99);
    made.process(60, "Xvfb", 1, 100, "").holds(60, 5, 77);
    let named = made.named(Kind::Display, ":7", &[]);
    assert_eq!((named.liveness.state, named.owner.unwrap().comm.as_str()), (State::Alive, "Xvfb"));
    for (value, expected) in
        [("unix:7.0", State::Alive), ("unix/vm:7", State::Alive), (":8", State::Refused), (":9", State::Alive), (":6", State::Dangling)]
    {
        assert_eq!(made.named(Kind::Display, value, &[]).liveness.state, expected, "{value}");
    }
    assert_eq!(made.named(Kind::Display, "/tmp/.X11-unix/X7", &[]).liveness.state, State::Alive);
}

#[test]
fn the_connection_of_birth_itself() {
    let mut made = login_a();
    let value = "127.0.0.2 50001 127.0.0.1 22";
    let alive = made.named(Kind::SshConnection, value, &[A]);
    assert_eq!(state(&alive), (State::Alive, Some(true)));
    assert_eq!(alive.owner.unwrap().pid, 50);
    assert_eq!(made.named(Kind::SshClient, "127.0.0.2 50001 22", &[A]).liveness.state, State::Alive);
    made.hang_up(901);
    let gone = made.named(Kind::SshConnection, value, &[A]);
    assert_eq!((gone.liveness.state, gone.liveness.detail.as_str()), (State::Dangling, "the connection has ended"));
    assert_eq!(made.named(Kind::SshClient, "127.0.0.2 50001 22", &[A]).liveness.state, State::Dangling);
    assert_eq!(made.named(Kind::SshConnection, "UNKNOWN 65535 UNKNOWN 65535", &[A]).liveness.state, State::Unknown);
}

struct KeepAll;

impl Mask for KeepAll {
    fn environ(&self, environ: &Environ) -> Environ {
        environ.clone()
    }
    fn argv(&self, argv: &[Value]) -> Vec<Value> {
        argv.to_vec()
    }
    fn hides(&self, _: &[u8]) -> bool {
        false
    }
}

#[test]
fn a_snapshot_gives_the_same_answer_and_a_hole_makes_it_unknown() {
    // A recording host reads this machine, so the values are ones that any machine has or lacks alike.
    let host = Host::recording(Box::new(KeepAll));
    let asked = [
        (Kind::Display, "localhost:59000.0"),
        (Kind::Display, ":59001"),
        (Kind::SshAgent, "/tmp/ssh-whoseenv-none/agent.4194303"),
        (Kind::SshConnection, "192.0.2.1 1 192.0.2.2 22"),
        (Kind::Directory, "/tmp"),
        (Kind::ProcessId, "1"),
        (Kind::Tmux, "/tmp/whoseenv-none,4194303,0"),
        (Kind::Tty, "/dev/pts/59000"),
    ];
    let live: Vec<Named> = asked.iter().map(|(kind, value)| named(&host, *kind, value, &[A])).collect();
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path().join("snapshot");
    host.recorder().unwrap().write(&at, host.machine(), |_| {}).unwrap();
    let captured = Host::captured(Captured::open(&at).unwrap());
    for ((kind, value), live) in asked.iter().zip(live) {
        assert_eq!(named(&captured, *kind, value, &[A]), live, "{value}");
    }
    std::fs::remove_file(at.join("net/ours.json")).unwrap();
    let holed = Host::captured(Captured::open(&at).unwrap());
    assert_eq!(named(&holed, Kind::Display, "localhost:59000.0", &[A]).liveness.state, State::Unknown);
    assert_eq!(named(&holed, Kind::SshConnection, "192.0.2.1 1 192.0.2.2 22", &[A]).liveness.state, State::Unknown);
    assert_eq!(named(&holed, Kind::Directory, "/usr", &[A]).liveness.state, State::Unknown, "it was not asked");
}

proptest::proptest! {
    #[test]
    fn no_value_of_any_kind_panics(value in proptest::collection::vec(proptest::num::u8::ANY, 0..60), text in "[a-z0-9:./@,{}\\[\\]%= -]{0,40}") {
        let made = MadeUp::new();
        let host = made.host();
        for kind in [Kind::Display, Kind::WaylandDisplay, Kind::XAuthority, Kind::SshConnection, Kind::SshClient, Kind::Tty, Kind::SshAgent,
            Kind::ProcessId, Kind::BusAddress, Kind::RuntimeDir, Kind::Tmux, Kind::Screen, Kind::UnixSocket, Kind::SocketAddress,
            Kind::Directory, Kind::File, Kind::PathList, Kind::Plain] {
            let environ = Environ::parse(b"XDG_RUNTIME_DIR=/run/user/7\0HOME=/h");
            let carrier = Carrier { host: &host, process: None, view: View::OURS, environ: &environ, born: &environ, connect: false };
            for bytes in [value.as_slice(), text.as_bytes()] {
                let named = examine(&carrier, kind, bytes);
                proptest::prop_assert!(!matches!(named.liveness.state, State::Alive | State::Reused) || bytes.contains(&b'/') || !named.evidence.is_empty());
            }
        }
    }
}
