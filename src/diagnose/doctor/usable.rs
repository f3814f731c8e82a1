//! Whether a daemon's user could use what a value of the terminal names. A value is offered only then: the cookie of
//! root's login and root's agent are of no use to another account.

use crate::host::{Host, PathFact};
use crate::origin::access::{self, Allowed, User};
use crate::origin::{Carrier, bus, wayland, xauthority};
use crate::verdict::registry::Topic;

use super::super::subject::Subject;

/// What of a file has to be allowed.
#[derive(Clone, Copy)]
enum Wanted {
    /// To read it.
    Read,
    /// To connect to it.
    Connect,
    /// To connect to it as its owner: D-Bus asks who calls.
    ConnectAsOwner,
    /// The same, and root counts for everybody: ssh-agent says so.
    ConnectAsOwnerOrRoot,
    /// To own it.
    Own,
}

/// Why the daemon's user could not use the terminal's value; none where that user could.
pub fn barred(terminal: &Subject, carrier: &Carrier<'_>, daemon: &Subject, topic: Topic, value: &[u8]) -> Option<String> {
    let stat = daemon.stat.as_ref()?;
    if terminal.stat.as_ref().is_some_and(|own| own.euid == stat.euid) {
        return None;
    }
    let user = &User::of(carrier.host, stat);
    let (path, wanted) = match topic {
        Topic::Display => match xauthority::file_of(carrier) {
            Some(path) => (path, Wanted::Read),
            None => return Some("there is no file with its cookie".to_owned()),
        },
        Topic::Wayland => (wayland::path_of(value, carrier.environ.bytes("XDG_RUNTIME_DIR"))?, Wanted::Connect),
        Topic::SshAgent => (value.to_vec(), Wanted::ConnectAsOwnerOrRoot),
        Topic::Bus => {
            let path = bus::Address::parse_all(value).iter().find_map(|address| address.get("path").map(<[u8]>::to_vec))?;
            (path, Wanted::ConnectAsOwner)
        }
        Topic::RuntimeDir => (value.to_vec(), Wanted::Own),
        Topic::XAuthority => (value.to_vec(), Wanted::Read),
        _ => (value.to_vec(), Wanted::Connect),
    };
    if !path.starts_with(b"/") {
        return None;
    }
    let host = carrier.host;
    // Every directory on the way has to let the user through.
    for (at, _) in path.iter().enumerate().skip(1).filter(|(_, byte)| **byte == b'/') {
        if let Some(why) = refused(host, carrier, &path[..at], user, |fact| may(fact, user, access::SEARCH)) {
            return Some(why);
        }
    }
    refused(host, carrier, &path, user, |fact| match wanted {
        Wanted::Read => may(fact, user, access::READ),
        Wanted::Connect => may(fact, user, access::CONNECT),
        Wanted::ConnectAsOwner => fact.uid == user.uid && may(fact, user, access::CONNECT),
        Wanted::ConnectAsOwnerOrRoot => (user.uid == 0 || fact.uid == user.uid) && may(fact, user, access::CONNECT),
        Wanted::Own => fact.uid == user.uid,
    })
}

fn refused(host: &Host, carrier: &Carrier<'_>, path: &[u8], user: &User, allowed: impl Fn(&PathFact) -> bool) -> Option<String> {
    let shown = String::from_utf8_lossy(path);
    match host.path(carrier.view, path) {
        Ok(fact) if allowed(&fact) => None,
        Ok(fact) => {
            let owner = |uid: u32| host.user_name(uid).unwrap_or_else(|| format!("uid {uid}"));
            Some(format!("{} may not use {shown}: it is {}'s, mode {:04o}", owner(user.uid), owner(fact.uid), fact.mode))
        }
        Err(reason) => Some(format!("{shown}: {reason}")),
    }
}

/// Where that is not certain, a value that may be of no use is not offered.
fn may(fact: &PathFact, user: &User, bit: u32) -> bool {
    user.may(fact, bit) == Allowed::Yes
}
