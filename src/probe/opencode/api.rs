//! The two dialects of OpenCode's API: 1.x, and 2.0 with its preview. Seen on 1.18.34 and next-16350.
//!
//! The trap: 1.18.34 answers every unknown path with 200 and an HTML page, so no 2xx alone proves a route. An answer
//! counts only by its body.

use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use crate::host::Pid;
use crate::host::http::{Http, NoAnswer, Question, Reply};
use crate::probe::Stop;

/// Which API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// 1.x.
    V1,
    /// The 2.0 preview and 2.x.
    V2,
}

/// What a daemon says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Health {
    /// Its version.
    pub version: String,
    /// Its process; 1.x does not say.
    pub pid: Option<Pid>,
    /// Its API.
    pub dialect: Dialect,
    /// The path that answered.
    pub path: &'static str,
}

/// Health paths: 1.x, and then newest first 2.0.6 and later, 2.0.4 and 2.0.5, the preview to 2.0.3. That of 1.x comes first: 1.2.1,
/// 1.2.27 and 1.3.2 send a request for a path that they do not know on to a machine of their vendor's. 2.0 and its preview answer 404.
pub const HEALTH: [(&str, Dialect); 4] =
    [("/global/health", Dialect::V1), ("/api/info", Dialect::V2), ("/api/status", Dialect::V2), ("/api/health", Dialect::V2)];

/// What a daemon says when it is asked for its health.
pub enum Condition {
    /// It is well.
    Well(Health),
    /// It answers, and not with that: it starts, or is broken. What it said.
    Unwell(String),
}

/// Asks until a path answers with what a health answer holds.
///
/// # Errors
/// When nobody answers, or what answers is no OpenCode.
pub fn health(http: &Http, patience: Duration) -> Result<Condition, NoAnswer> {
    let (mut said, mut starts) = (Vec::new(), false);
    for (path, dialect) in HEALTH {
        let reply = ask(http, "GET", path, None, patience)?;
        match reply.status {
            401 | 403 => return Err(NoAnswer::Denied(format!("GET {path}: {}: the password is not this daemon's", reply.status))),
            // An old 1.x whose own path breaks would hand the next ones on.
            500 | 503 if dialect == Dialect::V1 => return Ok(Condition::Unwell(format!("GET {path}: {}", reply.shape()))),
            500 | 503 => starts = true,
            _ => {}
        }
        let body = reply.json().filter(|_| reply.status == 200);
        if let Some(version) = body.as_ref().and_then(|body| body["version"].as_str()) {
            let pid = body.as_ref().and_then(|body| body["pid"].as_u64()).and_then(|pid| Pid::try_from(pid).ok());
            let version = version.chars().take(80).collect();
            return Ok(Condition::Well(Health { version, pid, dialect, path }));
        }
        said.push(format!("GET {path}: {}", reply.shape()));
    }
    let said = said.join("; ");
    if starts { Ok(Condition::Unwell(said)) } else { Err(NoAnswer::Failed(format!("what answers is no OpenCode ({said})"))) }
}

/// One question, waited for.
///
/// # Errors
/// When there is no answer.
pub fn ask(http: &Http, method: &str, path: &str, body: Option<&Value>, patience: Duration) -> Result<Reply, NoAnswer> {
    http.ask(&Question { method, path, headers: &[], body }, patience).wait()
}

/// An answer that says what the host makes of the request. A host that fails, or wants a password or more time, says
/// nothing of it.
///
/// # Errors
/// When it is none.
pub fn decided(reply: Reply) -> Result<Reply, Stop> {
    match reply.status {
        401 | 403 | 407 | 408 | 429 | 500.. => Err(Stop::Answered(reply.status, format!("the host answers {}", reply.shape()))),
        _ => Ok(reply),
    }
}

/// What 1.x's own contract says.
pub const CONTRACT: &str = "/doc";

impl Health {
    /// Whether it answers a path that it does not know by itself. 1.2.1, 1.2.27 and 1.3.2 hand such a request on to the web; 1.14.48
    /// and 1.18.34 have the page that answers.
    pub fn keeps_to_itself(&self) -> bool {
        let number = |text: &str| text.parse::<u32>().ok();
        let mut parts = self.version.split(['.', '-']).map_while(number);
        let version = (parts.next(), parts.next(), parts.next());
        self.dialect == Dialect::V2 || version >= (Some(1), Some(14), Some(48))
    }
}

