//! Why there is no answer from a store.

use std::path::PathBuf;

use crate::host::Unknown;
use crate::report::{Exit, Problem};

use super::text::told_text;

/// Why a store was not read, or not to its end.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// It could not be looked at.
    #[error("{0}")]
    Unknown(Unknown),
    /// It is no regular file, and nothing else is opened.
    #[error("it is {0}, not a regular file")]
    Kind(&'static str),
    /// Nothing was ever written into it.
    #[error("it is empty: no host has written anything into it yet")]
    Empty,
    /// Its first bytes are not SQLite's.
    #[error("it is not an SQLite database")]
    NotADatabase,
    /// SQLite cannot read it.
    #[error("it is damaged: {0}")]
    Damaged(String),
    /// It changed while it was read, every time.
    #[error("it changed while it was read")]
    Moved,
    /// A host holds it for writing, without a WAL.
    #[error("{} is writing into it, and keeps readers out", .0.map_or_else(|| "a process that its lock does not name".to_owned(), |pid| format!("pid {pid}")))]
    Busy(Option<u32>),
    /// A transaction over several databases was interrupted: undoing it would touch the others.
    #[error("an interrupted transaction in its journal spans several databases; only their host can undo it")]
    ManyJournals,
    /// There is no place for a private copy.
    #[error("reading it takes a private copy of {needed} bytes, and {dir} has {free} free", dir = dir.display())]
    NoSpace {
        /// Bytes that a copy takes.
        needed: u64,
        /// Bytes free.
        free: u64,
        /// Where.
        dir: PathBuf,
    },
    /// A private copy could not be made.
    #[error("a private copy of it could not be made: {0}")]
    Copy(String),
    /// It asks for more than a store of any host does: memory, time, a function, another table.
    #[error("it is not read to its end: {0}")]
    Hostile(String),
    /// It took more than a sound store of its size takes.
    #[error("it is not read to its end: a question takes longer than in a sound store of its size")]
    Endless,
    /// The table that would answer is not there.
    #[error("{0}")]
    NoTable(String),
    /// The session that was asked for is not there.
    #[error("it has no session {0}")]
    NoSession(String),
    /// Ctrl-C.
    #[error("interrupted")]
    Interrupted,
    /// Anything else that SQLite or the system says.
    #[error("{0}")]
    Io(String),
}

impl From<Unknown> for Refusal {
    fn from(unknown: Unknown) -> Refusal {
        Refusal::Unknown(unknown)
    }
}

impl From<std::io::Error> for Refusal {
    fn from(error: std::io::Error) -> Refusal {
        Refusal::Unknown(error.into())
    }
}

impl From<rusqlite::Error> for Refusal {
    fn from(error: rusqlite::Error) -> Refusal {
        use rusqlite::ErrorCode;
        let Some(code) = error.sqlite_error_code() else { return Refusal::Damaged(told_text(error.to_string().as_bytes())) };
        match code {
            ErrorCode::NotADatabase => Refusal::NotADatabase,
            ErrorCode::DatabaseCorrupt => Refusal::Damaged("its pages contradict each other".to_owned()),
            ErrorCode::OperationInterrupted if crate::host::interrupt::came().is_some() => Refusal::Interrupted,
            ErrorCode::OperationInterrupted => Refusal::Endless,
            ErrorCode::OutOfMemory => Refusal::Hostile("its schema or a value takes more memory than a store's does".to_owned()),
            ErrorCode::TooBig => Refusal::Hostile("a value is larger than a store's are".to_owned()),
            ErrorCode::AuthorizationForStatementDenied => {
                Refusal::Hostile("its schema would run something while it is read (a view, a function, another table)".to_owned())
            }
            // SQLite names tables and columns of the file.
            _ => Refusal::Io(told_text(error.to_string().as_bytes())),
        }
    }
}

impl Refusal {
    /// The exit code it ends in.
    pub fn exit(&self) -> Exit {
        match self {
            Refusal::Unknown(Unknown::Absent) | Refusal::NoTable(_) | Refusal::NoSession(_) => Exit::NotFound,
            Refusal::Unknown(Unknown::NotPermitted) => Exit::NotPermitted,
            Refusal::Kind(_) => Exit::Usage,
            Refusal::NoSpace { .. } | Refusal::Copy(_) => Exit::Io,
            _ => Exit::Undetermined,
        }
    }

    /// As a problem with the store at `path`, with the remedy.
    pub fn problem(&self, path: &str) -> Problem {
        let problem = Problem::new(self.exit(), format!("{path}: {self}"));
        match self {
            Refusal::Unknown(Unknown::Absent) => problem.hint("See which stores there are: whoseenv db info"),
            Refusal::Unknown(Unknown::NotPermitted) => problem.hint("Ask as its owner or as root."),
            Refusal::Kind(_) => problem.hint("Name the database file itself."),
            Refusal::NotADatabase | Refusal::Damaged(_) => problem.hint("See what can be told of it: whoseenv db info --db FILE"),
            Refusal::Busy(_) => {
                problem.hint("Ask again when its transaction has ended, or on a copy that you made while its host was stopped.")
            }
            Refusal::NoSession(_) => problem.hint("See which there are: whoseenv db sessions --db FILE"),
            Refusal::Moved => problem.hint("Ask again, or on a copy that you made while its host was stopped."),
            Refusal::NoSpace { .. } | Refusal::Copy(_) => problem.hint("Let XDG_CACHE_HOME name a directory of yours with room for it."),
            Refusal::ManyJournals => problem.hint("Start the host once, or ask on a copy."),
            Refusal::NoTable(_) => problem.hint("See what is in it: whoseenv db schema --db FILE"),
            _ => problem,
        }
    }
}
