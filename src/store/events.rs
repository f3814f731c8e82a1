//! Events, where a host keeps them: how many of which kind, whose, and whether some are missing.
//!
//! 1.x and the preview keep every event; 2.0.26 keeps none unless told to. A sequence counts from 0 within its aggregate, which is a
//! session, and `event_sequence` has the last number that was given out: row and event are of one transaction (1.18.34, next-16350).

use rusqlite::Connection;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Refusal, Tables};

mod aggregate;

pub use aggregate::{Aggregate, each_aggregate};

/// Events of one type.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OfType {
    /// The type, with its version.
    pub r#type: String,
    /// How many.
    pub count: u64,
}

/// One event, without its content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Event {
    /// Its id.
    pub id: String,
    /// Whose it is.
    pub aggregate_id: String,
    /// Its place in the sequence.
    pub seq: i64,
    /// Its type.
    pub r#type: String,
    /// When it was kept; absent where the store does not say (1.x).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_created: Option<String>,
    /// Bytes of its content.
    pub bytes: u64,
}

/// What the table holds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Summary {
    /// How many events.
    pub count: u64,
    /// By type, the most first.
    pub types: Vec<OfType>,
    /// How many aggregates.
    pub aggregates_count: u64,
    /// Those with the most events, and every one with a gap, up to the number asked for.
    pub aggregates: Vec<Aggregate>,
    /// Aggregates in which some are missing.
    pub gaps_count: u64,
    /// Aggregates with a number in the host's own counter, and no event at all.
    pub emptied_count: u64,
    /// The last ones.
    pub last: Vec<Event>,
}

fn text(row: &rusqlite::Row<'_>, column: usize) -> String {
    let bytes = row.get_ref(column).ok().and_then(|value| value.as_bytes_or_null().ok().flatten()).unwrap_or_default();
    super::text::told_text(bytes)
}

fn number(row: &rusqlite::Row<'_>, column: usize) -> i64 {
    row.get_ref(column).ok().and_then(|value| value.as_i64_or_null().ok().flatten()).unwrap_or(0)
}

/// Counts, and the last `last` events; `most` aggregates.
///
/// # Errors
/// When there is no such table, or it cannot be read.
pub fn summary(conn: &Connection, tables: &Tables, last: u64, most: usize) -> Result<Summary, Refusal> {
    tables.need(&["event"], "table event: its host keeps none")?;
    let mut summary = Summary::default();
    let mut statement = conn.prepare("select type, count(*) from event group by type order by 2 desc, 1")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let count = number(row, 1).unsigned_abs();
        summary.count += count;
        summary.types.push(OfType { r#type: text(row, 0), count });
    }
    summary.emptied_count = each_aggregate(conn, tables, |aggregate| {
        summary.aggregates_count += 1;
        summary.gaps_count += u64::from(aggregate.missing > 0);
        summary.aggregates.push(aggregate);
        // Half is thrown away when there are twice as many as asked for: memory does not depend on their number.
        if summary.aggregates.len() >= 2 * most.max(512) {
            rank(&mut summary.aggregates, most);
        }
    })?;
    rank(&mut summary.aggregates, most);
    let created = tables.or_null("event", "created");
    let mut statement = conn.prepare(&format!(
        "select id, aggregate_id, seq, type, {created}, octet_length(data) from event order by rowid desc limit {last}"
    ))?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let created = row.get::<_, Option<i64>>(4).ok().flatten();
        summary.last.push(Event {
            id: text(row, 0),
            aggregate_id: text(row, 1),
            seq: number(row, 2),
            r#type: text(row, 3),
            time_created: created.map(crate::host::machine::rfc3339),
            bytes: number(row, 5).unsigned_abs(),
        });
    }
    Ok(summary)
}

fn rank(aggregates: &mut Vec<Aggregate>, most: usize) {
    aggregates.sort_by(|a, b| (b.missing > 0, b.count).cmp(&(a.missing > 0, a.count)).then_with(|| a.id.cmp(&b.id)));
    aggregates.truncate(most);
}
