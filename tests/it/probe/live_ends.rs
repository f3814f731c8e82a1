//! A live probe that does not come to its end: Ctrl-C, a host that hangs, a prober that is killed.

use std::process::{Child, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::Room;
use super::live::Service;
use crate::world::look::wait_until;

pub fn start(service: &Service, room: &Room, timeout: &str) -> Child {
    let url = service.endpoint.url();
    let mut command = room.command(&["probe", "opencode", "--json", "--timeout", timeout, "--live", &url]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

pub fn signal(pid: u32, signal: Signal) {
    kill_process(Pid::from_raw(i32::try_from(pid).unwrap()).unwrap(), signal).unwrap();
}

/// The sessions, PTYs and output files of a daemon, and the processes that call back.
pub fn things(service: &Service, room: &Room) -> (usize, usize, usize, usize) {
    let place = format!("location%5Bdirectory%5D={}", room.path().display());
    let ptys = service.endpoint.json("GET", &format!("/api/pty?{place}"), None)["data"].as_array().unwrap().len();
    let room = room.path().to_str().unwrap();
    let calls = |entry: std::fs::DirEntry| {
        let line = String::from_utf8_lossy(&std::fs::read(entry.path().join("cmdline")).unwrap_or_default()).into_owned();
        line.contains("readback") && line.contains(room)
    };
    let callers = std::fs::read_dir("/proc").unwrap().flatten().map(calls).filter(|calls| *calls).count();
    (service.sessions(), ptys, service.outputs(), callers)
}

#[test]
fn a_signal_at_any_moment_leaves_nothing_in_a_live_daemon() {
    let service = need!(Service::start());
    let room = Room::new();
    // The first probe is slower than those after it.
    assert_eq!(service.probe(&room, &[]).code, 0);
    for number in 0..12 {
        let prober = start(&service, &room, "20");
        std::thread::sleep(Duration::from_millis(250 + 70 * number));
        let which = if number % 2 == 0 { Signal::INT } else { Signal::TERM };
        signal(prober.id(), which);
        prober.wait_with_output().unwrap();
        wait_until("the commands to end", || things(&service, &room).3 == 0);
        assert_eq!(things(&service, &room), (0, 0, 0, 0), "sessions, PTYs, output files, processes: after {number}");
        room.is_empty();
    }
}

#[test]
fn what_a_hung_daemon_may_make_later_is_listed_and_goes_with_the_next_probe() {
    let service = need!(Service::start());
    let room = Room::new();
    assert_eq!(service.probe(&room, &[]).code, 0);
    for number in 0..4 {
        let before = service.output_files();
        let prober = start(&service, &room, "3");
        std::thread::sleep(Duration::from_millis(200 + 150 * number));
        signal(service.daemon.pid, Signal::STOP);
        let ended = prober.wait_with_output().unwrap();
        let files = service.output_files();
        signal(service.daemon.pid, Signal::CONT);
        let Ok(json) = serde_json::from_slice::<Value>(&ended.stdout) else { panic!("{ended:?}") };
        // What it had in its ears it does now.
        service.endpoint.json("GET", "/api/session?limit=1", None);
        std::thread::sleep(Duration::from_millis(300));
        let left: Vec<&str> = json["data"]["cleanup"]["left"]
            .as_array()
            .into_iter()
            .flatten()
            .filter(|left| left["by_nature"] == false)
            .map(|left| left["what"].as_str().unwrap())
            .collect();
        for file in files.iter().filter(|file| !before.contains(file)) {
            assert!(left.iter().any(|left| *left == file.to_str().unwrap()), "{} is not listed: {left:?}", file.display());
        }
        let listed = service.endpoint.json("GET", "/api/session?limit=500", None);
        for session in listed["data"].as_array().unwrap() {
            let id = session["id"].as_str().unwrap();
            assert!(left.iter().any(|left| left.contains(id)), "{id} is not listed: {left:?}");
        }
        assert_eq!(service.probe(&room, &[]).code, 0);
        wait_until("the commands to end", || things(&service, &room).3 == 0);
        assert_eq!((things(&service, &room).0, things(&service, &room).1), (0, 0), "sessions, PTYs: after {number}");
    }
}

/// Its files stay on the disk when the daemon is killed: they are named.
#[test]
fn the_output_files_of_a_daemon_that_was_killed_are_named() {
    let service = need!(Service::start());
    let room = Room::new();
    assert_eq!(service.probe(&room, &[]).code, 0);
    let prober = start(&service, &room, "3");
    wait_until("an output file", || service.outputs() > 0);
    signal(service.daemon.pid, Signal::KILL);
    let ended = prober.wait_with_output().unwrap();
    let json: Value = serde_json::from_slice(&ended.stdout).unwrap();
    let left = json["data"]["cleanup"]["left"].to_string();
    let files = service.output_files();
    assert!(!files.is_empty() && json["data"]["cleanup"]["looked_again"] == false, "{json:#}");
    for file in files {
        assert!(left.contains(file.to_str().unwrap()), "{} is not listed: {left}", file.display());
    }
}

#[test]
fn what_a_killed_probe_left_goes_with_the_next_one_which_says_so() {
    let service = need!(Service::start());
    let room = Room::new();
    let mut prober = start(&service, &room, "20");
    wait_until("the probe's first session", || service.sessions() > 0);
    prober.kill().unwrap();
    prober.wait().unwrap();
    // A session of a person's in the same directory is none of the probe's.
    let own = serde_json::json!({"location": {"directory": room.path()}});
    let person = service.endpoint.json("POST", "/api/session", Some(&own))["data"]["id"].as_str().unwrap().to_owned();
    let told = service.probe(&room, &[]).json();
    let removed = told["data"]["cleanup"]["removed"].to_string();
    assert!(removed.contains("of a probe that was killed"), "{removed}");
    let listed = service.endpoint.json("GET", "/api/session?limit=500", None);
    let left: Vec<&str> = listed["data"].as_array().unwrap().iter().map(|session| session["id"].as_str().unwrap()).collect();
    assert_eq!(left, [person.as_str()]);
}
