//! Which OpenCode plugins are still configured anywhere: what their rows in a store outlive is judged by it.
//!
//! A plugin is named in `"plugin"` (1.x) or `"plugins"` (preview, 2.x) of `opencode.json[c]`, or lies as a file in `plugin/` or `plugins/` of a
//! config directory or of a project's `.opencode`. Its id is what its module exports, so a file is searched for the id; what a package from
//! npm exports is not known from its name alone.

use std::collections::BTreeSet;
use std::os::unix::ffi::OsStrExt;

use serde::{Deserialize, Serialize};

use crate::host::{Host, Raw, Unknown, View};

/// What the configurations say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Configured {
    /// Ids that are named, or that stand in a plugin's source.
    names: BTreeSet<String>,
    /// What could not be read or understood, so that "no" cannot be said.
    pub unknown: Vec<String>,
    /// Files that were read.
    pub read: Vec<String>,
    /// Directories without any.
    pub without: Vec<String>,
}

/// What a config file names.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Named {
    /// Entries as they are written.
    pub entries: Vec<String>,
}

/// Words in quotes of a plugin's source, which its id is among.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Words {
    words: Vec<String>,
}

impl Configured {
    /// Whether a plugin is configured: `yes`, `no`, or `unknown`.
    pub fn word(&self, plugin: &str) -> &'static str {
        match (self.names.contains(plugin), self.unknown.is_empty()) {
            (true, _) => "yes",
            (false, true) => "no",
            (false, false) => "unknown",
        }
    }

    /// Reads the configurations in these directories and files; for projects in the directory itself, in its `.opencode`, and in every directory
    /// above, as the host does (next-16350: from a session's directory up to `/`).
    pub fn read(host: &Host, view: View, config_dirs: &[Raw], config_files: &[Raw], projects: &[Raw]) -> Configured {
        let mut configured = Configured::default();
        for dir in config_dirs {
            configured.dir(host, view, dir);
        }
        for file in config_files {
            let dir = file.as_path().parent().map_or_else(|| Raw::from("/"), |dir| Raw::from(dir.as_os_str().as_bytes()));
            configured.file(host, view, file, &dir);
        }
        let mut looked = BTreeSet::new();
        for project in projects {
            for dir in project.as_path().ancestors() {
                // Those above it were looked at with it.
                if !looked.insert(dir) {
                    break;
                }
                let dir = Raw::from(dir.as_os_str().as_bytes().strip_suffix(b"/").unwrap_or(dir.as_os_str().as_bytes()));
                configured.files(host, view, &dir);
                configured.dir(host, view, &join(&dir, ".opencode"));
            }
        }
        configured
    }

    fn dir(&mut self, host: &Host, view: View, dir: &Raw) {
        self.files(host, view, dir);
        for name in ["plugin", "plugins"] {
            let dir = join(dir, name);
            match host.listing(view, dir.as_bytes()) {
                Ok(names) => names.iter().for_each(|name| self.source(host, view, &Raw([dir.as_bytes(), b"/", name.as_bytes()].concat()))),
                Err(reason) if reason.is_absence() => {}
                Err(reason) => self.unknown.push(format!("{}: {reason}", dir.lossy())),
            }
        }
    }

    fn files(&mut self, host: &Host, view: View, dir: &Raw) {
        let before = self.read.len() + self.unknown.len();
        for name in ["opencode.json", "opencode.jsonc", "config.json"] {
            self.file(host, view, &join(dir, name), dir);
        }
        if self.read.len() + self.unknown.len() == before {
            self.without.push(dir.lossy().into_owned());
        }
    }

    fn file(&mut self, host: &Host, view: View, path: &Raw, dir: &Raw) {
        let document = match host.document(view, path.as_bytes(), parse) {
            Ok(document) => document,
            Err(reason) if reason.is_absence() => return,
            Err(reason) => {
                self.unknown.push(format!("{}: {reason}", path.lossy()));
                return;
            }
        };
        self.read.push(path.lossy().into_owned());
        match document.content {
            Ok(named) => named.entries.iter().for_each(|entry| self.entry(host, view, dir, entry)),
            Err(reason) => self.unknown.push(format!("{}: {reason}", path.lossy())),
        }
    }

    fn entry(&mut self, host: &Host, view: View, dir: &Raw, entry: &str) {
        let local = entry.strip_prefix("file://").or_else(|| (entry.starts_with('/') || entry.starts_with('.')).then_some(entry));
        match local {
            Some(path) if path.starts_with('/') => self.source(host, view, &Raw::from(path)),
            Some(path) => self.source(host, view, &join(dir, path)),
            None => {
                // `name@1.2.3`, `@scope/name@1.2.3`: the id may be another one.
                let name = entry.rfind('@').filter(|at| *at > 0).map_or(entry, |at| &entry[..at]);
                self.names.insert(name.to_owned());
                self.unknown.push(format!("{entry}: what this package calls itself is not known from its name"));
            }
        }
    }

    /// A plugin on disk: a file, or a folder with its module.
    fn source(&mut self, host: &Host, view: View, path: &Raw) {
        let is_module = |name: &Raw| [".js", ".ts", ".mjs", ".cjs", ".json"].iter().any(|end| name.as_bytes().ends_with(end.as_bytes()));
        let files = match host.listing(view, path.as_bytes()) {
            Ok(names) => {
                let inner = ["src", "dist"].iter().flat_map(|sub| {
                    let sub = join(path, sub);
                    let names = host.listing(view, sub.as_bytes()).unwrap_or_default();
                    names.into_iter().map(move |name| Raw([sub.as_bytes(), b"/", name.as_bytes()].concat())).collect::<Vec<_>>()
                });
                let own = names.iter().map(|name| Raw([path.as_bytes(), b"/", name.as_bytes()].concat()));
                own.chain(inner).filter(is_module).take(64).collect()
            }
            Err(Unknown::NotPermitted) => {
                self.unknown.push(format!("{}: {}", path.lossy(), Unknown::NotPermitted));
                return;
            }
            Err(_) => vec![path.clone()],
        };
        if files.is_empty() {
            self.unknown.push(format!("{}: no module in it", path.lossy()));
        }
        for file in files {
            match host.document(view, file.as_bytes(), words) {
                Ok(document) => match document.content {
                    Ok(words) => self.names.extend(words.words),
                    Err(reason) => self.unknown.push(format!("{}: {reason}", file.lossy())),
                },
                Err(reason) => self.unknown.push(format!("{}: {reason}", file.lossy())),
            }
        }
    }
}

