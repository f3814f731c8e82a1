//! `db events`, `db schema`, and one value of `db kv`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::report::{Exit, Problem, Progress, Rows};
use crate::store::ReadAs;
use crate::store::events::{self, Summary};
use crate::store::kv;
use crate::store::schema::{self, Schema};
use crate::store::text::told_text;

use super::Store;

/// The answer of `db events`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Events {
    /// The store.
    pub store: String,
    /// How it was read.
    pub read_as: ReadAs,
    /// What the table holds.
    pub events: Summary,
}

impl Rows for Events {
    type Row = Events;
    const FIELD: Option<&'static str> = None;

    fn split(self) -> (Option<Self>, Vec<Events>) {
        (None, vec![self])
    }
}

/// The answer of `db schema`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Made {
    /// The store.
    pub store: String,
    /// How it was read.
    pub read_as: ReadAs,
    /// What it is made of.
    pub schema: Schema,
}

impl Rows for Made {
    type Row = Made;
    const FIELD: Option<&'static str> = None;

    fn split(self) -> (Option<Self>, Vec<Made>) {
        (None, vec![self])
    }
}

/// Events of a store.
///
/// # Errors
/// Why there is no answer.
pub fn events(store: &Store, last: u64, most: usize, progress: &Progress) -> Result<Events, Problem> {
    let answer = store.ask(progress, |opened, tables| Ok((opened.read_as, events::summary(&opened.conn, tables, last, most)?)));
    let (read_as, events) = answer.map_err(|refusal| store.problem(&refusal))?;
    Ok(Events { store: store.shown(), read_as: store.read_as(read_as), events })
}

/// What a store is made of; `sizes`: bytes too.
///
/// # Errors
/// Why there is no answer.
pub fn schema(store: &Store, sizes: bool, progress: &Progress) -> Result<Made, Problem> {
    let answer = store
        .ask(progress, |opened, tables| Ok((opened.read_as, schema::read(&opened.conn, tables, sizes, &|table| progress.doing(table))?)));
    let (read_as, schema) = answer.map_err(|refusal| store.problem(&refusal))?;
    Ok(Made { store: store.shown(), read_as: store.read_as(read_as), schema })
}

/// The value of one key, as it is.
///
/// # Errors
/// As [`host_key`].
pub fn value(store: &Store, key: &str, progress: &Progress) -> Result<Vec<u8>, Problem> {
    let raw = host_key(store, key, progress)?;
    let answer = store.ask(progress, |opened, tables| kv::value(&opened.conn, tables, &raw));
    answer.map_err(|refusal| store.problem(&refusal))?.ok_or_else(|| no_such_key(key))
}

/// A key as the host keeps it, from that or from what its plugin calls it, where one plugin alone does.
///
/// # Errors
/// When no row, or rows of several plugins, have this key.
pub fn host_key(store: &Store, key: &str, progress: &Progress) -> Result<String, Problem> {
    let answer = store.ask(progress, |opened, tables| {
        if kv::value(&opened.conn, tables, key)?.is_some() {
            return Ok(vec![key.to_owned()]);
        }
        let mut named = Vec::new();
        let mut statement = opened.conn.prepare("select key from kv")?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let raw = row.get_ref(0)?.as_bytes_or_null().ok().flatten().unwrap_or_default();
            if kv::Key::parse(raw).key == key.as_bytes() && named.len() < 10 {
                named.push(String::from_utf8_lossy(raw).into_owned());
            }
        }
        Ok(named)
    });
    let mut named = answer.map_err(|refusal| store.problem(&refusal))?;
    match named.len() {
        0 => Err(no_such_key(key)),
        1 => Ok(named.remove(0)),
        _ => {
            let named: Vec<String> = named.iter().map(|raw| told_text(raw.as_bytes())).collect();
            let problem = Problem::new(Exit::Usage, format!("several plugins have a key {key:?}; name one as the host keeps it"));
            Err(named.iter().fold(problem, |problem, raw| problem.hint(raw)))
        }
    }
}

fn no_such_key(key: &str) -> Problem {
    Problem::new(Exit::NotFound, format!("no row has the key {key:?}")).hint("See which there are: whoseenv db kv")
}

impl Store {
    /// How it was read: now, or when the snapshot was taken.
    pub fn read_as(&self, now: ReadAs) -> ReadAs {
        self.kept.as_ref().map_or(now, |kept| kept.read_as)
    }
}
