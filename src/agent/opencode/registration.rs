//! A registration file against the process it names: pid, start, version, address and program, side by side.

use std::collections::HashSet;

use super::service_file::{Registered, Roots, endpoint, parse_registered, service_files};
use super::{AgentProcess, ID, remedy};
use crate::agent::relaunch::{self, Own};
use crate::agent::{Role, quote};
use crate::host::files::{Document, FileKind};
use crate::host::{Fact, Host, Pid, Raw, Unknown, View};
use crate::verdict::registry::{self, Kind};
use crate::verdict::{Evidence, Finding, How, Outcome};

/// Clock tolerance between a file's time and a process's start.
const TOLERANCE_MS: i64 = 2_000;

/// A registration file, and what became of what it says.
#[derive(Clone, Debug, PartialEq)]
pub struct Registration {
    /// Where it is.
    pub path: Raw,
    /// Whose it should be, and from where it is seen.
    pub roots: Roots,
    /// What stands there and what it says.
    pub document: Fact<Document<Registered>>,
    /// The process that it names.
    pub pid: PidFact,
    /// The version that the running program carries.
    pub program_version: Option<String>,
    /// Whether the program file was removed or replaced since.
    pub deleted_exe: Option<bool>,
    /// Who listens at the address that it names.
    pub listener: ListenerFact,
    /// The program that starts such a service: the one it names, else another that runs here in that version.
    pub program: Option<Raw>,
    /// What makes a command reach this service, and no other of the same user.
    pub(super) own: Own,
}

/// The process that a registration names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PidFact {
    /// It is an OpenCode, started before the file was written.
    Agent,
    /// It has ended.
    Gone,
    /// It is another program.
    Other {
        /// The kernel's name of it.
        comm: String,
    },
    /// It is another account's, which cannot be this one's service.
    Foreign {
        /// Whose.
        uid: u32,
    },
    /// It is an OpenCode that was started only after the file was written: the pid was given anew.
    Later,
    /// It could not be looked at, or the file names none.
    Unknown(Unknown),
}

/// Who listens at the address that a registration names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListenerFact {
    /// The process that the file names.
    Named,
    /// Nobody.
    Nobody,
    /// Another process, of this user.
    Another {
        /// Owner of the socket.
        uid: u32,
    },
    /// It could not be found out.
    Unknown(Unknown),
}

/// Every registration file of the user at this terminal and of the OpenCode processes found.
pub fn registrations(host: &Host, processes: &[AgentProcess]) -> Vec<Registration> {
    let mut seen = HashSet::new();
    let mut found = Vec::new();
    for roots in roots(host, processes) {
        // A directory that is not there, or may not be listed, has no registration to speak of: whether the daemon
        // itself may be looked into is told with the daemon.
        for path in service_files(host, roots.view, &roots.state).unwrap_or_default() {
            if seen.insert(place(host, &roots, &path)) {
                found.push(Registration::read(host, processes, &roots, path));
            }
        }
    }
    found
}

/// Where a file is, whichever way leads there: another mount namespace, or a link to its directory.
fn place(host: &Host, roots: &Roots, path: &Raw) -> (Option<(u64, u64)>, Option<Pid>, Raw) {
    let bytes = path.as_bytes();
    let name = memchr::memrchr(b'/', bytes).map_or(0, |slash| slash + 1);
    match host.path(roots.view, &bytes[..name]) {
        Ok(directory) => (Some(directory.inode), None, Raw::from(&bytes[name..])),
        Err(_) => (None, roots.view.mount, path.clone()),
    }
}

fn roots(host: &Host, processes: &[AgentProcess]) -> Vec<Roots> {
    let daemons = processes.iter().filter(|process| process.agent == ID && process.role != Role::Tool && process.parent.is_none());
    // A daemon's own account comes first: whose file it should be is not for the one who asks to say.
    daemons.filter_map(|process| roots_of(host, process)).chain(asker(host)).collect()
}

/// Where the user at this terminal would keep them. With somebody else's HOME (`sudo -E`, `su -m`) they are somebody else's.
fn asker(host: &Host) -> Option<Roots> {
    let terminal = host.terminal().ok()?;
    let mut roots = Roots::of(terminal.environ.as_ref().ok()?, terminal.stat.euid, View::OURS)?;
    if let Ok(directory) = host.path(roots.view, roots.state.as_bytes())
        && directory.uid != 0
    {
        roots.uid = directory.uid;
    }
    Some(roots)
}

/// The directories in which a process keeps its files.
pub(super) fn roots_of(host: &Host, process: &AgentProcess) -> Option<Roots> {
    let handle = host.process(process.stat.pid);
    Roots::of(&handle.environ().ok()?, process.stat.euid, handle.view().ok()?)
}

