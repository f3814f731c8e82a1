//! The pages of a store, told: whole or not, what of the WAL is lost, what is free. And the words that every finding of an audit is made with.

use crate::host::Host;
use crate::store::audit::{Facts, Integrity};
use crate::verdict::registry::{self, Kind};
use crate::verdict::{Evidence, Finding, How, Outcome};

/// Who tells what is wrong with one store.
pub(super) struct Teller<'h> {
    pub(super) host: &'h Host,
    pub(super) path: String,
}

/// `a, b and 7 more`.
pub(super) fn named<'n>(names: impl Iterator<Item = &'n str>, count: u64) -> String {
    const SHOWN: usize = 3;
    let shown: Vec<&str> = names.take(SHOWN).collect();
    let rest = count.saturating_sub(shown.len() as u64);
    if rest > 0 { format!("{} and {rest} more", shown.join(", ")) } else { shown.join(", ") }
}

pub(super) fn plural(count: u64, one: &str) -> String {
    crate::diagnose::db::counted(count, one, &format!("{one}s"))
}

/// The verb that fits a number.
pub(super) fn verb<'v>(count: u64, one: &'v str, many: &'v str) -> &'v str {
    if count == 1 { one } else { many }
}

impl Teller<'_> {
    pub(super) fn evidence(&self, place: &str, detail: impl Into<String>) -> Evidence {
        let source = if place.is_empty() { self.path.clone() } else { format!("{}: {place}", self.path) };
        Evidence { source, how: How::Passive, at: self.host.machine().taken_at(), detail: detail.into() }
    }

    pub(super) fn finding(&self, kind: &'static Kind, message: impl Into<String>, detail: &str) -> Finding {
        Finding::new(kind, Outcome::Confirmed, &self.path, message).evidence([self.evidence("", detail)])
    }

    pub(super) fn of_table(
        &self,
        kind: &'static Kind,
        table: &str,
        message: impl Into<String>,
        details: impl IntoIterator<Item = String>,
    ) -> Finding {
        Finding::new(kind, Outcome::Confirmed, &self.path, message)
            .evidence(details.into_iter().map(|detail| self.evidence(&format!("table {table}"), detail)))
    }

    pub(super) fn age(&self, since_ms: i64) -> String {
        let seconds = self.host.machine().taken_ms.saturating_sub(since_ms).max(0) / 1000;
        match seconds {
            0..60 => format!("{seconds} s"),
            60..3600 => format!("{} min", seconds / 60),
            3600..86_400 => format!("{} h", seconds / 3600),
            _ => format!("{} d", seconds / 86_400),
        }
    }

    pub(super) fn pages(&self, facts: &Facts, found: &mut Vec<Finding>) {
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
    }
}
