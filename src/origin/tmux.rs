//! `TMUX`: `socket,server pid,session`; the clients attached to a server; the session's layer of its environment.
//!
//! tmux has three layers: the global one, the session's, which attaching updates for a few names, and the
//! environment of each pane's process, which stays as it was when the pane was made.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

use crate::host::command::Layer;
use crate::host::{Entry, Environ, Fact, Host, Pid, Raw, Stat};
use crate::verdict::State;

use super::owner::{self, Hint};
use super::socket;
use super::{Carrier, Named, Owner};

/// A parsed value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The server's socket.
    pub socket: Vec<u8>,
    /// The server.
    pub server: Pid,
    /// The session's number.
    pub session: u32,
}

impl Place {
    /// Parses `socket,pid,session`. The path may hold commas itself.
    pub fn parse(value: &[u8]) -> Option<Place> {
        let mut parts = value.rsplitn(3, |&byte| byte == b',');
        let session = number(parts.next()?)?;
        let server = number(parts.next()?)?;
        let socket = parts.next()?.to_vec();
        socket.starts_with(b"/").then_some(Place { socket, server, session })
    }
}

fn number(digits: &[u8]) -> Option<u32> {
    let text = std::str::from_utf8(digits).ok()?;
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

/// `TMUX`.
pub(super) fn examine(carrier: &Carrier<'_>, value: &[u8]) -> Named {
    let Some(place) = Place::parse(value) else {
        return Named::new(State::Unknown, "not of the form socket,pid,session, so no server can be looked up");
    };
    let hint = Hint { names: &["tmux"], pids: vec![place.server], ..Hint::default() };
    let found = socket::at_path(carrier, &place.socket, &hint);
    let mut named = found.named;
    if !carrier.shares_pids() {
        return named.note(format!("The server's pid {}.", carrier.other_pids()));
    }
    let server = owner::process(carrier.host, place.server);
    let is_of_birth = |stat: &Stat| {
        let older = carrier.process.is_none_or(|process| stat.start_ticks <= process.start_ticks);
        stat.comm.as_bytes().starts_with(b"tmux") && !stat.is_zombie() && older
    };
    let runs = match &server {
        Ok(stat) => Some(is_of_birth(stat)),
        Err(unknown) if unknown.is_absence() => Some(false),
        Err(_) => None,
    };
    let told = match &server {
        Ok(stat) => owner::named(carrier.host, stat),
        Err(unknown) => unknown.to_string(),
    };
    named.evidence.push(carrier.saw(format!("/proc/{}/stat", place.server), told));
    let owned_by = named.owner.as_ref().map(|owner| owner.pid);
    match (named.liveness.state, runs, owned_by) {
        (State::Alive, _, Some(pid)) if pid != place.server => {
            reused(named, format!("another server (pid {pid}) listens on the path; the one of birth was pid {}", place.server))
        }
        (State::Alive, Some(true), _) => {
            named.liveness.detail = format!("the server of birth (pid {}) listens", place.server);
            named.same_connection = owned_by.map(|pid| pid == place.server);
            named
        }
        (State::Alive, Some(false), _) => {
            reused(named, format!("something else listens on the path; the server of birth, pid {}, has ended", place.server))
        }
        (State::Dangling, Some(true), _) => {
            let text = format!("The server (pid {}) still runs; `kill -USR1 {0}` makes it create its socket again.", place.server);
            named.note(text)
        }
        _ => named,
    }
}

fn reused(mut named: Named, detail: String) -> Named {
    named.liveness.state = State::Reused;
    named.liveness.detail = detail;
    named.same_connection = Some(false);
    named
}

/// A client attached to a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Client {
    /// The client.
    pub stat: Stat,
    /// Its environment, which is that of the terminal it was started in; or why it cannot be read.
    pub environ: Fact<Environ>,
}

impl Client {
    /// Its connection, as `SSH_CONNECTION` has it.
    pub fn connection(&self) -> Option<String> {
        self.environ.as_ref().ok()?.filled("SSH_CONNECTION").map(str::to_owned)
    }
}

/// The clients of the server on `socket`: processes of tmux on a terminal, of the server's user, whose arguments or
/// environment lead to that socket. The most recently started comes first.
///
/// Which client is connected to which server no table shows, so this goes by what they were told.
pub fn clients(host: &Host, socket: &[u8], server: &Stat) -> Fact<Vec<Client>> {
    let table = host.table()?;
    let is_client = |stat: &&Stat| {
        stat.pid != server.pid
            && stat.euid == server.euid
            && stat.tty_nr != 0
            && !stat.is_zombie()
            && stat.comm.as_bytes().starts_with(b"tmux")
    };
    let mut clients = Vec::new();
    for stat in table.values().filter(is_client) {
        let process = host.process(stat.pid);
        let environ = process.environ();
        let leads_here = |argv: &[&[u8]]| socket_of(argv, environ.as_ref().ok(), stat.euid).as_deref() == Some(socket);
        if owner::is_client(host, stat, server.pid, leads_here)? {
            clients.push(Client { stat: stat.clone(), environ });
        }
    }
    clients.sort_by_key(|client| std::cmp::Reverse((client.stat.start_ticks, client.stat.pid)));
    Ok(clients)
}

