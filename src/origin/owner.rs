//! The process behind a socket: who holds the inode that a socket table names.
//!
//! Candidates come first: processes that a path names by pid, then those whose name fits and who run as
//! the socket's owner, then whatever else its owner runs. All open files of all processes are never read: that is slow, and most of
//! it is not permitted anyway. sshd and ssh-agent are not dumpable, so to an ordinary account they are closed
//! even when they are its own; then the owner is unknown, which says nothing about the socket.

use crate::host::{Fact, Host, Pid, Stat, Unknown, View};
use crate::verdict::State;

use super::ssh::Connection;
use super::{Carrier, Named, Owner};

/// How the kernel names sshd's processes: before and since OpenSSH 9.8.
pub const SSHD: &[&str] = &["sshd", "sshd-session"];

/// How many processes may be looked into for one socket.
const BUDGET: usize = 48;

/// What narrows the search for an owner.
#[derive(Clone, Debug, Default)]
pub struct Hint<'a> {
    /// Beginnings of the names of programs that serve such sockets.
    pub names: &'a [&'a str],
    /// Pids that the value or path names.
    pub pids: Vec<Pid>,
    /// The path, as it may stand in the owner's arguments.
    pub argument: Option<&'a [u8]>,
    /// A socket that receives without connections is one of the kind.
    pub datagrams: bool,
}

/// What the search came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// The owner.
    pub owner: Option<Owner>,
    /// Where it was seen, and what was seen there.
    pub evidence: Option<(String, String)>,
    /// Why no owner was found, where that is a lack of permission or of a fact.
    pub hidden: Option<Unknown>,
}

impl<'a> Hint<'a> {
    /// A search by name alone.
    pub fn names(names: &'a [&'a str]) -> Hint<'a> {
        Hint { names, ..Hint::default() }
    }

    fn fits(&self, stat: &Stat) -> bool {
        self.names.iter().any(|name| stat.comm.as_bytes().starts_with(name.as_bytes()))
    }
}

/// Who holds the socket with this inode. `uid` is the socket's owner where the table or the path tells it.
pub fn of_listener(host: &Host, inode: u64, uid: Option<u32>, hint: &Hint<'_>) -> Found {
    let table = match host.table() {
        Ok(table) => table,
        Err(unknown) => return Found { hidden: Some(unknown), ..Found::default() },
    };
    let mut candidates: Vec<&Stat> = hint.pids.iter().filter_map(|pid| table.get(pid)).collect();
    let mut fitting: Vec<&Stat> = table
        .values()
        .filter(|stat| !stat.kernel_thread && !stat.is_zombie() && hint.fits(stat) && !hint.pids.contains(&stat.pid))
        .collect();
    // The manager that holds a socket for a service is named only when the service itself does not hold it.
    fitting.sort_by_key(|stat| (uid.is_some_and(|uid| stat.euid != uid), stat.comm.as_bytes() == b"systemd", stat.pid));
    candidates.extend(fitting);
    let mut hidden = None;
    let mut closed = Vec::new();
    for stat in candidates.into_iter().take(BUDGET) {
        match host.process(stat.pid).fds() {
            Ok(fds) => {
                if let Some(fd) = fds.iter().find(|fd| fd.socket_inode() == Some(inode)) {
                    let evidence = (format!("/proc/{}/fd/{}", stat.pid, fd.fd), format!("socket:[{inode}], held by {}", named(host, stat)));
                    return Found { owner: Some(describe(host, stat)), evidence: Some(evidence), hidden: None };
                }
            }
            Err(unknown) if unknown.is_absence() => {}
            Err(unknown) => {
                hidden.get_or_insert(unknown);
                closed.push(stat);
            }
        }
    }
    if let Some(found) = hint.argument.and_then(|path| by_argument(host, &closed, (inode, path))) {
        return found;
    }
    if let Some(uid) = uid {
        match host.holder(uid, inode).and_then(|pid| process(host, pid)) {
            Ok(stat) => {
                let evidence = (format!("/proc/{}/fd", stat.pid), format!("socket:[{inode}], held by {}", named(host, &stat)));
                return Found { owner: Some(describe(host, &stat)), evidence: Some(evidence), hidden: None };
            }
            Err(unknown) if unknown.is_absence() => {}
            Err(unknown) => drop(hidden.get_or_insert(unknown)),
        }
    }
    Found { hidden, ..Found::default() }
}

