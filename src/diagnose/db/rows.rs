//! `db sessions`, `db inbox` and `db kv`: rows, told while they are read or collected.

use std::io;

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::agent::plugins::Configured;
use crate::redact::FingerprintKey;
use crate::report::{Problem, Progress, Report, Rows};
use crate::store::inbox::{self, Life, Pending};
use crate::store::kv::{self, Entry};
use crate::store::sessions::{self, Family, Filter, Session};
use crate::store::text::told_text;
use crate::store::{Opened, ReadAs, Refusal, Tables};

use super::Store;

mod stream;

pub use stream::stream;

/// A question whose answer is rows.
#[derive(Clone, Debug)]
pub enum Question {
    /// Sessions.
    Sessions(Filter),
    /// Work that waits.
    Inbox {
        /// For this session alone.
        session: Option<String>,
        /// Its text too.
        show_text: bool,
        /// So many at most.
        limit: Option<u64>,
    },
    /// Plugin storage.
    Kv {
        /// The row of this key alone, with its value.
        one: Option<String>,
        /// So many at most.
        limit: Option<u64>,
    },
}

impl Question {
    /// Whether a store could answer it.
    pub fn fits(&self, tables: &Tables) -> bool {
        match self {
            Question::Sessions(_) => sessions::TABLES.iter().any(|table| tables.has(table)),
            Question::Inbox { .. } => inbox::TABLES.iter().any(|table| tables.has(table)),
            Question::Kv { .. } => tables.has("kv"),
        }
    }
}

/// What decides how rows are told.
pub struct Telling<'t> {
    /// Key of the fingerprints.
    pub key: &'t FingerprintKey,
    /// The moment from which ages count.
    pub now_ms: i64,
    /// Which plugins are configured.
    pub configured: &'t Configured,
}

/// The answer of `db sessions`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Sessions {
    /// The store.
    pub store: String,
    /// How it was read.
    pub read_as: ReadAs,
    /// The last changed first.
    pub sessions: Vec<Session>,
    /// Sessions of the whole store whose parent id names no session.
    pub orphans: u64,
    /// Parent ids that name no session.
    pub dangling_parents: u64,
    /// The forest, line by line (`--tree`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tree: Option<Vec<Node>>,
}

impl Rows for Sessions {
    type Row = Session;
    const FIELD: Option<&'static str> = Some("sessions");

    fn split(mut self) -> (Option<Self>, Vec<Session>) {
        let rows = std::mem::take(&mut self.sessions);
        (Some(self), rows)
    }
}

/// A line of the forest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Node {
    /// Place of the session in `sessions`.
    pub session: usize,
    /// How deep it stands.
    pub depth: usize,
    /// It is its own ancestor: its parents lead back to it.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub circle: bool,
}

/// The answer of `db inbox`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Inbox {
    /// The store.
    pub store: String,
    /// How it was read.
    pub read_as: ReadAs,
    /// Who could have written a row.
    pub author: String,
    /// Rows, session by session, in promotion order.
    pub rows: Vec<Pending>,
    /// What events tell of the session's rows, pending or not; for one session alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lives: Option<Vec<Life>>,
}

impl Rows for Inbox {
    type Row = Pending;
    const FIELD: Option<&'static str> = Some("rows");

    fn split(mut self) -> (Option<Self>, Vec<Pending>) {
        let rows = std::mem::take(&mut self.rows);
        (Some(self), rows)
    }
}

/// The answer of `db kv`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Kv {
    /// The store.
    pub store: String,
    /// How it was read.
    pub read_as: ReadAs,
    /// Rows, in order of the key.
    pub entries: Vec<Entry>,
    /// Config files that were read to tell which plugins are configured.
    pub configs: Vec<String>,
    /// What stood in the way of telling that a plugin is not.
    pub configs_unknown: Vec<String>,
}

impl Rows for Kv {
    type Row = Entry;
    const FIELD: Option<&'static str> = Some("entries");

    fn split(mut self) -> (Option<Self>, Vec<Entry>) {
        let rows = std::mem::take(&mut self.entries);
        (Some(self), rows)
    }
}

