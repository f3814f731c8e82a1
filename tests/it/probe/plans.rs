//! What `--dry-run` says that a probe asks is what hosts are asked: the real ones, through a recorder that stands before
//! them, and the contract host, which writes it down itself.

use std::collections::BTreeMap;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::Value;

use super::live::Service;
use super::{Room, contract_host, python};
use crate::world::guard::{Proc, tied};
use crate::world::look::{free_port, unix_socket_listens, wait_until};
use crate::world::peers;

type Counts = BTreeMap<String, u32>;

const HEALTH: [&str; 4] = ["/global/health", "/api/info", "/api/status", "/api/health"];

fn recorder() -> String {
    format!("/usr/bin/python3 {}/tests/it/world/recorder.py", env!("CARGO_MANIFEST_DIR"))
}

/// A program that becomes the real one, with a recorder before it; and what it writes.
pub fn recorded(dir: &Path, real: &Path) -> (PathBuf, PathBuf) {
    let log = dir.join("asked");
    let script = format!("#!/bin/sh\nexec {} {} {} \"$@\"\n", recorder(), log.display(), real.display());
    let script = crate::run::write(dir, "recorded", script.as_bytes());
    std::fs::set_permissions(&script, Permissions::from_mode(0o755)).unwrap();
    (script, log)
}

/// Method and path, without ids, places and nonces: the names of a query stay.
fn template(method: &str, path: &str) -> String {
    let (path, query) = path.split_once('?').unwrap_or((path, ""));
    let mut id_follows = false;
    let parts = path.split('/').map(|part| {
        let is_id = std::mem::replace(&mut id_follows, ["session", "pty", "shell"].contains(&part));
        let nobody = part.contains("whoseenvprobe0");
        if is_id && !nobody && !part.is_empty() { "ID" } else { part }
    });
    let path = parts.collect::<Vec<_>>().join("/");
    let names: Vec<_> = query.split('&').filter_map(|pair| pair.split('=').next()).filter(|name| !name.is_empty()).collect();
    format!("{method} {path} {}", names.join("&"))
}

fn plan(room: &Room, arguments: &[&str]) -> Vec<String> {
    let json = room.run(&[&["probe"], arguments, &["--dry-run", "--json"]].concat()).json();
    json["data"]["plan"].as_array().unwrap().iter().map(|line| line.as_str().unwrap().to_owned()).collect()
}

/// What the plan says of a kind of host.
fn planned(plan: &[String], kind: &str) -> Counts {
    let mut counts = Counts::new();
    for line in plan.iter().filter_map(|line| line.strip_prefix(kind)?.strip_prefix(": ")) {
        let (times, rest) = line.split_once(" × ").unwrap_or_else(|| panic!("{line}"));
        let mut words = rest.split(' ');
        let (method, path) = (words.next().unwrap(), words.next().unwrap());
        if ["GET", "POST", "PUT", "DELETE"].contains(&method) {
            *counts.entry(template(method, path)).or_default() += times.parse::<u32>().unwrap();
        }
    }
    counts
}

fn asked(log: &Path) -> Counts {
    let mut counts = Counts::new();
    for line in std::fs::read_to_string(log).unwrap().lines() {
        let mut words = line.split(' ');
        let (method, path) = (words.next().unwrap(), words.next().unwrap());
        if !(method == "GET" && HEALTH.contains(&path)) {
            *counts.entry(template(method, path)).or_default() += 1;
        }
    }
    counts
}

#[test]
fn opencode_is_asked_what_the_plan_says_and_as_often() {
    need!(python());
    let room = Room::new();
    let plan = plan(&room, &["opencode", "--spawn", "/bin/true"]);
    for path in HEALTH {
        assert!(plan.iter().any(|line| line.contains(path)), "{path}");
    }
    let v1 = need!(peers::opencode_v1());
    let preview = need!(peers::opencode_preview());
    for (kind, real) in [("1.x", Some(v1)), ("2.0 without uploads", Some(preview)), ("2.0 with uploads", None)] {
        let dir = tempfile::tempdir().unwrap();
        let (host, log) = match real {
            Some(real) => recorded(dir.path(), &real),
            None => (contract_host(dir.path(), &[]), dir.path().join("asked")),
        };
        let ran = room.run(&["probe", "opencode", "--json", "--spawn", host.to_str().unwrap()]);
        assert_eq!(ran.code, 0, "{kind}: {}", ran.stdout);
        assert_eq!(asked(&log), planned(&plan, kind), "{kind}");
    }
}

#[test]
fn a_live_opencode_is_asked_what_the_plan_says_and_as_often() {
    need!(python());
    let service = need!(Service::start());
    let (room, dir) = (Room::new(), tempfile::tempdir().unwrap());
    let (port, log) = (free_port(), dir.path().join("asked"));
    let mut command = need!(tied("/usr/bin/python3"));
    let real = service.endpoint.address.port().to_string();
    let script = format!("{}/tests/it/world/recorder.py", env!("CARGO_MANIFEST_DIR"));
    let _recorder = Proc::spawn("a recorder", command.arg(script).arg(&log).args(["http", &port.to_string(), &real]));
    wait_until("the recorder", || std::net::TcpStream::connect(("127.0.0.1", port)).is_ok());
    // The daemon ends itself when its registration is another's: the probe is shown one of its own.
    let mut registration: Value = serde_json::from_slice(&std::fs::read(&service.registration).unwrap()).unwrap();
    let password = crate::run::write(dir.path(), "password", registration["password"].as_str().unwrap().as_bytes());
    let url = format!("http://127.0.0.1:{port}");
    let own = std::fs::read(&service.registration).unwrap();
    registration["url"] = url.clone().into();
    std::fs::write(&service.registration, registration.to_string()).unwrap();
    let ran =
        crate::run::ran(&mut room.command(&["probe", "opencode", "--json", "--live", &url, "--password-file", password.to_str().unwrap()]));
    std::fs::write(&service.registration, own).unwrap();
    assert_eq!(ran.code, 0, "{}", ran.stdout);
    assert_eq!(asked(&log), planned(&plan(&room, &["opencode", "--live"]), "2.0 without uploads"));
    room.is_empty();
}

