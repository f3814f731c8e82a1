//! A fact, or the reason why it could not be had.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A fact, or the reason why it could not be had.
pub type Fact<T> = Result<T, Unknown>;

/// Why a fact could not be had. "Could not look" is never "is not there": only [`Unknown::Absent`]
/// and [`Unknown::Gone`] say something about the thing itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(tag = "reason", content = "detail", rename_all = "snake_case")]
pub enum Unknown {
    /// EACCES or EPERM.
    #[error("not permitted to read it")]
    NotPermitted,
    /// The process ended (ESRCH), or another process has its pid now.
    #[error("the process has ended")]
    Gone,
    /// There is no such file (ENOENT, ENOTDIR).
    #[error("there is no such file")]
    Absent,
    /// The file system did not answer in time.
    #[error("the file system did not answer in time")]
    Deadline,
    /// The snapshot does not hold it.
    #[error("the snapshot does not hold it")]
    NotCaptured,
    /// The snapshot holds it, but it is not what was captured.
    #[error("the snapshot was altered after capture")]
    Altered,
    /// It is in a namespace that cannot be looked into from here.
    #[error("it is in another namespace")]
    OtherNamespace,
    /// It follows from a value that must not be shown, and so would tell it.
    #[error("it follows from a value that is masked")]
    Masked,
    /// It was read and makes no sense.
    #[error("unreadable content: {0}")]
    Malformed(String),
    /// Any other error of the system.
    #[error("{0}")]
    Io(String),
}

impl Unknown {
    /// Whether the thing itself is known not to be there.
    pub fn is_absence(&self) -> bool {
        matches!(self, Unknown::Absent | Unknown::Gone)
    }
}

impl From<rustix::io::Errno> for Unknown {
    fn from(errno: rustix::io::Errno) -> Unknown {
        use rustix::io::Errno;
        match errno {
            Errno::ACCESS | Errno::PERM => Unknown::NotPermitted,
            Errno::SRCH => Unknown::Gone,
            Errno::NOENT | Errno::NOTDIR => Unknown::Absent,
            Errno::LOOP => Unknown::Malformed("too many levels of symbolic links".to_owned()),
            other => Unknown::Io(std::io::Error::from(other).to_string()),
        }
    }
}

impl From<std::io::Error> for Unknown {
    fn from(error: std::io::Error) -> Unknown {
        match error.raw_os_error() {
            Some(code) => rustix::io::Errno::from_raw_os_error(code).into(),
            None => Unknown::Io(error.to_string()),
        }
    }
}

/// Bytes from the host, which are text most of the time and need not be.
///
/// In a snapshot it is a JSON string when UTF-8, else `{"b64": "…"}`.
#[derive(Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Raw(pub Vec<u8>);

impl Raw {
    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// As text, if it is.
    pub fn as_str(&self) -> Option<&str> {
        std::str::from_utf8(&self.0).ok()
    }

    /// As text, with U+FFFD where it is not. For messages, never for comparison.
    pub fn lossy(&self) -> std::borrow::Cow<'_, str> {
        String::from_utf8_lossy(&self.0)
    }

    /// As a path.
    pub fn as_path(&self) -> &std::path::Path {
        use std::os::unix::ffi::OsStrExt;
        std::path::Path::new(std::ffi::OsStr::from_bytes(&self.0))
    }
}

impl From<&str> for Raw {
    fn from(text: &str) -> Raw {
        Raw(text.as_bytes().to_vec())
    }
}

impl From<&[u8]> for Raw {
    fn from(bytes: &[u8]) -> Raw {
        Raw(bytes.to_vec())
    }
}

impl From<Vec<u8>> for Raw {
    fn from(bytes: Vec<u8>) -> Raw {
        Raw(bytes)
    }
}

impl fmt::Debug for Raw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.lossy())
    }
}

#[derive(Serialize, Deserialize)]
struct Encoded {
    b64: String,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Stored {
    Text(String),
    Encoded(Encoded),
}

impl Serialize for Raw {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.as_str() {
            Some(text) => serializer.serialize_str(text),
            None => Encoded { b64: encode(&self.0) }.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Raw {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Raw, D::Error> {
        match Stored::deserialize(deserializer)? {
            Stored::Text(text) => Ok(Raw(text.into_bytes())),
            Stored::Encoded(Encoded { b64 }) => decode(&b64).map(Raw).ok_or_else(|| serde::de::Error::custom("bad base64")),
        }
    }
}

/// Standard base64 with padding.
pub fn encode(bytes: &[u8]) -> String {
    use base64::Engine;
    base64::engine::general_purpose::STANDARD.encode(bytes)
}

/// The reverse of [`encode`].
pub fn decode(text: &str) -> Option<Vec<u8>> {
    use base64::Engine;
    base64::engine::general_purpose::STANDARD.decode(text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_survive_json_whether_text_or_not() {
        for bytes in [&b"plain"[..], b"", b"\xff\xfe", b"new\nline \"quoted\""] {
            let raw = Raw::from(bytes);
            let json = serde_json::to_string(&raw).unwrap();
            assert_eq!(serde_json::from_str::<Raw>(&json).unwrap(), raw, "{json}");
        }
        assert_eq!(serde_json::to_string(&Raw::from(&b"\xff"[..])).unwrap(), r#"{"b64":"/w=="}"#);
    }

    #[test]
    fn only_absence_says_something_about_the_thing() {
        assert!(Unknown::from(rustix::io::Errno::NOENT).is_absence());
        assert!(Unknown::from(rustix::io::Errno::SRCH).is_absence());
        assert!(!Unknown::from(rustix::io::Errno::ACCESS).is_absence());
        assert!(!Unknown::Deadline.is_absence());
    }
}
