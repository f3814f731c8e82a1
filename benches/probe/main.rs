//! What probes cost beside what the hosts need alone: `cargo bench --bench probe`.
//!
//! The real programs come from the cache of the tests. Without them a line says so, and nothing is judged.
#![allow(clippy::print_stdout, clippy::print_stderr)]

#[allow(dead_code)]
#[path = "../../tests/it/world/http.rs"]
mod http;

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use http::Endpoint;
use serde::Deserialize;
use serde_json::{Value, json};
use whoseenv::host::listen::Address;
use whoseenv::probe::readback::{Readback, call};

const PROGRAM: &str = env!("CARGO_BIN_EXE_whoseenv");

/// The probes' part of `benches/targets.toml`.
#[derive(Deserialize)]
struct Targets {
    probe: Probe,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Probe {
    rounds: usize,
    opencode_at_most: f64,
    zeroclaw_at_most_s: f64,
    readback_at_most_ms: f64,
}

fn main() -> ExitCode {
    // What the shells of the last part run is this program.
    let words: Vec<String> = std::env::args().skip(1).collect();
    if let [readback, verb, address, token] = &words[..]
        && (readback.as_str(), verb.as_str()) == ("readback", "call")
    {
        return if call(address, token).is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    }
    let text = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/benches/targets.toml")).unwrap_or_default();
    let targets = match toml::from_str::<Targets>(&text) {
        Ok(targets) => targets.probe,
        Err(error) => {
            eprintln!("benches/targets.toml: {error}");
            return ExitCode::FAILURE;
        }
    };
    let mut missed = 0;
    let mut judge = |what: &str, figure: f64, limit: f64, unit: &str| {
        let word = if figure <= limit { "ok" } else { "MISSED" };
        missed += u32::from(figure > limit);
        println!("{word:<7} {what}: {figure:.2} {unit} (at most {limit} {unit})");
    };
    match peer("opencode2-0.0.0-next-16350/opencode2") {
        Some(program) => {
            let (mut alone, mut probed) = (Vec::new(), Vec::new());
            for _ in 0..targets.rounds {
                alone.push(host_alone(&program));
                probed.push(timed(&["probe", "opencode", "-q", "--spawn", &program.display().to_string()]));
            }
            let (alone, probed) = (median(alone), median(probed));
            println!("        the preview alone, started twice, nine commands: {alone:.2} s; all claims: {probed:.2} s");
            judge("probe opencode --spawn, in times of the host alone", probed / alone, targets.opencode_at_most, "×");
        }
        None => println!("skipped the preview: it is not in the cache of the tests"),
    }
    match peer("zeroclaw-0.8.7/bin/zeroclaw") {
        Some(program) => {
            let took = (0..targets.rounds).map(|_| timed(&["probe", "zeroclaw", "-q", "--spawn", &program.display().to_string()]));
            judge("probe zeroclaw --spawn", median(took.collect()), targets.zeroclaw_at_most_s, "s");
        }
        None => println!("skipped ZeroClaw: it is not in the cache of the tests"),
    }
    judge("the read-back, a command", readback(), targets.readback_at_most_ms, "ms");
    if missed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn peer(path: &str) -> Option<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let cache = || set("XDG_CACHE_HOME").or_else(|| set("HOME").map(|home| home.join(".cache"))).map(|dir| dir.join("whoseenv/test-peers"));
    let program = set("WHOSEENV_TEST_PEERS").or_else(cache)?.join(path);
    program.is_file().then_some(program)
}

fn median(mut seconds: Vec<f64>) -> f64 {
    seconds.sort_by(f64::total_cmp);
    seconds[seconds.len() / 2]
}

fn timed(arguments: &[&str]) -> f64 {
    let begun = Instant::now();
    let status = Command::new(PROGRAM).args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).status().expect("it starts");
    assert!([0, 1].contains(&status.code().unwrap_or(-1)), "{arguments:?}: {status}");
    begun.elapsed().as_secs_f64()
}

