//! Four independent lines of evidence, side by side: the live daemon, injection, control, binary.
//!
//! None of them is enough: what a live daemon has says nothing of what it would do with an upload, an experiment says
//! nothing of the daemon that runs, and a string in a program says nothing of what happens.

mod binary;
mod live;

use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::Serialize;

use super::probing;
use super::subject::Subject;
use crate::env::diff::{State, diff};
use crate::host::{Fact, Host, Unknown};
use crate::probe::{self, Judged};
use crate::redact::Redactor;
use crate::report::{Progress, Report, Rows};
use crate::verdict::registry::PROBE_UNDETERMINED;
use crate::verdict::{Evidence, Finding, How, Outcome};

pub use live::Live;

/// What the four lines come to.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Data {
    /// The agent.
    pub agent: String,
    /// The program that was started for the experiments.
    pub program: String,
    /// Live contrast, injection, control, binary: in this order. None under `--dry-run`.
    pub lines: Vec<Line>,
    /// What this means for the one who asks; empty under `--dry-run`.
    pub meaning: String,
    /// The experiments, claim by claim.
    pub probe: probe::Data,
}

impl Rows for Data {
    type Row = Line;
    const FIELD: Option<&'static str> = Some("lines");

    fn split(mut self) -> (Option<Self>, Vec<Line>) {
        let rows = std::mem::take(&mut self.lines);
        (Some(self), rows)
    }
}

/// One line of evidence.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Line {
    /// `live`, `injection`, `control` or `binary`.
    pub line: &'static str,
    /// The claim of the registry that it stands on, where it stands on one.
    pub claim: Option<String>,
    /// What it says; absent where it was not looked at.
    pub outcome: Option<Outcome>,
    /// In one sentence.
    pub says: String,
    /// What was read.
    pub evidence: Vec<Evidence>,
}

/// What is verified.
pub struct Query {
    /// `opencode` or `zeroclaw`.
    pub agent: Agent,
    /// The program.
    pub program: PathBuf,
    /// Longest wait for one answer.
    pub patience: std::time::Duration,
}

/// An agent that has a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Agent {
    /// OpenCode.
    OpenCode,
    /// ZeroClaw.
    ZeroClaw,
}

impl Agent {
    /// Its id in the catalogue.
    pub fn id(self) -> &'static str {
        match self {
            Agent::OpenCode => "opencode",
            Agent::ZeroClaw => "zeroclaw",
        }
    }

    /// The feature of the table of fingerprints that the injection tests.
    fn feature(self) -> &'static str {
        match self {
            Agent::OpenCode => "session_environment",
            Agent::ZeroClaw => "client_environment",
        }
    }

    /// The claims that injection and control stand on.
    fn claims(self) -> (&'static str, &'static str) {
        match self {
            Agent::OpenCode => ("O3", "O2"),
            Agent::ZeroClaw => ("Z1", "Z2"),
        }
    }
}

