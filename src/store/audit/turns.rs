//! Whether a turn of a session runs, as far as the store tells.
//!
//! 2.0.x writes `time_suspended` when a turn begins and empties it when it ends. next-16350 has the column and leaves it empty in a turn, and 1.x
//! has none: there `session.execution.started` without a `succeeded`, `failed` or `interrupted` behind it is a turn that has not ended. 1.14.48
//! and 2.0.x with its events switched off write neither.

use rusqlite::{Connection, Statement};

use super::bytes;
use crate::store::{Generation, Refusal, Tables};

/// A turn of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// None runs.
    None,
    /// One began, and its end is not told.
    Began,
    /// The store does not tell.
    Untold,
}

/// Asks for one session after the other.
pub(super) struct Turns<'c> {
    /// The last event of a session's turns.
    last: Option<Statement<'c>>,
    /// The store has `time_suspended` from a host that fills it, which the rows' own question asks for.
    column: bool,
}

impl<'c> Turns<'c> {
    pub(super) fn of(conn: &'c Connection, tables: &Tables) -> Result<Turns<'c>, Refusal> {
        // Without the host's own index each session would read all events.
        let last = (tables.has("event") && tables.is_indexed("event", "aggregate_id"))
            .then_some(
                "select type from event where aggregate_id = ?1 and type >= 'session.execution.' and type < 'session.execution/' \
                 order by seq desc limit 1",
            )
            .map(|sql| conn.prepare(sql))
            .transpose()?;
        Ok(Turns { last, column: matches!(tables.generation(), Generation::V2 | Generation::V2August) })
    }

    pub(super) fn of_session(&mut self, session: &[u8]) -> Result<Turn, Refusal> {
        let Some(last) = &mut self.last else { return Ok(self.without()) };
        let Ok(session) = std::str::from_utf8(session) else { return Ok(self.without()) };
        let mut rows = last.query([session])?;
        let Some(row) = rows.next()? else { return Ok(if self.column { Turn::None } else { Turn::Untold }) };
        Ok(if bytes(row, 0).starts_with(b"session.execution.started") { Turn::Began } else { Turn::None })
    }

    fn without(&self) -> Turn {
        if self.column { Turn::None } else { Turn::Untold }
    }
}
