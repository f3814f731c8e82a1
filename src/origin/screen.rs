//! `STY`: the session of GNU screen, `pid.tty.host`.

use crate::verdict::State;

use super::owner::{self, Hint};
use super::socket;
use super::{Carrier, Named};

/// `STY`.
pub(super) fn examine(carrier: &Carrier<'_>, value: &[u8]) -> Named {
    let pid = value.split(|&byte| byte == b'.').next().and_then(|pid| std::str::from_utf8(pid).ok()?.parse().ok());
    let Some(pid) = pid else { return Named::new(State::Unknown, "not of the form pid.tty.host") };
    if memchr::memchr(b'/', value).is_some() {
        return Named::new(State::Unknown, "not of the form pid.tty.host");
    }
    let server = if carrier.shares_pids() { Some(owner::process(carrier.host, pid)) } else { None };
    let hint = Hint { names: &["screen", "SCREEN"], pids: vec![pid], ..Hint::default() };
    let mut missed = Vec::new();
    for dir in dirs(carrier) {
        let found = socket::at_path(carrier, &[dir.as_bytes(), b"/", value].concat(), &hint);
        // screen may be built to use a FIFO; then the server's pid is what tells.
        let is_fifo = found.fact.as_ref().is_some_and(|fact| fact.kind == crate::host::files::FileKind::Fifo);
        match found.named.liveness.state {
            State::Dangling => missed.extend(found.named.evidence),
            _ if is_fifo && matches!(&server, Some(Ok(stat)) if is_screen(stat)) => {
                return Named::new(State::Alive, format!("screen (pid {pid}) has the session")).with(found.named.evidence);
            }
            _ => return found.named,
        }
    }
    match server {
        Some(Ok(stat)) if is_screen(&stat) => {
            let named = Named::new(State::Unknown, format!("screen (pid {pid}) runs, and its socket is in none of the usual directories"));
            Named { owner: Some(owner::describe(carrier.host, &stat)), ..named.with(missed) }
        }
        _ => Named::new(State::Dangling, "the session's socket is gone").with(missed),
    }
}

fn is_screen(stat: &crate::host::Stat) -> bool {
    stat.comm.as_bytes().eq_ignore_ascii_case(b"screen")
}

/// Where builds of screen keep their sockets.
fn dirs(carrier: &Carrier<'_>) -> Vec<String> {
    let own = carrier.environ.filled("SCREENDIR").map(str::to_owned);
    let uid = carrier.process.map(|process| process.euid);
    let user = uid.and_then(|uid| carrier.host.user_name(uid)).or_else(|| carrier.environ.filled("USER").map(str::to_owned));
    let shared = user
        .into_iter()
        .flat_map(|user| ["/run/screen", "/var/run/screen", "/tmp/screens", "/tmp/uscreens"].map(|top| format!("{top}/S-{user}")));
    let home = carrier.environ.filled("HOME").map(|home| format!("{home}/.screen"));
    own.into_iter().chain(shared).chain(home).collect()
}
