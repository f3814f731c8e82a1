//! `whoseenv binary ops`.

use super::{FileArgs, Global, Start, title};
use crate::diagnose::binaries::operations::{self, Data};
use crate::host::http::Password;
use crate::report::{Exit, Page, Report, Style, Text};

/// List the REST operations that a program's JavaScript registers: id, method, path, and where
///
/// The table names an operation as its host's contract does, where the code tells. In JSON `id` is the name that it is registered by, and
/// `identifier` the contract's, where that is another.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    file: FileArgs,
    /// Compare with an OpenAPI document: a file, or a URL on this machine (asked with GET). What the document does not list is `extra`;
    /// some releases' own lists a part of what they answer
    #[arg(long, value_name = "FILE|URL")]
    against: Option<String>,
    /// Ask the URL also where it is not on this machine
    #[arg(long, requires = "against")]
    allow_remote: bool,
}

pub fn run(args: Args, global: &Global) -> Exit {
    let start = match Start::new("binary-ops", global) {
        Ok(start) => start,
        Err(exit) => return exit,
    };
    let password = std::env::var("WHOSEENV_SERVER_PASSWORD").ok().filter(|password| !password.is_empty()).map(Password::new);
    let examined = args.file.open(&start).and_then(|opened| {
        let contract = args.against.as_deref().map(|word| operations::contract(word, password.as_ref(), args.allow_remote)).transpose()?;
        operations::examine(&opened, contract)
    });
    let report = match examined {
        Ok(report) => report,
        Err(problem) => return start.problem("binary-ops", &problem),
    };
    start.answer(report, |report| page(report, start.verbose))
}

fn page(report: &Report<Data>, verbose: bool) -> Page {
    let data = &report.data;
    let mut page = Page::new();
    page.line(0, title(&data.file).then(Style::Plain, format!(": {} operations", data.operations.len())));
    page.gap();
    if let Some(against) = &data.against {
        let rows = [
            against.missing.iter().map(|listed| ("missing", listed.method.as_str(), &listed.path, listed.id.clone())).collect::<Vec<_>>(),
            against.extra.iter().map(|one| ("extra", one.method.as_deref().unwrap_or("?"), &one.path, one.name().to_owned())).collect(),
            against
                .changed
                .iter()
                .map(|both| {
                    let method = both.bundle.method.as_deref().unwrap_or("?");
                    let id = format!("{}, in the bundle {method} {} {}", both.contract.id, both.bundle.path, both.bundle.name());
                    ("changed", both.contract.method.as_str(), &both.contract.path, id)
                })
                .collect(),
        ];
        let cells = |(what, method, path, id): (&str, &str, &String, String)| {
            vec![Text::styled(Style::Warn, what), Text::plain(method), Text::plain(path), Text::plain(id)]
        };
        page.table(0, vec!["", "METHOD", "PATH", "ID"], rows.into_iter().flatten().map(cells).collect());
        page.gap();
        let words = format!(
            "{} lists {}: {} the same, {} missing, {} extra, {} changed",
            against.source,
            against.listed,
            against.same,
            against.missing.len(),
            against.extra.len(),
            against.changed.len()
        );
        page.line(0, words);
    } else {
        let rows = data.operations.iter().map(|one| {
            let mut row = vec![Text::plain(one.method.as_deref().unwrap_or("?")), Text::plain(&one.path), Text::plain(one.name())];
            if verbose {
                row.push(Text::styled(Style::Dim, one.offset.to_string()));
            }
            row
        });
        let mut heads = vec!["METHOD", "PATH", "ID"];
        heads.extend(verbose.then_some("AT"));
        page.table(0, heads, rows.collect());
    }
    if verbose {
        for one in &data.unresolved {
            let known = [one.method.clone(), one.path.as_ref().map(|path| format!("…{path}")), Some(one.id.clone())];
            let known = known.into_iter().flatten().collect::<Vec<_>>().join(" ");
            page.hanging(0, 2, Text::styled(Style::Warn, "not made out: ").then(Style::Plain, format!("{known} at {}", one.offset)));
        }
    }
    for note in &report.notes {
        page.gap();
        page.line(0, Text::styled(Style::Dim, note));
    }
    page
}