/// What a session of a probe is called.
#[derive(Clone, Debug)]
pub struct Name {
    /// Its title (1.x).
    pub title: String,
    /// Its id (the preview and 2.x).
    pub session: String,
}

/// A request: method, path, body.
pub type Request = (&'static str, String, Option<Value>);

impl Dialect {
    /// Makes a session in a directory, called `name`: 1.x takes a title, the preview an id (next-16350).
    pub fn create(self, directory: &Path, name: &Name) -> Request {
        match self {
            Dialect::V1 => ("POST", format!("/session?{}", self.place(directory)), Some(json!({"title": name.title}))),
            Dialect::V2 => ("POST", "/api/session".to_owned(), Some(json!({"id": name.session, "location": {"directory": directory}}))),
        }
    }

    /// Lists the sessions.
    pub fn sessions(self, directory: &Path) -> String {
        match self {
            Dialect::V1 => format!("/session?{}&limit=200", self.place(directory)),
            Dialect::V2 => "/api/session?limit=200".to_owned(),
        }
    }

    /// Lists the PTYs of a directory.
    pub fn ptys(self, directory: &Path) -> String {
        format!("{}?{}", if self == Dialect::V1 { "/pty" } else { "/api/pty" }, self.place(directory))
    }

    /// The id in the answer to a creation.
    pub fn id(self, reply: &Reply) -> Option<String> {
        let body = reply.json().filter(|_| (200..300).contains(&reply.status))?;
        sound_id(if self == Dialect::V1 { &body } else { &body["data"] })
    }

    /// A session's own path.
    pub fn session(self, id: &str) -> String {
        match self {
            Dialect::V1 => format!("/session/{id}"),
            Dialect::V2 => format!("/api/session/{id}"),
        }
    }

    /// A session's messages.
    pub fn messages(self, id: &str) -> String {
        format!("{}/message", self.session(id))
    }

    /// Runs a command in a session; the answer comes when it is done.
    pub fn shell(self, id: &str, command: &str) -> Request {
        let body = match self {
            Dialect::V1 => json!({"agent": "build", "command": command}),
            Dialect::V2 => json!({"command": command}),
        };
        ("POST", format!("{}/shell", self.session(id)), Some(body))
    }

    /// Lets the model have a turn; on 1.x the answer comes when the turn is over.
    pub fn turn(self, id: &str, text: &str) -> Request {
        match self {
            Dialect::V1 => (
                "POST",
                format!("/session/{id}/message"),
                Some(json!({"model": {"providerID": "stub", "modelID": "stub"}, "parts": [{"type": "text", "text": text}]})),
            ),
            Dialect::V2 => ("POST", format!("/api/session/{id}/prompt"), Some(json!({"text": text}))),
        }
    }

    /// Opens a PTY with a command in it.
    pub fn pty(self, directory: &Path, title: &str, command: &str) -> Request {
        let body = json!({"command": "/bin/bash", "args": ["-c", command], "cwd": directory, "title": title});
        ("POST", self.ptys(directory), Some(body))
    }

    /// Closes a PTY.
    pub fn close_pty(self, directory: &Path, id: &str) -> Request {
        let path = if self == Dialect::V1 { "/pty" } else { "/api/pty" };
        ("DELETE", format!("{path}/{id}?{}", self.place(directory)), None)
    }

    /// The query that names the directory.
    pub fn place(self, directory: &Path) -> String {
        let encoded = encoded(&directory.to_string_lossy());
        if self == Dialect::V1 { format!("directory={encoded}") } else { format!("location%5Bdirectory%5D={encoded}") }
    }
}

/// The id of something, if it can be part of a path.
pub fn sound_id(item: &Value) -> Option<String> {
    let sound = |id: &&str| id.len() < 100 && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte));
    item["id"].as_str().filter(sound).map(str::to_owned)
}

/// Lists the commands without a trace (2.0 and its preview).
pub fn bare_shells(directory: &Path) -> String {
    format!("/api/shell?{}", Dialect::V2.place(directory))
}

/// The path of one of them.
pub fn bare_path(directory: &Path, id: &str) -> String {
    format!("/api/shell/{id}?{}", Dialect::V2.place(directory))
}

