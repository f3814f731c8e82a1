//! `db info`: every store, what lies beside it, who holds it, and how it was read.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::host::machine::rfc3339;
use crate::host::{Host, Unknown};
use crate::report::{Progress, Report, Rows};
use crate::store::beside::is_network;
use crate::store::{Beside, Generation, Opened, ReadAs, Refusal, Tables, migrations};
use crate::verdict::registry::{self, Kind};
use crate::verdict::{Evidence, Finding, How, Outcome};

use super::holders::{Holder, Holders};
use super::{Asked, Store, find, processes};
use crate::report::Problem;

/// The answer of `db info`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Data {
    /// Every store that was found.
    pub stores: Vec<Info>,
}

impl Rows for Data {
    type Row = Info;
    const FIELD: Option<&'static str> = Some("stores");

    fn split(mut self) -> (Option<Self>, Vec<Info>) {
        let rows = std::mem::take(&mut self.stores);
        (Some(self), rows)
    }
}

/// A store.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Info {
    /// Its path; what is not UTF-8 in it replaced.
    pub path: String,
    /// The agent whose place it is in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// Why it was looked at.
    pub why: String,
    /// Which host wrote it.
    pub generation: Generation,
    /// It has the tables of 1.x beside those of 2.x.
    pub migrated: bool,
    /// How it was read; absent where it could not be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_as: Option<ReadAs>,
    /// Why it could not be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unreadable: Option<String>,
    /// What lies there.
    #[serde(flatten)]
    pub files: Files,
    /// Pages that hold nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub free_pages: Option<u64>,
    /// Pages.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pages: Option<u64>,
    /// Tables.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tables: Option<u64>,
    /// The last migrations that its host made, the last first.
    pub migrations: Vec<Migration>,
    /// Its migrations are kept in the journal of old versions of 1.x alone.
    pub legacy_journal_only: bool,
    /// Who has it open, as far as that can be seen from this account.
    pub holders: Vec<Holder>,
    /// Others may have it open too: the open files of some processes are hidden from this account.
    pub holders_unseen: bool,
}

/// What lies at a store's path and beside it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Files {
    /// Bytes of the database file.
    pub bytes: u64,
    /// Bytes of `-wal`; absent where there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wal_bytes: Option<u64>,
    /// `-shm` is there.
    pub shm: bool,
    /// Bytes of `-journal`; absent where there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub journal_bytes: Option<u64>,
    /// The journal holds a transaction that is not finished.
    pub hot_journal: bool,
    /// … and a live process is at it; absent where there is none, or that cannot be asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub journal_under_way: Option<bool>,
    /// Bytes of a page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub page_size: Option<u32>,
    /// `wal` or `rollback`: what the file's header tells.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub journal_mode: Option<String>,
    /// `none`, `full` or `incremental`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auto_vacuum: Option<String>,
    /// Kind of file system.
    pub file_system: String,
    /// The owner's uid.
    pub uid: u32,
}

/// A migration that a host made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Migration {
    /// Its id.
    pub id: String,
    /// When it was made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_completed: Option<String>,
}

impl Files {
    /// Of what was seen.
    pub fn of(beside: &Beside) -> Files {
        let header = beside.header;
        Files {
            bytes: beside.stamp.bytes,
            wal_bytes: beside.wal.map(|wal| wal.stamp.bytes),
            shm: beside.shm,
            journal_bytes: beside.journal.map(|journal| journal.stamp.bytes),
            hot_journal: beside.is_hot(),
            journal_under_way: beside.journal.and_then(|journal| journal.under_way),
            page_size: header.map(|header| header.page_size),
            journal_mode: header.map(|header| if header.wal { "wal" } else { "rollback" }.to_owned()),
            auto_vacuum: header.map(|header| {
                match (header.auto_vacuum, header.incremental) {
                    (false, _) => "none",
                    (true, false) => "full",
                    (true, true) => "incremental",
                }
                .to_owned()
            }),
            file_system: beside.file_system.clone(),
            uid: beside.uid,
        }
    }
}

/// Every store that was asked for.
///
/// # Errors
/// When the one that was named cannot be looked at.
pub fn info(host: &Host, asked: &Asked) -> Result<Report<Data>, Problem> {
    let processes = processes(host);
    let stores = find(host, &processes, asked)?;
    let holders = if host.is_captured() { Holders::default() } else { Holders::look(host, &processes) };
    let mut report = Report::new("db-info", Data { stores: Vec::new() });
    for store in stores {
        match of(&store, &holders, &Progress::new("db info", None, asked.quiet)) {
            Ok((info, _)) => {
                report.findings.extend(findings(host, &info));
                report.data.stores.push(info);
            }
            // Somebody's place, and nothing there.
            Err(Refusal::Unknown(Unknown::Absent)) if asked.file.is_none() => {}
            Err(refusal) if asked.file.is_none() => report.notes.push(format!("{}: {refusal}", store.shown())),
            Err(refusal) => return Err(store.problem(&refusal)),
        }
    }
    if asked.file.is_some() {
        report.undetermined = report.data.stores.iter().any(|info| info.unreadable.is_some());
    }
    if holders.hidden > 0 {
        report.notes.push(format!("the open files of {} processes may not be seen from this account; root can", holders.hidden));
    }
    Ok(report)
}

