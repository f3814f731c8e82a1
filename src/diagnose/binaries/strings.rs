//! `binary scan`: how often strings are in a program, and what its headers say.

use schemars::JsonSchema;
use serde::Serialize;

use super::{FileData, Opened, unreadable};
use crate::binary::elf;
use crate::binary::fingerprints::Table;
use crate::binary::pattern::{Encoding, encoded};
use crate::binary::payload::{self, Payload};
use crate::binary::scan::{Pass, Set, scan};
use crate::host::Raw;
use crate::host::fact::encode;
use crate::report::{Exit, Problem, Progress, Report, Rows};

/// The answer of `binary scan`.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Data {
    /// The file.
    pub file: Scanned,
    /// A row a string and encoding.
    pub patterns: Vec<Row>,
}

impl Rows for Data {
    type Row = Row;
    const FIELD: Option<&'static str> = Some("patterns");

    fn split(mut self) -> (Option<Self>, Vec<Row>) {
        let rows = std::mem::take(&mut self.patterns);
        (Some(self), rows)
    }
}

/// The file that was scanned.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Scanned {
    /// Where it is, and how long.
    #[serde(flatten)]
    pub file: FileData,
    /// SHA-256 in hexadecimal; absent with `--no-hash`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
    /// What its headers say; absent where it is no ELF file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub elf: Option<elf::Facts>,
    /// What it carries.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub payload: Option<Payload>,
}

/// What was counted of a string in one encoding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Row {
    /// The string; absent where it is no text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pattern: Option<String>,
    /// The string in base64, where it is no text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pattern_b64: Option<String>,
    /// How it is written.
    pub encoding: Encoding,
    /// Lines that hold it, as `LC_ALL=C grep -acF` counts them.
    pub lines: u64,
    /// How often it is there, as `grep -aoF | wc -l` counts.
    pub occurrences: u64,
    /// Where it is, the first ones.
    pub offsets: Vec<u64>,
}

impl Row {
    /// The string, for a person.
    pub fn shown(&self) -> String {
        match (&self.pattern, &self.pattern_b64) {
            (Some(text), _) => text.clone(),
            (None, Some(encoded)) => format!("b64:{encoded}"),
            (None, None) => String::new(),
        }
    }
}

/// What is asked of a scan.
#[derive(Clone, Debug)]
pub struct Query {
    /// The strings; those of the table of fingerprints where there are none.
    pub patterns: Vec<Raw>,
    /// With SHA-256.
    pub hash: bool,
    /// Offsets that are kept of each row.
    pub offsets: usize,
}

/// Scans.
///
/// # Errors
/// A string that cannot be searched for (2), or a file that cannot be read (74).
pub fn examine(opened: &Opened, query: &Query, progress: &Progress) -> Result<Report<Data>, Problem> {
    let table = || Table::in_force().strings().into_iter().map(Raw::from).collect();
    let patterns: Vec<Raw> = if query.patterns.is_empty() { table() } else { query.patterns.clone() };
    let mut notes = Vec::new();
    let (mut rows, mut needles) = (Vec::new(), Vec::new());
    for pattern in &patterns {
        let bytes = pattern.as_bytes();
        for (encoding, needle) in ways(bytes, &mut notes) {
            let (text, coded) = match pattern.as_str() {
                Some(text) => (Some(text.to_owned()), None),
                None => (None, Some(encode(bytes))),
            };
            rows.push(Row { pattern: text, pattern_b64: coded, encoding, lines: 0, occurrences: 0, offsets: Vec::new() });
            needles.push(needle);
        }
    }
    let set = Set::new(needles).map_err(|error| Problem::new(Exit::Usage, error.to_string()))?;
    let program = &opened.program;
    let failed = |error: std::io::Error| unreadable(&opened.label, &error);
    let scanned = scan(program, &set, Pass { hash: query.hash, offsets: query.offsets, told: &|done| progress.reached(done) });
    let scanned = scanned.map_err(failed)?;
    for (row, count) in rows.iter_mut().zip(scanned.counts) {
        (row.lines, row.occurrences, row.offsets) = (count.lines, count.occurrences, count.offsets);
    }
    let file = Scanned {
        file: FileData { bytes: scanned.bytes, ..opened.data() },
        sha256: scanned.sha256.map(|hash| crate::host::hex(&hash)),
        elf: elf::facts(program).map_err(failed)?,
        payload: payload::payload(program).map_err(failed)?,
    };
    let mut report = Report::new("binary-scan", Data { file, patterns: rows });
    report.notes = notes;
    opened.finish(&mut report);
    Ok(report)
}

/// The ways to write a string. One that is refused is left as it is, so that the set says why.
fn ways(bytes: &[u8], notes: &mut Vec<String>) -> Vec<(Encoding, Vec<u8>)> {
    if bytes.contains(&b'\n') {
        return vec![(Encoding::Latin1, bytes.to_vec())];
    }
    let ways = encoded(bytes);
    if !ways.iter().any(|(encoding, _)| *encoding == Encoding::Utf16le) {
        notes.push(format!("{}: as UTF-16LE it holds the byte 0x0A, which ends lines, and is on none", String::from_utf8_lossy(bytes)));
    }
    ways
}
