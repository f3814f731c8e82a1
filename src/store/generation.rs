//! Which host wrote a store: by the tables that are in it, never by its name.

use std::collections::BTreeMap;

use rusqlite::Connection;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Refusal;

/// Which host, and which line of it, wrote a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Generation {
    /// OpenCode 1.x (1.18.34): `session_input`, no `kv`.
    V1,
    /// OpenCode 2.0 preview (next-16350): `session`, `session_pending`, `kv`.
    Preview,
    /// OpenCode 2 of August: `session_v2`, `session_pending`.
    V2August,
    /// OpenCode 2.0.x: `session_v2`, `session_inbox`.
    V2,
    /// ZeroClaw's chats: `session_metadata`, `sessions`.
    ZeroclawSessions,
    /// ZeroClaw's ACP sessions: `acp_sessions`.
    ZeroclawAcp,
    /// ZeroClaw's control plane: `tasks` with owners.
    ZeroclawControl,
    /// None of these.
    Unknown,
}

impl Generation {
    /// Every generation.
    pub const ALL: [Generation; 8] = [
        Generation::V1,
        Generation::Preview,
        Generation::V2August,
        Generation::V2,
        Generation::ZeroclawSessions,
        Generation::ZeroclawAcp,
        Generation::ZeroclawControl,
        Generation::Unknown,
    ];

    /// The word used in JSON.
    pub fn word(self) -> &'static str {
        match self {
            Generation::V1 => "v1",
            Generation::Preview => "preview",
            Generation::V2August => "v2_august",
            Generation::V2 => "v2",
            Generation::ZeroclawSessions => "zeroclaw_sessions",
            Generation::ZeroclawAcp => "zeroclaw_acp",
            Generation::ZeroclawControl => "zeroclaw_control",
            Generation::Unknown => "unknown",
        }
    }

    /// As a sentence names it.
    pub fn name(self) -> &'static str {
        match self {
            Generation::V1 => "OpenCode 1.x",
            Generation::Preview => "OpenCode 2.0 preview",
            Generation::V2August => "OpenCode 2 (August)",
            Generation::V2 => "OpenCode 2.x",
            Generation::ZeroclawSessions => "ZeroClaw chats",
            Generation::ZeroclawAcp => "ZeroClaw ACP sessions",
            Generation::ZeroclawControl => "ZeroClaw control plane",
            Generation::Unknown => "unknown",
        }
    }

    /// Which of two OpenCode stores is the later one; nothing for other hosts'.
    pub fn age(self) -> Option<u8> {
        match self {
            Generation::V1 => Some(1),
            Generation::Preview => Some(2),
            Generation::V2August => Some(3),
            Generation::V2 => Some(4),
            _ => None,
        }
    }
}

/// The real tables of a store, and what only has the name of one.
#[derive(Clone, Debug, Default)]
pub struct Tables {
    /// Tables with their columns, as far as any question needs them: those with names of ours.
    known: BTreeMap<String, Vec<String>>,
    /// Views and virtual tables that carry a name of ours: never read.
    pub disguised: Vec<String>,
    /// Tables with a column that is computed when it is read, ours or not.
    pub computed: Vec<String>,
    /// Indices that begin with a column: (table, column).
    indexed: Vec<(String, String)>,
    /// How many tables there are.
    pub count: u64,
}

/// Every table that a question is about.
pub const NAMES: &[&str] = &[
    "session",
    "session_v2",
    "session_input",
    "session_pending",
    "session_inbox",
    "session_message",
    "message",
    "part",
    "kv",
    "event",
    "event_sequence",
    "migration",
    "data_migration",
    "__drizzle_migrations",
    "credential",
    "account",
    "control_account",
    "session_share",
    "project",
    "project_directory",
    "worktree",
    "todo",
    "sessions",
    "session_metadata",
    "acp_sessions",
    "tasks",
    "instruction_entry",
];

