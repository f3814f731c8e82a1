//! `db audit`: what is wrong with a store, from itself, from the processes that hold it, and from the files it names.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::agent::plugins::Configured;
use crate::diagnose::binaries::inventory::Binary;
use crate::host::Host;
use crate::report::{Problem, Progress, Report, Rows};
use crate::store::audit::{self, Facts, Integrity};
use crate::store::{Opened, ReadAs, Refusal, Tables, open};
use crate::verdict::registry;

use super::holders::Holders;
use super::info::{self, Info};
use super::{Store, configs, counted};
use teller::Teller;

mod content;
mod teller;

/// The answer of `db audit`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Data {
    /// The store, from the outside.
    pub store: Info,
    /// Base and WAL together: `whole`, `damaged`, `unknown`.
    pub integrity: String,
    /// The base alone; absent where there is no WAL to speak of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base_integrity: Option<String>,
    /// Sessions.
    pub sessions: u64,
    /// Sessions with a parent id that names nothing.
    pub orphans: u64,
    /// Sessions that are their own ancestors.
    pub circular: u64,
    /// Sessions in the middle of a turn; absent where the store tells it of none of its sessions (1.x).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub suspended: Option<u64>,
    /// Sessions of which the store does not tell whether a turn runs.
    pub suspended_unknown: u64,
    /// Rows in queues.
    pub pending: u64,
    /// Rows of plugins in `kv`.
    pub plugin_rows: u64,
    /// Events; absent where there is no table for them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub events: Option<u64>,
    /// Bytes of the events.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub event_bytes: Option<u64>,
    /// Those bytes were estimated from a sample.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub event_bytes_estimated: Option<bool>,
    /// Every OpenCode and ZeroClaw program that was found, with what it lacks of this store; with `--binaries` alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub binaries: Option<Vec<Binary>>,
}

impl Rows for Data {
    type Row = Data;
    const FIELD: Option<&'static str> = None;

    fn split(self) -> (Option<Self>, Vec<Data>) {
        (None, vec![self])
    }
}

/// Examines a store.
///
/// # Errors
/// Why it cannot be.
pub fn audit(host: &Host, store: &Store, quiet: bool) -> Result<Report<Data>, Problem> {
    examined(host, store, quiet).map(|(report, _)| report)
}

/// The same, with what the store told.
///
/// # Errors
/// As [`audit`].
pub fn examined(host: &Host, store: &Store, quiet: bool) -> Result<(Report<Data>, Facts), Problem> {
    let progress = Progress::new("db audit", None, quiet);
    let processes = super::processes(host);
    let holders = if host.is_captured() { Holders::default() } else { Holders::look(host, &processes) };
    let problem = |refusal: Refusal| store.problem(&refusal);
    let (info, why) = info::of(store, &holders, &progress).map_err(problem)?;
    // What would not be read once is not tried again.
    if let Some(refusal @ (Refusal::Hostile(_) | Refusal::Endless | Refusal::Busy(_))) = why {
        return Err(problem(refusal));
    }
    let (facts, read_as) = match facts(host, store, &progress) {
        Ok(facts) => facts,
        Err(refusal @ (Refusal::Damaged(_) | Refusal::NotADatabase)) => return Ok((damaged(host, info, &refusal), Facts::nothing())),
        Err(refusal) => return Err(problem(refusal)),
    };
    let configured = if facts.kv.is_empty() { Configured::default() } else { configs::of(host, store, &progress) };
    let mut report = Report::new("db-audit", data(Info { read_as: Some(store.read_as(read_as)), ..info }, &facts));
    let teller = Teller { host, path: store.shown() };
    report.findings = info::findings(host, &report.data.store);
    teller.pages(&facts, &mut report.findings);
    teller.events(&facts, &mut report.findings);
    teller.secrets(&facts, &mut report.findings);
    teller.plugins(&facts, &configured, &mut report.findings, &mut report.notes);
    teller.queue(&facts, &report.data.store, &mut report.findings);
    teller.sessions(&facts, &report.data.store, &mut report.findings);
    if facts.suspended_untold > 0 {
        report.notes.push(not_told(facts.suspended_untold));
    }
    let mut unseen = Vec::new();
    teller.files(&facts, &mut report.findings, &mut unseen);
    if facts.kv_left_out > 0 {
        unseen.push(format!(
            "{} of plugins beyond the first {} {} not judged",
            counted(facts.kv_left_out, "row", "rows"),
            audit::PLUGINS,
            if facts.kv_left_out == 1 { "was" } else { "were" }
        ));
    }
    // What could not be looked at is not well.
    report.undetermined |= !unseen.is_empty();
    report.notes.extend(unseen);
    if let Integrity::Unknown(reason) = &facts.whole {
        report.notes.push(format!("whether its pages fit together could not be found out: {reason}"));
        report.undetermined = true;
    }
    Ok((report, facts))
}

