//! `whoseenv binary identify`.

use super::{FileArgs, Global, Start, title};
use crate::binary::identify::{Feature, Seen};
use crate::diagnose::binaries::identity::{self, Data};
use crate::report::{Exit, Page, Report, Style, Text};

/// Tell a program's product, generation and features by its own code, each with the strings that prove it
///
/// The version that the program carries decides nothing; it stands beside, and a finding says where the two disagree.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    file: FileArgs,
}

pub fn run(args: Args, global: &Global) -> Exit {
    let start = match Start::new("binary-identify", global) {
        Ok(start) => start,
        Err(exit) => return exit,
    };
    match args.file.open(&start).and_then(|opened| identity::examine(&start.host, &opened)) {
        Ok(report) => start.answer(report, |report| page(report, start.verbose)),
        Err(problem) => start.problem("binary-identify", &problem),
    }
}

fn page(report: &Report<Data>, verbose: bool) -> Page {
    let (file, found) = (&report.data.file, &report.data.identified);
    let mut page = Page::new();
    page.line(0, title(file));
    let mut facts = Vec::new();
    let product = found.product.as_deref().unwrap_or("not known");
    facts.push(("product".to_owned(), Text::plain(format!("{product}{}", if found.client { ", its client" } else { "" }))));
    let generation = match (&found.generation, &found.generation_title) {
        (Some(id), Some(title)) => Text::styled(Style::Strong, id).then(Style::Plain, format!(": {title}")),
        _ => Text::styled(Style::Dim, "not known"),
    };
    facts.push(("generation".to_owned(), generation));
    let proof = found.generation_evidence.iter().map(seen).collect::<Vec<_>>();
    if !proof.is_empty() {
        facts.push(("by".to_owned(), Text::styled(Style::Dim, proof.join("; "))));
    }
    facts.extend(found.version_string.as_ref().map(|version| ("calls itself".to_owned(), Text::plain(version))));
    if let (Some(last), count) = (found.migrations.last(), found.migrations.len()) {
        facts.push(("database".to_owned(), Text::plain(format!("knows {count} changes of the schema, the last {last}"))));
    }
    for list in &found.safe_lists {
        facts.push(("hands on".to_owned(), Text::plain(list.names.join(" ")).then(Style::Dim, format!(" at {}", list.offset))));
    }
    page.facts(2, facts);
    let rows = |present: bool| {
        let some = found.features.iter().filter(move |feature| feature.present == present);
        some.map(|feature| row(feature, verbose)).collect::<Vec<_>>()
    };
    page.gap();
    page.table(0, vec!["HAS", "WHAT", "PROVED BY"], rows(true));
    page.gap();
    page.table(0, vec!["HAS NOT", "WHAT", "LOOKED FOR"], rows(false));
    page.gap();
    for finding in &report.findings {
        page.hanging(0, 2, Text::styled(Style::Warn, finding.severity.word()).then(Style::Plain, format!(": {}", finding.message)));
    }
    for note in &report.notes {
        page.line(0, Text::styled(Style::Dim, note));
    }
    page
}

fn row(feature: &Feature, verbose: bool) -> Vec<Text> {
    let telling = feature.evidence.iter().filter(|seen| !feature.present || seen.occurrences > 0);
    let strings = telling.map(|one| if feature.present { seen(one) } else { one.string.clone() });
    let shown = if verbose { usize::MAX } else { 1 };
    let strings = strings.take(shown).collect::<Vec<_>>().join("; ");
    vec![
        Text::styled(if feature.present { Style::Good } else { Style::Dim }, &feature.id),
        Text::plain(&feature.title),
        Text::styled(Style::Dim, strings),
    ]
}

/// A string with the first place where it is.
fn seen(seen: &Seen) -> String {
    match seen.offset {
        Some(offset) => format!("{} at {offset}", seen.string),
        None => format!("no {}", seen.string),
    }
}