/// Why rows ended early: the store, or whoever takes them.
#[derive(Debug)]
enum End {
    Store(Refusal),
    Output(io::Error),
}

impl From<Refusal> for End {
    fn from(refusal: Refusal) -> End {
        End::Store(refusal)
    }
}

fn each(
    opened: &mut Opened,
    tables: &Tables,
    question: &Question,
    telling: &Telling<'_>,
    progress: &Progress,
    tell: &mut dyn FnMut(&[u8]) -> io::Result<()>,
) -> Result<(), End> {
    let mut told = 0;
    let tell = |lines: &[u8]| {
        if crate::host::interrupt::came().is_some() {
            return Err(End::Store(Refusal::Interrupted));
        }
        told += lines.len() as u64;
        progress.reached(told);
        tell(lines).map_err(End::Output)
    };
    let Telling { key, now_ms, configured } = telling;
    match question {
        Question::Sessions(filter) => {
            if let Some(id) = &filter.id
                && !sessions::is_there(&opened.conn, tables, id)?
            {
                tables.need(&sessions::TABLES, "sessions")?;
                return Err(End::Store(Refusal::NoSession(id.clone())));
            }
            let family = Family::read(&opened.conn, tables)?;
            sessions::each(&mut opened.conn, tables, &family, filter, tell)
        }
        Question::Inbox { session, show_text, limit } => {
            if let Some(id) = session
                && !inbox::knows(&opened.conn, tables, id)?
                && !sessions::is_there(&opened.conn, tables, id)?
            {
                return Err(End::Store(Refusal::NoSession(id.clone())));
            }
            let telling = inbox::Telling { key, now_ms: *now_ms, show_text: *show_text };
            inbox::each(&mut opened.conn, tables, &telling, session.as_deref(), *limit, tell)
        }
        Question::Kv { one, limit } => {
            let word = |plugin: &str| configured.word(plugin);
            kv::each(&mut opened.conn, tables, &kv::Telling { key, now_ms: *now_ms, configured: &word }, one.as_deref(), *limit, tell)
        }
    }
}

/// Rows of one form, and the rest of what is asked of the same moment.
fn collect<T: DeserializeOwned, R>(
    store: &Store,
    question: &Question,
    telling: &Telling<'_>,
    progress: &Progress,
    rest: impl Fn(&Opened, &Tables) -> Result<R, Refusal>,
) -> Result<(Vec<T>, ReadAs, R), Problem> {
    let answer = store.ask(progress, |opened, tables| {
        let mut rows = Vec::new();
        let read = each(opened, tables, question, telling, progress, &mut |lines| {
            for line in lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
                rows.push(serde_json::from_slice(line)?);
            }
            Ok(())
        });
        match read {
            Ok(()) => Ok((rows, opened.read_as, rest(opened, tables)?)),
            Err(End::Store(refusal)) => Err(refusal),
            Err(End::Output(error)) => Err(Refusal::Io(error.to_string())),
        }
    });
    let (rows, read_as, rest) = answer.map_err(|refusal| store.problem(&refusal))?;
    Ok((rows, store.kept.as_ref().map_or(read_as, |kept| kept.read_as), rest))
}

/// Sessions, and what joins them.
///
/// # Errors
/// Why there is no answer.
pub fn sessions(
    store: &Store,
    filter: &Filter,
    telling: &Telling<'_>,
    tree: bool,
    progress: &Progress,
) -> Result<Report<Sessions>, Problem> {
    let question = Question::Sessions(filter.clone());
    let counts = |opened: &Opened, tables: &Tables| Family::read(&opened.conn, tables).map(|family| (family.orphans(), family.dangling()));
    let (sessions, read_as, (orphans, dangling_parents)) = collect::<Session, _>(store, &question, telling, progress, counts)?;
    let tree = tree.then(|| forest(&sessions));
    let untold = sessions.iter().filter(|session| session.suspended.is_none()).count() as u64;
    let mut report = Report::new("db-sessions", Sessions { store: store.shown(), read_as, sessions, orphans, dangling_parents, tree });
    report.notes.extend((untold > 0).then(|| super::audit::not_told(untold)));
    Ok(report)
}