/// That a store does not tell of turns, in whose words it does.
pub fn not_told(sessions: u64) -> String {
    format!(
        "whether a turn runs is not known of {}: the store has no event that tells of {} turns",
        counted(sessions, "session", "sessions"),
        if sessions == 1 { "its" } else { "their" }
    )
}

fn facts(host: &Host, store: &Store, progress: &Progress) -> Result<(Facts, ReadAs), Refusal> {
    let path = store.real()?;
    let now_ms = host.machine().taken_ms;
    let examine = |mut opened: Opened| {
        let tables = Tables::read(&opened.conn)?;
        let facts = audit::examine(&mut opened, &tables, now_ms, progress);
        Ok((opened, facts))
    };
    if let Some(kept) = &store.kept {
        let (opened, facts) = examine(Opened::kept(&path)?)?;
        // What lay beside it was looked at when it was copied.
        return Ok((Facts { base: kept.base.clone(), lost: kept.lost.clone(), ..facts? }, opened.read_as));
    }
    let (mut last, mut long) = (Refusal::Moved, false);
    for _ in 0..=open::AGAIN {
        let opened = if long { Opened::open_long(&path, progress) } else { Opened::open_apart(&path, progress) };
        let (opened, facts) = match opened.and_then(examine) {
            Ok(done) => done,
            Err(error @ Refusal::Moved) => {
                last = error;
                continue;
            }
            Err(error) => return Err(error),
        };
        let cut = |facts: &Result<Facts, Refusal>| match facts {
            Ok(facts) => matches!(facts.whole, Integrity::Unknown(_)),
            Err(refusal) => *refusal == Refusal::Endless,
        };
        match opened.still() {
            Ok(()) if opened.is_hurried() && cut(&facts) => long = true,
            Ok(()) => return Ok((facts?, opened.read_as)),
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn damaged(host: &Host, info: Info, refusal: &Refusal) -> Report<Data> {
    let teller = Teller { host, path: info.path.clone() };
    let mut report = Report::new("db-audit", data(info, &Facts::nothing()));
    report.data.integrity = "damaged".to_owned();
    report.data.suspended = None;
    report.findings = info::findings(host, &report.data.store);
    report.findings.push(teller.finding(&registry::STORE_DAMAGED, refusal.to_string(), "SQLite, at the first read"));
    report
}

fn word(integrity: &Integrity) -> String {
    match integrity {
        Integrity::Whole => "whole",
        Integrity::Damaged(_) => "damaged",
        Integrity::Unknown(_) => "unknown",
    }
    .to_owned()
}

fn data(store: Info, facts: &Facts) -> Data {
    let events = facts.events.as_ref();
    Data {
        store,
        integrity: word(&facts.whole),
        base_integrity: facts.base.as_ref().map(word),
        sessions: facts.sessions,
        orphans: facts.orphans.count,
        circular: facts.circles.count,
        suspended: (facts.suspended_untold == 0 || facts.suspended_untold < facts.sessions).then_some(facts.suspended.count),
        suspended_unknown: facts.suspended_untold,
        pending: facts.pending,
        plugin_rows: facts.kv.values().map(|plugin| plugin.entries).sum(),
        events: events.map(|events| events.count),
        event_bytes: events.map(|events| events.bytes),
        event_bytes_estimated: events.map(|events| events.estimated),
        binaries: None,
    }
}
