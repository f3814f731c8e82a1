//! Who holds locks on files, as `/proc/locks` tells every account: the pid, where the open files of its process are hidden.

use serde::{Deserialize, Serialize};

use super::{Fact, Host, Pid, Unknown, files};

/// A lock of a process on a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Held {
    /// The process; locks that belong to an open file and not to a process, and those from another PID namespace, are left out.
    pub pid: Pid,
    /// Major and minor number of the file system. On btrfs and overlayfs that is not what `stat` says, and no lock is found.
    pub device: (u32, u32),
    /// The file.
    pub inode: u64,
}

impl Host {
    /// Every lock that a process holds (proc_locks(5)).
    ///
    /// # Errors
    /// When `/proc/locks` cannot be read.
    pub fn locks(&self) -> Fact<Vec<Held>> {
        self.fact("locks.json", "held", || {
            let root = self.live_root().ok_or(Unknown::NotCaptured)?;
            Ok(parse(&files::read_small(&root.join("proc/locks"), usize::MAX)?))
        })
    }
}

/// `1: POSIX  ADVISORY  READ 3056 fe:00:131077 128 128`; a line with `->` is of one that waits.
fn parse(table: &[u8]) -> Vec<Held> {
    let line = |line: &str| {
        let mut words = line.split_ascii_whitespace().skip(4);
        let pid = words.next()?.parse().ok().filter(|pid| *pid > 0)?;
        let mut place = words.next()?.split(':');
        let mut number = || u32::from_str_radix(place.next()?, 16).ok();
        let device = (number()?, number()?);
        Some(Held { pid, device, inode: place.next()?.parse().ok()? })
    };
    String::from_utf8_lossy(table).lines().filter_map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_manual() {
        // proc_locks(5), and one as Linux 6.18 writes it.
        let table = b"1: POSIX  ADVISORY  READ  5433 08:01:7864448 128 128\n2: FLOCK  ADVISORY  WRITE 2001 08:01:7864554 0 EOF\n\
            3: POSIX  ADVISORY  READ 3056 fe:00:131077 128 128\n3: -> POSIX  ADVISORY  WRITE 7 fe:00:131077 128 128\n4: OFDLCK ADVISORY  READ -1 08:01:1 0 EOF\n";
        let held = parse(table);
        let seen: Vec<_> = held.iter().map(|held| (held.pid, held.device, held.inode)).collect();
        assert_eq!(seen, [(5433, (8, 1), 7_864_448), (2001, (8, 1), 7_864_554), (3056, (0xfe, 0), 131_077)]);
    }

    proptest::proptest! {
        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..200)) {
            let _ = parse(&bytes);
        }
    }
}
