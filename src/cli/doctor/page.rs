//! The screen of `doctor`: daemon by daemon, what is wrong first, the fix last.

use super::super::diff::{alive, style_of};
use super::super::ps::age;
use crate::diagnose::binaries::inventory::Binary;
use crate::diagnose::binaries::older;
use crate::diagnose::doctor::needs::{Need, Verdict};
use crate::diagnose::doctor::{Daemon, Data, Point};
use crate::report::{Page, Report, Style, Text};
use crate::verdict::{Finding, Outcome, Severity, State};

/// More evidence than this under one finding is shown with --verbose alone.
const EVIDENCE: usize = 3;

/// What the screen depends on beside the report.
pub struct Around {
    /// All evidence.
    pub verbose: bool,
    /// The machine is the one in the program.
    pub demo: bool,
    /// `/proc` hides processes.
    pub hidden: bool,
    /// What narrowed the question; see [`crate::diagnose::subject::Narrow::words`].
    pub narrow: String,
}

pub fn page(report: &Report<Data>, terminal: &str, around: &Around) -> Page {
    let &Around { verbose, demo, hidden, ref narrow } = around;
    let data = &report.data;
    let mut page = Page::new();
    if demo {
        page.line(0, Text::styled(Style::Dim, "A captured machine, not yours. Yours: whoseenv"));
        page.gap();
    }
    if data.daemons.is_empty() {
        let place = if hidden { "is to be seen from this account" } else { "runs here" };
        let others = match data.others.as_slice() {
            [] => String::new(),
            [one] => format!(" One other process does ({} pid {}): whoseenv ps", one.role.word(), one.pid),
            several => format!(" {} other processes of agents do: whoseenv ps", several.len()),
        };
        page.hanging(0, 2, Text::plain(format!("No agent daemon{narrow} {place}.{others}")));
        page.hanging(0, 2, Text::styled(Style::Dim, format!("Looked for {}.", data.looked_for.join(", "))));
    }
    let mut told = Vec::new();
    for daemon in &data.daemons {
        page.gap();
        head(&mut page, daemon);
        let label = label(daemon);
        let findings: Vec<&Finding> = report.findings.iter().filter(|finding| finding.subject == label).collect();
        told.push(label);
        if findings.is_empty() && daemon.unreadable.is_none() {
            page.line(2, Text::styled(Style::Good, if report.ignored == 0 { "nothing wrong" } else { "nothing else wrong" }));
        }
        list(&mut page, &findings, verbose);
        fixes(&mut page, &findings);
        if !daemon.needs.is_empty() {
            page.gap();
            matrix(&mut page, daemon, &data.terminal_needs, terminal);
        }
    }
    let rest: Vec<&Finding> = report.findings.iter().filter(|finding| !told.contains(&finding.subject)).collect();
    if !data.terminal_variables.is_empty() && (data.daemons.is_empty() || verbose) {
        page.heading(upper(terminal));
        let (masked, shown): (Vec<&Point>, Vec<&Point>) =
            data.terminal_variables.iter().filter(|point| point.liveness.state != State::None).partition(|point| {
                point.value.masked.is_some() && data.terminal_variables.iter().filter(|other| other.is_like(point)).count() > 1
            });
        for point in shown {
            page.hanging(2, 4, Text::styled(Style::Strong, &point.name).then(Style::Plain, format!("={}", point.value.human())));
            if let Some(text) = alive(&point.liveness) {
                page.hanging(4, 6, text);
            }
        }
        for (at, point) in masked.iter().enumerate().filter(|(at, point)| !masked[..*at].iter().any(|other| other.is_like(point))) {
            let names: Vec<&str> = masked[at..].iter().filter(|other| other.is_like(point)).map(|other| other.name.as_str()).collect();
            page.hanging(2, 4, Text::styled(Style::Strong, names.join(", ")));
            let state = Text::styled(style_of(point.liveness.state), point.liveness.state.word());
            page.hanging(4, 6, state.then(Style::Dim, format!(", each: {}", point.liveness.detail)));
        }
    }
    let mut subjects: Vec<&str> = rest.iter().map(|finding| finding.subject.as_str()).collect();
    subjects.dedup();
    for subject in subjects {
        let findings: Vec<&Finding> = rest.iter().copied().filter(|finding| finding.subject == subject).collect();
        page.heading(upper(subject));
        list(&mut page, &findings, verbose);
        fixes(&mut page, &findings);
    }
    if let Some(programs) = &data.programs {
        found(&mut page, programs);
    }
    page.gap();
    page.line(0, summary(&report.findings, hidden || report.undetermined || report.not_permitted, report.ignored > 0));
    for note in &report.notes {
        page.hanging(0, 2, Text::styled(Style::Dim, note));
    }
    page
}