impl Registration {
    fn read(host: &Host, processes: &[AgentProcess], roots: &Roots, path: Raw) -> Registration {
        let document = host.document(roots.view, path.as_bytes(), parse_registered);
        let mut registration = Registration {
            path,
            roots: roots.clone(),
            document,
            pid: PidFact::Unknown(Unknown::Absent),
            program_version: None,
            deleted_exe: None,
            listener: ListenerFact::Unknown(Unknown::Absent),
            program: None,
            own: Own::default(),
        };
        if let Some(registered) = registration.registered().cloned() {
            let process =
                processes.iter().find(|process| process.stat.pid == registered.pid && process.agent == ID && process.parent.is_none());
            registration.pid = registration.pid_fact(host, registered.pid, process);
            registration.listener = registration.listener_fact(host, &registered);
            registration.program_version = process.and_then(|process| process.product_version.clone());
            let here = |other: &&AgentProcess| other.agent == ID && roots_of(host, other).as_ref() == Some(roots);
            let keeper = process.or_else(|| processes.iter().find(here));
            registration.own = keeper.map(|process| relaunch::own(host, process, "OPENCODE_")).unwrap_or_default();
            let version = registered.version.as_ref();
            let alike =
                || processes.iter().find(|other| other.agent == ID && version.is_some() && other.product_version.as_ref() == version);
            registration.program = process.into_iter().chain(alike()).find_map(|process| {
                let exe = process.exe.as_ref().ok()?;
                (!exe.deleted || host.path(roots.view, exe.path.as_bytes()).is_ok()).then(|| exe.path.clone())
            });
            registration.deleted_exe = process.and_then(|process| process.exe.as_ref().ok()).map(|exe| exe.deleted);
        }
        registration
    }

    /// What it says, if it is a file of the right user that can be understood. What another user wrote there says nothing about a daemon.
    pub fn registered(&self) -> Option<&Registered> {
        let document = self.document.as_ref().ok().filter(|document| document.stat.uid == self.roots.uid)?;
        document.content.as_ref().ok()
    }

    fn pid_fact(&self, host: &Host, pid: u32, process: Option<&AgentProcess>) -> PidFact {
        let stat = match host.process(pid).stat() {
            Ok(stat) if stat.is_zombie() => return PidFact::Gone,
            Ok(stat) => stat,
            // With hidepid a stranger's process looks as if it were not there, and so does pid 1.
            Err(unknown) if unknown.is_absence() && (host.machine().uid == self.roots.uid || host.process(1).stat().is_ok()) => {
                return PidFact::Gone;
            }
            Err(unknown) if unknown.is_absence() => return PidFact::Unknown(Unknown::NotPermitted),
            Err(unknown) => return PidFact::Unknown(unknown),
        };
        if stat.euid != self.roots.uid {
            return PidFact::Foreign { uid: stat.euid };
        }
        let written = self.document.as_ref().map_or(i64::MAX, |document| document.stat.modified_ms);
        match process {
            None if host.process(pid).exe().is_err() => PidFact::Unknown(Unknown::NotPermitted),
            None => PidFact::Other { comm: stat.comm.lossy().into_owned() },
            Some(_) if host.machine().started_ms(stat.start_ticks) > written.saturating_add(TOLERANCE_MS) => PidFact::Later,
            Some(_) => PidFact::Agent,
        }
    }

    fn listener_fact(&self, host: &Host, registered: &Registered) -> ListenerFact {
        let Some((ip, port)) = endpoint(&registered.url) else {
            return ListenerFact::Unknown(Unknown::Malformed("the url names no address of this machine".to_owned()));
        };
        let process = host.process(registered.pid);
        let view = process.view().unwrap_or(self.roots.view);
        let net = host.net(view);
        match net.listener(ip, port) {
            Err(unknown) => ListenerFact::Unknown(unknown),
            Ok(None) => ListenerFact::Nobody,
            // The service could listen as its own account alone.
            Ok(Some(row)) if matches!(self.pid, PidFact::Foreign { .. }) && row.uid != self.roots.uid => {
                ListenerFact::Another { uid: row.uid }
            }
            Ok(Some(row)) => match process.fds() {
                Ok(fds) if fds.iter().any(|fd| fd.socket_inode() == Some(row.inode)) => ListenerFact::Named,
                Ok(_) => ListenerFact::Another { uid: row.uid },
                Err(unknown) if unknown.is_absence() && self.pid == PidFact::Gone => ListenerFact::Another { uid: row.uid },
                Err(unknown) => ListenerFact::Unknown(unknown),
            },
        }
    }

