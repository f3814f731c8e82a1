//! Who holds a store open.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::agent::{AgentProcess, Generation};
use crate::host::{Host, Pid, Raw, Unknown};
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

/// Every process's open databases, looked at once.
#[derive(Clone, Debug, Default)]
pub struct Holders {
    open: Vec<(Raw, Holder)>,
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
        for (stat, paths) in found.unwrap_or_default() {
            let Ok(paths) = paths else {
                holders.hidden += 1;
                continue;
            };
            let agent = processes.iter().find(|agent| agent.stat.pid == stat.pid);
            let holder = Holder {
                pid: stat.pid,
                start_ticks: stat.start_ticks,
                comm: told_text(stat.comm.as_bytes()),
                agent: agent.map(|agent| agent.agent.clone()),
                version: agent.and_then(|agent| agent.product_version.clone()),
                generation: agent.and_then(|agent| agent.generation),
            };
            holders.open.extend(paths.into_iter().map(|path| (path, holder.clone())));
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
        found
    }
}

fn is_database(target: &[u8]) -> bool {
    target.starts_with(b"/") && !target.starts_with(b"/proc/") && !target.starts_with(b"/dev/") && !target.starts_with(b"/sys/")
}
