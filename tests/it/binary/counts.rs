//! Counts equal grep's, on every real program.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::run::{ran, run, whoseenv, write};

/// What grep says of one string, given in a file since it may hold NUL: lines and occurrences.
fn grep(file: &Path, needle: &[u8]) -> (u64, u64) {
    let mut patterns = tempfile::NamedTempFile::new().unwrap();
    patterns.write_all(needle).unwrap();
    // `-n` with `-o` is both answers in one pass: a line a match, with the number of the line that it is on.
    let mut child = grep_command(&["-a", "-o", "-n", "-F", "-f"], patterns.path(), file).stdout(Stdio::piped()).spawn().unwrap();
    let (mut lines, mut occurrences, mut last) = (0, 0, Vec::new());
    let mut reader = BufReader::new(child.stdout.take().unwrap());
    let mut row = Vec::new();
    while reader.read_until(b'\n', &mut row).unwrap() > 0 {
        let number = row.split(|byte| *byte == b':').next().unwrap();
        occurrences += 1;
        if number != last.as_slice() {
            lines += 1;
            last = number.to_vec();
        }
        row.clear();
    }
    child.wait().unwrap();
    (lines, occurrences)
}

/// The commands of the promise themselves: `grep -acF`, and `grep -aoF | wc -l`.
fn grep_twice(file: &Path, needle: &[u8]) -> (u64, u64) {
    let mut patterns = tempfile::NamedTempFile::new().unwrap();
    patterns.write_all(needle).unwrap();
    let count = grep_command(&["-acF", "-f"], patterns.path(), file).output().unwrap().stdout;
    let mut matches = grep_command(&["-aoF", "-f"], patterns.path(), file).stdout(Stdio::piped()).spawn().unwrap();
    let words = Command::new("wc").arg("-l").stdin(matches.stdout.take().unwrap()).output().unwrap().stdout;
    matches.wait().unwrap();
    let number = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap().trim().parse().unwrap();
    (number(count), number(words))
}

fn grep_command(flags: &[&str], patterns: &Path, file: &Path) -> Command {
    let mut command = Command::new("grep");
    command.args(flags).arg(patterns).arg("--").arg(file).env("LC_ALL", "C");
    command
}

/// What the program says: by string as it was given and encoding, lines and occurrences.
fn scanned(file: &Path, needles: &[Vec<u8>], more: &[&str]) -> HashMap<(String, String), (u64, u64)> {
    let dir = tempfile::tempdir().unwrap();
    let patterns = write(dir.path(), "patterns", &needles.join(&b'\n'));
    let ran = ran(whoseenv(&["binary", "scan", "--json", "--patterns"]).arg(patterns).args(more).arg(file));
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let rows = ran.json()["data"]["patterns"].as_array().unwrap().clone();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let row = |row: &Value| {
        let name = if row["pattern"].is_null() { text(&row["pattern_b64"]) } else { text(&row["pattern"]) };
        ((name, text(&row["encoding"])), (row["lines"].as_u64().unwrap(), row["occurrences"].as_u64().unwrap()))
    };
    rows.iter().map(row).collect()
}

fn name(needle: &[u8]) -> String {
    use base64::Engine;
    match std::str::from_utf8(needle) {
        Ok(text) => text.to_owned(),
        Err(_) => base64::engine::general_purpose::STANDARD.encode(needle),
    }
}

fn wide(text: &str) -> Vec<u8> {
    text.encode_utf16().flat_map(u16::to_le_bytes).collect()
}

/// Numbers without a pattern, the same in every run.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

