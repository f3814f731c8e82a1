//! An environment reference made into something to look at: which process, whose environment, seen from where.

mod layers;
mod narrow;

use schemars::JsonSchema;
use serde::Serialize;

use crate::agent::{self, AgentProcess, Fix};
use crate::env::reference::Reference;
use crate::host::environ::Environ;
use crate::host::files;
use crate::host::machine::rfc3339;
use crate::host::snapshot::Captured;
use crate::host::{Exe, Fact, Host, Pid, Stat, Unknown, View};
use crate::origin::unit::{self, Manager};
use crate::origin::{Birth, Carrier, birth};
use crate::redact;
use crate::report::{Exit, Problem};

pub use narrow::Narrow;

/// Something with an environment.
pub struct Subject {
    /// As the person named it.
    pub reference: Reference,
    /// As messages name it.
    pub label: String,
    /// The process, where there is one.
    pub stat: Option<Stat>,
    /// The agent it is, where it is one.
    pub agent: Option<AgentProcess>,
    /// Its environment.
    pub environ: Fact<Environ>,
    /// Where the environment was read, for evidence.
    pub source: String,
    /// From where it sees files and networks.
    pub view: View,
    /// Where it was born.
    pub birth: Birth,
    /// Read by running a command.
    pub ran: bool,
    /// The captured machine it is on, when that is not the one asked.
    pub elsewhere: Option<Box<Host>>,
    /// What a reader should know, such as which process `self` is.
    pub notes: Vec<String>,
}

/// A subject as JSON has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SubjectData {
    /// As it was named on the command line.
    pub reference: String,
    /// Process id; absent for a file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pid: Option<Pid>,
    /// When it started, RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_time: Option<String>,
    /// The same in clock ticks since boot.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_ticks: Option<u64>,
    /// The kernel's name of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub comm: Option<String>,
    /// The agent it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// Login name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Where its environment was read.
    pub source: String,
    /// Why its environment could not be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unreadable: Option<String>,
    /// Where it was born.
    pub birth: Birth,
}

static NO_ENVIRON: Environ = Environ { entries: Vec::new(), overwritten: false };

impl Subject {
    /// As JSON has it.
    pub fn data(&self, host: &Host) -> SubjectData {
        SubjectData {
            reference: self.reference.to_string(),
            pid: self.stat.as_ref().map(|stat| stat.pid),
            start_time: self.stat.as_ref().map(|stat| rfc3339(host.machine().started_ms(stat.start_ticks))),
            start_ticks: self.stat.as_ref().map(|stat| stat.start_ticks),
            comm: self.stat.as_ref().map(|stat| stat.comm.lossy().into_owned()),
            agent: self.agent.as_ref().map(|agent| agent.agent.clone()),
            user: self.stat.as_ref().and_then(|stat| host.user_name(stat.euid)),
            source: self.source.clone(),
            unreadable: self.environ.as_ref().err().map(ToString::to_string),
            birth: self.birth.clone(),
        }
    }

