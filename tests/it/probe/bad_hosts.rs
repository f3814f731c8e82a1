//! Hosts that misbehave, and probers that are interrupted: no verdict by assumption, and nothing is left.

use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use super::{Room, contract_host, evidence, python, with_outcome};
use crate::small_disk::SmallDisk;
use crate::world::look::wait_until;

#[test]
fn a_host_that_misbehaves_is_judged_by_nothing() {
    need!(python());
    for fault in ["garbage", "error", "half", "huge", "html", "die", "hang"] {
        for early in [false, true] {
            let room = Room::new();
            let dir = tempfile::tempdir().unwrap();
            let faults: &[&str] = if early { &[fault, "at-once"] } else { &[fault] };
            let host = contract_host(dir.path(), faults);
            let begun = Instant::now();
            let ran = room.run(&["probe", "opencode", "--json", "--timeout", "3", "--spawn", host.to_str().unwrap()]);
            let json = ran.json();
            assert_eq!(ran.code, 5, "{fault} {early}: {json:#}");
            for outcome in ["refuted", "not_supported"] {
                assert_eq!(with_outcome(&json, outcome), Vec::<String>::new(), "{fault} {early}");
            }
            assert!(with_outcome(&json, "undetermined").len() >= 12, "{fault} {early}");
            if early && fault == "error" {
                assert!(evidence(&json, "O1").contains("500, JSON"), "it answers, and is not refused: {}", evidence(&json, "O1"));
            }
            assert_eq!(json["data"]["cleanup"]["left"].as_array().map(Vec::len), Some(0), "{fault}");
            assert_eq!(json["data"]["cleanup"]["looked_again"], true);
            assert!(begun.elapsed() < Duration::from_secs(30), "{fault} {early}: {:?}", begun.elapsed());
            nothing_runs(dir.path());
        }
    }
}

#[test]
fn ctrl_c_cleans_up() {
    need!(python());
    for fault in ["hang", "none"] {
        let room = Room::new();
        let dir = tempfile::tempdir().unwrap();
        let host = contract_host(dir.path(), &[fault]);
        let prober = start(&room, &host);
        let pid = prober.id();
        wait_until("the probe's home", || std::fs::read_dir(room.path()).unwrap().count() > 0);
        std::thread::sleep(Duration::from_millis(800));
        signal(pid, rustix::process::Signal::INT);
        let begun = Instant::now();
        let ended = prober.wait_with_output().unwrap();
        use std::os::unix::process::ExitStatusExt;
        assert_eq!(ended.status.signal(), Some(2), "the signal is passed on: {ended:?}");
        assert!(begun.elapsed() < Duration::from_secs(15), "{fault}: {:?}", begun.elapsed());
        room.is_empty();
        nothing_runs(dir.path());
    }
}

#[test]
fn a_prober_that_was_killed_leaves_no_host_and_the_next_one_sweeps() {
    need!(python());
    let room = Room::new();
    let dir = tempfile::tempdir().unwrap();
    let host = contract_host(dir.path(), &["hang"]);
    let mut prober = start(&room, &host);
    wait_until("the host", || runs(dir.path()));
    prober.kill().unwrap();
    prober.wait().unwrap();
    nothing_runs(dir.path());
    assert_eq!(std::fs::read_dir(room.path()).unwrap().count(), 1, "what it made is still there");
    let sound = room.run(&["probe", "exec", "-q", "env-i"]);
    assert_eq!(sound.code, 0);
}

/// Full before anything is there, in the middle of the experiments, and nearly.
#[test]
fn a_full_disk_is_said_and_nothing_is_left() {
    need!(python());
    need!(crate::world::accounts::possible());
    for size in ["64k", "200k", "400k"] {
        let room = Room::new();
        let Some(small) = SmallDisk::mounted(room.path(), size) else { skip!("no tmpfs can be mounted here") };
        let dir = tempfile::tempdir().unwrap();
        let host = contract_host(dir.path(), &[]);
        let mut command = room.command(&["probe", "opencode", "--json", "--timeout", "5", "--spawn", host.to_str().unwrap()]);
        let ran = crate::run::ran(command.env("TMPDIR", small.path()));
        let left = small.entries();
        small.end();
        assert_eq!((ran.code, left), (5, 0), "{size}: {}", ran.stdout);
        assert_eq!(with_outcome(&ran.json(), "refuted"), Vec::<String>::new());
        nothing_runs(dir.path());
    }
}

#[test]
fn a_shell_that_does_not_call_is_not_taken_for_an_answer() {
    let room = Room::new();
    let ran = room.run(&["probe", "exec", "--json", "--timeout", "2", "--set", "A=1", "--", "true", "{command}"]);
    assert_eq!(ran.code, 5, "{}", ran.stdout);
    assert!(evidence(&ran.json(), "command").contains("did not call"));
}

fn start(room: &Room, host: &std::path::Path) -> Child {
    let mut command = room.command(&["probe", "opencode", "--json", "--timeout", "20", "--spawn", host.to_str().unwrap()]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn signal(pid: u32, signal: rustix::process::Signal) {
    let pid = rustix::process::Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    rustix::process::kill_process(pid, signal).unwrap();
}

/// The processes that were started from this test's directory and whose arguments hold `word`.
fn of_this_test(dir: &std::path::Path, word: &str) -> usize {
    let place = dir.to_str().unwrap();
    let pids = std::fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let fits = |pid: &u32| {
        let cmdline = String::from_utf8_lossy(&std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default()).into_owned();
        cmdline.contains(place) && cmdline.contains(word)
    };
    pids.filter(fits).count()
}

fn runs(dir: &std::path::Path) -> bool {
    of_this_test(dir, "opencode.py") > 0
}

fn nothing_runs(dir: &std::path::Path) {
    wait_until("the processes of this test to end", || of_this_test(dir, "") == 0);
}

/// A block that was not made of assignments has secrets for names: they are in no evidence, and values never are.
#[test]
fn names_that_are_secrets_and_values_are_in_no_evidence() {
    let room = Room::new();
    let secret = "ghp_0123456789abcdefghijABCDEFGHIJ012345";
    let run = format!("env -i '{secret}=x' API_TOKEN=canary-value-77 A=\"$A\" PATH=/usr/bin:/bin sh -c \"$0\"");
    let ran = room.run(&["probe", "exec", "--json", "--only", "PATH,A", "--set", "A=declared", "--", "sh", "-c", &run, "{command}"]);
    assert_eq!(ran.code, 1, "{}", ran.stdout);
    let seen = evidence(&ran.json(), "command");
    assert!(seen.contains("API_TOKEN") && seen.contains("a name of 40 bytes that is not shown"), "{seen}");
    let evidence_alone = seen.replace(&run, "");
    assert!(!evidence_alone.contains(secret) && !evidence_alone.contains("canary-value-77"), "{evidence_alone}");
}
