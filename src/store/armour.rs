//! What a connection may do: read the tables it was opened for, with a few functions that compute nothing.
//!
//! A store is foreign input. Views and triggers are off, functions in a schema untrusted, everything but reading denied at
//! compile time of each statement, and what runs long is asked every few hundred steps whether it may go on.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rusqlite::Connection;
use rusqlite::config::DbConfig;
use rusqlite::hooks::{AuthAction, AuthContext, Authorization};
use rusqlite::limits::Limit;

use crate::host::interrupt;

use super::Refusal;

/// Time for what no row has to wait longer for: the schema, the next row.
const PATIENCE: Duration = Duration::from_millis(500);

/// What SQLite may take for itself, in bytes: its cache, its schema, the value at hand.
const MEMORY: u64 = 96 << 20;

/// Longest value or row that is read, in bytes.
pub const CELL: i32 = 16 << 20;

/// Functions that our statements use, or that a CHECK of a host's table could; a schema cannot bring others.
const FUNCTIONS: &[&str] = &[
    "octet_length",
    "length",
    "count",
    "max",
    "min",
    "sum",
    "coalesce",
    "substr",
    "typeof",
    "ifnull",
    "json_valid",
    "json_type",
    "lower",
    "upper",
    "abs",
];

/// Columns that hold secrets: never read. Table, column (OpenCode 1.18.34, next-16350, 2.0.26).
pub const SECRETS: &[(&str, &str)] = &[
    ("credential", "value"),
    ("account", "access_token"),
    ("account", "refresh_token"),
    ("control_account", "access_token"),
    ("control_account", "refresh_token"),
    ("session_share", "secret"),
];

/// Pragmas that our statements use.
const PRAGMAS: &[&str] = &[
    "auto_vacuum",
    "data_version",
    "freelist_count",
    "journal_mode",
    "page_count",
    "page_size",
    "quick_check",
    "schema_version",
    "table_info",
    "table_xinfo",
    "user_version",
    "index_list",
    "index_info",
];

/// What a connection may spend before it has an answer: time, and steps of SQLite's machine.
///
/// Pages that stand in for one another make an endless table of a small file. A row of a sound one stands in it once, so that what may
/// be spent follows from the file's size.
#[derive(Clone, Debug)]
pub struct Clock {
    since: Instant,
    until_ms: Arc<AtomicU64>,
    /// Thousands of steps.
    steps: Arc<AtomicU64>,
    hurry: Arc<Mutex<Hurry>>,
}

/// Whether somebody waits for the connection to be gone.
#[derive(Default)]
enum Hurry {
    /// Nobody, or no more.
    #[default]
    Not,
    /// A host may, which is looked at at this time, and after each moment from then on.
    Beside { next_ms: u64, moment_ms: u64, seen_calm: bool, is_calm: Box<dyn Fn() -> bool + Send> },
    /// It did: the connection is of no use any more.
    Over,
}

impl fmt::Debug for Hurry {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Hurry::Not => "Not",
            Hurry::Beside { .. } => "Beside",
            Hurry::Over => "Over",
        })
    }
}

impl Hurry {
    fn is_over(&mut self, now_ms: u64) -> bool {
        match self {
            Hurry::Not => false,
            Hurry::Over => true,
            Hurry::Beside { next_ms, .. } if now_ms < *next_ms => false,
            Hurry::Beside { next_ms, moment_ms, seen_calm, is_calm } => {
                if is_calm() {
                    (*next_ms, *seen_calm) = (now_ms.saturating_add(*moment_ms), true);
                    return false;
                }
                *self = Hurry::Over;
                true
            }
        }
    }
}

/// Steps between two looks at the clock.
const STEPS: u64 = 1000;

/// Steps that any store may take, in thousands: as many as take a fraction of a second.
const STEPS_ANYWAY: u64 = 8_000;

/// Steps for each byte of a store. The smallest cell that is possible has 6 bytes and a host's rows have 60 or more; the longest of our
/// questions, all parts of it together, takes some hundred steps a row.
const STEPS_A_BYTE: u64 = 5;

/// Bytes that the slowest disk brings in a millisecond, a page here and a page there.
const BYTES_A_MS: u64 = 512;

