//! `whoseenv binary diff`.

use std::ffi::OsString;

use super::{Global, NarrowArgs, Start, title};
use crate::binary::delta::Named;
use crate::diagnose::binaries::comparison::{self, Data, Program};
use crate::diagnose::binaries::{Target, open};
use crate::report::{Exit, Page, Report, Style, Text};

/// Tell what came and what went between two programs: operations, features, known strings, variables, schema changes
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The first: a path, -, pid:N, or the name of an agent that runs
    #[arg(value_name = "A")]
    a: OsString,
    /// The second
    #[arg(value_name = "B")]
    b: OsString,
    #[command(flatten)]
    narrow: NarrowArgs,
}

pub fn run(args: Args, global: &Global) -> Exit {
    let start = match Start::new("binary-diff", global) {
        Ok(start) => start,
        Err(exit) => return exit,
    };
    let narrow = args.narrow.into();
    let side = |word: &OsString| open(&start.host, &Target::parse(word), &narrow);
    let examined = start.fingerprints().and_then(|()| side(&args.a)).and_then(|a| comparison::examine(&a, &side(&args.b)?));
    match examined {
        Ok(report) => start.answer(report, |report| page(report, start.verbose)),
        Err(problem) => start.problem("binary-diff", &problem),
    }
}

/// So many rows of a part are shown, unless -v asks for all.
const SHOWN: usize = 6;

fn page(report: &Report<Data>, verbose: bool) -> Page {
    let (data, delta) = (&report.data, &report.data.delta);
    let shown = if verbose { usize::MAX } else { SHOWN };
    let mut page = Page::new();
    page.facts(0, vec![("a".to_owned(), program(&data.a)), ("b".to_owned(), program(&data.b))]);
    let features = delta.features.iter().map(|feature| (feature.present, format!("{}: {}", feature.id, feature.title)));
    part(&mut page, "Features", features.collect());
    let operation = |one: &Named| format!("{} {}  {}", one.method, one.path, one.id);
    let went = delta.operations_went.iter().map(|one| (false, operation(one)));
    let came = delta.operations_came.iter().map(|one| (true, operation(one)));
    part(&mut page, &format!("Operations ({} in both)", delta.operations_same), sides(went, came, shown));
    for (heading, went, came) in [
        ("Variables named in the code", &delta.variables_went, &delta.variables_came),
        ("Changes of the database schema", &delta.migrations_went, &delta.migrations_came),
    ] {
        let row = |present| move |name: &String| (present, name.clone());
        let (went, came) = (own_first(went), own_first(came));
        part(&mut page, heading, sides(went.iter().map(row(false)), came.iter().map(row(true)), shown));
    }
    if verbose && !delta.strings.is_empty() {
        page.heading("Strings of the table");
        let rows =
            delta.strings.iter().map(|one| vec![Text::plain(&one.string), Text::plain(one.a.to_string()), Text::plain(one.b.to_string())]);
        page.table(2, vec!["STRING", "IN A", "IN B"], rows.collect());
    }
    page.gap();
    if delta.is_empty() && delta.not_compared.is_empty() {
        page.line(0, "Nothing came and nothing went.");
    }
    for note in &report.notes {
        page.line(0, Text::styled(Style::Dim, note));
    }
    page
}

/// The product's own variables before those of the libraries that it is made of.
fn own_first(names: &[String]) -> Vec<String> {
    let mut names = names.to_vec();
    names.sort_by_key(|name| !(name.starts_with("OPENCODE_") || name.starts_with("ZEROCLAW_")));
    names
}

fn program(program: &Program) -> Text {
    let product = program.product.as_deref().unwrap_or("not known");
    let version = program.version_string.as_ref().map(|version| format!(" {version}")).unwrap_or_default();
    let generation = program.generation.as_ref().map(|generation| format!(", generation {generation}")).unwrap_or_default();
    title(&program.file).then(Style::Plain, format!(": {product}{version}{generation}"))
}

/// What went and what came, each cut to so many rows, with a row that says how many more there are.
fn sides(
    went: impl ExactSizeIterator<Item = (bool, String)>,
    came: impl ExactSizeIterator<Item = (bool, String)>,
    shown: usize,
) -> Vec<(bool, String)> {
    let (all_went, all_came) = (went.len(), came.len());
    let more = |present: bool, all: usize| {
        (all > shown)
            .then(|| (present, format!("… and {} more that {}; -v lists them", all - shown, if present { "came" } else { "went" })))
    };
    let went = went.take(shown).chain(more(false, all_went));
    went.chain(came.take(shown).chain(more(true, all_came))).collect()
}

fn part(page: &mut Page, heading: &str, rows: Vec<(bool, String)>) {
    if rows.is_empty() {
        return;
    }
    page.heading(heading);
    for (present, text) in rows {
        let mark = if present { Text::styled(Style::Good, "+ ") } else { Text::styled(Style::Bad, "- ") };
        page.hanging(2, 4, mark.then(Style::Plain, text));
    }
}
