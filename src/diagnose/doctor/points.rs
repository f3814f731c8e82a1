//! Variables that name something that lives: in a daemon, in the terminal, and the one against the other.

use crate::agent::Remedy;
use crate::env::catalog;
use crate::env::diff::State as DiffState;
use crate::host::environ::{Entry, Value};
use crate::origin::{Carrier, Named};
use crate::redact::Redactor;
use crate::verdict::registry::{Problem, Topic};
use crate::verdict::{Finding, Outcome, State};

use super::super::contrast;
use super::super::subject::Subject;
use super::super::values::{Shown, judge};
use super::Point;

/// A variable whose value was judged.
#[derive(Clone, Debug)]
pub struct Judged {
    /// The variable.
    pub name: String,
    /// What its problems are about; none where they are no finding.
    pub topic: Option<Topic>,
    /// Its value.
    pub value: Value,
    /// What was found out.
    pub named: Named,
    /// The value may stand in a sentence.
    pub shown: String,
}

impl Judged {
    /// As JSON has it.
    pub fn data(&self, redactor: &Redactor) -> Point {
        Point {
            name: self.name.clone(),
            value: Shown::of(redactor, self.name.as_bytes(), &self.value),
            liveness: self.named.liveness.clone(),
        }
    }

    fn state(&self) -> State {
        self.named.liveness.state
    }
}

/// Every variable of a carrier that names something that lives, in the block's order, the first of a name.
pub fn of(carrier: &Carrier<'_>, redactor: &Redactor) -> Vec<Judged> {
    let mut seen = std::collections::HashSet::new();
    carrier.environ.entries.iter().filter(|entry| seen.insert(entry.name.clone())).filter_map(|entry| judged(carrier, redactor, entry)).collect()
}

fn judged(carrier: &Carrier<'_>, redactor: &Redactor, entry: &Entry) -> Option<Judged> {
    let named = judge(carrier, redactor, entry)?;
    let value = entry.value.clone()?;
    let name = entry.name.as_str()?.to_owned();
    let shown = Shown::of(redactor, name.as_bytes(), &value).human();
    Some(Judged { topic: catalog::topic_of(name.as_bytes(), value.clear()), name, value, named, shown })
}

/// Whether a row of the comparison tells a person something: it names something that lives, or an agent.
pub fn is_telling(row: &contrast::Row) -> bool {
    let lives = |liveness: &Option<crate::verdict::Liveness>| liveness.as_ref().is_some_and(|liveness| liveness.state != State::None);
    lives(&row.liveness_a) || lives(&row.liveness_b) || row.class.is_telling() && row.state != DiffState::Same
}

/// What is wrong with the terminal's own variables.
pub fn terminal_findings(terminal: &Subject, points: &[Judged]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for point in points {
        let Some((topic, problem)) = point.topic.zip(problem_of(point.state())) else { continue };
        let message = format!("{}={}: {}", point.name, point.shown, point.named.liveness.detail);
        let finding = Finding::new(topic.kind(problem), outcome_of(problem), &terminal.label, message).evidence(point.named.evidence.clone());
        findings.push(if problem == Problem::Unknown { finding } else { finding.fix(terminal_fix(terminal, point)) });
    }
    findings
}

fn terminal_fix(terminal: &Subject, point: &Judged) -> Vec<String> {
    let in_tmux = terminal.birth.tmux.is_some();
    match point.topic {
        // tmux renews these in its session layer when a client attaches; the shell in the pane keeps its own.
        Some(Topic::Display | Topic::SshAgent | Topic::XAuthority) if in_tmux => vec!["eval \"$(tmux show-environment -s)\"".to_owned()],
        Some(Topic::Display) => vec!["log in again with X forwarding: ssh -X HOST".to_owned()],
        Some(Topic::SshAgent) => vec!["log in again with a forwarded agent (ssh -A HOST), or start one here: eval \"$(ssh-agent)\"".to_owned()],
        _ => vec![format!("unset {}", point.name)],
    }
}

