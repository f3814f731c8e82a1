//! One process: is it an agent's, and in which mode.
//!
//! The file that a process runs is looked into once a file, not once a process, and only where it is large: the ELF
//! header, the section table, the last 4 KB, the first 512 KB of constants. What is learned is a fact of the process (`identity`), so a
//! snapshot, which holds no programs, has the same answer.

use std::cell::OnceCell;
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use serde::{Deserialize, Serialize};

use super::catalog::{Catalog, Subject};
use super::{Generation, KnownBy, Listener, Mode, Role, opencode, zeroclaw};
use crate::binary::bun;
use crate::binary::elf::sections;
use crate::binary::product::{self, Product};
use crate::binary::read::{Program, ReadAt};
use crate::host::{Exe, Fact, Host, Pid, Proc, ProgramKey, Raw, Stat, Unknown, View};
use crate::redact;

/// What a process is by its program and arguments.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// Id of the agent in the catalogue.
    pub agent: String,
    /// What it is to the agent.
    pub role: Role,
    /// How it was started.
    pub mode: Option<Mode>,
    /// The product's version, as the program carries it.
    pub version: Option<String>,
    /// What made it known.
    pub known_by: KnownBy,
}

/// What was found out by looking at one process alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Look {
    /// What it is; nothing where it is no agent's by its own program. Unknown where its program could not be
    /// looked into and its name is no agent's either.
    pub identity: Fact<Option<Identity>>,
    /// Where it serves others, if its role depends on that. The kernel takes milliseconds to list its TCP sockets,
    /// which a list of processes need not spend on a daemon that says what it is.
    pub listeners: Option<Fact<Vec<Listener>>>,
}

impl Look {
    /// Of a process that is no agent's.
    pub const NOTHING: Look = Look { identity: Ok(None), listeners: None };
}

/// The markers of one agent in an environment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mark {
    /// Id of the agent in the catalogue.
    pub agent: String,
    /// The session, where a marker names it.
    pub session: Option<String>,
    /// The agent's process, where a marker names it.
    pub daemon: Option<Pid>,
}

#[derive(Debug)]
enum Kind {
    Agent(Product),
    /// It could be ZeroClaw, and was not seen to be.
    Unknown,
    Other,
}

/// Smaller programs are not looked into: Bun alone has 90 MB, and most programs of a system have less than this.
const LARGE: u64 = 4 << 20;

/// What is found out once a program file.
type Once<T> = Mutex<HashMap<ProgramKey, Arc<OnceLock<Fact<T>>>>>;

/// Recognises the processes of one machine. Shared between threads; keeps what it learned of program files.
pub struct Recogniser<'h> {
    host: &'h Host,
    catalog: Catalog,
    programs: Once<Kind>,
    generations: Once<Option<Generation>>,
    /// Inodes of the listeners named `daemon.sock`, which a renamed ZeroClaw owns.
    sockets: OnceLock<HashSet<u64>>,
}

