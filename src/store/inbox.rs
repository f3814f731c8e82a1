//! Work that waits: `session_inbox` of 2.0.x, `session_pending` of the preview, `session_input` of 1.x (where a row stays, with
//! `promoted_seq`, once it was taken).
//!
//! Promotion order: all `steer` rows of a session at its next step, in order of their sequence; then its `queue` rows, one at a time
//! when it is idle. A row's text reaches the model in the user's role, and nothing records who wrote it.

use rusqlite::Connection;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::armour::CELL;
use super::rows::{Row, each_block, first_lines};
use super::text::Object;
use super::{Refusal, Tables, shape};
use crate::redact::{FingerprintKey, secret_shape};

/// What is told about the author of a row, whichever it is.
pub const AUTHOR: &str = "reaches the model as user; no author is recorded";

/// A payload by its form.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Payload {
    /// Keys at its top.
    pub keys: Vec<String>,
    /// Its length.
    pub bytes: u64,
    /// Why it was not read: it is too large. Then nothing but its length is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_read: Option<String>,
    /// Its keyed fingerprint.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fingerprint: Option<String>,
    /// Its text, on request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The same in base64, where it is no UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text_b64: Option<String>,
}

/// A row that waits.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Pending {
    /// Its id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The same in base64, where it is no UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id_b64: Option<String>,
    /// The queue that it stands in, where that is one of an earlier line of the host than the store is of: in a migrated store.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub earlier_table: Option<String>,
    /// The session that it waits for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// The same in base64, where it is no UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_id_b64: Option<String>,
    /// `user`, `synthetic`, `compaction`, `move`; 1.x knows `user` alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub r#type: Option<String>,
    /// `steer` or `queue`; absent for rows that have none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delivery: Option<String>,
    /// Its place in the session's sequence.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seq: Option<i64>,
    /// When it was admitted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_created: Option<String>,
    /// How long ago that was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub age_ms: Option<i64>,
    /// What it holds.
    pub payload: Payload,
    /// The next wake of the session takes it: of a host of the store's own line.
    pub next_wake: bool,
}

/// The table, and what its columns are called: payload, sequence, condition.
pub(super) struct Queue {
    pub(super) table: &'static str,
    pub(super) payload: &'static str,
    pub(super) seq: &'static str,
    pub(super) pending: &'static str,
}

const QUEUES: [Queue; 3] = [
    Queue { table: "session_inbox", payload: "payload", seq: "enqueued_seq", pending: "1" },
    Queue { table: "session_pending", payload: "data", seq: "admitted_seq", pending: "1" },
    Queue { table: "session_input", payload: "prompt", seq: "admitted_seq", pending: "promoted_seq is null" },
];

/// The queues of a store, that of its latest host first.
pub(super) fn queues(tables: &Tables) -> Result<Vec<&'static Queue>, Refusal> {
    tables.need(&TABLES, "queue of work that waits")?;
    let queues: Vec<&Queue> = QUEUES.iter().filter(|queue| tables.has(queue.table)).collect();
    // Those of before are looked up in those that came later.
    queues.iter().rev().skip(1).try_for_each(|later| tables.need_key(later.table))?;
    Ok(queues)
}

/// The tables that are queues.
pub const TABLES: [&str; 3] = ["session_inbox", "session_pending", "session_input"];

impl Queue {
    /// What of it waits; not what stands in a later queue under the same id, as in a migrated store.
    pub(super) fn waits(&self, tables: &Tables) -> String {
        let later = TABLES.iter().take_while(|table| **table != self.table).filter(|table| tables.has(table));
        let mut condition = self.pending.to_owned();
        for later in later {
            condition.push_str(&format!(" and not exists (select 1 from {later} l where l.id = {}.id)", self.table));
        }
        condition
    }
}

/// What decides how rows are told.
pub struct Telling<'t> {
    /// Key of the fingerprints.
    pub key: &'t FingerprintKey,
    /// The moment from which ages count, milliseconds since the epoch.
    pub now_ms: i64,
    /// Their text too.
    pub show_text: bool,
}