/// A call: its method and the names of its parameters; whether an environment is empty.
fn call(method: &str, parameters: &Value) -> String {
    let mut names: Vec<String> = parameters.as_object().into_iter().flatten().map(|(name, _)| name.clone()).collect();
    names.sort();
    let empty = if parameters["env"].as_object().is_some_and(serde_json::Map::is_empty) { " empty" } else { "" };
    format!("{method} {}{empty}", names.join(" "))
}

/// The calls of a plan: so many, or up to so many.
fn planned_calls(plan: &[String]) -> (Counts, Counts) {
    let (mut exact, mut most) = (Counts::new(), Counts::new());
    for line in plan {
        let (up_to, line) = line.strip_prefix("up to ").map_or((false, line.as_str()), |rest| (true, rest));
        let Some((times, rest)) = line.split_once(" × ") else { continue };
        let Some((method, parameters)) = rest.split_once(' ').filter(|(method, _)| method.contains('/') || *method == "initialize") else {
            continue;
        };
        let parameters = serde_json::Deserializer::from_str(parameters).into_iter::<Value>().next().unwrap().unwrap();
        let counts = if up_to { &mut most } else { &mut exact };
        *counts.entry(call(method, &parameters)).or_default() += times.parse::<u32>().unwrap();
    }
    (exact, most)
}

fn calls(log: &Path) -> Counts {
    let mut counts = Counts::new();
    for line in std::fs::read_to_string(log).unwrap().lines() {
        let (method, parameters) = line.split_once(' ').unwrap();
        *counts.entry(call(method, &serde_json::from_str(parameters).unwrap())).or_default() += 1;
    }
    counts
}

/// Of what a recorder heard, the first word after each start may be missing, when the daemon had answered before it listened.
fn fits(asked: &Counts, plan: &[String], unheard: u32) {
    let (exact, most) = planned_calls(plan);
    for (call, times) in asked {
        let allowed = exact.get(call).or_else(|| most.get(call)).unwrap_or_else(|| panic!("not planned: {call}"));
        assert!(times <= allowed, "{call}: {times} × and not {allowed} ×");
    }
    for (call, times) in &exact {
        let slack = if call == "initialize protocol_version" { unheard } else { 0 };
        let heard = asked.get(call).copied().unwrap_or(0);
        assert!(heard + slack >= *times, "{call}: {heard} × and not {times} ×");
    }
}

#[test]
fn zeroclaw_is_asked_what_the_plan_says_and_as_often() {
    need!(python());
    let program = need!(peers::zeroclaw());
    let room = Room::new();
    for policy in [&[][..], &["--default-policy"]] {
        let dir = tempfile::tempdir().unwrap();
        let (host, log) = recorded(dir.path(), &program);
        let arguments = [&["zeroclaw", "--spawn", host.to_str().unwrap()], policy].concat();
        let ran = room.run(&[&["probe"], &arguments[..], &["--json"]].concat());
        assert_eq!(ran.code, 1, "{}", ran.stdout);
        fits(&calls(&log), &plan(&room, &arguments), 2);
    }
}

#[test]
fn a_live_zeroclaw_is_asked_what_the_plan_says_and_as_often() {
    need!(python());
    let program = need!(peers::zeroclaw());
    let (room, home, dir) = (Room::new(), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let config = "schema_version = 3\n\n[providers.models.custom.stub]\nuri = \"http://127.0.0.1:9/v1\"\napi_key = \"none\"\nmodel = \"stub\"\n\n\
         [risk_profiles.open]\nlevel = \"full\"\n\n[runtime_profiles.plain]\nagentic = true\n\n\
         [agents.main]\nmodel_provider = \"custom.stub\"\nrisk_profile = \"open\"\nruntime_profile = \"plain\"\n";
    std::fs::write(home.path().join("config.toml"), config).unwrap();
    let (host, log) = recorded(dir.path(), &program);
    let mut command = need!(tied(host));
    command.args(["daemon", "--config-dir"]).arg(home.path()).env_clear().env("HOME", home.path()).env("PATH", "/usr/bin:/bin");
    let _daemon = Proc::spawn("zeroclaw", command.stdout(Stdio::null()).stderr(Stdio::null()));
    let (socket, real) = (home.path().join("data/daemon.sock"), home.path().join("data/daemon.sock.real"));
    wait_until("the recorder", || real.exists() && unix_socket_listens(&socket));
    let ran = room.run(&["probe", "zeroclaw", "--json", "--live", socket.to_str().unwrap()]);
    assert_eq!(ran.code, 0, "{}", ran.stdout);
    fits(&calls(&log), &plan(&room, &["zeroclaw", "--live"]), 0);
}
