//! Facts about a machine, and nothing else: live, or from a snapshot.
//!
//! Every fact has an address, `(file, key)`: the place where a snapshot keeps it. A live host reads the
//! machine; a recording host reads the machine and keeps each answer; a captured host answers
//! from what was kept. So whatever a command asked when the snapshot was taken has the same answer
//! later, and whatever was not asked is [`Unknown::NotCaptured`], never a guess.
//!
//! This is the only room that touches `/proc`, `/run`, sockets and files of the host.

pub mod child;
pub mod command;
pub mod connect;
pub mod contents;
pub mod deadline;
pub mod environ;
pub mod fact;
pub mod files;
pub mod hex;
pub mod hosts;
pub mod http;
pub mod interrupt;
pub mod lines;
pub mod listen;
pub mod locks;
pub mod machine;
mod mounts;
pub mod process;
pub mod programs;
pub mod quiet;
pub mod scout;
pub mod snapshot;
pub mod sockets;
pub mod terminal;
pub mod trawl;
pub mod xauth;

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use rustix::fs::{Mode, OFlags};
use serde::Serialize;
use serde::de::DeserializeOwned;

pub use environ::{Entry, Environ, Masked, Value};
pub use fact::{Fact, Raw, Unknown};
pub use files::{Document, FileKind, PathFact};
pub use hex::hex;
pub use machine::{Hiding, Machine};
pub use process::{Exe, Fd, Pid, Proc, ProcessKey, ProgramKey, Stat, View};
pub use sockets::{Net, Tcp, Unix, UnixTable};
pub use terminal::Terminal;

use snapshot::{Captured, Mask, Recorder};

/// A machine to ask, live or captured.
pub struct Host {
    source: Source,
    machine: Machine,
    nets: Mutex<HashMap<Option<Pid>, Arc<Net>>>,
    unix: Mutex<HashMap<Option<Pid>, UnixTable>>,
    namespaces: Mutex<HashMap<String, Fact<Vec<u8>>>>,
    memos: files::Memos,
    proc: OnceLock<Option<OwnedFd>>,
    scanned: OnceLock<Vec<Stat>>,
    table: OnceLock<Fact<HashMap<Pid, Stat>>>,
    terminal: OnceLock<Fact<Terminal>>,
    holders: Mutex<HashMap<u32, Arc<Holders>>>,
    users: OnceLock<HashMap<u32, String>>,
    hiding: OnceLock<Option<Hiding>>,
}

/// Which sockets the processes of one account have open.
#[derive(Default)]
struct Holders {
    by_inode: HashMap<u64, Pid>,
    /// Why not all of them could be looked into.
    hidden: Option<Unknown>,
}

/// How many processes of one account are looked into for its sockets.
const HOLDERS: usize = 512;

