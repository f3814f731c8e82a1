//! `whoseenv verify`.

use std::path::PathBuf;
use std::time::Duration;

use clap::ValueEnum;

use super::probe::{cleanup, plan, word};
use super::{Global, NarrowArgs, Start};
use crate::diagnose::subject::Narrow;
use crate::diagnose::verify::{self, Agent, Data, Live, Query};
use crate::report::{Exit, Page, Problem, Progress, Report, Style, Text};
use crate::verdict::Outcome;

/// Four independent lines of evidence on what an agent does with environments, in one table
///
/// The live daemon's environment against this terminal's (which is only read); injection and its control, on a
/// host of the same program that is started in a private home and removed; and what the program file shows. SENDS, CREATES
/// and REMOVES what probe AGENT --spawn does, and nothing to a daemon that runs.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The agent
    #[arg(value_enum, value_name = "AGENT")]
    agent: AgentArg,
    /// The program, and by it the daemon: the one of yours that runs this very file. Without it, the program of the running daemon
    #[arg(long, value_name = "FILE")]
    bin: Option<PathBuf>,
    /// Print every request and process that would be made, and make none
    #[arg(long)]
    dry_run: bool,
    /// Longest wait for one answer
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=3600))]
    timeout: u64,
    /// Only processes of this user (name or uid)
    #[arg(long, value_name = "USER")]
    user: Option<String>,
    /// Only this process
    #[arg(long, value_name = "PID")]
    pid: Option<u32>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum AgentArg {
    /// OpenCode 1.x, the 2.0 preview and 2.x
    Opencode,
    /// ZeroClaw 0.8.x
    Zeroclaw,
}

pub fn run(args: Args, global: &Global) -> Exit {
    let start = match Start::live("verify", global) {
        Ok(start) => start,
        Err(exit) => return exit,
    };
    if let Err(problem) = start.fingerprints() {
        return start.problem("verify", &problem);
    }
    let agent = match args.agent {
        AgentArg::Opencode => Agent::OpenCode,
        AgentArg::Zeroclaw => Agent::ZeroClaw,
    };
    let narrow = Narrow::from(NarrowArgs { user: args.user, pid: args.pid, agent: None });
    let narrowed = narrow.user.is_some() || narrow.pid.is_some();
    let found = match &args.bin {
        // The file says which daemon is meant.
        Some(program) if !narrowed => Live::of_file(&start.host, agent, program),
        _ => Live::named(&start.host, agent, &narrow),
    };
    let live = match found {
        Ok(live) => live,
        Err(problem) => return start.problem("verify", &problem),
    };
    let Some(program) = args.bin.or_else(|| verify::program_of(&start.host, live.subject.as_deref()?)) else {
        let problem =
            Problem::new(Exit::NotFound, format!("no {} daemon{} runs here, and no program was named", agent.id(), narrow.words()))
                .hint(format!("Name the program: whoseenv verify {} --bin FILE", agent.id()));
        return start.problem("verify", &problem);
    };
    let query = Query { agent, program, patience: Duration::from_secs(args.timeout) };
    if args.dry_run {
        return match verify::plan(&query, &live) {
            Ok(report) => start.answer(report, |report| page(report, start.verbose)),
            Err(problem) => start.problem("verify", &problem),
        };
    }
    let watch = match super::probe::watched() {
        Ok(watch) => watch,
        Err(problem) => return start.problem("verify", &problem),
    };
    let progress = Progress::new(format!("verify {}", agent.id()), Some(14), global.quiet);
    match verify::verify(&start.host, &start.redactor, &query, &live, &progress) {
        Ok(report) => {
            drop((progress, watch));
            start.answer(report, |report| page(report, start.verbose))
        }
        Err(problem) => start.problem("verify", &problem),
    }
}

fn page(report: &Report<Data>, verbose: bool) -> Page {
    let data = &report.data;
    let mut page = Page::new();
    if !data.probe.plan.is_empty() {
        plan(&mut page, &data.probe);
        return page;
    }
    page.heading(match data.probe.host.as_ref().and_then(|host| host.version.as_deref()) {
        Some(version) => format!("{} {version}, {}", data.agent, data.program),
        None => format!("{}, {}", data.agent, data.program),
    });
    let rows = data.lines.iter().map(|line| {
        let (word, style) = line.outcome.map_or(("-", Style::Dim), word);
        let name = line.claim.as_ref().map_or(line.line.to_owned(), |claim| format!("{} ({claim})", line.line));
        vec![Text::styled(Style::Strong, name), Text::styled(style, word), Text::plain(&line.says)]
    });
    page.table(2, vec!["EVIDENCE", "OUTCOME", "SAYS"], rows.collect());
    for line in data.lines.iter().filter(|line| verbose || line.line == "live" || line.outcome == Some(Outcome::NotSupported)) {
        let evidence = if verbose { &line.evidence[..] } else { &line.evidence[line.evidence.len().saturating_sub(1)..] };
        for evidence in evidence {
            page.hanging(4, 6, Text::styled(Style::Dim, format!("{}: {}: {}", line.line, evidence.source, evidence.detail)));
        }
    }
    page.heading("What this means for you");
    page.line(2, &data.meaning);
    page.heading("Claim by claim");
    for claim in &data.probe.claims {
        let (word, style) = word(claim.outcome);
        let line =
            Text::styled(Style::Strong, format!("{:<4}", claim.id)).then(style, format!("{word:<14}")).then(Style::Plain, &claim.statement);
        page.hanging(2, 20, line);
        let last = claim.evidence.last().filter(|_| matches!(claim.outcome, Outcome::Refuted | Outcome::Undetermined));
        let shown = if verbose { claim.evidence.iter().collect() } else { Vec::from_iter(last) };
        for evidence in shown {
            page.hanging(6, 8, Text::styled(Style::Dim, format!("{}: {}", evidence.source, evidence.detail)));
        }
    }
    cleanup(&mut page, &data.probe);
    page
}
