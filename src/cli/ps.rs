//! `whoseenv ps`.

use super::{Global, NarrowArgs, Start};
use crate::agent::Role;
use crate::diagnose::roster::{self, Data, Row};
use crate::diagnose::subject::Narrow;
use crate::report::{Exit, Page, Problem, Report, Style, Text};

/// List agent daemons, clients and their tools: who started each, from where, how long ago
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Every process, not agents alone
    #[arg(long)]
    all: bool,
    /// The names of their variables too
    #[arg(long)]
    names: bool,
    #[command(flatten)]
    narrow: NarrowArgs,
}

impl From<NarrowArgs> for Narrow {
    fn from(args: NarrowArgs) -> Narrow {
        Narrow { user: args.user, pid: args.pid, agent: args.agent }
    }
}

pub fn run(args: Args, global: &Global) -> Exit {
    let start = match Start::new("ps", global) {
        Ok(start) => start,
        Err(exit) => return exit,
    };
    let query = roster::Query { all: args.all, names: args.names, narrow: args.narrow.into() };
    if let Err(problem) = query.narrow.check(&start.host) {
        return start.problem("ps", &problem);
    }
    let report = match roster::list(&start.host, &start.redactor, &query) {
        Ok(report) => report,
        Err(reason) => return start.problem("ps", &Problem::new(Exit::Io, format!("the list of processes could not be read: {reason}"))),
    };
    start.answer(report, |report| page(report, &query, start.host.hiding().is_some()))
}

fn page(report: &Report<Data>, query: &roster::Query, hidden: bool) -> Page {
    let mut page = Page::new();
    let rows = &report.data.processes;
    if rows.is_empty() {
        let narrow = query.narrow.words();
        let what = match (query.all, narrow.is_empty()) {
            (true, _) => format!("No process{narrow}"),
            (false, true) => "No agent".to_owned(),
            (false, false) => format!("No agent process{narrow}"),
        };
        let place = if hidden { "is to be seen from this account" } else { "runs here" };
        page.hanging(0, 2, Text::plain(format!("{what} {place}.")));
        page.line(0, Text::styled(Style::Dim, "What was looked for: whoseenv doctor. Every process: whoseenv ps --all"));
    }
    let several_agents = rows.iter().any(|row| row.agent.is_some());
    let mut heads = vec!["PID", "USER", "AGE"];
    if several_agents {
        heads.extend(["AGENT", "ROLE"]);
    }
    heads.extend(["PROGRAM", "BORN"]);
    if query.names {
        heads.push("NAMES");
    }
    let cells = |row: &Row| {
        let mut cells = vec![
            Text::plain(row.pid.to_string()),
            Text::plain(row.user.clone().unwrap_or_else(|| row.uid.to_string())),
            Text::plain(age(row.age_ms)),
        ];
        if several_agents {
            cells.push(agent_cell(row));
            cells.push(if row.agent.is_some() { Text::plain(row.role.word()) } else { Text::default() });
        }
        cells.push(Text::plain(&row.comm));
        cells.push(born(row));
        if query.names {
            let names = row.names.iter().flat_map(roster::Names::iter).map(|name| name.human()).collect::<Vec<_>>();
            cells.push(Text::plain(names.join(" ")));
        }
        cells
    };
    page.table(0, heads, rows.iter().map(cells).collect());
    for note in &report.notes {
        page.gap();
        page.line(0, Text::styled(Style::Dim, note));
    }
    page
}

fn agent_cell(row: &Row) -> Text {
    let Some(agent) = &row.agent else { return Text::default() };
    let style = if row.role == Role::Daemon { Style::Strong } else { Style::Plain };
    match &row.product_version {
        Some(version) => Text::styled(style, agent).then(Style::Plain, format!(" {version}")),
        None => Text::styled(style, agent),
    }
}

/// Where a process was born, in a few words.
fn born(row: &Row) -> Text {
    if let Some(reason) = &row.unreadable {
        return Text::styled(Style::Dim, format!("unknown: {reason}"));
    }
    let birth = &row.birth;
    let mut parts = Vec::new();
    if let Some(connection) = &birth.ssh_connection {
        let mut words = connection.split(' ');
        let (ip, port) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        parts.push(format!("ssh from {ip} port {port}"));
    }
    parts.extend(birth.tmux.iter().map(|_| "tmux".to_owned()));
    parts.extend(birth.container.iter().map(|container| format!("container {}", container.chars().take(12).collect::<String>())));
    parts.extend(birth.unit.iter().cloned());
    parts.extend(birth.login_session.iter().map(|session| format!("login session {session}")));
    parts.extend(birth.tty.iter().cloned());
    parts.extend(row.session_id.iter().map(|session| format!("for {session}")));
    Text::plain(parts.join(", "))
}

/// `3 d`, `2 h`, `5 min`, `12 s`.
pub fn age(ms: u64) -> String {
    let seconds = ms / 1000;
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{} min", seconds / 60),
        3600..86_400 => format!("{} h", seconds / 3600),
        _ => format!("{} d", seconds / 86_400),
    }
}