impl<'h> Recogniser<'h> {
    /// With the catalogue in force.
    pub fn new(host: &'h Host) -> Recogniser<'h> {
        Recogniser::with_catalog(host, Catalog::in_force().clone())
    }

    /// With another catalogue, such as [`Catalog::merged`] with the user's.
    pub fn with_catalog(host: &'h Host, catalog: Catalog) -> Recogniser<'h> {
        Recogniser { host, catalog, programs: Mutex::default(), generations: Mutex::default(), sockets: OnceLock::new() }
    }

    /// The catalogue in use.
    pub fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    pub(super) fn host(&self) -> &'h Host {
        self.host
    }

    /// Looks at one process. Cheap where it is no agent's: one `stat` of the program file.
    pub fn look(&self, process: &Proc<'_>, stat: &Stat, exe: &Fact<Exe>) -> Look {
        // A zombie runs nothing; a kernel thread never did.
        if stat.kernel_thread || stat.is_zombie() {
            return Look::NOTHING;
        }
        let identity = match process.fact("identity", || self.identify(process, stat, exe)) {
            Err(Unknown::Absent | Unknown::Gone) => return Look::NOTHING,
            Err(unknown) => match self.by_name(process, stat, &unknown) {
                None => return Look { identity: Err(unknown), ..Look::NOTHING },
                Some(identity) => identity,
            },
            Ok(None) => return Look::NOTHING,
            Ok(Some(identity)) => identity,
        };
        // What the catalogue says holds; a program that may serve from any mode is asked whether it does.
        let depends = identity.role == Role::Client && identity.known_by != KnownBy::Signature;
        let listeners = depends.then(|| self.listeners(process));
        let listens = matches!(&listeners, Some(Ok(listeners)) if !listeners.is_empty());
        let role = match identity.mode {
            Some(mode) if depends => role_of(&identity.agent, mode, listens),
            _ => identity.role,
        };
        Look { identity: Ok(Some(Identity { role, ..identity })), listeners }
    }

    fn identify(&self, process: &Proc<'_>, stat: &Stat, exe: &Fact<Exe>) -> Fact<Option<Identity>> {
        let exe = exe.as_ref().map_err(Clone::clone)?;
        let facts = self.by_program(process, process.program_key()?)?;
        if let Some((facts, known_by)) = facts {
            let argv = argv(process);
            let mode = mode(facts.id, facts.client, &argv);
            let (agent, version) = (facts.id.to_owned(), facts.version);
            // The listener decides later, from facts that a snapshot has.
            let role = role_of(&agent, mode, false);
            return Ok(Some(Identity { agent, role, mode: Some(mode), version, known_by }));
        }
        let subject = Seen { process, host: self.host, stat, exe, argv: OnceCell::new(), script: OnceCell::new(), link: OnceCell::new() };
        Ok(self.catalog.fit(&subject).map(|fits| Identity {
            agent: fits.agent.id.clone(),
            role: fits.role,
            mode: fits.mode,
            version: None,
            known_by: KnownBy::Signature,
        }))
    }

    fn by_program(&self, process: &Proc<'_>, key: ProgramKey) -> Fact<Option<(Product, KnownBy)>> {
        if key.bytes < LARGE {
            return Ok(None);
        }
        let entry = self.programs.lock().unwrap_or_else(PoisonError::into_inner).entry(key).or_default().clone();
        let kind = entry.get_or_init(|| self.host.read_program(process.pid(), |file| Ok(kind_of(&Program::new(file)?)?)));
        Ok(match kind.as_ref().map_err(Clone::clone)? {
            Kind::Agent(facts) => Some((facts.clone(), KnownBy::Program)),
            Kind::Unknown if self.owns_daemon_socket(process) => self.by_files(process),
            Kind::Unknown | Kind::Other => None,
        })
    }

    /// The product's line, for a process known as OpenCode by its program.
    ///
    /// It takes a few milliseconds a program file, which a list of processes need not spend.
    pub fn generation(&self, process: &Proc<'_>) -> Fact<Option<Generation>> {
        process.fact("generation", || {
            let key = process.program_key()?;
            let entry = self.generations.lock().unwrap_or_else(PoisonError::into_inner).entry(key).or_default().clone();
            let read = || {
                self.host.read_program(process.pid(), |file| {
                    let file = Program::new(file)?;
                    let sections = sections(&file)?.unwrap_or_default();
                    let payload = bun::payload(&file, &sections)?;
                    Ok(payload.map(|payload| opencode::generation(&file, &payload)).transpose()?.flatten())
                })
            };
            entry.get_or_init(read).clone()
        })
    }

    fn owns_daemon_socket(&self, process: &Proc<'_>) -> bool {
        let sockets = self.sockets.get_or_init(|| {
            let rows = self.host.unix_sockets(View::OURS).unwrap_or_default();
            rows.iter().filter(|row| row.listen && row.path.as_bytes().ends_with(b"/daemon.sock")).map(|row| row.inode).collect()
        });
        // Without such a listener no process's files are read.
        !sockets.is_empty()
            && process.fds().is_ok_and(|fds| fds.iter().filter_map(crate::host::Fd::socket_inode).any(|inode| sockets.contains(&inode)))
    }

    /// A large program that owns a `daemon.sock`: searched through, and known by its open files where that fails.
    fn by_files(&self, process: &Proc<'_>) -> Option<(Product, KnownBy)> {
        let found = self.host.read_program(process.pid(), |file| {
            let file = Program::new(file)?;
            let constants = sections(&file)?.and_then(|sections| sections.rodata);
            Ok(constants.map(|range| product::zeroclaw(&file, range)).transpose()?.flatten())
        });
        if let Ok(Some(facts)) = found {
            return Some((facts, KnownBy::Program));
        }
        let fds = process.fds().ok()?;
        let has = |end: &[u8]| fds.iter().any(|fd| fd.target.as_bytes().ends_with(end));
        let owns = has(b"/daemon.sock.lock") && has(b"/acp-sessions.db");
        let facts = Product { id: zeroclaw::ID, client: false, version: None };
        owns.then_some((facts, KnownBy::Files))
    }

    /// A process whose program may not be looked into, and that is called as an agent is.
    fn by_name(&self, process: &Proc<'_>, stat: &Stat, unknown: &Unknown) -> Option<Identity> {
        let comm = stat.comm.as_bytes();
        // Interpreted names are not worth a read of every stranger's arguments: comm is what execve was given.
        let entry = self.catalog.named(comm, b"")?;
        let argv = argv(process);
        let mode = mode(&entry.id, comm == b"zerocode", &argv);
        let role = role_of(&entry.id, mode, false);
        let known_by = KnownBy::Name(unknown.clone());
        Some(Identity { agent: entry.id.clone(), role, mode: Some(mode), version: None, known_by })
    }

    /// Where a process serves others.
    ///
    /// # Errors
    /// When its open files or the socket tables cannot be read.
    pub fn listeners(&self, process: &Proc<'_>) -> Fact<Vec<Listener>> {
        let inodes: HashSet<u64> = process.fds()?.iter().filter_map(crate::host::Fd::socket_inode).collect();
        if inodes.is_empty() {
            return Ok(Vec::new());
        }
        let net = self.host.net(process.view()?);
        let tcp = net.tcp_rows()?.filter(|row| row.listen && inodes.contains(&row.inode)).map(|row| Listener::Tcp(row.local));
        let unix = net.unix.as_ref().map_err(Clone::clone)?;
        let unix = unix.iter().filter(|row| row.listen && inodes.contains(&row.inode)).map(|row| Listener::Unix(row.path.clone()));
        Ok(tcp.chain(unix).collect())
    }

    /// The markers in a raw block, one a marked agent.
    pub fn marks(&self, block: &[u8]) -> Vec<Mark> {
        let mut marks = Vec::<Mark>::new();
        for part in block.split(|&byte| byte == 0) {
            let Some(at) = memchr::memchr(b'=', part) else { continue };
            let name = &part[..at];
            // Both first: no marker is longer, and no marker has a lower-case letter.
            if name.len() > 64 || !name.first().is_some_and(u8::is_ascii_uppercase) {
                continue;
            }
            for agent in self.catalog.agents() {
                if !agent.markers.iter().any(|marker| marker.as_bytes() == name) {
                    continue;
                }
                let index = marks.iter().position(|mark| mark.agent == agent.id).unwrap_or_else(|| {
                    marks.push(Mark { agent: agent.id.clone(), session: None, daemon: None });
                    marks.len() - 1
                });
                let is = |key: &Option<String>| key.as_ref().is_some_and(|key| key.as_bytes() == name);
                // What is masked as a value is no session's id either.
                let sound = |text: &&str| !text.is_empty() && redact::secret(name, text.as_bytes(), true).is_none();
                let text = std::str::from_utf8(&part[at + 1..]).ok().filter(sound);
                // getenv answers with the first of several.
                if is(&agent.session) && marks[index].session.is_none() {
                    marks[index].session = text.map(str::to_owned);
                }
                if is(&agent.daemon_pid) && marks[index].daemon.is_none() {
                    marks[index].daemon = text.and_then(|text| text.parse().ok());
                }
            }
        }
        marks
    }

    /// The markers in the environment of a process; a fact of its own, since masking would hide a session's id.
    pub fn marks_of(&self, process: &Proc<'_>) -> Fact<Vec<Mark>> {
        process.fact("marks", || process.environ_block(|block| self.marks(block)))
    }
}

fn kind_of(file: &dyn ReadAt) -> std::io::Result<Kind> {
    let Some(sections) = sections(file)? else { return Ok(Kind::Other) };
    if let Some(payload) = bun::payload(file, &sections)? {
        return Ok(product::opencode(file, &payload)?.map_or(Kind::Other, Kind::Agent));
    }
    let Some(constants) = sections.rodata else { return Ok(Kind::Other) };
    let glance = constants.start..constants.end.min(constants.start + product::GLANCE);
    Ok(product::zeroclaw(file, glance)?.map_or(Kind::Unknown, Kind::Agent))
}

fn argv(process: &Proc<'_>) -> Vec<Raw> {
    process.cmdline().unwrap_or_default().iter().map(|arg| arg.clear().map(Raw::from).unwrap_or_default()).collect()
}

fn mode(agent: &str, client: bool, argv: &[Raw]) -> Mode {
    if agent == zeroclaw::ID { zeroclaw::mode(client, argv) } else { opencode::mode(argv) }
}

fn role_of(agent: &str, mode: Mode, listens: bool) -> Role {
    if agent == zeroclaw::ID { zeroclaw::role(mode, listens) } else { opencode::role(mode, listens) }
}

/// A process as the catalogue's rows see it.
struct Seen<'a> {
    process: &'a Proc<'a>,
    host: &'a Host,
    stat: &'a Stat,
    exe: &'a Exe,
    argv: OnceCell<Vec<Raw>>,
    script: OnceCell<Option<Raw>>,
    link: OnceCell<Option<Raw>>,
}

