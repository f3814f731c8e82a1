//! `whoseenv binary`: what a program file really contains.

mod diff;
mod identify;
mod ops;
mod scan;

use std::ffi::OsString;

use clap::Subcommand;

use super::{Global, NarrowArgs, Start};
use crate::diagnose::binaries::{self, FileData, Opened, Target};
use crate::report::{Exit, Problem, Style, Text};

/// Tell what a program file really contains: strings, REST operations, generation and features
///
/// The file's own bytes decide; nothing is run. FILE is a path, - for standard input, pid:N for what a process runs (also
/// when the file was removed since), or the name of an agent for what it really runs.
#[derive(Debug, Subcommand)]
pub enum Binary {
    Scan(scan::Args),
    Ops(ops::Args),
    Identify(identify::Args),
    Diff(diff::Args),
}

/// A program file, as it is named.
#[derive(Clone, Debug, clap::Args)]
pub struct FileArgs {
    /// A path, -, pid:N, or the name of an agent that runs
    #[arg(value_name = "FILE")]
    file: OsString,
    #[command(flatten)]
    narrow: NarrowArgs,
}

pub fn run(which: Binary, global: &Global) -> Exit {
    match which {
        Binary::Scan(args) => scan::run(args, global),
        Binary::Ops(args) => ops::run(args, global),
        Binary::Identify(args) => identify::run(args, global),
        Binary::Diff(args) => diff::run(args, global),
    }
}

impl FileArgs {
    fn open(self, start: &Start) -> Result<Opened, Problem> {
        start.fingerprints()?;
        binaries::open(&start.host, &Target::parse(&self.file), &self.narrow.into())
    }
}

/// A file, as the first line of a page names it.
fn title(file: &FileData) -> Text {
    let deleted = if file.deleted { ", removed or replaced since it started" } else { "" };
    let runs = file.pid.map(|pid| format!(" (pid {pid}{deleted})")).unwrap_or_default();
    Text::styled(Style::Strong, &file.path).then(Style::Plain, format!("{runs}, {}", size(file.bytes)))
}

/// `225 MB`, `12 KB`, `7 bytes`.
fn size(bytes: u64) -> String {
    match bytes {
        0..10_000 => format!("{bytes} bytes"),
        10_000..10_000_000 => format!("{} KB", bytes / 1000),
        _ => format!("{} MB", bytes / 1_000_000),
    }
}
