//! What a store holds, told: events, secrets, plugins' rows, queues, sessions and the directories that they name.

use crate::agent::plugins::Configured;
use crate::agent::quote;
use crate::diagnose::db::holders::Holder;
use crate::diagnose::db::info::Info;
use crate::diagnose::db::{blackboard, counted};
use crate::host::View;
use crate::host::machine::rfc3339;
use crate::store::audit::{self, Facts};
use crate::store::text::told_text;
use crate::verdict::registry;
use crate::verdict::{Evidence, Finding, How, Outcome};

use super::teller::{Teller, named, plural, verb};

impl Teller<'_> {
    pub(super) fn events(&self, facts: &Facts, found: &mut Vec<Finding>) {
        let all = facts.pages * facts.page_size;
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
            let all_gaps = events.gaps.count + events.emptied;
            if all_gaps > 0 {
                let message = format!("events are missing in {}", plural(all_gaps, "session"));
                let gaps = events.gaps.named.iter().map(|gap| format!("{}: {}", gap.id, gap.gaps()));
                let emptied = (events.emptied > 0).then(|| {
                    format!("{} in event_sequence {} no event", plural(events.emptied, "session"), verb(events.emptied, "has", "have"))
                });
                found.push(self.of_table(&registry::STORE_EVENT_GAP, "event", message, gaps.chain(emptied)));
            }
        }
    }

    pub(super) fn secrets(&self, facts: &Facts, found: &mut Vec<Finding>) {
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

    pub(super) fn plugins(&self, facts: &Facts, configured: &Configured, found: &mut Vec<Finding>, notes: &mut Vec<String>) {
        for (id, plugin) in &facts.kv {
            let name = told_text(id.as_bytes());
            let rows = format!(
                "{} of {name}, {}, last written {}",
                plural(plugin.entries, "row"),
                plural(plugin.bytes, "byte"),
                rfc3339(plugin.updated_ms)
            );
            match configured.word(id) {
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
                        source: told_text(place.as_bytes()),
                        how: How::Passive,
                        at: self.host.machine().taken_at(),
                        detail,
                    });
                    found.push(self.of_table(&registry::STORE_KV_LEFT_OVER, "kv", message, [rows]).evidence(read));
                }
                "unknown" => notes.push(format!(
                    "whether plugin {name} is still configured is not known: {}",
                    told_text(named(configured.unknown.iter().map(String::as_str), configured.unknown.len() as u64).as_bytes())
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
                    [format!("{} of {}", plugin.unscoped, plural(plugin.entries, "key"))],
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

    pub(super) fn queue(&self, facts: &Facts, info: &Info, found: &mut Vec<Finding>) {
        // Who is gone runs no turn; who may be there may run one.
        let (alive, unseen) = (info.holders.iter().any(Holder::may_be_host), info.holders_unseen);
        let of_living = match (alive, unseen) {
            (false, false) => Outcome::Confirmed,
            _ => Outcome::Undetermined,
        };
        let groups = [
            (&facts.waiting, Some(Outcome::Confirmed)),
            (&facts.waiting_in_turn, (!alive).then_some(of_living)),
            (&facts.waiting_untold, Some(of_living)),
        ];
        for (waits, outcome) in groups {
            let (rows, sessions) = (waits.rows, &waits.sessions);
            let Some(outcome) = outcome.filter(|_| sessions.count > 0) else { continue };
            let message = format!(
                "{} {} in {} {}",
                plural(rows, "row"),
                verb(rows, "waits", "wait"),
                plural(sessions.count, "session"),
                if outcome == Outcome::Confirmed { "in which no turn runs" } else { "of which it cannot be told whether a turn runs" }
            );
            let details = sessions.named.iter().map(|waiting| {
                format!(
                    "{}: {}, the oldest for {}, first {}",
                    waiting.session,
                    plural(waiting.rows, "row"),
                    self.age(waiting.oldest_ms),
                    waiting.first
                )
            });
            let session = sessions.named.first().map(|waiting| quote(waiting.session.as_bytes())).unwrap_or_default();
            let fix = format!("whoseenv db inbox {session} --db {}", quote(self.path.as_bytes()));
            let mut finding = self.of_table(&registry::STORE_INBOX_STUCK, facts.queue_table, message, details).fix([fix]);
            finding.outcome = outcome;
            found.push(finding);
        }
        if facts.twice.count > 0 {
            let message = format!("one payload waits more than once in {}", plural(facts.twice.count, "session"));
            let details = facts.twice.named.iter().map(|(session, rows)| format!("{session}: {}", plural(*rows, "row")));
            found.push(self.of_table(&registry::STORE_INBOX_DUPLICATE, facts.queue_table, message, details));
        }
    }

    pub(super) fn sessions(&self, facts: &Facts, info: &Info, found: &mut Vec<Finding>) {
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
        if facts.circles.count > 0 {
            let message = format!(
                "{} by {} parent ids",
                if facts.circles.count == 1 {
                    "1 session is its own ancestor".to_owned()
                } else {
                    format!("{} sessions are their own ancestors", facts.circles.count)
                },
                if facts.circles.count == 1 { "its" } else { "their" },
            );
            let details = facts.circles.named.iter().map(|id| format!("{id}: its parents lead back to it"));
            found.push(self.of_table(&registry::STORE_SESSION_PARENT_CIRCLE, facts.session_table, message, details));
        }
        if facts.suspended.count > 0 && !info.holders.iter().any(Holder::may_be_host) {
            let message = format!(
                "{} in the middle of a turn, and no daemon holds the store",
                if facts.suspended.count == 1 { "1 session is".to_owned() } else { format!("{} sessions are", facts.suspended.count) }
            );
            let evidence = facts.suspended.named.iter().map(|suspended| {
                let age = suspended.since_ms.map(|since| format!("for {}", self.age(since)));
                let (table, began) = match suspended.seq {
                    Some(seq) => ("event", Some(format!("event {seq} began a turn, and none behind it ends one"))),
                    None => (suspended.table, None),
                };
                let detail = [began, age].into_iter().flatten().collect::<Vec<_>>().join(", ");
                let detail = if detail.is_empty() { suspended.id.clone() } else { format!("{}: {detail}", suspended.id) };
                self.evidence(&format!("table {table}"), detail)
            });
            let mut finding = Finding::new(&registry::STORE_SESSION_SUSPENDED, Outcome::Confirmed, &self.path, message).evidence(evidence);
            if info.holders_unseen {
                // Whoever holds it may be one of those.
                finding.outcome = Outcome::Undetermined;
                finding.message.push_str(" that could be seen from this account");
            }
            found.push(finding);
        }
    }

    /// What of it could not be seen goes to `unseen`.
    pub(super) fn files(&self, facts: &Facts, found: &mut Vec<Finding>, unseen: &mut Vec<String>) {
        let (mut gone, mut hidden): (Vec<(String, u64)>, Vec<String>) = Default::default();
        for (directory, count) in &facts.directories {
            match self.host.path(View::OURS, directory.as_bytes()) {
                Ok(_) => {}
                Err(reason) if reason.is_absence() => gone.push((told_text(directory.as_bytes()), *count)),
                Err(reason) => hidden.push(format!("{} ({reason})", told_text(directory.as_bytes()))),
            }
        }
        if !hidden.is_empty() {
            let count = hidden.len() as u64;
            unseen.push(format!(
                "whether {} of sessions {} there is not known: {}",
                counted(count, "directory", "directories"),
                verb(count, "is", "are"),
                named(hidden.iter().map(String::as_str), count)
            ));
        }
        if facts.directories_left_out > 0 {
            unseen.push(format!(
                "{} in directories beyond the first {} {} not looked at",
                plural(facts.directories_left_out, "session"),
                audit::DIRECTORIES,
                verb(facts.directories_left_out, "was", "were")
            ));
        }
        if !gone.is_empty() {
            let sessions = gone.iter().map(|(_, count)| count).sum();
            let message = format!(
                "{} of {} {} gone: {}",
                counted(gone.len() as u64, "directory", "directories"),
                plural(sessions, "session"),
                verb(gone.len() as u64, "is", "are"),
                named(gone.iter().map(|(directory, _)| directory.as_str()), gone.len() as u64)
            );
            let details = gone.iter().take(audit::NAMED).map(|(directory, count)| format!("{directory}: {}", plural(*count, "session")));
            found.push(self.of_table(&registry::STORE_SESSION_DIRECTORY_GONE, facts.session_table, message, details));
        }
        if facts.sessions == 0 {
            return;
        }
        let stale = blackboard::stale(self.host, facts.directories.keys().map(String::as_str));
        if !stale.unseen.is_empty() {
            let count = stale.unseen.len() as u64;
            unseen.push(format!("whether blackboards are there is not known of {}", named(stale.unseen.iter().map(String::as_str), count)));
        }
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
