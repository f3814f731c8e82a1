//! Experiments on a host: a list of claims, each with an experiment that could refute it and a control that shows that
//! the experiment can tell; inject, run, read back, clean up, and look again.
//!
//! This room creates: it makes sessions in a host, or a host in a private home. What it makes it notes in
//! [`Cleanup`] and removes, also after Ctrl-C. It opens files of its own private directories directly; whatever
//! belongs to the machine goes through `host`.

pub mod claims;
pub mod cleanup;
pub mod exec;
pub mod in_band;
pub mod nest;
pub mod opencode;
pub mod readback;
pub mod stub_model;
pub mod trail;
pub mod zeroclaw;

use schemars::JsonSchema;
use serde::Serialize;

use crate::host::machine;
use crate::redact;
use crate::report::Rows;
use crate::verdict::{Evidence, Outcome};

pub use claims::Claim;
pub use cleanup::{Cleanup, Left};
pub use trail::{Stop, Trail};

/// What a probe came to.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct Data {
    /// The host that was probed; absent when none could be reached, and under `--dry-run`.
    pub host: Option<Probed>,
    /// Every claim, in the registry's order.
    pub claims: Vec<Judged>,
    /// What was made and what is left of it.
    pub cleanup: Cleanup,
    /// What would be done, a line each: under `--dry-run` alone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub plan: Vec<String>,
}

impl Rows for Data {
    type Row = Judged;
    const FIELD: Option<&'static str> = Some("claims");

    fn split(mut self) -> (Option<Self>, Vec<Judged>) {
        let rows = std::mem::take(&mut self.claims);
        (Some(self), rows)
    }
}

/// A host that was probed.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Probed {
    /// `opencode`, `zeroclaw`, or what `probe exec` was told.
    pub product: String,
    /// As the host says itself.
    pub version: Option<String>,
    /// Its process.
    pub pid: Option<u32>,
    /// It was started for the probe; else it was running.
    pub spawned: bool,
}

/// A claim, and what the experiment showed.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Judged {
    /// Id in the registry: `O4`, `Z10`.
    pub id: String,
    /// What is claimed.
    pub statement: String,
    /// What the host's documents say, where they say something.
    pub documented: Option<String>,
    /// What the experiment showed of this version.
    pub outcome: Outcome,
    /// The experiment was meant to be made; else it is none for this kind of host.
    pub asked: bool,
    /// What was done.
    pub experiment: String,
    /// What had to hold for the experiment to tell anything.
    pub control: String,
    /// How the environment was read; absent where none was.
    pub readback: Option<Channel>,
    /// What was read.
    pub evidence: Vec<Evidence>,
}

/// How a shell's environment was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Channel {
    /// Out of band: the shell's own block in `/proc`, found through a private socket.
    Socket,
    /// In band, from the command's output: set or unset, length, and equality with what was injected.
    Output,
}

impl Channel {
    /// The word on the screen.
    pub fn word(self) -> &'static str {
        match self {
            Channel::Socket => "socket",
            Channel::Output => "output",
        }
    }
}

/// How a probe may go about it.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Longest wait for one answer of the host.
    pub patience: std::time::Duration,
}

/// 32 hexadecimal digits that nobody can guess.
///
/// # Errors
/// When the system has no randomness.
pub fn token() -> std::io::Result<String> {
    let mut bytes = [0u8; 16];
    let mut filled = 0;
    while filled < bytes.len() {
        filled += rustix::rand::getrandom(&mut bytes[filled..], rustix::rand::GetRandomFlags::empty())?;
    }
    Ok(crate::host::hex(&bytes))
}

/// A value that nobody else has.
///
/// # Errors
/// When the system has no randomness.
pub fn nonce(what: &str) -> std::io::Result<String> {
    Ok(format!("whoseenv-{what}-{}", token()?))
}

/// A map of variables, as hosts take it.
pub fn map(pairs: &[(&str, &str)]) -> serde_json::Value {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), serde_json::Value::from(*value))).collect::<serde_json::Map<_, _>>().into()
}

/// A name from a host's block, as evidence may hold it.
pub fn shown(name: &str) -> String {
    if redact::sound_name(name.as_bytes()) { name.to_owned() } else { format!("(a name of {} bytes that is not shown)", name.len()) }
}

/// Such names, as a list.
pub fn listed(names: &[String]) -> String {
    names.iter().map(|name| shown(name)).collect::<Vec<_>>().join(", ")
}

/// Now, RFC 3339.
pub fn now() -> String {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    machine::rfc3339(i64::try_from(since.as_millis()).unwrap_or_default())
}
