//! Servers of terminal multiplexers whose own block leads nowhere: what a new window gets, until a client brings
//! newer values.

use crate::agent::{AgentProcess, Fix, Listener, Role, note};
use crate::env::reference::Reference;
use crate::host::{Fact, Host, Pid, Stat};
use crate::origin::{owner, tmux};
use crate::redact::Redactor;
use crate::verdict::registry::{MULTIPLEXER_STALE, Problem, Topic};
use crate::verdict::{Finding, Outcome, State};

use super::super::subject::Subject;
use super::points::{self, Judged};
use super::usable;

/// What tmux takes over from each client that attaches, of what is looked at here (`update-environment`).
const RENEWED: [&str; 3] = ["DISPLAY", "SSH_AUTH_SOCK", "XAUTHORITY"];

/// The login that a display or agent is of.
const LOGIN: &str = "SSH_CONNECTION";

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
    // Where it is lost which clients are attached, what they brought is not known.
    let (outcome, mut renewed) =
        renewed(host, redactor, process, connect).map_or((Outcome::Undetermined, Vec::new()), |names| (Outcome::Confirmed, names));
    renewed.extend(set_anew(host, redactor, &server, connect));
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
    let mut carried: Vec<(&str, &[u8])> = dead.iter().filter_map(live).collect();
    // With them goes the login that they are of: without it they would pass for another one's.
    let login = terminal_points.iter().find(|ours| ours.name == LOGIN && ours.open && !carried.is_empty());
    carried.extend(login.and_then(|ours| Some((LOGIN, ours.value.clear()?))));
    let gone: Vec<&str> = dead.iter().filter(|point| live(point).is_none()).map(|point| point.name.as_str()).collect();
    let mut fix = if carried.is_empty() { Vec::new() } else { server.fix(host, &Fix::Carry(&carried)) };
    if !gone.is_empty() {
        fix.extend(server.fix(host, &Fix::Drop(&gone)));
    }
    // What it was told shows in no file: the next window has it.
    if matches!(process.agent.as_str(), "tmux" | "screen") {
        fix.push(note("then open a window: what a running server was told shows in its new windows alone"));
    }
    let mut seen = std::collections::HashSet::new();
    fix.retain(|line| seen.insert(line.clone()));
    let evidence = dead.iter().flat_map(|point| point.named.evidence.iter().cloned());
    Some(Finding::new(&MULTIPLEXER_STALE, outcome, &server.label, message).evidence(evidence).fix(fix))
}

/// Names that the server was started with and that its newest window has otherwise: they were set anew, or taken away.
fn set_anew(host: &Host, redactor: &Redactor, server: &Subject, connect: bool) -> Vec<String> {
    let (Some(stat), Ok(own), Ok(table)) = (&server.stat, &server.environ, host.table()) else { return Vec::new() };
    let newest = table.values().filter(|child| child.ppid == stat.pid && child.euid == stat.euid && !child.is_zombie());
    let Some(newest) = newest.max_by_key(|child| (child.start_ticks, child.pid)) else { return Vec::new() };
    let window = Subject::process(host, Reference::Pid(newest.pid), newest.clone(), None);
    let Ok(environ) = window.known() else { return Vec::new() };
    let points = points::of(&window.carrier(host, connect), redactor);
    let is_new = |name: &&str| match environ.get(name) {
        None => true,
        value if value == own.get(name) => false,
        Some(_) => points.iter().any(|point| point.name == **name && point.state() == State::Alive),
    };
    let names = own.entries.iter().filter_map(|entry| entry.name.as_str());
    names.filter(is_new).map(str::to_owned).collect()
}

/// Names with their values.
type Values = Vec<(String, Vec<u8>)>;

/// The live value that the client attached to this screen session has for a name, and the login that it is of: its window's shell is older.
///
/// Which client is connected to which session no table shows: with several sessions of one user it goes by what the
/// client was told.
pub fn of_screen_client(host: &Host, redactor: &Redactor, terminal: &Subject, name: &str, connect: bool) -> Option<(String, Values)> {
    let session = terminal.environ.as_ref().ok()?.filled("STY")?;
    let (server, rest) = session.split_once('.')?;
    let server: Pid = server.parse().ok()?;
    let table = host.table().ok()?;
    let user = table.get(&server)?.euid;
    let screens = || table.values().filter(|stat| stat.euid == user && stat.comm.as_bytes().eq_ignore_ascii_case(b"screen"));
    let alone = screens().filter(|stat| stat.tty().is_none()).count() < 2;
    let argued = |words: &[&[u8]]| {
        let names = [session, rest, session.split('.').next().unwrap_or_default()];
        words.iter().any(|word| names.iter().any(|name| *word == name.as_bytes()))
    };
    let told = |stat: &Stat| owner::is_client(host, stat, server, argued).unwrap_or(false);
    let newest =
        screens().filter(|stat| stat.pid != server && stat.tty().is_some() && (alone || told(stat))).max_by_key(|stat| stat.start_ticks)?;
    let client = Subject::process(host, Reference::Pid(newest.pid), newest.clone(), None);
    let points = points::of(&client.carrier(host, connect), redactor);
    let open = |name: &str| points.iter().find(|point| point.name == name && point.open);
    let point = open(name).filter(|point| point.state() == State::Alive)?;
    let values = [Some(point), open(LOGIN)].into_iter().flatten();
    let values = values.filter_map(|point| Some((point.name.clone(), point.value.clear()?.to_vec())));
    Some((session.to_owned(), values.collect()))
}

/// Names of which a client that is attached to a tmux server has brought live values into its session.
///
/// # Errors
/// When it is not known which clients are attached.
fn renewed(host: &Host, redactor: &Redactor, process: &AgentProcess, connect: bool) -> Fact<Vec<String>> {
    let sockets = process.listeners.iter().flatten().filter_map(|listener| match listener {
        Listener::Unix(path) if process.agent == "tmux" => Some(path.as_bytes()),
        _ => None,
    });
    let mut names = Vec::new();
    for socket in sockets {
        for client in tmux::clients(host, socket, &process.stat)? {
            let client = Subject::process(host, Reference::Pid(client.stat.pid), client.stat, None);
            let points = points::of(&client.carrier(host, connect), redactor);
            let alive = points.into_iter().filter(|point| point.state() == State::Alive && RENEWED.contains(&point.name.as_str()));
            names.extend(alive.map(|point| point.name));
        }
    }
    Ok(names)
}
