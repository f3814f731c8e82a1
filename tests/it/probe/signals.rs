//! Signals as they come: from `timeout`, which sends two, from a terminal that closes, from a person who presses twice, and from one who
//! does not want to wait.

use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::live::Service;
use super::live_ends::{signal, start, things};
use super::{Room, contract_host, python};
use crate::run::{PROGRAM, ran};
use crate::world::look::wait_until;
use crate::world::need::tool;

/// coreutils signals the program that it started, and then the group in which both are.
#[test]
fn under_timeout_nothing_is_left() {
    need!(python());
    for number in 0..6 {
        let (room, dir) = (Room::new(), tempfile::tempdir().unwrap());
        let host = contract_host(dir.path(), &[]);
        let mut command = Command::new("timeout");
        command.arg(format!("{}", 0.6 + 0.15 * f64::from(number))).arg(PROGRAM).args(["probe", "opencode", "-q", "--spawn"]).arg(&host);
        command.env_clear().env("PATH", "/usr/bin:/bin").env("HOME", "/nonexistent").env("TMPDIR", room.path());
        let told = ran(command.stdin(Stdio::null()));
        room.is_empty();
        assert!([0, 124].contains(&told.code), "{} {}", told.code, told.stderr);
    }
}

#[test]
fn two_of_a_kind_clean_up_like_one() {
    need!(python());
    let kinds = [Signal::INT, Signal::TERM, Signal::HUP, Signal::QUIT];
    for (which, apart) in kinds.into_iter().flat_map(|which| [3, 20, 300].map(|apart| (which, apart))) {
        let (room, dir) = (Room::new(), tempfile::tempdir().unwrap());
        let host = contract_host(dir.path(), &[]);
        let mut command = room.command(&["probe", "opencode", "-q", "--spawn", host.to_str().unwrap()]);
        let prober = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        wait_until("the probe's home", || std::fs::read_dir(room.path()).unwrap().count() > 0);
        std::thread::sleep(Duration::from_millis(500));
        signal(prober.id(), which);
        let begun = Instant::now();
        std::thread::sleep(Duration::from_millis(apart));
        // It may have ended by then.
        let _ = Command::new("kill").args([format!("-{}", which.as_raw()), prober.id().to_string()]).stderr(Stdio::null()).status();
        let ended = prober.wait_with_output().unwrap();
        assert_eq!(ended.status.signal(), Some(which.as_raw()), "{which:?} is passed on: {ended:?}");
        assert!(begun.elapsed() < Duration::from_secs(5), "{which:?}: {:?}", begun.elapsed());
        room.is_empty();
    }
}

#[test]
fn two_that_come_together_leave_nothing_in_a_live_daemon() {
    let service = need!(Service::start());
    let room = Room::new();
    assert_eq!(service.probe(&room, &[]).code, 0);
    for number in 0..12 {
        let prober = start(&service, &room, "20");
        std::thread::sleep(Duration::from_millis(150 + 60 * number));
        signal(prober.id(), Signal::TERM);
        std::thread::sleep(Duration::from_millis(3));
        signal(prober.id(), Signal::TERM);
        prober.wait_with_output().unwrap();
        wait_until("the commands to end", || things(&service, &room).3 == 0);
        assert_eq!(things(&service, &room), (0, 0, 0, 0), "sessions, PTYs, output files, processes: after {number}");
        room.is_empty();
    }
}

/// A host that hangs keeps the clean-up waiting; the next probe finds what is named.
#[test]
fn a_person_who_insists_gets_out_and_is_told_what_stays() {
    let service = need!(Service::start());
    let room = Room::new();
    assert_eq!(service.probe(&room, &[]).code, 0);
    let prober = start(&service, &room, "20");
    wait_until("the probe's first session", || service.sessions() > 0);
    signal(service.daemon.pid, Signal::STOP);
    signal(prober.id(), Signal::INT);
    std::thread::sleep(Duration::from_millis(2300));
    signal(prober.id(), Signal::INT);
    let begun = Instant::now();
    let ended = prober.wait_with_output().unwrap();
    let took = begun.elapsed();
    signal(service.daemon.pid, Signal::CONT);
    assert!(ended.status.signal() == Some(2) && took < Duration::from_millis(1500), "{took:?} {ended:?}");
    let said = String::from_utf8_lossy(&ended.stderr).into_owned();
    let left: Vec<String> = std::fs::read_dir(room.path()).unwrap().flatten().map(|entry| entry.path().display().to_string()).collect();
    assert!(said.contains(&service.endpoint.url()) && left.iter().all(|path| said.contains(path)), "{left:?}: {said}");
    let listed = service.endpoint.json("GET", "/api/session?limit=500", None);
    let id = listed["data"][0]["id"].as_str().unwrap();
    assert!(said.contains(&id[4..16]), "{id} is not named: {said}");
    assert_eq!(service.probe(&room, &[]).code, 0);
    wait_until("the commands to end", || things(&service, &room).3 == 0);
    assert_eq!(service.sessions(), 0);
    room.is_empty();
}

/// The window is closed: the terminal goes, and its programs are sent one signal by the kernel and one by the server.
#[test]
fn a_terminal_that_closes_leaves_nothing() {
    need!(python());
    let tmux = need!(tool("tmux", "tmux"));
    for number in 0..4 {
        let (room, dir) = (Room::new(), tempfile::tempdir().unwrap());
        let host = contract_host(dir.path(), &[]);
        let socket = dir.path().join("tmux");
        let asked = format!("exec env TMPDIR={} {PROGRAM} probe opencode --spawn {}", room.path().display(), host.display());
        let run = |arguments: &[&str]| {
            let mut command = Command::new(&tmux);
            command.arg("-S").arg(&socket).args(["-f", "/dev/null"]).args(arguments).env_remove("TMUX").stdin(Stdio::null());
            assert!(command.status().unwrap().success());
        };
        run(&["new-session", "-d", &asked]);
        wait_until("the probe's home", || std::fs::read_dir(room.path()).unwrap().count() > 0);
        std::thread::sleep(Duration::from_millis(300 + 100 * number));
        run(&["kill-server"]);
        wait_until("the probe to clean up", || std::fs::read_dir(room.path()).unwrap().count() == 0);
    }
}

/// What `nohup` keeps from a program is not listened for.
#[test]
fn under_nohup_a_terminal_that_closes_is_none_of_its_business() {
    need!(python());
    let (room, dir) = (Room::new(), tempfile::tempdir().unwrap());
    let host = contract_host(dir.path(), &[]);
    let mut command = Command::new("nohup");
    command.arg(PROGRAM).args(["probe", "opencode", "-q", "--spawn"]).arg(&host);
    command.env_clear().env("PATH", "/usr/bin:/bin").env("HOME", "/nonexistent").env("TMPDIR", room.path());
    let prober = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    wait_until("the probe's home", || std::fs::read_dir(room.path()).unwrap().count() > 0);
    signal(prober.id(), Signal::HUP);
    let ended = prober.wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(0), "{ended:?}");
    room.is_empty();
}