impl Clock {
    fn new() -> Clock {
        let clock =
            Clock { since: Instant::now(), until_ms: Arc::default(), steps: Arc::new(AtomicU64::new(STEPS_ANYWAY)), hurry: Arc::default() };
        clock.extend(PATIENCE);
        clock
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.since.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// So much time from now on.
    pub fn extend(&self, patience: Duration) {
        self.until_ms.store(self.now_ms().saturating_add(u64::try_from(patience.as_millis()).unwrap_or(u64::MAX)), Ordering::Relaxed);
    }

    /// As much as reading a store of so many bytes takes, from now on.
    pub fn allow(&self, bytes: u64) {
        self.steps.store(STEPS_ANYWAY.saturating_add(bytes.saturating_mul(STEPS_A_BYTE) / STEPS), Ordering::Relaxed);
        self.extend(PATIENCE.saturating_add(Duration::from_millis(bytes / BYTES_A_MS)));
    }

    fn hurrying(&self) -> std::sync::MutexGuard<'_, Hurry> {
        self.hurry.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// No more than a moment from now on, and another one as often as `is_calm` says that nobody is kept waiting.
    pub fn hurry(&self, moment: Duration, is_calm: impl Fn() -> bool + Send + 'static) {
        let moment_ms = u64::try_from(moment.as_millis()).unwrap_or(u64::MAX);
        let next_ms = self.now_ms().saturating_add(moment_ms);
        *self.hurrying() = Hurry::Beside { next_ms, moment_ms, seen_calm: false, is_calm: Box::new(is_calm) };
    }

    /// Ends the hurry when nobody was kept waiting for the first moment; tells whether there is none now.
    pub fn settle(&self) -> bool {
        let mut hurry = self.hurrying();
        if matches!(*hurry, Hurry::Beside { seen_calm: true, .. }) {
            *hurry = Hurry::Not;
        }
        matches!(*hurry, Hurry::Not)
    }

    /// Counts another thousand steps, and tells whether that was one too many.
    fn is_over(&self) -> bool {
        let spent = |left: u64| left.checked_sub(1);
        self.steps.fetch_update(Ordering::Relaxed, Ordering::Relaxed, spent).is_err()
            || self.now_ms() > self.until_ms.load(Ordering::Relaxed)
            || self.hurrying().is_over(self.now_ms())
    }
}

/// Has a connection asked again and again whether it may go on.
///
/// # Errors
/// What SQLite says.
pub fn watch(conn: &mut Connection) -> Result<Clock, Refusal> {
    let clock = Clock::new();
    let asked = clock.clone();
    conn.progress_handler(STEPS as i32, Some(move || interrupt::came().is_some() || asked.is_over()))?;
    Ok(clock)
}

/// Puts the limits on a connection that has read nothing yet.
///
/// # Errors
/// What SQLite says.
pub fn put_on(conn: &mut Connection) -> Result<Clock, Refusal> {
    for (option, on) in [
        (DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true),
        (DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false),
        (DbConfig::SQLITE_DBCONFIG_ENABLE_VIEW, false),
        (DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false),
        // A private copy is thrown away: nothing has to be moved into it first.
        (DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true),
    ] {
        conn.set_db_config(option, on)?;
    }
    for (limit, most) in [
        (Limit::SQLITE_LIMIT_LENGTH, CELL + (1 << 20)),
        (Limit::SQLITE_LIMIT_ATTACHED, 0),
        (Limit::SQLITE_LIMIT_TRIGGER_DEPTH, 0),
        (Limit::SQLITE_LIMIT_EXPR_DEPTH, 100),
        (Limit::SQLITE_LIMIT_COMPOUND_SELECT, 8),
        (Limit::SQLITE_LIMIT_WORKER_THREADS, 0),
    ] {
        conn.set_limit(limit, most)?;
    }
    conn.busy_timeout(Duration::from_millis(250))?;
    // First of all: already the next pragma reads the schema, and that may be without end.
    let clock = watch(conn)?;
    conn.execute_batch(&format!(
        "pragma hard_heap_limit={MEMORY}; pragma query_only=on; pragma ignore_check_constraints=on; pragma cache_size=-24000;"
    ))?;
    Ok(clock)
}

/// From now on the connection reads and does nothing else.
///
/// # Errors
/// What SQLite says.
pub fn close_up(conn: &mut Connection) -> Result<(), Refusal> {
    conn.authorizer(Some(judge))?;
    Ok(())
}

fn judge(context: AuthContext<'_>) -> Authorization {
    let allowed = match context.action {
        AuthAction::Select => true,
        AuthAction::Read { table_name, column_name } => !is_secret(table_name, column_name),
        AuthAction::Function { function_name } => FUNCTIONS.iter().any(|name| function_name.eq_ignore_ascii_case(name)),
        AuthAction::Pragma { pragma_name, .. } => PRAGMAS.iter().any(|name| pragma_name.eq_ignore_ascii_case(name)),
        AuthAction::Transaction { .. } => true,
        _ => false,
    };
    if allowed { Authorization::Allow } else { Authorization::Deny }
}

fn is_secret(table: &str, column: &str) -> bool {
    SECRETS.iter().any(|(t, c)| table.eq_ignore_ascii_case(t) && column.eq_ignore_ascii_case(c))
}