/// Arguments can be read when open files cannot: `ssh-agent -a PATH` names its socket.
fn by_argument(host: &Host, closed: &[&Stat], (inode, path): (u64, &[u8])) -> Option<Found> {
    // A snapshot masks arguments, so it keeps which of them this was.
    let names = |stat: &&&Stat| {
        let told = || {
            let argv = host.process(stat.pid).cmdline().unwrap_or_default();
            argv.iter().any(|argument| argument.clear() == Some(path))
        };
        match host.fact("named.json", &format!("{} {inode}", stat.pid), || Ok(told())) {
            Err(Unknown::NotCaptured) => told(),
            known => known.unwrap_or(false),
        }
    };
    let mut found = closed.iter().filter(names);
    let stat = found.next().filter(|_| found.next().is_none())?;
    let evidence = (format!("/proc/{}/cmdline", stat.pid), format!("{} was started with this path", named(host, stat)));
    Some(Found { owner: Some(describe(host, stat)), evidence: Some(evidence), hidden: None })
}

/// The process with this pid, by the table of all processes. A snapshot keeps also that there was none.
pub fn process(host: &Host, pid: Pid) -> Fact<Stat> {
    let listed = || host.table()?.get(&pid).cloned().ok_or(Unknown::Gone);
    match host.fact("pids.json", &pid.to_string(), listed) {
        // Nobody asked for it then; a snapshot of all processes tells nevertheless, if each is still in it.
        Err(Unknown::NotCaptured) if host.fact("pids.json", WHOLE, || Ok(true)) == Ok(true) && host.lost_process().is_none() => listed(),
        known => known,
    }
}

/// Whether a process is a client of this server of a multiplexer, as its arguments tell. A snapshot masks names among those, so it
/// keeps what they told.
///
/// # Errors
/// When the snapshot lost it, and masked an argument.
pub fn is_client(host: &Host, stat: &Stat, server: Pid, told: impl Fn(&[&[u8]]) -> bool) -> Fact<bool> {
    let look = || {
        let argv = host.process(stat.pid).cmdline().unwrap_or_default();
        let clear: Option<Vec<&[u8]>> = argv.iter().map(|argument| argument.clear()).collect();
        clear.map(|argv| told(&argv)).ok_or(Unknown::Masked)
    };
    match host.fact("clients.json", &format!("{} {server}", stat.pid), look) {
        // A snapshot of before this was kept.
        Err(Unknown::NotCaptured) => look(),
        known => known,
    }
}

/// The key under which a snapshot keeps that it has every process.
const WHOLE: &str = "whole";

/// Makes a snapshot hold that it has every process, so that one it does not have did not run.
pub fn list_is_whole(host: &Host) {
    let _ = host.fact("pids.json", WHOLE, || Ok(true));
}

/// A process as an owner; with the connection it serves if it is sshd's.
pub fn describe(host: &Host, stat: &Stat) -> Owner {
    Owner {
        pid: stat.pid,
        comm: stat.comm.lossy().into_owned(),
        start_ticks: Some(stat.start_ticks),
        user: host.user_name(stat.euid),
        connection: if is_sshd(stat) { connection_of_sshd(host, stat).map(|connection| connection.to_string()) } else { None },
    }
}

/// A process as a sentence names it.
pub fn named(host: &Host, stat: &Stat) -> String {
    let started = crate::host::machine::rfc3339(host.machine().started_ms(stat.start_ticks));
    format!("{} (pid {}, started {started})", stat.comm.lossy(), stat.pid)
}

/// Whether it is one of sshd's processes.
pub fn is_sshd(stat: &Stat) -> bool {
    SSHD.iter().any(|name| stat.comm.as_bytes() == name.as_bytes())
}

