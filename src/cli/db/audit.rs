//! `whoseenv db audit`.

use crate::cli::Global;
use crate::diagnose::db::audit::{self, Data};
use crate::diagnose::db::{Asked, counted, programs};
use crate::report::{Exit, Page, Problem, Report, Style, Text};
use crate::verdict::{Finding, Outcome, Severity};

/// What is wrong with a store: its pages, its queue, its sessions, its plugins' rows, who holds it
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Also find every OpenCode and ZeroClaw program here, and those older than this store
    ///
    /// Compared are those that would open this store, by the variables of whoever starts them; the others are listed. Where they are
    /// looked for, whoseenv doctor --help says.
    #[arg(long)]
    binaries: bool,
}

pub fn run(args: &Args, asked: &Asked, global: &Global) -> Exit {
    super::with_store("db-audit", asked, global, None, |start, store| {
        let mut report = audit::audit(&start.host, store, asked.quiet)?;
        if args.binaries {
            start.fingerprints()?;
            let unlisted = |reason| Problem::new(Exit::Io, format!("the list of processes could not be read: {reason}"));
            programs::add(&start.host, store, &mut report).map_err(unlisted)?;
        }
        Ok(start.answer(report, page))
    })
}

fn page(report: &Report<Data>) -> Page {
    let data = &report.data;
    let mut page = Page::new();
    page.heading(Text::styled(Style::Strong, &data.store.path));
    let mut facts = super::info::facts(&data.store);
    let mut fact = |name: &str, text: String| facts.push((name.to_owned(), Text::plain(text)));
    let base = data.base_integrity.as_ref().map(|base| format!("; without its -wal {base}")).unwrap_or_default();
    fact("pages are", format!("{}{base}", data.integrity));
    let turns = match (data.suspended, data.suspended_unknown) {
        (None, _) => "not known how many in a turn".to_owned(),
        (Some(known), 0) => format!("{known} in a turn"),
        (Some(known), unknown) => format!("{known} in a turn, not known of {unknown}"),
    };
    fact("sessions", format!("{}, {}, {turns}", data.sessions, counted(data.orphans, "orphan", "orphans")));
    fact("waiting", counted(data.pending, "row", "rows"));
    fact("plugins", counted(data.plugin_rows, "row", "rows"));
    if let (Some(events), Some(bytes)) = (data.events, data.event_bytes) {
        let about = if data.event_bytes_estimated == Some(true) { "about " } else { "" };
        fact("events", format!("{events}, {about}{}", counted(bytes, "byte", "bytes")));
    }
    page.facts(2, facts);
    page.gap();
    if report.findings.is_empty() {
        page.line(0, Text::styled(Style::Good, "Nothing is wrong with it."));
    }
    findings(&mut page, &report.findings);
    if let Some(binaries) = &data.binaries {
        crate::cli::doctor::programs_table(&mut page, binaries);
    }
    for note in &report.notes {
        page.gap();
        page.line(0, Text::styled(Style::Dim, note));
    }
    page
}

/// Findings with their evidence and remedies.
pub fn findings(page: &mut Page, findings: &[Finding]) {
    for finding in findings {
        page.gap();
        let style = match finding.severity {
            Severity::Error => Style::Bad,
            Severity::Warning => Style::Warn,
            Severity::Info => Style::Dim,
        };
        let unsure = if finding.outcome == Outcome::Undetermined { " (undetermined)" } else { "" };
        let text = Text::styled(style, finding.severity.word()).then(Style::Plain, format!("{unsure} {} ", finding.message));
        page.hanging(0, 2, text.then(Style::Dim, format!("[{}]", finding.id)));
        for evidence in &finding.evidence {
            page.hanging(2, 4, Text::styled(Style::Dim, format!("{}: {}", evidence.source, evidence.detail)));
        }
        for fix in &finding.fix {
            page.code(2, fix);
        }
    }
}
