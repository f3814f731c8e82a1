//! Servers of terminal multiplexers whose own block leads nowhere: what a new window gets, until a client brings
//! newer values.

use crate::agent::{AgentProcess, Fix, Listener, Role};
use crate::env::reference::Reference;
use crate::host::Host;
use crate::origin::tmux;
use crate::redact::Redactor;
use crate::verdict::registry::{MULTIPLEXER_STALE, Problem, Topic};
use crate::verdict::{Finding, Outcome, State};

use super::super::subject::Subject;
use super::points::{self, Judged};
use super::usable;

/// What tmux takes over from each client that attaches, of what is looked at here (`update-environment`).
const RENEWED: [&str; 3] = ["DISPLAY", "SSH_AUTH_SOCK", "XAUTHORITY"];

/// What is wrong with a server, if this is one: one finding, however many of its values are dead.
pub fn finding(
    host: &Host,
    redactor: &Redactor,
    process: &AgentProcess,
    (terminal, terminal_points): (&Subject, &[Judged]),
    connect: bool,
) -> Option<Finding> {
    if process.role != Role::Multiplexer {
        return None;
    }
    let server = Subject::process(host, Reference::Pid(process.stat.pid), process.stat.clone(), Some(process.clone()));
    server.known().ok()?;
    let carrier = server.carrier(host, connect);
    let renewed = renewed(host, redactor, process, connect);
    let dead: Vec<Judged> = points::of(&carrier, redactor)
        .into_iter()
        .filter(|point| point.topic.is_some_and(|topic| matches!(topic, Topic::Display | Topic::Wayland | Topic::SshAgent | Topic::Bus)))
        .filter(|point| points::problem_of(point.state()).is_some_and(|problem| problem != Problem::Unknown))
        .filter(|point| !renewed.contains(&point.name))
        .collect();
    if dead.is_empty() {
        return None;
    }
    let each = dead.iter().map(|point| format!("{}={}: {}", point.name, point.shown, point.named.liveness.detail));
    let message = format!(
        "a new window gets what the server was started with, unless it was set anew since: {}",
        each.collect::<Vec<_>>().join("; ")
    );
    let here = terminal.carrier(host, connect);
    let live = |point: &Judged| {
        let ours = terminal_points.iter().find(|ours| ours.name == point.name && ours.open && ours.state() == State::Alive)?;
        let value = ours.value.clear()?;
        usable::barred(terminal, &here, &server, ours.topic?, value).is_none().then_some((ours.name.as_str(), value))
    };
    let carried: Vec<(&str, &[u8])> = dead.iter().filter_map(live).collect();
    let gone: Vec<&str> = dead.iter().filter(|point| live(point).is_none()).map(|point| point.name.as_str()).collect();
    let mut fix = if carried.is_empty() { Vec::new() } else { server.fix(host, &Fix::Carry(&carried)) };
    if !gone.is_empty() {
        fix.extend(server.fix(host, &Fix::Drop(&gone)));
    }
    let mut seen = std::collections::HashSet::new();
    fix.retain(|line| seen.insert(line.clone()));
    let evidence = dead.iter().flat_map(|point| point.named.evidence.iter().cloned());
    Some(Finding::new(&MULTIPLEXER_STALE, Outcome::Confirmed, &server.label, message).evidence(evidence).fix(fix))
}

/// Names of which a client that is attached to a tmux server has brought live values into its session.
fn renewed(host: &Host, redactor: &Redactor, process: &AgentProcess, connect: bool) -> Vec<String> {
    let sockets = process.listeners.iter().flatten().filter_map(|listener| match listener {
        Listener::Unix(path) if process.agent == "tmux" => Some(path.as_bytes()),
        _ => None,
    });
    let clients = sockets.filter_map(|socket| tmux::clients(host, socket, &process.stat).ok()).flatten();
    let alive = clients.flat_map(|client| {
        let client = Subject::process(host, Reference::Pid(client.stat.pid), client.stat, None);
        points::of(&client.carrier(host, connect), redactor)
    });
    alive.filter(|point| point.state() == State::Alive && RENEWED.contains(&point.name.as_str())).map(|point| point.name).collect()
}