/// Looks at all four.
///
/// # Errors
/// When the program cannot be started at all.
pub fn verify(
    host: &Host,
    redactor: &Redactor,
    query: &Query,
    live: &Live,
    progress: &Progress,
) -> Result<Report<Data>, crate::report::Problem> {
    let first = live_line(host, redactor, live, &query.program);
    let probe = match query.agent {
        Agent::OpenCode => {
            let target = probe::opencode::Target::Spawn(query.program.clone());
            let options = probe::opencode::Options { target, patience: query.patience, allow_remote: None, password_file: None };
            probe::opencode::probe(host, &options, redactor, progress)?
        }
        Agent::ZeroClaw => {
            let target = probe::zeroclaw::Target::Spawn(query.program.clone());
            let options = probe::zeroclaw::Options { target, patience: query.patience, default_policy: false, declared: Vec::new() };
            probe::zeroclaw::probe(host, &options, redactor, progress)?
        }
    };
    let (injection, control) = query.agent.claims();
    let (fourth, disagrees) = binary::line(host, query.agent, &query.program);
    let unknown = (fourth.outcome == Some(Outcome::Undetermined)).then(|| {
        let seen = Evidence {
            source: query.program.display().to_string(),
            how: How::Passive,
            at: host.machine().taken_at(),
            detail: fourth.says.clone(),
        };
        let subject = query.program.display().to_string();
        Finding::new(&PROBE_UNDETERMINED, Outcome::Undetermined, subject, format!("what the program file shows: {}", fourth.says))
            .evidence([seen])
    });
    let lines = vec![first, claim_line("injection", injection, &probe), claim_line("control", control, &probe), fourth];
    let probed = probing::report("verify", probe, &[]);
    let meaning = meaning(query.agent, &probed.data);
    let data =
        Data { agent: query.agent.id().to_owned(), program: query.program.display().to_string(), lines, meaning, probe: probed.data };
    let mut report = Report::new("verify", data);
    report.findings = probed.findings;
    report.findings.extend(disagrees);
    report.findings.extend(unknown);
    report.not_permitted = live.pinned && live.subject.as_ref().is_some_and(|daemon| matches!(daemon.known(), Err(Unknown::NotPermitted)));
    report.notes = live.subject.as_ref().map(|live| live.notes.clone()).unwrap_or_default();
    Ok(report)
}

/// What would be done, and is not.
///
/// # Errors
/// When the program cannot be started at all.
pub fn plan(query: &Query, live: &Live) -> Result<Report<Data>, crate::report::Problem> {
    let mut probe = match query.agent {
        Agent::OpenCode => probe::opencode::plan(&probe::opencode::Target::Spawn(query.program.clone()))?,
        Agent::ZeroClaw => probe::zeroclaw::plan(&probe::zeroclaw::Target::Spawn(query.program.clone()), false)?,
    };
    let daemon = match live.subject.as_ref().and_then(|subject| subject.stat.as_ref()) {
        Some(stat) => format!("read /proc/{}/environ, the daemon's, and this terminal's environment", stat.pid),
        None => format!("read no daemon's environment: {}", live.why),
    };
    probe.plan.insert(0, daemon);
    probe.plan.insert(1, format!("read {}, for what its code shows", query.program.display()));
    let (agent, program) = (query.agent.id().to_owned(), query.program.display().to_string());
    Ok(Report::new("verify", Data { agent, program, lines: Vec::new(), meaning: String::new(), probe }))
}

/// The live daemon's environment against this terminal's.
fn live_line(host: &Host, redactor: &Redactor, live: &Live, program: &Path) -> Line {
    let line = |outcome, says: String, evidence| Line { line: "live", claim: None, outcome, says, evidence };
    let Some(daemon) = &live.subject else {
        return line(None, format!("not looked at: {}", live.why), Vec::new());
    };
    let terminal = Subject::terminal(host);
    let (theirs, ours) = match (daemon.known(), terminal.known()) {
        (Ok(theirs), Ok(ours)) => (theirs, ours),
        (Err(reason), _) | (_, Err(reason)) => {
            return line(Some(Outcome::Undetermined), format!("an environment could not be read: {reason}"), Vec::new());
        }
    };
    let shown = diff(theirs, ours, true).into_iter().filter(|difference| redactor.name(difference.name.as_bytes()).is_ok());
    // Every shell has its own of these.
    let of_a_shell = |name: &str| ["PWD", "OLDPWD", "SHLVL", "_"].contains(&name);
    let other: Vec<_> = shown.filter(|difference| difference.state != State::Same && !of_a_shell(&difference.name.lossy())).collect();
    let names: Vec<_> = other.iter().map(|difference| difference.name.lossy().into_owned()).collect();
    let at = || host.machine().taken_at();
    let read = |subject: &Subject, count: usize| Evidence {
        source: subject.source.clone(),
        how: How::Passive,
        at: at(),
        detail: format!("{} has {count} variables", subject.label),
    };
    let mut evidence = vec![read(daemon, theirs.entries.len()), read(&terminal, ours.entries.len())];
    if !names.is_empty() {
        evidence.push(Evidence {
            source: "both".to_owned(),
            how: How::Passive,
            at: at(),
            detail: format!("not the same: {}", names.join(", ")),
        });
    }
    let another = match program_of(host, daemon) {
        Some(theirs) if !live::one_file(&theirs, program) => format!("; it runs another program, {}", theirs.display()),
        _ => String::new(),
    };
    let says = match names.len() {
        0 => format!("the daemon has this terminal's environment: it tells the two apart no more{another}"),
        count => format!("the daemon does not have this terminal's environment: {count} variables are not the same{another}"),
    };
    line(Some(if names.is_empty() { Outcome::Refuted } else { Outcome::Confirmed }), says, evidence)
}

