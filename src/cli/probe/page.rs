//! What a person reads of a probe.

use crate::probe::Data;
use crate::report::{Page, Report, Style, Text};
use crate::verdict::Outcome;

/// A word and its style for an outcome.
pub fn word(outcome: Outcome) -> (&'static str, Style) {
    match outcome {
        Outcome::Confirmed => ("confirmed", Style::Good),
        Outcome::Refuted => ("refuted", Style::Bad),
        Outcome::Undetermined => ("undetermined", Style::Warn),
        Outcome::NotSupported => ("not supported", Style::Dim),
    }
}

/// The page of a probe.
pub fn page(report: &Report<Data>, verbose: bool) -> Page {
    let data = &report.data;
    let mut page = Page::new();
    if !data.plan.is_empty() {
        plan(&mut page, data);
        return page;
    }
    if let Some(host) = &data.host {
        let pid = host.pid.map(|pid| format!(", pid {pid}")).unwrap_or_default();
        let how = if host.spawned { "started for this probe" } else { "running" };
        let version = host.version.as_deref().map(|version| format!(" {version}")).unwrap_or_default();
        page.heading(format!("{}{version}, {how}{pid}", host.product));
    }
    let column = data.claims.iter().map(|claim| claim.id.len()).max().unwrap_or(0).max(3) + 1;
    for claim in &data.claims {
        let (word, style) = word(claim.outcome);
        let line = Text::styled(Style::Strong, format!("{:<column$}", claim.id))
            .then(style, format!("{word:<14}"))
            .then(Style::Plain, &claim.statement);
        page.hanging(2, column + 16, line);
        let shown = verbose || matches!(claim.outcome, Outcome::Refuted | Outcome::Undetermined);
        if shown {
            if let Some(documented) = &claim.documented {
                page.hanging(6, 8, Text::styled(Style::Dim, format!("documented: {documented}")));
            }
            if verbose {
                page.hanging(6, 8, Text::styled(Style::Dim, format!("experiment: {} control: {}", claim.experiment, claim.control)));
            }
            let evidence = if verbose { &claim.evidence[..] } else { &claim.evidence[claim.evidence.len().saturating_sub(2)..] };
            for evidence in evidence {
                page.hanging(6, 8, Text::styled(Style::Dim, format!("{}: {}", evidence.source, evidence.detail)));
            }
        }
    }
    cleanup(&mut page, data);
    page
}

/// What would be done.
pub fn plan(page: &mut Page, data: &Data) {
    page.heading("Would be done, and is not");
    for line in &data.plan {
        page.hanging(2, 4, line);
    }
}

/// What was removed, and what is left.
pub fn cleanup(page: &mut Page, data: &Data) {
    page.gap();
    let cleanup = &data.cleanup;
    let removed = if cleanup.removed.is_empty() { "nothing".to_owned() } else { cleanup.removed.join(", ") };
    let again = if cleanup.looked_again { "; looked again" } else { "" };
    page.line(0, format!("removed: {removed}{again}"));
    for left in &cleanup.left {
        let style = if left.by_nature { Style::Dim } else { Style::Warn };
        page.hanging(0, 2, Text::styled(style, format!("left: {} ({})", left.what, left.why)));
    }
}
