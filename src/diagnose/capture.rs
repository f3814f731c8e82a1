//! `snapshot`: the questions that every command asks, asked once, with the answers kept.

mod usual;

use std::collections::BTreeSet;
use std::path::Path;

use rayon::prelude::*;
use schemars::JsonSchema;
use serde::Serialize;

use crate::agent;
use crate::env::reference::Reference;
use crate::host::{Host, Pid, files};
use crate::origin::ssh;
use crate::redact::Redactor;
use crate::report::{Exit, Problem, Report, Rows};

use super::subject::{Narrow, Subject, resolve};
use super::{db, doctor, portrait, pseudonyms, roster};

/// The answer of `snapshot`.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Data {
    /// The directory that was made.
    pub dir: String,
    /// Processes in it.
    pub processes: usize,
    /// Agent processes among them.
    pub agents: usize,
    /// Facts in it.
    pub facts: usize,
    /// Files in it, the manifest included.
    pub files: usize,
    /// Addresses, users and hosts were replaced.
    pub anonymized: bool,
}

impl Rows for Data {
    type Row = Data;
    const FIELD: Option<&'static str> = None;

    fn split(self) -> (Option<Self>, Vec<Data>) {
        (None, vec![self])
    }
}

/// What to keep.
#[derive(Clone, Debug, Default)]
pub struct Query {
    /// Only these processes, their parents, and what their values name; empty = all.
    pub pids: Vec<Pid>,
    /// Open what values name, and keep what that told.
    pub connect: bool,
    /// Replace addresses, users and hosts.
    pub anonymize: bool,
    /// Copy every agent's database too.
    pub stores: bool,
}

/// Asks everything on a recording host, and writes the answers into `dir`.
///
/// # Errors
/// When the directory exists or cannot be written, or a process that was asked for is not there.
pub fn capture(host: &Host, redactor: &Redactor, dir: &Path, query: &Query) -> Result<Report<Data>, Problem> {
    let recorder = host.recorder().ok_or_else(|| {
        Problem::new(Exit::Usage, "a snapshot of a snapshot is a copy of its directory").hint(format!("cp -a DIR {}", dir.display()))
    })?;
    match files::stat_named(dir) {
        Err(reason) if reason.is_absence() => {}
        Err(reason) => return Err(Problem::new(Exit::Io, format!("{}: {reason}", dir.display()))),
        Ok(_) => {
            return Err(Problem::new(Exit::Usage, format!("{} exists already", dir.display()))
                .hint("Name a directory that is not there: a snapshot is never mixed with another."));
        }
    }
    let failed = |error: String| Problem::new(Exit::Io, error);
    let terminal = Subject::terminal(host);
    // So that an account that nothing runs as is known to be one; pseudonyms replace the names.
    host.users();
    let agents = agent::discover(host).map_err(|error| failed(format!("/proc: {error}")))?;
    let keep = kept(host, query, &terminal, &agents)?;
    doctor::examine(host, redactor, &terminal, &Narrow::default(), query.connect).map_err(|error| failed(format!("/proc: {error}")))?;
    portrait::portrait(host, redactor, &terminal, query.connect);
    if query.pids.is_empty() {
        roster::list(host, redactor, &roster::Query { all: true, names: true, narrow: Narrow::default() })
            .map_err(|error| failed(format!("/proc: {error}")))?;
        usual::ask(host, redactor, &terminal, query.anonymize, query.connect);
    }
    let keep_one = |pid: &Pid| {
        let Ok(stat) = host.process(*pid).stat() else { return };
        let agent = agents.iter().find(|agent| agent.stat.pid == *pid).cloned();
        let subject = Subject::process(host, Reference::Pid(*pid), stat, agent);
        portrait::portrait(host, redactor, &subject, query.connect);
        ssh::remember(&subject.carrier(host, query.connect));
    };
    keep.par_iter().for_each(keep_one);
    if query.connect {
        for reference in commands(&terminal) {
            // A tmux server that does not answer is a fact too, and was kept as one.
            let _ = resolve(host, &reference, &Narrow::default());
        }
    }
    let mut notes = terminal.notes.clone();
    // The copies lie in private until the snapshot is written.
    let copies = if query.stores { db::keep::keep(host, &agents, &mut notes, false)? } else { Vec::new() };
    // What is learned of other processes than those asked for is not kept.
    let rewrite = query.anonymize.then(|| pseudonyms::rewriter(host));
    if !query.pids.is_empty() {
        recorder.narrow(|pid| keep.contains(&pid));
    }
    let written = recorder.write(dir, host.machine(), |facts| {
        if let Some(rewrite) = &rewrite {
            rewrite(facts);
        }
    });
    let written = written.map_err(|error| failed(format!("{}: {error}", dir.display())))?;
    drop(copies);
    let data = Data {
        dir: dir.display().to_string(),
        processes: written.processes,
        agents: agents.len(),
        facts: written.facts,
        files: written.files,
        anonymized: query.anonymize,
    };
    let mut report = Report::new("snapshot", data);
    report.notes = notes;
    Ok(report)
}

/// The processes whose environment is kept with all that its values name.
fn kept(host: &Host, query: &Query, terminal: &Subject, agents: &[agent::AgentProcess]) -> Result<BTreeSet<Pid>, Problem> {
    let mut keep = BTreeSet::new();
    if query.pids.is_empty() {
        keep.extend(host.pids().unwrap_or_default());
        return Ok(keep);
    }
    for &pid in &query.pids {
        if host.process(pid).stat().is_err() {
            return Err(Problem::new(Exit::NotFound, format!("there is no process {pid}")).hint("See what runs: whoseenv ps --all"));
        }
        keep.extend(host.chain(pid).iter().map(|stat| stat.pid));
    }
    keep.extend(terminal.stat.iter().map(|stat| stat.pid));
    keep.extend(agents.iter().map(|agent| agent.stat.pid).filter(|pid| query.pids.contains(pid)));
    Ok(keep)
}

/// The environments that a command tells, as far as this terminal has them.
fn commands(terminal: &Subject) -> Vec<Reference> {
    let session = terminal.environ.as_ref().ok().and_then(|environ| environ.filled("TMUX")).and_then(|tmux| tmux.rsplit(',').next());
    session.map(|session| Reference::Tmux(format!("${session}"))).into_iter().collect()
}
