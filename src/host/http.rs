//! HTTP to a daemon, for a probe or for its contract: on loopback, without a proxy, without following anything elsewhere.
//!
//! A password goes into the `Authorization` header and nowhere else: not into an argument, a variable, a message or
//! `Debug`. A host other than loopback is refused before a byte is sent, unless the person allowed it.

use std::net::IpAddr;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use base64::Engine;
use ureq::http::Request;

use super::fact::{Fact, Unknown};
use super::interrupt;
use super::snapshot::HIDDEN;

/// More of an answer is not read: neither what a probe asks for nor a host's contract comes near it.
const BODY_LIMIT: u64 = 16 << 20;

/// How long a document may take: a host may have to start much to make its contract.
const DOCUMENT: Duration = Duration::from_secs(30);

/// A password, which only an `Authorization` header sees.
#[derive(Clone)]
pub struct Password(String);

impl Password {
    /// From text that was read from a place that holds a password.
    pub fn new(text: impl Into<String>) -> Password {
        Password(text.into())
    }

    /// Whether these bytes hold it. An empty password is in nothing.
    pub fn is_in(&self, bytes: &[u8]) -> bool {
        !self.0.is_empty() && memchr::memmem::find(bytes, self.0.as_bytes()).is_some()
    }
}

impl std::fmt::Debug for Password {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Password")
    }
}

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoAnswer {
    /// The address is not of this machine.
    #[error("{0} is not on loopback: nothing is sent there, unless --allow-remote names it")]
    Remote(String),
    /// Ctrl-C.
    #[error("interrupted")]
    Interrupted,
    /// It did not come in time.
    #[error("no answer within {} s", .0.as_secs_f32())]
    Deadline(Duration),
    /// The system does not let this account connect.
    #[error("{0}")]
    Denied(String),
    /// The connection failed, or what came is no HTTP.
    #[error("{0}")]
    Failed(String),
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// The status.
    pub status: u16,
    /// `Content-Type`, lower case, without parameters.
    pub kind: String,
    /// The body, at most 16 MiB of it.
    pub body: Vec<u8>,
    /// There was more.
    pub cut: bool,
}

impl Reply {
    /// The body as JSON; none where it is something else, whatever the header says.
    pub fn json(&self) -> Option<serde_json::Value> {
        serde_json::from_slice(&self.body).ok()
    }

    /// Status and kind of body in words, without a byte of the body: `404, no body`.
    pub fn shape(&self) -> String {
        let body = match (self.body.len(), self.kind.as_str()) {
            (0, _) => "no body".to_owned(),
            (_, "text/html") => "an HTML page".to_owned(),
            _ if self.json().is_some_and(|json| json.is_object() || json.is_array()) => "JSON".to_owned(),
            (bytes, _) if self.cut => format!("a body of more than {bytes} bytes"),
            (bytes, _) => format!("a body of {bytes} bytes that is no JSON"),
        };
        format!("{}, {body}", self.status)
    }
}

/// A daemon that speaks HTTP.
#[derive(Clone)]
pub struct Http {
    agent: ureq::Agent,
    base: String,
    authorization: Option<String>,
    heard: Arc<Mutex<Vec<Listening>>>,
}

/// Bytes that are looked for in every answer.
struct Listening {
    what: Vec<u8>,
    heard: Vec<String>,
}

/// A question that was asked and is not answered yet.
pub struct Asked {
    answer: Receiver<Result<Reply, NoAnswer>>,
    end: Instant,
    patience: Duration,
}

/// What is asked.
pub struct Question<'q> {
    /// `GET`, `POST` and so on.
    pub method: &'q str,
    /// Path and query.
    pub path: &'q str,
    /// Headers beside the usual ones.
    pub headers: &'q [(&'q str, String)],
    /// A JSON body.
    pub body: Option<&'q serde_json::Value>,
}