/// The socket that a tmux with these arguments in this environment talks to.
pub fn socket_of(argv: &[&[u8]], environ: Option<&Environ>, uid: u32) -> Option<Vec<u8>> {
    /// Flags that take an argument, beside `-L` and `-S`.
    const WITH_ARGUMENT: &[u8] = b"cfT";
    let dir = environ.and_then(|environ| environ.filled("TMUX_TMPDIR")).unwrap_or("/tmp");
    let named = |name: &[u8]| [dir.as_bytes(), format!("/tmux-{uid}/").as_bytes(), name].concat();
    let mut socket = None;
    let mut rest = argv.get(1..).unwrap_or_default().iter();
    // The first word that is no flag is the command; what follows belongs to it.
    'arguments: while let Some(flags) = rest.next().and_then(|argument| argument.strip_prefix(b"-")) {
        for (at, flag) in flags.iter().enumerate() {
            if !b"LS".contains(flag) && !WITH_ARGUMENT.contains(flag) {
                continue;
            }
            let joined = &flags[at + 1..];
            let argument = if joined.is_empty() { rest.next().copied() } else { Some(joined) };
            match (flag, argument) {
                (b'S', Some(path)) => socket = Some(path.to_vec()),
                (b'L', Some(name)) => socket = Some(named(name)),
                (_, None) => break 'arguments,
                _ => {}
            }
            break;
        }
    }
    // Started inside tmux without a flag, it talks to the server around it.
    let around = || Some(Place::parse(environ?.bytes("TMUX")?)?.socket);
    socket.or_else(around).or_else(|| Some(named(b"default")))
}

/// The session's layer of the environment. Runs `tmux -S SOCKET show-environment -t SESSION`, as the invoking user.
///
/// # Errors
/// When tmux is not installed, does not answer in time, or has no such session.
pub fn session_layer(host: &Host, socket: &[u8], session: &str) -> Fact<Layer> {
    let words = [&b"tmux"[..], b"-S", socket, b"show-environment", b"-t", session.as_bytes()];
    host.layer(&words.map(|word| OsString::from_vec(word.to_vec())), parse_layer)
}

/// The number of a session in `TMUX` as tmux takes it for a target.
pub fn target(place: &Place) -> String {
    format!("${}", place.session)
}

/// Parses `NAME=value` and `-NAME`, one a line. A line that is neither belongs to the value before it.
pub fn parse_layer(output: &[u8]) -> Layer {
    let mut layer = Layer::default();
    let mut entries: Vec<Vec<u8>> = Vec::new();
    for line in output.strip_suffix(b"\n").unwrap_or(output).split(|&byte| byte == b'\n') {
        if let Some(name) = line.strip_prefix(b"-").filter(|name| is_name(name)) {
            layer.removed.push(Raw::from(name));
        } else if memchr::memchr(b'=', line).is_some_and(|at| is_name(&line[..at])) {
            entries.push(line.to_vec());
        } else if let Some(last) = entries.last_mut() {
            last.push(b'\n');
            last.extend_from_slice(line);
        }
    }
    layer.environ.entries = entries.iter().map(|entry| Entry::parse(entry)).collect();
    layer
}

fn is_name(name: &[u8]) -> bool {
    name.first().is_some_and(|first| !first.is_ascii_digit()) && name.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_')
}

/// The server a value names, as an owner, where it still runs.
pub fn server(host: &Host, place: &Place) -> Fact<Owner> {
    Ok(owner::describe(host, &owner::process(host, place.server)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_may_hold_commas() {
        let place = Place::parse(b"/tmp/tmux-1000/a,b,4711,3").unwrap();
        assert_eq!((place.socket.as_slice(), place.server, place.session), (&b"/tmp/tmux-1000/a,b"[..], 4711, 3));
        assert_eq!(target(&place), "$3");
        for odd in ["", "/tmp/x", "/tmp/x,1", "/tmp/x,a,0", "x,1,2", "/tmp/x,+1,2"] {
            assert_eq!(Place::parse(odd.as_bytes()), None, "{odd:?}");
        }
    }

    #[test]
    fn the_session_layer_sets_and_removes() {
        let layer = parse_layer(b"DISPLAY=localhost:11.0\n-SSH_AUTH_SOCK\nX=one\ntwo -three\nEMPTY=\n");
        assert_eq!(layer.environ.text("DISPLAY"), Some("localhost:11.0"));
        assert_eq!(layer.environ.text("X"), Some("one\ntwo -three"));
        assert_eq!(layer.environ.text("EMPTY"), Some(""));
        assert_eq!(layer.removed, [Raw::from("SSH_AUTH_SOCK")]);
        assert_eq!(parse_layer(b""), Layer::default());
    }

    #[test]
    fn a_client_talks_to_the_socket_that_its_flags_name() {
        let socket = |line: &str, environ: &[u8]| {
            let argv: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
            String::from_utf8(socket_of(&argv, Some(&Environ::parse(environ)), 7).unwrap()).unwrap()
        };
        assert_eq!(socket("tmux attach", b""), "/tmp/tmux-7/default");
        assert_eq!(socket("tmux -L work attach", b"TMUX_TMPDIR=/run\0"), "/run/tmux-7/work");
        assert_eq!(socket("tmux -2uS/x/y new", b"TMUX=/tmp/tmux-7/z,1,0\0"), "/x/y");
        assert_eq!(socket("tmux -f /dev/null -S /x/y new -L no", b""), "/x/y");
        assert_eq!(socket("tmux attach -S no", b"TMUX=/tmp/tmux-7/z,1,0\0"), "/tmp/tmux-7/z");
        assert_eq!(socket("tmux -S", b""), "/tmp/tmux-7/default");
    }

    proptest::proptest! {
        #[test]
        fn no_value_panics(value in proptest::collection::vec(proptest::num::u8::ANY, 0..80)) {
            let _ = Place::parse(&value);
            let _ = parse_layer(&value);
            let argv: Vec<&[u8]> = value.split(|&byte| byte == 0).collect();
            let _ = socket_of(&argv, None, 0);
        }
    }
}
