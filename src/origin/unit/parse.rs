//! The text of unit files and of the files that EnvironmentFile= names.

use serde::{Deserialize, Serialize};

use crate::host::snapshot::Mask;
use crate::host::{Entry, Environ, Raw};

/// A line of a unit file that speaks of the environment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Directive {
    /// Environment=: assignments; none at all takes back all before it.
    Environment(Vec<Entry>),
    /// EnvironmentFile=: a path; none takes back all before it.
    File {
        /// The path, without the mark of an optional file.
        path: Option<String>,
        /// The file may be absent (a leading `-`).
        optional: bool,
    },
    /// PassEnvironment=: names; none takes back all before it.
    Pass(Vec<Raw>),
    /// UnsetEnvironment=: names or assignments; none takes back all before it.
    Unset(Vec<Raw>),
}

impl Directive {
    /// The path of EnvironmentFile=.
    pub(super) fn file(&self) -> Option<String> {
        match self {
            Directive::File { path, .. } => path.clone(),
            _ => None,
        }
    }
}

/// What a snapshot keeps of directives.
pub(super) fn masked(mask: &dyn Mask, directives: &[Directive]) -> Vec<Directive> {
    let keep = |directive: &Directive| match directive {
        Directive::Environment(entries) => Directive::Environment(masked_entries(mask, entries)),
        // An entry of UnsetEnvironment= may hold a value; the name is what the tool needs.
        Directive::Unset(unset) => Directive::Unset(unset.iter().map(|raw| Raw::from(super::name_of(raw))).collect()),
        other => other.clone(),
    };
    directives.iter().map(keep).collect()
}

/// What a snapshot keeps of assignments.
pub(super) fn masked_entries(mask: &dyn Mask, entries: &[Entry]) -> Vec<Entry> {
    mask.environ(&Environ { entries: entries.to_vec(), overwritten: false }).entries
}

/// The directives of a unit file, in order.
pub(super) fn unit_file(bytes: &[u8]) -> Vec<Directive> {
    let mut directives = Vec::new();
    for line in logical_lines(bytes) {
        let Some(at) = memchr::memchr(b'=', &line) else { continue };
        let value = line[at + 1..].trim_ascii();
        let raws = || words(value).into_iter().map(Raw).collect();
        match line[..at].trim_ascii() {
            b"Environment" => {
                let entries: Vec<Entry> = words(value).iter().map(|word| Entry::parse(word)).filter(is_assignment).collect();
                // A line whose assignments are all malformed is ignored, it is not the empty line that resets.
                if value.is_empty() || !entries.is_empty() {
                    directives.push(Directive::Environment(entries));
                }
            }
            b"EnvironmentFile" => {
                let (path, optional) = value.strip_prefix(b"-").map_or((value, false), |path| (path, true));
                let path = (!path.is_empty()).then(|| String::from_utf8_lossy(path).into_owned());
                directives.push(Directive::File { path, optional });
            }
            b"PassEnvironment" => directives.push(Directive::Pass(raws())),
            b"UnsetEnvironment" => directives.push(Directive::Unset(raws())),
            _ => {}
        }
    }
    directives
}

fn is_assignment(entry: &Entry) -> bool {
    let name = entry.name.as_bytes();
    let first_is_letter = name.first().is_some_and(|first| !first.is_ascii_digit());
    entry.value.is_some() && first_is_letter && name.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_')
}

/// Lines without comments; a backslash at the end joins the next line, over comments in between.
fn logical_lines(bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut lines = Vec::new();
    let mut open: Option<Vec<u8>> = None;
    for line in bytes.split(|&byte| byte == b'\n') {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if matches!(line.trim_ascii_start().first(), Some(b'#' | b';')) {
            continue;
        }
        let (body, joined) = line.strip_suffix(b"\\").map_or((line, false), |body| (body, true));
        let mut whole = open.take().unwrap_or_default();
        whole.extend_from_slice(body);
        if joined {
            whole.push(b' ');
            open = Some(whole);
        } else {
            lines.push(whole);
        }
    }
    lines.extend(open);
    lines
}

