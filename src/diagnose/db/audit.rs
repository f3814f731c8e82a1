//! `db audit`: what is wrong with a store, from itself, from the processes that hold it, and from the files it names.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::agent::plugins::Configured;
use crate::agent::quote;
use crate::diagnose::binaries::inventory::Binary;
use crate::host::machine::rfc3339;
use crate::host::{Host, View};
use crate::report::{Problem, Progress, Report, Rows};
use crate::store::audit::{self, Facts, Integrity};
use crate::store::{Opened, ReadAs, Refusal, Tables, open};
use crate::verdict::registry::{self, Kind};
use crate::verdict::{Evidence, Finding, How, Outcome};

use super::holders::Holders;
use super::info::{self, Info};
use super::{Store, blackboard, rows};

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
    /// Sessions in the middle of a turn.
    pub suspended: u64,
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
    let progress = Progress::new("db audit", None, quiet);
    let processes = super::processes(host);
    let holders = if host.is_captured() { Holders::default() } else { Holders::look(host, &processes) };
    let problem = |refusal: Refusal| store.problem(&refusal);
    let (info, why) = info::of(store, &holders, &progress).map_err(problem)?;
    // What would not be read once is not tried again.
    if let Some(refusal @ (Refusal::Hostile(_) | Refusal::Busy(_))) = why {
        return Err(problem(refusal));
    }
    let (facts, read_as) = match facts(host, store, &progress) {
        Ok(facts) => facts,
        Err(refusal @ (Refusal::Damaged(_) | Refusal::NotADatabase)) => return Ok(damaged(host, info, &refusal)),
        Err(refusal) => return Err(problem(refusal)),
    };
    let configured = if facts.kv.is_empty() { Configured::default() } else { rows::configured(host, store, &progress) };
    let mut report = Report::new("db-audit", data(Info { read_as: Some(store.read_as(read_as)), ..info }, &facts));
    let teller = Teller { host, path: store.shown() };
    report.findings = info::findings(host, &report.data.store);
    teller.pages(&facts, &mut report.findings);
    teller.plugins(&facts, &configured, &mut report.findings, &mut report.notes);
    teller.queue(&facts, &mut report.findings);
    teller.sessions(&facts, &report.data.store, holders.hidden, &mut report.findings);
    teller.files(&facts, &mut report.findings);
    if let Integrity::Unknown(reason) = &facts.whole {
        report.notes.push(format!("whether its pages fit together could not be found out: {reason}"));
        report.undetermined = true;
    }
    Ok(report)
}

fn facts(host: &Host, store: &Store, progress: &Progress) -> Result<(Facts, ReadAs), Refusal> {
    let path = store.real()?;
    let now_ms = host.machine().taken_ms;
    let examine = |mut opened: Opened| {
        let tables = Tables::read(&opened.conn)?;
        let facts = audit::examine(&mut opened, &tables, now_ms, progress);
        Ok((opened, facts))
    };
    if store.kept.is_some() {
        let (opened, facts) = examine(Opened::kept(&path)?)?;
        return Ok((facts?, opened.read_as));
    }
    let mut last = Refusal::Moved;
    for _ in 0..open::AGAIN {
        let (opened, facts) = match Opened::open_apart(&path, progress).and_then(examine) {
            Ok(done) => done,
            Err(error @ Refusal::Moved) => {
                last = error;
                continue;
            }
            Err(error) => return Err(error),
        };
        match opened.still() {
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
        suspended: facts.suspended.count,
        pending: facts.pending,
        plugin_rows: facts.kv.values().map(|plugin| plugin.entries).sum(),
        events: events.map(|events| events.count),
        event_bytes: events.map(|events| events.bytes),
        event_bytes_estimated: events.map(|events| events.estimated),
        binaries: None,
    }
}

struct Teller<'h> {
    host: &'h Host,
    path: String,
}

/// `a, b and 7 more`.
fn named<'n>(names: impl Iterator<Item = &'n str>, count: u64) -> String {
    const SHOWN: usize = 3;
    let shown: Vec<&str> = names.take(SHOWN).collect();
    let rest = count.saturating_sub(shown.len() as u64);
    if rest > 0 { format!("{} and {rest} more", shown.join(", ")) } else { shown.join(", ") }
}

fn plural(count: u64, one: &str) -> String {
    super::counted(count, one, &format!("{one}s"))
}

