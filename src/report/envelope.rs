//! The JSON envelope: the same for every command, for errors too.

use schemars::JsonSchema;
use serde::Serialize;

use crate::host::{Machine, Unknown};
use crate::verdict::Finding;

use super::Exit;

/// What every command prints under `--json`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Envelope<'a, T> {
    /// `whoseenv.<command>/1`.
    pub schema: String,
    /// This program.
    pub tool: Tool,
    /// The machine that was looked at; absent when the program failed before it looked.
    pub host: Option<HostFacts>,
    /// The privilege it was looked at with; absent likewise.
    pub privilege: Option<Privilege>,
    /// `ok`, `findings`, `not_found`, `not_permitted`, `undetermined` or `failed`.
    pub status: &'static str,
    /// What is wrong.
    pub findings: &'a [Finding],
    /// What a reader should know besides.
    pub notes: &'a [String],
    /// Why there is no answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<&'a Problem>,
    /// The answer; absent after an error. In ndjson the first line has it without its rows, and the last line has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<&'a T>,
}

/// This program.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Tool {
    /// `whoseenv`.
    pub name: &'static str,
    /// Its version.
    pub version: &'static str,
}

/// The machine that was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct HostFacts {
    /// Random id of this boot.
    pub boot_id: String,
    /// Host name.
    pub hostname: String,
    /// Kernel release.
    pub kernel: String,
    /// When the facts were read, RFC 3339.
    pub taken_at: String,
}

/// The privilege of the one who looked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Privilege {
    /// Effective uid.
    pub uid: u32,
    /// Effective capabilities, without the `CAP_`.
    pub caps: Vec<String>,
}

impl HostFacts {
    /// The machine's facts as the envelope has them.
    pub fn of(machine: &Machine) -> HostFacts {
        HostFacts {
            boot_id: machine.boot_id.clone(),
            hostname: machine.hostname.clone(),
            kernel: machine.kernel.clone(),
            taken_at: machine.taken_at(),
        }
    }
}

impl Privilege {
    /// The looker's privilege as the envelope has it.
    pub fn of(machine: &Machine) -> Privilege {
        Privilege { uid: machine.uid, caps: machine.caps.clone() }
    }
}

/// Why there is no answer: the thing, the reason, the remedy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema, thiserror::Error)]
#[error("{message}")]
pub struct Problem {
    /// What went wrong with what.
    pub message: String,
    /// What to do next, a line each.
    pub hints: Vec<String>,
    /// The exit code it ends in.
    #[serde(skip)]
    #[schemars(skip)]
    pub exit: Exit,
}

impl Problem {
    /// A problem without a remedy yet.
    pub fn new(exit: Exit, message: impl Into<String>) -> Problem {
        Problem { message: message.into(), hints: Vec::new(), exit }
    }

    /// Something that a person named and that could not be read: `thing: reason`, with the exit code of the reason.
    pub fn unread(thing: &str, reason: &Unknown) -> Problem {
        let (exit, why) = match reason {
            Unknown::Absent => (Exit::NotFound, reason.to_string()),
            Unknown::NotPermitted => (Exit::NotPermitted, reason.to_string()),
            Unknown::Malformed(why) => (Exit::Usage, why.clone()),
            Unknown::Deadline => (Exit::Undetermined, reason.to_string()),
            _ => (Exit::Io, reason.to_string()),
        };
        Problem::new(exit, format!("{thing}: {why}"))
    }

    /// Adds a line that says what to do next.
    #[must_use]
    pub fn hint(mut self, line: impl Into<String>) -> Problem {
        self.hints.push(line.into());
        self
    }
}

impl<'a, T> Envelope<'a, T> {
    /// An envelope around nothing yet.
    pub fn new(command: &str, machine: Option<&Machine>, exit: Exit) -> Envelope<'a, T> {
        Envelope {
            schema: format!("whoseenv.{command}/1"),
            tool: Tool { name: "whoseenv", version: env!("CARGO_PKG_VERSION") },
            host: machine.map(HostFacts::of),
            privilege: machine.map(Privilege::of),
            status: exit.status(),
            findings: &[],
            notes: &[],
            error: None,
            data: None,
        }
    }
}
