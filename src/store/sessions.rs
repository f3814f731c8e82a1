//! Sessions of every generation, as rows of one form, with what joins them: parents, children, and parents that are not there.
//!
//! OpenCode's `parent_id` has no foreign key: deleting a parent leaves the children, and their parent id names nothing. ZeroClaw's
//! sessions have no parents.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};

use rusqlite::{Connection, ToSql};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::rows::{Row, each_block};
use super::text::Object;
use super::turns::{Told, Turn};
use super::{Refusal, Tables};

/// A session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Session {
    /// Its id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The same in base64, where it is no UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id_b64: Option<String>,
    /// The table that it stands in.
    pub table: String,
    /// The session it was started from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent_id: Option<String>,
    /// The same in base64, where it is no UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent_id_b64: Option<String>,
    /// Its project.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub project_id: Option<String>,
    /// Where its tools run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub directory: Option<String>,
    /// The same in base64, where it is no UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub directory_b64: Option<String>,
    /// Characters of its title.
    pub title_len: u64,
    /// Its agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// Its model, as the host keeps it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// When it was made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_created: Option<String>,
    /// When it last changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_updated: Option<String>,
    /// When its last turn ended (2.0.x).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_idle: Option<String>,
    /// When it was put away.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_archived: Option<String>,
    /// When a turn began that has not ended: it runs, or its host ended in the middle.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_suspended: Option<String>,
    /// How its last turn ended: `succeeded`, `failed`, `interrupted` (2.0.x); `killed` (ZeroClaw).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outcome: Option<String>,
    /// A turn began and has not ended: it runs, or its host ended in the middle. Null where the store does not tell (1.x).
    pub suspended: Option<bool>,
    /// It has a parent id that names no session.
    pub orphan: bool,
    /// Sessions that name it as their parent.
    pub children: u64,
}

/// Which sessions.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// In this directory or below it.
    pub directory: Option<String>,
    /// Changed at this moment or later, milliseconds since the epoch.
    pub since_ms: Option<i64>,
    /// With this id.
    pub id: Option<String>,
    /// So many at most.
    pub limit: Option<u64>,
}

/// The tables with sessions, the one that its host uses first.
pub const TABLES: [&str; 4] = ["session_v2", "session", "acp_sessions", "session_metadata"];

/// The columns of a row, in order.
struct Columns {
    id: &'static str,
    list: [String; 13],
}

/// Places in a row: when the session last changed, what its events tell of a turn, and which table it stands in.
const UPDATED: usize = 8;
const TURN: usize = 13;
const TABLE: usize = 14;

fn columns(tables: &Tables, table: &'static str) -> Columns {
    let own = |column: &'static str| tables.or_null(table, column).to_owned();
    match table {
        "acp_sessions" => Columns {
            id: "session_uuid",
            list: [
                "session_uuid".to_owned(),
                "null".to_owned(),
                "null".to_owned(),
                own("workspace_dir"),
                "0".to_owned(),
                own("agent_alias"),
                "null".to_owned(),
                own("created_at"),
                own("last_activity"),
                "null".to_owned(),
                own("killed_at"),
                "null".to_owned(),
                format!("case when {} is not null then 'killed' end", own("killed_at")),
            ],
        },
        "session_metadata" => Columns {
            id: "session_key",
            list: [
                "session_key".to_owned(),
                "null".to_owned(),
                "null".to_owned(),
                "null".to_owned(),
                format!("length({})", own("name")),
                own("agent_alias"),
                "null".to_owned(),
                own("created_at"),
                own("last_activity"),
                "null".to_owned(),
                "null".to_owned(),
                format!("case when {} = 'running' then coalesce({}, last_activity) end", own("state"), own("turn_started_at")),
                "null".to_owned(),
            ],
        },
        _ => Columns {
            id: "id",
            list: [
                own("id"),
                own("parent_id"),
                own("project_id"),
                own("directory"),
                format!("length({})", own("title")),
                own("agent"),
                own("model"),
                own("time_created"),
                own("time_updated"),
                own("time_idle"),
                own("time_archived"),
                own("time_suspended"),
                own("idle_outcome"),
            ],
        },
    }
}

/// What leaves out the old sessions that a migrated store has twice.
pub(super) fn once(tables: &Tables, table: &str) -> Result<Option<&'static str>, Refusal> {
    if table != "session" || !tables.has("session_v2") {
        return Ok(None);
    }
    tables.need_key("session_v2")?;
    Ok(Some("not exists (select 1 from session_v2 where session_v2.id = session.id)"))
}

