//! The contract host answers what the real preview answers, where the preview has the surface.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use super::{contract_host, python};
use crate::world::guard::{Proc, tied};
use crate::world::http::Endpoint;
use crate::world::look::{free_port, wait_for};
use crate::world::peers;

struct Served {
    _process: Proc,
    endpoint: Endpoint,
    home: tempfile::TempDir,
}

fn serve(program: &Path) -> Served {
    let home = tempfile::tempdir().unwrap();
    let port = free_port();
    let mut command: Command = tied(program).unwrap_or_else(|missing| panic!("{missing:?}"));
    command
        .args(["serve", "--port", &port.to_string()])
        .env_clear()
        .env("HOME", home.path())
        .env("PATH", "/usr/bin:/bin")
        .env("TERM", "vt220");
    let mut process = Proc::spawn("a host", command.current_dir(home.path()).stdout(Stdio::piped()).stderr(Stdio::null()));
    let mut lines = BufReader::new(process.child().stdout.take().unwrap()).lines();
    let password =
        lines.find_map(|line| line.unwrap().trim().strip_prefix("server password ").map(str::to_owned)).expect("it prints its password");
    // Whatever else it prints must not block it.
    std::thread::spawn(move || lines.for_each(drop));
    let endpoint = Endpoint::new(&format!("http://127.0.0.1:{port}"), Some(("opencode", &password)));
    wait_for("the host", || endpoint.request("GET", "/api/session?limit=1", None).ok());
    Served { _process: process, endpoint, home }
}

/// Status, and the names of an answer's fields: what a client can rely on, without ids and times.
fn shape(answer: &(u16, String), ignoring: &[&str]) -> Value {
    fn names(value: &Value, ignoring: &[&str]) -> Value {
        match value {
            Value::Object(map) => {
                let mut keys: Vec<_> = map.iter().filter(|(key, _)| !ignoring.contains(&key.as_str())).collect();
                keys.sort_by_key(|(key, _)| (*key).clone());
                Value::Object(keys.into_iter().map(|(key, value)| (key.clone(), names(value, ignoring))).collect())
            }
            Value::Array(items) => items.iter().take(1).map(|item| names(item, ignoring)).collect(),
            Value::String(text) if text.ends_with("Error") || ["exited", "shell", "Payload", "steer"].contains(&text.as_str()) => {
                value.clone()
            }
            Value::Null => Value::Null,
            Value::String(_) => json!("text"),
            Value::Number(_) => json!("number"),
            Value::Bool(_) => json!("bool"),
        }
    }
    let body: Value = serde_json::from_str(&answer.1).unwrap_or(Value::Null);
    json!([answer.0, names(&body, ignoring)])
}

/// What each host answers to the same requests, in order.
fn exchanges(served: &Served) -> Vec<(String, Value)> {
    let directory = served.home.path().display().to_string();
    let ask = |method: &str, path: &str, body: Option<Value>| served.endpoint.request(method, path, body.as_ref()).unwrap();
    let mut told = Vec::new();
    let mut tell = |what: &str, answer: &(u16, String), ignoring: &[&str]| told.push((what.to_owned(), shape(answer, ignoring)));
    let made = ask("POST", "/api/session", Some(json!({"location": {"directory": directory}})));
    let session = serde_json::from_str::<Value>(&made.1).unwrap()["data"]["id"].as_str().unwrap().to_owned();
    tell("a new session", &made, &[]);
    tell("a command", &ask("POST", &format!("/api/session/{session}/shell"), Some(json!({"command": "echo hi"}))), &[]);
    tell("a command that is no text", &ask("POST", &format!("/api/session/{session}/shell"), Some(json!({"command": 1}))), &[]);
    tell("its messages", &ask("GET", &format!("/api/session/{session}/message"), None), &["cursor", "time"]);
    tell("a session", &ask("GET", &format!("/api/session/{session}"), None), &[]);
    tell("a fork", &ask("POST", &format!("/api/session/{session}/fork"), Some(json!({}))), &[]);
    let unknown = "/api/session/ses_ffffffffffffwhoseenvprobe0";
    tell("an unknown session", &ask("GET", unknown, None), &[]);
    tell("a command in an unknown session", &ask("POST", &format!("{unknown}/shell"), Some(json!({"command": "true"}))), &[]);
    let place = format!("location%5Bdirectory%5D={directory}");
    tell(
        "a bare command",
        &ask("POST", &format!("/api/shell?{place}"), Some(json!({"command": "true", "timeout": 5000}))),
        &["exit", "completed", "status"],
    );
    tell("a bare command without a timeout", &ask("POST", &format!("/api/shell?{place}"), Some(json!({"command": "true"}))), &[]);
    tell("a PTY", &ask("POST", &format!("/api/pty?{place}"), Some(json!({"command": "/bin/bash", "args": ["-c", "true"]}))), &[]);
    tell("a prompt", &ask("POST", &format!("/api/session/{session}/prompt"), Some(json!({"text": "x"}))), &[]);
    tell("its end", &ask("DELETE", &format!("/api/session/{session}"), None), &[]);
    tell("its second end", &ask("DELETE", &format!("/api/session/{session}"), None), &[]);
    tell("after its end", &ask("GET", &format!("/api/session/{session}"), None), &[]);
    let mut stranger = served.endpoint.clone();
    stranger.login = Some(("opencode".to_owned(), "wrong".to_owned()));
    told.push(("a wrong password".to_owned(), json!(stranger.request("GET", "/api/session", None).unwrap().0)));
    told
}

/// As next-16350 answered when this was written: the replay is judged by it where the preview cannot be had.
fn recorded() -> Vec<(String, Value)> {
    serde_json::from_str(include_str!("../world/contract_host/preview.json")).expect("recorded exchanges")
}

#[test]
fn the_contract_host_answers_as_the_preview_did() {
    need!(python());
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(exchanges(&serve(&contract_host(dir.path(), &[]))), recorded());
}

#[test]
fn the_preview_still_answers_as_it_did() {
    let program = need!(peers::opencode_preview());
    let answered = exchanges(&serve(&program));
    if std::env::var_os("WHOSEENV_RECORD").is_some() {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/world/contract_host/preview.json");
        std::fs::write(file, serde_json::to_string_pretty(&answered).unwrap() + "\n").unwrap();
    }
    assert_eq!(answered, recorded());
}
