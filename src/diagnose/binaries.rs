//! What a program file contains: which file is meant, and one report a question.

pub mod comparison;
pub mod identity;
pub mod inventory;
mod npm;
pub mod older;
pub mod operations;
mod places;
pub mod strings;

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use schemars::JsonSchema;
use serde::Serialize;

use crate::agent::{self, AgentProcess, Role};
use crate::binary::read::{Program, ReadAt};
use crate::host::{Exe, Fact, Host, Pid, Unknown, programs};
use crate::report::{Exit, Problem, Report};

use super::subject::Narrow;

/// Which program file a person means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// `-`
    Stdin,
    /// `pid:N`: what a process runs.
    Process(Pid),
    /// The name of an agent: what it runs.
    Agent(String),
    /// `pid:` with no number behind it.
    NoProcess(String),
    /// A path.
    File(OsString),
}

impl Target {
    /// What a word on the command line means. A word that is an agent's name and has no `/` is the agent; `./NAME` is a file.
    pub fn parse(word: &OsStr) -> Target {
        let text = word.to_str();
        match text {
            Some("-") => Target::Stdin,
            Some(path) if path.contains('/') => Target::File(word.to_owned()),
            Some(name) if agent::Catalog::in_force().get(name).is_some() => Target::Agent(name.to_owned()),
            _ => match text.and_then(|text| text.strip_prefix("pid:")).map(str::parse) {
                Some(Ok(pid)) => Target::Process(pid),
                Some(Err(_)) => Target::NoProcess(text.unwrap_or_default().to_owned()),
                None => Target::File(word.to_owned()),
            },
        }
    }
}

/// A program file that is open.
pub struct Opened {
    /// The file.
    pub program: Program,
    /// As messages name it.
    pub label: String,
    /// The process that runs it, where it was named by one.
    pub pid: Option<Pid>,
    /// Its path, where it has one.
    pub path: Option<String>,
    /// The process runs it, and its name was removed or given to another file.
    pub deleted: bool,
}

/// A program file, as JSON has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct FileData {
    /// Where it is; `-` for standard input.
    pub path: String,
    /// Its length.
    pub bytes: u64,
    /// The process that runs it, where it was named by one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pid: Option<Pid>,
    /// The process runs it, and its name was removed or given to another file.
    pub deleted: bool,
}

impl Opened {
    fn new(file: File, label: String, path: Option<String>) -> Result<Opened, Problem> {
        let program = Program::new(file).map_err(|error| unreadable(&label, &error))?;
        Ok(Opened { program, label, pid: None, path, deleted: false })
    }

    /// As JSON has it.
    pub fn data(&self) -> FileData {
        FileData {
            path: self.path.clone().unwrap_or_else(|| "-".to_owned()),
            bytes: self.program.length(),
            pid: self.pid,
            deleted: self.deleted,
        }
    }

    /// Notes in the report what happened to the file while it was read: then nothing that was found is certain.
    pub fn finish<T>(&self, report: &mut Report<T>) {
        match self.program.changed() {
            Ok(None) => {}
            Ok(Some(what)) => {
                report.undetermined = true;
                report.notes.push(format!("{} changed while it was read ({what}): what was found is of no one state of it", self.label));
            }
            Err(error) => report.notes.push(format!("{}: whether it changed while it was read is not known: {error}", self.label)),
        }
    }
}

/// Why a program could not be read to the end.
pub fn unreadable(label: &str, error: &std::io::Error) -> Problem {
    Problem::new(Exit::Io, format!("{label}: {error}"))
}

/// Opens the program file that is meant.
///
/// # Errors
/// Not found (3), fits several (2), no regular file (2), may not be read (4).
pub fn open(host: &Host, target: &Target, narrow: &Narrow) -> Result<Opened, Problem> {
    if host.is_captured() {
        return Err(Problem::new(Exit::Undetermined, "a snapshot holds no programs: what a file contains cannot be asked of it")
            .hint("Ask the machine itself, or a copy of the file, without --from.")
            .hint("What was known of the captured agents' programs: whoseenv --from DIR ps"));
    }
    narrow.check(host)?;
    match target {
        Target::Stdin | Target::File(_) if !narrow.is_empty() => Err(narrow.narrows_nothing("a file")),
        Target::Stdin => Opened::new(opened("standard input", programs::open_stdin())?, "standard input".to_owned(), None),
        Target::File(path) => {
            let path = Path::new(path);
            let shown = path.display().to_string();
            Opened::new(opened(&shown, programs::open_named(path))?, shown.clone(), Some(shown))
        }
        Target::NoProcess(word) => Err(Problem::new(Exit::Usage, format!("{word}: no number of a process"))
            .hint(format!("Name it as in pid:1234; a file of that name is ./{word}"))),
        Target::Process(pid) => {
            if !narrow.is_empty()
                && let Ok(stat) = host.process(*pid).stat()
            {
                let agents = agent::discover(host).unwrap_or_default();
                let known = agents.iter().find(|process| process.stat.pid == *pid).map(|process| process.agent.as_str());
                narrow.is_of(host, &stat, known)?;
            }
            of_process(host, *pid, None)
        }
        Target::Agent(name) => of_agent(host, name, narrow),
    }
}

