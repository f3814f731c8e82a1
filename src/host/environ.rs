//! The environment block of a process: bytes, in order, duplicates kept.
//!
//! It is the block that execve was given. A later `setenv` inside the process is invisible, and a
//! process may overwrite its own block (setproctitle, Chromium, sshd), which [`Environ::overwritten`] reports.

use serde::{Deserialize, Serialize};

use super::fact::Raw;

/// An environment block.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Environ {
    /// The entries in the block's own order.
    pub entries: Vec<Entry>,
    /// Whether the process seems to have written over the block.
    pub overwritten: bool,
}

/// One entry of a block.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// What stands before the first `=`; the whole entry where there is none.
    pub name: Raw,
    /// What stands after it; nothing where the entry has no `=`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<Value>,
}

/// A value, or what was kept of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Value {
    /// The bytes.
    Clear(Raw),
    /// What a snapshot keeps of a value that must not be shown.
    Masked(Masked),
}

/// What may be told of a value that must not be shown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Masked {
    /// Its length in bytes.
    pub len: u64,
    /// Keyed per report or snapshot: equal fingerprints inside one mean equal values.
    pub fingerprint: String,
    /// The rule that masked it.
    pub rule: String,
}

impl Value {
    /// The bytes, where they are known.
    pub fn clear(&self) -> Option<&[u8]> {
        match self {
            Value::Clear(raw) => Some(raw.as_bytes()),
            Value::Masked(_) => None,
        }
    }
}

impl Environ {
    /// Parses a block as the kernel gives it: NUL-separated, the last NUL optional.
    pub fn parse(block: &[u8]) -> Environ {
        let body = block.strip_suffix(b"\0").unwrap_or(block);
        if body.is_empty() {
            return Environ { entries: Vec::new(), overwritten: block.len() > 1 };
        }
        let mut entries = Vec::with_capacity(memchr::memchr_iter(0, body).count() + 1);
        entries.extend(body.split(|&byte| byte == 0).map(Entry::parse));
        let empty = |entry: &Entry| entry.value.is_none() && entry.name.as_bytes().is_empty();
        let padding = entries.iter().rev().take_while(|entry| empty(entry)).count();
        if padding > 1 {
            entries.truncate(entries.len() - padding);
        }
        // execve takes entries without `=` and empty ones too. A title written over the block leaves a first entry without `=`
        // and zeroes behind it, or nothing else at all.
        let zeroes = padding > 1 || entries.windows(2).any(|pair| empty(&pair[0]) && empty(&pair[1]));
        let titled = entries.iter().find(|entry| !empty(entry)).is_none_or(|entry| entry.value.is_none());
        let named = entries.iter().any(|entry| entry.value.is_some());
        let overwritten = titled && zeroes || !named;
        if overwritten {
            entries.retain(|entry| !empty(entry));
        }
        Environ { entries, overwritten }
    }

    /// Parses a file of assignments: NUL-separated if it has a NUL, else one a line.
    pub fn parse_file(bytes: &[u8]) -> Environ {
        if memchr::memchr(0, bytes).is_some() {
            return Environ::parse(bytes);
        }
        // What a shell reads with `.` says `export` before the name.
        let assignment = |line: &'_ [u8]| -> Entry {
            let bare = line.strip_prefix(b"export ").map(<[u8]>::trim_ascii_start).filter(|bare| bare.contains(&b'='));
            Entry::parse(bare.unwrap_or(line))
        };
        let entries = bytes.split(|&byte| byte == b'\n').filter(|line| !line.is_empty()).map(assignment).collect();
        Environ { entries, overwritten: false }
    }

    /// The value that `getenv` would give: the first entry of that name.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.entries.iter().find(|entry| entry.name.as_bytes() == name.as_bytes() && entry.value.is_some())?.value.as_ref()
    }

    /// The first value of that name, as bytes, where they are known.
    pub fn bytes(&self, name: &str) -> Option<&[u8]> {
        self.get(name)?.clear()
    }

    /// The first value of that name, as text, where it is known and is text.
    pub fn text(&self, name: &str) -> Option<&str> {
        std::str::from_utf8(self.bytes(name)?).ok()
    }

    /// Like [`Environ::text`], with an empty value counted as unset.
    pub fn filled(&self, name: &str) -> Option<&str> {
        self.text(name).filter(|value| !value.is_empty())
    }
}

impl Entry {
    /// Splits one entry at its first `=`.
    pub fn parse(part: &[u8]) -> Entry {
        match memchr::memchr(b'=', part) {
            // bash exports functions and Windows layers make `=C:=…`: a leading `=` belongs to the name.
            Some(0) => match memchr::memchr(b'=', &part[1..]) {
                Some(at) => Entry { name: Raw::from(&part[..=at]), value: Some(Value::Clear(Raw::from(&part[at + 2..]))) },
                None => Entry { name: Raw::from(part), value: None },
            },
            Some(at) => Entry { name: Raw::from(&part[..at]), value: Some(Value::Clear(Raw::from(&part[at + 1..]))) },
            None => Entry { name: Raw::from(part), value: None },
        }
    }
}

