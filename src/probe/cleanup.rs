//! What a probe made, and what is left of it.

use schemars::JsonSchema;
use serde::Serialize;

/// What a probe made, and what was still there when it looked again.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct Cleanup {
    /// Everything that was made was looked for again after it had been removed.
    pub looked_again: bool,
    /// What was made and removed, counted: `3 sessions`.
    pub removed: Vec<String>,
    /// What is left, seen when looking again or left by the host's own nature.
    pub left: Vec<Left>,
}

/// Something that is left.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Left {
    /// What.
    pub what: String,
    /// Why.
    pub why: String,
    /// The host does this with everybody's sessions: no fault of the clean-up.
    pub by_nature: bool,
}

impl Cleanup {
    /// Something that could not be removed.
    pub fn failed(&mut self, what: impl Into<String>, why: impl Into<String>) {
        self.left.push(Left { what: what.into(), why: why.into(), by_nature: false });
    }

    /// Something that every host of its kind keeps.
    pub fn by_nature(&mut self, what: impl Into<String>, why: impl Into<String>) {
        self.left.push(Left { what: what.into(), why: why.into(), by_nature: true });
    }

    /// So many of a kind are gone.
    pub fn removed(&mut self, count: usize, one: &str, many: &str) {
        if count > 0 {
            self.removed.push(format!("{count} {}", if count == 1 { one } else { many }));
        }
    }

    /// Both together.
    pub fn join(&mut self, other: Cleanup) {
        self.looked_again |= other.looked_again;
        self.removed.extend(other.removed);
        self.left.extend(other.left);
    }
}