    /// Why a process has no environment at all, which is not an empty one.
    fn without_memory(&self) -> Option<&'static str> {
        let stat = self.stat.as_ref()?;
        let ended = stat.is_zombie().then_some("a zombie has no environment: it has ended and waits for its parent");
        ended.or_else(|| stat.kernel_thread.then_some("a thread of the kernel has no environment"))
    }

    /// Its environment, where what it was started with is known: a process that wrote over its block hides it, and one that has
    /// ended has none any more.
    ///
    /// # Errors
    /// Why it is not known.
    pub fn known(&self) -> Fact<&Environ> {
        if let (Ok(_), Some(why)) = (&self.environ, self.without_memory()) {
            return Err(Unknown::Io(why.to_owned()));
        }
        match &self.environ {
            Ok(environ) if environ.overwritten => Err(Unknown::Malformed("the process wrote over its environment block".to_owned())),
            other => other.as_ref().map_err(Clone::clone),
        }
    }

    /// Lines that repair it, where it is an agent's process.
    pub fn fix(&self, host: &Host, fix: &Fix<'_>) -> Vec<String> {
        let Some(process) = &self.agent else { return Vec::new() };
        match self.own_unit(host, &process.agent) {
            Some((unit, manager)) => {
                if let Some(line) = self.put_back_first(host, &unit) {
                    return vec![line];
                }
                let beside = agent::agent(&process.agent).beside(host, process, fix);
                beside.into_iter().chain(unit_fix(&unit, &manager, fix)).collect()
            }
            None => agent::agent(&process.agent).fix(host, process, fix),
        }
    }

    /// Lines to put before its repair so that variables do not come along again: `here` are those that this terminal
    /// has too, `all` includes what the daemon alone has.
    pub fn shed(&self, host: &Host, here: &[&str], all: &[&str]) -> Vec<String> {
        let own = self.agent.as_ref().and_then(|process| self.own_unit(host, &process.agent));
        match own {
            Some((unit, _)) if self.put_back_first(host, &unit).is_some() => Vec::new(),
            Some((unit, manager)) if !all.is_empty() => unit_fix(&unit, &manager, &Fix::Drop(all)).into_iter().take(1).collect(),
            None if !here.is_empty() => vec![format!("unset {}", here.join(" "))],
            _ => Vec::new(),
        }
    }

    /// What makes the processes of its unit start anew; where the program is gone, what has to be done before.
    pub fn restart_unit(&self, host: &Host, unit: &str, manager: &Manager) -> Vec<String> {
        self.put_back_first(host, unit).map_or_else(|| manager.restart(unit), |line| vec![line])
    }

    fn put_back_first(&self, host: &Host, unit: &str) -> Option<String> {
        let gone = agent::gone(host, self.agent.as_ref()?)?;
        Some(agent::note(format!(
            "put {gone} back first: it is gone, and {unit} would be ended and not start again. Then ask again: whoseenv doctor"
        )))
    }

    /// The service that was made for this agent, where it runs in one: its manager, not a terminal, starts it anew.
    /// A daemon that a terminal started may sit in the terminal's own service, so the name has to be the agent's.
    fn own_unit(&self, host: &Host, agent: &str) -> Option<(String, Manager)> {
        let home = self.environ.as_ref().ok().and_then(|environ| environ.filled("HOME"));
        unit::of_process(&host.process(self.stat.as_ref()?.pid), home)
            .filter(|(unit, _)| unit.ends_with(".service") && unit.contains(agent))
    }

    /// The carrier of its values; of none, where the environment could not be read.
    pub fn carrier<'h>(&'h self, host: &'h Host, connect: bool) -> Carrier<'h> {
        let environ = self.environ.as_ref().unwrap_or(&NO_ENVIRON);
        Carrier {
            host: self.elsewhere.as_deref().unwrap_or(host),
            process: self.stat.as_ref(),
            view: self.view,
            environ,
            born: environ,
            connect,
        }
    }

    /// The terminal that the tool was started from.
    pub fn terminal(host: &Host) -> Subject {
        let (stat, environ, notes) = match host.terminal() {
            Ok(terminal) => (Some(terminal.stat.clone()), terminal.environ.clone(), vec![format!("self is {}", terminal.described())]),
            Err(unknown) => (None, Err(unknown.clone()), vec![format!("self could not be found: {unknown}")]),
        };
        let source = match host.terminal() {
            Ok(terminal) if terminal.exported => "the tool's own environ".to_owned(),
            Ok(terminal) => format!("/proc/{}/environ", terminal.stat.pid),
            Err(_) => "no process".to_owned(),
        };
        let birth = match &stat {
            Some(stat) => birth::birth(host, &host.process(stat.pid), stat, environ.as_ref().ok()),
            None => Birth::default(),
        };
        let label = "this terminal".to_owned();
        Subject {
            reference: Reference::Terminal,
            label,
            stat,
            agent: None,
            environ,
            source,
            view: View::OURS,
            birth,
            ran: false,
            elsewhere: None,
            notes,
        }
    }

    /// A process.
    pub fn process(host: &Host, reference: Reference, stat: Stat, agent: Option<AgentProcess>) -> Subject {
        let process = host.process(stat.pid);
        let environ = process.environ();
        let view = process.view().unwrap_or_default();
        let birth = birth::birth(host, &process, &stat, environ.as_ref().ok());
        Subject {
            label: agent.as_ref().map_or_else(|| format!("{} (pid {})", stat.comm.lossy(), stat.pid), AgentProcess::subject),
            source: format!("/proc/{}/environ", stat.pid),
            reference,
            environ,
            view,
            birth,
            agent,
            stat: Some(stat),
            ran: false,
            elsewhere: None,
            notes: vec!["a process's environment is what it was started with: what it changed since does not show".to_owned()],
        }
    }

    fn of_text(reference: Reference, label: String, environ: Environ, ran: bool) -> Subject {
        let birth = birth::of_environ(&environ);
        Subject {
            source: label.clone(),
            reference,
            label,
            stat: None,
            agent: None,
            environ: Ok(environ),
            view: View::OURS,
            birth,
            ran,
            elsewhere: None,
            notes: Vec::new(),
        }
    }
}

