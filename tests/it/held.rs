//! A snapshot of the whole machine answers for values that nobody carried when it was taken, as the machine would have.

use std::net::TcpListener;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use crate::bad_input::{as_nobody, own_root, public};
use crate::run::{Ran, Sleeper, run};

/// Listeners of a kind each, and a terminal with a program on it; they end with the value.
struct Things {
    dir: tempfile::TempDir,
    terminal: Child,
    display: u16,
    port: u16,
    _open: (Vec<UnixListener>, Vec<TcpListener>),
}

impl Things {
    fn new() -> Things {
        let dir = tempfile::Builder::new().prefix("ssh-held").tempdir_in("/tmp").unwrap();
        let unix: Vec<UnixListener> =
            ["agent.1", "any.sock", "wayland-held", "bus"].map(|name| UnixListener::bind(dir.path().join(name)).unwrap()).into();
        let (display, port) = (10..900)
            .find_map(|number| Some((number, TcpListener::bind(("127.0.0.1", 6000 + number)).ok()?)))
            .expect("a free port for a display");
        let other = TcpListener::bind("127.0.0.1:0").unwrap();
        let number = other.local_addr().unwrap().port();
        let name = SocketAddr::from_abstract_name(format!("/tmp/.X11-unix/X{number}")).unwrap();
        let open = (unix.into_iter().chain([UnixListener::bind_addr(&name).unwrap()]).collect(), vec![port, other]);
        let terminal = Command::new("script").args(["-qfc", "sleep 600", "/dev/null"]).stdin(Stdio::null()).stdout(Stdio::null()).spawn();
        Things { dir, terminal: terminal.expect("script starts"), display, port: number, _open: open }
    }

    /// The terminal that `script` made.
    fn tty(&self) -> String {
        let parent = self.terminal.id().to_string();
        for _ in 0..200 {
            let listed = Command::new("ps").args(["-o", "tty=", "--ppid", &parent]).output().unwrap();
            let tty = String::from_utf8(listed.stdout).unwrap().trim().to_owned();
            if tty.starts_with("pts/") {
                return format!("/dev/{tty}");
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        panic!("script made no terminal");
    }

    /// Values of each kind, of what is there and what is not.
    fn values(&self) -> (Vec<String>, Vec<String>) {
        let at = |name: &str| self.dir.path().join(name).display().to_string();
        let there = vec![
            self.tty(),
            at("agent.1"),
            at("any.sock"),
            at("wayland-held"),
            format!("unix:path={}", at("bus")),
            format!("unix://{}", at("any.sock")),
            format!("localhost:{}.0", self.display),
            format!(":{}", self.port),
            format!("tcp://127.0.0.1:{}", self.port),
            format!("{},{},0", at("any.sock"), std::process::id()),
        ];
        let gone = [
            "/dev/pts/99999",
            "/dev/tty999",
            ":7778",
            "localhost:999.0",
            "/tmp/tmux-4000000/default",
            "/tmp/ssh-neverwas/agent.7",
            "/run/user/4000000/bus",
            "/run/never.sock",
            "/var/run/never.sock",
            "unix:path=/run/dbus/never",
            "unix:abstract=/tmp/never",
            "tcp://127.0.0.1:1",
            "127.0.0.9 1 127.0.0.1 22",
            "/tmp/tmux-4000000/default,4194304,0",
            "wayland-99",
        ];
        (there, gone.map(str::to_owned).into())
    }
}

impl Drop for Things {
    fn drop(&mut self) {
        let _ = self.terminal.kill();
        let _ = self.terminal.wait();
    }
}

/// What is answered of the value; who asked is another process each time.
fn told(ran: &Ran) -> Value {
    let data = &ran.json()["data"];
    // Whether the number of the open file was seen depends on the way by which its holder was found.
    let source = |piece: &Value| piece["source"].as_str().unwrap().split_inclusive("/fd").next().unwrap().to_owned();
    let evidence: Vec<Value> = data["evidence"].as_array().unwrap().iter().map(|piece| json!([source(piece), piece["detail"]])).collect();
    json!([ran.code, data["kind"], data["liveness"], data["owner"], data["same_connection"], evidence])
}

fn snapshot(dir: &Path, name: &str, ask: impl Fn(&[&str]) -> Ran, more: &[&str]) -> PathBuf {
    let place = dir.join(name);
    let taken = ask(&[&["snapshot", place.to_str().unwrap()], more].concat());
    assert_eq!(taken.code, 0, "{}", taken.stderr);
    place
}

#[test]
fn what_nobody_carried_is_answered_as_the_machine_did() {
    let things = Things::new();
    let (there, gone) = things.values();
    let scratch = tempfile::tempdir().unwrap();
    let sleeper = Sleeper::start(&[("DISPLAY", ":7777"), ("SSH_CONNECTION", "127.0.0.9 2 127.0.0.1 22")]);
    let place = snapshot(scratch.path(), "whole", run, &[]);
    for (value, alive) in there.iter().map(|value| (value, true)).chain(gone.iter().map(|value| (value, false))) {
        for target in ["self", &sleeper.pid()] {
            let live = told(&run(&["owner", value, target, "--json"]));
            let captured = told(&run(&["--from", place.to_str().unwrap(), "owner", value, target, "--json"]));
            assert_eq!(captured, live, "{value} {target}");
            let state = live[2]["state"].as_str().unwrap();
            // A relative name leads nowhere without a runtime directory; our listener is no server of tmux and no sshd.
            let sure = !value.starts_with("wayland-") && !value.contains(",") && !value.starts_with("localhost");
            assert!(!sure || (state == "alive") == alive, "{value}: {live}");
        }
    }
    let elsewhere = run(&["--from", place.to_str().unwrap(), "owner", "/var/tmp/never.sock"]);
    assert_eq!(elsewhere.code, 5, "{}", elsewhere.stdout);
    assert!(elsewhere.stdout.contains("the snapshot does not hold it"), "{}", elsewhere.stdout);
    let narrow = snapshot(scratch.path(), "narrow", run, &["--pid", &sleeper.pid()]);
    let never = run(&["--from", narrow.to_str().unwrap(), "owner", "/dev/pts/99999"]);
    assert!(never.code == 5 && never.stdout.contains("the snapshot does not hold it"), "asked for one process: {}", never.stdout);
    // Names that people gave are replaced: that the real one is not among them shows nothing.
    let masked = snapshot(scratch.path(), "masked", run, &["--anonymize"]);
    let code = |value: &str| run(&["--from", masked.to_str().unwrap(), "owner", value]).code;
    assert_eq!((code("/dev/pts/99999"), code("/run/never.sock")), (0, 5));
}

/// The one who may not look into other accounts' processes is told the same by a snapshot of hers.
#[test]
fn to_a_stranger_too() {
    need!(own_root());
    let things = Things::new();
    let (there, gone) = things.values();
    let (dir, program) = public();
    let scratch = dir.path().join("scratch");
    std::fs::create_dir(&scratch).unwrap();
    std::os::unix::fs::chown(&scratch, Some(crate::bad_input::NOBODY), None).unwrap();
    let ask = |arguments: &[&str]| as_nobody("", &program, arguments);
    let place = snapshot(&scratch, "hers", ask, &[]);
    for value in there.iter().chain(&gone) {
        let live = told(&ask(&["owner", value, "--json"]));
        let captured = told(&ask(&["--from", place.to_str().unwrap(), "owner", value, "--json"]));
        assert_eq!(captured, live, "{value}");
    }
}
