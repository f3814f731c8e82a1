//! A background service that no registration file names.

use super::super::{AgentProcess, Mode};
use super::registration::roots_of;
use super::service_file::{Roots, parse_registered, service_files};
use crate::host::{Host, Raw, Unknown};
use crate::verdict::registry::REGISTRATION_MISSING;
use crate::verdict::{Evidence, Finding, How, Outcome};

/// The file is written once the service listens: next-16350 has it within a second.
const STARTS_WITHIN_MS: u64 = 3_000;

/// What is wrong with a service that clients cannot find: the file is gone, or is another's by now.
pub(super) fn finding(host: &Host, process: &AgentProcess) -> Option<Finding> {
    let young = host.machine().age_ms(process.stat.start_ticks) < STARTS_WITHIN_MS;
    if process.mode != Some(Mode::Service) || process.registration.is_some() || young {
        return None;
    }
    let roots = roots_of(host, process)?;
    let dir = roots.state.lossy();
    let (outcome, message, detail) = match &service_files(host, roots.view, &roots.state) {
        // One that cannot be read may name it.
        Ok(files) if let Some((path, reason)) = unread(host, &roots, files) => {
            (Outcome::Undetermined, format!("whether a registration file names it: {}: {reason}", path.lossy()), reason.to_string())
        }
        Ok(files) => {
            let detail = match files.len() {
                0 => "no service*.json".to_owned(),
                count => format!("{count} service*.json, none of which names pid {}", process.stat.pid),
            };
            (Outcome::Confirmed, NOBODY.to_owned(), detail)
        }
        Err(Unknown::Absent) => (Outcome::Confirmed, NOBODY.to_owned(), "no such directory".to_owned()),
        Err(reason) => (Outcome::Undetermined, format!("whether a registration file names it: {reason}"), reason.to_string()),
    };
    let evidence = Evidence { source: dir.into_owned(), how: How::Passive, at: host.machine().taken_at(), detail };
    Some(Finding::new(&REGISTRATION_MISSING, outcome, process.subject(), message).evidence([evidence]))
}

fn unread<'f>(host: &Host, roots: &Roots, files: &'f [Raw]) -> Option<(&'f Raw, Unknown)> {
    files.iter().find_map(|path| {
        let reason = match host.document(roots.view, path.as_bytes(), parse_registered) {
            // Half-written, too large, or no file to read: what it would say is not known. What another account wrote says nothing.
            Ok(document) if document.stat.uid == roots.uid => Unknown::Malformed(document.content.err()?),
            Ok(_) => return None,
            Err(reason) => reason,
        };
        (!reason.is_absence()).then_some((path, reason))
    })
}

/// next-16350 looks every 5 s.
const NOBODY: &str =
    "it runs as the background service and no registration file names it: clients do not find it, and it ends itself within 5 s";
