//! A model on loopback, so that a host's real tool path can be probed: asked with tools at hand it calls the shell tool
//! once, and with the tool's result it answers with a word. OpenAI's chat completions, streamed or not.
//!
//! Which command it calls stands beside a token that the prompt carries, so that many conversations at once each get
//! their own.

use std::collections::HashMap;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};

use crate::host::listen;

/// More than any host asks in one request (its tools and its system prompt are some 100 KB).
const REQUEST_LIMIT: u64 = 16 << 20;

/// What a tool that runs a shell command is called: OpenCode 1.18.34, the 2.0 preview and ZeroClaw 0.8.7.
const SHELL_TOOLS: [&str; 3] = ["bash", "shell", "shell_command"];

/// The model.
pub struct StubModel {
    address: SocketAddr,
    commands: Arc<Mutex<HashMap<String, String>>>,
    over: Arc<AtomicBool>,
}

impl StubModel {
    /// Starts it.
    ///
    /// # Errors
    /// When there is no port on loopback.
    pub fn start() -> io::Result<StubModel> {
        let (listener, address) = listen::loopback()?;
        let model = StubModel { address, commands: Arc::default(), over: Arc::default() };
        let (commands, over) = (Arc::clone(&model.commands), Arc::clone(&model.over));
        std::thread::Builder::new().name("model".to_owned()).spawn(move || serve(&listener, &commands, &over))?;
        Ok(model)
    }

    /// `http://127.0.0.1:PORT/v1`
    pub fn url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// In a conversation whose prompt holds `token`, the model calls its shell tool with `command`.
    pub fn wants(&self, token: &str, command: &str) {
        self.commands.lock().unwrap_or_else(PoisonError::into_inner).insert(token.to_owned(), command.to_owned());
    }
}

impl Drop for StubModel {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        listen::wake(self.address);
    }
}

fn serve(listener: &TcpListener, commands: &Arc<Mutex<HashMap<String, String>>>, over: &AtomicBool) {
    for stream in listener.incoming().flatten() {
        if over.load(Ordering::Relaxed) {
            return;
        }
        let commands = Arc::clone(commands);
        // A host that hangs up in the middle is its own affair.
        let _ = std::thread::Builder::new().spawn(move || answer(&stream, &commands));
    }
}

fn answer(stream: &TcpStream, commands: &Mutex<HashMap<String, String>>) -> io::Result<()> {
    stream.set_read_timeout(Some(Duration::from_secs(30)))?;
    let (first, body) = request(&mut BufReader::new(Read::take(stream, REQUEST_LIMIT)))?;
    let asked: Value = serde_json::from_slice(&body).unwrap_or(Value::Null);
    if !(first.starts_with("POST ") && first.contains("/chat/completions")) {
        return reply(stream, "application/json", &json!({"object": "list", "data": [{"id": "stub", "object": "model"}]}).to_string());
    }
    let message = next(&asked, &commands.lock().unwrap_or_else(PoisonError::into_inner));
    let reason = if message.get("tool_calls").is_some() { "tool_calls" } else { "stop" };
    let frame = |key: &str, part: &Value, reason: Value| {
        json!({"id": "chatcmpl-whoseenv", "object": if key == "delta" { "chat.completion.chunk" } else { "chat.completion" },
            "created": 1, "model": "stub", "choices": [{"index": 0, key: part, "finish_reason": reason}],
            "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}})
    };
    if asked["stream"] == true {
        let frames = [frame("delta", &message, Value::Null), frame("delta", &json!({}), reason.into())];
        let events: String = frames.iter().map(|frame| format!("data: {frame}\n\n")).collect();
        reply(stream, "text/event-stream", &(events + "data: [DONE]\n\n"))
    } else {
        reply(stream, "application/json", &frame("message", &message, reason.into()).to_string())
    }
}

/// The first line and the body of an HTTP request.
///
/// # Errors
/// Whatever the reader says.
pub fn request(reader: &mut impl BufRead) -> io::Result<(String, Vec<u8>)> {
    let mut first = String::new();
    let mut length = 0usize;
    let mut chunked = false;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 || line.trim_end().is_empty() {
            break;
        }
        let (name, value) = line.split_once(':').unwrap_or(("", ""));
        if name.eq_ignore_ascii_case("content-length") {
            length = value.trim().parse().unwrap_or(0);
        }
        chunked |= name.eq_ignore_ascii_case("transfer-encoding") && value.to_ascii_lowercase().contains("chunked");
        if first.is_empty() {
            first = line;
        }
    }
    let body = if chunked { chunks(reader)? } else { exactly(reader, length)? };
    Ok((first, body))
}

fn exactly(reader: &mut impl BufRead, length: usize) -> io::Result<Vec<u8>> {
    let mut body = Vec::new();
    reader.take(length as u64).read_to_end(&mut body)?;
    Ok(body)
}

fn chunks(reader: &mut impl BufRead) -> io::Result<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let mut size = String::new();
        reader.read_line(&mut size)?;
        let size = usize::from_str_radix(size.trim(), 16).unwrap_or(0);
        if size == 0 {
            return Ok(body);
        }
        body.extend(exactly(reader, size)?);
        reader.read_line(&mut String::new())?;
    }
}