impl Http {
    /// A daemon at `http://ADDRESS:PORT`.
    ///
    /// # Errors
    /// When it is not on loopback and `allow_remote` is not this URL, or the URL is none.
    pub fn new(url: &str, password: Option<&Password>, allow_remote: Option<&str>) -> Result<Http, NoAnswer> {
        let base = url.trim_end_matches('/').to_owned();
        let name = authority(&base).ok_or_else(|| NoAnswer::Failed(format!("{} is no http:// address", told(url))))?;
        let loopback = name == "localhost" || name.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback());
        if !loopback && allow_remote.map(|url| url.trim_end_matches('/')) != Some(base.as_str()) {
            return Err(NoAnswer::Remote(base));
        }
        let config = ureq::Agent::config_builder()
            .http_status_as_error(false)
            // A redirect could lead a password elsewhere, a proxy would see it.
            .max_redirects(0)
            .max_redirects_will_error(false)
            .proxy(None)
            .user_agent(concat!("whoseenv/", env!("CARGO_PKG_VERSION")))
            .build();
        let authorization = password
            .map(|Password(secret)| format!("Basic {}", base64::engine::general_purpose::STANDARD.encode(format!("opencode:{secret}"))));
        Ok(Http { agent: ureq::Agent::new_with_config(config), base, authorization, heard: Arc::default() })
    }

    /// The address, without user and password.
    pub fn url(&self) -> &str {
        &self.base
    }

    /// From now on every answer is searched for these bytes; [`Http::heard`] tells in which they were.
    pub fn listen_for(&self, what: &[u8]) {
        let listening = Listening { what: what.to_vec(), heard: Vec::new() };
        self.heard.lock().unwrap_or_else(PoisonError::into_inner).push(listening);
    }

    /// The questions whose answers held these bytes.
    pub fn heard(&self, what: &[u8]) -> Vec<String> {
        let heard = self.heard.lock().unwrap_or_else(PoisonError::into_inner);
        heard.iter().filter(|listening| listening.what == what).flat_map(|listening| listening.heard.clone()).collect()
    }

    /// Asks, and lets the answer come.
    pub fn ask(&self, question: &Question<'_>, patience: Duration) -> Asked {
        let (sender, answer) = channel();
        let this = self.clone();
        let (method, path) = (question.method.to_owned(), question.path.to_owned());
        let headers: Vec<(String, String)> = question.headers.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
        let body = question.body.map(serde_json::Value::to_string);
        let work = move || drop(sender.send(this.answer(&method, &path, &headers, body, patience)));
        // Without a thread the channel is closed, which reads as a failure.
        let _ = std::thread::Builder::new().name("http".to_owned()).spawn(work);
        Asked { answer, end: Instant::now() + patience, patience }
    }

    fn answer(
        &self,
        method: &str,
        path: &str,
        headers: &[(String, String)],
        body: Option<String>,
        patience: Duration,
    ) -> Result<Reply, NoAnswer> {
        let failed = |error: ureq::Error| match error {
            ureq::Error::Timeout(_) => NoAnswer::Deadline(patience),
            // The text of such an error is the library's own: it quotes no header and no body.
            other => NoAnswer::Failed(format!("{method} {path}: {other}")),
        };
        let mut request = Request::builder().method(method).uri(format!("{}{path}", self.base));
        if let Some(authorization) = &self.authorization {
            request = request.header("Authorization", authorization);
        }
        for (name, value) in headers {
            request = request.header(name, value);
        }
        let bad = |error: ureq::http::Error| NoAnswer::Failed(format!("{method} {path}: {error}"));
        let sent = match body {
            Some(text) => {
                let request = request.header("Content-Type", "application/json").body(text).map_err(bad)?;
                self.agent.run(self.agent.configure_request(request).timeout_global(Some(patience)).build())
            }
            None => {
                let request = request.body(()).map_err(bad)?;
                self.agent.run(self.agent.configure_request(request).timeout_global(Some(patience)).build())
            }
        };
        let mut response = sent.map_err(failed)?;
        let kind = response.headers().get("content-type").and_then(|value| value.to_str().ok()).unwrap_or_default();
        let kind = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        let status = response.status().as_u16();
        let mut bytes = Vec::new();
        let read = std::io::Read::read_to_end(&mut std::io::Read::take(response.body_mut().as_reader(), BODY_LIMIT), &mut bytes);
        read.map_err(|error| match error.kind() {
            std::io::ErrorKind::TimedOut => NoAnswer::Deadline(patience),
            _ => NoAnswer::Failed(format!("{method} {path}: the answer breaks off: {error}")),
        })?;
        for listening in self.heard.lock().unwrap_or_else(PoisonError::into_inner).iter_mut() {
            if memchr::memmem::find(&bytes, &listening.what).is_some() {
                listening.heard.push(format!("{method} {path}"));
            }
        }
        Ok(Reply { status, kind, cut: bytes.len() as u64 == BODY_LIMIT, body: bytes })
    }
}