/// What repairs a service: its manager hands out the environment.
fn unit_fix(unit: &str, manager: &Manager, fix: &Fix<'_>) -> Vec<String> {
    let mut lines = Vec::new();
    match (fix, manager) {
        (Fix::Carry(values), Manager::User { .. }) => {
            let names: Vec<&str> = values.iter().map(|(name, _)| *name).collect();
            lines.push(format!("systemctl --user import-environment {}", names.join(" ")));
        }
        (Fix::Carry(values), Manager::System) => {
            let words =
                values.iter().map(|(name, value)| format!("Environment={}", agent::quote(&[name.as_bytes(), b"=", value].concat())));
            lines.push(format!("systemctl edit {unit}, and under [Service]: {}", words.collect::<Vec<_>>().join(" ")));
        }
        (Fix::Drop(names), Manager::User { .. }) => lines.push(format!("systemctl --user unset-environment {}", names.join(" "))),
        (Fix::Drop(names), Manager::System) => {
            lines.push(format!("systemctl edit {unit}, and under [Service]: UnsetEnvironment={}", names.join(" ")));
        }
        (Fix::Restart, _) => {}
    }
    lines.extend(manager.restart(unit));
    lines
}

/// Makes a reference into something to look at.
///
/// # Errors
/// Not found (3), fits several (2), cannot be read as what it is (2, 74), or `narrow` names what is not there; see [`Narrow::check`].
pub fn resolve(host: &Host, reference: &Reference, narrow: &Narrow) -> Result<Subject, Problem> {
    narrow.check(host)?;
    match reference {
        Reference::Terminal => Ok(Subject::terminal(host)),
        Reference::Pid(pid) => of_pid(host, reference, *pid),
        Reference::Agent(name) => of_agent(host, reference, name, narrow),
        Reference::File(path) => of_file(reference, path),
        Reference::Snapshot { dir, pid } => {
            let captured = Captured::open(dir).map_err(|error| super::unusable(dir, &error))?;
            let there = Host::captured(captured);
            let see = || format!("See what it holds: whoseenv --from {} ps --all", agent::quote(dir.as_os_str().as_encoded_bytes()));
            let mut subject = of_pid(&there, reference, *pid).map_err(|problem| match problem.exit {
                Exit::NotFound => Problem::new(Exit::NotFound, format!("there is no process {pid} in {}", dir.display())).hint(see()),
                _ => problem,
            })?;
            subject.source = format!("{}, process {pid}", dir.display());
            subject.notes.push(format!("{} is as it was at {}", subject.label, there.machine().taken_at()));
            subject.elsewhere = Some(Box::new(there));
            Ok(subject)
        }
        Reference::Tmux(_) | Reference::SystemdUser | Reference::LoginShell => layers::of_command(host, reference),
    }
}

/// The same, for a command that looks at one environment.
///
/// # Errors
/// As [`resolve`], and where `narrow` does not fit what was named; see [`Narrow::fits`].
pub fn resolve_one(host: &Host, reference: &Reference, narrow: &Narrow) -> Result<Subject, Problem> {
    let subject = resolve(host, reference, narrow)?;
    narrow.fits(host, &[&subject])?;
    Ok(subject)
}

/// The same, for a command that looks at two.
///
/// # Errors
/// As [`resolve_one`].
pub fn resolve_two(host: &Host, a: &Reference, b: &Reference, narrow: &Narrow) -> Result<(Subject, Subject), Problem> {
    let (a, b) = (resolve(host, a, narrow)?, resolve(host, b, narrow)?);
    narrow.fits(host, &[&a, &b])?;
    Ok((a, b))
}

fn of_pid(host: &Host, reference: &Reference, pid: Pid) -> Result<Subject, Problem> {
    let stat = stat_of(host, pid)?;
    let agent = agent::discover(host).ok().and_then(|agents| agents.into_iter().find(|agent| agent.stat.pid == pid));
    Ok(Subject::process(host, reference.clone(), stat, agent))
}

