//! `whoseenv db info`.

use crate::cli::{Global, Start};
use crate::diagnose::db::info::{self, Data, Info};
use crate::diagnose::db::{Asked, counted};
use crate::report::{Exit, Page, Report, Style, Text};

/// Every store: size, WAL, generation, who holds it, how it was read
#[derive(Debug, clap::Args)]
pub struct Args {}

pub fn run(_: &Args, asked: &Asked, global: &Global) -> Exit {
    let start = match Start::new("db-info", global) {
        Ok(start) => start,
        Err(exit) => return exit,
    };
    match info::info(&start.host, asked) {
        Ok(report) => start.answer(report, page),
        Err(problem) => start.problem("db-info", &problem),
    }
}

fn page(report: &Report<Data>) -> Page {
    let mut page = Page::new();
    if report.data.stores.is_empty() {
        page.line(0, "No store of an agent is here.");
        page.line(0, Text::styled(Style::Dim, "They were looked for where OpenCode and ZeroClaw keep them for this user, and where their processes do. Name one: --db FILE"));
    }
    for info in &report.data.stores {
        page.heading(Text::styled(Style::Strong, &info.path));
        page.facts(2, facts(info));
    }
    super::audit::findings(&mut page, &report.findings);
    for note in &report.notes {
        page.gap();
        page.line(0, Text::styled(Style::Dim, note));
    }
    page
}

/// What is told of a store, line by line.
pub fn facts(info: &Info) -> Vec<(String, Text)> {
    let files = &info.files;
    let mut facts = Vec::new();
    let mut fact = |name: &str, text: String| facts.push((name.to_owned(), Text::plain(text)));
    let migrated = if info.migrated { ", migrated: 1.x's tables are there too" } else { "" };
    fact("made by", format!("{}{migrated}", info.generation.name()));
    match (&info.read_as, &info.unreadable) {
        (_, Some(reason)) => fact("not read", reason.clone()),
        (Some(read_as), None) => fact("read as", read_as.word().to_owned()),
        (None, None) => {}
    }
    fact("why", info.why.clone());
    fact("bytes", files.bytes.to_string());
    let beside = [("-wal", files.wal_bytes), ("-journal", files.journal_bytes)];
    let mut beside: Vec<String> =
        beside.iter().filter_map(|(name, bytes)| Some(format!("{name} {}", counted((*bytes)?, "byte", "bytes")))).collect();
    if files.shm {
        beside.push("-shm".to_owned());
    }
    if !beside.is_empty() {
        fact("beside it", beside.join(", "));
    }
    if let (Some(mode), Some(size), Some(vacuum)) = (&files.journal_mode, files.page_size, &files.auto_vacuum) {
        fact("mode", format!("{mode}, pages of {size} bytes, auto_vacuum {vacuum}"));
    }
    if let (Some(pages), Some(free)) = (info.pages, info.free_pages) {
        fact("pages", format!("{pages}, {free} of them free"));
    }
    fact("on", files.file_system.clone());
    if let Some(last) = info.migrations.first() {
        fact("migrated", format!("{} at {}", last.id, last.time_completed.as_deref().unwrap_or("an unknown time")));
    }
    let holders: Vec<String> = info
        .holders
        .iter()
        .map(|holder| {
            let version = holder.version.as_ref().map(|version| format!(" {version}")).unwrap_or_default();
            format!("{}{version} (pid {})", holder.agent.as_deref().unwrap_or(&holder.comm), holder.pid)
        })
        .collect();
    let held = match (holders.is_empty(), info.holders_unseen) {
        (true, false) => "nobody".to_owned(),
        (true, true) => "unknown: the open files of other accounts' processes are hidden (ask as root)".to_owned(),
        (false, false) => holders.join(", "),
        (false, true) => format!("{}; others may be hidden (ask as root)", holders.join(", ")),
    };
    fact("held by", held);
    facts
}