/// The model's next message: a shell call where a shell is at hand, a wanted token stands in the last prompt, and no
/// result has come back; else a word.
fn next(asked: &Value, commands: &HashMap<String, String>) -> Value {
    let none = Vec::new();
    let messages = asked["messages"].as_array().unwrap_or(&none);
    let has_result = messages.last().is_some_and(|message| message["role"] == "tool");
    let prompt = messages.iter().rfind(|message| message["role"] == "user").map(Value::to_string).unwrap_or_default();
    let command = commands.iter().find(|(token, _)| prompt.contains(token.as_str())).map(|(_, command)| command);
    let names = asked["tools"].as_array().unwrap_or(&none).iter().filter_map(|tool| tool["function"]["name"].as_str());
    let shell = { names }.find(|name| SHELL_TOOLS.contains(name));
    match (shell, command) {
        (Some(name), Some(command)) if !has_result => {
            let arguments = json!({"command": command, "description": "whoseenv reads an environment back"}).to_string();
            json!({"role": "assistant", "content": null, "tool_calls": [{"index": 0, "id": "call_whoseenv", "type": "function",
                "function": {"name": name, "arguments": arguments}}]})
        }
        _ => json!({"role": "assistant", "content": "done"}),
    }
}

fn reply(mut stream: &TcpStream, kind: &str, body: &str) -> io::Result<()> {
    let head = format!("HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
    stream.write_all(head.as_bytes())?;
    stream.write_all(body.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_conversation_gets_its_own_command_once() {
        let commands: HashMap<String, String> = [("t1", "one"), ("t2", "two")].map(|(k, v)| (k.to_owned(), v.to_owned())).into();
        let tools = json!([{"function": {"name": "read"}}, {"function": {"name": "bash"}}]);
        let asked = |messages: Value| next(&json!({"tools": tools, "messages": messages}), &commands);
        let call = asked(json!([{"role": "system", "content": "t1"}, {"role": "user", "content": "go t2"}]));
        assert_eq!(call["tool_calls"][0]["function"]["name"], "bash");
        assert!(call["tool_calls"][0]["function"]["arguments"].as_str().unwrap().contains("two"));
        let after = asked(json!([{"role": "user", "content": "go t2"}, {"role": "tool", "content": "x"}]));
        assert_eq!(after["content"], "done");
        assert_eq!(asked(json!([{"role": "user", "content": "a title please"}]))["content"], "done");
        assert_eq!(next(&json!({"messages": [{"role": "user", "content": "t1"}]}), &commands)["content"], "done", "no shell at hand");
    }
}
