//! `whoseenv db sessions`.

use crate::agent::plugins::Configured;
use crate::cli::Global;
use crate::diagnose::db::rows::{self, Question, Sessions};
use crate::diagnose::db::{Asked, counted};
use crate::report::{Exit, Format, Page, Progress, Report, Style, Text};
use crate::store::sessions::{Filter, Session};

/// Sessions of every generation, the last changed first; orphans and parents that are not there
#[derive(Debug, clap::Args)]
pub struct Args {
    /// As a forest: children below their parents
    #[arg(long)]
    tree: bool,
    /// Only sessions in this directory or below it
    #[arg(long, value_name = "DIR")]
    directory: Option<String>,
    /// Only sessions changed since: 2d, 3h, 15min, or RFC 3339
    #[arg(long, value_name = "TIME")]
    since: Option<String>,
    /// Only the session with this id
    #[arg(long, value_name = "ID")]
    id: Option<String>,
    /// So many at most
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
}

pub fn run(args: &Args, asked: &Asked, global: &Global) -> Exit {
    let any = Question::Sessions(Filter::default());
    super::with_store("db-sessions", asked, global, Some(&any), |start, store| {
        let since_ms = args.since.as_deref().map(|text| super::since(text, start.host.machine().taken_ms)).transpose()?;
        let filter = Filter { directory: args.directory.as_deref().map(super::whole), since_ms, id: args.id.clone(), limit: args.limit };
        let configured = Configured::default();
        if start.printer.format == Format::Ndjson {
            return Ok(super::told("db-sessions", start, store, &Question::Sessions(filter), &configured, asked.quiet));
        }
        let progress = Progress::new("db sessions", None, asked.quiet);
        let report = rows::sessions(store, &filter, &super::telling(start, &configured), args.tree, &progress)?;
        Ok(start.answer(report, |report| page(report, args.limit.unwrap_or(super::SHOWN))))
    })
}

fn page(report: &Report<Sessions>, limit: u64) -> Page {
    let data = &report.data;
    let mut page = Page::new();
    super::read_line(&mut page, &data.store, data.read_as);
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    if data.sessions.is_empty() {
        page.line(0, super::none(limit, "No session fits."));
    }
    let lines: Vec<(usize, bool, &Session)> = match &data.tree {
        Some(tree) => tree.iter().filter_map(|node| Some((node.depth, node.circle, data.sessions.get(node.session)?))).collect(),
        None => data.sessions.iter().map(|session| (0, false, session)).collect(),
    };
    let rows = lines.iter().take(limit).map(|(depth, circle, session)| {
        let id = session.id.as_deref().unwrap_or("(no text)");
        let mut state = Vec::new();
        if session.suspended == Some(true) {
            state.push("in a turn".to_owned());
        }
        state.extend(session.outcome.clone());
        if session.orphan {
            state.push(format!("parent {} is gone", session.parent_id.as_deref().unwrap_or_default()));
        }
        if *circle {
            state.push(format!("its own ancestor, by parent {}", session.parent_id.as_deref().unwrap_or_default()));
        }
        if session.children > 0 {
            state.push(counted(session.children, "child", "children"));
        }
        let state_style = if session.orphan || *circle || session.suspended == Some(true) { Style::Warn } else { Style::Plain };
        vec![
            Text::plain(format!("{}{id}", "  ".repeat((*depth).min(20)))),
            Text::plain(session.time_updated.as_deref().unwrap_or_default()),
            Text::plain(session.agent.as_deref().unwrap_or_default()),
            Text::plain(session.directory.as_deref().unwrap_or_default()),
            Text::styled(state_style, state.join(", ")),
        ]
    });
    page.table(0, vec!["SESSION", "UPDATED", "AGENT", "DIRECTORY", "STATE"], rows.collect());
    super::more(&mut page, limit, lines.len());
    if data.orphans > 0 {
        page.gap();
        page.line(
            0,
            Text::styled(
                Style::Warn,
                format!(
                    "{}; {} no session",
                    counted(data.orphans, "orphan", "orphans"),
                    counted(data.dangling_parents, "parent id names", "parent ids name")
                ),
            ),
        );
    }
    for note in &report.notes {
        page.gap();
        page.line(0, Text::styled(Style::Dim, note));
    }
    page
}
