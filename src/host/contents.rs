//! What a few directories hold by name, whole, so that a snapshot can tell of a path nobody asked for that it was not there.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};

use super::deadline;
use super::fact::{Fact, Raw, Unknown};
use super::files::{PathFact, file_of, key_of, steps};
use super::process::View;
use super::snapshot::Captured;
use super::{Host, Source};

/// Names in a directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Contents {
    /// Only names with one of these beginnings are listed; all are where this is empty.
    begin: Vec<String>,
    /// How many there are: a snapshot leaves out names that may not be kept, and then lists fewer.
    count: usize,
    /// The names, sorted.
    names: Vec<Raw>,
}

impl Contents {
    /// Whether it shows that nothing of this name is in the directory.
    fn lacks(&self, name: &[u8]) -> bool {
        let listed = self.begin.is_empty() || self.begin.iter().any(|begin| name.starts_with(begin.as_bytes()));
        listed && self.names.len() == self.count && !self.names.iter().any(|other| other.as_bytes() == name)
    }
}

/// How many symbolic links on the way are followed in a snapshot.
const LINKS: usize = 4;

impl Host {
    /// The names in a directory of ours, and those alone that begin with one of `begin` unless that is empty. From a snapshot that
    /// holds them, paths in this directory that it does not hold otherwise are known to be absent.
    pub fn contents(&self, dir: &[u8], begin: &[&str]) -> Fact<Vec<Raw>> {
        let place = self.place(View::OURS, dir);
        let contents = self.fact(&file_of("contents", View::OURS), &key_of(dir), || {
            let place = place?;
            let mut names = deadline::ask_entries(&place.shown(), move || place.names())?;
            names.retain(|name| begin.is_empty() || begin.iter().any(|begin| name.as_bytes().starts_with(begin.as_bytes())));
            Ok(Contents { begin: begin.iter().map(|begin| (*begin).to_owned()).collect(), count: names.len(), names })
        })?;
        Ok(contents.names)
    }

    /// What a snapshot can tell of a path of which it holds nothing: that it is absent, or what stands at the other name of it that
    /// a symbolic link on the way gives.
    pub(super) fn told_by_directories(&self, view: View, path: &[u8]) -> Fact<PathFact> {
        let Source::Captured(captured) = &self.source else { return Err(Unknown::NotCaptured) };
        // The directories are ours; a fact that was held and is lost is not made up for.
        if view.mount.is_some() || captured.lists(&file_of("paths", view), &key_of(path)) {
            return Err(Unknown::NotCaptured);
        }
        let mut path = path.to_vec();
        let mut seen = HashSet::new();
        while seen.len() < LINKS && seen.insert(path.clone()) {
            if is_absent(captured, &path) {
                return Err(Unknown::Absent);
            }
            let Some(other) = other_name(captured, &path) else { break };
            match captured.get(&file_of("paths", view), &key_of(&other)) {
                Err(Unknown::NotCaptured) => path = other,
                held => return held,
            }
        }
        Err(Unknown::NotCaptured)
    }
}

/// Whether a directory on the way shows that the next step is not in it, or is not there itself.
fn is_absent(captured: &Captured, path: &[u8]) -> bool {
    steps(path).any(|at| {
        let name = path[at + 1..].split(|&byte| byte == b'/').next().unwrap_or_default();
        // `.` and `..` are in every directory and in no list.
        let plain = !matches!(name, b"" | b"." | b"..");
        match captured.get::<Contents>(&file_of("contents", View::OURS), &key_of(&path[..at])) {
            Ok(contents) => plain && contents.lacks(name),
            Err(unknown) => unknown == Unknown::Absent,
        }
    })
}

/// The path with the first symbolic link in it replaced, of those that the snapshot holds.
fn other_name(captured: &Captured, path: &[u8]) -> Option<Vec<u8>> {
    steps(path).find_map(|at| {
        let fact = captured.get::<PathFact>(&file_of("paths", View::OURS), &key_of(&path[..at])).ok()?;
        Some([&fact.aim(&path[..at])?, &path[at..]].concat())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contents(begin: &[&str], count: usize, names: &[&str]) -> Contents {
        Contents {
            begin: begin.iter().map(|begin| (*begin).to_owned()).collect(),
            count,
            names: names.iter().map(|name| Raw::from(*name)).collect(),
        }
    }

    #[test]
    fn only_a_whole_list_shows_that_a_name_is_not_there() {
        assert!(contents(&[], 1, &["X0"]).lacks(b"X78"));
        assert!(!contents(&[], 1, &["X0"]).lacks(b"X0"));
        assert!(!contents(&[], 2, &["X0"]).lacks(b"X78"), "one may not be told");
        assert!(contents(&["tmux-"], 0, &[]).lacks(b"tmux-7"));
        assert!(!contents(&["tmux-"], 0, &[]).lacks(b"other"), "others were not listed");
    }
}
