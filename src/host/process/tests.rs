//! What `/proc` says of a process, and what it may say at worst.

use super::*;

#[test]
fn a_hostile_comm_does_not_shift_the_fields() {
    let line = b"42 (a) S 1 (x\n) R 7 42 41 34819 42 4194304 1 2 3 4 5 6 7 8 20 0 1 0 987654 1 2";
    let stat = Stat::parse(line, 1000).unwrap();
    assert_eq!((stat.pid, stat.ppid, stat.pgrp, stat.session, stat.state), (42, 7, 42, 41, 'R'));
    assert_eq!(stat.comm.as_bytes(), b"a) S 1 (x\n");
    assert_eq!(stat.start_ticks, 987_654);
    assert_eq!(stat.tty().as_deref(), Some("pts/3"));
    assert!(!stat.kernel_thread);
}

#[test]
fn a_handle_is_of_one_process_and_never_of_the_next_with_its_number() {
    let host = Host::live();
    let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
    let process = host.process(child.id());
    let own = process.stat().unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    for _ in 0..100 {
        // Whoever has the number now, the handle is not of them: it says what it was, and reads nothing more.
        assert_eq!((process.stat(), process.cmdline().map(|_| ())), (Ok(own.clone()), Err(Unknown::Gone)));
    }
    assert_eq!((process.environ().map(|_| ()), process.cgroup().map(|_| ())), (Err(Unknown::Gone), Err(Unknown::Gone)));
}

#[test]
fn ttys_have_the_names_that_ps_gives_them() {
    let tty = |tty_nr| Stat { tty_nr, ..Stat::parse(b"1 (x) S 0 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 1", 0).unwrap() }.tty();
    assert_eq!(tty(0), None);
    assert_eq!(tty(0x0401).as_deref(), Some("tty1"));
    assert_eq!(tty(0x0440).as_deref(), Some("ttyS0"));
    assert_eq!(tty(0x8800 + 0x0010_0000).as_deref(), Some("pts/256"));
    assert_eq!(tty(0x8900).as_deref(), Some("pts/256"));
}

#[test]
fn a_torn_line_is_no_process() {
    for line in [&b""[..], b"42", b"42 (x", b"42 (x)", b"42 (x) S 1 2", b"x (y) S 1 1 1 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0"] {
        assert!(Stat::parse(line, 0).is_none(), "{:?}", String::from_utf8_lossy(line));
    }
}

#[test]
fn the_mark_of_deletion_is_no_part_of_the_path() {
    let exe = Exe::parse(b"/opt/a b/opencode (deleted)");
    assert!(exe.deleted);
    assert_eq!(exe.base(), b"opencode");
    assert_eq!(exe.shown(), b"/opt/a b/opencode (deleted)");
}

proptest::proptest! {
    #[test]
    fn no_line_panics(line in proptest::collection::vec(proptest::num::u8::ANY, 0..200)) {
        let _ = Stat::parse(&line, 0);
    }
}
