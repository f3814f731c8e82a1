//! `whoseenv snapshot`.

use std::path::PathBuf;

use super::start::{fingerprint_key, policy, printer};
use super::{Global, Start};
use crate::diagnose::capture::{self, Data};
use crate::env::catalog;
use crate::host::Host;
use crate::report::{Exit, Page, Problem, Report, Style, Text};

/// Capture what every command looks at, for --from
///
/// Values that must not be shown are not in it: what is kept of them is length, a keyed fingerprint, the rule, and
/// whether what they name is alive. --show NAME keeps a value; --anonymize replaces addresses, users and hosts;
/// --connect also keeps what only a connection or tmux can tell.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// A directory that is not there yet
    dir: PathBuf,
    /// Only this process, its parents and what its values name; may be repeated
    #[arg(long, value_name = "PID")]
    pid: Vec<u32>,
    /// A copy of every agent's database too, for db; columns of credentials are blanked, what was said in sessions is not. Refused
    /// with --anonymize: what people and agents wrote names accounts and machines in ways that no rule finds
    #[arg(long)]
    with_stores: bool,
}

pub fn run(args: Args, global: &Global) -> Exit {
    if args.with_stores && global.anonymize {
        return printer(global).problem("snapshot", None, &not_anonymous());
    }
    let start = match start(global) {
        Ok(start) => start,
        Err(exit) => return exit,
    };
    let query = capture::Query { pids: args.pid, connect: start.connect, anonymize: global.anonymize, stores: args.with_stores };
    match capture::capture(&start.host, &start.redactor, &args.dir, &query) {
        Ok(report) => start.answer(report, page),
        Err(problem) => start.problem("snapshot", &problem),
    }
}

/// A store is copied as it is: its pages hold sentences, in which a name is a word like any other.
fn not_anonymous() -> Problem {
    Problem::new(
        Exit::Usage,
        "a snapshot --with-stores cannot be anonymised: what was said in sessions names accounts, machines and paths in ways that no rule finds",
    )
    .hint("Leave out --with-stores, and keep the answers of db, which can be: whoseenv db sessions --anonymize --json")
    .hint("Leave out --anonymize, where nobody gets the snapshot who may not read the sessions.")
}

fn start(global: &Global) -> Result<Start, Exit> {
    if global.from.is_some() {
        return Start::new("snapshot", global);
    }
    let failed = |problem: Problem| printer(global).problem("snapshot", None, &problem);
    // What is kept of a value and what is said of it must have one fingerprint.
    let key = fingerprint_key().map_err(failed)?;
    let mask = catalog::redactor(key.clone(), policy(global));
    Start::with(global, Host::recording(Box::new(mask)), key).map_err(failed)
}

fn page(report: &Report<Data>) -> Page {
    let data = &report.data;
    let mut page = Page::new();
    page.line(
        0,
        format!(
            "{}: {} processes, {} of them of agents; {} facts in {} files.",
            data.dir, data.processes, data.agents, data.facts, data.files
        ),
    );
    // Where it was put is replaced in what is printed too, and no path to paste any more.
    let dir = if data.anonymized { "DIR" } else { &data.dir };
    page.line(0, Text::plain("Ask it: ").then(Style::Code, format!("whoseenv --from {dir} doctor")));
    for note in &report.notes {
        page.hanging(0, 2, Text::styled(Style::Dim, note));
    }
    page
}
