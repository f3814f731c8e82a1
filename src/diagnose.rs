//! Facts joined into verdicts: one file a question.

pub mod binaries;
pub mod capture;
pub mod contrast;
pub mod db;
pub mod doctor;
pub mod ownership;
pub mod portrait;
pub mod probing;
pub mod pseudonyms;
pub mod roster;
pub mod subject;
pub mod values;
pub mod verify;

use std::path::Path;

use crate::host::snapshot::SnapshotError;
use crate::host::{Host, Stat, Unknown};
use crate::report::{Exit, Problem, Report};
use crate::verdict::registry::{SNAPSHOT_ALTERED, SNAPSHOT_INCOMPLETE};
use crate::verdict::{Evidence, Finding, How, Outcome};

/// Why a directory cannot be asked as a snapshot, and what to do.
pub fn unusable(dir: &Path, error: &SnapshotError) -> Problem {
    let exit = match error {
        SnapshotError::Open(Unknown::Absent) => Exit::NotFound,
        SnapshotError::Open(Unknown::NotPermitted) => Exit::NotPermitted,
        _ => Exit::Io,
    };
    Problem::new(exit, format!("{}: {error}", dir.display())).hint("Take a new one: whoseenv snapshot DIR")
}

/// Who to ask about a process that this account may not look into. `command` is `show` or `doctor --pid`.
pub fn ask_as(host: &Host, command: &str, stat: &Stat) -> String {
    if host.machine().uid == 0 {
        return "root itself may not look into it from here: ask outside this container, or with CAP_SYS_PTRACE".to_owned();
    }
    let user = host.user_name(stat.euid).unwrap_or_else(|| format!("uid {}", stat.euid));
    let root = format!("as root: sudo whoseenv {command} {}", stat.pid);
    if stat.euid == 0 { format!("ask {root}") } else { format!("ask as {user}, or {root}") }
}

/// What a list of processes leaves out because `/proc` hides it, in words; none where nothing is hidden.
pub fn hidden(host: &Host) -> Option<String> {
    let hiding = host.hiding()?;
    let mounted = if host.is_captured() { "was" } else { "is" };
    Some(format!("other users' processes could not be seen (/proc {mounted} mounted with {}); root can", hiding.option))
}

/// Adds what is wrong with the snapshot itself: altered, missing or unreadable facts.
pub fn snapshot_faults<T>(host: &Host, report: &mut Report<T>) {
    for fault in host.snapshot_faults() {
        let place = match &fault.key {
            Some(key) => format!("{}: {key}", fault.file),
            None => fault.file.clone(),
        };
        let kind = if fault.reason == Unknown::Altered { &SNAPSHOT_ALTERED } else { &SNAPSHOT_INCOMPLETE };
        let message = match &fault.reason {
            Unknown::Altered => "this fact is not the one that was captured and is not used".to_owned(),
            Unknown::NotCaptured => "this part is listed in the manifest and is gone; what depends on it is undetermined".to_owned(),
            other => format!("this part cannot be used: {other}; what depends on it is undetermined"),
        };
        let evidence =
            Evidence { source: place.clone(), how: How::Passive, at: host.machine().taken_at(), detail: fault.reason.to_string() };
        let outcome = if fault.reason == Unknown::Altered { Outcome::Confirmed } else { Outcome::Undetermined };
        let fix = "take a new snapshot, or use an untouched copy of this one".to_owned();
        report.findings.push(Finding::new(kind, outcome, place, message).evidence([evidence]).fix([fix]));
    }
}
