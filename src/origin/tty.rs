//! A terminal device such as `SSH_TTY`, and whether its number has been given to another session since.

use crate::host::files::{FileKind, PathFact};
use crate::host::{Raw, Stat, Unknown, Value, View};
use crate::verdict::State;

use super::owner;
use super::socket::described;
use super::ssh::{self, Connection, Standing};
use super::{Carrier, Named, TOLERANCE_MS};

/// A terminal device.
pub(super) fn examine(carrier: &Carrier<'_>, value: &[u8]) -> Named {
    // What `tty` says where there is none, and other words: no path.
    let named = value.starts_with(b"/") || ["pts/", "tty", "console"].iter().any(|start| value.starts_with(start.as_bytes()));
    if !named {
        return Named::new(State::None, "it is no path of a terminal");
    }
    let shown = Raw::from(value).lossy().into_owned();
    let path = if value.starts_with(b"/") { value.to_vec() } else { [b"/dev/", value].concat() };
    let fact = match carrier.host.path(carrier.view, &path) {
        Ok(fact) => fact,
        Err(unknown) if unknown.is_absence() => {
            return Named::new(State::Dangling, "the terminal is gone").with([carrier.saw(carrier.seen_at(&path), "no such file")]);
        }
        Err(unknown) => return Named::unknown(&shown, &unknown).with([carrier.saw(&shown, unknown.to_string())]),
    };
    let seen = carrier.saw(carrier.seen_at(&path), described(&fact));
    if fact.kind != FileKind::Device {
        return Named::new(State::Dangling, format!("it is {}, not a terminal", fact.kind.word())).with([seen]);
    }
    let name = path.strip_prefix(b"/dev/").and_then(|name| std::str::from_utf8(name).ok());
    match (name, carrier.process) {
        (Some(name), _) if NO_TERMINALS.contains(&name) => Named::new(State::Dangling, "it is a device, not a terminal").with([seen]),
        (Some(name), Some(process)) if name.starts_with("pts/") => {
            let mut named = if is_ours(carrier, &path, &fact) { whose(carrier, process, name, &fact) } else { elsewhere(carrier) };
            named.evidence.insert(0, seen);
            named
        }
        _ => Named::new(State::Alive, "the terminal is there").with([seen]),
    }
}

/// Devices below `/dev` that are no terminals, whatever names them one.
const NO_TERMINALS: [&str; 6] = ["null", "zero", "full", "random", "urandom", "kmsg"];

/// Whether what the carrier sees at the path is the terminal of this number among ours: another mount namespace may have a devpts
/// of its own, in which the same number is another terminal.
fn is_ours(carrier: &Carrier<'_>, path: &[u8], fact: &PathFact) -> bool {
    carrier.view.mount.is_none() || carrier.host.path(View::OURS, path).is_ok_and(|ours| ours.inode == fact.inode)
}

/// A terminal of another devpts: who is on it cannot be told by its number. sshd's ends with the login's connection.
fn elsewhere(carrier: &Carrier<'_>) -> Named {
    let detail = "its number means a terminal of another namespace, and who is on that cannot be seen";
    let Some(birth) = Connection::of_birth(carrier) else { return Named::new(State::Unknown, detail) };
    let (standing, seen) = ssh::standing(carrier, &birth);
    let state = if standing == Standing::Ended { "; the connection of birth has ended" } else { "" };
    Named::new(State::Unknown, format!("{detail}{state}")).with([seen])
}

fn whose(carrier: &Carrier<'_>, process: &Stat, name: &str, fact: &PathFact) -> Named {
    if process.tty().as_deref() == Some(name) {
        return same("it is the process's own terminal");
    }
    // A terminal that none of its variables names was never its own: nothing can have been given to another since.
    let carries = |value: &[u8]| value.strip_prefix(b"/dev/").unwrap_or(value) == name.as_bytes();
    if !carrier.born.entries.iter().any(|entry| entry.value.as_ref().and_then(Value::clear).is_some_and(carries)) {
        return match on_terminal(carrier, name) {
            Ok(on_it) => with_owner(carrier, Named::new(State::Alive, "the terminal is there"), &on_it),
            Err(_) => Named::new(State::Alive, "the terminal is there"),
        };
    }
    let on_it = match on_terminal(carrier, name) {
        Ok(on_it) => on_it,
        Err(unknown) => return Named::unknown("the table of processes", &unknown),
    };
    // A terminal ends with its session: whoever has it and is older than the carrier has had it all along.
    if let Some(older) = on_it.iter().find(|stat| stat.start_ticks <= process.start_ticks) {
        let seen = carrier.saw(format!("/proc/{}/stat", older.pid), format!("{} is on it", owner::named(carrier.host, older)));
        return same("a process older than this one is on it").with([seen]);
    }
    with_owner(carrier, no_older(carrier, &on_it, fact), &on_it)
}

/// Adds who has the terminal: the leader of a session on it.
fn with_owner(carrier: &Carrier<'_>, mut named: Named, on_it: &[Stat]) -> Named {
    let leader = on_it.iter().find(|stat| stat.pid == stat.session).or(on_it.first());
    if let Some(leader) = leader {
        let mut owner = owner::describe(carrier.host, leader);
        let environ = carrier.host.process(leader.pid).environ();
        owner.connection = environ.ok().and_then(|environ| Some(Connection::parse(environ.bytes("SSH_CONNECTION")?)?.to_string()));
        named.evidence.push(carrier.saw(format!("/proc/{}/stat", leader.pid), format!("{} is on it", owner::named(carrier.host, leader))));
        named.owner = Some(owner);
    }
    named
}

fn no_older(carrier: &Carrier<'_>, on_it: &[Stat], fact: &PathFact) -> Named {
    let reused = |why: &str| {
        let mut named = Named::new(State::Reused, format!("the number was given to another terminal: {why}"));
        named.same_connection = Some(false);
        named
    };
    // sshd closes the terminal of a login with its connection.
    if let Some(birth) = Connection::of_birth(carrier) {
        let (standing, seen) = ssh::standing(carrier, &birth);
        if standing == Standing::Ended {
            return reused("the connection of birth has ended").with([seen]);
        }
    }
    let made_after = carrier.started_ms().map(|started| fact.changed_ms - started);
    match made_after {
        Some(by) if by > TOLERANCE_MS && !on_it.is_empty() => reused("it is younger than this process, and so is everything on it"),
        // Its mode and owner may have been changed since, so its age alone proves nothing.
        Some(by) if by > TOLERANCE_MS => {
            Named::new(State::Unknown, "it was changed after this process was started, and nothing visible is on it")
        }
        Some(by) if by >= -TOLERANCE_MS => Named::new(State::Unknown, "it is as old as this process, within the tolerance of the clocks"),
        _ => same("it is older than this process"),
    }
}

fn same(detail: &str) -> Named {
    let mut named = Named::new(State::Alive, detail);
    named.same_connection = Some(true);
    named
}

fn on_terminal(carrier: &Carrier<'_>, name: &str) -> Result<Vec<Stat>, Unknown> {
    let table = carrier.host.table()?;
    if let Some(lost) = carrier.host.lost_process() {
        return Err(lost);
    }
    let mut on_it: Vec<Stat> = table.values().filter(|stat| stat.tty_nr != 0 && stat.tty().as_deref() == Some(name)).cloned().collect();
    on_it.sort_by_key(|stat| (stat.start_ticks, stat.pid));
    Ok(on_it)
}
