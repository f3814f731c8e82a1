//! `--live` on a real 1.x server: to the end, and ended at any moment.

use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use super::{Room, ids, with_outcome};
use crate::world::guard::{Proc, tied};
use crate::world::http::Endpoint;
use crate::world::look::{free_port, wait_for, wait_until};
use crate::world::{Needed, peers};

pub struct Server {
    process: Proc,
    pub endpoint: Endpoint,
    pub home: tempfile::TempDir,
}

impl Server {
    pub fn start() -> Needed<Server> {
        Server::of(peers::opencode_v1()?, &[])
    }

    pub fn of(program: PathBuf, more: &[&str]) -> Needed<Server> {
        let (home, port) = (tempfile::tempdir().unwrap(), free_port());
        std::fs::create_dir(home.path().join("tmp")).unwrap();
        let mut command = tied(program)?;
        command.args(["serve", "--port", &port.to_string()]).args(more).env_clear().env("HOME", home.path()).env("PATH", "/usr/bin:/bin");
        command
            .env("TERM", "vt220")
            .env("DISPLAY", ":77")
            .env("TMPDIR", home.path().join("tmp"))
            .current_dir(home.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let process = Proc::spawn("opencode 1.x", &mut command);
        let endpoint = Endpoint::new(&format!("http://127.0.0.1:{port}"), None);
        wait_for("its health", || {
            let asked = endpoint.request_within(Duration::from_millis(300), "GET", "/global/health", None);
            asked.ok().filter(|(status, body)| *status == 200 && body.contains("healthy"))
        });
        Ok(Server { process, endpoint, home })
    }

    pub fn command(&self, room: &Room, timeout: &str) -> std::process::Command {
        room.command(&["probe", "opencode", "--json", "--timeout", timeout, "--live", &self.endpoint.url()])
    }

    fn begin(&self, room: &Room, timeout: &str) -> Child {
        self.command(room, timeout).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    /// Sessions and PTYs in the probe's directory, and the commands that call back.
    fn things(&self, room: &Room) -> (usize, usize, usize) {
        let count = |path: &str| {
            let listed = self.endpoint.json("GET", &format!("{path}?directory={}", room.path().display()), None);
            listed.as_array().unwrap_or_else(|| panic!("{path}: {listed}")).len()
        };
        let room = room.path().to_str().unwrap();
        let calls = |entry: std::fs::DirEntry| {
            let line = String::from_utf8_lossy(&std::fs::read(entry.path().join("cmdline")).unwrap_or_default()).into_owned();
            line.contains("readback") && line.contains(room)
        };
        (count("/session"), count("/pty"), std::fs::read_dir("/proc").unwrap().flatten().map(calls).filter(|it| *it).count())
    }

    pub fn is_left_empty(&self, room: &Room, after: &str) {
        wait_until("the commands to end", || self.things(room).2 == 0);
        assert_eq!(self.things(room), (0, 0, 0), "sessions, PTYs, processes: {after}");
    }
}

fn signal(pid: u32, signal: Signal) {
    kill_process(Pid::from_raw(i32::try_from(pid).unwrap()).unwrap(), signal).unwrap();
}

#[test]
fn a_live_1x_is_left_as_it_was_to_the_end_and_after_a_signal_at_any_moment() {
    let server = need!(Server::start());
    let room = Room::new();
    let told = crate::run::ran(&mut server.command(&room, "20"));
    assert_eq!((told.code, with_outcome(&told.json(), "confirmed")), (0, ids('O', &[1, 2, 7, 10, 13])), "{}", told.stdout);
    server.is_left_empty(&room, "to the end");
    for number in 0..12 {
        let prober = server.begin(&room, "20");
        std::thread::sleep(Duration::from_millis(150 + 90 * number));
        signal(prober.id(), if number % 2 == 0 { Signal::INT } else { Signal::TERM });
        prober.wait_with_output().unwrap();
        server.is_left_empty(&room, &format!("a signal, {number}"));
        room.is_empty();
    }
}

#[test]
fn what_a_hung_1x_or_a_killed_probe_leaves_goes_with_the_next_one() {
    let server = need!(Server::start());
    let room = Room::new();
    assert_eq!(crate::run::ran(&mut server.command(&room, "20")).code, 0);
    for number in 0..4 {
        let prober = server.begin(&room, "3");
        std::thread::sleep(Duration::from_millis(200 + 150 * number));
        signal(server.process.pid(), Signal::STOP);
        let ended = prober.wait_with_output().unwrap();
        signal(server.process.pid(), Signal::CONT);
        assert!(serde_json::from_slice::<serde_json::Value>(&ended.stdout).is_ok(), "{ended:?}");
        server.endpoint.json("GET", "/global/health", None);
        std::thread::sleep(Duration::from_millis(300));
        assert_eq!(crate::run::ran(&mut server.command(&room, "20")).code, 0);
        server.is_left_empty(&room, &format!("hung, {number}"));
        let mut killed = server.begin(&room, "20");
        std::thread::sleep(Duration::from_millis(200 + 150 * number));
        killed.kill().unwrap();
        killed.wait().unwrap();
        assert_eq!(crate::run::ran(&mut server.command(&room, "20")).code, 0);
        server.is_left_empty(&room, &format!("killed, {number}"));
    }
}
