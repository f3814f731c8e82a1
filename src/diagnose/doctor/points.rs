//! Variables that name something that lives: in a daemon, in the terminal, and the one against the other.

use crate::agent::{note, quote};
use crate::env::catalog;
use crate::env::diff::State as DiffState;
use crate::host::{Entry, Host, Value};
use crate::origin::{Carrier, Named, tmux};
use crate::redact::Redactor;
use crate::verdict::registry::{Problem, TMUX_PANE_STALE, Topic};
use crate::verdict::{Evidence, Finding, How, Outcome, State};

use super::super::contrast;
use super::super::subject::Subject;
use super::super::values::{Shown, judge};
use super::{Point, multiplexers};

/// Brings a pane's shell up to date with the session layer.
const RENEW_PANE: &str = "eval \"$(tmux show-environment -s)\"";

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
    /// The value as it may stand in a sentence.
    pub shown: String,
    /// The value may be shown, and so stand in a command to paste.
    pub open: bool,
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

    /// What became of what it names.
    pub fn state(&self) -> State {
        self.named.liveness.state
    }
}

/// Every variable of a carrier that names something that lives, in the block's order, the first of a name.
pub fn of(carrier: &Carrier<'_>, redactor: &Redactor) -> Vec<Judged> {
    let mut seen = std::collections::HashSet::new();
    carrier
        .environ
        .entries
        .iter()
        .filter(|entry| seen.insert(entry.name.clone()))
        .filter_map(|entry| judged(carrier, redactor, entry))
        .collect()
}

fn judged(carrier: &Carrier<'_>, redactor: &Redactor, entry: &Entry) -> Option<Judged> {
    let value = entry.value.clone()?;
    redactor.name(entry.name.as_bytes()).ok()?;
    let named = judge(carrier, redactor, entry.name.as_bytes(), &value)?;
    let name = entry.name.as_str()?.to_owned();
    let shown = Shown::of(redactor, name.as_bytes(), &value);
    let (open, shown) = (shown.masked.is_none(), shown.human());
    Some(Judged { topic: catalog::lookup(name.as_bytes()).topic, name, value, named, shown, open })
}

/// Whether a row of the comparison tells a person something: it names something that lives, or an agent.
pub fn is_telling(row: &contrast::Row) -> bool {
    let lives = |liveness: &Option<crate::verdict::Liveness>| liveness.as_ref().is_some_and(|liveness| liveness.state != State::None);
    lives(&row.liveness_a) || lives(&row.liveness_b) || row.class.is_telling() && row.state != DiffState::Same
}

/// What is wrong with the terminal's own variables.
pub fn terminal_findings(host: &Host, redactor: &Redactor, terminal: &Subject, points: &[Judged], connect: bool) -> Vec<Finding> {
    let mut findings: Vec<Finding> = stale_pane(host, terminal).into_iter().collect();
    for point in points {
        let Some((topic, problem)) = point.topic.and_then(|topic| Some((topic, trouble_of(topic, point.state())?))) else { continue };
        let message = format!("{}={}: {}", point.name, point.shown, point.named.liveness.detail);
        let finding = Finding::new(
            topic.kind(problem),
            if problem == Problem::Unknown { Outcome::Undetermined } else { Outcome::Confirmed },
            &terminal.label,
            message,
        )
        .evidence(point.named.evidence.clone());
        findings.push(if problem == Problem::Unknown {
            finding
        } else {
            finding.fix(terminal_fix(host, redactor, terminal, point, connect))
        });
    }
    findings
}