fn opened(label: &str, file: Fact<File>) -> Result<File, Problem> {
    file.map_err(|reason| {
        let problem = Problem::unread(label, &reason);
        match problem.exit {
            Exit::Usage => problem.hint("Name a file, pid:N or an agent; what comes through a pipe is read from -"),
            Exit::NotFound => problem.hint("Name a file, pid:N or an agent that runs: whoseenv ps"),
            _ => problem,
        }
    })
}

fn of_process(host: &Host, pid: Pid, agent: Option<&str>) -> Result<Opened, Problem> {
    let process = host.process(pid);
    let exe = match process.exe() {
        Ok(exe) => exe,
        Err(Unknown::NotPermitted) if host.machine().uid == 0 => {
            let message = format!("process {pid}: its program may not be looked at; this root is without CAP_SYS_PTRACE, which that takes");
            return Err(
                Problem::new(Exit::NotPermitted, message).hint("Ask from outside of the container, or start it with that capability.")
            );
        }
        Err(Unknown::NotPermitted) => {
            return Err(Problem::new(Exit::NotPermitted, format!("process {pid} is another user's: its program may not be looked at"))
                .hint("Ask as its user or as root."));
        }
        Err(Unknown::Absent) => return Err(Problem::new(Exit::NotFound, format!("process {pid} runs no program file"))),
        Err(Unknown::Gone) => {
            return Err(Problem::new(Exit::NotFound, format!("there is no process {pid}")).hint("See what runs: whoseenv ps --all"));
        }
        Err(reason) => return Err(Problem::new(Exit::Io, format!("process {pid}: {reason}"))),
    };
    let path = String::from_utf8_lossy(exe.path.as_bytes()).into_owned();
    let label = match agent {
        Some(agent) => format!("{path} ({agent}, pid {pid})"),
        None => format!("{path} (pid {pid})"),
    };
    let mut found = Opened::new(opened(&label, host.open_program(pid))?, label.clone(), Some(path))?;
    (found.pid, found.deleted) = (Some(pid), exe.deleted);
    Ok(found)
}

fn of_agent(host: &Host, name: &str, narrow: &Narrow) -> Result<Opened, Problem> {
    let fits = |process: &AgentProcess| {
        process.agent == name && matches!(process.role, Role::Daemon | Role::Client) && narrow.admits(host, &process.stat, name)
    };
    let found: Vec<AgentProcess> = agent::discover(host).unwrap_or_default().into_iter().filter(fits).collect();
    let daemons: Vec<&AgentProcess> = found.iter().filter(|process| process.role == Role::Daemon).collect();
    let mut candidates: Vec<&AgentProcess> = if daemons.is_empty() { found.iter().collect() } else { daemons };
    // Several processes of one file are one answer.
    let mut keys = Vec::new();
    candidates.retain(|process| match host.process(process.stat.pid).program_key() {
        Ok(key) if keys.contains(&key) => false,
        Ok(key) => {
            keys.push(key);
            true
        }
        Err(_) => true,
    });
    match candidates.as_slice() {
        [] => Err(match super::hidden(host) {
            None => Problem::new(Exit::NotFound, format!("no {name} process{} runs here", narrow.words()))
                .hint(format!("A file of that name: ./{name}. Every binary found here: whoseenv doctor --binaries")),
            Some(hidden) => Problem::new(Exit::NotPermitted, format!("no {name} process of this account runs here; {hidden}")),
        }),
        [one] => of_process(host, one.stat.pid, Some(name)),
        several => {
            let message = format!("{name:?} runs from {} program files; name one by pid:N, or narrow with --user or --pid", several.len());
            Err(several.iter().fold(Problem::new(Exit::Usage, message), |problem, process| {
                let user = host.user_name(process.stat.euid).unwrap_or_else(|| process.stat.euid.to_string());
                let exe = process.exe.as_ref().map(Exe::shown).map(|path| String::from_utf8_lossy(&path).into_owned()).unwrap_or_default();
                problem.hint(format!("pid:{} ({}, {user}) {exe}", process.stat.pid, process.role.word()))
            }))
        }
    }
}

/// Bytes of a path as JSON and messages have them.
fn shown(path: &[u8]) -> String {
    OsStr::from_bytes(path).display().to_string()
}
