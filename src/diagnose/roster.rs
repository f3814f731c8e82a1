//! `ps`: which agent processes run, who started each, from where, how long ago.

use std::collections::{HashMap, HashSet};
use std::sync::{PoisonError, RwLock};

use rayon::prelude::*;
use schemars::JsonSchema;
use serde::ser::SerializeSeq;
use serde::{Serialize, Serializer};

use crate::agent::{Look, Mode, Recogniser, Role, Seen};
use crate::host::machine::rfc3339;
use crate::host::{Environ, Exe, Fact, Host, Pid, Proc, Stat, Unknown};
use crate::origin::{Birth, birth};
use crate::redact::{self, Redactor};
use crate::report::{Report, Rows};

use super::subject::Narrow;
use super::values::Name;

/// The answer of `ps`.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Data {
    /// By pid, ascending.
    pub processes: Vec<Row>,
}

impl Rows for Data {
    type Row = Row;
    const FIELD: Option<&'static str> = Some("processes");

    fn split(self) -> (Option<Self>, Vec<Row>) {
        (None, self.processes)
    }
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
    pub mode: Option<Mode>,
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
    #[schemars(with = "Option<Vec<Name>>")]
    pub names: Option<Names>,
    /// Why its environment could not be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unreadable: Option<String>,
}

/// Names of variables, packed: thousands of processes have some fifty each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names(Vec<u8>);

impl Names {
    /// One by one. No name holds a NUL: it ends the entry.
    pub fn iter(&self) -> impl Iterator<Item = Name> {
        self.parts().map(Name::of)
    }

    fn parts(&self) -> impl Iterator<Item = &[u8]> {
        self.0.strip_suffix(b"\0").into_iter().flat_map(|packed| packed.split(|&byte| byte == 0))
    }
}

impl Serialize for Names {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        /// As [`Name`] is written, without a copy.
        #[derive(Serialize)]
        struct Plain<'a> {
            name: &'a str,
        }
        let mut list = serializer.serialize_seq(None)?;
        for part in self.parts() {
            match std::str::from_utf8(part) {
                Ok(name) => list.serialize_element(&Plain { name })?,
                Err(_) => list.serialize_element(&Name::of(part))?,
            }
        }
        list.end()
    }
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
pub fn list(host: &Host, redactor: &Redactor, query: &Query) -> Fact<Report<Data>> {
    let recogniser = Recogniser::new(host);
    let listing = Listing::new(redactor);
    let scanned = host.scan(|process| {
        let stat = process.stat().ok()?;
        let exe = process.exe();
        let look = recogniser.look(process, &stat, &exe);
        let born = query.all.then(|| born(host, &listing, process, &stat, query.names));
        Some(((stat, look), (exe, born)))
    })?;
    let (looks, rest): (Vec<(Stat, Look)>, Vec<_>) = scanned.into_iter().unzip();
    let seen = recogniser.relate(&looks);
    let mut users = HashMap::new();
    for (stat, _) in &looks {
        users.entry(stat.euid).or_insert_with(|| host.user_name(stat.euid));
    }
    let row = |(((stat, look), (exe, born)), seen): (Scanned, Option<Seen>)| {
        if !query.all && seen.is_none() || !query.narrow.admits(host, &stat, seen.as_ref().map_or("", |seen| &seen.agent)) {
            return None;
        }
        let born = born.unwrap_or_else(|| self::born(host, &listing, &host.process(stat.pid), &stat, query.names));
        let user = users.get(&stat.euid).cloned().flatten();
        Some(row(host, stat, look, &exe, seen, born, user))
    };
    let processes: Vec<Row> = looks.into_par_iter().zip(rest).zip(seen).with_min_len(128).filter_map(row).collect();
    let mut report = Report::new("ps", Data { processes });
    report.notes.extend(super::hidden(host));
    let hidden = report.data.processes.iter().filter(|row| row.unreadable.is_some()).count();
    if hidden > 0 {
        let whose = if host.machine().uid == 0 { "" } else { " (other users'); root can" };
        report.notes.push(format!("{hidden} of {} environments could not be read{whose}", report.data.processes.len()));
    }
    Ok(report)
}

