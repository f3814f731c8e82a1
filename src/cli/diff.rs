//! `whoseenv diff`.

use super::{Global, NarrowArgs, Start};
use crate::diagnose::contrast::{self, Data, Row};
use crate::diagnose::subject::resolve_two;
use crate::env::diff::State as DiffState;
use crate::env::reference::Reference;
use crate::report::{Exit, Page, Report, Style, Text};
use crate::verdict::{Liveness, State};

/// Compare two environments; the second is this terminal unless named
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The first: self, a pid, an agent, file:PATH, snapshot:DIR#PID, tmux:SESSION, systemd-user, login-shell
    a: Reference,
    /// The second
    #[arg(default_value = "self")]
    b: Reference,
    /// The equal ones too
    #[arg(long)]
    same: bool,
    #[command(flatten)]
    narrow: NarrowArgs,
}

pub fn run(args: Args, global: &Global) -> Exit {
    let start = match Start::new("diff", global) {
        Ok(start) => start,
        Err(exit) => return exit,
    };
    let subjects = resolve_two(&start.host, &args.a, &args.b, &args.narrow.into());
    let (a, b) = match subjects {
        Ok(subjects) => subjects,
        Err(problem) => return start.problem("diff", &problem),
    };
    let report = contrast::contrast(&start.host, &start.redactor, &a, &b, start.connect);
    start.answer(report, |report| page(report, args.same, (&a.label, &b.label)))
}

fn page(report: &Report<Data>, same: bool, (label_a, label_b): (&str, &str)) -> Page {
    let mut page = Page::new();
    page.facts(0, vec![("a".to_owned(), Text::styled(Style::Strong, label_a)), ("b".to_owned(), Text::styled(Style::Strong, label_b))]);
    page.gap();
    let telling = |row: &&Row| {
        same || row.state != DiffState::Same || [&row.liveness_a, &row.liveness_b].into_iter().flatten().any(|l| l.state.is_broken())
    };
    let rows: Vec<&Row> = report.data.variables.iter().filter(telling).collect();
    for row in &rows {
        let name = row.name.human();
        let mark = match row.state {
            DiffState::Same => Text::styled(Style::Dim, "= "),
            DiffState::Differs => Text::styled(Style::Warn, "≠ "),
            DiffState::OnlyA => Text::styled(Style::Warn, "a "),
            DiffState::OnlyB => Text::styled(Style::Warn, "b "),
            DiffState::Unknown => Text::styled(Style::Dim, "? "),
        };
        page.hanging(0, 2, mark.then(Style::Strong, name));
        for (side, value, liveness) in [("a", &row.a, &row.liveness_a), ("b", &row.b, &row.liveness_b)] {
            if let Some(value) = value {
                page.hanging(4, 6, Text::styled(Style::Dim, format!("{side} ")).then(Style::Plain, value.human()));
                if let Some(text) = liveness.as_ref().and_then(alive) {
                    page.hanging(6, 8, text);
                }
            }
        }
    }
    let equal = report.data.variables.iter().filter(|row| row.state == DiffState::Same).count();
    page.gap();
    let counted = |state| report.data.variables.iter().filter(|row| row.state == state).count();
    let words = format!(
        "{} differ, {} only in a, {} only in b, {} equal{}",
        counted(DiffState::Differs),
        counted(DiffState::OnlyA),
        counted(DiffState::OnlyB),
        equal,
        match counted(DiffState::Unknown) {
            0 => String::new(),
            unknown => format!(", {unknown} not comparable"),
        }
    );
    page.line(0, Text::styled(Style::Dim, words));
    for note in &report.notes {
        page.hanging(0, 2, Text::styled(Style::Dim, note));
    }
    page
}

/// A state with its reason, unless it says nothing.
pub fn alive(liveness: &Liveness) -> Option<Text> {
    if liveness.state == State::None {
        return None;
    }
    Some(Text::styled(style_of(liveness.state), liveness.state.word()).then(Style::Dim, format!(": {}", liveness.detail)))
}

/// The colour of a state.
pub fn style_of(state: State) -> Style {
    match state {
        State::Alive => Style::Good,
        State::Unknown | State::Missing => Style::Warn,
        State::None => Style::Dim,
        State::Reused | State::Refused | State::Dangling | State::Rejected => Style::Bad,
    }
}
