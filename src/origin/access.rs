//! Whether a process may use what a path leads to: by its own account, groups and capabilities, in its own view. That the one
//! who asks could open it says nothing of the process.

use crate::host::files::{PathFact, steps};
use crate::host::{Fact, Host, Stat};

use super::Carrier;

/// To read a file.
pub const READ: u32 = 0o4;
/// To connect to a socket (unix(7): connecting takes write permission).
pub const CONNECT: u32 = 0o2;
/// To run a program, or to reach what is in a directory.
pub const SEARCH: u32 = 0o1;

/// CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH in a set of capabilities (capability.h).
const OVERRIDE: u64 = 1 << 1;
const READ_SEARCH: u64 = 1 << 2;

/// How many symbolic links on the way are followed.
const LINKS: u8 = 8;

/// One who wants to use it.
#[derive(Clone, Debug)]
pub struct User {
    /// The effective account.
    pub uid: u32,
    /// The groups of the process; none where they could not be read.
    pub groups: Option<Vec<u32>>,
    /// Its effective capabilities; none where they could not be read, and then they are those of its account.
    pub caps: Option<u64>,
}

/// Whether something is allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Allowed {
    /// It is.
    Yes,
    /// It is not.
    No,
    /// An access list decides, or a group, and which groups the process is in is not known.
    Unsure,
}

impl User {
    /// Who a process is.
    pub fn of(host: &Host, stat: &Stat) -> User {
        let process = host.process(stat.pid);
        User { uid: stat.euid, groups: process.groups().ok(), caps: process.capabilities().ok() }
    }

    fn passes(&self, bit: u32) -> bool {
        match self.caps {
            Some(caps) => caps & OVERRIDE != 0 || bit != CONNECT && caps & READ_SEARCH != 0,
            None => self.uid == 0,
        }
    }

    /// By the bits of the owner, of the group or of everybody, as the kernel does.
    pub fn may(&self, fact: &PathFact, bit: u32) -> Allowed {
        if self.passes(bit) {
            return Allowed::Yes;
        }
        let says = |bits: u32| if bits & bit != 0 { Allowed::Yes } else { Allowed::No };
        if fact.uid == self.uid {
            return says(fact.mode >> 6);
        }
        let (group, all) = (says(fact.mode >> 3), says(fact.mode));
        match (fact.gid, &self.groups) {
            _ if group == all => all,
            // The group's bits are then what the list grants at most, to whomever it names.
            _ if fact.acl => Allowed::Unsure,
            (Some(gid), Some(groups)) => {
                if groups.contains(&gid) {
                    group
                } else {
                    all
                }
            }
            _ => Allowed::Unsure,
        }
    }
}

/// What keeps the carrier from a path: the first directory on the way that it may not search, or the thing itself.
pub type Barrier = (Vec<u8>, PathFact);

/// What certainly keeps the carrier from a path. None also where that is not known, and for a carrier that is no process.
///
/// # Errors
/// A snapshot has lost what would tell.
pub fn kept_out(carrier: &Carrier<'_>, path: &[u8], bit: u32) -> Fact<Option<Barrier>> {
    let Some(stat) = carrier.process else { return Ok(None) };
    // Most often the account alone decides, and nothing more of the process needs to be read.
    let account = User { uid: stat.euid, groups: None, caps: Some(0) };
    if barrier(carrier, path, (bit, LINKS), &|fact, bit| account.may(fact, bit) != Allowed::Yes)?.is_none() {
        return Ok(None);
    }
    carrier.host.lost_fact(&format!("processes/{}.json", stat.pid), &["groups", "capabilities"])?;
    let user = User::of(carrier.host, stat);
    barrier(carrier, path, (bit, LINKS), &|fact, bit| user.may(fact, bit) == Allowed::No)
}