/// The connection that a process of sshd serves: its own TCP socket, else what its children were told.
pub fn connection_of_sshd(host: &Host, stat: &Stat) -> Option<Connection> {
    let process = host.process(stat.pid);
    let told = told_to_children(host, stat.pid);
    let Ok(fds) = process.fds() else { return told };
    let net = host.net(process.view().unwrap_or(View::OURS));
    let rows: Vec<_> = net.tcp_rows().ok()?.collect();
    let own = fds.iter().filter_map(|fd| {
        let inode = fd.socket_inode()?;
        rows.iter().copied().find(|row| row.inode == inode)
    });
    let (listening, established): (Vec<_>, Vec<_>) = own.partition(|row| row.listen);
    // X clients that come in through a forwarded display are connections of sshd too; they end at a port it listens on.
    let mut connections = established
        .iter()
        .filter(|row| listening.iter().all(|own| own.local.port() != row.local.port()))
        .map(|row| Connection::of_row(row));
    // sshd opened its own connection first, so it has the lowest number; forwarded ones come later.
    let first = connections.clone().next();
    connections.find(|connection| Some(*connection) == told).or(first).or(told)
}

fn told_to_children(host: &Host, sshd: Pid) -> Option<Connection> {
    let table = host.table().ok()?;
    let mut children: Vec<Pid> = table.values().filter(|stat| stat.ppid == sshd && !is_sshd(stat)).map(|stat| stat.pid).collect();
    children.sort_unstable();
    children.iter().take(BUDGET).find_map(|&pid| Connection::parse(host.process(pid).environ().ok()?.bytes("SSH_CONNECTION")?))
}

/// The connections to whose shells sshd gave this value of a variable, as their own environments say.
///
/// An ordinary account may read its own shells, and not the sshd above them.
pub fn given_by_sshd(host: &Host, name: &str, same: impl Fn(&[u8]) -> bool) -> Vec<(Connection, Stat)> {
    let Ok(table) = host.table() else { return Vec::new() };
    // Whom one that was lost would have named, nobody knows.
    if host.lost_process().is_some() {
        return Vec::new();
    }
    let mut children: Vec<&Stat> =
        table.values().filter(|stat| !is_sshd(stat) && table.get(&stat.ppid).is_some_and(is_sshd) && !stat.is_zombie()).collect();
    children.sort_by_key(|stat| stat.pid);
    let given = children.iter().take(BUDGET).filter_map(|&stat| {
        let environ = host.process(stat.pid).environ().ok()?;
        same(environ.bytes(name)?).then_some(())?;
        Some((Connection::parse(environ.bytes("SSH_CONNECTION")?)?, stat.clone()))
    });
    given.collect()
}

/// Names whose pid a variable may keep although the process is younger: they are started by what becomes the carrier.
const STARTED_LATER: [&str; 3] = ["ssh-agent", "gpg-agent", "dbus-daemon"];

/// A variable that holds a pid.
pub(super) fn examine_pid(carrier: &Carrier<'_>, value: &[u8]) -> Named {
    let parsed = std::str::from_utf8(value).ok().and_then(|text| text.trim().parse::<Pid>().ok());
    let Some(pid) = parsed.filter(|&pid| pid != 0) else { return Named::new(State::None, "it is no process id") };
    if !carrier.shares_pids() {
        return Named::new(State::Unknown, format!("the number {}", carrier.other_pids()));
    }
    match process(carrier.host, pid) {
        Ok(stat) if !stat.is_zombie() => {
            let started_after = carrier.process.is_some_and(|process| stat.start_ticks > process.start_ticks);
            let expected = STARTED_LATER.iter().any(|name| stat.comm.as_bytes() == name.as_bytes());
            let seen = carrier.saw(format!("/proc/{pid}/stat"), named(carrier.host, &stat));
            let mut named = if started_after && !expected {
                let detail = format!("pid {pid} is {} now, which was started after this process", stat.comm.lossy());
                Named::new(State::Reused, detail)
            } else {
                Named::new(State::Alive, format!("pid {pid} is {}", stat.comm.lossy()))
            };
            named.owner = Some(describe(carrier.host, &stat));
            named.with([seen])
        }
        Ok(_) => {
            Named::new(State::Dangling, format!("process {pid} has ended")).with([carrier.saw(format!("/proc/{pid}/stat"), "a zombie")])
        }
        Err(unknown) if unknown.is_absence() => {
            Named::new(State::Dangling, format!("there is no process {pid}")).with([carrier.saw("/proc", format!("no entry {pid}"))])
        }
        Err(unknown) => Named::unknown(format!("process {pid}"), &unknown),
    }
}
