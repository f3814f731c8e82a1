//! `ps`: which agent processes run, who started each, from where, how long ago.

use schemars::JsonSchema;
use serde::Serialize;

use crate::agent::{Recogniser, Role};
use crate::host::machine::rfc3339;
use crate::host::{Environ, Fact, Host, Pid, Proc, Stat, Unknown};
use crate::origin::{Birth, birth};
use crate::report::Report;

use super::subject::Narrow;
use super::values::Name;

/// The answer of `ps`.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Data {
    /// By pid, ascending.
    pub processes: Vec<Row>,
}

/// One process.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Row {
    /// Process id.
    pub pid: Pid,
    /// When it started, RFC 3339.
    pub start_time: String,
    /// When it started, in clock ticks since boot: with pid and boot id, what tells it from all others.
    pub start_ticks: u64,
    /// The kernel's name of it.
    pub comm: String,
    /// The agent it is; null where it is none.
    pub agent: Option<String>,
    /// What it is for.
    pub role: Role,
    /// How it runs: service, foreground, standalone, tui, …
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    /// Version of the product, from the program itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub product_version: Option<String>,
    /// Effective uid.
    pub uid: u32,
    /// Login name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// The program file, ` (deleted)` behind it where the kernel says so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exe: Option<String>,
    /// The session of the agent that it works for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// How long ago it started, in milliseconds.
    pub age_ms: u64,
    /// Where it was born.
    pub birth: Birth,
    /// Names of its variables, in the block's order (`--names`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub names: Option<Vec<Name>>,
    /// Why its environment could not be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unreadable: Option<String>,
}

/// What to list.
#[derive(Clone, Debug, Default)]
pub struct Query {
    /// Every process, not agents alone.
    pub all: bool,
    /// The names of their variables too.
    pub names: bool,
    /// Which processes.
    pub narrow: Narrow,
}

/// Lists processes.
///
/// # Errors
/// When the list of processes cannot be read at all.
pub fn list(host: &Host, query: &Query) -> Fact<Report<Data>> {
    let recogniser = Recogniser::new(host);
    let mut processes = host.scan(|process| row(host, process, &recogniser, query))?;
    let mut users = std::collections::HashMap::new();
    for row in &mut processes {
        row.user = users.entry(row.uid).or_insert_with(|| host.user_name(row.uid)).clone();
    }
    let mut report = Report::new("ps", Data { processes });
    let hidden = report.data.processes.iter().filter(|row| row.unreadable.is_some()).count();
    if hidden > 0 {
        let whose = if host.machine().uid == 0 { "" } else { " (other users'); root can" };
        report.notes.push(format!("{hidden} of {} environments could not be read{whose}", report.data.processes.len()));
    }
    Ok(report)
}

fn row(host: &Host, process: &Proc<'_>, recogniser: &Recogniser<'_>, query: &Query) -> Option<Row> {
    let stat = process.stat().ok()?;
    let exe = process.exe();
    let found = recogniser.look(process, &stat, &exe);
    if !query.all && found.is_none() {
        return None;
    }
    let agent = found.as_ref().map(|found| found.agent.to_string());
    if !query.narrow.admits(host, &stat, agent.as_deref().unwrap_or_default()) {
        return None;
    }
    let (birth, names, unreadable) = born(host, process, &stat, query.names);
    let machine = host.machine();
    let (role, mode, product_version, session_id) = match found {
        Some(found) => (found.role, found.mode, found.product_version, found.session_id),
        None => (Role::Other, None, None, None),
    };
    Some(Row {
        pid: stat.pid,
        start_time: rfc3339(machine.started_ms(stat.start_ticks)),
        start_ticks: stat.start_ticks,
        comm: stat.comm.lossy().into_owned(),
        agent,
        role,
        mode,
        product_version,
        uid: stat.euid,
        user: None,
        exe: exe.ok().map(|exe| String::from_utf8_lossy(&exe.shown()).into_owned()),
        session_id,
        age_ms: machine.age_ms(stat.start_ticks),
        birth,
        names,
        unreadable,
    })
}

fn born(host: &Host, process: &Proc<'_>, stat: &Stat, names: bool) -> (Birth, Option<Vec<Name>>, Option<String>) {
    if stat.kernel_thread {
        return (Birth::default(), names.then(Vec::new), None);
    }
    let read = if host.reads_blocks() {
        let look = |block: &[u8]| {
            let cgroup = |cgroup: &[u8]| birth::from_raw(block, cgroup, stat);
            let born = process.cgroup_block(cgroup).unwrap_or_else(|_| birth::from_raw(block, b"", stat));
            (born, names.then(|| names_in(block)))
        };
        process.environ_block(look)
    } else {
        process.environ().map(|environ: Environ| {
            let cgroup = process.cgroup().unwrap_or_default();
            let listed = names.then(|| environ.entries.iter().filter(|entry| entry.value.is_some()).map(|entry| Name::of(entry.name.as_bytes())).collect());
            (birth::from_environ(&environ, cgroup.as_bytes(), Some(stat)), listed)
        })
    };
    match read {
        Ok((birth, names)) => (birth, names, None),
        Err(reason) => {
            let cgroup = process.cgroup().unwrap_or_default();
            let unreadable = if reason == Unknown::Gone { None } else { Some(reason.to_string()) };
            (birth::from_raw(b"", cgroup.as_bytes(), stat), None, unreadable)
        }
    }
}

fn names_in(block: &[u8]) -> Vec<Name> {
    let named = |part: &[u8]| memchr::memchr(b'=', part).filter(|at| *at > 0).map(|at| Name::of(&part[..at]));
    block.split(|&byte| byte == 0).filter_map(named).collect()
}
