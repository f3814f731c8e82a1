//! One process: a handle that keeps its `/proc/<pid>` directory open, and the facts read through it.
//!
//! The open directory pins the kernel's `struct pid`: when the process ends, every further read
//! through it fails with ESRCH, even if the number has been given to another process since. So facts
//! read through one handle are of one process, without reading `stat` twice.

use std::cell::{OnceCell, RefCell};
use std::os::fd::OwnedFd;

use rustix::fs::{AtFlags, Mode, OFlags, StatxFlags};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::environ::{Environ, Value};
use super::fact::{Fact, Raw, Unknown};
use super::{Host, files};

/// A process id.
pub type Pid = u32;

/// What tells one process from all others on a machine since its boot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ProcessKey {
    /// The process id.
    pub pid: Pid,
    /// When it started, in clock ticks since boot.
    pub start_ticks: u64,
}

/// What `/proc/<pid>/stat` says, and the owner of the directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stat {
    /// The process id.
    pub pid: Pid,
    /// The kernel's name of it, 15 bytes at most, set by the process itself.
    pub comm: Raw,
    /// `R`, `S`, `D`, `Z`, …
    pub state: char,
    /// Parent.
    pub ppid: Pid,
    /// Process group.
    pub pgrp: Pid,
    /// Session, which is the pid of its leader.
    pub session: Pid,
    /// Device number of the controlling tty; 0 = none.
    pub tty_nr: u32,
    /// A thread of the kernel (PF_KTHREAD).
    pub kernel_thread: bool,
    /// When it started, in clock ticks since boot.
    pub start_ticks: u64,
    /// Effective uid: the owner of the `/proc/<pid>` directory, whatever the process's dumpable flag.
    pub euid: u32,
}

impl Stat {
    /// What tells this process from all others.
    pub fn key(&self) -> ProcessKey {
        ProcessKey { pid: self.pid, start_ticks: self.start_ticks }
    }

    /// Name of the controlling tty below `/dev`, such as `pts/3`.
    pub fn tty(&self) -> Option<String> {
        // The kernel's encoding: minor in bits 31-20 and 7-0, major in bits 15-8.
        let major = (self.tty_nr >> 8) & 0xfff;
        let minor = (self.tty_nr & 0xff) | ((self.tty_nr >> 12) & 0xfff00);
        match (major, minor) {
            (0, 0) => None,
            (136..=143, _) => Some(format!("pts/{}", (major - 136) * 256 + minor)),
            (4, 0..=63) => Some(format!("tty{minor}")),
            (4, _) => Some(format!("ttyS{}", minor - 64)),
            (5, 1) => Some("console".to_owned()),
            _ => Some(format!("char {major}:{minor}")),
        }
    }

    /// Whether the process has ended and waits for its parent.
    pub fn is_zombie(&self) -> bool {
        matches!(self.state, 'Z' | 'X' | 'x')
    }

    /// Parses the line. The command stands in parentheses and may hold any byte, parentheses included.
    pub fn parse(line: &[u8], euid: u32) -> Option<Stat> {
        const KERNEL_THREAD: u64 = 0x0020_0000;
        let open = memchr::memchr(b'(', line)?;
        let close = memchr::memrchr(b')', line)?;
        let pid = std::str::from_utf8(line.get(..open)?).ok()?.trim().parse().ok()?;
        let comm = Raw::from(line.get(open + 1..close)?);
        let rest = std::str::from_utf8(line.get(close + 2..)?).ok()?;
        let mut fields = rest.split_ascii_whitespace();
        let state = fields.next()?.chars().next()?;
        let ppid = fields.next()?.parse().ok()?;
        let pgrp = fields.next()?.parse().ok()?;
        let session = fields.next()?.parse().ok()?;
        let tty_nr = fields.next()?.parse::<i64>().ok()? as u32;
        let flags: u64 = fields.nth(1)?.parse().ok()?;
        let start_ticks = fields.nth(12)?.parse().ok()?;
        Some(Stat { pid, comm, state, ppid, pgrp, session, tty_nr, kernel_thread: flags & KERNEL_THREAD != 0, start_ticks, euid })
    }
}

/// The program a process runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exe {
    /// Path as the kernel gives it, without the mark of deletion.
    pub path: Raw,
    /// The file was unlinked or replaced since (the kernel appends ` (deleted)`).
    pub deleted: bool,
}