/// The verb that fits a number.
fn verb<'v>(count: u64, one: &'v str, many: &'v str) -> &'v str {
    if count == 1 { one } else { many }
}

impl Teller<'_> {
    fn evidence(&self, place: &str, detail: impl Into<String>) -> Evidence {
        let source = if place.is_empty() { self.path.clone() } else { format!("{}: {place}", self.path) };
        Evidence { source, how: How::Passive, at: self.host.machine().taken_at(), detail: detail.into() }
    }

    fn finding(&self, kind: &'static Kind, message: impl Into<String>, detail: &str) -> Finding {
        Finding::new(kind, Outcome::Confirmed, &self.path, message).evidence([self.evidence("", detail)])
    }

    fn of_table(&self, kind: &'static Kind, table: &str, message: impl Into<String>, details: impl IntoIterator<Item = String>) -> Finding {
        Finding::new(kind, Outcome::Confirmed, &self.path, message)
            .evidence(details.into_iter().map(|detail| self.evidence(&format!("table {table}"), detail)))
    }

    fn age(&self, since_ms: i64) -> String {
        let seconds = self.host.machine().taken_ms.saturating_sub(since_ms).max(0) / 1000;
        match seconds {
            0..60 => format!("{seconds} s"),
            60..3600 => format!("{} min", seconds / 60),
            3600..86_400 => format!("{} h", seconds / 3600),
            _ => format!("{} d", seconds / 86_400),
        }
    }

    fn pages(&self, facts: &Facts, found: &mut Vec<Finding>) {
        if let Integrity::Damaged(complaints) = &facts.whole {
            let message = "its pages do not fit together";
            found.push(
                self.finding(&registry::STORE_DAMAGED, message, &format!("quick_check: {}", complaints.join("; ")))
                    .fix(["stop its host, keep a copy with -wal and -shm, and save what can be: sqlite3 COPY .recover".to_owned()]),
            );
        } else if let Some(Integrity::Damaged(complaints)) = &facts.base {
            let message = "the database file alone does not fit together; with its -wal it does";
            found.push(
                self.finding(&registry::STORE_BASE_DAMAGED, message, &format!("quick_check without -wal: {}", complaints.join("; ")))
                    .fix(["never copy or move it without its -wal".to_owned()]),
            );
        }
        if let Some(lost) = &facts.lost {
            let message = if lost.header {
                "the header of its -wal does not check: SQLite reads nothing of it".to_owned()
            } else {
                format!(
                    "SQLite reads {} of its -wal at most, and not the {} behind, with {}",
                    plural(lost.sound, "frame"),
                    lost.frames,
                    plural(lost.commits, "commit")
                )
            };
            // A last frame alone may be one that was never written to its end, by a host that was killed.
            let torn = !lost.header && lost.frames == 1;
            let outcome = if torn { Outcome::Undetermined } else { Outcome::Confirmed };
            found.push(
                Finding::new(&registry::STORE_WAL_DAMAGED, outcome, &self.path, message)
                    .evidence([Evidence {
                        source: format!("{}-wal", self.path),
                        how: How::Passive,
                        at: self.host.machine().taken_at(),
                        detail: if torn { "the checksum of its last frame" } else { "checksums of its header and frames" }.to_owned(),
                    }])
                    .fix(["stop its host, and keep a copy with -wal before anything opens it: the next checkpoint takes the rest away"
                        .to_owned()]),
            );
        }
        let (free, all) = (facts.free_pages * facts.page_size, facts.pages * facts.page_size);
        if free > 4 << 20 && free * 4 > all && !facts.auto_vacuum {
            let message = format!("{free} of {all} bytes hold nothing, and it does not vacuum itself");
            found.push(
                self.finding(&registry::STORE_FREE_PAGES, message, &format!("freelist_count {}, auto_vacuum none", facts.free_pages))
                    .fix(["stop its host, then: sqlite3 FILE vacuum".to_owned()]),
            );
        }
        if let Some(events) = &facts.events {
            if events.bytes > 8 << 20 && events.bytes * 2 > all {
                let about = if events.estimated { "about " } else { "" };
                let message = format!(
                    "{} events take {about}{} of {all} bytes ({about}{} %)",
                    events.count,
                    events.bytes,
                    events.bytes * 100 / all.max(1)
                );
                let most = events.most.iter().map(|aggregate| format!("{} has {}", aggregate.id, aggregate.count));
                found.push(self.of_table(&registry::STORE_EVENT_BLOAT, "event", message, most));
            }
            if events.gaps.count > 0 {
                let message = format!("events are missing in {}", plural(events.gaps.count, "session"));
                let gaps = events
                    .gaps
                    .named
                    .iter()
                    .map(|gap| format!("{}: {} of {} to {} missing", gap.id, gap.missing, gap.first_seq, gap.last_seq));
                found.push(self.of_table(&registry::STORE_EVENT_GAP, "event", message, gaps));
            }
        }
        for (table, column, rows) in facts.secrets.iter().filter(|(_, _, rows)| *rows > 0) {
            let message = format!("{table}.{column} holds secrets in {}", plural(*rows, "row"));
            found.push(self.of_table(
                &registry::STORE_SECRET_COLUMNS,
                table,
                message,
                [format!("{} counted, none read", plural(*rows, "row"))],
            ));
        }
    }

    fn plugins(&self, facts: &Facts, configured: &Configured, found: &mut Vec<Finding>, notes: &mut Vec<String>) {
        for (name, plugin) in &facts.kv {
            let rows =
                format!("{} of {name}, {} bytes, last written {}", plural(plugin.entries, "row"), plugin.bytes, rfc3339(plugin.updated_ms));
            match configured.word(name) {
                "no" => {
                    let message = format!(
                        "plugin {name} is configured nowhere, and {} of it {} left",
                        plural(plugin.entries, "row"),
                        verb(plugin.entries, "is", "are")
                    );
                    let read = configured.read.iter().map(|file| (file, format!("does not name {name}")));
                    let without =
                        configured.without.iter().map(|dir| (dir, "has no opencode.json, opencode.jsonc or config.json".to_owned()));
                    let read = read.chain(without).take(5).map(|(place, detail)| Evidence {
                        source: place.clone(),
                        how: How::Passive,
                        at: self.host.machine().taken_at(),
                        detail,
                    });
                    found.push(self.of_table(&registry::STORE_KV_LEFT_OVER, "kv", message, [rows]).evidence(read));
                }
                "unknown" => notes.push(format!(
                    "whether plugin {name} is still configured is not known: {}",
                    named(configured.unknown.iter().map(String::as_str), configured.unknown.len() as u64)
                )),
                _ => {}
            }
            if plugin.unscoped > 0 {
                let message = format!(
                    "{} of plugin {name} {} no session and no path",
                    plural(plugin.unscoped, "key"),
                    verb(plugin.unscoped, "names", "name")
                );
                found.push(self.of_table(
                    &registry::STORE_KV_UNSCOPED,
                    "kv",
                    message,
                    [format!("{} of {} keys", plugin.unscoped, plugin.entries)],
                ));
            }
            if plugin.large > 0 {
                let message = format!(
                    "{} of plugin {name} {} over {} bytes",
                    plural(plugin.large, "value"),
                    verb(plugin.large, "has", "have"),
                    audit::LARGE
                );
                let (key, bytes) = &plugin.largest;
                found.push(self.of_table(&registry::STORE_VALUE_LARGE, "kv", message, [format!("{key}: {bytes} bytes")]));
            }
        }
    }

    fn queue(&self, facts: &Facts, found: &mut Vec<Finding>) {
        if facts.waiting.count > 0 {
            let rows: u64 = facts.waiting.named.iter().map(|waiting| waiting.rows).sum();
            let least = if facts.waiting.count > facts.waiting.named.len() as u64 { "at least " } else { "" };
            let message = format!(
                "{least}{} {} in {} in which no turn runs",
                plural(rows, "row"),
                verb(rows, "waits", "wait"),
                plural(facts.waiting.count, "session")
            );
            let details = facts.waiting.named.iter().map(|waiting| {
                format!(
                    "{}: {}, the oldest for {}, first {}",
                    waiting.session,
                    plural(waiting.rows, "row"),
                    self.age(waiting.oldest_ms),
                    waiting.first
                )
            });
            let session = facts.waiting.named.first().map(|waiting| quote(waiting.session.as_bytes())).unwrap_or_default();
            let fix = format!("whoseenv db inbox {session} --db {}", quote(self.path.as_bytes()));
            found.push(self.of_table(&registry::STORE_INBOX_STUCK, facts.queue_table, message, details).fix([fix]));
        }
        if facts.twice.count > 0 {
            let message = format!("one payload waits more than once in {}", plural(facts.twice.count, "session"));
            let details = facts.twice.named.iter().map(|(session, rows)| format!("{session}: {}", plural(*rows, "row")));
            found.push(self.of_table(&registry::STORE_INBOX_DUPLICATE, facts.queue_table, message, details));
        }
    }

    fn sessions(&self, facts: &Facts, info: &Info, hidden: u64, found: &mut Vec<Finding>) {
        if facts.orphans.count > 0 {
            let message =
                format!("{} {} a parent that is gone", plural(facts.orphans.count, "session"), verb(facts.orphans.count, "has", "have"));
            let evidence = facts
                .orphans
                .named
                .iter()
                .map(|orphan| self.evidence(&format!("table {}", orphan.table), format!("{}: parent {}", orphan.id, orphan.parent)));
            found.push(Finding::new(&registry::STORE_SESSION_ORPHAN, Outcome::Confirmed, &self.path, message).evidence(evidence));
            let mut parents: Vec<&str> = facts.orphans.named.iter().map(|orphan| orphan.parent.as_str()).collect();
            parents.sort_unstable();
            parents.dedup();
            let message = format!(
                "{} no session: {}",
                if facts.dangling == 1 { "1 parent id names".to_owned() } else { format!("{} parent ids name", facts.dangling) },
                named(parents.iter().copied(), facts.dangling)
            );
            let detail = format!(
                "{} of {} {} such a parent_id",
                facts.orphans.count,
                plural(facts.sessions, "session"),
                verb(facts.orphans.count, "has", "have")
            );
            found.push(self.of_table(&registry::STORE_SESSION_DANGLING_PARENT, facts.session_table, message, [detail]));
        }
        if facts.suspended.count > 0 && info.holders.is_empty() {
            let message = format!(
                "{} in the middle of a turn, and no daemon holds the store",
                if facts.suspended.count == 1 { "1 session is".to_owned() } else { format!("{} sessions are", facts.suspended.count) }
            );
            let details = facts.suspended.named.iter().map(|suspended| match suspended.since_ms {
                Some(since) => format!("{}: for {}", suspended.id, self.age(since)),
                None => suspended.id.clone(),
            });
            let mut finding = self.of_table(&registry::STORE_SESSION_SUSPENDED, facts.session_table, message, details);
            if hidden > 0 {
                // Whoever holds it may be one of those.
                finding.outcome = Outcome::Undetermined;
                finding.message.push_str(" that could be seen from this account");
            }
            found.push(finding);
        }
    }

    fn files(&self, facts: &Facts, found: &mut Vec<Finding>) {
        let gone: Vec<(&str, u64)> = facts
            .directories
            .iter()
            .filter(|(directory, _)| self.host.path(View::OURS, directory.as_bytes()).is_err_and(|reason| reason.is_absence()))
            .map(|(directory, count)| (directory.as_str(), *count))
            .collect();
        if !gone.is_empty() {
            let sessions = gone.iter().map(|(_, count)| count).sum();
            let message = format!(
                "{} of {} {} gone: {}",
                super::counted(gone.len() as u64, "directory", "directories"),
                plural(sessions, "session"),
                verb(gone.len() as u64, "is", "are"),
                named(gone.iter().map(|(directory, _)| *directory), gone.len() as u64)
            );
            let details = gone.iter().take(audit::NAMED).map(|(directory, count)| format!("{directory}: {}", plural(*count, "session")));
            found.push(self.of_table(&registry::STORE_SESSION_DIRECTORY_GONE, facts.session_table, message, details));
        }
        if facts.sessions == 0 {
            return;
        }
        let stale = blackboard::stale(self.host, facts.directories.keys().map(String::as_str));
        if stale.count > 0 {
            let message = format!("{} of blackboards {} older than five days", plural(stale.count, "file"), verb(stale.count, "is", "are"));
            let at = self.host.machine().taken_at();
            let evidence = stale.boards.iter().map(|board| Evidence {
                source: board.clone(),
                how: How::Passive,
                at: at.clone(),
                detail: format!("the oldest was written {} ago", self.age(stale.oldest_ms)),
            });
            found.push(Finding::new(&registry::STORE_BLACKBOARD_STALE, Outcome::Confirmed, &self.path, message).evidence(evidence));
        }
    }
}
