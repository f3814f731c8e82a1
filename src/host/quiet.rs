//! Doing something as somebody else than root, on one thread: what a library does only for root, it then leaves.
//!
//! SQLite, as root, gives every `-shm` that it opens to the database's owner (fchown), even one that it opens for reading and that
//! is the owner's already: the file's change time moves. Seen with 3.54.1.

use rustix::process::Uid;
use rustix::thread::{CapabilitySet, set_capabilities, set_thread_res_uid};

/// Nobody's uid.
const NOBODY: u32 = 65_534;

/// Runs `what` on this thread as the owner of a file, if this is root: still permitted to read whatever root may, and not root.
/// For any other account it is just run.
pub fn not_as_root<T>(owner: u32, what: impl FnOnce() -> T) -> T {
    let (real, effective) = (rustix::process::getuid(), rustix::process::geteuid());
    if !effective.is_root() || !real.is_root() {
        return what();
    }
    let other = Uid::from_raw(if owner == 0 { NOBODY } else { owner });
    if set_thread_res_uid(real, other, effective).is_err() {
        return what();
    }
    // Leaving the effective uid took the capabilities out of effect, not away.
    if let Ok(mut sets) = rustix::thread::capabilities(None) {
        let reading = CapabilitySet::DAC_READ_SEARCH | CapabilitySet::DAC_OVERRIDE;
        sets.effective |= sets.permitted & reading;
        let _ = set_capabilities(None, sets);
    }
    let done = what();
    let _ = set_thread_res_uid(real, effective, effective);
    done
}
