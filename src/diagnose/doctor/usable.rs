//! Whether a daemon's user could use what a value of the terminal names. A value is offered only then: the cookie of
//! root's login and root's agent are of no use to another account.

use crate::host::{Host, PathFact};
use crate::origin::{Carrier, bus, wayland, xauthority};
use crate::verdict::registry::Topic;

use super::super::subject::Subject;

/// One who wants to use it.
struct User {
    uid: u32,
    /// The groups of the process; none where they could not be read.
    groups: Option<Vec<u32>>,
}

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
    let user = &User { uid: stat.euid, groups: carrier.host.process(stat.pid).groups().ok() };
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
        if let Some(why) = refused(host, carrier, &path[..at], user, |fact| may(fact, user, 0o1)) {
            return Some(why);
        }
    }
    refused(host, carrier, &path, user, |fact| match wanted {
        Wanted::Read => may(fact, user, 0o4),
        Wanted::Connect => may(fact, user, 0o2),
        Wanted::ConnectAsOwner => fact.uid == user.uid && may(fact, user, 0o2),
        Wanted::ConnectAsOwnerOrRoot => (user.uid == 0 || fact.uid == user.uid) && may(fact, user, 0o2),
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

/// By the bits of the owner, of the group or of everybody, as the kernel does. Where the groups are not known, both of the latter have
/// to allow it: a value that may be of no use is not offered.
fn may(fact: &PathFact, user: &User, bit: u32) -> bool {
    if user.uid == 0 {
        return true;
    }
    let bits = if fact.uid == user.uid {
        fact.mode >> 6
    } else {
        match (fact.gid, &user.groups) {
            (Some(gid), Some(groups)) if groups.contains(&gid) => fact.mode >> 3,
            (Some(_), Some(_)) => fact.mode,
            _ => fact.mode & fact.mode >> 3,
        }
    };
    bits & bit != 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::FileKind;

    #[test]
    fn the_group_s_bits_count_for_its_members_alone() {
        let fact = |mode, gid| PathFact {
            kind: FileKind::Socket,
            link: None,
            mode,
            uid: 1,
            gid,
            bytes: 0,
            inode: (0, 0),
            modified_ms: 0,
            changed_ms: 0,
        };
        let user = |uid, groups: Option<&[u32]>| User { uid, groups: groups.map(<[u32]>::to_vec) };
        let may_connect = |mode, gid, user: &User| may(&fact(mode, gid), user, 0o2);
        assert!(may_connect(0o660, Some(7), &user(2, Some(&[5, 7]))));
        assert!(!may_connect(0o660, Some(7), &user(2, Some(&[5]))));
        assert!(!may_connect(0o606, Some(7), &user(2, Some(&[7]))), "a member gets what the group gets, and not more");
        assert!(may_connect(0o606, Some(7), &user(2, Some(&[5]))));
        assert!(!may_connect(0o660, Some(7), &user(2, None)) && !may_connect(0o606, None, &user(2, Some(&[7]))));
        assert!(may_connect(0o666, None, &user(2, None)));
        assert!(!may_connect(0o066, Some(7), &user(1, Some(&[7]))), "nor does the owner");
        assert!(may_connect(0, Some(7), &user(0, None)));
    }
}
