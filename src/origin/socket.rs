//! Whether something listens on a Unix socket, by path or by abstract name.
//!
//! A path is looked up in the carrier's mount view, a table row in its network view: a listener in
//! another network namespace has no row here and may still be reachable by path.

use crate::host::files::{FileKind, PathFact};
use crate::host::{Fact, Net, Unix, View};
use crate::verdict::State;

use super::owner::{self, Hint};
use super::{Carrier, Named, access, span};

/// What was found out about a Unix socket.
#[derive(Clone, Debug)]
pub struct Found {
    /// State, evidence, notes and owner.
    pub named: Named,
    /// What stands at the path; none for an abstract name or where nothing does.
    pub fact: Option<PathFact>,
    /// The path with symbolic links at its end followed.
    pub target: Vec<u8>,
}

/// How many symbolic links are followed at the end of a path; the kernel takes 40.
const LINKS: usize = 8;

/// Judges a Unix socket by its absolute path. `hint` narrows the search for its owner.
pub fn at_path(carrier: &Carrier<'_>, path: &[u8], hint: &Hint<'_>) -> Found {
    let shown = carrier.seen_at(path);
    let nothing = |named| Found { named, fact: None, target: path.to_vec() };
    if !path.starts_with(b"/") {
        return nothing(Named::new(State::Unknown, "a relative path: it means another place in every directory"));
    }
    let fact = match carrier.host.path(carrier.view, path) {
        Ok(fact) => fact,
        Err(unknown) if unknown.is_absence() => {
            let mut named = Named::new(State::Dangling, "the path is gone").with([carrier.saw(&shown, "no such file")]);
            if carrier.view.mount.is_none()
                && let Ok(Some((row, source))) = row_of(carrier, &[path], None, hint)
            {
                named = named
                    .note(format!("A server still listens on the removed path (inode {}, {source}): no new client finds it.", row.inode));
            }
            return nothing(named);
        }
        Err(unknown) => {
            let named = shut(carrier, path).unwrap_or_else(|| Named::unknown(&shown, &unknown));
            return nothing(named.with([carrier.saw(&shown, unknown.to_string())]));
        }
    };
    let target = follow(carrier, path, &fact);
    let mut named = match fact.kind {
        FileKind::BrokenLink => {
            let aim = fact.link.as_ref().map(|link| link.lossy().into_owned()).unwrap_or_default();
            Named::new(State::Dangling, format!("a symbolic link to {aim}, which is gone"))
        }
        FileKind::Socket => judge(carrier, path, &target, &fact, hint),
        other => Named::new(State::Refused, format!("it is {}, not a socket", other.word())),
    };
    named.evidence.insert(0, carrier.saw(&shown, described(&fact)));
    if matches!(named.liveness.state, State::Alive | State::Unknown)
        && let Some(shut) = shut(carrier, path)
    {
        named = Named { liveness: shut.liveness, evidence: [named.evidence, shut.evidence].concat(), ..named };
    }
    Found { named, fact: Some(fact), target }
}

/// What is said of a socket that the carrier certainly may not connect to: to it that is as if it were not there.
fn shut(carrier: &Carrier<'_>, path: &[u8]) -> Option<Named> {
    let barrier = match access::kept_out(carrier, path, access::CONNECT) {
        Ok(barrier) => barrier?,
        Err(unknown) => return Some(Named::unknown("whether this process may connect", &unknown)),
    };
    let seen = carrier.saw(carrier.seen_at(&barrier.0), described(&barrier.1));
    let evidence = if barrier.0 == path { None } else { Some(seen) };
    Some(Named::new(State::Rejected, access::in_words(carrier, path, &barrier, "may not connect")).with(evidence))
}

fn judge(carrier: &Carrier<'_>, path: &[u8], target: &[u8], fact: &PathFact, hint: &Hint<'_>) -> Named {
    match row_of(carrier, &[path, target], Some(fact), hint) {
        Ok(Some((row, source))) if is_outside(carrier, &row, fact) => {
            let seen = carrier.saw(source, format!("a socket bound to {} listens (inode {})", row.path.lossy(), row.inode));
            let detail = "a socket of the same path outside this process's files listens; whether this one does cannot be told";
            Named::new(State::Unknown, detail).with([seen])
        }
        Ok(Some((row, source))) => {
            let listens = if row.listen { "listens" } else { "receives" };
            if !row.listen && !hint.datagrams {
                let seen = carrier.saw(source, format!("a datagram socket is bound to {} (inode {})", row.path.lossy(), row.inode));
                return Named::new(State::Refused, "it takes datagrams, and no connections: nothing listens").with([seen]);
            }
            let seen = carrier.saw(source, format!("a socket bound to {} {listens} (inode {})", row.path.lossy(), row.inode));
            let found = owner::of_listener(carrier.host, row.inode, Some(fact.uid), hint);
            let mut named = Named::new(State::Alive, format!("something {listens}")).with([seen]);
            if let Some(owner) = &found.owner {
                named.liveness.detail = format!("{} {listens}", owner.comm);
            }
            named.evidence.extend(found.evidence.map(|(source, detail)| carrier.saw(source, detail)));
            named.owner = found.owner;
            named
        }
        Ok(None) => {
            let source = format!("{}/unix", carrier.host.net(carrier.view).source);
            if let Some(row) = by_another_name(carrier, &[path, target]) {
                let seen = carrier.saw(source, format!("a socket bound to {} listens (inode {})", row.path.lossy(), row.inode));
                let detail = "something listens that was bound by another name; whether that is this file cannot be told";
                return Named::new(State::Unknown, detail).with([seen]);
            }
            let seen = carrier.saw(source, "no listening socket is bound to this path");
            if carrier.view.net.is_none() || is_private(carrier, fact) {
                Named::new(State::Refused, "the socket file is there and nothing listens").with([seen])
            } else {
                let detail = "the socket file is there; whether a process in another namespace listens cannot be seen";
                Named::new(State::Unknown, detail).with([seen])
            }
        }
        Err(unknown) => Named::unknown("the table of Unix sockets", &unknown),
    }
}