fn claim<'d>(id: &str, probe: &'d probe::Data) -> Option<&'d Judged> {
    probe.claims.iter().find(|claim| claim.id == id)
}

fn claim_line(line: &'static str, id: &str, probe: &probe::Data) -> Line {
    match claim(id, probe) {
        Some(claim) => Line {
            line,
            claim: Some(claim.id.clone()),
            outcome: Some(claim.outcome),
            says: claim.statement.clone(),
            evidence: claim.evidence.clone(),
        },
        None => Line { line, claim: Some(id.to_owned()), outcome: None, says: "not looked at".to_owned(), evidence: Vec::new() },
    }
}

/// What this means for the one who asks, in one paragraph.
fn meaning(agent: Agent, probe: &probe::Data) -> String {
    let is = |id: &str, outcome: Outcome| claim(id, probe).is_some_and(|claim| claim.outcome == outcome);
    let Some(host) = &probe.host else {
        return "The program did not run, so nothing is known of what it does with environments.".to_owned();
    };
    let name = match &host.version {
        Some(version) => format!("{} {version}", host.product),
        None => host.product.clone(),
    };
    match agent {
        Agent::OpenCode if is("O3", Outcome::NotSupported) && is("O2", Outcome::Confirmed) => format!(
            "Every command of {name} runs with the environment of whoever started its daemon, frozen at that moment. Opening a \
             session from another terminal changes nothing for it: a display, an agent socket or a login of that terminal does not \
             arrive. To change what commands see, start the daemon anew from the terminal whose environment they should have."
        ),
        Agent::OpenCode if is("O3", Outcome::Confirmed) && is("O2", Outcome::Confirmed) => format!(
            "In {name} a session's commands run with the environment of the last terminal that opened the session, whole, and \
             those of a session that nobody uploaded to with the daemon's, frozen at its start. To give a session this terminal's \
             environment, open it here again; after a restart of the daemon, too. PTYs, forks and whatever uses the API without an upload have \
             the daemon's."
        ),
        Agent::ZeroClaw if is("Z1", Outcome::Confirmed) && is("Z2", Outcome::Confirmed) => {
            let replaced = if is("Z10", Outcome::Refuted) {
                " But another client that asks for the same session with the other chat_mode replaces it, and its shells then have \
                 that client's environment: this version does not refuse it."
            } else {
                ""
            };
            format!(
                "In {name} a session's shells run with the environment of the zerocode that made the session, over a short list of the \
                 daemon's variables; a session made without one sees that list alone. To give the shells this terminal's \
                 environment, make a new session here.{replaced}"
            )
        }
        _ => format!("What {name} does with environments is not what is known of it, or could not be seen: read the claims one by one."),
    }
}

/// The program that a live daemon runs, for a person who named none.
pub fn program_of(host: &Host, live: &Subject) -> Option<PathBuf> {
    let pid = live.stat.as_ref()?.pid;
    let exe: Fact<_> = host.process(pid).exe();
    let exe = exe.ok()?;
    // A program that was replaced is not what would be started from that path.
    if exe.deleted { Some(PathBuf::from(format!("/proc/{pid}/exe"))) } else { Some(exe.path.as_path().to_owned()) }
}
