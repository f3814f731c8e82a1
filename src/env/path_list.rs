//! PATH and its like as lists: what is in them, and how two of them differ. Pure: no file system is asked.

use std::collections::HashSet;

use crate::host::Raw;

/// A list of directories separated by colons.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PathList {
    /// The entries in order, empty ones included.
    pub entries: Vec<Raw>,
}

impl PathList {
    /// Splits a value. An empty value is no entry at all: a shell then searches nothing, not the working directory.
    pub fn parse(value: &[u8]) -> PathList {
        if value.is_empty() {
            return PathList::default();
        }
        PathList { entries: value.split(|&byte| byte == b':').map(Raw::from).collect() }
    }

    /// How many entries are empty, which means the working directory.
    pub fn empty(&self) -> usize {
        self.entries.iter().filter(|entry| entry.as_bytes().is_empty()).count()
    }

    /// Entries that depend on the working directory and are not empty.
    pub fn relative(&self) -> Vec<&Raw> {
        self.entries.iter().filter(|entry| !entry.as_bytes().is_empty() && !entry.as_bytes().starts_with(b"/")).collect()
    }

    /// Entries that stand there again, each once.
    pub fn duplicates(&self) -> Vec<&Raw> {
        let (mut seen, mut told) = (HashSet::new(), HashSet::new());
        self.entries.iter().filter(|entry| !seen.insert(plain(entry)) && told.insert(plain(entry))).collect()
    }

    /// The entries without repetitions, in the order in which they are searched.
    pub fn distinct(&self) -> Vec<&Raw> {
        let mut seen = HashSet::new();
        self.entries.iter().filter(|entry| seen.insert(plain(entry))).collect()
    }
}

/// Without slashes at the end: they change nothing.
fn plain(entry: &Raw) -> &[u8] {
    let bytes = entry.as_bytes();
    let end = bytes.iter().rposition(|&byte| byte != b'/').map_or(bytes.len().min(1), |last| last + 1);
    &bytes[..end]
}

/// How two lists differ.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PathDifference {
    /// Entries that only the first has, in its order.
    pub only_a: Vec<Raw>,
    /// Entries that only the second has, in its order.
    pub only_b: Vec<Raw>,
    /// Whether the entries that both have are searched in another order.
    pub reordered: bool,
}

impl PathDifference {
    /// Whether a program is found the same way by both.
    pub fn is_none(&self) -> bool {
        self.only_a.is_empty() && self.only_b.is_empty() && !self.reordered
    }
}

/// Compares two lists, repetitions apart.
pub fn diff(a: &PathList, b: &PathList) -> PathDifference {
    let (a, b) = (a.distinct(), b.distinct());
    let (in_a, in_b) = (set(&a), set(&b));
    let without = |list: &[&Raw], other: &HashSet<&[u8]>| -> Vec<Raw> {
        list.iter().filter(|entry| !other.contains(plain(entry))).map(|entry| (*entry).clone()).collect()
    };
    let common_a = a.iter().map(|entry| plain(entry)).filter(|entry| in_b.contains(entry));
    let common_b = b.iter().map(|entry| plain(entry)).filter(|entry| in_a.contains(entry));
    PathDifference { only_a: without(&a, &in_b), only_b: without(&b, &in_a), reordered: !common_a.eq(common_b) }
}

fn set<'a>(list: &[&'a Raw]) -> HashSet<&'a [u8]> {
    list.iter().map(|entry| plain(entry)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown<'a>(list: impl IntoIterator<Item = &'a Raw>) -> Vec<String> {
        list.into_iter().map(|entry| entry.lossy().into_owned()).collect()
    }

    #[test]
    fn r24_a_version_managers_directory_is_missing() {
        let daemon = PathList::parse(b"/usr/local/bin:/usr/bin:/bin");
        let terminal = PathList::parse(b"/home/u/.nvm/versions/node/v22/bin:/usr/local/bin:/usr/bin:/bin");
        let difference = diff(&daemon, &terminal);
        assert_eq!(shown(&difference.only_b), ["/home/u/.nvm/versions/node/v22/bin"]);
        assert!(difference.only_a.is_empty() && !difference.reordered && !difference.is_none());
    }

    #[test]
    fn order_counts_and_repetition_and_last_slashes_do_not() {
        let a = PathList::parse(b"/a:/b:/a/");
        assert!(diff(&a, &PathList::parse(b"/a/:/b")).is_none());
        assert!(diff(&a, &PathList::parse(b"/b:/a")).reordered);
        assert_eq!(shown(a.duplicates()), ["/a/"]);
        assert_eq!(shown(PathList::parse(b"/:/a://").distinct()), ["/", "/a"]);
    }

    #[test]
    fn empty_and_relative_entries_are_told() {
        let list = PathList::parse(b":/usr/bin:node_modules/.bin::");
        assert_eq!((list.empty(), list.entries.len()), (3, 5));
        assert_eq!(shown(list.relative()), ["node_modules/.bin"]);
        assert_eq!(PathList::parse(b"").entries.len(), 0);
    }
}
