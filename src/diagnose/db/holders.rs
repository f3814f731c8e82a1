//! Who holds a store open.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::agent::{AgentProcess, Generation};
use crate::host::locks::Held;
use crate::host::{Host, Pid, Raw, Unknown};
use crate::store::beside;
use crate::store::text::told_text;

/// A process that has a store open.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Holder {
    /// Its pid.
    pub pid: Pid,
    /// When it started, in clock ticks since boot.
    pub start_ticks: u64,
    /// The kernel's name of it.
    pub comm: String,
    /// The agent that it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// The product's version, as the running program carries it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The product's line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub generation: Option<Generation>,
}

impl Holder {
    /// Whether it could run the turns of a store's sessions: a known agent, or what could be one that is run from its source.
    pub fn may_be_host(&self) -> bool {
        self.agent.is_some()
            || ["bun", "node", "deno"].contains(&self.comm.as_str())
            || ["opencode", "zeroclaw"].iter().any(|name| self.comm.starts_with(name))
    }
}

/// Every process's open databases, looked at once.
#[derive(Clone, Debug, Default)]
pub struct Holders {
    open: Vec<(Raw, Holder)>,
    /// Those whose open files are hidden, with the locks that they hold.
    locks: Vec<(Held, Holder)>,
    /// Processes whose open files may not be seen from this account.
    pub hidden: u64,
}

impl Holders {
    /// Looks at every process.
    pub fn look(host: &Host, processes: &[AgentProcess]) -> Holders {
        let own = std::process::id();
        let found = host.scan(|process| {
            let stat = process.stat().ok().filter(|stat| !stat.kernel_thread && stat.pid != own)?;
            match host.unrecorded(|| process.fds()) {
                Ok(fds) => {
                    let mut paths: Vec<Raw> = fds.into_iter().map(|fd| fd.target).filter(|target| is_database(target.as_bytes())).collect();
                    paths.dedup();
                    (!paths.is_empty()).then_some((stat, Ok(paths)))
                }
                Err(Unknown::NotPermitted) => Some((stat, Err(()))),
                Err(_) => None,
            }
        });
        let mut holders = Holders::default();
        let mut held = None;
        for (stat, paths) in found.unwrap_or_default() {
            let agent = processes.iter().find(|agent| agent.stat.pid == stat.pid);
            let holder = Holder {
                pid: stat.pid,
                start_ticks: stat.start_ticks,
                comm: told_text(stat.comm.as_bytes()),
                agent: agent.map(|agent| agent.agent.clone()),
                version: agent.and_then(|agent| agent.product_version.clone()),
                generation: agent.and_then(|agent| agent.generation),
            };
            match paths {
                Ok(paths) => holders.open.extend(paths.into_iter().map(|path| (path, holder.clone()))),
                Err(()) => {
                    holders.hidden += 1;
                    // SQLite's locks are seen by everybody.
                    let held = held.get_or_insert_with(|| host.unrecorded(|| host.locks()).unwrap_or_default());
                    holders.locks.extend(held.iter().filter(|held| held.pid == stat.pid).map(|held| (*held, holder.clone())));
                }
            }
        }
        holders
    }

    /// Who has the store at this real path open.
    pub fn of(&self, path: &[u8]) -> Vec<Holder> {
        let mut found: Vec<Holder> = Vec::new();
        for (open, holder) in &self.open {
            let beside = open.as_bytes().strip_prefix(path);
            if beside.is_some_and(|rest| matches!(rest, b"" | b"-wal" | b"-shm")) && !found.contains(holder) {
                found.push(holder.clone());
            }
        }
        if !self.locks.is_empty() {
            let files = ["", "-wal", "-shm"].map(|suffix| beside::name(Path::new(OsStr::from_bytes(path)), suffix));
            for file in files.iter().filter_map(|file| file.symlink_metadata().ok()) {
                let device = (rustix::fs::major(file.dev()), rustix::fs::minor(file.dev()));
                for (held, holder) in &self.locks {
                    if (held.device, held.inode) == (device, file.ino()) && !found.contains(holder) {
                        found.push(holder.clone());
                    }
                }
            }
        }
        found
    }
}

fn is_database(target: &[u8]) -> bool {
    target.starts_with(b"/") && !target.starts_with(b"/proc/") && !target.starts_with(b"/dev/") && !target.starts_with(b"/sys/")
}
