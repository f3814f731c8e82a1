//! `whoseenv db schema`.

use crate::cli::Global;
use crate::diagnose::db::Asked;
use crate::diagnose::db::look::{self, Made};
use crate::report::{Exit, Page, Progress, Report, Style, Text};

/// Tables, columns, rows and bytes, and what its generation has and it has not
#[derive(Debug, clap::Args)]
pub struct Args {
    /// No bytes: every page of the store has to be read for them
    #[arg(long)]
    quick: bool,
}

pub fn run(args: &Args, asked: &Asked, global: &Global) -> Exit {
    super::with_store("db-schema", asked, global, None, |start, store| {
        let progress = Progress::new("db schema", None, asked.quiet);
        let data = look::schema(store, !args.quick, &progress)?;
        Ok(start.answer(Report::new("db-schema", data), |report| page(&report.data)))
    })
}

fn page(data: &Made) -> Page {
    let mut page = Page::new();
    super::read_line(&mut page, &data.store, data.read_as);
    let schema = &data.schema;
    page.line(0, format!("Made by {}.", schema.generation.name()));
    page.gap();
    let all: u64 = schema.tables.iter().filter_map(|table| table.bytes).sum();
    let number = |number: Option<u64>| Text::plain(number.map(|number| number.to_string()).unwrap_or_default());
    let rows = schema.tables.iter().map(|table| {
        let share = table.bytes.filter(|_| all > 0).map(|bytes| format!("{} %", bytes * 100 / all)).unwrap_or_default();
        let mut odd = Vec::new();
        odd.extend((!table.added_columns.is_empty()).then(|| format!("more: {}", table.added_columns.join(", "))));
        odd.extend((!table.missing_columns.is_empty()).then(|| format!("missing: {}", table.missing_columns.join(", "))));
        odd.extend((!table.secret_columns.is_empty()).then(|| format!("secret, not read: {}", table.secret_columns.join(", "))));
        vec![Text::plain(&table.name), number(table.rows), number(table.bytes), Text::plain(share), Text::plain(odd.join("; "))]
    });
    page.table(0, vec!["TABLE", "ROWS", "BYTES", "SHARE", "COLUMNS"], rows.collect());
    for (what, names) in [
        ("not of its generation", &schema.added_tables),
        ("of its generation, and not there", &schema.missing_tables),
        ("views and virtual tables, not read", &schema.not_read),
    ] {
        if !names.is_empty() {
            page.gap();
            page.hanging(0, 2, Text::styled(Style::Dim, format!("{what}: {}", names.join(", "))));
        }
    }
    page
}
