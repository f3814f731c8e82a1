//! A model provider on loopback: asked with tools at hand it calls one shell tool, and once it has the tool's
//! result it answers with text. OpenAI's chat completions, streamed or not: what all three daemons speak.

use super::http::{header, read_body, read_head};
use serde_json::{Value, json};
use std::io::{BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

#[derive(Debug)]
pub struct StubModel {
    pub address: SocketAddr,
    said: Arc<Said>,
    server: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Said {
    command: Mutex<String>,
    call: Mutex<Option<(String, Value)>>,
    requests: Mutex<Vec<Value>>,
    stop: AtomicBool,
}

/// What a tool that runs a shell command is called, by host.
const SHELL_TOOLS: [&str; 3] = ["bash", "shell", "shell_command"];

impl StubModel {
    /// A model that wants to run `command`.
    pub fn start(command: &str) -> StubModel {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port on loopback");
        let address = listener.local_addr().expect("it has an address");
        let said = Arc::new(Said { command: Mutex::new(command.to_owned()), ..Said::default() });
        let shared = Arc::clone(&said);
        let server = std::thread::spawn(move || {
            for stream in listener.incoming() {
                if shared.stop.load(Ordering::SeqCst) {
                    return;
                }
                let shared = Arc::clone(&shared);
                // A daemon that hangs up in the middle is its own affair.
                std::thread::spawn(move || stream.and_then(|s| answer(&s, &shared)));
            }
        });
        StubModel { address, said, server: Some(server) }
    }

    /// `http://127.0.0.1:PORT/v1`
    pub fn base_url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// From the next turn on, another command.
    pub fn set_command(&self, command: &str) {
        *self.said.command.lock().expect("no panic while locked") = command.to_owned();
    }

    /// Calls this tool, once, as soon as it is offered.
    pub fn call_once(&self, tool: &str, arguments: Value) {
        *self.said.call.lock().expect("no panic while locked") = Some((tool.to_owned(), arguments));
    }

    /// Every request so far.
    pub fn requests(&self) -> Vec<Value> {
        self.said.requests.lock().expect("no panic while locked").clone()
    }
}

impl Drop for StubModel {
    fn drop(&mut self) {
        self.said.stop.store(true, Ordering::SeqCst);
        let _ = TcpStream::connect(self.address);
        if let Some(server) = self.server.take() {
            let _ = server.join();
        }
    }
}

fn answer(stream: &TcpStream, said: &Said) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream);
    let head = read_head(&mut reader)?;
    let body = if header(&head, "content-length").is_some() || header(&head, "transfer-encoding").is_some() {
        read_body(&mut reader, &head)?
    } else {
        Vec::new()
    };
    let asked: Value = serde_json::from_slice(&body).unwrap_or(Value::Null);
    if !head.first().is_some_and(|line| line.starts_with("POST") && line.contains("/chat/completions")) {
        return reply(stream, "application/json", &json!({"object": "list", "data": [{"id": "stub", "object": "model"}]}).to_string());
    }
    said.requests.lock().expect("no panic while locked").push(asked.clone());
    let message = once(&asked, said).unwrap_or_else(|| next(&asked, &said.command.lock().expect("no panic while locked")));
    let reason = if message.get("tool_calls").is_some() { "tool_calls" } else { "stop" };
    let frame = |key: &str, part: &Value, reason: Value| {
        json!({"id": "chatcmpl-stub", "object": if key == "delta" {"chat.completion.chunk"} else {"chat.completion"}, "created": 1, "model": "stub",
            "choices": [{"index": 0, key: part, "finish_reason": reason}], "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}})
    };
    if asked["stream"] == true {
        let frames = [frame("delta", &message, Value::Null), frame("delta", &json!({}), reason.into())];
        let events: String = frames.iter().map(|f| format!("data: {f}\n\n")).collect();
        reply(stream, "text/event-stream", &(events + "data: [DONE]\n\n"))
    } else {
        reply(stream, "application/json", &frame("message", &message, reason.into()).to_string())
    }
}

/// The one call that a test wants, when its tool is offered.
fn once(asked: &Value, said: &Said) -> Option<Value> {
    let mut call = said.call.lock().expect("no panic while locked");
    let offered = |name: &str| asked["tools"].as_array().is_some_and(|tools| tools.iter().any(|tool| tool["function"]["name"] == name));
    let (name, arguments) = call.take_if(|(name, _)| offered(name))?;
    Some(json!({"role": "assistant", "content": null, "tool_calls": [{"index": 0, "id": "call_stub_0", "type": "function",
        "function": {"name": name, "arguments": arguments.to_string()}}]}))
}

/// A shell call when there is a shell and no result yet; text otherwise.
fn next(asked: &Value, command: &str) -> Value {
    let empty = Vec::new();
    let messages = asked["messages"].as_array().unwrap_or(&empty);
    let has_result = messages.last().is_some_and(|m| m["role"] == "tool");
    let shell = asked["tools"]
        .as_array()
        .unwrap_or(&empty)
        .iter()
        .filter_map(|t| t["function"]["name"].as_str())
        .find(|name| SHELL_TOOLS.contains(name));
    match shell {
        Some(name) if !has_result => {
            json!({"role": "assistant", "content": null, "tool_calls": [{"index": 0, "id": "call_stub_1", "type": "function",
            "function": {"name": name, "arguments": json!({"command": command, "description": "a test's command"}).to_string()}}]})
        }
        _ => json!({"role": "assistant", "content": "done"}),
    }
}

fn reply(mut stream: &TcpStream, kind: &str, body: &str) -> std::io::Result<()> {
    let head = format!("HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
    stream.write_all(head.as_bytes())?;
    stream.write_all(body.as_bytes())
}
