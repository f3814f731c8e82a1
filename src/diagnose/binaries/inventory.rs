//! Every OpenCode and ZeroClaw program that is found on a machine. Programs are read, never run.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::older::Older;
use super::places::{Account, candidates, databases_of};
use super::{identity, shown};
use crate::agent::{self, AgentProcess, Role};
use crate::binary::identify::Identified;
use crate::binary::product::{OPENCODE, ZEROCLAW};
use crate::binary::read::Program;
use crate::host::{Fact, Host, Pid, Raw, Unknown, View};

/// A program that was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Binary {
    /// Where it is, links followed by whoever starts it.
    pub path: String,
    /// Where it was found: `running`, `path`, `npm`, `home`.
    pub found: Vec<String>,
    /// Processes that run it.
    pub pids: Vec<Pid>,
    /// Id of the product.
    pub product: String,
    /// Id of the generation, by its code.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub generation: Option<String>,
    /// The version that it carries.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version_string: Option<String>,
    /// How many changes of the database schema it knows.
    pub migrations: u64,
    /// The last of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_migration: Option<String>,
    /// The databases that it would open and that have changes it does not know.
    pub older_than: Vec<Older>,
    /// The databases that it would open, and of which it is not known whether it is older: paths.
    pub not_compared: Vec<String>,
}

/// A program with what it is.
#[derive(Clone, Debug)]
pub struct Known {
    /// The program.
    pub binary: Binary,
    /// What it is.
    pub identified: Identified,
    /// The databases that it opens when one of the accounts concerned starts it.
    pub databases: BTreeSet<String>,
}

/// Which of the programs a file is, by device and inode; none where it is no program of the table.
type Seen = BTreeMap<(u64, u64), Option<usize>>;

/// What was found, and what could not be looked at.
#[derive(Clone, Debug, Default)]
pub struct Inventory {
    /// The programs, by path.
    pub binaries: Vec<Known>,
    /// What could not be looked at, in words.
    pub notes: Vec<String>,
    /// The databases of the accounts concerned that may be there: paths.
    pub databases: Vec<Raw>,
}

/// Finds the programs: those that run, and those where this terminal and the daemons' users would start them from.
///
/// # Errors
/// When the processes of the machine cannot be listed; [`Unknown::NotCaptured`] on a snapshot, which holds no programs.
pub fn find(host: &Host) -> Fact<Inventory> {
    if host.is_captured() {
        return Err(Unknown::NotCaptured);
    }
    let mut inventory = Inventory::default();
    let mut seen = Seen::new();
    let agents: Vec<AgentProcess> = agent::discover(host)?;
    let ours = |process: &&AgentProcess| [OPENCODE, ZEROCLAW].contains(&process.agent.as_str());
    let runs = |process: &&AgentProcess| matches!(process.role, Role::Daemon | Role::Client) && process.is_certain();
    let running: Vec<&AgentProcess> = agents.iter().filter(ours).filter(runs).collect();
    let mut all = BTreeSet::new();
    for process in &running {
        let pid = process.stat.pid;
        let handle = host.process(pid);
        let path = process.exe.as_ref().map_or_else(|_| format!("/proc/{pid}/exe"), |exe| shown(&exe.shown()));
        let opened = host.open_program(pid).and_then(|file| Ok(Program::new(file)?));
        // Where its environment may not be read, nobody knows what it opens.
        let environ = handle.environ().ok();
        let account = environ.as_ref().map(|environ| Account { environ, view: handle.view().unwrap_or_default() });
        inventory.add(&mut seen, Place { path: &path, how: "running", pid: Some(pid), account: account.as_ref() }, opened);
        if let Some(account) = account {
            all.extend(databases_of(host, &account));
            inventory.below(host, &mut seen, &account);
        }
    }
    if let Some(environ) = host.terminal().ok().and_then(|terminal| terminal.environ.as_ref().ok()) {
        let account = Account { environ, view: View::OURS };
        all.extend(databases_of(host, &account));
        inventory.below(host, &mut seen, &account);
    }
    inventory.databases = all.into_iter().collect();
    inventory.binaries.sort_by(|a, b| a.binary.path.cmp(&b.binary.path));
    Ok(inventory)
}

/// Where a program was found.
struct Place<'p> {
    path: &'p str,
    how: &'p str,
    pid: Option<Pid>,
    /// Whose it is, where that is known.
    account: Option<&'p Account<'p>>,
}

impl Inventory {
    /// The programs that an account would start.
    fn below(&mut self, host: &Host, seen: &mut Seen, account: &Account<'_>) {
        for (path, how) in candidates(host, account) {
            let opened = host.open_file(account.view, &path).and_then(|file| Ok(Program::new(file)?));
            self.add(seen, Place { path: &shown(&path), how, pid: None, account: Some(account) }, opened);
        }
    }

    fn add(&mut self, seen: &mut Seen, place: Place<'_>, opened: Fact<Program>) {
        let Place { path, how, pid, account } = place;
        let program = match opened {
            Ok(program) => program,
            Err(Unknown::NotPermitted | Unknown::Deadline) => {
                let note = format!("{path} may not be read from this account: what it is, is not known");
                if !self.notes.contains(&note) {
                    self.notes.push(note);
                }
                return;
            }
            Err(_) => return,
        };
        let Ok(key) = program.inode() else { return };
        let index = *seen.entry(key).or_insert_with(|| match identity::of(&program, path) {
            Ok(identified @ Identified { product: Some(_), .. }) => {
                self.notes.extend(identified.doubt.as_ref().map(|doubt| format!("{path}: {doubt}")));
                self.binaries.push(Known { binary: row(path, &identified), identified, databases: BTreeSet::new() });
                Some(self.binaries.len() - 1)
            }
            Ok(_) => None,
            Err(problem) => {
                self.notes.push(problem.message);
                None
            }
        });
        if let Some(known) = index.and_then(|index| self.binaries.get_mut(index)) {
            known.binary.pids.extend(pid);
            let opens = account.and_then(|account| account.opens(&known.identified));
            known.databases.extend(opens.map(|path| shown(path.as_bytes())));
            if !known.binary.found.iter().any(|known| known == how) {
                known.binary.found.push(how.to_owned());
            }
        }
    }
}

/// A program as it is told, before anybody knows where it was found.
pub(super) fn row(path: &str, identified: &Identified) -> Binary {
    Binary {
        path: path.to_owned(),
        found: Vec::new(),
        pids: Vec::new(),
        product: identified.product.clone().unwrap_or_default(),
        generation: identified.generation.clone(),
        version_string: identified.version_string.clone(),
        migrations: identified.migrations.len() as u64,
        last_migration: identified.migrations.last().cloned(),
        older_than: Vec::new(),
        not_compared: Vec::new(),
    }
}
