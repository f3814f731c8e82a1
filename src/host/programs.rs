//! Program files, opened to be read whole: with `pread`, by whoever asked, past any deadline of a single answer.
//!
//! Only opening them has a deadline. Nothing but a regular file is opened: a FIFO would wait for its writer, a device has no
//! end. What comes through a pipe is kept in a file without a name until it has been read.

use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{FileType, Mode, OFlags};

use super::fact::{Fact, Unknown};
use super::process::{Pid, View};
use super::{Host, deadline};

/// As much is taken from a pipe; the largest program seen has 234 MB.
pub const PIPE_LIMIT: u64 = 1 << 30;

/// A regular file that the person named, of the machine that the program runs on.
///
/// # Errors
/// [`Unknown::Malformed`] where it is no regular file.
pub fn open_named(path: &Path) -> Fact<File> {
    if path.as_os_str().is_empty() {
        return Err(Unknown::Malformed("a path without a letter names no file".to_owned()));
    }
    let path = std::path::absolute(path)?;
    let shown = path.clone();
    deadline::ask(&shown, move || open_regular(|flags| Ok(rustix::fs::open(&path, flags, Mode::empty())?)))
}

/// Standard input: the file that it is, or a nameless one with what came through it.
///
/// # Errors
/// [`Unknown::Malformed`] when more than [`PIPE_LIMIT`] bytes came.
pub fn open_stdin() -> Fact<File> {
    let stdin = std::io::stdin();
    let stat = rustix::fs::fstat(&stdin)?;
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => Ok(rustix::io::fcntl_dupfd_cloexec(&stdin, 3)?.into()),
        FileType::Directory => Err(Unknown::Malformed("it is a directory".to_owned())),
        _ => {
            let mut kept = nameless()?;
            let came = std::io::copy(&mut stdin.lock().take(PIPE_LIMIT + 1), &mut kept)?;
            if came > PIPE_LIMIT {
                return Err(Unknown::Malformed(format!("more than {PIPE_LIMIT} bytes came, and no program has so many")));
            }
            Ok(kept)
        }
    }
}

/// procfs, sysfs, cgroup2, debugfs, tracefs: `statfs(2)`, `linux/magic.h`.
const PSEUDO: [i64; 5] = [0x9fa0, 0x6265_6572, 0x6367_7270, 0x6462_6720, 0x7472_6163];

/// A file that nobody else can open and that is gone with this process.
fn nameless() -> Fact<File> {
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    let made = rustix::fs::open(std::env::temp_dir(), flags, Mode::RUSR | Mode::WUSR);
    // Not every file system has them; memory has.
    let made = made.or_else(|_| rustix::fs::memfd_create("whoseenv", rustix::fs::MemfdFlags::CLOEXEC))?;
    Ok(made.into())
}

fn open_regular(open: impl Fn(OFlags) -> Fact<OwnedFd>) -> Fact<File> {
    let probe = open(OFlags::PATH | OFlags::CLOEXEC)?;
    let kind = FileType::from_raw_mode(rustix::fs::fstat(probe)?.st_mode);
    let other = match kind {
        FileType::RegularFile => {
            let file = open(OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY)?;
            // Files of /proc, /sys and their like are made while they are read, and have no length.
            if !PSEUDO.contains(&rustix::fs::fstatfs(&file)?.f_type) {
                return Ok(file.into());
            }
            "a file that the kernel makes"
        }
        FileType::Directory => "a directory",
        FileType::Fifo => "a FIFO",
        FileType::Socket => "a socket",
        _ => "a device",
    };
    Err(Unknown::Malformed(format!("it is {other}, not a regular file")))
}

impl Host {
    /// The file that a process runs, also when its name was removed or given to another. Live machines only.
    ///
    /// # Errors
    /// [`Unknown::NotCaptured`] on a snapshot, which holds no programs.
    pub fn open_program(&self, pid: Pid) -> Fact<File> {
        let path = self.live_root().ok_or(Unknown::NotCaptured)?.join(format!("proc/{pid}/exe"));
        let shown = path.clone();
        deadline::ask(&shown, move || open_regular(|flags| Ok(rustix::fs::open(&path, flags, Mode::empty())?)))
    }

    /// A regular file at an absolute path, as `view` sees it. Live machines only.
    ///
    /// # Errors
    /// [`Unknown::NotCaptured`] on a snapshot.
    pub fn open_file(&self, view: View, path: &[u8]) -> Fact<File> {
        let place = self.place(view, path)?;
        deadline::ask(&place.shown(), move || open_regular(|flags| place.open(flags)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_regular_files_are_opened() {
        let dir = tempfile::tempdir().unwrap();
        let fifo = dir.path().join("fifo");
        rustix::fs::mknodat(rustix::fs::CWD, &fifo, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        for (path, kind) in [(dir.path(), "a directory"), (&fifo, "a FIFO"), (Path::new("/dev/zero"), "a device")] {
            let expected = format!("it is {kind}, not a regular file");
            assert_eq!(open_named(path).err(), Some(Unknown::Malformed(expected)));
        }
        assert_eq!(open_named(&dir.path().join("nothing")).err(), Some(Unknown::Absent));
    }

    #[test]
    fn a_nameless_file_leaves_nothing() {
        assert!(nameless().unwrap().metadata().unwrap().is_file());
    }
}
