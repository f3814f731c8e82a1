//! Who is writing into a store that has no WAL, asked without taking a lock.
//!
//! A host with a rollback journal holds write locks on bytes that lie at one gigabyte (sqlite.org/lockingv3.html): RESERVED from
//! its first change, PENDING and the shared range before the first byte of it reaches the file. With the journal in memory, or with none,
//! nothing else tells that the file holds rows that were never committed.

use std::fs::File;
use std::path::Path;

use nix::fcntl::{FcntlArg, fcntl};
use nix::libc;

use super::{Refusal, beside};

/// PENDING, one byte, which a writer keeps while it waits for readers to leave.
const PENDING: libc::off_t = 0x4000_0000;
/// RESERVED, which a writer holds from its first change to the end of its transaction. It keeps no reader out: nothing has reached the file yet.
const RESERVED: libc::off_t = PENDING + 1;
/// The shared range, which a writer holds whole while it changes the file.
const SHARED: libc::off_t = PENDING + 2;
const SHARED_BYTES: libc::off_t = 510;

/// That nobody is writing into the file.
///
/// Opens and closes it, which drops the locks that this process has on it: never beside a connection that holds some.
///
/// # Errors
/// [`Refusal::Busy`] when somebody is; and when it cannot be asked.
pub fn free(path: &Path) -> Result<(), Refusal> {
    let file = beside::open(path)?;
    match held(&file, &[(PENDING, 1), (SHARED, SHARED_BYTES)]) {
        Some(Some(pid)) => Err(Refusal::Busy(pid)),
        // A file system without locks has no writer that could be told from none.
        Some(None) | None => Ok(()),
    }
}

/// Whether a transaction of a live process is under way in a file without a WAL; none where the file system has no locks to ask.
pub fn under_way(file: &File) -> Option<bool> {
    Some(held(file, &[(PENDING, 1), (RESERVED, 1), (SHARED, SHARED_BYTES)])?.is_some())
}

/// Whose write lock lies on one of these ranges, with the pid where the lock has one; the outer none where it cannot be asked.
fn held(file: &File, ranges: &[(libc::off_t, libc::off_t)]) -> Option<Option<Option<u32>>> {
    for &(from, bytes) in ranges {
        // "Could I read this?": only somebody's write lock says no.
        let mut lock = libc::flock {
            l_type: libc::F_RDLCK as libc::c_short,
            l_whence: libc::SEEK_SET as libc::c_short,
            l_start: from,
            l_len: bytes,
            l_pid: 0,
        };
        fcntl(file, FcntlArg::F_GETLK(&mut lock)).ok()?;
        if lock.l_type != libc::F_UNLCK as libc::c_short {
            // A lock of an open file (OFD) names no process, nor does one from another PID namespace.
            return Some(Some(u32::try_from(lock.l_pid).ok().filter(|pid| *pid > 0)));
        }
    }
    Some(None)
}
