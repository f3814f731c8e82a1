//! One sequence of events after the other, beside the host's own counter of it and what a fork leaves out.

use rusqlite::types::ValueRef;
use rusqlite::{Connection, Rows};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Refusal, Tables, number, text};
use crate::store::Generation;

/// Events of one aggregate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Aggregate {
    /// Whose they are: a session's id.
    pub id: String,
    /// How many.
    pub count: u64,
    /// First of the sequence.
    pub first_seq: i64,
    /// Last of the sequence.
    pub last_seq: i64,
    /// How many of the sequence are missing, from 0 to the host's counter.
    pub missing: u64,
    /// How many of those before the first.
    pub missing_head: u64,
    /// How many of those after the last, up to the host's counter.
    pub missing_tail: u64,
    /// What the host's own counter says was the last; absent where it has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub counter: Option<i64>,
    /// Its session is a fork, and the host goes on counting where its parent stood: numbers that no event has are no gap.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub fork: bool,
}

impl Aggregate {
    /// How many are missing that must once have been there. OpenCode 2.0.x keeps events only while it is told to: what it did not keep
    /// before the first and after the last was not lost.
    pub fn lost(&self, generation: Generation) -> u64 {
        match generation {
            Generation::V1 | Generation::Preview => self.missing,
            _ => self.missing.saturating_sub(self.missing_head).saturating_sub(self.missing_tail),
        }
    }

    /// `2 before 2, 1 after 9`: what is missing, and where.
    pub fn gaps(&self) -> String {
        let between = self.missing.saturating_sub(self.missing_head).saturating_sub(self.missing_tail);
        let places = [
            (self.missing_head, format!("{} before {}", self.missing_head, self.first_seq)),
            (between, format!("{between} between {} and {}", self.first_seq, self.last_seq)),
            (self.missing_tail, format!("{} after {}", self.missing_tail, self.last_seq)),
        ];
        places.into_iter().filter(|(count, _)| *count > 0).map(|(_, text)| text).collect::<Vec<_>>().join(", ")
    }
}

/// Numbers from `from` to `to`, without those that a fork leaves out: 1 to `left_out`.
fn numbers(from: i64, to: i64, left_out: i64) -> u64 {
    let span = |from: i64, to: i64| u64::try_from((i128::from(to) - i128::from(from) + 1).max(0)).unwrap_or(u64::MAX);
    span(from, to) - span(from.max(1), to.min(left_out)).min(span(from, to))
}

/// Every aggregate, in order of its id; how many the counter knows of that have no event.
///
/// # Errors
/// When the tables cannot be read.
pub fn each_aggregate(conn: &Connection, tables: &Tables, mut tell: impl FnMut(Aggregate)) -> Result<u64, Refusal> {
    // Side by side in one order, and not one looked up for the other: a table without its index would be read again and again.
    let counters = tables
        .has("event_sequence")
        .then_some("select aggregate_id, seq from event_sequence where typeof(aggregate_id) = 'text' order by aggregate_id collate binary");
    let forks = forks(tables);
    let mut counters = counters.map(|sql| conn.prepare(sql)).transpose()?;
    let mut forks = forks.map(|sql| conn.prepare(&sql)).transpose()?;
    let mut counters = Beside::of(counters.as_mut().map(|statement| statement.query([])).transpose()?);
    let mut forks = Beside::of(forks.as_mut().map(|statement| statement.query([])).transpose()?);
    let mut statement = conn.prepare(
        "select aggregate_id, count(*), min(seq), max(seq) from event group by aggregate_id collate binary order by aggregate_id collate binary",
    )?;
    let mut rows = statement.query([])?;
    let mut passed = 0;
    while let Some(row) = rows.next()? {
        let (count, first, last) = (number(row, 1).unsigned_abs(), number(row, 2), number(row, 3));
        let (counter, fork) = match row.get_ref(0)? {
            ValueRef::Text(id) => (counters.of_id(id, &mut passed)?, forks.of_id(id, &mut 0)?),
            _ => (None, None),
        };
        // The fork itself is number 0; where the host does not say how far its parent was (2.0.x), no gap can be told.
        let left_out = fork.map_or(0, |seq| seq.unwrap_or(i64::MAX));
        let counter = counter.flatten();
        let end = counter.unwrap_or(last).max(last);
        let head = if first > 0 { numbers(0, first - 1, left_out) } else { 0 };
        let tail = if end > last { numbers(last + 1, end, left_out) } else { 0 };
        let between = numbers(first, last, left_out).saturating_sub(count);
        tell(Aggregate {
            id: text(row, 0),
            count,
            first_seq: first,
            last_seq: last,
            missing: head.saturating_add(between).saturating_add(tail),
            missing_head: head,
            missing_tail: tail,
            counter,
            fork: fork.is_some(),
        });
    }
    counters.rest(&mut passed)?;
    Ok(passed)
}

