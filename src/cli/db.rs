//! `whoseenv db …`: one file a subcommand.

mod audit;
mod events;
mod inbox;
mod info;
mod kv;
mod schema;
mod sessions;

use std::path::PathBuf;

use clap::Subcommand;

use super::{Global, Start};
use crate::agent::plugins::Configured;
use crate::diagnose::db::rows::{Question, Telling, stream};
use crate::diagnose::db::{Asked, Store, configs, find_one};
use crate::report::{Exit, Page, Problem, Progress, Report, Style, Text};

/// Read the hosts' databases without a trace: sessions, queued work, plugin storage, and what is wrong with them
///
/// No byte, name or time of any file of the host's changes, and no copy stays. How a store was read is in every answer.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
    /// This database file, instead of those that are found
    #[arg(long, global = true, value_name = "FILE")]
    db: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
enum Command {
    Info(info::Args),
    Sessions(sessions::Args),
    Inbox(inbox::Args),
    Kv(kv::Args),
    Events(events::Args),
    Schema(schema::Args),
    Audit(audit::Args),
}

pub fn run(args: Args, global: &Global) -> Exit {
    let asked = Asked { file: args.db, quiet: global.quiet };
    match args.command {
        Command::Info(args) => info::run(&args, &asked, global),
        Command::Sessions(args) => sessions::run(&args, &asked, global),
        Command::Inbox(args) => inbox::run(&args, &asked, global),
        Command::Kv(args) => kv::run(&args, &asked, global),
        Command::Events(args) => events::run(&args, &asked, global),
        Command::Schema(args) => schema::run(&args, &asked, global),
        Command::Audit(args) => audit::run(&args, &asked, global),
    }
}

/// Starts a command, finds its store, and asks; `answer` prints.
fn with_store(
    command: &'static str,
    asked: &Asked,
    global: &Global,
    question: Option<&Question>,
    answer: impl FnOnce(&Start, &Store) -> Result<Exit, Problem>,
) -> Exit {
    let start = match Start::new(command, global) {
        Ok(start) => start,
        Err(exit) => return exit,
    };
    let fits = |tables: &crate::store::Tables| question.is_none_or(|question| question.fits(tables));
    match find_one(&start.host, asked, fits).and_then(|store| answer(&start, &store)) {
        Ok(exit) => exit,
        Err(problem) => start.problem(command, &problem),
    }
}

/// What decides how rows are told.
fn telling<'t>(start: &'t Start, configured: &'t Configured) -> Telling<'t> {
    Telling { key: start.redactor.key(), now_ms: start.host.machine().taken_ms, configured }
}

/// Rows as ndjson, told while they are read.
fn told(command: &'static str, start: &Start, store: &Store, question: &Question, configured: &Configured, quiet: bool) -> Exit {
    let progress = Progress::new(command.replace('-', " "), None, quiet);
    start.printer.stream(command, start.host.machine(), |lines| {
        let rewrites = lines.rewrites();
        let answer = stream(store, question, &telling(start, configured), &progress, &mut |block| {
            if !rewrites {
                return lines.ready(block);
            }
            for line in block.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
                lines.row(&serde_json::from_slice::<serde_json::Value>(line)?)?;
            }
            Ok(())
        })?;
        Ok(answer.map(|()| {
            let mut report = Report::new(command, ());
            start.finish(&mut report);
            report
        }))
    })
}

/// A line on how the store was read.
fn read_line(page: &mut Page, store: &str, read_as: crate::store::ReadAs) {
    page.line(0, Text::styled(Style::Dim, format!("{store}, read as {}", read_as.word())));
    page.gap();
}

/// How long ago, from milliseconds.
fn age(ms: Option<i64>) -> String {
    ms.map_or_else(String::new, |ms| super::ps::age(u64::try_from(ms).unwrap_or(0)))
}

/// What was left out of a table.
fn more(page: &mut Page, shown: usize, all: usize) {
    if all > shown {
        page.gap();
        page.line(0, Text::styled(Style::Dim, format!("{} more: --limit N, or --format ndjson for all", all - shown)));
    }
}

/// What is said of no rows: where none were asked for, nothing of the store.
fn none(limit: usize, otherwise: &'static str) -> &'static str {
    if limit == 0 { "None is shown: --limit 0." } else { otherwise }
}

/// Rows that a person is shown unless --limit says otherwise.
const SHOWN: u64 = 50;

/// A point in time: `2d`, `3h`, `15min`, `30s` ago, or RFC 3339.
fn since(text: &str, now_ms: i64) -> Result<i64, Problem> {
    let unit = text.find(|char: char| !char.is_ascii_digit()).unwrap_or(text.len());
    let ms = match text[unit..].trim() {
        "s" => Some(1000),
        "m" | "min" => Some(60_000),
        "h" => Some(3_600_000),
        "d" => Some(86_400_000),
        "w" => Some(7 * 86_400_000),
        _ => None,
    };
    if let (Some(ms), Ok(count)) = (ms, text[..unit].parse::<i64>()) {
        return Ok(now_ms.saturating_sub(count.saturating_mul(ms)));
    }
    text.parse::<jiff::Timestamp>().map(|time| time.as_millisecond()).map_err(|_| {
        Problem::new(Exit::Usage, format!("{text:?} is no time")).hint("Such as 2d, 3h, 15min, 30s (ago), or 2026-11-30T20:00:00Z")
    })
}

/// A directory as sessions name theirs: a relative one from where this program stands.
fn whole(directory: &str) -> String {
    let path = std::path::Path::new(directory);
    let whole = if path.is_absolute() { Ok(path.to_owned()) } else { path.canonicalize().or_else(|_| std::path::absolute(path)) };
    whole.map_or_else(|_| directory.to_owned(), |path| path.to_string_lossy().into_owned())
}

/// The plugins' configurations, or none where nobody asks.
fn configured(start: &Start, store: &Store) -> Configured {
    configs::of(&start.host, store, &Progress::hidden())
}
