//! Host names in values, listeners of other accounts, and pids of another namespace.

use super::*;

const HERE: [&str; 3] = ["vm:10.0", "VM:10", "vm.example.org:10.0"];

#[test]
fn a_display_with_the_hosts_own_name_is_judged_like_the_address_in_etc_hosts() {
    // The three ways in which installers write a machine's own name.
    for (hosts, listener) in [
        ("127.0.0.1 localhost vm vm.example.org\n", "127.0.0.1:6010"),
        ("127.0.0.1 localhost\n127.0.1.1 vm.example.org vm\n", "127.0.1.1:6010"),
        ("192.0.2.7 vm.example.org vm\n127.0.0.1 vm vm.example.org\n", "127.0.0.1:6010"),
    ] {
        let mut made = MadeUp::new();
        made.file("etc/hosts", hosts);
        for value in HERE {
            assert_eq!(state(&made.named(Kind::Display, value, &[])), (State::Refused, None), "{hosts} {value}");
        }
        made.listens(listener, 610);
        for value in HERE {
            assert_eq!(state(&made.named(Kind::Display, value, &[])), (State::Alive, None), "{hosts} {value}");
        }
        assert_eq!(made.named(Kind::SocketAddress, "tcp://vm:6010", &[]).liveness.state, State::Alive, "{hosts}");
    }
}

#[test]
fn a_name_that_only_the_network_resolves_is_unknown_and_never_refused() {
    let mut made = MadeUp::new();
    for hosts in ["", "127.0.0.1 localhost\n", "192.0.2.7 vm\n"] {
        made.file("etc/hosts", hosts);
        let named = made.named(Kind::Display, "vm:10.0", &[]);
        assert_eq!(named.liveness.state, State::Unknown, "{hosts}: {}", named.liveness.detail);
        assert_eq!(made.named(Kind::SocketAddress, "tcp://vm:6010", &[]).liveness.state, State::Unknown, "{hosts}");
    }
    made.listens("127.0.0.1:6010", 610);
    assert_eq!(made.named(Kind::Display, "vm:10.0", &[]).liveness.state, State::Unknown, "whether the name leads there is not known");
    made.listens("0.0.0.0:6010", 611);
    assert_eq!(made.named(Kind::Display, "vm:10.0", &[]).liveness.state, State::Alive, "a listener on all addresses is at every name");
}

#[test]
fn an_alias_of_the_loopback_leads_here_and_other_names_elsewhere() {
    let mut made = MadeUp::new();
    made.file("etc/hosts", "127.0.0.1 screen\n192.0.2.9 far\n");
    made.listens("127.0.0.1:6010", 610);
    assert_eq!(made.named(Kind::Display, "screen:10.0", &[]).liveness.state, State::Alive);
    assert_eq!(made.named(Kind::Display, "far:10.0", &[]).liveness.state, State::Unknown);
}

#[test]
fn a_listener_that_cannot_be_looked_into_is_nobodys_forward_by_its_number_alone() {
    let mut made = MadeUp::new();
    made.listens("127.0.0.1:6010", 610);
    let named = made.named(Kind::Display, DISPLAY, &[]);
    assert_eq!(named.liveness.state, State::Alive);
    assert!(!named.liveness.detail.contains("sshd"), "{}", named.liveness.detail);
    assert!(named.notes.iter().all(|note| !note.contains("sshd")), "{:?}", named.notes);
}

#[test]
fn a_listener_of_a_third_account_is_not_the_forward_of_this_login() {
    const THIRD: u32 = 64_001;
    let mut made = login_a();
    made.hang_up(610);
    made.listens_as(THIRD, "127.0.0.1:6010", 611);
    let named = made.named(Kind::Display, DISPLAY, &[A]);
    // A shell that sshd gave the number to proves nothing of a listener of somebody else.
    assert_eq!(state(&named), (State::Reused, Some(false)));
    assert!(named.liveness.detail.contains(&format!("uid {THIRD}")), "{}", named.liveness.detail);
    // Root's sshd listens as root where root logs in.
    made.hang_up(611).listens_as(0, "127.0.0.1:6010", 612);
    assert_eq!(made.named(Kind::Display, DISPLAY, &[A]).liveness.state, State::Alive);
    // With sudo the process is another account's than the login was.
    made.hang_up(612).listens_as(THIRD, "127.0.0.1:6010", 613);
    assert_eq!(made.named(Kind::Display, DISPLAY, &[A, &format!("SUDO_UID={THIRD}")]).liveness.state, State::Alive);
}

/// `su` keeps DISPLAY and SSH_CONNECTION, and no parent of the process tells any more who logged in.
#[test]
fn a_forward_of_the_account_before_su_is_not_called_another_s() {
    const FIRST: u32 = 64_001;
    let mut made = MadeUp::new();
    made.connected("127.0.0.2:50001", 901).listens_as(FIRST, "127.0.0.1:6010", 610);
    assert_eq!(state(&made.named(Kind::Display, DISPLAY, &[A])), (State::Unknown, None));
    made.hang_up(901);
    assert_eq!(state(&made.named(Kind::Display, DISPLAY, &[A])), (State::Reused, Some(false)), "the connection of birth is gone");
}

#[test]
fn a_pid_in_a_value_means_nothing_where_the_pid_namespace_is_another_or_unknown() {
    let made = MadeUp::new();
    made.process(100, "opencode", 1, 350_000, "").process(77, "ssh-agent", 1, 340_000, "");
    let host = made.host();
    let environ = Environ::default();
    let stat = host.process(100).stat().unwrap();
    let judged = |view: View| {
        let carrier = Carrier { host: &host, process: Some(&stat), view, environ: &environ, born: &environ, connect: false };
        examine(&carrier, Kind::ProcessId, b"77").liveness.state
    };
    assert_eq!(judged(View::OURS), State::Alive);
    assert_eq!(judged(View { mount: Some(100), ..View::OURS }), State::Alive, "a mount namespace of its own says nothing of pids");
    assert_eq!(judged(View { pids: Some(false), ..View::OURS }), State::Unknown);
    assert_eq!(judged(View { pids: None, ..View::OURS }), State::Unknown);
    let old: View = serde_json::from_str(r#"{"mount":null,"net":null}"#).unwrap();
    assert_eq!(judged(old), State::Unknown, "an older snapshot does not say");
}