/// The first value of `name` in a raw block, without parsing the rest of it.
pub fn find<'a>(block: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    block.split(|&byte| byte == 0).find_map(|part| part.strip_prefix(name)?.strip_prefix(b"="))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(block: &[u8]) -> Vec<(String, Option<String>)> {
        Environ::parse(block)
            .entries
            .iter()
            .map(|entry| {
                let value = entry.value.as_ref().map(|value| String::from_utf8_lossy(value.clear().unwrap()).into_owned());
                (entry.name.lossy().into_owned(), value)
            })
            .collect()
    }

    fn pair(name: &str, value: &str) -> (String, Option<String>) {
        (name.to_owned(), Some(value.to_owned()))
    }

    #[test]
    fn r01_every_entry_in_order_duplicates_and_newlines_kept() {
        let block = b"B=2\0A=one\ntwo\0B=3\0lonely\0E=\0=C:=C:\\\0X=a=b\0";
        assert_eq!(
            shown(block),
            [
                pair("B", "2"),
                pair("A", "one\ntwo"),
                pair("B", "3"),
                ("lonely".to_owned(), None),
                pair("E", ""),
                pair("=C:", "C:\\"),
                pair("X", "a=b")
            ]
        );
        let environ = Environ::parse(block);
        assert_eq!(environ.text("B"), Some("2"), "getenv answers with the first");
        assert!(!environ.overwritten);
        assert_eq!(environ.text("E"), Some(""));
        assert_eq!(environ.filled("E"), None);
    }

    #[test]
    fn the_last_nul_is_optional_and_an_empty_block_is_no_entry() {
        assert_eq!(shown(b"A=1"), [pair("A", "1")]);
        assert_eq!(shown(b""), []);
        assert_eq!(shown(b"\0"), []);
    }

    #[test]
    fn a_title_written_over_the_block_is_noticed() {
        assert!(Environ::parse(b"nginx: worker process\0\0\0\0\0").overwritten);
        assert!(Environ::parse(b"\0\0\0\0").overwritten);
        assert!(Environ::parse(b"sshd: user [priv]").overwritten);
        assert!(!Environ::parse(b"A=1\0odd\0").overwritten);
        assert!(Environ::parse(b"nginx: worker\0\0\0\0TERM=xterm\0").overwritten);
    }

    #[test]
    fn entries_without_an_equals_sign_and_empty_ones_are_entries() {
        let lone = |name: &str| (name.to_owned(), None);
        let block = b"lonely\0\0A=1\0odd\0";
        assert_eq!(shown(block), [lone("lonely"), lone(""), pair("A", "1"), lone("odd")]);
        assert!(!Environ::parse(block).overwritten);
        assert_eq!(shown(b"A=1\0\0"), [pair("A", "1"), lone("")]);
        assert_eq!(shown(b"A=1\0\0\0\0\0\0"), [pair("A", "1")], "zeroes at the end are no entries");
    }

    #[test]
    fn invalid_utf8_is_kept() {
        let environ = Environ::parse(b"N\xff=v\xfe\0");
        assert_eq!(environ.entries[0].name.as_bytes(), b"N\xff");
        assert_eq!(environ.entries[0].value.as_ref().unwrap().clear().unwrap(), b"v\xfe");
    }

    #[test]
    fn a_file_may_have_lines() {
        let environ = Environ::parse_file(b"A=1\nB=2\n");
        assert_eq!((environ.text("A"), environ.text("B")), (Some("1"), Some("2")));
        let exported = Environ::parse_file(b"export B=3\nexport C\nexported=1\n");
        assert_eq!((exported.text("B"), exported.text("exported"), exported.entries.len()), (Some("3"), Some("1"), 3));
    }

    proptest::proptest! {
        #[test]
        fn parsing_loses_no_byte(parts in proptest::collection::vec(proptest::collection::vec(1u8..=255, 1..20), 0..20)) {
            let mut block = Vec::new();
            for part in &parts {
                block.extend_from_slice(part);
                block.push(0);
            }
            let mut again = Vec::new();
            for entry in Environ::parse(&block).entries {
                again.extend_from_slice(entry.name.as_bytes());
                if let Some(value) = entry.value {
                    again.push(b'=');
                    again.extend_from_slice(value.clear().unwrap());
                }
                again.push(0);
            }
            proptest::prop_assert_eq!(again, block);
        }
    }
}
