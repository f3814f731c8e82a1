//! `whoseenv show`.

use super::diff::alive;
use super::doctor::needs_table;
use super::ps::age;
use super::{Global, NarrowArgs, Start};
use crate::diagnose::portrait::{self, Data, Process, SettingData};
use crate::diagnose::subject::{Narrow, resolve_one};
use crate::diagnose::values::Shown;
use crate::env::reference::Reference;
use crate::report::{Exit, Page, Report, Style, Text};

/// Show one process: parents, birth, environment, and whether what each value names is alive
#[derive(Debug, clap::Args)]
pub struct Args {
    /// self (unless narrowed), a pid, an agent, file:PATH, snapshot:DIR#PID, tmux:SESSION, systemd-user, login-shell
    #[arg(value_name = "TARGET")]
    target: Option<Reference>,
    #[command(flatten)]
    narrow: NarrowArgs,
}

pub fn run(args: Args, global: &Global) -> Exit {
    let start = match Start::new("show", global) {
        Ok(start) => start,
        Err(exit) => return exit,
    };
    let narrow = Narrow::from(args.narrow);
    match narrow.target(args.target).and_then(|target| resolve_one(&start.host, &target, &narrow)) {
        Ok(subject) => {
            start.answer(portrait::portrait(&start.host, &start.redactor, &subject, start.connect), |report| page(report, &subject.label))
        }
        Err(problem) => start.problem("show", &problem),
    }
}

fn page(report: &Report<Data>, label: &str) -> Page {
    let data = &report.data;
    let mut page = Page::new();
    page.line(0, Text::styled(Style::Strong, label));
    if let Some(process) = &data.process {
        page.facts(2, process_facts(process));
    }
    if !data.chain.is_empty() {
        page.heading("Parents");
        for (depth, link) in data.chain.iter().enumerate() {
            let argv = link.argv.iter().map(Shown::human).collect::<Vec<_>>().join(" ");
            let user = link.user.clone().unwrap_or_else(|| link.uid.to_string());
            let tty = link.tty.as_ref().map(|tty| format!(", {tty}")).unwrap_or_default();
            let head =
                Text::plain(format!("{} ", link.pid)).then(Style::Strong, &link.comm).then(Style::Dim, format!(" ({user}{tty}) {argv}"));
            page.hanging(2 + depth.min(8), 6 + depth.min(8), head);
        }
    }
    let birth = birth_facts(&data.birth);
    if !birth.is_empty() {
        page.heading("Born");
        page.facts(2, birth);
    }
    if !data.needs.is_empty() {
        page.heading("What it could do");
        needs_table(&mut page, &data.needs);
    }
    if !data.environment.is_empty() {
        page.heading(format!("Environment ({} entries)", data.environment.len()));
    }
    for variable in &data.environment {
        let text = match &variable.raw {
            Some(raw) => Text::styled(Style::Dim, "(no =) ").then(Style::Plain, raw.human()),
            None => Text::styled(Style::Strong, variable.name.human()).then(Style::Plain, format!("={}", variable.value.human())),
        };
        page.hanging(2, 6, text);
        if let Some(text) = variable.liveness.as_ref().and_then(alive) {
            page.hanging(6, 8, text);
        }
    }
    if !data.unit_environment.is_empty() {
        page.heading("What its unit declares");
        let setting =
            |setting: &Option<SettingData>| Text::plain(setting.as_ref().map(|setting| setting.value.human()).unwrap_or_default());
        let rows = data.unit_environment.iter().map(|row| {
            let live = row.live.as_ref().map_or_else(|| "not set".to_owned(), Shown::human);
            let style = if row.same == Some(false) { Style::Bad } else { Style::Plain };
            vec![Text::plain(row.name.human()), setting(&row.unit_file), setting(&row.drop_in), Text::styled(style, live)]
        });
        page.table(2, vec!["NAME", "UNIT FILE", "DROP-IN", "LIVE"], rows.collect());
    }
    page.gap();
    for finding in &report.findings {
        page.hanging(0, 2, Text::styled(Style::Warn, finding.severity.word()).then(Style::Plain, format!(": {}", finding.message)));
        for fix in &finding.fix {
            page.code(2, fix);
        }
    }
    for note in &report.notes {
        page.hanging(0, 2, Text::styled(Style::Dim, note));
    }
    page
}

fn process_facts(process: &Process) -> Vec<(String, Text)> {
    let mut facts = Vec::new();
    if let Some(agent) = &process.agent {
        let version = process.product_version.as_ref().map(|version| format!(" {version}")).unwrap_or_default();
        facts.push(("agent".to_owned(), Text::plain(format!("{agent}{version}, {}", process.role.word()))));
    }
    facts.push(("started".to_owned(), Text::plain(format!("{}, {} ago", process.start_time, age(process.age_ms)))));
    for (name, value) in [("program", &process.exe), ("cwd", &process.cwd)] {
        facts.extend(value.as_ref().map(|value| (name.to_owned(), Text::plain(value.human()))));
    }
    facts.extend(process.tty.as_ref().map(|tty| ("tty".to_owned(), Text::plain(tty))));
    facts.extend(process.session_id.as_ref().map(|session| ("session".to_owned(), Text::plain(session))));
    facts.extend(process.unreadable.as_ref().map(|reason| ("environ".to_owned(), Text::styled(Style::Warn, format!("unknown: {reason}")))));
    facts
}

/// Birth as facts, what is not known left out.
pub fn birth_facts(birth: &crate::origin::Birth) -> Vec<(String, Text)> {
    let rows = [
        ("ssh connection", &birth.ssh_connection),
        ("tty", &birth.tty),
        ("tmux", &birth.tmux),
        ("login session", &birth.login_session),
        ("unit", &birth.unit),
        ("container", &birth.container),
    ];
    rows.into_iter().filter_map(|(name, value)| Some((name.to_owned(), Text::plain(value.as_ref()?)))).collect()
}