/// A listener that may be the one of this file, which the table names as it was when it was bound: by a relative name with the same end, or
/// by one in the same directory that is there no more, as after a rename.
fn by_another_name(carrier: &Carrier<'_>, paths: &[&[u8]]) -> Option<Unix> {
    fn dir(path: &[u8]) -> &[u8] {
        &path[..path.len() - base(path).len()]
    }
    let net = carrier.host.net(carrier.view);
    let rows = net.unix.as_ref().ok()?;
    let may_be = |row: &&Unix| {
        let bound = row.path.as_bytes();
        let fits = |path: &&[u8]| match bound.first() {
            None | Some(b'@') => false,
            Some(b'/') => dir(path) == dir(bound) && carrier.host.path(carrier.view, bound).is_err_and(|unknown| unknown.is_absence()),
            Some(_) => base(path) == base(bound),
        };
        row.listen && paths.iter().any(fits)
    };
    rows.iter().find(may_be).cloned()
}

/// The row says by which path, and not in whose files: the same path can be another socket among ours.
fn is_outside(carrier: &Carrier<'_>, row: &Unix, fact: &PathFact) -> bool {
    carrier.view.mount.is_some()
        && carrier.host.path(View::OURS, row.path.as_bytes()).is_ok_and(|ours| ours.kind == FileKind::Socket && ours.inode != fact.inode)
}

/// A file in the carrier's own root file system: no process of another container has it.
fn is_private(carrier: &Carrier<'_>, fact: &PathFact) -> bool {
    carrier.view.mount.is_some() && carrier.host.path(carrier.view, b"/").is_ok_and(|root| root.inode.0 == fact.inode.0)
}

/// The row of a socket that takes messages at one of `paths`, or at another name of the same file, and the table it is in.
fn row_of(carrier: &Carrier<'_>, paths: &[&[u8]], fact: Option<&PathFact>, hint: &Hint<'_>) -> Fact<Option<(Unix, String)>> {
    let mut seen = Vec::new();
    for view in [carrier.view, View::OURS] {
        if seen.contains(&view.net) {
            continue;
        }
        seen.push(view.net);
        let net = carrier.host.net(view);
        if let Some(row) = in_table(carrier, &net, paths, fact)? {
            return Ok(Some((row, format!("{}/unix", net.source))));
        }
    }
    // Its server may live in a network of its own and still be reached by path.
    let Some(fact) = fact else { return Ok(None) };
    let table = carrier.host.table()?;
    let servers = table.values().filter(|stat| stat.euid == fact.uid && hint.names.iter().any(|name| starts(stat.comm.as_bytes(), name)));
    for stat in servers.take(16) {
        let Ok(view) = carrier.host.process(stat.pid).view() else { continue };
        if seen.contains(&view.net) {
            continue;
        }
        seen.push(view.net);
        let net = carrier.host.net(view);
        if let Ok(Some(row)) = in_table(carrier, &net, paths, Some(fact)) {
            return Ok(Some((row, format!("{}/unix", net.source))));
        }
    }
    Ok(None)
}

fn starts(comm: &[u8], name: &str) -> bool {
    comm.starts_with(name.as_bytes())
}

fn in_table(carrier: &Carrier<'_>, net: &Net, paths: &[&[u8]], fact: Option<&PathFact>) -> Fact<Option<Unix>> {
    let rows = net.unix.as_ref().map_err(Clone::clone)?;
    let takes = |row: &&Unix| row.listen || !row.connected;
    // A server that was started anew on a path leaves the row of one that still runs; later sockets have higher inodes.
    let exact = rows.iter().filter(takes).filter(|row| paths.contains(&row.path.as_bytes())).max_by_key(|row| row.inode);
    if exact.is_some() || fact.is_none() {
        return Ok(exact.cloned());
    }
    let same_name = |row: &&Unix| paths.iter().any(|path| base(path) == base(row.path.as_bytes()));
    let same_file = |row: &&Unix| {
        let other = carrier.host.path(carrier.view, row.path.as_bytes());
        row.path.as_bytes().starts_with(b"/") && other.is_ok_and(|other| fact.is_some_and(|fact| fact.inode == other.inode))
    };
    Ok(rows.iter().filter(takes).filter(same_name).find(same_file).cloned())
}