fn join(dir: &Raw, name: &str) -> Raw {
    Raw([dir.as_bytes(), b"/", name.as_bytes()].concat())
}

/// What a config file says of plugins; comments and trailing commas are allowed in it. Nothing else of it is kept.
///
/// # Errors
/// When it is no JSON. The message quotes nothing of it.
pub fn parse(bytes: &[u8]) -> Result<Named, String> {
    let text = std::str::from_utf8(bytes).map_err(|_| "it is not UTF-8".to_owned())?;
    let value: serde_json::Value = serde_json::from_str(&plain(text)).map_err(|error| format!("it is no JSON (line {})", error.line()))?;
    let lists = ["plugin", "plugins"].iter().filter_map(|key| value.get(key)?.as_array()).flatten();
    // An entry is a name, or a list of a name and its options.
    let entries = lists.filter_map(|entry| entry.as_str().or_else(|| entry.get(0)?.as_str()).or_else(|| entry.get("name")?.as_str()));
    Ok(Named { entries: entries.map(str::to_owned).collect() })
}

/// JSON with comments and trailing commas as JSON; lines stay where they are.
fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    let mut in_string = false;
    while let Some(char) = chars.next() {
        match char {
            '\\' if in_string => {
                out.push(char);
                out.extend(chars.next());
            }
            '"' => {
                in_string = !in_string;
                out.push(char);
            }
            '/' if !in_string && chars.peek() == Some(&'/') => {
                while chars.peek().is_some_and(|next| *next != '\n') {
                    chars.next();
                }
            }
            '/' if !in_string && chars.peek() == Some(&'*') => {
                let mut last = ' ';
                chars.next();
                for next in chars.by_ref() {
                    if next == '\n' {
                        out.push('\n');
                    }
                    if last == '*' && next == '/' {
                        break;
                    }
                    last = next;
                }
            }
            ']' | '}' if !in_string => {
                let kept = out.trim_end().len();
                if out[..kept].ends_with(',') {
                    out.replace_range(kept - 1..kept, " ");
                }
                out.push(char);
            }
            _ => out.push(char),
        }
    }
    out
}

/// The words in quotes of a module, as far as they could be an id.
fn words(bytes: &[u8]) -> Result<Words, String> {
    const MANY: usize = 20_000;
    let mut words = BTreeSet::new();
    let mut rest = bytes;
    while let Some(at) = memchr::memchr3(b'"', b'\'', b'`', rest) {
        let (quote, after) = (rest[at], &rest[at + 1..]);
        let end = after.iter().take(128).position(|byte| *byte == quote || *byte == b'\n');
        match end.filter(|end| after[*end] == quote) {
            Some(end) => {
                let word = &after[..end];
                // An id is a word; a text, or anything that could be a secret, is none.
                let id =
                    !word.is_empty() && word.len() <= 64 && word.iter().all(|byte| byte.is_ascii_alphanumeric() || b"-_./@".contains(byte));
                if id && words.len() < MANY && crate::redact::secret(b"", word, false).is_none() {
                    words.insert(String::from_utf8_lossy(word).into_owned());
                }
                rest = &after[end + 1..];
            }
            None => rest = after,
        }
    }
    Ok(Words { words: words.into_iter().collect() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_config_of_either_line_with_comments() {
        let named = parse(b"{ // mine\n \"plugin\": [\"a@1.0.0\", /* b */ [\"@s/b\", {}],], \"plugins\": [\"file:///x\"],\n}").unwrap();
        assert_eq!(named.entries, ["a@1.0.0", "@s/b", "file:///x"]);
        assert_eq!(parse(b"{\"url\": \"http://x//y,]\"}").unwrap().entries, [""; 0]);
        assert!(parse(b"{\"plugin\": [}").is_err());
    }

    #[test]
    fn an_id_is_a_word_in_quotes() {
        let found = words(b"export default { id: 'opencode-team', apiKey: \"sk-ant-REDACTED\", text: \"two words\" }").unwrap();
        assert_eq!(found.words, ["opencode-team"]);
    }

    proptest::proptest! {
        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..200), text in "[\\[\\]{},\"/* \n\\\\a]{0,60}") {
            let _ = (parse(&bytes), words(&bytes), plain(&text));
        }
    }
}
