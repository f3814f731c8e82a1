//! `whoseenv binary scan`.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use super::{FileArgs, Global, Start, title};
use crate::diagnose::binaries::strings::{self, Data, Query, Row};
use crate::host::{Raw, files};
use crate::report::{Exit, Page, Problem, Progress, Report, Style, Text};

/// Count fixed strings in a program as grep does, in Latin-1 and UTF-16LE, with its SHA-256 and what its headers say
///
/// Without a string: those of the table of fingerprints, fingerprints.toml. Lines are those of LC_ALL=C grep -acF, occurrences
/// those of grep -aoF | wc -l. The row latin1 is for the string's bytes as they are, as grep looks for them (a byte a character
/// for ASCII); the row utf16le is for the same characters in two bytes each.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    file: FileArgs,
    /// A string to count; may be repeated
    #[arg(short = 'e', value_name = "STRING", allow_hyphen_values = true)]
    strings: Vec<OsString>,
    /// A file with a string a line; empty lines are left out
    #[arg(long, value_name = "FILE")]
    patterns: Option<PathBuf>,
    /// Leave the SHA-256 out, which takes longer than the rest
    #[arg(long)]
    no_hash: bool,
    /// How many offsets of each string to give
    #[arg(long, value_name = "COUNT", default_value_t = 3, value_parser = clap::value_parser!(u32).range(0..=1_000_000))]
    offsets: u32,
}

pub fn run(args: Args, global: &Global) -> Exit {
    let start = match Start::new("binary-scan", global) {
        Ok(start) => start,
        Err(exit) => return exit,
    };
    let examined = patterns(&args).and_then(|patterns| {
        let query = Query { patterns, hash: !args.no_hash, offsets: args.offsets as usize };
        let opened = args.file.open(&start)?;
        let progress = Progress::new("scanning", Some(opened.data().bytes), global.quiet);
        strings::examine(&opened, &query, &progress)
    });
    match examined {
        Ok(report) => start.answer(report, |report| page(report, start.verbose)),
        Err(problem) => start.problem("binary-scan", &problem),
    }
}

fn patterns(args: &Args) -> Result<Vec<Raw>, Problem> {
    let mut patterns: Vec<Raw> = args.strings.iter().map(|string| Raw(string.clone().into_vec())).collect();
    if let Some(path) = &args.patterns {
        let bytes = files::read_named(path).map_err(|reason| {
            let exit = if reason.is_absence() { Exit::NotFound } else { Exit::Usage };
            Problem::new(exit, format!("{}: {reason}", path.display())).hint("Give a file with a string a line.")
        })?;
        let lines = bytes.strip_suffix(b"\n").unwrap_or(&bytes).split(|byte| *byte == b'\n');
        patterns.extend(lines.filter(|line| !line.is_empty()).map(Raw::from));
        if patterns.is_empty() {
            return Err(Problem::new(Exit::Usage, format!("{}: there is no string in it", path.display())));
        }
    }
    Ok(patterns)
}

fn page(report: &Report<Data>, verbose: bool) -> Page {
    let data = &report.data;
    let mut page = Page::new();
    page.line(0, title(&data.file.file));
    let mut facts = Vec::new();
    facts.extend(data.file.sha256.as_ref().map(|hash| ("sha256".to_owned(), Text::plain(hash))));
    if let Some(elf) = &data.file.elf {
        let stripped = match elf.stripped {
            Some(true) => ", stripped",
            Some(false) => ", not stripped",
            None => "",
        };
        facts.push(("elf".to_owned(), Text::plain(format!("{} {}{stripped}", elf.machine, elf.kind))));
        facts.extend(elf.interpreter.as_ref().map(|path| ("interpreter".to_owned(), Text::plain(path))));
        facts.extend(elf.build_id.as_ref().map(|id| ("build id".to_owned(), Text::plain(id))));
        facts.extend(elf.doubts.iter().map(|doubt| ("doubt".to_owned(), Text::styled(Style::Warn, doubt))));
    }
    if let Some(payload) = &data.file.payload {
        let modules = payload.modules.map(|modules| format!(", {modules} modules of JavaScript")).unwrap_or_default();
        let detail = payload.detail.as_ref().map(|detail| format!(", {detail}")).unwrap_or_default();
        let text = format!("{} at {}, {} bytes{modules}{detail}", payload.kind.word(), payload.offset, payload.bytes);
        facts.push(("payload".to_owned(), Text::plain(text)));
        facts.extend(payload.doubt.as_ref().map(|doubt| ("doubt".to_owned(), Text::styled(Style::Warn, doubt))));
    }
    page.facts(2, facts);
    page.gap();
    // A string has a row in its own encoding; others are told where it is written so.
    let first = |index: usize, row: &Row| index == 0 || data.patterns[index - 1].shown() != row.shown();
    let rows = data.patterns.iter().enumerate().filter(|(index, row)| verbose || row.occurrences > 0 || first(*index, row));
    let cells = |row: &Row| {
        let style = if row.occurrences > 0 { Style::Strong } else { Style::Dim };
        let offsets = row.offsets.iter().map(u64::to_string).collect::<Vec<_>>().join(" ");
        vec![
            Text::styled(style, row.shown()),
            Text::plain(row.encoding.word()),
            Text::plain(row.lines.to_string()),
            Text::plain(row.occurrences.to_string()),
            Text::styled(Style::Dim, offsets),
        ]
    };
    page.table(0, vec!["STRING", "ENCODING", "LINES", "OCCURRENCES", "FIRST AT"], rows.map(|(_, row)| cells(row)).collect());
    for note in &report.notes {
        page.gap();
        page.line(0, Text::styled(Style::Dim, note));
    }
    page
}
