//! What a store tells of itself, before anybody judges it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::store::events::Aggregate;
use crate::store::wal::Lost;

/// So many of each kind are named.
pub const NAMED: usize = 10;

/// A value over this many bytes is one that its plugin should keep in a file.
pub const LARGE: u64 = 1 << 20;

/// A row that waits longer than this in an idle session waits for somebody to wake it, in milliseconds.
pub const WAITING_MS: i64 = 5_000;

/// So many plugins are judged one by one; a store with more of them is no host's.
pub const PLUGINS: usize = 10_000;

/// So many directories of sessions are looked at.
pub const DIRECTORIES: usize = 50_000;

/// What SQLite says of the pages.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Integrity {
    /// They fit together.
    Whole,
    /// They do not; the first complaints.
    Damaged(Vec<String>),
    /// It could not be found out.
    Unknown(String),
}

/// A plugin's rows in `kv`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plugin {
    /// Rows.
    pub entries: u64,
    /// Rows whose key names no session and no path.
    pub unscoped: u64,
    /// Bytes of all values.
    pub bytes: u64,
    /// Key and bytes of the largest value.
    pub largest: (String, u64),
    /// Values over [`LARGE`].
    pub large: u64,
    /// When one was last written, milliseconds since the epoch.
    pub updated_ms: i64,
}

/// A session in which rows wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// The session.
    pub session: String,
    /// How many.
    pub rows: u64,
    /// When the oldest was admitted.
    pub oldest_ms: i64,
    /// Type and delivery of the first.
    pub first: String,
}

/// Sessions in which rows wait.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Waits {
    /// The sessions.
    pub sessions: Some10<Waiting>,
    /// Rows in all of them.
    pub rows: u64,
}

/// A session in the middle of a turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Suspended {
    /// The table that it stands in.
    pub table: &'static str,
    /// The session.
    pub id: String,
    /// Since when; none where the host keeps a text.
    pub since_ms: Option<i64>,
    /// The event that the turn began with, by its place in the session's sequence; none where a column tells of the turn.
    pub seq: Option<i64>,
}

/// A session whose parent is gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Orphan {
    /// The table that it stands in.
    pub table: &'static str,
    /// The session.
    pub id: String,
    /// The parent id that names nothing.
    pub parent: String,
}

/// A list of which only the first are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Some10<T> {
    /// All of them.
    pub count: u64,
    /// The first.
    pub named: Vec<T>,
}

impl<T> Default for Some10<T> {
    fn default() -> Some10<T> {
        Some10 { count: 0, named: Vec::new() }
    }
}

impl<T> Some10<T> {
    pub(super) fn push(&mut self, item: impl FnOnce() -> T) {
        self.count += 1;
        if self.named.len() < NAMED {
            self.named.push(item());
        }
    }
}

/// What the events take.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Events {
    /// How many.
    pub count: u64,
    /// Their bytes.
    pub bytes: u64,
    /// The bytes were estimated from a sample.
    pub estimated: bool,
    /// Who has the most of them.
    pub most: Vec<Aggregate>,
    /// Aggregates in which some are missing.
    pub gaps: Some10<Aggregate>,
    /// Aggregates that the host's counter knows of and that have no event at all.
    pub emptied: u64,
}

/// Everything that the store itself tells.
#[derive(Clone, Debug, PartialEq)]
pub struct Facts {
    /// Base and WAL together.
    pub whole: Integrity,
    /// The base alone; none where there is no WAL to speak of.
    pub base: Option<Integrity>,
    /// What of the WAL SQLite cannot use; none where it can use all of it.
    pub lost: Option<Lost>,
    /// Bytes of a page.
    pub page_size: u64,
    /// Pages.
    pub pages: u64,
    /// Pages that hold nothing.
    pub free_pages: u64,
    /// Pages of deleted rows go back by themselves.
    pub auto_vacuum: bool,
    /// By plugin.
    pub kv: BTreeMap<String, Plugin>,
    /// Rows of plugins beyond [`PLUGINS`].
    pub kv_left_out: u64,
    /// The table with the queue that its latest host uses.
    pub queue_table: &'static str,
    /// The table with the sessions that its latest host uses.
    pub session_table: &'static str,
    /// Rows in queues.
    pub pending: u64,
    /// What waits in sessions in which no turn runs.
    pub waiting: Waits,
    /// … in which one began that has not ended: it runs, or its host ended in the middle.
    pub waiting_in_turn: Waits,
    /// … of which the store does not tell whether one runs.
    pub waiting_untold: Waits,
    /// Session and number of rows with one payload.
    pub twice: Some10<(String, u64)>,
    /// Sessions.
    pub sessions: u64,
    /// Sessions whose parent id names nothing.
    pub orphans: Some10<Orphan>,
    /// Parent ids that name nothing.
    pub dangling: u64,
    /// Sessions in the middle of a turn.
    pub suspended: Some10<Suspended>,
    /// Sessions of which the store does not tell whether a turn runs.
    pub suspended_untold: u64,
    /// Sessions that are their own ancestors.
    pub circles: Some10<String>,
    /// Directories of sessions, with how many.
    pub directories: BTreeMap<String, u64>,
    /// Sessions in directories beyond [`DIRECTORIES`].
    pub directories_left_out: u64,
    /// Events.
    pub events: Option<Events>,
    /// Table, column and rows of secrets.
    pub secrets: Vec<(&'static str, &'static str, u64)>,
}

impl Facts {
    /// Nothing was looked at.
    pub fn nothing() -> Facts {
        Facts {
            whole: Integrity::Unknown("not looked at".to_owned()),
            base: None,
            lost: None,
            page_size: 0,
            pages: 0,
            free_pages: 0,
            auto_vacuum: false,
            kv: BTreeMap::new(),
            kv_left_out: 0,
            queue_table: "",
            session_table: "",
            pending: 0,
            waiting: Waits::default(),
            waiting_in_turn: Waits::default(),
            waiting_untold: Waits::default(),
            twice: Some10::default(),
            sessions: 0,
            orphans: Some10::default(),
            dangling: 0,
            suspended: Some10::default(),
            suspended_untold: 0,
            circles: Some10::default(),
            directories: BTreeMap::new(),
            directories_left_out: 0,
            events: None,
            secrets: Vec::new(),
        }
    }
}
