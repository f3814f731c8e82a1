//! `whoseenv owner`.

use super::diff::alive;
use super::{Global, NarrowArgs, Start};
use crate::diagnose::ownership::{self, Data};
use crate::diagnose::subject::{Narrow, resolve_one};
use crate::diagnose::values::Shown;
use crate::env::reference::Reference;
use crate::report::{Exit, Page, Report, Style, Text};

/// Tell who owns what a value names: display, Wayland socket, agent socket, bus, tty, tmux server
#[derive(Debug, clap::Args)]
pub struct Args {
    /// A variable's name (DISPLAY), or a value (localhost:10.0)
    #[arg(value_name = "NAME|VALUE", allow_hyphen_values = true)]
    query: String,
    /// Whose environment carries it: this terminal unless named or narrowed
    #[arg(value_name = "TARGET")]
    target: Option<Reference>,
    #[command(flatten)]
    narrow: NarrowArgs,
}

pub fn run(args: Args, global: &Global) -> Exit {
    let start = match Start::new("owner", global) {
        Ok(start) => start,
        Err(exit) => return exit,
    };
    let narrow = Narrow::from(args.narrow);
    let report = narrow
        .target(args.target)
        .and_then(|target| resolve_one(&start.host, &target, &narrow))
        .and_then(|subject| ownership::owner(&start.host, &start.redactor, &args.query, &subject, start.connect));
    match report {
        Ok(report) => start.answer(report, |report| page(report, start.verbose)),
        Err(problem) => start.problem("owner", &problem),
    }
}

fn page(report: &Report<Data>, verbose: bool) -> Page {
    let data = &report.data;
    let mut page = Page::new();
    let value = data.query.value.human();
    let asked = match &data.query.name {
        Some(name) if data.query.value == Shown::default() => format!("{name}, whose value is not known"),
        Some(name) => format!("{name}={value}"),
        None => value,
    };
    page.line(0, Text::styled(Style::Strong, asked));
    let mut facts = Vec::new();
    facts.extend(alive(&data.liveness).map(|text| ("state".to_owned(), text)));
    let owner = match &data.owner {
        None => Text::styled(Style::Dim, "not known"),
        Some(owner) => {
            let user = owner.user.as_ref().map(|user| format!(", {user}")).unwrap_or_default();
            let connection = owner.connection.as_ref().map(|connection| format!(", for connection {connection}")).unwrap_or_default();
            Text::plain(format!("{} (pid {}{user}){connection}", owner.comm, owner.pid))
        }
    };
    facts.push(("owner".to_owned(), owner));
    facts.extend(data.birth_connection.iter().map(|connection| ("born in".to_owned(), Text::plain(format!("connection {connection}")))));
    let same = match data.same_connection {
        Some(true) => Text::styled(Style::Good, "yes"),
        Some(false) => Text::styled(Style::Bad, "no"),
        None => Text::styled(Style::Dim, "not known, or without meaning here"),
    };
    facts.push(("the one of birth".to_owned(), same));
    page.facts(2, facts);
    if verbose {
        page.gap();
        for evidence in &data.evidence {
            page.hanging(2, 4, Text::styled(Style::Dim, format!("{}: {}", evidence.source, evidence.detail)));
        }
    }
    page.gap();
    for note in &report.notes {
        page.hanging(0, 2, Text::styled(Style::Dim, note));
    }
    page
}