thread_local! {
    /// Set while a question is asked whose answers no snapshot may hold.
    static UNRECORDED: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

enum Source {
    Live { root: PathBuf },
    Recording { root: PathBuf, recorder: Recorder },
    Captured(Box<Captured>),
}

impl Host {
    /// This machine.
    pub fn live() -> Host {
        Host::at_root("/")
    }

    /// A machine whose file system starts at `root`: `/` for this one, a made-up tree in tests.
    pub fn at_root(root: impl Into<PathBuf>) -> Host {
        let root = root.into();
        let machine = Machine::read(&root);
        Host::new(Source::Live { root }, machine)
    }

    /// This machine, keeping every answer for a snapshot. `mask` decides what is kept of values and arguments.
    pub fn recording(mask: Box<dyn Mask>) -> Host {
        Host::recording_at("/", mask)
    }

    /// Like [`Host::recording`], for a machine whose file system starts at `root`: a made-up tree in tests.
    pub fn recording_at(root: impl Into<PathBuf>, mask: Box<dyn Mask>) -> Host {
        let root = root.into();
        let machine = Machine::read(&root);
        Host::new(Source::Recording { root, recorder: Recorder::new(mask) }, machine)
    }

    /// The machine that a snapshot holds.
    pub fn captured(captured: Captured) -> Host {
        let machine = captured.machine();
        Host::new(Source::Captured(Box::new(captured)), machine)
    }

    fn new(source: Source, machine: Machine) -> Host {
        Host {
            source,
            machine,
            nets: Mutex::default(),
            unix: Mutex::default(),
            namespaces: Mutex::default(),
            memos: files::Memos::default(),
            proc: OnceLock::new(),
            scanned: OnceLock::new(),
            table: OnceLock::new(),
            terminal: OnceLock::new(),
            holders: Mutex::default(),
            users: OnceLock::new(),
            hiding: OnceLock::new(),
        }
    }

    /// What kind of machine it is, and when and with which privilege it was looked at.
    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    /// Whether the answers come from a snapshot.
    pub fn is_captured(&self) -> bool {
        matches!(self.source, Source::Captured(_))
    }

    /// What the snapshot's own bookkeeping has to say: altered, missing or unreadable parts.
    pub fn snapshot_faults(&self) -> Vec<snapshot::Fault> {
        match &self.source {
            Source::Captured(captured) => captured.faults(),
            _ => Vec::new(),
        }
    }

    /// Asks `question` without keeping what it reads for a snapshot: about values that a snapshot must not hold.
    pub fn unrecorded<T>(&self, question: impl FnOnce() -> T) -> T {
        let before = UNRECORDED.replace(true);
        let answer = question();
        UNRECORDED.set(before);
        answer
    }

    /// What was recorded so far, if this host records.
    pub fn recorder(&self) -> Option<&Recorder> {
        match &self.source {
            Source::Recording { recorder, .. } => Some(recorder),
            _ => None,
        }
    }

    /// Where a snapshot has a file that it keeps as it is; checked against its manifest.
    pub fn attached(&self, name: &str) -> Fact<PathBuf> {
        match &self.source {
            Source::Captured(captured) => captured.attached(name),
            _ => Err(Unknown::NotCaptured),
        }
    }

    /// Whether environment blocks can be read as bytes: on a live machine that keeps no snapshot.
    pub fn reads_blocks(&self) -> bool {
        matches!(self.source, Source::Live { .. })
    }

    fn live_root(&self) -> Option<&Path> {
        match &self.source {
            Source::Live { root } | Source::Recording { root, .. } => Some(root),
            Source::Captured(_) => None,
        }
    }

    /// The fact kept at `(file, key)`: read now, read and kept, or looked up.
    ///
    /// Rooms above use it for facts that they derive and that masking would make impossible to derive again.
    pub fn fact<T: Serialize + DeserializeOwned>(&self, file: &str, key: &str, read: impl FnOnce() -> Fact<T>) -> Fact<T> {
        match &self.source {
            Source::Live { .. } => read(),
            Source::Recording { recorder, .. } => {
                let fact = read();
                if !UNRECORDED.get() {
                    recorder.keep(file, key, &fact);
                }
                fact
            }
            Source::Captured(captured) => captured.get(file, key),
        }
    }

    /// Like [`Host::fact`], for facts of which a snapshot keeps less than what was read.
    fn masked_fact<T: Serialize + DeserializeOwned>(
        &self,
        file: &str,
        key: &str,
        read: impl FnOnce() -> Fact<T>,
        keep: impl FnOnce(&dyn Mask, &T) -> T,
    ) -> Fact<T> {
        match &self.source {
            Source::Live { .. } => read(),
            Source::Recording { recorder, .. } => {
                let fact = read();
                if !UNRECORDED.get() {
                    recorder.keep_masked(file, key, &fact.as_ref().map(|value| keep(recorder.mask(), value)).map_err(Clone::clone));
                }
                fact
            }
            Source::Captured(captured) => captured.get(file, key),
        }
    }

    /// Every process id, ascending.
    pub fn pids(&self) -> Fact<Vec<Pid>> {
        let mut pids = Vec::new();
        self.each_pid(|pid| pids.push(pid))?;
        pids.sort_unstable();
        Ok(pids)
    }

    fn each_pid(&self, mut tell: impl FnMut(Pid)) -> Fact<()> {
        match &self.source {
            Source::Live { root } | Source::Recording { root, .. } => {
                let mut none = true;
                files::each_name(&root.join("proc"), |name| {
                    if let Some(pid) = std::str::from_utf8(name).ok().and_then(|name| name.parse().ok()) {
                        none = false;
                        tell(pid);
                    }
                })?;
                // We are a process ourselves: a list without any is no list.
                if none && root == Path::new("/") {
                    return Err(Unknown::Malformed("/proc lists no process; is it mounted?".to_owned()));
                }
                Ok(())
            }
            Source::Captured(captured) => {
                captured.pids().into_iter().for_each(tell);
                Ok(())
            }
        }
    }

    /// `/proc`, held open: a thousand processes are looked up in it, and not in `/` first.
    fn proc_dir(&self) -> Option<&OwnedFd> {
        let open = || {
            let path = self.live_root()?.join("proc");
            rustix::fs::open(path, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()).ok()
        };
        self.proc.get_or_init(open).as_ref()
    }

    /// What `/proc` keeps from this account; none where every process can be seen.
    pub fn hiding(&self) -> Option<&Hiding> {
        let read = || {
            let root = self.live_root().ok_or(Unknown::NotCaptured)?;
            // The kernel lets those pass who may trace any process.
            if self.machine.caps.iter().any(|cap| cap == "SYS_PTRACE") {
                return Ok(None);
            }
            let table = files::read_small(&root.join("proc/self/mountinfo"), usize::MAX)?;
            let groups = rustix::process::getgroups()?.into_iter().chain([rustix::process::getegid()]);
            let groups: Vec<u32> = groups.map(rustix::process::Gid::as_raw).collect();
            Ok(machine::hiding(&String::from_utf8_lossy(&table), &groups))
        };
        self.hiding.get_or_init(|| self.fact("proc.json", "hiding", read).ok().flatten()).as_ref()
    }

    /// Why a process has no directory in `/proc`: it is not there, or it is hidden.
    fn why_no_process(&self, pid: Pid) -> Unknown {
        let hidden = self.live_root() == Some(Path::new("/"))
            && self.hiding().is_some_and(|hiding| hiding.unlisted)
            && i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw).is_some_and(|pid| {
                // Signal 0 sends nothing; it only asks whether there is somebody to send it to.
                rustix::process::test_kill_process(pid) == Err(rustix::io::Errno::PERM)
            });
        if hidden { Unknown::NotPermitted } else { Unknown::Gone }
    }

    /// A handle on one process.
    pub fn process(&self, pid: Pid) -> Proc<'_> {
        Proc::open(self, pid)
    }

    /// Runs `look` on every process, on all cores, and keeps what it returns, in order of pid.
    pub fn scan<T: Send>(&self, look: impl Fn(&Proc<'_>) -> Option<T> + Sync) -> Fact<Vec<T>> {
        /// A core is handed so many at once.
        const HANDFUL: usize = 32;
        let look = |pid: Pid| {
            let process = self.process(pid);
            let found = look(&process);
            (pid, process.into_stat(), found)
        };
        let looks = Mutex::new(Vec::new());
        let look_at = |pids: Vec<Pid>| {
            let found: Vec<(Pid, Option<Fact<Stat>>, Option<T>)> = pids.into_iter().map(&look).collect();
            looks.lock().unwrap_or_else(PoisonError::into_inner).extend(found);
        };
        // The first are looked at while the rest are still being listed.
        rayon::in_place_scope(|scope| {
            let look_at = &look_at;
            let mut pids = Vec::with_capacity(HANDFUL);
            let listed = self.each_pid(|pid| {
                pids.push(pid);
                if pids.len() == HANDFUL {
                    let pids = std::mem::replace(&mut pids, Vec::with_capacity(HANDFUL));
                    scope.spawn(move |_| look_at(pids));
                }
            });
            scope.spawn(move |_| look_at(pids));
            listed
        })?;
        let mut looks = looks.into_inner().unwrap_or_else(PoisonError::into_inner);
        looks.sort_unstable_by_key(|(pid, ..)| *pid);
        let (stats, found): (Vec<_>, Vec<_>) = looks.into_iter().map(|(_, stat, found)| (stat, found)).unzip();
        // Where every process was asked for it, the table of all need not ask again.
        if let Some(stats) = stats.into_iter().collect::<Option<Vec<_>>>() {
            let _ = self.scanned.set(stats.into_iter().flatten().collect());
        }
        Ok(found.into_iter().flatten().collect())
    }

    /// `stat` of every process, read once.
    pub fn table(&self) -> Fact<&HashMap<Pid, Stat>> {
        let read = || {
            if self.scanned.get().is_none() {
                self.scan(|process| process.stat().ok().map(drop))?;
            }
            let stats = self.scanned.get().map(Vec::as_slice).unwrap_or_default();
            Ok(stats.iter().map(|stat| (stat.pid, stat.clone())).collect())
        };
        self.table.get_or_init(read).as_ref().map_err(Clone::clone)
    }

    /// Why a process that a snapshot lists cannot be told any more, if one cannot: then that no process is this or that is not known.
    pub fn lost_process(&self) -> Option<Unknown> {
        let Source::Captured(captured) = &self.source else { return None };
        let lost = |pid: Pid| self.process(pid).stat().err().filter(|unknown| !unknown.is_absence());
        captured.pids().into_iter().find_map(lost)
    }

    /// The processes from `pid` up to pid 1 (or to the first one that cannot be read), `pid` first.
    pub fn chain(&self, pid: Pid) -> Vec<Stat> {
        let mut chain = Vec::<Stat>::new();
        let mut next = pid;
        while next != 0 && chain.iter().all(|stat| stat.pid != next) {
            let Ok(stat) = self.process(next).stat() else { break };
            next = stat.ppid;
            chain.push(stat);
        }
        chain
    }

    /// The process of this account that has the socket open. The processes of one account are looked into once, for all sockets.
    ///
    /// # Errors
    /// [`Unknown::Absent`] when none of them has it.
    pub fn holder(&self, uid: u32, inode: u64) -> Fact<Pid> {
        self.fact("holders.json", &format!("{uid} {inode}"), || {
            // Another account's files are open to root alone.
            if self.machine.uid != 0 && self.machine.uid != uid {
                return Err(Unknown::NotPermitted);
            }
            let holders = self.holders_of(uid)?;
            holders.by_inode.get(&inode).copied().ok_or_else(|| holders.hidden.clone().unwrap_or(Unknown::Absent))
        })
    }

    fn holders_of(&self, uid: u32) -> Fact<Arc<Holders>> {
        // Not under the lock: the table is read on all cores, and one that waits for it may ask this again.
        let table = self.table()?;
        let mut known = self.holders.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(holders) = known.get(&uid) {
            return Ok(holders.clone());
        }
        let mut pids: Vec<Pid> =
            table.values().filter(|stat| stat.euid == uid && !stat.kernel_thread && !stat.is_zombie()).map(|stat| stat.pid).collect();
        pids.sort_unstable();
        let mut holders = Holders::default();
        if pids.len() > HOLDERS {
            holders.hidden = Some(Unknown::Io(format!("more than {HOLDERS} processes of its account run")));
        }
        for pid in pids.into_iter().take(HOLDERS) {
            // That a bystander's open files were read is nothing a snapshot has to tell.
            match self.unrecorded(|| self.process(pid).fds()) {
                Ok(fds) => fds.iter().filter_map(process::Fd::socket_inode).for_each(|inode| {
                    holders.by_inode.entry(inode).or_insert(pid);
                }),
                Err(unknown) if unknown.is_absence() => {}
                Err(unknown) => drop(holders.hidden.get_or_insert(unknown)),
            }
        }
        let holders = Arc::new(holders);
        known.insert(uid, holders.clone());
        Ok(holders)
    }

    /// The login name of a uid.
    pub fn user_name(&self, uid: u32) -> Option<String> {
        self.fact("users.json", &uid.to_string(), || {
            let users = self.users.get_or_init(machine::users);
            users.get(&uid).cloned().ok_or(Unknown::Absent)
        })
        .ok()
    }

    /// Every login name that is known, with its uid.
    pub fn users(&self) -> Vec<(u32, String)> {
        let mut users: Vec<(u32, String)> = match &self.source {
            Source::Captured(captured) => {
                let uids = captured.keys("users.json");
                uids.iter().filter_map(|uid| Some((uid.parse().ok()?, captured.get("users.json", uid).ok()?))).collect()
            }
            _ => self.users.get_or_init(machine::users).iter().map(|(uid, name)| (*uid, name.clone())).collect(),
        };
        if let Source::Recording { recorder, .. } = &self.source {
            users.iter().for_each(|(uid, name)| recorder.keep("users.json", &uid.to_string(), &Ok(name)));
        }
        users.sort_unstable();
        users
    }

    /// Whether a snapshot still has those of these facts that it lists; a machine has lost none.
    ///
    /// # Errors
    /// Why one cannot be told any more.
    pub fn lost_fact(&self, file: &str, keys: &[&str]) -> Fact<()> {
        let Source::Captured(captured) = &self.source else { return Ok(()) };
        let lost = |unknown: &Unknown| matches!(unknown, Unknown::NotCaptured | Unknown::Altered | Unknown::Malformed(_));
        let mut listed = keys.iter().filter(|key| captured.lists(file, key));
        listed.find_map(|key| captured.get::<serde_json::Value>(file, key).err().filter(lost)).map_or(Ok(()), Err)
    }

    /// The same of what stands at a path.
    ///
    /// # Errors
    /// Why it cannot be told any more.
    pub fn lost_path(&self, view: View, path: &[u8]) -> Fact<()> {
        self.lost_fact(&files::file_of("paths", view), &[&files::key_of(path)])
    }

    /// Why a login name that a snapshot lists cannot be told any more, if one cannot: then that there is no account of a name is not known.
    pub fn lost_users(&self) -> Option<Unknown> {
        let Source::Captured(captured) = &self.source else { return None };
        let names = captured.keys("users.json").into_iter().filter(|key| key.parse::<u32>().is_ok());
        names.filter_map(|uid| captured.get::<String>("users.json", &uid).err()).find(|unknown| !unknown.is_absence())
    }

    /// The home directories of persons, as far as the machine's own list of accounts has them.
    pub fn homes(&self) -> Vec<String> {
        let read = || {
            let root = self.live_root().ok_or(Unknown::NotCaptured)?;
            Ok(machine::homes(&files::read_small(&root.join("etc/passwd"), 16 << 20)?, machine::FIRST_PERSON))
        };
        self.fact("users.json", "homes", read).unwrap_or_default()
    }

    /// The terminal that the tool was started from.
    pub fn terminal(&self) -> Fact<&Terminal> {
        let find = || self.masked_fact("terminal.json", "terminal", || Terminal::find(self), |mask, terminal| terminal.masked(mask));
        self.terminal.get_or_init(find).as_ref().map_err(Clone::clone)
    }

    fn own_namespace(&self, name: &str) -> Fact<Vec<u8>> {
        let mut cache = self.namespaces.lock().unwrap_or_else(PoisonError::into_inner);
        cache
            .entry(name.to_owned())
            .or_insert_with(|| {
                let root = self.live_root().ok_or(Unknown::NotCaptured)?;
                files::link(&root.join("proc/self/ns").join(name))
            })
            .clone()
    }
}