impl Subject for Seen<'_> {
    fn path(&self) -> &[u8] {
        self.exe.path.as_bytes()
    }

    fn comm(&self) -> &[u8] {
        self.stat.comm.as_bytes()
    }

    fn argv(&self) -> &[Raw] {
        self.argv.get_or_init(|| argv(self.process))
    }

    fn script(&self) -> Option<&Raw> {
        let find = || {
            let script = script(self.argv())?;
            if script.as_bytes().starts_with(b"/") {
                return Some(script);
            }
            let cwd = self.process.cwd().ok()?;
            Some(Raw([cwd.as_bytes(), b"/", script.as_bytes()].concat()))
        };
        self.script.get_or_init(find).as_ref()
    }

    fn link(&self) -> Option<&Raw> {
        let find = || self.host.path(self.process.view().ok()?, self.script()?.as_bytes()).ok()?.link;
        self.link.get_or_init(find).as_ref()
    }
}

/// The script among an interpreter's arguments: the first that is no flag and no flag's value.
fn script(argv: &[Raw]) -> Option<Raw> {
    let mut words = argv.iter().skip(1);
    while let Some(arg) = words.next() {
        match arg.as_bytes() {
            b"-r" | b"--require" | b"--import" | b"--loader" | b"-W" | b"-X" => drop(words.next()),
            b"-c" | b"-e" | b"--eval" | b"-p" => return None,
            // python -m package
            b"-m" => return words.next().map(|module| Raw([b"/", module.as_bytes(), b"/__main__.py"].concat())),
            // bun run script
            b"run" => {}
            flag if flag.starts_with(b"-") => {}
            _ => return Some(arg.clone()),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(words: &[&str]) -> Vec<Raw> {
        words.iter().map(|word| Raw::from(*word)).collect()
    }

    #[test]
    fn scripts_are_found_behind_the_interpreters_flags() {
        assert_eq!(script(&words(&["node", "--max-old-space-size=4096", "-r", "hook.js", "/x/cli.js", "y"])), Some("/x/cli.js".into()));
        assert_eq!(script(&words(&["python3", "-m", "aider", "--model", "x"])), Some("/aider/__main__.py".into()));
        assert_eq!(script(&words(&["node", "-e", "/x/@openai/codex/bin/codex.js"])), None);
        assert_eq!(script(&words(&["claude"])), None);
    }

    #[test]
    fn markers_name_agent_session_and_daemon() {
        let host = Host::at_root(tempfile::tempdir().unwrap().path());
        let recogniser = Recogniser::new(&host);
        let marks = recogniser.marks(b"PATH=/bin\0AGENT=1\0OPENCODE=1\0OPENCODE_PID=42\0OPENCODE_PID=43\0ZEROCLAW_SESSION_ID=s-1\0");
        assert_eq!(
            marks,
            [
                Mark { agent: "opencode".to_owned(), session: None, daemon: Some(42) },
                Mark { agent: "zeroclaw".to_owned(), session: Some("s-1".to_owned()), daemon: None },
            ]
        );
        assert_eq!(recogniser.marks(b"XOPENCODE=1\0OPENCODE\0opencode=1\0OPENCODE_CONFIG=x\0"), []);
    }

    proptest::proptest! {
        // Each case parses the catalogue.
        #![proptest_config(proptest::prelude::ProptestConfig::with_cases(32))]
        #[test]
        fn no_block_or_arguments_panic(block in proptest::collection::vec(proptest::num::u8::ANY, 0..200)) {
            let host = Host::at_root("/nonexistent");
            let _ = Recogniser::new(&host).marks(&block);
            let _ = script(&block.split(|byte| *byte == 0).map(Raw::from).collect::<Vec<_>>());
        }
    }
}