/// Sessions as a forest: children below their parents, in the order they came; what has no parent among them is a root, and so is
/// the first of each circle.
fn forest(sessions: &[Session]) -> Vec<Node> {
    let mut children: std::collections::HashMap<&str, Vec<usize>> = std::collections::HashMap::new();
    let ids: std::collections::HashMap<&str, usize> =
        sessions.iter().enumerate().filter_map(|(at, session)| Some((session.id.as_deref()?, at))).collect();
    let parents: Vec<Option<usize>> =
        sessions.iter().map(|session| session.parent_id.as_deref().and_then(|parent| ids.get(parent).copied())).collect();
    let circle = circles(&parents);
    let mut roots = Vec::new();
    for (at, session) in sessions.iter().enumerate() {
        match session.parent_id.as_deref().filter(|parent| ids.contains_key(parent)) {
            Some(parent) => children.entry(parent).or_default().push(at),
            None => roots.push(at),
        }
    }
    let mut seen = vec![false; sessions.len()];
    let mut lines = Vec::with_capacity(sessions.len());
    let of_circles = (0..sessions.len()).filter(|at| circle[*at]);
    // What stands nowhere else comes last: two sessions of one id.
    for root in roots.into_iter().chain(of_circles).chain(0..sessions.len()) {
        let mut open = vec![Node { session: root, depth: 0, circle: circle[root] }];
        while let Some(node) = open.pop() {
            if std::mem::replace(&mut seen[node.session], true) {
                continue;
            }
            let below = sessions[node.session].id.as_deref().and_then(|id| children.get(id));
            open.extend(below.into_iter().flatten().rev().map(|child| Node {
                session: *child,
                depth: node.depth + 1,
                circle: circle[*child],
            }));
            lines.push(node);
        }
    }
    lines
}

/// Which of some are their own ancestors.
fn circles(parents: &[Option<usize>]) -> Vec<bool> {
    let (mut walked, mut circle) = (vec![None; parents.len()], vec![false; parents.len()]);
    for start in 0..parents.len() {
        let mut at = Some(start);
        while let Some(here) = at {
            match walked[here].replace(start) {
                None => at = parents[here],
                Some(earlier) => {
                    // Back where this walk has been: what lies between is a circle.
                    let mut around = Some(here).filter(|_| earlier == start);
                    while let Some(member) = around.filter(|member| !circle[*member]) {
                        circle[member] = true;
                        around = parents[member];
                    }
                    break;
                }
            }
        }
    }
    circle
}

/// Work that waits.
///
/// # Errors
/// Why there is no answer.
pub fn inbox(
    store: &Store,
    session: Option<&str>,
    show_text: bool,
    limit: Option<u64>,
    telling: &Telling<'_>,
    progress: &Progress,
) -> Result<Inbox, Problem> {
    let question = Question::Inbox { session: session.map(str::to_owned), show_text, limit };
    let lives = |opened: &Opened, tables: &Tables| session.map(|session| inbox::lives(&opened.conn, tables, session, 1000)).transpose();
    let (rows, read_as, lives) = collect(store, &question, telling, progress, lives)?;
    Ok(Inbox { store: store.shown(), read_as, author: inbox::AUTHOR.to_owned(), rows, lives })
}

/// Plugin storage.
///
/// # Errors
/// Why there is no answer.
pub fn kv(store: &Store, question: &Question, telling: &Telling<'_>, progress: &Progress) -> Result<Kv, Problem> {
    let (entries, read_as, ()) = collect(store, question, telling, progress, |_, _| Ok(()))?;
    // Some lie in the directories of sessions, whose names are the store's.
    let told = |places: &[String]| places.iter().map(|place| told_text(place.as_bytes())).collect();
    let (configs, configs_unknown) = (told(&telling.configured.read), told(&telling.configured.unknown));
    Ok(Kv { store: store.shown(), read_as, entries, configs, configs_unknown })
}