fn barrier(carrier: &Carrier<'_>, path: &[u8], (bit, links): (u32, u8), bars: &dyn Fn(&PathFact, u32) -> bool) -> Fact<Option<Barrier>> {
    for end in steps(path).chain([path.len()]) {
        let Ok(fact) = carrier.host.path(carrier.view, &path[..end]) else {
            carrier.host.lost_path(carrier.view, &path[..end])?;
            continue;
        };
        let bit = if end == path.len() { bit } else { SEARCH };
        if let Some(aim) = fact.aim(&path[..end]).filter(|_| links > 0)
            && let Some(found) = barrier(carrier, &aim, (bit, links - 1), bars)?
        {
            return Ok(Some(found));
        }
        if bars(&fact, bit) {
            return Ok(Some((path[..end].to_vec(), fact)));
        }
    }
    Ok(None)
}

/// What keeps it out, in a sentence: `what` is what it may not do with the thing itself.
pub fn in_words(carrier: &Carrier<'_>, path: &[u8], (at, fact): &Barrier, what: &str) -> String {
    let uid = carrier.process.map_or_else(String::new, |process| format!(", of uid {},", process.euid));
    let (subject, what) = if at == path {
        ("it".to_owned(), what)
    } else {
        (String::from_utf8_lossy(at).into_owned(), if fact.kind == crate::host::FileKind::Directory { "may not enter it" } else { what })
    };
    format!("{subject} is uid {}'s with mode {:o}: this process{uid} {what}", fact.uid, fact.mode)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::FileKind;

    #[test]
    fn bits_groups_and_capabilities_decide_as_in_the_kernel() {
        let fact = |mode, gid| PathFact {
            kind: FileKind::Socket,
            link: None,
            mode,
            uid: 1,
            gid,
            acl: false,
            bytes: 0,
            inode: (0, 0),
            modified_ms: 0,
            changed_ms: 0,
        };
        let user = |uid, groups: Option<&[u32]>| User { uid, groups: groups.map(<[u32]>::to_vec), caps: Some(0) };
        let connect = |mode, gid, user: &User| user.may(&fact(mode, gid), CONNECT);
        assert_eq!(connect(0o660, Some(7), &user(2, Some(&[5, 7]))), Allowed::Yes);
        assert_eq!(connect(0o660, Some(7), &user(2, Some(&[5]))), Allowed::No);
        assert_eq!(connect(0o606, Some(7), &user(2, Some(&[7]))), Allowed::No, "a member gets what the group gets, and not more");
        assert_eq!(connect(0o606, Some(7), &user(2, Some(&[5]))), Allowed::Yes);
        assert_eq!(connect(0o660, Some(7), &user(2, None)), Allowed::Unsure);
        assert_eq!(connect(0o606, None, &user(2, Some(&[7]))), Allowed::Unsure);
        assert_eq!(connect(0o666, None, &user(2, None)), Allowed::Yes);
        assert_eq!(connect(0o600, None, &user(2, None)), Allowed::No);
        assert_eq!(connect(0o066, Some(7), &user(1, Some(&[7]))), Allowed::No, "nor does the owner");
        let listed = PathFact { acl: true, ..fact(0o660, Some(7)) };
        assert_eq!(user(2, Some(&[5])).may(&listed, CONNECT), Allowed::Unsure, "the list may name it");
        assert_eq!(user(0, Some(&[])).may(&fact(0o600, Some(7)), CONNECT), Allowed::No, "root of a container without the capability");
        assert_eq!(User { caps: None, ..user(0, None) }.may(&fact(0, Some(7)), CONNECT), Allowed::Yes);
        assert_eq!(User { caps: Some(OVERRIDE), ..user(2, None) }.may(&fact(0, Some(7)), CONNECT), Allowed::Yes);
        assert_eq!(User { caps: Some(READ_SEARCH), ..user(2, None) }.may(&fact(0, Some(7)), CONNECT), Allowed::No);
        assert_eq!(User { caps: Some(READ_SEARCH), ..user(2, None) }.may(&fact(0, Some(7)), READ), Allowed::Yes);
    }
}