/// The programs that were found, and the databases that they would open.
fn found(page: &mut Page, programs: &older::Data) {
    programs_table(page, &programs.binaries);
    for database in &programs.databases {
        let last = database.last_migration.as_ref().map(|last| format!(", the last {last}")).unwrap_or_default();
        page.hanging(2, 4, Text::plain(&database.path).then(Style::Dim, format!(": {} changes were made{last}", database.migrations)));
    }
}

/// The programs that were found, with the databases that each is older than.
pub fn programs_table(page: &mut Page, binaries: &[Binary]) {
    page.heading("Programs");
    if binaries.is_empty() {
        page.line(2, "no OpenCode and no ZeroClaw program was found");
    }
    let rows = binaries.iter().map(|binary| {
        let older = binary.older_than.iter().map(|older| format!("lacks {} of {}", older.lacking.len(), older.database));
        let unsure = binary.not_compared.iter().map(|database| format!("not known for {database}"));
        let older = older.chain(unsure).collect::<Vec<_>>().join("; ");
        vec![
            Text::styled(Style::Strong, &binary.path),
            Text::plain(format!("{} {}", binary.product, binary.version_string.as_deref().unwrap_or("?"))),
            Text::plain(binary.generation.as_deref().unwrap_or("?")),
            Text::styled(Style::Dim, binary.found.join(", ")),
            Text::styled(Style::Bad, older),
        ]
    });
    page.table(2, vec!["PROGRAM", "VERSION", "GENERATION", "FOUND", "OLDER"], rows.collect());
}

/// As findings name it.
fn label(daemon: &Daemon) -> String {
    format!("{} (pid {})", daemon.agent, daemon.pid)
}

fn upper(text: &str) -> String {
    // A file's name is not the beginning of a sentence.
    if text.split(' ').next().is_some_and(|word| word.contains(['.', '/'])) {
        return text.to_owned();
    }
    let mut letters = text.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}

fn head(page: &mut Page, daemon: &Daemon) {
    let version = daemon.product_version.as_ref().map(|version| format!(" {version}")).unwrap_or_default();
    let mode = daemon.mode.map(|mode| format!(", {}", mode.word())).unwrap_or_default();
    page.hanging(
        0,
        2,
        Text::styled(Style::Strong, format!("{}{version}", daemon.agent)).then(Style::Plain, format!("{mode}, pid {}", daemon.pid)),
    );
    let user = daemon.user.clone().unwrap_or_else(|| format!("uid {}", daemon.uid));
    let mut facts = vec![("runs as".to_owned(), Text::plain(format!("{user}, for {}", age(daemon.age_ms))))];
    let birth = &daemon.birth;
    if let Some(connection) = &birth.ssh_connection {
        let mut words = connection.split(' ');
        let (ip, port) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let mut text = Text::plain(format!("in the ssh login from {ip} port {port}"));
        if let Some(liveness) = &daemon.birth_connection {
            let (style, word) = match liveness.state {
                State::Alive => (Style::Good, ", still connected"),
                State::Unknown => (Style::Warn, ", which could not be looked up"),
                _ => (Style::Bad, ", which has ended"),
            };
            text = text.then(style, word);
        }
        facts.push(("born".to_owned(), text));
    }
    let places = [
        ("tmux", &birth.tmux),
        ("unit", &birth.unit),
        ("login session", &birth.login_session),
        ("container", &birth.container),
        ("tty", &birth.tty),
    ];
    let places: Vec<String> = places.iter().filter_map(|(name, value)| Some(format!("{name} {}", value.as_ref()?))).collect();
    if !places.is_empty() {
        facts.push((if birth.ssh_connection.is_some() { "in".to_owned() } else { "born".to_owned() }, Text::plain(places.join(", "))));
    }
    page.facts(2, facts);
}

fn list(page: &mut Page, findings: &[&Finding], verbose: bool) {
    for finding in findings {
        page.gap();
        let (style, word) = match (finding.outcome, finding.severity) {
            (Outcome::Undetermined, _) => (Style::Warn, "unknown"),
            (_, Severity::Error) => (Style::Bad, "error"),
            (_, Severity::Warning) => (Style::Warn, "warning"),
            (_, Severity::Info) => (Style::Dim, "info"),
        };
        page.hanging(
            2,
            4,
            Text::styled(style, word).then(Style::Plain, format!(" {}", finding.message)).then(Style::Dim, format!(" [{}]", finding.id)),
        );
        let shown = if verbose { finding.evidence.len() } else { EVIDENCE.min(finding.evidence.len()) };
        for evidence in &finding.evidence[..shown] {
            page.hanging(4, 6, Text::styled(Style::Dim, format!("{}: {}", evidence.source, evidence.detail)));
        }
        if finding.evidence.len() > shown {
            page.line(4, Text::styled(Style::Dim, format!("{} more with --verbose", finding.evidence.len() - shown)));
        }
    }
}