fn base(path: &[u8]) -> &[u8] {
    path.rsplit(|&byte| byte == b'/').next().unwrap_or_default()
}

/// Follows symbolic links at the end of a path.
fn follow(carrier: &Carrier<'_>, path: &[u8], fact: &PathFact) -> Vec<u8> {
    let mut path = path.to_vec();
    let mut aim = fact.aim(&path);
    for _ in 0..LINKS {
        let Some(next) = aim else { break };
        path = next;
        aim = carrier.host.path(carrier.view, &path).ok().and_then(|fact| fact.aim(&path));
    }
    path
}

/// A path fact in words.
pub fn described(fact: &PathFact) -> String {
    let aim = fact.link.as_ref().map(|link| format!(" by a symbolic link to {}", link.lossy())).unwrap_or_default();
    format!("{}{aim}, uid {}, mode {:o}, inode {}", fact.kind.word(), fact.uid, fact.mode, fact.inode.1)
}

/// Says so when the socket on a stable path is younger than the process: a server that was started anew.
pub(super) fn note_age(carrier: &Carrier<'_>, named: Named, fact: Option<&PathFact>) -> Named {
    let younger = fact.and_then(|fact| carrier.younger_by_ms(fact.changed_ms));
    match younger {
        Some(by) if named.liveness.state == State::Alive => {
            named.note(format!("The socket is {} younger than this process: its server was started anew on the same path.", span(by)))
        }
        _ => named,
    }
}

/// Judges an abstract name, given without the leading `@`.
pub fn at_abstract(carrier: &Carrier<'_>, name: &[u8], hint: &Hint<'_>) -> Named {
    let net = carrier.host.net(carrier.view);
    let source = format!("{}/unix", net.source);
    let bound = [b"@", name].concat();
    match net.unix_listener(&bound) {
        Ok(Some(row)) => {
            let found = owner::of_listener(carrier.host, row.inode, None, hint);
            let seen = carrier.saw(source, format!("a socket bound to {} listens (inode {})", row.path.lossy(), row.inode));
            let mut named = Named::new(State::Alive, "something listens").with([seen]);
            named.evidence.extend(found.evidence.map(|(source, detail)| carrier.saw(source, detail)));
            named.owner = found.owner;
            named
        }
        Ok(None) => {
            let seen = carrier.saw(source, format!("no listening socket is bound to {}", String::from_utf8_lossy(&bound)));
            Named::new(State::Refused, "nothing listens on the abstract name").with([seen])
        }
        Err(unknown) => Named::unknown("the table of Unix sockets", &unknown),
    }
}

/// Programs by the socket that they serve: what the path holds, and the beginnings of their names.
const SERVERS: [(&str, &[&str]); 16] = [
    ("docker", &["dockerd", "systemd"]),
    ("podman", &["podman", "systemd"]),
    ("containerd", &["containerd"]),
    ("pulse", &["pulseaudio", "pipewire-pulse", "systemd"]),
    ("pipewire", &["pipewire", "systemd"]),
    ("gnupg", &["gpg-agent", "systemd"]),
    ("vscode", &["node", "code", "cursor"]),
    ("cursor", &["node", "cursor"]),
    ("sway", &["sway"]),
    ("i3", &["i3"]),
    ("hypr", &["Hyprland"]),
    ("kitty", &["kitty"]),
    ("wezterm", &["wezterm"]),
    ("zellij", &["zellij"]),
    ("nvim", &["nvim"]),
    ("emacs", &["emacs"]),
];

/// What a path says about its server: the programs that serve such sockets, and pids in its last part.
pub fn hint_of(path: &[u8]) -> Hint<'_> {
    let text = String::from_utf8_lossy(path).to_lowercase();
    let names = SERVERS.iter().find(|(part, _)| text.contains(part)).map_or(&[][..], |(_, names)| names);
    let numbers = base(path).split(|byte| !byte.is_ascii_digit()).filter_map(|part| std::str::from_utf8(part).ok()?.parse().ok());
    Hint { names, pids: numbers.filter(|&pid| pid > 1).collect(), argument: Some(path), datagrams: false }
}

/// A variable that holds the path of a Unix socket, of whichever kind.
pub(super) fn examine_any(carrier: &Carrier<'_>, value: &[u8]) -> Named {
    aged(carrier, value, &Hint { datagrams: true, ..hint_of(value) })
}

/// The path of a Unix socket to which programs connect.
pub(super) fn examine_path(carrier: &Carrier<'_>, value: &[u8]) -> Named {
    aged(carrier, value, &hint_of(value))
}

fn aged(carrier: &Carrier<'_>, value: &[u8], hint: &Hint<'_>) -> Named {
    let found = at_path(carrier, value, hint);
    note_age(carrier, found.named, found.fact.as_ref())
}