impl Tables {
    /// Reads the list of tables.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn read(conn: &Connection) -> Result<Tables, Refusal> {
        let mut tables = Tables::default();
        let mut list = conn.prepare("select type, name, rootpage, sql from sqlite_schema where type in ('table','view')")?;
        let mut rows = list.query([])?;
        let mut names = Vec::new();
        while let Some(row) = rows.next()? {
            let text = |index| {
                row.get_ref(index).ok().and_then(|value| value.as_str_or_null().ok().flatten().map(str::to_owned)).unwrap_or_default()
            };
            let (kind, name, root) = (text(0), text(1), row.get::<_, Option<i64>>(2).ok().flatten().unwrap_or(0));
            tables.count += u64::from(kind == "table");
            let ours = NAMES.contains(&name.as_str());
            // A virtual table has no page of its own: reading it would run its module.
            if kind == "table" && root > 0 {
                // Without the word no column is computed.
                if ours || text(3).as_bytes().windows(2).any(|word| word.eq_ignore_ascii_case(b"as")) {
                    names.push((name, ours));
                }
            } else if ours {
                tables.disguised.push(name);
            }
        }
        for (name, ours) in names {
            let (mut columns, mut computed) = (Vec::new(), false);
            let mut list = conn.prepare(&format!("pragma table_xinfo(\"{}\")", name.replace('"', "\"\"")))?;
            let mut rows = list.query([])?;
            while let Some(row) = rows.next()? {
                computed |= row.get::<_, i64>(6)? > 1;
                columns.push(row.get::<_, String>(1)?);
            }
            // No host has one, and to read it, or to check the table, is to compute it row by row: without end.
            if computed {
                tables.computed.push(name);
            } else if ours {
                tables.known.insert(name, columns);
            }
        }
        for table in ["session", "session_v2", "session_inbox", "session_pending", "event"] {
            if tables.has(table) {
                tables.read_indices(conn, table)?;
            }
        }
        Ok(tables)
    }

    fn read_indices(&mut self, conn: &Connection, table: &str) -> Result<(), Refusal> {
        let mut list = conn.prepare(&format!("pragma index_list(\"{table}\")"))?;
        let names: Vec<String> = list.query_map([], |row| row.get(1))?.collect::<Result<_, _>>()?;
        for name in names {
            let mut info = conn.prepare(&format!("pragma index_info(\"{}\")", name.replace('"', "\"\"")))?;
            let first: Option<String> = info.query_map([], |row| row.get::<_, Option<String>>(2))?.next().transpose()?.flatten();
            if let Some(column) = first {
                self.indexed.push((table.to_owned(), column));
            }
        }
        Ok(())
    }

    /// Whether it is a real table of the store.
    pub fn has(&self, table: &str) -> bool {
        self.known.contains_key(table)
    }

    /// Whether a table has this column.
    pub fn column(&self, table: &str, column: &str) -> bool {
        self.known.get(table).is_some_and(|columns| columns.iter().any(|name| name == column))
    }

    /// Whether an index of the table begins with this column.
    pub fn is_indexed(&self, table: &str, column: &str) -> bool {
        self.indexed.iter().any(|(t, c)| t == table && c == column)
    }

    /// The column, or SQL's null where the table has none of that name.
    pub fn or_null<'c>(&self, table: &str, column: &'c str) -> &'c str {
        if self.column(table, column) { column } else { "null" }
    }

    /// Which host wrote it.
    pub fn generation(&self) -> Generation {
        let has = |table| self.has(table);
        match () {
            () if has("session_inbox") => Generation::V2,
            () if has("session_v2") => Generation::V2August,
            () if has("session") && (has("session_pending") || has("kv")) => Generation::Preview,
            () if has("session") && (has("session_input") || has("message")) => Generation::V1,
            () if has("acp_sessions") => Generation::ZeroclawAcp,
            () if has("session_metadata") => Generation::ZeroclawSessions,
            () if has("tasks") && self.column("tasks", "owner_boot_id") => Generation::ZeroclawControl,
            () => Generation::Unknown,
        }
    }

    /// A migrated store keeps the tables of 1.x beside those of 2.x.
    pub fn is_migrated(&self) -> bool {
        self.has("session_v2") && self.has("session")
    }

    /// That ids can be looked up in a table of sessions or of a queue: one by one through it for each of a million rows is without end.
    ///
    /// # Errors
    /// [`Refusal::Hostile`], with the table.
    pub fn need_key(&self, table: &str) -> Result<(), Refusal> {
        if !self.has(table) || self.is_indexed(table, "id") {
            return Ok(());
        }
        Err(Refusal::Hostile(format!("table {table} has no key on id, as every host's has")))
    }

    /// That no table computes anything: for a question that goes over all of them.
    ///
    /// # Errors
    /// [`Refusal::Hostile`], with the table.
    pub fn compute_nothing(&self) -> Result<(), Refusal> {
        self.computed.first().map_or(Ok(()), |table| Err(computes(table)))
    }

    /// The table that has to be there for an answer.
    ///
    /// # Errors
    /// [`Refusal::NoTable`], with what this store is.
    pub fn need(&self, any_of: &[&'static str], what: &str) -> Result<&'static str, Refusal> {
        if let Some(table) = any_of.iter().find(|table| self.has(table)) {
            return Ok(table);
        }
        if let Some(name) = self.computed.iter().find(|name| any_of.contains(&name.as_str())) {
            return Err(computes(name));
        }
        if let Some(name) = self.disguised.iter().find(|name| any_of.contains(&name.as_str())) {
            return Err(Refusal::Hostile(format!(
                "{name} is a view or a virtual table, which no host makes; reading it would run something"
            )));
        }
        Err(Refusal::NoTable(format!("this store ({}) has no {what}", self.generation().name())))
    }
}

fn computes(table: &str) -> Refusal {
    let table = super::text::told_text(table.as_bytes());
    Refusal::Hostile(format!("table {table} has a computed column, which no host makes; reading it would run something"))
}
