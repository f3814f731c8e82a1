//! PATH as what it is for: which directories are there, which programs they hold, which one wins.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use schemars::JsonSchema;
use serde::Serialize;

use crate::env::path_list::{self, PathList};
use crate::host::{Fact, FileKind, Raw, Unknown};
use crate::origin::Carrier;
use crate::redact::Redactor;

/// A program found on PATH.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Which directory of PATH, from 0.
    pub index: usize,
    /// The directory.
    pub dir: Vec<u8>,
    /// The program.
    pub name: Vec<u8>,
}

impl Found {
    /// The whole path, for messages.
    pub fn path(&self) -> String {
        format!("{}/{}", String::from_utf8_lossy(&self.dir).trim_end_matches('/'), String::from_utf8_lossy(&self.name))
    }
}

/// A carrier's PATH, where it may be shown: a directory of a masked one would tell of it.
///
/// # Errors
/// [`Unknown::Absent`] when PATH is not set, [`Unknown::Masked`] when it may not be shown.
fn path<'e>(carrier: &Carrier<'e>, redactor: &Redactor) -> Fact<&'e [u8]> {
    let path = carrier.environ.get("PATH").ok_or(Unknown::Absent)?.clear().ok_or(Unknown::Masked)?;
    redactor.value(b"PATH", path).map(|()| path).map_err(|_| Unknown::Masked)
}

/// The directories of a carrier's PATH in order, empty and relative ones left out: what those mean depends on the cwd.
///
/// # Errors
/// [`Unknown::Absent`] when PATH is not set, [`Unknown::Masked`] when it may not be shown.
pub fn directories(carrier: &Carrier<'_>, redactor: &Redactor) -> Fact<Vec<Vec<u8>>> {
    let path = path(carrier, redactor)?;
    Ok(path.split(|&byte| byte == b':').filter(|dir| dir.first() == Some(&b'/')).map(<[u8]>::to_vec).collect())
}

/// The program that a carrier gets when it names one.
///
/// # Errors
/// When PATH is not set or masked, or a directory before the first hit could not be read.
pub fn find(carrier: &Carrier<'_>, redactor: &Redactor, name: &[u8]) -> Fact<Option<Found>> {
    for (index, dir) in directories(carrier, redactor)?.into_iter().enumerate() {
        match carrier.host.programs(carrier.view, &dir) {
            Ok(programs) if programs.binary_search_by(|program| program.as_bytes().cmp(name)).is_ok() => {
                return Ok(Some(Found { index, dir, name: name.to_vec() }));
            }
            Ok(_) => {}
            // A directory that is not there, or that the shell may not search either, holds nothing.
            Err(reason) if reason.is_absence() => {}
            Err(reason) => return Err(reason),
        }
    }
    Ok(None)
}

/// How one PATH stands to another.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct PathReport {
    /// Directories that only the daemon's PATH names, in order.
    pub only_daemon: Vec<String>,
    /// Directories that only the terminal's PATH names, in order.
    pub only_terminal: Vec<String>,
    /// The directories that both name are searched in another order.
    pub reordered: bool,
    /// Entries of the daemon's PATH that depend on the working directory: empty or relative ones.
    pub relative: Vec<String>,
    /// Directories of the daemon's PATH that are not there.
    pub missing: Vec<String>,
    /// Those of them that the terminal's PATH names in vain as well: a restart from there changes nothing.
    #[serde(skip)]
    pub missing_here_too: Vec<String>,
    /// Directories of the daemon's PATH that could not be looked at, with the reason.
    pub unknown: Vec<String>,
    /// Programs that resolve differently, by the two directories that decide.
    pub different: Vec<Different>,
}

/// Programs that come from one directory here and from another, or none, there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Different {
    /// Where the daemon finds them; absent where it finds none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub daemon: Option<String>,
    /// Where the terminal finds them; absent where it finds none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub terminal: Option<String>,
    /// Their names, sorted.
    pub programs: Vec<String>,
}

