//! Whether a turn of a session runs, as far as the store tells.
//!
//! 2.0.x writes `time_suspended` when a turn begins and empties it when it ends. next-16350 has the column and leaves it empty in a turn: there
//! `session.execution.started` without a `succeeded`, `failed` or `interrupted` behind it is a turn that has not ended. 1.14.48 and 1.18.34 write
//! neither for the turns of their own routes, and ZeroClaw's ACP sessions keep nothing of it.

use rusqlite::{Connection, Statement};

use super::{Generation, Refusal, Tables};

/// A turn of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// None runs.
    None,
    /// One began, and its end is not told.
    Began {
        /// The event that it began with, by its place in the session's sequence; none where a column tells.
        seq: Option<i64>,
    },
    /// The store does not tell.
    Untold,
}

/// How a table of sessions is told of turns. Its column, where it has one, is asked first in any case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Told {
    /// By the column: empty, and none runs.
    Column,
    /// By events.
    Events {
        /// Of every turn: a session without such an event has had none.
        all: bool,
    },
    /// By nothing.
    Not,
}

/// The last event of the turns of a session: its number where one began with it, -1 where it is an end, null where there is none. `of` is an
/// expression for the session's id.
fn last_event(of: &str) -> String {
    // A bare column beside max() is that of the row with the maximum; index (aggregate_id, type, seq) of the host answers it alone.
    format!(
        "(select case when type >= 'session.execution.started' and type < 'session.execution.startee' then max(seq) \
         when type is not null then -1 end from event \
         where aggregate_id = {of} and type >= 'session.execution.' and type < 'session.execution/')"
    )
}

/// Both ends of the table: what an old host did not write, a new one may.
const ANY: &str = "select 1 from (select type from event limit 20000) where type >= 'session.execution.' and type < 'session.execution/' \
    union all select 1 from (select type from event order by rowid desc limit 20000) where type >= 'session.execution.' and \
    type < 'session.execution/' limit 1";

impl Told {
    pub(super) fn of(conn: &Connection, tables: &Tables, table: &str) -> Result<Told, Refusal> {
        let generation = tables.generation();
        Ok(match table {
            "session_metadata" if tables.column(table, "state") => Told::Column,
            "session_v2" if tables.column(table, "time_suspended") => Told::Column,
            // Without the host's own index each session would read all events.
            "session" | "session_v2" if tables.has("event") && tables.is_indexed("event", "aggregate_id") => {
                // A table without row numbers is no host's.
                let all =
                    generation == Generation::Preview && conn.prepare(ANY).is_ok_and(|mut statement| statement.exists([]).unwrap_or(false));
                Told::Events { all }
            }
            _ => Told::Not,
        })
    }

    /// The number that [`Told::turn`] takes, as an expression.
    pub(super) fn column(self, id: &str) -> String {
        match self {
            Told::Events { .. } => last_event(id),
            Told::Column | Told::Not => "null".to_owned(),
        }
    }

    /// What the session's column and its events tell together.
    pub(super) fn turn(self, column_filled: bool, event: Option<i64>) -> Turn {
        match (self, event) {
            _ if column_filled => Turn::Began { seq: None },
            (Told::Events { .. }, Some(seq)) if seq >= 0 => Turn::Began { seq: Some(seq) },
            (Told::Column, _) | (Told::Events { all: true }, _) => Turn::None,
            // 1.x writes events of some turns at most: the end of one is not the end of all.
            (Told::Events { all: false } | Told::Not, _) => Turn::Untold,
        }
    }
}

/// Asks for one session after the other.
pub(super) struct Turns<'c> {
    told: Told,
    event: Option<Statement<'c>>,
    created: Option<Statement<'c>>,
}

impl<'c> Turns<'c> {
    pub(super) fn of(conn: &'c Connection, tables: &Tables, table: &str) -> Result<Turns<'c>, Refusal> {
        let told = Told::of(conn, tables, table)?;
        let by_events = matches!(told, Told::Events { .. });
        let event = by_events.then(|| conn.prepare(&format!("select {}", last_event("?1")))).transpose()?;
        let created = (by_events && tables.column("event", "created"))
            .then(|| conn.prepare("select created from event where aggregate_id = ?1 and seq = ?2"))
            .transpose()?;
        Ok(Turns { told, event, created })
    }

    pub(super) fn of_session(&mut self, session: &[u8], column_filled: bool) -> Result<Turn, Refusal> {
        let event = match (&mut self.event, std::str::from_utf8(session)) {
            (Some(event), Ok(session)) if !column_filled => {
                let mut rows = event.query([session])?;
                rows.next()?.and_then(|row| super::audit::int(row, 0))
            }
            _ => None,
        };
        Ok(self.told.turn(column_filled, event))
    }

    /// When an event was kept, milliseconds since the epoch.
    pub(super) fn since_ms(&mut self, session: &[u8], seq: i64) -> Result<Option<i64>, Refusal> {
        let (Some(created), Ok(session)) = (&mut self.created, std::str::from_utf8(session)) else { return Ok(None) };
        let mut rows = created.query((session, seq))?;
        Ok(rows.next()?.and_then(|row| super::audit::int(row, 0)))
    }
}