/// The statement for this store, over all its tables with sessions, and its parameters. A row's last column is the place of its table in
/// [`TABLES`].
///
/// # Errors
/// When it has no sessions.
fn sql(tables: &Tables, told: &[Told], filter: &Filter) -> Result<(String, Vec<Parameter>), Refusal> {
    tables.need(&TABLES, "sessions")?;
    let (mut selects, mut parameters) = (Vec::new(), Vec::new());
    for (place, table) in TABLES.into_iter().enumerate().filter(|(_, table)| tables.has(table)) {
        let Columns { id, list } = columns(tables, table);
        let mut conditions = Vec::new();
        let [_, _, _, directory, _, _, _, _, updated, ..] = &list;
        if let Some(wanted) = &filter.directory {
            let wanted = wanted.trim_end_matches('/');
            parameters.push(Parameter::Text(wanted.to_owned()));
            let at = parameters.len();
            conditions.push(format!("({directory} = ?{at} or substr({directory}, 1, {}) = ?{at} || '/')", wanted.chars().count() + 1));
        }
        if let Some(since) = filter.since_ms {
            // ZeroClaw writes RFC 3339 in UTC, which sorts as text.
            let text = matches!(table, "acp_sessions" | "session_metadata");
            parameters.push(if text { Parameter::Text(crate::host::machine::rfc3339(since)) } else { Parameter::Int(since) });
            conditions.push(format!("{updated} >= ?{}", parameters.len()));
        }
        if let Some(wanted) = &filter.id {
            parameters.push(Parameter::Text(wanted.clone()));
            conditions.push(format!("{id} = ?{}", parameters.len()));
        }
        conditions.extend(once(tables, table)?.map(str::to_owned));
        let conditions = if conditions.is_empty() { String::new() } else { format!(" where {}", conditions.join(" and ")) };
        let turn = told.get(place).copied().unwrap_or(Told::Not).column(&format!("{table}.{id}"));
        selects.push(format!("select {}, {turn}, {place} from {table}{conditions}", list.join(", ")));
    }
    let limit = filter.limit.map(|limit| format!(" limit {limit}")).unwrap_or_default();
    // A migrated store has two tables, one order and one limit; by number, for a union knows its columns by no other name.
    Ok((format!("{} order by {} desc, 1{limit}", selects.join(" union all "), UPDATED + 1), parameters))
}

/// Whether a session of this id is in one of the tables.
///
/// # Errors
/// When they cannot be read.
pub fn is_there(conn: &Connection, tables: &Tables, id: &str) -> Result<bool, Refusal> {
    for table in TABLES.into_iter().filter(|table| tables.has(table)) {
        let id_column = columns(tables, table).id;
        let mut statement = conn.prepare(&format!("select 1 from {table} where {id_column} = ?1"))?;
        if statement.query([id])?.next()?.is_some() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// A parameter of a statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Parameter {
    /// A text.
    Text(String),
    /// A number.
    Int(i64),
}

impl ToSql for Parameter {
    fn to_sql(&self) -> rusqlite::Result<rusqlite::types::ToSqlOutput<'_>> {
        match self {
            Parameter::Text(text) => text.to_sql(),
            Parameter::Int(number) => number.to_sql(),
        }
    }
}

/// Who is whose parent. Ids are kept as 64-bit hashes under a key of this run: 200,000 of them take a few megabytes.
#[derive(Debug, Default)]
pub struct Family {
    hasher: RandomState,
    there: HashSet<u64>,
    children: HashMap<u64, u64>,
}

impl Family {
    /// Reads the ids and parents of all sessions.
    ///
    /// # Errors
    /// When they cannot be read.
    pub fn read(conn: &Connection, tables: &Tables) -> Result<Family, Refusal> {
        let mut family = Family::default();
        for table in ["session", "session_v2"].into_iter().filter(|table| tables.has(table)) {
            // Whom nobody names has no children to count and is nobody's parent.
            let parents = |conn: &Connection, tell: &mut dyn FnMut(u64)| -> Result<(), Refusal> {
                if !tables.column(table, "parent_id") {
                    return Ok(());
                }
                let once = once(tables, table)?.map(|condition| format!(" and {condition}")).unwrap_or_default();
                let mut statement = conn.prepare(&format!("select parent_id from {table} where parent_id is not null{once}"))?;
                let mut rows = statement.query([])?;
                while let Some(row) = rows.next()? {
                    let parent = row.get_ref(0)?.as_bytes_or_null().ok().flatten().unwrap_or_default();
                    // To its host an empty text is no parent.
                    if !parent.is_empty() {
                        tell(family.hasher.hash_one(parent));
                    }
                }
                Ok(())
            };
            let mut named = Vec::new();
            parents(conn, &mut |hash| named.push(hash))?;
            for hash in named {
                *family.children.entry(hash).or_default() += 1;
            }
        }
        if family.children.is_empty() {
            return Ok(family);
        }
        for table in ["session", "session_v2"].into_iter().filter(|table| tables.has(table)) {
            let mut statement = conn.prepare(&format!("select id from {table}"))?;
            let mut rows = statement.query([])?;
            while let Some(row) = rows.next()? {
                let hash = family.hash(row.get_ref(0)?.as_bytes_or_null().ok().flatten().unwrap_or_default());
                if family.children.contains_key(&hash) {
                    family.there.insert(hash);
                }
            }
        }
        Ok(family)
    }