/// Compares the PATH of a daemon with a terminal's.
///
/// # Errors
/// [`Unknown::Absent`] when the daemon has no PATH, [`Unknown::Masked`] when that may not be shown.
pub fn compare(daemon: &Carrier<'_>, terminal: &Carrier<'_>, redactor: &Redactor) -> Fact<PathReport> {
    let ours = directories(daemon, redactor)?;
    let theirs = directories(terminal, redactor);
    let own = PathList::parse(path(daemon, redactor)?);
    let empty = std::iter::repeat_n(String::new(), own.empty());
    let relative = own.relative().into_iter().map(|entry| shown(entry.as_bytes())).chain(empty).collect();
    let mut report = PathReport { relative, ..PathReport::default() };
    for dir in &ours {
        match daemon.host.path(daemon.view, dir) {
            Ok(fact) if fact.kind == FileKind::Directory => {}
            Ok(_) => report.missing.push(shown(dir)),
            Err(reason) if reason.is_absence() => report.missing.push(shown(dir)),
            Err(reason) => report.unknown.push(format!("{}: {reason}", shown(dir))),
        }
    }
    report.missing.dedup();
    let lacks = |dir: &[u8]| match terminal.host.path(terminal.view, dir) {
        Ok(fact) => fact.kind != FileKind::Directory,
        Err(reason) => reason.is_absence(),
    };
    let here_too = theirs.iter().flatten().filter(|dir| lacks(dir)).map(|dir| shown(dir));
    report.missing_here_too = here_too.filter(|dir| report.missing.contains(dir)).collect();
    // One that was not captured, or does not answer, may hold any program.
    for (carrier, dirs) in [(daemon, &ours), (terminal, theirs.as_ref().unwrap_or(&ours))] {
        let unread = dirs.iter().filter_map(|dir| Some((dir, unread(carrier, dir)?)));
        report.unknown.extend(unread.map(|(dir, reason)| format!("{}: {reason}", shown(dir))));
    }
    report.unknown.sort_unstable();
    report.unknown.dedup();
    // With a terminal's that is masked there is nothing to compare.
    if theirs == Err(Unknown::Masked) || theirs.as_ref() == Ok(&ours) && daemon.view == terminal.view {
        return Ok(report);
    }
    let theirs = theirs.unwrap_or_default();
    let other = PathList::parse(path(terminal, redactor).unwrap_or_default());
    let difference = path_list::diff(&own, &other);
    report.only_daemon = difference.only_a.iter().map(|dir| shown(dir.as_bytes())).collect();
    report.only_terminal = difference.only_b.iter().map(|dir| shown(dir.as_bytes())).collect();
    report.reordered = difference.reordered;
    let complete = |carrier: &Carrier<'_>, dirs: &[Vec<u8>]| dirs.iter().all(|dir| unread(carrier, dir).is_none());
    if !theirs.is_empty() && complete(daemon, &ours) && complete(terminal, &theirs) {
        report.different = different(daemon, &ours, terminal, &theirs);
    }
    Ok(report)
}

/// Why it is not known what is in a directory; none where it is known, and where this account may not look: then its shell may not either.
fn unread(carrier: &Carrier<'_>, dir: &[u8]) -> Option<Unknown> {
    let decides = |reason: &Unknown| !reason.is_absence() && *reason != Unknown::NotPermitted;
    let kind = carrier.host.path(carrier.view, dir);
    kind.err().or_else(|| carrier.host.programs(carrier.view, dir).err()).filter(decides)
}

fn different(daemon: &Carrier<'_>, ours: &[Vec<u8>], terminal: &Carrier<'_>, theirs: &[Vec<u8>]) -> Vec<Different> {
    let (ours, theirs) = (places(daemon, ours), places(terminal, theirs));
    if ours.iter().map(|place| place.identity).eq(theirs.iter().map(|place| place.identity)) {
        return Vec::new();
    }
    let daemon_programs = resolution(&ours);
    let mut groups = BTreeMap::<(Option<&[u8]>, Option<&[u8]>), Vec<String>>::new();
    for (name, theirs) in resolution(&theirs) {
        let ours = daemon_programs.get(name);
        if ours.map(|place| place.identity) == Some(theirs.identity) {
            continue;
        }
        groups.entry((ours.map(|place| place.dir), Some(theirs.dir))).or_default().push(name.lossy().into_owned());
    }
    groups
        .into_iter()
        .map(|((daemon, terminal), mut programs)| {
            programs.sort_unstable();
            Different { daemon: daemon.map(shown), terminal: terminal.map(shown), programs }
        })
        .collect()
}

/// A directory and the programs in it. It is known by device and inode: `/bin` and `/usr/bin` are one where one links to
/// the other.
struct Place<'a> {
    dir: &'a [u8],
    identity: (u64, u64),
    programs: Arc<Vec<Raw>>,
}

fn places<'a>(carrier: &Carrier<'_>, dirs: &'a [Vec<u8>]) -> Vec<Place<'a>> {
    let place = |dir: &'a Vec<u8>| {
        let fact = carrier.host.path(carrier.view, dir).ok()?;
        Some(Place { dir, identity: fact.inode, programs: carrier.host.programs(carrier.view, dir).ok()? })
    };
    dirs.iter().filter_map(place).collect()
}

fn resolution<'a>(places: &'a [Place<'a>]) -> HashMap<&'a Raw, &'a Place<'a>> {
    let mut programs = HashMap::new();
    for place in places {
        for name in place.programs.iter() {
            programs.entry(name).or_insert(place);
        }
    }
    programs
}

fn shown(dir: &[u8]) -> String {
    String::from_utf8_lossy(dir).into_owned()
}