/// A process that was named by its pid.
fn stat_of(host: &Host, pid: Pid) -> Result<Stat, Problem> {
    match host.process(pid).stat() {
        Ok(stat) => Ok(stat),
        Err(reason @ (Unknown::NotCaptured | Unknown::Altered | Unknown::Malformed(_)))
            if host.is_captured() && host.pids().is_ok_and(|pids| pids.contains(&pid)) =>
        {
            Err(Problem::new(Exit::Undetermined, format!("process {pid}: {reason}")).hint("Take a new snapshot, or use an untouched copy."))
        }
        Err(Unknown::NotPermitted) => {
            let hides = host.hiding().map(|hiding| format!(" (/proc is mounted with {})", hiding.option)).unwrap_or_default();
            Err(Problem::new(Exit::NotPermitted, format!("process {pid} is another user's and cannot be seen from this account{hides}"))
                .hint(format!("Ask as its user or as root: sudo whoseenv show {pid}")))
        }
        Err(reason) if !reason.is_absence() && !host.is_captured() => {
            Err(Problem::new(Exit::Io, format!("process {pid} could not be looked at: {reason}")))
        }
        Err(_) => Err(Problem::new(Exit::NotFound, format!("there is no process {pid}")).hint("See what runs: whoseenv ps --all")),
    }
}

fn of_agent(host: &Host, reference: &Reference, name: &str, narrow: &Narrow) -> Result<Subject, Problem> {
    let fits = |agent: &AgentProcess| agent.agent == name && narrow.admits(host, &agent.stat, name);
    let found: Vec<AgentProcess> = agent::discover(host).unwrap_or_default().into_iter().filter(fits).collect();
    let daemons: Vec<&AgentProcess> = found.iter().filter(|agent| agent.role == agent::Role::Daemon).collect();
    // A daemon is what the name of an agent means; without one, a client or child will do.
    let candidates = if daemons.is_empty() { found.iter().collect() } else { daemons };
    match candidates.as_slice() {
        [] if agent::Catalog::in_force().get(name).is_none() => {
            let message = format!("{name:?} is no environment reference and no agent that this version knows");
            Err(narrow::unknown_agent(name, message)
                .hint("One of: self, a pid, an agent, file:PATH, snapshot:DIR#PID, tmux:SESSION, systemd-user, login-shell"))
        }
        [] => Err(match super::hidden(host) {
            None => {
                Problem::new(Exit::NotFound, format!("no {name} process{} runs here", narrow.words())).hint("See what runs: whoseenv ps")
            }
            Some(hidden) => Problem::new(Exit::NotPermitted, format!("no {name} process of this account runs here; {hidden}"))
                .hint("Ask as its user or as root: sudo whoseenv ps"),
        }),
        [one] => Ok(Subject::process(host, reference.clone(), one.stat.clone(), Some((*one).clone()))),
        several => {
            let mut problem = Problem::new(
                Exit::Usage,
                format!("{name:?} fits {} processes; name one by its pid, or narrow with --user or --pid", several.len()),
            );
            for agent in several {
                let user = host.user_name(agent.stat.euid).unwrap_or_else(|| agent.stat.euid.to_string());
                let exe = agent.exe.as_ref().map(Exe::shown);
                let exe = exe.map(|path| String::from_utf8_lossy(redact::place(&path)).into_owned()).unwrap_or_default();
                problem = problem.hint(format!("{} ({}, {user}) {exe}", agent.stat.pid, agent.role.word()).trim_end());
            }
            Err(problem)
        }
    }
}

fn of_file(reference: &Reference, path: &std::path::Path) -> Result<Subject, Problem> {
    let shown = path.display();
    let bytes = files::read_named(path).map_err(|reason| {
        let problem = Problem::unread(&shown.to_string(), &reason);
        if problem.exit == Exit::Usage {
            problem.hint("Give a file of NAME=value entries, separated by NUL or by newlines.")
        } else {
            problem
        }
    })?;
    Ok(Subject::of_text(reference.clone(), shown.to_string(), Environ::parse_file(&bytes), false))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_is_repaired_through_its_manager() {
        let manager = Manager::User { uid: 1000, home: None };
        let carried: &[(&str, &[u8])] = &[("DISPLAY", b"localhost:11.0")];
        let lines = unit_fix("zeroclaw.service", &manager, &Fix::Carry(carried));
        assert_eq!(
            lines,
            ["systemctl --user import-environment DISPLAY", "systemctl --user daemon-reload", "systemctl --user restart zeroclaw.service"]
        );
    }
}