/// Strings of the file itself: of one byte and of many, next to line breaks, and the file's very end.
fn substrings(path: &Path, count: usize) -> Vec<Vec<u8>> {
    let file = std::fs::File::open(path).unwrap();
    let length = file.metadata().unwrap().len();
    let mut dice = Dice(length);
    let mut needles: Vec<Vec<u8>> = vec![vec![b'\x07'], vec![b'~']];
    let mut end = vec![0; 12];
    file.read_exact_at(&mut end, length - 12).unwrap();
    needles.extend(end.split(|byte| *byte == b'\n').next_back().filter(|end| !end.is_empty()).map(<[u8]>::to_vec));
    while needles.len() < count {
        let mut bytes = vec![0; 4096];
        let read = file.read_at(&mut bytes, dice.below(length)).unwrap();
        bytes.truncate(read);
        let wanted = 2 + dice.below(22) as usize;
        let from = match dice.below(3) {
            // Right behind a line break.
            0 => bytes.iter().position(|byte| *byte == b'\n').map_or(0, |at| at + 1),
            // Right before one.
            1 => bytes.iter().position(|byte| *byte == b'\n').map_or(0, |at| at.saturating_sub(wanted)),
            _ => 0,
        };
        let needle: Vec<u8> = bytes[from..].iter().copied().take(wanted).take_while(|byte| *byte != b'\n').collect();
        // Half of a program is zeros, and grep prints every one of them.
        if needle.len() > 1 && needle.iter().any(|byte| *byte != needle[0]) && !needles.contains(&needle) {
            needles.push(needle);
        }
    }
    needles
}

fn counts_are_greps(path: &Path) {
    let needles = substrings(path, 200);
    let mut ours = HashMap::new();
    // Few at a time are searched for in another way than many; both are tried, with and without the hash.
    for (index, few) in needles[..60].chunks(20).enumerate() {
        ours.extend(scanned(path, few, if index == 0 { &[] } else { &["--no-hash"] }));
    }
    ours.extend(scanned(path, &needles[60..], &["--no-hash"]));
    for (index, needle) in needles.iter().enumerate() {
        let expected = if index % 20 == 0 { grep_twice(path, needle) } else { grep(path, needle) };
        let found = ours[&(name(needle), "latin1".to_owned())];
        assert_eq!(found, expected, "{}: {:?}", path.display(), String::from_utf8_lossy(needle));
        assert!(found.1 > 0, "{needle:?} is from the file");
    }
}

/// The strings of the reference's table, and some that are in programs in both encodings.
const TABLE: [&str; 13] = [
    "session.environment",
    "OPENCODE_TERMINAL",
    "session_inbox",
    "session_v2",
    "/api/session",
    "<task id=",
    "<subagent sessionID=",
    "\"--service\"",
    "session",
    "aa",
    "==",
    "é",
    "…",
];

fn table_is_greps(path: &Path) {
    let needles: Vec<Vec<u8>> = TABLE.iter().map(|text| text.as_bytes().to_vec()).collect();
    for more in [&["--no-hash"][..], &[]] {
        let ours = scanned(path, &needles, more);
        for text in TABLE {
            assert_eq!(ours[&(text.to_owned(), "latin1".to_owned())], grep(path, text.as_bytes()), "{text}");
            assert_eq!(ours[&(text.to_owned(), "utf16le".to_owned())], grep(path, &wide(text)), "{text} as UTF-16LE");
        }
    }
}

macro_rules! on_real_programs {
    ($($test:ident = $program:literal;)*) => {
        $(#[test]
        fn $test() {
            let (_, program) = super::real().into_iter().find(|(name, _)| *name == $program).unwrap();
            let program = need!(program);
            table_is_greps(&program);
            counts_are_greps(&program);
        })*
    };
}

on_real_programs! {
    counts_are_those_of_grep_on_opencode_1_18_34 = "1.18.34";
    counts_are_those_of_grep_on_opencode_1_14_48 = "1.14.48";
    counts_are_those_of_grep_on_opencode_1_2_27 = "1.2.27";
    counts_are_those_of_grep_on_the_preview = "preview";
    counts_are_those_of_grep_on_zeroclaw = "zeroclaw";
}