fn row(host: &Host, stat: Stat, look: Look, exe: &Fact<Exe>, seen: Option<Seen>, born: Born, user: Option<String>) -> Row {
    let machine = host.machine();
    let product_version = look.identity.ok().flatten().and_then(|identity| identity.version);
    let (agent, role, mode, session_id) = match seen {
        Some(seen) => (Some(seen.agent), seen.role, seen.mode, seen.session_id),
        None => (None, Role::Other, None, None),
    };
    Row {
        pid: stat.pid,
        start_time: rfc3339(machine.started_ms(stat.start_ticks)),
        start_ticks: stat.start_ticks,
        comm: stat.comm.lossy().into_owned(),
        agent,
        role,
        mode,
        product_version,
        uid: stat.euid,
        user,
        exe: exe.as_ref().ok().map(|exe| String::from_utf8_lossy(redact::place(&exe.shown())).into_owned()),
        session_id,
        age_ms: machine.age_ms(stat.start_ticks),
        birth: born.birth,
        names: born.names,
        unreadable: born.unreadable,
    }
}

/// What one look at a process told.
type Scanned = ((Stat, Look), (Fact<Exe>, Option<Born>));

/// What the environment and the control groups of a process tell.
struct Born {
    birth: Birth,
    names: Option<Names>,
    unreadable: Option<String>,
}

fn born(host: &Host, listing: &Listing<'_>, process: &Proc<'_>, stat: &Stat, names: bool) -> Born {
    if stat.kernel_thread {
        return Born { birth: Birth::default(), names: names.then(Names::default), unreadable: None };
    }
    let read = if host.reads_blocks() {
        process.environ_block(|block| {
            let birth = process.cgroup_block(|cgroup| birth::from_raw(block, cgroup, stat));
            (birth.unwrap_or_else(|_| birth::from_raw(block, b"", stat)), names.then(|| listing.in_block(block)))
        })
    } else {
        process.environ().map(|environ: Environ| {
            let named = environ.entries.iter().filter(|entry| entry.value.is_some()).map(|entry| entry.name.as_bytes());
            let listed = names.then(|| listing.of(named));
            (birth::birth(host, process, stat, Some(&environ)), listed)
        })
    };
    match read {
        Ok((birth, names)) => Born { birth, names, unreadable: None },
        Err(reason) => {
            let unreadable = if reason == Unknown::Gone { None } else { Some(reason.to_string()) };
            Born { birth: birth::birth(host, process, stat, None), names: None, unreadable }
        }
    }
}

/// Which names may be shown: the lines of a key that was taken for an environment have secrets before their `=`.
struct Listing<'r> {
    redactor: &'r Redactor,
    /// Longer names that were judged fit: a machine has the same few in thousands of environments.
    fit: RwLock<HashSet<Vec<u8>>>,
}

impl Listing<'_> {
    /// Names to remember; a machine with more has them judged each time.
    const MANY: usize = 4096;

    fn new(redactor: &Redactor) -> Listing<'_> {
        Listing { redactor, fit: RwLock::default() }
    }

    fn of<'a>(&self, names: impl Iterator<Item = &'a [u8]>) -> Names {
        let mut packed = Vec::with_capacity(1024);
        let mut new = Vec::new();
        let fit = self.fit.read().unwrap_or_else(PoisonError::into_inner);
        for name in names.filter(|name| !name.is_empty()) {
            // A short name is judged faster than it is looked up.
            let long = name.len() >= 16;
            if !(long && fit.contains(name)) {
                if self.redactor.name(name).is_err() {
                    continue;
                }
                if long && fit.len() < Listing::MANY {
                    new.push(name.to_vec());
                }
            }
            packed.extend_from_slice(name);
            packed.push(0);
        }
        drop(fit);
        if !new.is_empty() {
            self.fit.write().unwrap_or_else(PoisonError::into_inner).extend(new);
        }
        packed.shrink_to_fit();
        Names(packed)
    }

    fn in_block(&self, block: &[u8]) -> Names {
        let mut start = 0;
        // What stands behind the last NUL is an entry too when the block was cut off.
        self.of(memchr::memchr_iter(0, block).chain(std::iter::once(block.len())).filter_map(|end| {
            let part = &block[std::mem::replace(&mut start, end + 1)..end];
            Some(&part[..memchr::memchr(b'=', part)?])
        }))
    }
}