    /// What is wrong with the file, and between it and the process.
    pub fn findings(&self, host: &Host) -> Vec<Finding> {
        let mut findings = self.file_findings(host);
        let Some(registered) = self.registered() else { return findings };
        let pid = registered.pid;
        let stands = format!("the registration file says pid {pid}, {}", registered.url);
        let named = match &self.pid {
            PidFact::Agent => None,
            PidFact::Gone => Some((Outcome::Confirmed, format!("{stands}; that process has ended"))),
            PidFact::Other { comm } => Some((Outcome::Confirmed, format!("{stands}; that process is {comm}, not OpenCode"))),
            PidFact::Foreign { uid } => {
                let user = |uid| host.user_name(uid).unwrap_or_else(|| format!("uid {uid}"));
                let (whose, own) = (user(*uid), user(self.roots.uid));
                Some((Outcome::Confirmed, format!("{stands}; that process is {whose}'s, and the file is {own}'s")))
            }
            PidFact::Later => Some((Outcome::Confirmed, format!("{stands}; that OpenCode was started after the file was written"))),
            PidFact::Unknown(unknown) => Some((Outcome::Undetermined, format!("{stands}; whether that process is OpenCode: {unknown}"))),
        };
        if let Some((outcome, message)) = named {
            findings.push(
                self.finding(host, &registry::REGISTRATION_PID, outcome, message, &format!("pid {pid}"))
                    .fix(remedy::of_registration(host, self, registered)),
            );
        }
        let listens = match &self.listener {
            ListenerFact::Named => None,
            // Said already: nobody can be reached when the process is gone.
            ListenerFact::Nobody if self.pid == PidFact::Gone => None,
            ListenerFact::Another { uid } if self.pid == (PidFact::Foreign { uid: *uid }) => None,
            ListenerFact::Nobody => Some((Outcome::Confirmed, format!("{stands}; nothing listens there"))),
            ListenerFact::Another { uid } => {
                let user = host.user_name(*uid).unwrap_or_else(|| format!("uid {uid}"));
                Some((Outcome::Confirmed, format!("{stands}; another process ({user}'s) listens there")))
            }
            ListenerFact::Unknown(unknown) => Some((Outcome::Undetermined, format!("{stands}; who listens there: {unknown}"))),
        };
        if let Some((outcome, message)) = listens {
            let finding = self.finding(host, &registry::REGISTRATION_LISTENER, outcome, message, &registered.url);
            findings.push(finding.fix(remedy::of_registration(host, self, registered)));
        }
        if let (Some(file), Some(program)) = (&registered.version, &self.program_version)
            && file != program
            && matches!(self.pid, PidFact::Agent | PidFact::Later)
        {
            let message = format!("the registration file says version {file}, the running program is {program}");
            findings.push(
                self.finding(host, &registry::REGISTRATION_VERSION, Outcome::Confirmed, message, file)
                    .fix(remedy::of_registration(host, self, registered)),
            );
        }
        findings
    }

    fn file_findings(&self, host: &Host) -> Vec<Finding> {
        let document = match &self.document {
            Ok(document) => document,
            // Removed between the listing and the look: the service was stopped.
            Err(unknown) if unknown.is_absence() => return Vec::new(),
            Err(unknown) => {
                let message = format!("the registration file could not be read: {unknown}");
                return vec![self.finding(host, &registry::REGISTRATION_UNREADABLE, Outcome::Undetermined, message, "unreadable")];
            }
        };
        let mut findings = Vec::new();
        let mut unusable = |message: String| {
            findings.push(self.finding(host, &registry::REGISTRATION_UNREADABLE, Outcome::Confirmed, message.clone(), &message));
        };
        let stat = &document.stat;
        if stat.uid != self.roots.uid {
            let user = |uid| host.user_name(uid).unwrap_or_else(|| format!("uid {uid}"));
            unusable(format!("the registration file belongs to {}, not to {}", user(stat.uid), user(self.roots.uid)));
        }
        if let Some(target) = &stat.link {
            unusable(format!("the registration file is a symbolic link to {}", target.lossy()));
        }
        if let Err(why) = &document.content {
            unusable(format!("the registration file cannot be used: {why}"));
        }
        let has_password = document.content.as_ref().map_or(true, |registered| registered.has_password);
        if stat.kind == FileKind::File && stat.mode & 0o077 != 0 && has_password {
            let message = format!("the registration file has mode {:04o}: others can read the service's password", stat.mode);
            let fix = format!("chmod 600 {}", quote(self.path.as_bytes()));
            findings.push(
                self.finding(host, &registry::REGISTRATION_EXPOSED, Outcome::Confirmed, message, &format!("mode {:04o}", stat.mode))
                    .fix([fix]),
            );
        }
        findings
    }

    fn finding(&self, host: &Host, kind: &Kind, outcome: Outcome, message: String, detail: &str) -> Finding {
        let path = self.path.lossy().into_owned();
        let evidence = Evidence { source: path.clone(), how: How::Passive, at: host.machine().taken_at(), detail: detail.to_owned() };
        Finding::new(kind, outcome, path, message).evidence([evidence])
    }
}

#[cfg(test)]
mod tests;
