//! Every agent process of a machine.

use super::opencode::{self, Registration};
use super::recognise::{Look, Recogniser};
use super::relate::Seen;
use super::{AgentProcess, Generation, Identity, KnownBy};
use crate::host::{Exe, Fact, Host, Stat, Unknown};
use crate::verdict::{Evidence, How};

/// Every agent process, in order of pid, with the catalogue that is part of the program.
///
/// # Errors
/// When the list of processes cannot be read. A process that cannot be looked into is no error: see [`super::KnownBy::Name`].
pub fn discover(host: &Host) -> Fact<Vec<AgentProcess>> {
    discover_with(&Recogniser::new(host))
}

/// Like [`discover`], with a recogniser that may know the user's catalogue.
///
/// # Errors
/// As [`discover`].
pub fn discover_with(recogniser: &Recogniser<'_>) -> Fact<Vec<AgentProcess>> {
    let host = recogniser.host();
    let found: Vec<(Stat, Fact<Exe>, Look)> = host.scan(|process| {
        let stat = process.stat().ok()?;
        let exe = process.exe();
        let look = recogniser.look(process, &stat, &exe);
        Some((stat, exe, look))
    })?;
    let mut exes = Vec::with_capacity(found.len());
    let looks: Vec<(Stat, Look)> = found
        .into_iter()
        .map(|(stat, exe, look)| {
            exes.push(exe);
            (stat, look)
        })
        .collect();
    let seen = recogniser.relate(&looks);
    let mut processes: Vec<AgentProcess> = looks
        .into_iter()
        .zip(exes)
        .zip(seen)
        .filter_map(|(((stat, look), exe), seen)| Some(assemble(host, stat, exe, look, seen?)))
        .collect();
    for registration in opencode::registrations(host, &processes) {
        attach(&mut processes, registration);
    }
    Ok(processes)
}

/// Gives the registration to the process it names, if that is an OpenCode.
fn attach(processes: &mut [AgentProcess], registration: Registration) {
    let Some(pid) = registration.registered().map(|registered| registered.pid) else { return };
    let named = processes.iter_mut().find(|process| process.agent == opencode::ID && process.stat.pid == pid && process.parent.is_none());
    if let Some(process) = named {
        process.registration = Some(registration);
    }
}

fn assemble(host: &Host, stat: Stat, exe: Fact<Exe>, look: Look, seen: Seen) -> AgentProcess {
    let identity = look.identity.ok().flatten();
    let evidence = evidence(host, &stat, &exe, &seen, identity.as_ref());
    let (product_version, generation) = identity.map_or((None, None), |identity| (identity.version, identity.generation));
    AgentProcess {
        stat,
        agent: seen.agent,
        role: seen.role,
        mode: seen.mode,
        product_version,
        generation,
        exe,
        session_id: seen.session_id,
        parent: seen.parent,
        listeners: look.listeners,
        registration: None,
        known_by: seen.known_by,
        evidence,
    }
}

fn evidence(host: &Host, stat: &Stat, exe: &Fact<Exe>, seen: &Seen, identity: Option<&Identity>) -> Vec<Evidence> {
    let pid = stat.pid;
    let at = host.machine().taken_at();
    let saw = |source: String, detail: String| Evidence { source, how: How::Passive, at: at.clone(), detail };
    let path = exe.as_ref().map_or_else(Unknown::to_string, |exe| String::from_utf8_lossy(&exe.shown()).into_owned());
    match &seen.known_by {
        KnownBy::Program => {
            let version = identity.and_then(|identity| identity.version.as_deref()).unwrap_or("of no stated version");
            let line = identity
                .and_then(|identity| identity.generation)
                .map(Generation::word)
                .map_or_else(String::new, |line| format!(", {line}"));
            vec![saw(format!("/proc/{pid}/exe"), format!("{path}: its payload is {} {version}{line}", seen.agent))]
        }
        KnownBy::Files => vec![saw(format!("/proc/{pid}/fd"), "it has daemon.sock.lock and acp-sessions.db open".to_owned())],
        KnownBy::Signature => vec![saw(format!("/proc/{pid}/exe"), format!("{path}: where {} is installed", seen.agent))],
        KnownBy::Parents => {
            let parent = seen.parent.unwrap_or(stat.ppid);
            vec![saw(format!("/proc/{pid}/stat"), format!("it descends from {} (pid {parent})", seen.agent))]
        }
        KnownBy::Name(unknown) => {
            vec![saw(format!("/proc/{pid}/stat"), format!("it is called {}; its program: {unknown}", stat.comm.lossy()))]
        }
    }
}