/// What can be told of one store, and why not all could.
///
/// # Errors
/// When not even its file can be looked at.
pub fn of(store: &Store, holders: &Holders, progress: &Progress) -> Result<(Info, Option<Refusal>), Refusal> {
    use std::os::unix::ffi::OsStrExt;
    let real = store.real()?;
    let beside = match &store.kept {
        Some(kept) => kept.beside.clone(),
        None => Beside::look(&real)?,
    };
    let mut info = Info {
        path: store.shown(),
        agent: store.agent.map(str::to_owned),
        why: store.why.clone(),
        generation: Generation::Unknown,
        migrated: false,
        read_as: None,
        unreadable: None,
        files: Files::of(&beside),
        free_pages: None,
        pages: None,
        tables: None,
        migrations: Vec::new(),
        legacy_journal_only: false,
        holders: match &store.kept {
            Some(kept) => kept.holders.clone(),
            None => holders.of(real.as_os_str().as_bytes()),
        },
        holders_unseen: store.kept.as_ref().map_or(holders.hidden > 0, |kept| kept.holders_unseen),
    };
    let mut why = None;
    match store.ask(progress, |opened, tables| fill(&mut info, opened, tables)) {
        Ok(()) => {}
        Err(Refusal::Interrupted) => return Err(Refusal::Interrupted),
        Err(refusal @ Refusal::Unknown(_)) => return Err(refusal),
        Err(refusal) => {
            info.unreadable = Some(refusal.to_string());
            why = Some(refusal);
        }
    }
    if let Some(kept) = &store.kept {
        info.read_as = Some(kept.read_as);
    }
    Ok((info, why))
}

fn fill(info: &mut Info, opened: &mut Opened, tables: &Tables) -> Result<(), Refusal> {
    let pragma = |name: &str| opened.conn.query_row(&format!("pragma {name}"), [], |row| row.get::<_, i64>(0));
    info.generation = tables.generation();
    info.migrated = tables.is_migrated();
    info.read_as = Some(opened.read_as);
    info.pages = Some(pragma("page_count")?.unsigned_abs());
    info.free_pages = Some(pragma("freelist_count")?.unsigned_abs());
    info.tables = Some(tables.count);
    info.legacy_journal_only = migrations::is_legacy(tables);
    let made = migrations::last(&opened.conn, tables, 3)?.into_iter();
    info.migrations = made.map(|(id, completed)| Migration { id, time_completed: completed.map(rfc3339) }).collect();
    Ok(())
}

/// A WAL over this many bytes is one whose checkpoints do not come to their end.
const LARGE_WAL: u64 = 64 << 20;

/// What is wrong with a store from the outside.
pub fn findings(host: &Host, info: &Info) -> Vec<Finding> {
    let mut found = Vec::new();
    let mut told = |kind: &'static Kind, outcome: Outcome, message: String, detail: String, fix: Option<&str>| {
        let evidence = Evidence { source: info.path.clone(), how: How::Passive, at: host.machine().taken_at(), detail };
        found.push(Finding::new(kind, outcome, &info.path, message).evidence([evidence]).fix(fix.map(str::to_owned)));
    };
    let files = &info.files;
    // One that a live process is at is no more than a transaction; without locks to ask, it may be one.
    if files.hot_journal && files.journal_under_way != Some(true) {
        let message = "a transaction in its journal was never finished; its rows are not shown".to_owned();
        let (outcome, who) = match files.journal_under_way {
            Some(_) => (Outcome::Confirmed, "nobody holds the lock of a writer"),
            None => (Outcome::Undetermined, "whether somebody writes cannot be asked"),
        };
        told(
            &registry::STORE_HOT_JOURNAL,
            outcome,
            message,
            format!("-journal: {}; {who}", super::counted(files.journal_bytes.unwrap_or(0), "byte", "bytes")),
            None,
        );
    }
    let mut tell =
        |kind: &'static Kind, message: String, detail: String, fix: Option<&str>| told(kind, Outcome::Confirmed, message, detail, fix);
    if is_network(&files.file_system) && files.journal_mode.as_deref() == Some("wal") {
        let message = format!("it is in WAL mode on {}, where its shared memory does not hold", files.file_system);
        tell(
            &registry::STORE_ON_NETWORK,
            message,
            format!("file system {}, journal mode wal", files.file_system),
            Some("keep it on a local file system: XDG_DATA_HOME, or OPENCODE_DB, for the daemon"),
        );
    }
    if let Some(bytes) = files.wal_bytes.filter(|bytes| *bytes > LARGE_WAL) {
        let message = format!("its WAL has {bytes} bytes: no checkpoint has come to its end for long");
        tell(
            &registry::STORE_WAL_LARGE,
            message,
            format!("-wal: {bytes} bytes"),
            Some("end whoever reads it for long, or restart the daemon that holds it"),
        );
    }
    if let (Some("rollback"), Some(_)) = (files.journal_mode.as_deref(), info.generation.age()) {
        let message = "it is not in WAL mode, as its host puts it: writers and readers wait for each other".to_owned();
        tell(&registry::STORE_ROLLBACK_JOURNAL, message, "header: rollback journal".to_owned(), None);
    }
    if info.legacy_journal_only {
        let message = "its migrations are kept in __drizzle_migrations alone: a current host will migrate it at its next start".to_owned();
        tell(&registry::STORE_LEGACY_JOURNAL, message, "table __drizzle_migrations, no table migration".to_owned(), None);
    }
    for holder in &info.holders {
        use crate::agent::Generation as Line;
        let line = holder.generation.map(|line| match line {
            Line::V1 => 1,
            Line::Preview => 2,
            Line::V2 => 4,
        });
        if let (Some(line), Some(age)) = (line, info.generation.age())
            && line < age
        {
            let version = holder.version.as_deref().unwrap_or("of an earlier line");
            let message = format!("it is {}'s, and the daemon that holds it (pid {}) is {version}", info.generation.name(), holder.pid);
            tell(
                &registry::STORE_NEWER_THAN_DAEMON,
                message,
                format!("pid {} has it open", holder.pid),
                Some("restart the daemon from the program that made this store"),
            );
        }
    }
    found
}