impl Asked {
    /// The answer, if it is there within `wait`.
    pub fn poll(&self, wait: Duration) -> Option<Result<Reply, NoAnswer>> {
        match self.answer.recv_timeout(wait) {
            Ok(answer) => Some(answer),
            Err(RecvTimeoutError::Disconnected) => Some(Err(NoAnswer::Failed("the question could not be asked".to_owned()))),
            Err(RecvTimeoutError::Timeout) if interrupt::came().is_some() => Some(Err(NoAnswer::Interrupted)),
            Err(RecvTimeoutError::Timeout) if Instant::now() > self.end => Some(Err(NoAnswer::Deadline(self.patience))),
            Err(RecvTimeoutError::Timeout) => None,
        }
    }

    /// Waits for the answer.
    ///
    /// # Errors
    /// When none comes in time, or Ctrl-C does.
    pub fn wait(&self) -> Result<Reply, NoAnswer> {
        loop {
            if let Some(answer) = self.poll(Duration::from_millis(50)) {
                return answer;
            }
        }
    }
}

/// A document, asked for with GET: on loopback, unless `remote` allows any other place.
///
/// # Errors
/// [`Unknown::Malformed`] where the address may not be asked, or the answer is no success or too long.
pub fn document(url: &str, password: Option<&Password>, remote: bool) -> Fact<Vec<u8>> {
    let refused = |why: String| Err(Unknown::Malformed(why));
    let Some(place) = url.strip_prefix("http://") else { return refused("only http:// is spoken".to_owned()) };
    if place.contains('@') {
        return refused("a password is not taken from an address".to_owned());
    }
    let (origin, path) = url.split_at(url.len() - place.len() + place.find(['/', '?', '#']).unwrap_or(place.len()));
    let http = match Http::new(origin, password, remote.then_some(origin)) {
        Ok(http) => http,
        Err(NoAnswer::Remote(base)) => {
            return refused(format!("{base} is not on loopback: nothing is asked there, unless --allow-remote is given"));
        }
        Err(other) => return refused(other.to_string()),
    };
    let reply = http.ask(&Question { method: "GET", path, headers: &[], body: None }, DOCUMENT).wait();
    let asked = |error: NoAnswer| match path.contains(['?', '#']) {
        true => Unknown::Io(error.to_string().replace(path, &told(path))),
        false => Unknown::Io(error.to_string()),
    };
    match reply.map_err(asked)? {
        reply if reply.status != 200 => refused(format!("it answers with status {}", reply.status)),
        reply if reply.cut => refused(format!("it is longer than {BODY_LIMIT} bytes")),
        reply => Ok(reply.body),
    }
}

/// An address as it may be told: without user and password, which may hold any character, and without what its query says.
pub fn told(url: &str) -> String {
    let (scheme, rest) = url.split_at(url.find("://").map_or(0, |at| at + 3));
    let (user, rest) = rest.rsplit_once('@').map_or(("", rest), |(_, rest)| ("@", rest));
    let (place, query) = rest.find(['?', '#']).map_or((rest, ""), |at| (&rest[..at], &rest[at..=at]));
    let hidden = |what: &str| if what.is_empty() { "" } else { HIDDEN };
    format!("{scheme}{}{user}{place}{query}{}", hidden(user), hidden(query))
}