/// The counts that the reference has, of 1.18.34 and next-16350.
#[test]
fn the_counts_of_the_reference_are_seen() {
    let (v1, preview) = (need!(crate::world::peers::opencode_v1()), need!(crate::world::peers::opencode_preview()));
    let expected = [
        ("session.environment", 0, 0),
        ("OPENCODE_TERMINAL", 1, 2),
        ("session_inbox", 0, 2),
        ("session_v2", 0, 0),
        ("/api/session", 5, 2),
        ("<task id=", 1, 0),
        ("<subagent sessionID=", 0, 0),
    ];
    let needles: Vec<Vec<u8>> = expected.iter().map(|(text, ..)| text.as_bytes().to_vec()).collect();
    let (v1, preview) = (scanned(&v1, &needles, &["--no-hash"]), scanned(&preview, &needles, &["--no-hash"]));
    for (text, in_v1, in_preview) in expected {
        let key = (text.to_owned(), "latin1".to_owned());
        assert_eq!((v1[&key].0, preview[&key].0), (in_v1, in_preview), "{text}");
    }
}

#[test]
fn lines_end_at_the_byte_0x0a_in_either_encoding_and_the_last_needs_none() {
    let dir = tempfile::tempdir().unwrap();
    let mut bytes = b"aaa aaa\nxaax\n\n".to_vec();
    bytes.extend(wide("aaa\nab Ċa"));
    bytes.extend(b"\nlast aa");
    let file = write(dir.path(), "made", &bytes);
    let needles = ["a", "aa", "aaa", "xaax", "ab", "t aa", " a", "\u{10a}a"];
    let given: Vec<Vec<u8>> = needles.iter().map(|text| text.as_bytes().to_vec()).collect();
    for more in [&["--no-hash"][..], &[]] {
        let ours = scanned(&file, &given, more);
        for text in needles {
            assert_eq!(ours[&(text.to_owned(), "latin1".to_owned())], grep_twice(&file, text.as_bytes()), "{text:?}");
            if let Some(found) = ours.get(&(text.to_owned(), "utf16le".to_owned())) {
                assert_eq!(*found, grep_twice(&file, &wide(text)), "{text:?} as UTF-16LE");
            }
        }
        assert!(!ours.contains_key(&("\u{10a}a".to_owned(), "utf16le".to_owned())), "its UTF-16 holds a line break");
        assert!(ours[&("ab".to_owned(), "utf16le".to_owned())].1 == 1, "a control: there is something to find");
    }
}

#[test]
fn the_hash_is_sha256sums() {
    let (_, program) = super::real().remove(2);
    let program = need!(program);
    let theirs = Command::new("sha256sum").arg(&program).output().unwrap().stdout;
    let ours = run(&["binary", "scan", program.to_str().unwrap(), "-e", "x", "--json"]).json();
    assert_eq!(ours["data"]["file"]["sha256"].as_str().unwrap().as_bytes(), &theirs[..64]);
    assert_eq!(ours["data"]["file"]["bytes"].as_u64().unwrap(), std::fs::metadata(&program).unwrap().len());
}

#[test]
fn headers_are_those_that_readelf_reads() {
    let program = need!(crate::world::peers::opencode_preview());
    let said = Command::new("readelf").args(["-n", "-l"]).arg(&program).output();
    let said =
        String::from_utf8(need!(said.map_err(|_| crate::world::Missing("readelf is not installed (package binutils)".to_owned()))).stdout)
            .unwrap();
    let ours = run(&["binary", "scan", program.to_str().unwrap(), "-e", "x", "--no-hash", "--json"]).json();
    let elf = &ours["data"]["file"]["elf"];
    assert!(said.contains(&format!("Build ID: {}", elf["build_id"].as_str().unwrap())), "{said}");
    assert!(said.contains(&format!("[Requesting program interpreter: {}]", elf["interpreter"].as_str().unwrap())), "{said}");
    assert_eq!(ours["data"]["file"]["payload"]["kind"], "bun");
}