    fn hash(&self, id: &[u8]) -> u64 {
        self.hasher.hash_one(id)
    }

    /// Whether a session with this id, which somebody names as a parent, is there.
    pub fn has(&self, id: &[u8]) -> bool {
        self.there.contains(&self.hash(id))
    }

    /// How many sessions name this one as their parent.
    pub fn children(&self, id: &[u8]) -> u64 {
        self.children.get(&self.hash(id)).copied().unwrap_or(0)
    }

    /// How many parent ids name no session.
    pub fn dangling(&self) -> u64 {
        self.children.keys().filter(|hash| !self.there.contains(hash)).count() as u64
    }

    /// How many sessions have such a parent id.
    pub fn orphans(&self) -> u64 {
        self.children.iter().filter(|(hash, _)| !self.there.contains(hash)).map(|(_, count)| count).sum()
    }
}

/// Hands the rows over as lines of JSON, the last changed first.
///
/// # Errors
/// When there are no sessions in it, or they cannot be read.
pub fn each<E: From<Refusal>>(
    conn: &mut Connection,
    tables: &Tables,
    family: &Family,
    filter: &Filter,
    tell: impl FnMut(&[u8]) -> Result<(), E>,
) -> Result<(), E> {
    let told = TABLES.iter().map(|table| Told::of(conn, tables, table)).collect::<Result<Vec<_>, Refusal>>()?;
    let (sql, parameters) = sql(tables, &told, filter)?;
    let parameters: Vec<&(dyn ToSql + Sync)> = parameters.iter().map(|parameter| parameter as &(dyn ToSql + Sync)).collect();
    each_block(conn, &sql, &parameters, None, |row, out| write(row, &told, family, out), tell)
}

fn write(row: Row<'_>, told: &[Told], family: &Family, out: &mut Vec<u8>) {
    let id = row.bytes(0).unwrap_or_default();
    let place = row.int(TABLE).and_then(|place| usize::try_from(place).ok());
    let table = place.and_then(|place| TABLES.get(place)).copied().unwrap_or_default();
    let mut object = Object::begin(out);
    object.bytes("id", id);
    object.word("table", table);
    for (column, name) in [(1, "parent_id"), (2, "project_id"), (3, "directory")] {
        if let Some(bytes) = row.bytes(column) {
            object.bytes(name, bytes);
        }
    }
    object.number("title_len", row.int(4).unwrap_or(0));
    for (column, name) in [(5, "agent"), (6, "model")] {
        if let Some(bytes) = row.bytes(column) {
            object.bytes(name, bytes);
        }
    }
    for (column, name) in [(7, "time_created"), (8, "time_updated"), (9, "time_idle"), (10, "time_archived"), (11, "time_suspended")] {
        match (row.int(column), row.bytes(column)) {
            (Some(ms), _) => object.time(name, ms),
            (None, Some(text)) => object.bytes(name, text),
            (None, None) => {}
        }
    }
    if let Some(outcome) = row.bytes(12) {
        object.bytes("outcome", outcome);
    }
    let told = place.and_then(|place| told.get(place)).copied().unwrap_or(Told::Not);
    match told.turn(row.int(11).is_some() || row.bytes(11).is_some(), row.int(TURN)) {
        Turn::None => object.flag("suspended", false),
        Turn::Began { .. } => object.flag("suspended", true),
        Turn::Untold => object.null("suspended"),
    }
    object.flag("orphan", row.bytes(1).is_some_and(|parent| !parent.is_empty() && !family.has(parent)));
    // One that names itself has no child in itself.
    let own = u64::from(!id.is_empty() && row.bytes(1) == Some(id));
    object.number("children", i64::try_from(family.children(id).saturating_sub(own)).unwrap_or(i64::MAX));
    object.end();
}
