//! Variables that name something that lives: in a daemon, in the terminal, and the one against the other.

use crate::agent::{Fix, HandedOn, note, quote};
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
use super::{Point, needs, usable};

/// Brings a pane's shell up to date with the session layer.
const RENEW_PANE: &str = "eval \"$(tmux show-environment -s)\"";

/// Where a link to the agent's socket can stand whatever login comes and goes.
const AGENT_LINK: &str = "~/.ssh/agent.sock";

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
pub fn terminal_findings(host: &Host, terminal: &Subject, points: &[Judged]) -> Vec<Finding> {
    let mut findings: Vec<Finding> = stale_pane(host, terminal).into_iter().collect();
    for point in points {
        let Some((topic, problem)) = point.topic.filter(|topic| is_used(*topic)).zip(problem_of(point.state())) else { continue };
        let message = format!("{}={}: {}", point.name, point.shown, point.named.liveness.detail);
        let finding = Finding::new(
            topic.kind(problem),
            if problem == Problem::Unknown { Outcome::Undetermined } else { Outcome::Confirmed },
            &terminal.label,
            message,
        )
        .evidence(point.named.evidence.clone());
        findings.push(if problem == Problem::Unknown { finding } else { finding.fix(terminal_fix(terminal, point)) });
    }
    findings
}

fn terminal_fix(terminal: &Subject, point: &Judged) -> Vec<String> {
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

/// Where X programs look for the cookie.
pub const AUTHORITY: &str = "XAUTHORITY";

/// Values that a repair brings to a daemon's tools: the terminal's, and the cookie file of the daemon's own that its tools do not get.
pub type Carried<'p> = Vec<(&'p str, &'p [u8])>;

/// What is wrong with a daemon's variables, alone and against the terminal's, and what the repair brings.
pub fn daemon_findings<'p>(
    daemon: &Subject,
    carrier: &Carrier<'p>,
    points: &'p [Judged],
    (terminal, terminal_carrier, terminal_points): (&Subject, &Carrier<'_>, &'p [Judged]),
    handed: Option<&'p HandedOn>,
) -> (Vec<Finding>, Carried<'p>) {
    let here = |name: &str| terminal_points.iter().find(|ours| ours.name == name);
    let barred = |ours: Option<&Judged>| {
        let ours = ours.filter(|ours| ours.state() == State::Alive)?;
        usable::barred(terminal, terminal_carrier, daemon, ours.topic?, ours.value.clear()?)
    };
    let taken = |name: &str| handed.and_then(|handed| handed.dropped.get(name)).map(String::as_str);
    let mut troubles = Vec::new();
    for point in points {
        let Some(topic) = point.topic.filter(|topic| is_used(*topic)) else { continue };
        let (ours, taken) = (here(&point.name), taken(&point.name));
        let alive = ours.filter(|ours| ours.state() == State::Alive);
        if let Some(problem) = problem_of(point.state()) {
            troubles.push(Trouble { topic, problem, point, ours, taken, barred: barred(ours) });
        } else if let (Some(ours), Some(_)) = (alive, taken) {
            // Alive in the daemon, and of no use to a shell of it.
            if is_needed(topic) {
                troubles.push(Trouble {
                    topic,
                    problem: Problem::Missing,
                    point: ours,
                    ours: Some(ours),
                    taken,
                    barred: barred(Some(ours)),
                });
            }
        } else if ours.is_some_and(|ours| is_foreign(topic, point, ours)) {
            troubles.push(Trouble { topic, problem: Problem::Foreign, point, ours, taken, barred: barred(ours) });
        }
    }
    let absent = |ours: &&Judged| {
        ours.topic.is_some_and(is_needed) && ours.state() == State::Alive && points.iter().all(|point| point.name != ours.name)
    };
    for ours in terminal_points.iter().filter(absent) {
        let Some(topic) = ours.topic else { continue };
        let (ours, barred) = (Some(ours), barred(Some(ours)));
        troubles.extend(ours.map(|point| Trouble { topic, problem: Problem::Missing, point, ours, taken: None, barred }));
    }
    let mut carried: Carried<'_> = troubles.iter().filter_map(Trouble::offer).collect();
    // A display without its cookie opens nothing. One list for every repair: pasted one after the other, none undoes another.
    let brought = |name: &str| carried.iter().any(|(carried, _)| *carried == name);
    let display = brought("DISPLAY") || carrier.environ.bytes("DISPLAY").is_some() && taken("DISPLAY").is_none();
    let cookie = carrier.environ.bytes(AUTHORITY).filter(|_| display && taken(AUTHORITY).is_some() && !brought(AUTHORITY));
    carried.extend(cookie.map(|file| (AUTHORITY, file)));
    let renewal = daemon.fix(carrier.host, &if carried.is_empty() { Fix::Restart } else { Fix::Carry(&carried) });
    (troubles.iter().map(|trouble| trouble.finding(daemon, carrier, terminal, &renewal)).collect(), carried)
}

/// A variable of a daemon that leads nowhere, to somebody else, or is not there.
struct Trouble<'p> {
    topic: Topic,
    problem: Problem,
    point: &'p Judged,
    ours: Option<&'p Judged>,
    /// What keeps it from the daemon's tools although the daemon has it.
    taken: Option<&'p str>,
    /// Why the terminal's value would be of no use to the daemon's user.
    barred: Option<String>,
}