/// Runs a command without a trace in a session (2.0 and its preview); answers at once.
pub fn bare_shell(directory: &Path, session: Option<&str>, command: &str) -> Request {
    let mut body = json!({"command": command, "cwd": directory, "timeout": 60_000});
    if let Some(session) = session {
        body["metadata"] = json!({"sessionID": session});
    }
    ("POST", bare_shells(directory), Some(body))
}

/// Uploads an environment to a session.
pub fn upload(session: &str, variables: &Value) -> Request {
    ("PUT", format!("/api/session/{session}/environment"), Some(json!({"variables": variables})))
}

fn encoded(text: &str) -> String {
    let keep = |byte: u8| byte.is_ascii_alphanumeric() || b"/-_.~".contains(&byte);
    text.bytes().map(|byte| if keep(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    fn reply(status: u16, body: &str) -> Reply {
        Reply { status, kind: String::new(), body: body.as_bytes().to_vec(), cut: false }
    }

    #[test]
    fn an_id_is_taken_from_an_answer_that_holds_one_and_could_be_part_of_a_path() {
        assert_eq!(Dialect::V2.id(&reply(200, r#"{"data":{"id":"ses_1"}}"#)).as_deref(), Some("ses_1"));
        assert_eq!(Dialect::V1.id(&reply(200, r#"{"id":"ses_1"}"#)).as_deref(), Some("ses_1"));
        assert_eq!(Dialect::V1.id(&reply(200, "<html>")), None);
        assert_eq!(Dialect::V1.id(&reply(200, r#"{"id":"../../admin"}"#)), None);
        assert_eq!(Dialect::V2.id(&reply(500, r#"{"data":{"id":"ses_1"}}"#)), None);
    }

    /// A server that answers one path with health and any other with this status; which paths it was asked for.
    fn server(healthy: Option<&'static str>, others: u16) -> (Http, Arc<Mutex<Vec<String>>>) {
        use std::io::{Read, Write};
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let http = Http::new(&format!("http://{}", listener.local_addr().unwrap()), None, None).unwrap();
        let asked = Arc::<Mutex<Vec<String>>>::default();
        let log = Arc::clone(&asked);
        std::thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                let mut piece = [0; 4096];
                let length = stream.read(&mut piece).unwrap();
                let path = String::from_utf8_lossy(&piece[..length]).split(' ').nth(1).unwrap_or_default().to_owned();
                let (status, body) = match healthy == Some(path.as_str()) {
                    true => (200, r#"{"healthy":true,"version":"1.2.1"}"#),
                    false => (others, r#"{"name":"UnknownError"}"#),
                };
                log.lock().unwrap().push(path);
                let head = format!("HTTP/1.1 {status} x\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
                let _ = stream.write_all(format!("{head}{body}").as_bytes());
            }
        });
        (http, asked)
    }

    /// As 1.2.1 and 1.2.27 answer on a machine without the Internet; and 2.x, which starts.
    #[test]
    fn an_old_1x_is_known_by_the_first_path_and_asked_for_no_other() {
        let ask = |healthy, others| {
            let (http, asked) = server(healthy, others);
            let condition = health(&http, Duration::from_secs(5));
            let asked = asked.lock().unwrap().clone();
            (condition, asked)
        };
        let (found, asked) = ask(Some("/global/health"), 500);
        assert!(matches!(found, Ok(Condition::Well(health)) if health.version == "1.2.1" && health.dialect == Dialect::V1));
        assert_eq!(asked, ["/global/health"]);
        let (found, asked) = ask(None, 500);
        assert!(matches!(found, Ok(Condition::Unwell(said)) if said.contains("500")), "it may be starting");
        assert_eq!(asked, ["/global/health"], "it may be one that hands on what it does not know");
        let (found, asked) = ask(Some("/api/health"), 404);
        assert!(matches!(found, Ok(Condition::Well(health)) if health.dialect == Dialect::V2));
        assert_eq!(asked, ["/global/health", "/api/info", "/api/status", "/api/health"]);
    }

    #[test]
    fn a_directory_is_encoded() {
        assert_eq!(Dialect::V2.place(Path::new("/tmp/a b&c")), "location%5Bdirectory%5D=/tmp/a%20b%26c");
    }
}