/// The statements for this store, one a queue, that of its latest host first.
///
/// # Errors
/// When it has no queue.
pub fn sql(tables: &Tables, one_session: bool, limit: Option<u64>) -> Result<Vec<(&'static str, String)>, Refusal> {
    Ok(queues(tables)?.into_iter().map(|queue| (queue.table, sql_of(tables, queue, one_session, limit))).collect())
}

fn sql_of(tables: &Tables, queue: &Queue, one_session: bool, limit: Option<u64>) -> String {
    let Queue { table, payload, seq, .. } = queue;
    let pending = queue.waits(tables);
    let kind = if tables.column(table, "type") { "type" } else { "'user'" };
    let session = if one_session { " and session_id = ?1" } else { "" };
    let limit = limit.map(|limit| format!(" limit {limit}")).unwrap_or_default();
    format!(
        "select id, session_id, {kind}, delivery, {seq}, time_created, octet_length({payload}), \
         case when octet_length({payload}) <= {CELL} then {payload} end \
         from {table} where {pending}{session} order by session_id, delivery desc, {seq}{limit}"
    )
}

/// Hands the rows over as lines of JSON, session by session, in promotion order.
///
/// # Errors
/// When there is no queue, or it cannot be read.
pub fn each<E: From<Refusal>>(
    conn: &mut Connection,
    tables: &Tables,
    telling: &Telling<'_>,
    session: Option<&str>,
    limit: Option<u64>,
    mut tell: impl FnMut(&[u8]) -> Result<(), E>,
) -> Result<(), E> {
    let mut left = limit.unwrap_or(0);
    let parameters: Vec<&(dyn rusqlite::ToSql + Sync)> = session.iter().map(|session| session as &(dyn rusqlite::ToSql + Sync)).collect();
    for (at, (table, sql)) in sql(tables, session.is_some(), limit)?.into_iter().enumerate() {
        let earlier = (at > 0).then_some(table);
        each_block(
            conn,
            &sql,
            &parameters,
            Some(1),
            |row, out| write(row, telling, earlier, out),
            |lines| {
                if limit.is_none() { tell(lines) } else { tell(first_lines(lines, &mut left)) }
            },
        )?;
    }
    Ok(())
}

/// Whether rows of this session wait, or waited.
///
/// # Errors
/// When the tables cannot be read.
pub fn knows(conn: &Connection, tables: &Tables, session: &str) -> Result<bool, Refusal> {
    for queue in queues(tables)? {
        let mut statement = conn.prepare(&format!("select 1 from {} where session_id = ?1", queue.table))?;
        if statement.query([session])?.next()?.is_some() {
            return Ok(true);
        }
    }
    Ok(false)
}

fn write(row: Row<'_>, telling: &Telling<'_>, earlier: Option<&str>, out: &mut Vec<u8>) {
    let mut object = Object::begin(out);
    if let Some(table) = earlier {
        object.word("earlier_table", table);
    }
    for (column, name) in ["id", "session_id", "type", "delivery"].into_iter().enumerate() {
        if let Some(bytes) = row.bytes(column) {
            object.bytes(name, bytes);
        }
    }
    if let Some(seq) = row.int(4) {
        object.number("seq", seq);
    }
    if let Some(time) = row.int(5) {
        object.time("time_created", time);
        object.number("age_ms", telling.now_ms.saturating_sub(time));
    }
    let mut payload = object.object("payload");
    let bytes = row.int(6).unwrap_or(0);
    let value = row.bytes(7).unwrap_or_default();
    payload.strings("keys", keys(value).into_iter());
    payload.number("bytes", bytes);
    if bytes > i64::from(CELL) {
        payload.word("not_read", TOO_LARGE);
    } else {
        if row.bytes(7).is_some() {
            payload.ascii_word("fingerprint", &telling.key.digits(value));
        }
        if telling.show_text {
            match text(value) {
                Some(text) => payload.content("text", text.as_bytes()),
                None => payload.content("text", value),
            }
        }
    }
    payload.end();
    let first = row.begins_group();
    object.flag(
        "next_wake",
        match row.bytes(3) {
            // What a host of a later line left behind in the queue of before, it does not look at.
            _ if earlier.is_some() => false,
            Some(b"steer") => true,
            Some(b"queue") => first,
            _ => false,
        },
    );
    object.end();
}