fn terminal_fix(host: &Host, redactor: &Redactor, terminal: &Subject, point: &Judged, connect: bool) -> Vec<String> {
    // screen brings nothing along when a client attaches: the client has it all the same.
    if let Some((session, values)) = multiplexers::of_screen_client(host, redactor, terminal, &point.name, connect) {
        let words: Vec<String> = values.iter().map(|(name, value)| format!("{name}={}", quote(value))).collect();
        let set = |(name, value): &(String, Vec<u8>)| format!("screen -S {} -X setenv {name} {}", quote(session.as_bytes()), quote(value));
        let here = [format!("export {}", words.join(" ")), note("and for new windows:")];
        return here.into_iter().chain(values.iter().map(set)).collect();
    }
    let in_tmux = terminal.birth.tmux.is_some();
    match point.topic {
        // tmux renews these in its session layer when a client attaches; the shell in the pane keeps its own.
        Some(Topic::Display | Topic::SshAgent | Topic::XAuthority) if in_tmux => vec![RENEW_PANE.to_owned()],
        Some(Topic::Display) => vec![note("log in again with X forwarding: ssh -X HOST")],
        Some(Topic::SshAgent) => {
            vec![note("log in again with a forwarded agent (ssh -A HOST), or start one here:"), "eval \"$(ssh-agent)\"".to_owned()]
        }
        _ => vec![format!("unset {}", point.name)],
    }
}

/// A pane whose shell is older than the client that is attached now. tmux renews its session layer on attaching, not the shell.
fn stale_pane(host: &Host, terminal: &Subject) -> Option<Finding> {
    let environ = terminal.environ.as_ref().ok()?;
    let place = tmux::Place::parse(environ.bytes("TMUX")?)?;
    let server = host.process(place.server).stat().ok()?;
    let clients = tmux::clients(host, &place.socket, &server).ok()?;
    let newest = clients.first()?;
    let theirs = newest.connection()?;
    if environ.filled("SSH_CONNECTION") == Some(theirs.as_str()) {
        return None;
    }
    let display = newest.environ.as_ref().ok().and_then(|environ| environ.filled("DISPLAY"));
    let has = display.map(|display| format!(", whose DISPLAY is {display}")).unwrap_or_default();
    let message = format!(
        "the tmux client attached now (pid {}) is of the login {theirs}{has}; this pane's shell was born in another",
        newest.stat.pid
    );
    let evidence = [
        Evidence {
            source: format!("/proc/{}/environ", newest.stat.pid),
            how: How::Passive,
            at: host.machine().taken_at(),
            detail: format!("SSH_CONNECTION={theirs}"),
        },
        Evidence {
            source: terminal.source.clone(),
            how: How::Passive,
            at: host.machine().taken_at(),
            detail: format!("SSH_CONNECTION={}", environ.filled("SSH_CONNECTION").unwrap_or("(not set)")),
        },
    ];
    let finding = Finding::new(&TMUX_PANE_STALE, Outcome::Confirmed, &terminal.label, message).evidence(evidence);
    Some(finding.fix([RENEW_PANE.to_owned()]))
}

/// The problem that a state is; none where it is none.
pub fn problem_of(state: State) -> Option<Problem> {
    match state {
        State::Reused => Some(Problem::Reused),
        State::Refused => Some(Problem::Refused),
        State::Dangling => Some(Problem::Dangling),
        State::Rejected => Some(Problem::Rejected),
        State::Unknown => Some(Problem::Unknown),
        State::Alive | State::Missing | State::None => None,
    }
}

/// The same, where it is a trouble: a program uses what the value names, and it was asked about. Most proxies are other
/// machines, which nobody asked to look at.
pub(super) fn trouble_of(topic: Topic, state: State) -> Option<Problem> {
    problem_of(state).filter(|problem| is_used(topic) && (topic, *problem) != (Topic::Proxy, Problem::Unknown))
}

/// Whether a program would use what the value names. A login's connection and terminal are where a process came
/// from: that they have ended is no trouble by itself, and is told with its birth.
pub(super) fn is_used(topic: Topic) -> bool {
    !matches!(topic, Topic::SshConnection | Topic::Tty)
}

/// What a tool needs often enough that its absence is worth a word.
pub(super) fn is_needed(topic: Topic) -> bool {
    matches!(topic, Topic::Display | Topic::Wayland | Topic::SshAgent | Topic::Bus)
}

/// What a process that lacks it does otherwise than this terminal, where the terminal's is alive: beside what a tool needs, its proxy,
/// its sound, and the places of its sockets.
pub(super) fn is_missed(topic: Topic) -> bool {
    is_needed(topic) || matches!(topic, Topic::RuntimeDir | Topic::Proxy | Topic::Audio | Topic::Gpg | Topic::Containers)
}