/// Splits at white space, with quotes and C escapes as systemd.syntax(7) has them.
pub(super) fn words(text: &[u8]) -> Vec<Vec<u8>> {
    let mut words = Vec::new();
    let mut word: Option<Vec<u8>> = None;
    let mut quote = None;
    let mut rest = text;
    while let Some((&first, behind)) = rest.split_first() {
        rest = behind;
        match (first, quote) {
            (b'\\', _) => {
                let (bytes, behind) = escape(rest);
                word.get_or_insert_default().extend(bytes);
                rest = behind;
            }
            (byte, Some(mark)) if byte == mark => quote = None,
            (b'"' | b'\'', None) => {
                quote = Some(first);
                word.get_or_insert_default();
            }
            (byte, None) if byte.is_ascii_whitespace() => words.extend(word.take()),
            (byte, _) => word.get_or_insert_default().push(byte),
        }
    }
    words.extend(word);
    words
}

/// What stands for an escape, and what stands behind it.
fn escape(rest: &[u8]) -> (Vec<u8>, &[u8]) {
    let Some((&first, behind)) = rest.split_first() else { return (b"\\".to_vec(), rest) };
    let digits = |count: usize, radix: u32, text: &[u8]| {
        let text = std::str::from_utf8(text.get(..count)?).ok()?;
        text.bytes().all(|byte| (byte as char).is_digit(radix)).then(|| u32::from_str_radix(text, radix).ok()).flatten()
    };
    let single = match first {
        b'a' => 7,
        b'b' => 8,
        b'f' => 12,
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'v' => 11,
        b's' => b' ',
        b'\\' | b'"' | b'\'' => first,
        b'x' => match digits(2, 16, behind) {
            Some(code) => return (vec![code as u8], &behind[2..]),
            None => return (vec![b'\\', first], behind),
        },
        b'0'..=b'3' => match digits(3, 8, rest) {
            Some(code) => return (vec![code as u8], &rest[3..]),
            None => return (vec![b'\\', first], behind),
        },
        b'u' | b'U' => {
            let count = if first == b'u' { 4 } else { 8 };
            match digits(count, 16, behind).and_then(char::from_u32) {
                Some(letter) => return (letter.to_string().into_bytes(), &behind[count..]),
                None => return (vec![b'\\', first], behind),
            }
        }
        _ => return (vec![b'\\', first], behind),
    };
    (vec![single], behind)
}

/// The assignments of a file that EnvironmentFile= names (systemd.exec(5)): quotes like a shell's, no expansion.
pub(super) fn environment_file(bytes: &[u8]) -> Vec<Entry> {
    let mut entries = Vec::new();
    let mut rest = bytes;
    while !rest.is_empty() {
        let line = rest.trim_ascii_start();
        let end = memchr::memchr(b'\n', line).unwrap_or(line.len());
        if matches!(line.first(), Some(b'#' | b';')) {
            rest = &line[end..];
            continue;
        }
        match memchr::memchr(b'=', &line[..end]) {
            Some(at) => {
                let (value, behind) = shell_value(&line[at + 1..]);
                let entry = Entry::parse(&[line[..at].trim_ascii(), b"=", &value].concat());
                entries.extend(Some(entry).filter(is_assignment));
                rest = behind;
            }
            None => rest = &line[end..],
        }
    }
    entries
}

fn shell_value(text: &[u8]) -> (Vec<u8>, &[u8]) {
    let mut value = Vec::new();
    // Blanks at the end of an unquoted value do not belong to it.
    let mut kept = 0;
    let mut quote = None;
    let mut rest = text;
    while let Some((&first, behind)) = rest.split_first() {
        rest = behind;
        match (first, quote) {
            (b'\n', None) => break,
            (byte, Some(mark)) if byte == mark => quote = None,
            (b'"' | b'\'', None) => quote = Some(first),
            (b'\\', None | Some(b'"')) => {
                if let Some((&next, behind)) = rest.split_first() {
                    rest = behind;
                    if next != b'\n' {
                        if quote.is_some() && !b"\"\\`$".contains(&next) {
                            value.push(b'\\');
                        }
                        value.push(next);
                    }
                }
            }
            (byte, None) if byte.is_ascii_whitespace() && value.is_empty() && kept == 0 => continue,
            (byte, _) => value.push(byte),
        }
        if quote.is_some() || !first.is_ascii_whitespace() {
            kept = value.len();
        }
    }
    value.truncate(kept);
    (value, rest)
}