/// Every line of every fix once, so that each fix keeps its own order.
fn fixes(page: &mut Page, findings: &[&Finding]) {
    let mut lines: Vec<&String> = Vec::new();
    for finding in findings {
        for (at, line) in finding.fix.iter().enumerate() {
            if !lines.contains(&line) {
                // What a fix does before a line that another fix has too, is done before that line.
                let next = finding.fix[at..].iter().find_map(|later| lines.iter().position(|known| *known == later));
                lines.insert(next.unwrap_or(lines.len()), line);
            }
        }
    }
    // The same command with values in front of it, in the same directory, does more.
    let does_more = |other: &str, line: &str| {
        let (dir, command) = line.split_once("&& ").unwrap_or(("", line));
        other != line && other.starts_with(dir) && other.ends_with(&format!(" {command}"))
    };
    let lines: Vec<&String> = lines.iter().copied().filter(|line| !lines.iter().any(|other| does_more(other, line))).collect();
    if lines.is_empty() {
        return;
    }
    page.gap();
    page.line(2, Text::styled(Style::Strong, "what to do"));
    for line in lines {
        page.code(4, line);
    }
}

fn matrix(page: &mut Page, daemon: &Daemon, terminal_needs: &[Need], terminal: &str) {
    let rows = daemon.needs.iter().map(|need| {
        let here = terminal_needs.iter().find(|here| here.purpose == need.purpose);
        let here = here.map_or_else(Text::default, |here| Text::styled(verdict_style(here.verdict), here.verdict.word()));
        vec![
            Text::plain(need.purpose.words()),
            Text::styled(verdict_style(need.verdict), need.verdict.word()),
            here,
            Text::styled(Style::Plain, &need.detail),
        ]
    });
    let here = if terminal == "this terminal" { "HERE" } else { "THERE" };
    page.table(2, vec!["TO", "DAEMON", here, "WHY"], rows.collect());
}

/// The matrix of one process alone.
pub fn needs_table(page: &mut Page, needs: &[Need]) {
    for need in needs {
        let line = Text::plain(format!("{}: ", need.purpose.words())).then(verdict_style(need.verdict), need.verdict.word());
        page.hanging(2, 4, line.then(Style::Dim, format!(", {}", need.detail)));
        for part in &need.parts {
            let state = Text::plain(format!("{} ", part.name)).then(style_of(part.liveness.state), part.liveness.state.word());
            page.hanging(4, 6, state.then(Style::Dim, format!(": {}", part.liveness.detail)));
        }
    }
}

fn verdict_style(verdict: Verdict) -> Style {
    match verdict {
        Verdict::Works => Style::Good,
        Verdict::Broken => Style::Bad,
        Verdict::Unreliable | Verdict::Unknown => Style::Warn,
        Verdict::Missing => Style::Dim,
    }
}

fn summary(findings: &[Finding], partial: bool, ignored: bool) -> Text {
    let count = |severity| findings.iter().filter(|finding| finding.outcome == Outcome::Confirmed && finding.severity == severity).count();
    let unknown = findings.iter().filter(|finding| finding.outcome == Outcome::Undetermined).count();
    let plural = |count: usize, word: &str| if count == 1 { format!("1 {word}") } else { format!("{count} {word}s") };
    let mut parts = Vec::new();
    for (severity, word) in [(Severity::Error, "error"), (Severity::Warning, "warning")] {
        if count(severity) > 0 {
            parts.push(plural(count(severity), word));
        }
    }
    if count(Severity::Info) > 0 {
        parts.push(format!("{} info", count(Severity::Info)));
    }
    if unknown > 0 {
        parts.push(format!("{unknown} unknown"));
    }
    if parts.is_empty() {
        return if partial {
            Text::styled(
                Style::Warn,
                if ignored { "Nothing else wrong in what could be seen." } else { "Nothing wrong in what could be seen." },
            )
        } else if ignored {
            Text::styled(Style::Plain, "Nothing else wrong.")
        } else {
            Text::styled(Style::Good, "Nothing wrong.")
        };
    }
    Text::styled(Style::Strong, format!("{}.", parts.join(", ")))
}