/// What is told of a payload over [`CELL`].
const TOO_LARGE: &str = "it is over 16 MiB";

/// The keys at the top of a payload that are plain words; a key of another kind is content.
fn keys(payload: &[u8]) -> Vec<&str> {
    const MANY: usize = 32;
    let mut keys = Vec::new();
    shape::members(payload, |key, _| {
        let word = key.len() <= 40 && key.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_' || *byte == b'-');
        if let (true, true, Ok(key)) = (word && !secret_shape(key), keys.len() < MANY, std::str::from_utf8(key)) {
            keys.push(key);
        }
    });
    keys
}

/// The text of a payload: its member `text`, or the payload itself where it is a string.
fn text(payload: &[u8]) -> Option<String> {
    let mut found = None;
    shape::members(payload, |key, value| {
        if key == b"text" {
            found = serde_json::from_slice(value).ok();
        }
    });
    found.or_else(|| serde_json::from_slice(payload).ok())
}

/// What the events of a session tell of a row of its queue.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Life {
    /// The row's id.
    pub id: String,
    /// Place of the event in which it was admitted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enqueued_seq: Option<i64>,
    /// Place of the event in which a wake took it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delivered_seq: Option<i64>,
    /// Place of the event in which it was taken back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cancelled_seq: Option<i64>,
}

/// The lives of a session's rows, pending or not, where the store keeps events; the last `most` of them.
///
/// # Errors
/// When the table cannot be read.
pub fn lives(conn: &Connection, tables: &Tables, session: &str, most: usize) -> Result<Vec<Life>, Refusal> {
    if !tables.has("event") {
        return Ok(Vec::new());
    }
    // 2.0.x: session.inbox.enqueued/delivered/cancelled.N with inboxID; 1.x and preview: session.input.admitted/promoted.N with inputID.
    let mut statement = conn.prepare(&format!(
        "select seq, type, case when octet_length(data) <= {CELL} then data end from event \
         where aggregate_id = ?1 and (type >= 'session.inbox.' and type < 'session.inbox/' or type >= 'session.input.' and type < 'session.input/') \
         order by seq"
    ))?;
    let mut rows = statement.query([session])?;
    let mut lives: Vec<Life> = Vec::new();
    while let Some(row) = rows.next()? {
        let (seq, kind) = (row.get::<_, i64>(0)?, row.get_ref(1)?.as_bytes_or_null().ok().flatten().unwrap_or_default().to_vec());
        let data = row.get_ref(2)?.as_bytes_or_null().ok().flatten().unwrap_or_default();
        let id = ["inboxID", "inputID", "id"].iter().find_map(|name| shape::plain_string(data, name));
        let Some(id) = id.and_then(|id| std::str::from_utf8(id).ok()) else { continue };
        let at = lives.iter().rposition(|life| life.id == id).unwrap_or_else(|| {
            // The last ones are wanted: what was told of the others is not looked through for each that follows.
            if lives.len() >= 2 * most {
                lives.drain(..most);
            }
            lives.push(Life { id: id.to_owned(), ..Life::default() });
            lives.len() - 1
        });
        let word = kind.rsplit(|byte| *byte == b'.').nth(1).unwrap_or_default();
        match word {
            b"enqueued" | b"admitted" => lives[at].enqueued_seq = Some(seq),
            b"delivered" | b"promoted" => lives[at].delivered_seq = Some(seq),
            b"cancelled" => lives[at].cancelled_seq = Some(seq),
            _ => {}
        }
    }
    if lives.len() > most {
        lives.drain(..lives.len() - most);
    }
    for life in &mut lives {
        life.id = super::text::told_text(life.id.as_bytes());
    }
    Ok(lives)
}