/// What is wrong with a daemon's variables, alone and against the terminal's.
pub fn daemon_findings(daemon: &Subject, points: &[Judged], terminal: &Subject, terminal_points: &[Judged]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for point in points {
        let Some(topic) = point.topic else { continue };
        let ours = terminal_points.iter().find(|ours| ours.name == point.name);
        if let Some(problem) = problem_of(point.state()) {
            findings.push(broken(daemon, topic, problem, point, ours));
        } else if let Some(ours) = ours.filter(|ours| is_foreign(topic, point, ours)) {
            findings.push(foreign(daemon, topic, point, terminal, ours));
        }
    }
    for ours in terminal_points {
        let Some(topic) = ours.topic.filter(|topic| is_needed(*topic)) else { continue };
        let absent = points.iter().all(|point| point.name != ours.name);
        if absent && ours.state() == State::Alive {
            let message = format!("{} is not set; this terminal's {} is alive", ours.name, ours.shown);
            let finding = Finding::new(topic.kind(Problem::Missing), Outcome::Confirmed, &daemon.label, message);
            findings.push(finding.evidence(ours.named.evidence.clone()).fix(remedy(daemon, &ours.name, Some(ours))));
        }
    }
    findings
}

fn broken(daemon: &Subject, topic: Topic, problem: Problem, point: &Judged, ours: Option<&Judged>) -> Finding {
    let message = format!("{}={}: {}", point.name, point.shown, point.named.liveness.detail);
    let finding = Finding::new(topic.kind(problem), outcome_of(problem), &daemon.label, message).evidence(point.named.evidence.clone());
    if problem == Problem::Unknown {
        return finding;
    }
    finding.fix(remedy(daemon, &point.name, ours))
}

fn foreign(daemon: &Subject, topic: Topic, point: &Judged, terminal: &Subject, ours: &Judged) -> Finding {
    let login = |subject: &Subject| match &subject.birth.ssh_connection {
        Some(connection) => format!(" of the login from {}", connection.split(' ').next().unwrap_or(connection)),
        None => String::new(),
    };
    let message = format!(
        "{}={}: alive{}; this terminal's is {}{}",
        point.name,
        point.shown,
        login(daemon),
        ours.shown,
        login(terminal)
    );
    let evidence = point.named.evidence.iter().chain(&ours.named.evidence).cloned();
    Finding::new(topic.kind(Problem::Foreign), Outcome::Confirmed, &daemon.label, message).evidence(evidence).fix(remedy(daemon, &point.name, Some(ours)))
}

/// The fix for this agent and version. The terminal's value is offered only after it was found alive.
fn remedy(daemon: &Subject, name: &str, ours: Option<&Judged>) -> Vec<String> {
    let alive = ours.filter(|ours| ours.state() == State::Alive).and_then(|ours| ours.value.clear());
    let offered = alive.and_then(|value| std::str::from_utf8(value).ok());
    let mut lines = Vec::new();
    if offered.is_none() {
        lines.push(format!("this terminal has no live {name} to offer: get one first (a new login), then"));
    }
    if let Some(agent) = &daemon.agent {
        lines.extend(crate::agent::fix(agent, &Remedy { name: name.to_owned(), value: offered.map(str::to_owned) }));
    }
    lines
}

fn problem_of(state: State) -> Option<Problem> {
    match state {
        State::Reused => Some(Problem::Reused),
        State::Refused => Some(Problem::Refused),
        State::Dangling => Some(Problem::Dangling),
        State::Rejected => Some(Problem::Rejected),
        State::Unknown => Some(Problem::Unknown),
        State::Alive | State::Missing | State::None => None,
    }
}

fn outcome_of(problem: Problem) -> Outcome {
    if problem == Problem::Unknown { Outcome::Undetermined } else { Outcome::Confirmed }
}

/// Both alive, and not the same: the daemon's windows and keys are somebody else's, or another login's.
fn is_foreign(topic: Topic, point: &Judged, ours: &Judged) -> bool {
    let belongs_to_a_login = matches!(topic, Topic::Display | Topic::Wayland | Topic::SshAgent | Topic::Bus | Topic::RuntimeDir | Topic::Editor);
    belongs_to_a_login && point.state() == State::Alive && ours.state() == State::Alive && differ(&point.value, &ours.value)
}

fn differ(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Masked(a), Value::Masked(b)) => a.fingerprint != b.fingerprint,
        (a, b) => a != b,
    }
}

/// What a tool needs often enough that its absence is worth a word.
fn is_needed(topic: Topic) -> bool {
    matches!(topic, Topic::Display | Topic::Wayland | Topic::SshAgent | Topic::Bus)
}
