//! As much HTTP as it takes to ask a daemon on loopback, and a few encodings.

use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// Where a daemon answers, and what it wants to hear.
#[derive(Debug, Clone)]
pub struct Endpoint {
    pub address: SocketAddr,
    /// User and password for Basic authentication.
    pub login: Option<(String, String)>,
}

impl Endpoint {
    /// From `http://127.0.0.1:4096`.
    pub fn new(url: &str, login: Option<(&str, &str)>) -> Endpoint {
        let address = url.trim_start_matches("http://").trim_end_matches('/');
        Endpoint {
            address: address.parse().unwrap_or_else(|e| panic!("{url}: {e}")),
            login: login.map(|(u, p)| (u.to_owned(), p.to_owned())),
        }
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Status and body; an error when nobody answers within two minutes.
    pub fn request(&self, method: &str, path: &str, body: Option<&Value>) -> std::io::Result<(u16, String)> {
        self.request_within(Duration::from_secs(120), method, path, body)
    }

    /// Status and body; an error when nobody answers soon enough.
    pub fn request_within(&self, limit: Duration, method: &str, path: &str, body: Option<&Value>) -> std::io::Result<(u16, String)> {
        let stream = TcpStream::connect_timeout(&self.address, limit)?;
        stream.set_read_timeout(Some(limit))?;
        self.send(&stream, method, path, body)?;
        answer(stream)
    }

    /// Asks, and leaves the answer to come: whoever drops the stream has hung up.
    pub fn ask(&self, method: &str, path: &str, body: &Value) -> TcpStream {
        let asked = TcpStream::connect(self.address).and_then(|stream| self.send(&stream, method, path, Some(body)).map(|()| stream));
        asked.unwrap_or_else(|e| panic!("{method} {path}: {e}"))
    }

    fn send(&self, mut stream: &TcpStream, method: &str, path: &str, body: Option<&Value>) -> std::io::Result<()> {
        let body = body.map(Value::to_string).unwrap_or_default();
        let mut head =
            format!("{method} {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\nContent-Length: {}\r\n", self.address, body.len());
        if let Some((user, password)) = &self.login {
            head += &format!("Authorization: Basic {}\r\n", base64(format!("{user}:{password}").as_bytes()));
        }
        if !body.is_empty() {
            head += "Content-Type: application/json\r\n";
        }
        stream.write_all(format!("{head}\r\n{body}").as_bytes())
    }

    /// The JSON of an answer that must be 2xx; `Null` for an empty one.
    pub fn json(&self, method: &str, path: &str, body: Option<&Value>) -> Value {
        let (status, text) = self.request(method, path, body).unwrap_or_else(|e| panic!("{method} {path}: {e}"));
        assert!((200..300).contains(&status), "{method} {path}: {status} {text}");
        if text.is_empty() { Value::Null } else { serde_json::from_str(&text).unwrap_or_else(|e| panic!("{method} {path}: {e}: {text}")) }
    }
}

fn answer(stream: TcpStream) -> std::io::Result<(u16, String)> {
    let mut reader = BufReader::new(stream);
    let head = read_head(&mut reader)?;
    let status = head.first().and_then(|l| l.split(' ').nth(1)).and_then(|s| s.parse().ok()).unwrap_or(0);
    let body = read_body(&mut reader, &head)?;
    Ok((status, String::from_utf8_lossy(&body).into_owned()))
}

/// The first line and the header lines.
pub fn read_head(reader: &mut impl BufRead) -> std::io::Result<Vec<String>> {
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 || line.trim_end().is_empty() {
            return Ok(lines);
        }
        lines.push(line.trim_end().to_owned());
    }
}

/// A header's value.
pub fn header<'h>(head: &'h [String], name: &str) -> Option<&'h str> {
    head.iter().find_map(|line| line.split_once(':').filter(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, v)| v.trim()))
}

/// What follows the header: by length, in chunks, or to the end.
pub fn read_body(reader: &mut impl BufRead, head: &[String]) -> std::io::Result<Vec<u8>> {
    let mut body = Vec::new();
    if let Some(length) = header(head, "content-length").and_then(|v| v.parse().ok()) {
        body.resize(length, 0);
        reader.read_exact(&mut body)?;
    } else if header(head, "transfer-encoding").is_some_and(|v| v.eq_ignore_ascii_case("chunked")) {
        loop {
            let mut size = String::new();
            reader.read_line(&mut size)?;
            let size = usize::from_str_radix(size.trim(), 16).unwrap_or(0);
            let mut chunk = vec![0; size + 2];
            reader.read_exact(&mut chunk)?;
            if size == 0 {
                break;
            }
            body.extend_from_slice(&chunk[..size]);
        }
    } else {
        reader.read_to_end(&mut body)?;
    }
    Ok(body)
}

/// RFC 4648, with padding.
pub fn base64(bytes: &[u8]) -> String {
    const SIGNS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    bytes
        .chunks(3)
        .flat_map(|three| {
            let word = three.iter().enumerate().fold(0u32, |w, (i, b)| w | u32::from(*b) << (16 - 8 * i));
            (0..4).map(move |i| if i <= three.len() { char::from(SIGNS[(word >> (18 - 6 * i) & 63) as usize]) } else { '=' })
        })
        .collect()
}

/// Lower-case hexadecimal.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

/// From the kernel.
pub fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    std::fs::File::open("/dev/urandom").and_then(|mut f| f.read_exact(&mut bytes)).expect("/dev/urandom gives bytes");
    bytes
}