impl Exe {
    /// Splits the kernel's mark off.
    pub fn parse(link: &[u8]) -> Exe {
        match link.strip_suffix(b" (deleted)") {
            Some(path) => Exe { path: Raw::from(path), deleted: true },
            None => Exe { path: Raw::from(link), deleted: false },
        }
    }

    /// The last component.
    pub fn base(&self) -> &[u8] {
        self.path.as_bytes().rsplit(|&byte| byte == b'/').next().unwrap_or_default()
    }

    /// As the kernel writes it.
    pub fn shown(&self) -> Vec<u8> {
        let mut path = self.path.0.clone();
        if self.deleted {
            path.extend_from_slice(b" (deleted)");
        }
        path
    }
}

/// Which file a program is: two processes with equal keys run the same bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ProgramKey {
    /// Major and minor number of the device.
    pub device: (u32, u32),
    /// Inode on it.
    pub inode: u64,
    /// Size in bytes.
    pub bytes: u64,
    /// Modified: seconds and nanoseconds since the epoch.
    pub modified: (i64, u32),
}

/// An open file of a process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fd {
    /// Its number.
    pub fd: u32,
    /// What it is open on: a path, `socket:[inode]`, `pipe:[inode]`, …
    pub target: Raw,
}

impl Fd {
    /// The inode of the socket it is open on.
    pub fn socket_inode(&self) -> Option<u64> {
        let inner = self.target.as_str()?.strip_prefix("socket:[")?.strip_suffix(']')?;
        inner.parse().ok()
    }
}

/// From where a process sees files and networks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Serialize, Deserialize)]
pub struct View {
    /// Its mount namespace is not ours: paths are looked up below `/proc/<pid>/root`.
    pub mount: Option<Pid>,
    /// Its network namespace is not ours: sockets are looked up in `/proc/<pid>/net`.
    pub net: Option<Pid>,
    /// Whether its process ids are ours, by the link of its pid namespace; none where that could not be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pids: Option<bool>,
}

impl View {
    /// Our own namespaces.
    pub const OURS: View = View { mount: None, net: None, pids: Some(true) };
}

/// A process, held open.
pub struct Proc<'h> {
    host: &'h Host,
    pid: Pid,
    dir: Option<OwnedFd>,
    file: String,
    stat: OnceCell<Fact<Stat>>,
}

thread_local! {
    /// Buffers of a thread, one for each read inside a read: three thousand processes without three thousand allocations.
    static BUFFERS: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
}

/// How often a process in the middle of an execve is asked again, and after which time: a few pages of a program are read in it.
const BEGINNINGS: u32 = 20;
const BEGINNING: std::time::Duration = std::time::Duration::from_millis(1);

/// What a line of `/proc/<pid>/status` says.
pub(super) fn status_line<'s>(status: &'s str, name: &str) -> Option<&'s str> {
    status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
}

/// A set that such a line has, one of it a bit.
pub(super) fn status_bits(status: &str, name: &str) -> Option<u64> {
    u64::from_str_radix(status_line(status, name)?, 16).ok()
}

/// The effective group and the supplementary ones.
fn parse_groups(status: &[u8]) -> Option<Vec<u32>> {
    let text = String::from_utf8_lossy(status);
    let line = |name: &str| status_line(&text, name);
    let own = line("Gid")?.split_ascii_whitespace().nth(1)?;
    let mut groups = vec![own.parse().ok()?];
    groups.extend(line("Groups")?.split_ascii_whitespace().filter_map(|group| group.parse::<u32>().ok()));
    groups.dedup();
    Some(groups)
}

/// More than any kernel lets execve take (a quarter of the stack limit, 6 MiB at most by default).
const BLOCK_LIMIT: usize = 64 << 20;