/// The host, started twice in a home of its own, and the commands that a probe runs, one after the other.
fn host_alone(program: &Path) -> f64 {
    let home = tempfile::tempdir().expect("a directory");
    let models = home.path().join(".cache/opencode/models.json");
    std::fs::create_dir_all(models.parent().expect("below the home")).expect("a directory");
    std::fs::write(&models, "{}").expect("a file");
    let later = std::time::SystemTime::now() + Duration::from_secs(10 * 365 * 24 * 3600);
    std::fs::File::options().write(true).open(&models).and_then(|file| file.set_modified(later)).expect("its time");
    let begun = Instant::now();
    for half in 0..2 {
        let port = std::net::TcpListener::bind("127.0.0.1:0").and_then(|socket| socket.local_addr()).expect("a port").port();
        let mut host = Command::new(program)
            .args(["serve", "--port", &port.to_string()])
            .env_clear()
            .env("HOME", home.path())
            .env("PATH", "/usr/bin:/bin")
            .env("TERM", "vt220")
            .current_dir(home.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the host starts");
        let mut lines = BufReader::new(host.stdout.take().expect("piped")).lines();
        let password = lines.find_map(|line| line.ok()?.trim().strip_prefix("server password ").map(str::to_owned)).expect("its password");
        let endpoint = Endpoint::new(&format!("http://127.0.0.1:{port}"), Some(("opencode", &password)));
        while !endpoint.request("GET", "/api/health", None).is_ok_and(|(status, _)| status == 200) {
            std::thread::sleep(Duration::from_millis(5));
        }
        commands(&endpoint, home.path(), half);
        // As politely as a probe ends it.
        let pid = rustix::process::Pid::from_raw(i32::try_from(host.id()).expect("a pid")).expect("a pid");
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        let _ = host.wait();
    }
    begun.elapsed().as_secs_f64()
}

fn commands(endpoint: &Endpoint, home: &Path, half: usize) {
    let session = || {
        let made = endpoint.json("POST", "/api/session", Some(&json!({"location": {"directory": home}})));
        made["data"]["id"].as_str().expect("an id").to_owned()
    };
    let place = format!("location%5Bdirectory%5D={}", home.display());
    let shell = |session: &str| drop(endpoint.json("POST", &format!("/api/session/{session}/shell"), Some(&json!({"command": "true"}))));
    if half == 0 {
        let one = session();
        (0..5).for_each(|_| shell(&one));
    } else {
        shell(&session());
        for _ in 0..2 {
            endpoint.json("POST", &format!("/api/pty?{place}"), Some(&json!({"command": "/bin/bash", "args": ["-c", "true"]})));
        }
        let bare: Value = endpoint.json("POST", &format!("/api/shell?{place}"), Some(&json!({"command": "true", "timeout": 5000})));
        assert!(bare["data"]["id"].is_string());
    }
}

/// What a read-back adds to a shell that would run a command anyway, in milliseconds.
fn readback() -> f64 {
    let dir = tempfile::tempdir().expect("a directory");
    let readback = Readback::open(Address::Path(dir.path().join("ear"))).expect("a socket");
    let shell = |command: &str| Command::new("/bin/bash").args(["-c", command]).stdin(Stdio::null()).spawn().expect("bash starts");
    let (mut with, mut without) = (Vec::new(), Vec::new());
    for _ in 0..50 {
        let begun = Instant::now();
        let _ = shell("/bin/true; :").wait();
        without.push(begun.elapsed().as_secs_f64());
        let expected = readback.expect().expect("a token");
        let begun = Instant::now();
        let mut running = shell(expected.command());
        assert!(expected.read(Duration::from_secs(10), Some(std::process::id())).is_ok());
        let _ = running.wait();
        with.push(begun.elapsed().as_secs_f64());
    }
    (median(with) - median(without)) * 1000.0
}