/// The host part of `http://HOST:PORT`.
fn authority(url: &str) -> Option<&str> {
    let rest = url.strip_prefix("http://")?;
    let authority = &rest[..rest.find(['/', '?', '#']).unwrap_or(rest.len())];
    if authority.contains('@') || authority.is_empty() {
        return None;
    }
    let (name, port) = match authority.strip_prefix('[') {
        Some(six) => six.split_once(']')?,
        None => authority.find(':').map_or((authority, ""), |colon| authority.split_at(colon)),
    };
    // One that is no number would be left out in silence, and port 80 asked.
    let known = port.is_empty() || port.strip_prefix(':').is_some_and(|port| port.parse::<u16>().is_ok_and(|port| port > 0));
    known.then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};

    /// A server that answers one question with these bytes.
    fn server(reply: &'static [u8]) -> String {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let _ = stream.read(&mut [0; 4096]);
            let _ = stream.write_all(reply);
        });
        url
    }

    fn asked(reply: &'static [u8]) -> Result<Reply, NoAnswer> {
        let http = Http::new(&server(reply), None, None).unwrap();
        http.ask(&Question { method: "GET", path: "/", headers: &[], body: None }, Duration::from_secs(2)).wait()
    }

    #[test]
    fn answers_have_a_shape() {
        let shape = |reply| asked(reply).unwrap().shape();
        assert_eq!(shape(b"HTTP/1.1 404 x\r\nContent-Length: 0\r\n\r\n"), "404, no body");
        assert_eq!(shape(b"HTTP/1.1 200 x\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: 3\r\n\r\n<a>"), "200, an HTML page");
        assert_eq!(shape(b"HTTP/1.1 400 x\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"), "400, JSON");
        let elsewhere = b"HTTP/1.1 302 x\r\nLocation: http://192.0.2.1/\r\nContent-Length: 0\r\n\r\n";
        assert_eq!(shape(elsewhere), "302, no body", "a redirect is an answer, and is not followed");
    }

    #[test]
    fn half_an_answer_and_garbage_are_failures() {
        assert!(matches!(asked(b"HTTP/1.1 200 x\r\nContent-Length: 10\r\n\r\nhalf"), Err(NoAnswer::Failed(_))));
        assert!(matches!(asked(b"\x00\x01garbage\r\n\r\n"), Err(NoAnswer::Failed(_))));
        assert!(matches!(asked(b""), Err(NoAnswer::Failed(_))));
    }

    #[test]
    fn a_document_comes_whole_from_this_machine_or_not_at_all() {
        let of = |reply| document(&format!("{}/doc?x=1", server(reply)), None, false);
        let why = |answer: Fact<Vec<u8>>| match answer {
            Err(Unknown::Malformed(why)) => why,
            other => format!("{other:?}"),
        };
        assert_eq!(of(b"HTTP/1.1 200 x\r\nContent-Length: 2\r\n\r\n{}"), Ok(b"{}".to_vec()));
        assert_eq!(why(of(b"HTTP/1.1 302 x\r\nLocation: http://192.0.2.1/\r\nContent-Length: 0\r\n\r\n")), "it answers with status 302");
        assert_eq!(why(of(b"HTTP/1.1 401 x\r\nContent-Length: 0\r\n\r\n")), "it answers with status 401");
        for elsewhere in ["http://192.0.2.1/doc", "http://localhost.example/doc", "http://192.0.2.1?http://localhost"] {
            assert!(why(document(elsewhere, None, false)).contains("is not on loopback"), "{elsewhere}");
        }
        assert!(matches!(document("http://127.0.0.1@192.0.2.1/doc", None, true), Err(Unknown::Malformed(_))));
        assert!(matches!(document("https://localhost/doc", None, false), Err(Unknown::Malformed(_))));
        for port in ["99999", "0", "", "8x", "80:81", "-1"] {
            assert!(why(document(&format!("http://127.0.0.1:{port}/doc"), None, false)).contains("is no http:// address"), "{port}");
        }
    }

    #[test]
    fn nothing_is_sent_to_another_machine() {
        let remote = |url: &str, allowed: Option<&str>| Http::new(url, Some(&Password::new("secret")), allowed).err();
        assert!(matches!(remote("http://192.0.2.1:80", None), Some(NoAnswer::Remote(_))));
        assert!(matches!(remote("http://localhost.example:80", None), Some(NoAnswer::Remote(_))));
        assert!(matches!(remote("http://192.0.2.1:80", Some("http://192.0.2.2:80")), Some(NoAnswer::Remote(_))));
        assert_eq!(remote("http://192.0.2.1:80/", Some("http://192.0.2.1:80")), None);
        assert_eq!(remote("http://[::1]:80", None), None);
        assert!(matches!(remote("http://127.0.0.1@192.0.2.1:80", None), Some(NoAnswer::Failed(_))));
        assert_eq!(format!("{:?}", Password::new("secret")), "Password");
    }
}