/// Sessions that are forks, with the last number that each leaves out: its parent's (`fork_seq`, next-16350).
fn forks(tables: &Tables) -> Option<String> {
    let table = ["session_v2", "session"].into_iter().find(|table| tables.column(table, "fork_session_id"))?;
    let seq = tables.or_null(table, "fork_seq");
    Some(format!("select id, {seq} from {table} where fork_session_id is not null and typeof(id) = 'text' order by id collate binary"))
}

/// A number for some ids, in the order of the ids.
struct Beside<'s> {
    rows: Option<Rows<'s>>,
    next: Option<(Vec<u8>, Option<i64>)>,
}

impl<'s> Beside<'s> {
    fn of(rows: Option<Rows<'s>>) -> Beside<'s> {
        Beside { rows, next: None }
    }

    fn step(&mut self) -> Result<bool, Refusal> {
        let Some(rows) = self.rows.as_mut() else { return Ok(false) };
        match rows.next()? {
            Some(row) => {
                let id = row.get_ref(0)?.as_bytes().unwrap_or_default();
                let (kept, seq) = self.next.get_or_insert_default();
                kept.clear();
                kept.extend_from_slice(id);
                *seq = row.get_ref(1)?.as_i64_or_null().ok().flatten();
                Ok(true)
            }
            None => {
                self.rows = None;
                self.next = None;
                Ok(false)
            }
        }
    }

    /// The number of this id, which comes after all that were asked for. Ids before it that nobody asked for are counted.
    fn of_id(&mut self, id: &[u8], passed: &mut u64) -> Result<Option<Option<i64>>, Refusal> {
        if self.next.is_none() && !self.step()? {
            return Ok(None);
        }
        while let Some((next, seq)) = &self.next {
            match next.as_slice().cmp(id) {
                std::cmp::Ordering::Less => {
                    *passed += 1;
                    self.step()?;
                }
                std::cmp::Ordering::Equal => {
                    let seq = *seq;
                    self.step()?;
                    return Ok(Some(seq));
                }
                std::cmp::Ordering::Greater => break,
            }
        }
        Ok(None)
    }

    fn rest(&mut self, passed: &mut u64) -> Result<(), Refusal> {
        *passed += u64::from(self.next.is_some());
        while self.step()? {
            *passed += 1;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::numbers;

    #[test]
    fn numbers_without_those_of_a_fork() {
        assert_eq!((numbers(0, 9, 0), numbers(3, 2, 0), numbers(5, 5, 0)), (10, 0, 1));
        // A fork of a session that stood at 17: 0, then 18 and on.
        assert_eq!((numbers(0, 17, 17), numbers(0, 20, 17), numbers(1, 17, 17), numbers(18, 18, 17)), (1, 4, 0, 1));
        assert_eq!((numbers(0, 9, -1), numbers(0, 9, i64::MAX)), (10, 1));
        assert_eq!(numbers(i64::MIN, i64::MAX, 0), u64::MAX);
    }
}
