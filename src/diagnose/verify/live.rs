//! Which running daemon stands beside the program that is verified.

use std::path::Path;

use super::Agent;
use crate::agent::{Role, discover};
use crate::diagnose::subject::{Narrow, Subject, resolve};
use crate::env::reference::Reference;
use crate::host::Host;
use crate::host::files::stat_named;
use crate::report::{Exit, Problem};

/// The daemon of the first line.
pub struct Live {
    /// It; none where there is none, or several.
    pub subject: Option<Box<Subject>>,
    /// Why there is none.
    pub why: String,
    /// It was named by its number: what cannot be seen of it was asked for.
    pub pinned: bool,
}

impl Live {
    /// The only daemon of the agent that passes.
    ///
    /// # Errors
    /// When several do.
    pub fn named(host: &Host, agent: Agent, narrow: &Narrow) -> Result<Live, Problem> {
        match resolve(host, &Reference::Agent(agent.id().to_owned()), narrow) {
            Ok(subject) => Ok(Live { subject: Some(Box::new(subject)), why: String::new(), pinned: narrow.pid.is_some() }),
            // A process that was named by its number is not there, or is none of it.
            Err(problem) if problem.exit == Exit::NotFound && narrow.pid.is_some() => {
                let pid = narrow.pid.unwrap_or_default();
                let message = match host.process(pid).stat() {
                    Ok(_) => format!("process {pid} is no {} daemon", agent.id()),
                    Err(_) => problem.message,
                };
                Err(Problem::new(Exit::NotFound, message).hint("See what runs: whoseenv ps"))
            }
            Err(problem) if problem.exit == Exit::NotFound => {
                Ok(Live { subject: None, why: "no daemon of it runs here".to_owned(), pinned: false })
            }
            Err(problem) => Err(problem),
        }
    }

    /// The daemon of the asker's account that runs this very file: other people's daemons, and other programs', are not meant.
    ///
    /// # Errors
    /// When the processes cannot be listed.
    pub fn of_file(host: &Host, agent: Agent, program: &Path) -> Result<Live, Problem> {
        let processes = discover(host).map_err(|reason| Problem::new(Exit::Io, format!("the list of processes: {reason}")))?;
        let uid = host.terminal().map_or(host.machine().uid, |terminal| terminal.stat.euid);
        let own = processes.into_iter().filter(|it| it.agent == agent.id() && it.role == Role::Daemon && it.stat.euid == uid);
        let own: Vec<_> = own.collect();
        let of_file = |pid: u32| one_file(Path::new(&format!("/proc/{pid}/exe")), program);
        let (mut same, other): (Vec<_>, Vec<_>) = own.into_iter().partition(|process| of_file(process.stat.pid));
        let pids: Vec<String> = same.iter().map(|process| process.stat.pid.to_string()).collect();
        Ok(match (same.len(), other.len()) {
            (1, _) => {
                let process = same.remove(0);
                let (pid, stat) = (process.stat.pid, process.stat.clone());
                let subject = Subject::process(host, Reference::Pid(pid), stat, Some(process));
                Live { subject: Some(Box::new(subject)), why: String::new(), pinned: false }
            }
            (0, 0) => Live { subject: None, why: "no daemon of it runs here".to_owned(), pinned: false },
            (0, others) => {
                let others = if others == 1 { "a daemon of yours runs".to_owned() } else { format!("{others} daemons of yours run") };
                Live { subject: None, why: format!("{others} another program than this file (--pid names one)"), pinned: false }
            }
            _ => Live {
                subject: None,
                why: format!("several daemons of yours run this file, pids {}: --pid names one", pids.join(", ")),
                pinned: false,
            },
        })
    }
}

/// Whether two paths are one file.
pub fn one_file(a: &Path, b: &Path) -> bool {
    matches!((stat_named(a), stat_named(b)), (Ok(a), Ok(b)) if a.inode == b.inode)
}
