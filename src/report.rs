//! The envelope and its faces. Nothing else in the house prints.

pub mod envelope;
pub mod exit;
pub mod human;
pub mod json;
pub mod page;
pub mod printer;
pub mod progress;
pub mod rows;

use crate::verdict::Finding;

pub use envelope::{Envelope, Problem};
pub use exit::Exit;
pub use page::{Block, Page, Span, Style, Text};
pub use printer::{Format, Lines, Printer};
pub use progress::Progress;
pub use rows::Rows;

/// What a command came to, before it has a face.
#[derive(Clone, Debug)]
pub struct Report<T> {
    /// The command, as in the schema's name: `doctor`, `ps`.
    pub command: &'static str,
    /// The answer itself.
    pub data: T,
    /// What is wrong.
    pub findings: Vec<Finding>,
    /// What a reader should know besides; never a reason for an exit code.
    pub notes: Vec<String>,
    /// How many findings `--ignore` left out.
    pub ignored: usize,
    /// Something that was asked about may not be looked at from this account.
    pub not_permitted: bool,
    /// Something that was asked about could not be decided.
    pub undetermined: bool,
    /// Two things that were compared are not the same (`diff`).
    pub differs: bool,
}

impl<T> Report<T> {
    /// An answer without findings.
    pub fn new(command: &'static str, data: T) -> Report<T> {
        Report {
            command,
            data,
            findings: Vec::new(),
            notes: Vec::new(),
            ignored: 0,
            not_permitted: false,
            undetermined: false,
            differs: false,
        }
    }

    /// The same verdict on another form of the answer.
    pub fn map<U>(self, change: impl FnOnce(T) -> U) -> Report<U> {
        let Report { command, data, findings, notes, ignored, not_permitted, undetermined, differs } = self;
        Report { command, data: change(data), findings, notes, ignored, not_permitted, undetermined, differs }
    }
}
