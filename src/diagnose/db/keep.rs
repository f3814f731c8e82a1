//! Stores in a snapshot: a consistent copy of each, with the columns that hold secrets blanked, and what lay beside it.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::agent::AgentProcess;
use crate::host::{Fact, Host, Raw, Unknown};
use crate::report::{Exit, Problem, Progress};
use crate::store::armour::{self, SECRETS};
use crate::store::audit::Integrity;
use crate::store::copy::PrivateCopy;
use crate::store::wal::Lost;
use crate::store::{Beside, Opened, ReadAs, Refusal};

use super::holders::{Holder, Holders};
use super::{Asked, Store, configs, find};

/// What a snapshot holds of a store.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Kept {
    /// Its path.
    pub path: Raw,
    /// Why it was looked at.
    pub why: String,
    /// The snapshot's file.
    name: String,
    /// How it was read when it was copied.
    pub read_as: ReadAs,
    /// What lay beside it.
    pub beside: Beside,
    /// Who had it open.
    pub holders: Vec<Holder>,
    /// Others may have had it open too.
    #[serde(default)]
    pub holders_unseen: bool,
    /// What was said of the base alone, which the copy does not have: it holds the WAL's pages.
    #[serde(default)]
    pub base: Option<Integrity>,
    /// What of the WAL was lost.
    #[serde(default)]
    pub lost: Option<Lost>,
    /// Where the copy is.
    #[serde(skip, default = "nowhere")]
    pub file: Fact<PathBuf>,
}

fn nowhere() -> Fact<PathBuf> {
    Err(Unknown::NotCaptured)
}

const FILE: &str = "stores.json";
const KEY: &str = "stores";

/// The stores that a snapshot holds.
///
/// # Errors
/// When it was taken without them.
pub fn list(host: &Host) -> Result<Vec<Kept>, Problem> {
    let kept: Vec<Kept> = host.fact(FILE, KEY, || Err(Unknown::NotCaptured)).map_err(|reason| {
        Problem::new(Exit::NotFound, format!("the snapshot holds no stores: {reason}"))
            .hint("Take one that does: whoseenv snapshot DIR --with-stores")
    })?;
    Ok(kept.into_iter().map(|kept| Kept { file: host.attached(&kept.name), ..kept }).collect())
}

/// Copies every store into what is recorded. The copies live as long as what is returned.
///
/// # Errors
/// When this host records nothing. A store that cannot be read is a note.
pub fn keep(host: &Host, processes: &[AgentProcess], notes: &mut Vec<String>, quiet: bool) -> Result<Vec<PrivateCopy>, Problem> {
    let Some(recorder) = host.recorder() else { return Ok(Vec::new()) };
    let holders = Holders::look(host, processes);
    let (mut copies, mut kept) = (Vec::new(), Vec::new());
    let progress = Progress::new("stores", None, quiet);
    for store in find(host, processes, &Asked { file: None, quiet })? {
        let name = format!("stores/{}.db", kept.len());
        match one(&store, &holders, &name, &progress) {
            Ok((copy, mut one)) => {
                // What an audit and `db kv` ask of the machine besides: configurations, directories, blackboards.
                let _ = configs::of(host, &store, &Progress::hidden());
                if let Ok((_, facts)) = super::audit::examined(host, &store, true) {
                    (one.base, one.lost) = (facts.base, facts.lost);
                }
                recorder.attach(&name, copy.path());
                copies.push(copy);
                kept.push(one);
            }
            Err(Refusal::Unknown(Unknown::Absent) | Refusal::Empty) => {}
            Err(refusal) => notes.push(format!("{}: {refusal}; the snapshot does not hold it", store.shown())),
        }
    }
    if !kept.is_empty() {
        notes.push("the stores in it hold what was said in sessions; columns of credentials are blank".to_owned());
    }
    let _ = host.fact(FILE, KEY, || Ok(kept));
    Ok(copies)
}

fn one(store: &Store, holders: &Holders, name: &str, progress: &Progress) -> Result<(PrivateCopy, Kept), Refusal> {
    use std::os::unix::ffi::OsStrExt;
    let real = store.real()?;
    let copy = PrivateCopy::empty()?;
    let (read_as, beside) = store.ask(progress, |opened, _| {
        let _ = std::fs::remove_file(copy.path());
        copied(opened, &copy)?;
        Ok((opened.read_as, opened.beside.clone()))
    })?;
    let holders_unseen = holders.hidden > 0;
    let holders = holders.of(real.as_os_str().as_bytes());
    let kept = Kept {
        path: store.path.clone(),
        why: store.why.clone(),
        name: name.to_owned(),
        read_as,
        beside,
        holders,
        holders_unseen,
        base: None,
        lost: None,
        file: nowhere(),
    };
    Ok((copy, kept))
}

fn copied(opened: &Opened, copy: &PrivateCopy) -> Result<(), Refusal> {
    let failed = |error: rusqlite::Error| Refusal::Copy(error.to_string());
    let mut target = rusqlite::Connection::open(copy.path()).map_err(failed)?;
    armour::watch(&mut target)?.allow(opened.bytes());
    rusqlite::backup::Backup::new(&opened.conn, &mut target)
        .and_then(|backup| backup.run_to_completion(i32::MAX, std::time::Duration::ZERO, None))
        .map_err(failed)?;
    // The secrets go, byte for byte: their length stays, so that no page moves. Nothing in the schema may run meanwhile.
    target.set_db_config(rusqlite::config::DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false).map_err(failed)?;
    target.set_db_config(rusqlite::config::DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false).map_err(failed)?;
    target.execute_batch("pragma journal_mode=delete; pragma secure_delete=on; pragma foreign_keys=off;").map_err(failed)?;
    let tables = crate::store::Tables::read(&target)?;
    for (table, column) in SECRETS.iter().filter(|(table, column)| tables.column(table, column)) {
        let blank = format!(
            "update {table} set {column} = substr(hex(zeroblob(octet_length({column}))), 1, octet_length({column})) where {column} is not null"
        );
        target.execute_batch(&blank)?;
    }
    Ok(())
}