impl<'p> Trouble<'p> {
    /// The terminal's value, which is offered only after it was found alive, only if it may be shown, and only to a
    /// daemon whose user could use it.
    fn offer(&self) -> Option<(&'p str, &'p [u8])> {
        let usable = self.barred.is_none();
        let ours = self.ours.filter(|ours| usable && self.problem != Problem::Unknown && ours.open && ours.state() == State::Alive)?;
        Some((&ours.name, ours.value.clear()?))
    }

    fn finding(&self, daemon: &Subject, carrier: &Carrier<'_>, terminal: &Subject, renewal: &[String]) -> Finding {
        let Trouble { topic, problem, point, ours, taken, barred } = self;
        let message = match (problem, ours) {
            (Problem::Missing, _) if let Some(by) = taken => {
                format!("{} is {}; {}'s {} is alive", point.name, needs::dropped(by), terminal.label, point.shown)
            }
            (Problem::Missing, _) => format!("{} is not set; {}'s {} is alive", point.name, terminal.label, point.shown),
            (Problem::Foreign, Some(ours)) => {
                let (theirs, own) = (login(daemon), login(terminal));
                format!("{}={}: alive{theirs}; {}'s is {}{own}", point.name, point.shown, terminal.label, ours.shown)
            }
            _ => {
                let kept = taken.map_or_else(String::new, |by| format!("; no shell of it gets this, dropped by {by}"));
                format!("{}={}: {}{kept}", point.name, point.shown, point.named.liveness.detail)
            }
        };
        let outcome = if *problem == Problem::Unknown { Outcome::Undetermined } else { Outcome::Confirmed };
        let seen = point
            .named
            .evidence
            .iter()
            .chain(ours.filter(|_| *problem == Problem::Foreign).into_iter().flat_map(|ours| &ours.named.evidence));
        let there = taken.map(|by| carrier.saw(&daemon.source, format!("has {}, dropped by {by}", point.name)));
        let finding = Finding::new(topic.kind(*problem), outcome, &daemon.label, message).evidence(seen.cloned().chain(there));
        let hidden = ours.is_some_and(|ours| !ours.open && ours.state() == State::Alive);
        match (problem, self.offer()) {
            (Problem::Unknown, _) => finding,
            (_, None) if let Some(why) = barred => {
                let user = daemon.stat.as_ref().and_then(|stat| carrier.host.user_name(stat.euid));
                let user = user.unwrap_or_else(|| "the daemon's user".to_owned());
                let first = format!("{}'s {} is no use to it ({why}): {user} has to ask from a login with one", terminal.label, point.name);
                finding.fix([note(first)].into_iter().chain(renewal.iter().cloned()))
            }
            // A restart from this terminal takes the value along without anybody reading it.
            (_, None) if hidden => finding.fix(renewal.iter().cloned()),
            (_, Some((_, value))) => finding.fix(renewal.iter().cloned().chain(lasting(*topic, *problem, value))),
            (_, None) => {
                let first = format!("{} has no live {} to offer: do this from one that has", terminal.label, point.name);
                finding.fix([note(first)].into_iter().chain(renewal.iter().cloned()))
            }
        }
    }
}

/// What makes the repair outlast the next login: a link that each login points to its own agent. Worth a word only
/// where a login took the socket with it.
fn lasting(topic: Topic, problem: Problem, value: &[u8]) -> Vec<String> {
    // A terminal that follows the advice already has the link itself for a value.
    let is_link = value.ends_with(AGENT_LINK.trim_start_matches('~').as_bytes());
    if is_link || topic != Topic::SshAgent || !matches!(problem, Problem::Dangling | Problem::Reused) {
        return Vec::new();
    }
    vec![
        note(format!("to keep it beyond this login, give it {AGENT_LINK} as SSH_AUTH_SOCK instead, and in each login:")),
        format!("ln -sfn {} {AGENT_LINK}", quote(value)),
    ]
}

fn login(subject: &Subject) -> String {
    match &subject.birth.ssh_connection {
        Some(connection) => format!(", of the login from {}", connection.split(' ').next().unwrap_or(connection)),
        None => String::new(),
    }
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

/// Both alive, and not the same: the daemon's windows and keys are somebody else's, or another login's.
fn is_foreign(topic: Topic, point: &Judged, ours: &Judged) -> bool {
    let belongs_to_a_login =
        matches!(topic, Topic::Display | Topic::Wayland | Topic::SshAgent | Topic::Bus | Topic::RuntimeDir | Topic::Editor);
    belongs_to_a_login && point.state() == State::Alive && ours.state() == State::Alive && differ(&point.value, &ours.value)
}

fn differ(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Masked(a), Value::Masked(b)) => a.fingerprint != b.fingerprint,
        (a, b) => a != b,
    }
}

/// Whether a program would use what the value names. A login's connection and terminal are where a process came
/// from: that they have ended is no trouble by itself, and is told with its birth.
fn is_used(topic: Topic) -> bool {
    !matches!(topic, Topic::SshConnection | Topic::Tty)
}

/// What a tool needs often enough that its absence is worth a word.
fn is_needed(topic: Topic) -> bool {
    matches!(topic, Topic::Display | Topic::Wayland | Topic::SshAgent | Topic::Bus)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_is_never_pointed_at_itself() {
        let lines = lasting(Topic::SshAgent, Problem::Dangling, b"/tmp/ssh-XXX/agent.7");
        assert_eq!(lines[1], "ln -sfn /tmp/ssh-XXX/agent.7 ~/.ssh/agent.sock");
        assert_eq!(lasting(Topic::SshAgent, Problem::Dangling, b"/home/ann/.ssh/agent.sock"), [""; 0]);
        assert_eq!(lasting(Topic::Display, Problem::Dangling, b"localhost:11.0"), [""; 0]);
    }
}
