//! What the tool may say and how it must back it: outcomes, findings, evidence, liveness.
//!
//! The registry of finding ids is in [`registry`]; a [`Finding`] can only be made from a row of it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub mod registry;

/// What an examination came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The evidence shows it.
    Confirmed,
    /// The evidence shows the contrary.
    Refuted,
    /// The evidence that would decide could not be had.
    Undetermined,
    /// The host has no such surface (probes only).
    NotSupported,
}

/// How much a finding matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Worth knowing; nothing is broken by it.
    Info,
    /// It works, but not as the person at this terminal expects.
    Warning,
    /// It does not work, or it works for somebody else.
    Error,
}

impl Severity {
    /// The word used in JSON, in `--fail-on` and on the screen.
    pub fn word(self) -> &'static str {
        match self {
            Severity::Info => "info",
            Severity::Warning => "warning",
            Severity::Error => "error",
        }
    }
}

/// How a piece of evidence was obtained.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum How {
    /// Read from the kernel or the file system; nothing noticed.
    Passive,
    /// A connection was opened to the thing itself.
    Connects,
    /// A command was run.
    RunsACommand,
}

/// One thing that was read, where and when.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Evidence {
    /// Where it was read: a file, a table row, a process with its start time.
    pub source: String,
    /// How it was read.
    pub how: How,
    /// When, RFC 3339.
    pub at: String,
    /// What it said.
    pub detail: String,
}

/// One line of what is wrong, with the evidence and the remedy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Finding {
    /// Id from the registry, such as `display.reused`.
    pub id: String,
    /// How much it matters.
    pub severity: Severity,
    /// What the examination came to.
    pub outcome: Outcome,
    /// What it is about: a daemon with its pid, a variable, a file.
    pub subject: String,
    /// One sentence for a person.
    pub message: String,
    /// What was read.
    pub evidence: Vec<Evidence>,
    /// Lines that repair it: commands to paste, or an instruction.
    pub fix: Vec<String>,
}

impl Finding {
    /// A finding of a registered kind; severity comes from the registry.
    pub fn new(kind: &registry::Kind, outcome: Outcome, subject: impl Into<String>, message: impl Into<String>) -> Finding {
        Finding {
            id: kind.id.to_owned(),
            severity: kind.severity,
            outcome,
            subject: subject.into(),
            message: message.into(),
            evidence: Vec::new(),
            fix: Vec::new(),
        }
    }

    /// Adds what was read.
    #[must_use]
    pub fn evidence(mut self, evidence: impl IntoIterator<Item = Evidence>) -> Finding {
        self.evidence.extend(evidence);
        self
    }

    /// Every sentence of it, to be changed. Lines of a fix are commands, and no sentences.
    pub fn sentences(&mut self, mut change: impl FnMut(&mut String)) {
        change(&mut self.subject);
        change(&mut self.message);
        for piece in &mut self.evidence {
            change(&mut piece.source);
            change(&mut piece.detail);
        }
    }

    /// Adds lines that repair it.
    #[must_use]
    pub fn fix(mut self, lines: impl IntoIterator<Item = String>) -> Finding {
        self.fix.extend(lines);
        self
    }
}

/// Whether what a value names is still there, and still the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// It is there and answers.
    Alive,
    /// Something answers, and it is not what the process was born with.
    Reused,
    /// The path or port is there and nothing listens.
    Refused,
    /// The path is gone.
    Dangling,
    /// The variable is not set, or is empty.
    Missing,
    /// It answers and says no, or its permissions keep the process out.
    Rejected,
    /// Not permitted, in another namespace, past a deadline, or no rule.
    Unknown,
    /// The value names nothing that lives.
    None,
}

impl State {
    /// The word used in JSON and on the screen.
    pub fn word(self) -> &'static str {
        match self {
            State::Alive => "alive",
            State::Reused => "reused",
            State::Refused => "refused",
            State::Dangling => "dangling",
            State::Missing => "missing",
            State::Rejected => "rejected",
            State::Unknown => "unknown",
            State::None => "none",
        }
    }

    /// Every state.
    pub const ALL: [State; 8] =
        [State::Alive, State::Reused, State::Refused, State::Dangling, State::Missing, State::Rejected, State::Unknown, State::None];

    /// What it means, for the man page.
    pub fn text(self) -> &'static str {
        match self {
            State::Alive => "It is there and answers.",
            State::Reused => "Something answers, and it is not what the process was born with.",
            State::Refused => "The path or port is there and nothing listens.",
            State::Dangling => "The path is gone.",
            State::Missing => "The variable is not set, or is empty.",
            State::Rejected => "It answers and says no, or its permissions keep the process out.",
            State::Unknown => "Not permitted, in another namespace, past a deadline, or no rule.",
            State::None => "The value names nothing that lives.",
        }
    }

    /// Whether a program that uses the value will fail, or reach the wrong party.
    pub fn is_broken(self) -> bool {
        matches!(self, State::Reused | State::Refused | State::Dangling | State::Rejected)
    }
}

/// A state, why, and how it was found out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Liveness {
    /// The state.
    pub state: State,
    /// Why, in a few words.
    pub detail: String,
    /// How it was found out.
    pub how: How,
}

impl Liveness {
    /// A state that was read without touching the thing.
    pub fn passive(state: State, detail: impl Into<String>) -> Liveness {
        Liveness { state, detail: detail.into(), how: How::Passive }
    }
}
