//! A daemon that speaks JSON-RPC over a Unix socket, one object a line (ZeroClaw 0.8.x), for probes alone.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::http::NoAnswer;
use super::interrupt;

/// As much as ZeroClaw 0.8.7 takes in a frame.
const LINE_LIMIT: usize = 8 << 20;

/// A connection. Closed when the value goes.
pub struct Lines {
    stream: UnixStream,
    buffer: Vec<u8>,
    asked: u64,
    /// What came unasked, oldest first.
    pub unasked: VecDeque<Value>,
}

/// What an answer says.
#[derive(Clone, Debug, PartialEq)]
pub enum Said {
    /// It went well.
    Result(Value),
    /// It did not.
    Error {
        /// The code, such as −32012.
        code: i64,
        /// The words.
        message: String,
    },
}

impl Said {
    /// The result of an answer that went well.
    ///
    /// # Errors
    /// The refusal in words.
    pub fn result(self, what: &str) -> Result<Value, NoAnswer> {
        match self {
            Said::Result(value) => Ok(value),
            Said::Error { code, message } => Err(NoAnswer::Failed(format!("{what}: {code} {message}"))),
        }
    }

    /// The code of an answer that did not go well.
    pub fn code(&self) -> Option<i64> {
        match self {
            Said::Result(_) => None,
            Said::Error { code, .. } => Some(*code),
        }
    }
}

impl Lines {
    /// Connects.
    ///
    /// # Errors
    /// When nothing listens there.
    pub fn connect(path: &Path) -> Result<Lines, NoAnswer> {
        let failed = |error: std::io::Error| match (error.kind(), format!("{}: {error}", path.display())) {
            (ErrorKind::PermissionDenied, said) => NoAnswer::Denied(said),
            (_, said) => NoAnswer::Failed(said),
        };
        let stream = UnixStream::connect(path).map_err(failed)?;
        stream.set_read_timeout(Some(Duration::from_millis(20))).map_err(failed)?;
        stream.set_write_timeout(Some(Duration::from_secs(10))).map_err(failed)?;
        Ok(Lines { stream, buffer: Vec::new(), asked: 0, unasked: VecDeque::new() })
    }

    /// Sends a request and does not wait; its number.
    ///
    /// # Errors
    /// When the daemon hung up or does not read.
    pub fn send(&mut self, method: &str, parameters: &Value) -> Result<u64, NoAnswer> {
        self.asked += 1;
        let request = serde_json::json!({"jsonrpc": "2.0", "id": self.asked, "method": method, "params": parameters});
        self.stream.write_all(format!("{request}\n").as_bytes()).map_err(|error| NoAnswer::Failed(format!("{method}: {error}")))?;
        Ok(self.asked)
    }

    /// Asks and waits for the answer; what comes unasked meanwhile is kept.
    ///
    /// # Errors
    /// When none comes in time, Ctrl-C does, or what comes is no JSON.
    pub fn call(&mut self, method: &str, parameters: &Value, patience: Duration) -> Result<Said, NoAnswer> {
        let number = self.send(method, parameters)?;
        let end = Instant::now() + patience;
        loop {
            if let Some(said) = self.answer_to(number)? {
                return Ok(said);
            }
            if Instant::now() > end {
                return Err(NoAnswer::Deadline(patience));
            }
        }
    }

    /// The answer to a request, if it has come; waits a moment for more to come.
    ///
    /// # Errors
    /// When the daemon hung up, Ctrl-C came, or what came is no JSON.
    pub fn answer_to(&mut self, number: u64) -> Result<Option<Said>, NoAnswer> {
        if interrupt::came().is_some() {
            return Err(NoAnswer::Interrupted);
        }
        let Some(value) = self.line()? else { return Ok(None) };
        if value.get("method").is_some() || value["id"] != number {
            self.unasked.push_back(value);
            return Ok(None);
        }
        Ok(Some(match value.get("error") {
            Some(error) => Said::Error {
                code: error["code"].as_i64().unwrap_or_default(),
                message: error["message"].as_str().unwrap_or_default().chars().take(300).collect(),
            },
            None => Said::Result(value["result"].clone()),
        }))
    }

    fn line(&mut self) -> Result<Option<Value>, NoAnswer> {
        loop {
            if let Some(value) = first_line(&mut self.buffer)? {
                return Ok(Some(value));
            }
            let mut piece = [0; 16 << 10];
            match self.stream.read(&mut piece) {
                Ok(0) => return Err(NoAnswer::Failed("the daemon hung up".to_owned())),
                Ok(length) => self.buffer.extend_from_slice(&piece[..length]),
                Err(error) if super::listen::is_slow(&error) => return Ok(None),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(NoAnswer::Failed(error.to_string())),
            }
        }
    }
}

/// Takes the first line out of what came, if it is whole.
///
/// # Errors
/// When it is no JSON, or longer than any line of the daemon's.
pub fn first_line(buffer: &mut Vec<u8>) -> Result<Option<Value>, NoAnswer> {
    let Some(end) = memchr::memchr(b'\n', buffer) else {
        return match buffer.len() > LINE_LIMIT {
            true => Err(NoAnswer::Failed("the daemon sends a line without an end".to_owned())),
            false => Ok(None),
        };
    };
    let line: Vec<u8> = buffer.drain(..=end).collect();
    serde_json::from_slice(&line).map(Some).map_err(|_| NoAnswer::Failed("the daemon sent a line that is no JSON".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_come_whole_or_not_at_all() {
        let mut buffer = b"{\"id\":1}\n{\"id\"".to_vec();
        assert_eq!(first_line(&mut buffer), Ok(Some(serde_json::json!({"id": 1}))));
        assert_eq!(first_line(&mut buffer), Ok(None));
        buffer.extend_from_slice(b":2}\nnonsense\n");
        assert_eq!(first_line(&mut buffer), Ok(Some(serde_json::json!({"id": 2}))));
        assert!(first_line(&mut buffer).is_err());
        assert!(first_line(&mut vec![b'x'; LINE_LIMIT + 1]).is_err());
    }
}