impl<'h> Proc<'h> {
    pub(super) fn open(host: &'h Host, pid: Pid) -> Proc<'h> {
        let dir = host.proc_dir().and_then(|proc| {
            let name = rustix::path::DecInt::new(pid);
            rustix::fs::openat(proc, name, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()).ok()
        });
        Proc { host, pid, dir, file: format!("processes/{pid}.json"), stat: OnceCell::new() }
    }

    /// The process id.
    pub fn pid(&self) -> Pid {
        self.pid
    }

    /// A fact about this process that a room above derives, kept beside those read here; see [`Host::fact`].
    pub fn fact<T: Serialize + DeserializeOwned>(&self, key: &str, read: impl FnOnce() -> Fact<T>) -> Fact<T> {
        self.host.fact(&self.file, key, read)
    }

    /// `stat`, and the owner; read once a handle.
    pub fn stat(&self) -> Fact<Stat> {
        let read = || {
            let dir = self.dir()?;
            let euid = rustix::fs::fstat(dir).map_err(|errno| self.lost(errno.into()))?.st_uid;
            self.with("stat", |line| Stat::parse(line, euid).ok_or_else(|| Unknown::Malformed("stat".to_owned())))?
        };
        self.stat.get_or_init(|| self.host.fact(&self.file, "stat", read)).clone()
    }

    /// What [`Proc::stat`] answered, if it was asked.
    pub(super) fn into_stat(self) -> Option<Fact<Stat>> {
        self.stat.into_inner()
    }

    /// The environment block at execve.
    pub fn environ(&self) -> Fact<Environ> {
        let read = || self.environ_block(Environ::parse);
        match self.host.masked_fact(&self.file, "environ", read, |mask, environ| mask.environ(environ)) {
            // Older snapshots hold what the kernel said; see `environ_block`.
            Err(Unknown::NotPermitted) if self.has_no_memory() => Ok(Environ::default()),
            other => other,
        }
    }

    /// A zombie or a thread of the kernel. `stat` tells that to every account.
    fn has_no_memory(&self) -> bool {
        self.stat().is_ok_and(|stat| stat.kernel_thread || stat.is_zombie())
    }

    /// Hands the raw block to `read` without copying it. Live machines only; a snapshot has no blocks.
    ///
    /// A kernel thread and a zombie have no memory, and so an empty block: also for an account that may not read it.
    pub fn environ_block<T>(&self, read: impl Fn(&[u8]) -> T) -> Fact<T> {
        match self.settled("environ", &read) {
            // Linux 6.15 and later answers ESRCH for a process without memory.
            Err(Unknown::Gone) if self.with("stat", |_| ()).is_ok() => Ok(read(b"")),
            Err(Unknown::NotPermitted) if self.has_no_memory() => Ok(read(b"")),
            other => other,
        }
    }

    /// Its groups: the effective one and the supplementary ones. `status` tells them to every account.
    pub fn groups(&self) -> Fact<Vec<u32>> {
        let read = || self.with("status", parse_groups)?.ok_or_else(|| Unknown::Malformed("status".to_owned()));
        self.host.fact(&self.file, "groups", read)
    }

    /// Its effective capabilities, as a set of bits. `status` tells them to every account.
    pub fn capabilities(&self) -> Fact<u64> {
        let parse = |status: &[u8]| status_bits(&String::from_utf8_lossy(status), "CapEff");
        let read = || self.with("status", parse)?.ok_or_else(|| Unknown::Malformed("status".to_owned()));
        self.host.fact(&self.file, "capabilities", read)
    }

    /// The arguments, split at NUL.
    pub fn cmdline(&self) -> Fact<Vec<Value>> {
        let read = || {
            self.settled("cmdline", |bytes| {
                let body = bytes.strip_suffix(b"\0").unwrap_or(bytes);
                if body.is_empty() { Vec::new() } else { body.split(|&byte| byte == 0).map(|arg| Value::Clear(Raw::from(arg))).collect() }
            })
        };
        self.host.masked_fact(&self.file, "cmdline", read, |mask, argv| mask.argv(argv))
    }

    /// The program it runs; [`Unknown::Absent`] for a kernel thread.
    pub fn exe(&self) -> Fact<Exe> {
        self.host.fact(&self.file, "exe", || Ok(Exe::parse(&self.link("exe")?)))
    }

    /// Which file it runs, without opening it. Live machines only: a snapshot keeps what was learned of the program.
    ///
    /// The attributes are the ones the kernel has: a program on a network mount that hangs is not asked for.
    pub fn program_key(&self) -> Fact<ProgramKey> {
        let stat = rustix::fs::statx(self.dir()?, "exe", AtFlags::STATX_DONT_SYNC, StatxFlags::BASIC_STATS)?;
        Ok(ProgramKey {
            device: (stat.stx_dev_major, stat.stx_dev_minor),
            inode: stat.stx_ino,
            bytes: stat.stx_size,
            modified: (stat.stx_mtime.tv_sec, stat.stx_mtime.tv_nsec),
        })
    }

    /// The working directory.
    pub fn cwd(&self) -> Fact<Raw> {
        self.host.fact(&self.file, "cwd", || Ok(Raw(self.link("cwd")?)))
    }

    /// The control groups, as the kernel lists them.
    pub fn cgroup(&self) -> Fact<Raw> {
        self.host.fact(&self.file, "cgroup", || self.with("cgroup", |bytes| Raw::from(bytes)))
    }

    /// Hands the control groups to `read` without copying them. Live machines only.
    pub fn cgroup_block<T>(&self, read: impl Fn(&[u8]) -> T) -> Fact<T> {
        self.with("cgroup", read)
    }

    /// The open files.
    pub fn fds(&self) -> Fact<Vec<Fd>> {
        self.host.fact(&self.file, "fds", || {
            let dir = rustix::fs::openat(self.dir()?, "fd", OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
            let mut fds = Vec::new();
            for entry in rustix::fs::Dir::read_from(&dir)? {
                let entry = entry?;
                let Some(fd) = entry.file_name().to_str().ok().and_then(|name| name.parse().ok()) else { continue };
                // A file closed since the directory was read is not an open file.
                if let Ok(target) = rustix::fs::readlinkat(&dir, entry.file_name(), Vec::new()) {
                    fds.push(Fd { fd, target: Raw(target.into_bytes()) });
                }
            }
            fds.sort_by_key(|fd| fd.fd);
            Ok(fds)
        })
    }

    /// From where it sees files and networks.
    pub fn view(&self) -> Fact<View> {
        self.host.fact(&self.file, "view", || {
            let other = |name: &str| -> Fact<Option<Pid>> {
                let ours = self.host.own_namespace(name)?;
                Ok((self.link(&format!("ns/{name}"))? != ours).then_some(self.pid))
            };
            Ok(View { mount: other("mnt")?, net: other("net")?, pids: other("pid").ok().map(|other| other.is_none()) })
        })
    }

    /// Reads a block of the process's memory. In the middle of an execve the new memory is there and its blocks are not yet: the
    /// kernel then gives nothing, and the process is asked again until it has begun, though not for long.
    fn settled<T>(&self, name: &str, read: impl Fn(&[u8]) -> T) -> Fact<T> {
        let look = || self.with(name, |bytes| (!bytes.is_empty()).then(|| read(bytes)));
        let mut found = look();
        for _ in 0..BEGINNINGS {
            if !matches!(found, Ok(None)) {
                break;
            }
            match self.place() {
                // It has begun between the two looks.
                Some((start, end)) if start != end => {}
                Some(_) => break,
                None if self.has_no_memory() => break,
                None => std::thread::sleep(BEGINNING),
            }
            found = look();
        }
        found.map(|found| found.unwrap_or_else(|| read(b"")))
    }

    /// Where its environment block begins and ends; none as long as it has none.
    fn place(&self) -> Option<(u64, u64)> {
        let read = |line: &[u8]| {
            let rest = memchr::memrchr(b')', line).and_then(|close| std::str::from_utf8(&line[close + 1..]).ok())?;
            // The fields behind the name; env_start and env_end are the 48th and 49th of them (proc_pid_stat(5)).
            let mut fields = rest.split_ascii_whitespace().skip(47).map(|field| field.parse::<u64>().ok());
            Some((fields.next()??, fields.next()??)).filter(|&(_, end)| end != 0)
        };
        self.with("stat", read).ok().flatten()
    }

    fn dir(&self) -> Fact<&OwnedFd> {
        self.dir.as_ref().ok_or_else(|| self.host.why_no_process(self.pid))
    }

    /// The directory is held open: what is not in it any more went with the process, or was never shown to us.
    fn lost(&self, reason: Unknown) -> Unknown {
        if reason == Unknown::Absent { self.host.why_no_process(self.pid) } else { reason }
    }

    fn link(&self, name: &str) -> Fact<Vec<u8>> {
        match rustix::fs::readlinkat(self.dir()?, name, Vec::new()) {
            Ok(target) => Ok(target.into_bytes()),
            Err(errno) => Err(errno.into()),
        }
    }

    fn with<T>(&self, name: &str, read: impl FnOnce(&[u8]) -> T) -> Fact<T> {
        let opened = rustix::fs::openat(self.dir()?, name, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty());
        let file = match opened.map_err(Unknown::from) {
            Ok(file) => file,
            Err(other) => return Err(self.lost(other)),
        };
        let mut buffer = BUFFERS.with_borrow_mut(Vec::pop).unwrap_or_default();
        let value = files::read_block(&file, &mut buffer, BLOCK_LIMIT).map(|length| read(&buffer[..length]));
        // One process with a huge block must not make every later read carry it.
        if buffer.len() <= 1 << 20 {
            BUFFERS.with_borrow_mut(|buffers| buffers.push(buffer));
        }
        value
    }
}

#[cfg(test)]
mod tests;
