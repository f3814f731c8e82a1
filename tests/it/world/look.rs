//! What the kernel says about processes and sockets, read a second way: the tests' own eyes.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long anything real may take before the test says what it waited for.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// Polls until `look` finds something; panics with `what` when patience ends.
pub fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    wait_up_to(PATIENCE, &mut look).unwrap_or_else(|| panic!("waited {PATIENCE:?} for {what}"))
}

/// Polls until `true`.
pub fn wait_until(what: &str, mut look: impl FnMut() -> bool) {
    wait_for(what, || look().then_some(()));
}

/// Polls, and gives up without panicking.
pub fn wait_up_to<T>(limit: Duration, mut look: impl FnMut() -> Option<T>) -> Option<T> {
    let start = Instant::now();
    let mut pause = Duration::from_millis(1);
    loop {
        if let Some(found) = look() {
            return Some(found);
        }
        if start.elapsed() > limit {
            return None;
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(20));
    }
}

/// A process as /proc shows it now.
#[derive(Debug, Clone)]
pub struct Process {
    pub pid: u32,
    pub comm: String,
    /// `R`, `S`, `Z` …
    pub state: char,
    pub ppid: u32,
    pub pgrp: u32,
    pub sid: u32,
    /// 0: no controlling terminal.
    pub tty_nr: i32,
    /// Start time in clock ticks since boot: with the pid, the process's name.
    pub start_ticks: u64,
    pub uid: u32,
}

impl Process {
    /// None when there is no such process.
    pub fn read(pid: u32) -> Option<Process> {
        use std::os::unix::fs::MetadataExt;
        let uid = std::fs::metadata(format!("/proc/{pid}")).ok()?.uid();
        let stat = std::fs::read(format!("/proc/{pid}/stat")).ok()?;
        let stat = String::from_utf8_lossy(&stat);
        // The name may hold anything, brackets too: what counts starts after the last one.
        let (before, after) = stat.rsplit_once(") ")?;
        let comm = before.split_once(" (")?.1.to_owned();
        let rest: Vec<&str> = after.split_ascii_whitespace().collect();
        Some(Process {
            pid,
            comm,
            state: rest.first()?.chars().next()?,
            ppid: rest.get(1)?.parse().ok()?,
            pgrp: rest.get(2)?.parse().ok()?,
            sid: rest.get(3)?.parse().ok()?,
            tty_nr: rest.get(4)?.parse().ok()?,
            start_ticks: rest.get(19)?.parse().ok()?,
            uid,
        })
    }

    /// A zombie waits for its parent and does nothing any more.
    pub fn runs(&self) -> bool {
        !matches!(self.state, 'Z' | 'X')
    }

    pub fn argv(&self) -> Vec<String> {
        nul_separated(&format!("/proc/{}/cmdline", self.pid))
    }

    /// The executable's path as the kernel prints it.
    pub fn exe(&self) -> Option<PathBuf> {
        std::fs::read_link(format!("/proc/{}/exe", self.pid)).ok()
    }

    /// `NAME=value` entries, in order.
    pub fn environ(&self) -> Vec<String> {
        nul_separated(&format!("/proc/{}/environ", self.pid))
    }

    /// The first value of a variable.
    pub fn var(&self, name: &str) -> Option<String> {
        self.environ().iter().find_map(|e| e.strip_prefix(name)?.strip_prefix('=').map(str::to_owned))
    }

    /// What the open descriptors point to.
    pub fn fds(&self) -> BTreeMap<u32, PathBuf> {
        let Ok(dir) = std::fs::read_dir(format!("/proc/{}/fd", self.pid)) else {
            return BTreeMap::new();
        };
        dir.flatten()
            .filter_map(|e| {
                let number = e.file_name().to_str()?.parse().ok()?;
                Some((number, std::fs::read_link(e.path()).ok()?))
            })
            .collect()
    }
}

fn nul_separated(path: &str) -> Vec<String> {
    let bytes = std::fs::read(path).unwrap_or_default();
    let bytes = bytes.strip_suffix(b"\0").unwrap_or(&bytes);
    if bytes.is_empty() {
        return Vec::new();
    }
    bytes.split(|b| *b == 0).map(|s| String::from_utf8_lossy(s).into_owned()).collect()
}

/// Every process there is.
pub fn processes() -> Vec<Process> {
    pids().into_iter().filter_map(Process::read).collect()
}

/// The running processes of one account, without a look at anybody else's: a machine may have thousands.
pub fn processes_of(uid: u32) -> Vec<Process> {
    use std::os::unix::fs::MetadataExt;
    let owned = |pid: &u32| std::fs::metadata(format!("/proc/{pid}")).is_ok_and(|m| m.uid() == uid);
    pids().into_iter().filter(owned).filter_map(Process::read).filter(Process::runs).collect()
}

fn pids() -> Vec<u32> {
    let all = std::fs::read_dir("/proc").expect("/proc is mounted");
    all.flatten().filter_map(|e| e.file_name().to_str()?.parse().ok()).collect()
}

/// Is this very process (not a later one with its number) still running?
pub fn runs(pid: u32, start_ticks: u64) -> bool {
    Process::read(pid).is_some_and(|p| p.runs() && p.start_ticks == start_ticks)
}

/// TCP states as the kernel numbers them.
pub const ESTABLISHED: u8 = 0x01;
pub const TIME_WAIT: u8 = 0x06;
pub const LISTEN: u8 = 0x0A;

/// A row of /proc/net/tcp or tcp6.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TcpRow {
    pub local: SocketAddr,
    pub remote: SocketAddr,
    pub state: u8,
    pub uid: u32,
    pub inode: u64,
}

/// Both tables of this network namespace.
pub fn tcp_rows() -> Vec<TcpRow> {
    ["/proc/net/tcp", "/proc/net/tcp6"]
        .iter()
        .flat_map(|table| std::fs::read_to_string(table).unwrap_or_default().lines().skip(1).filter_map(tcp_row).collect::<Vec<_>>())
        .collect()
}

fn tcp_row(line: &str) -> Option<TcpRow> {
    let field: Vec<&str> = line.split_ascii_whitespace().collect();
    Some(TcpRow {
        local: socket_address(field.get(1)?)?,
        remote: socket_address(field.get(2)?)?,
        state: u8::from_str_radix(field.get(3)?, 16).ok()?,
        uid: field.get(7)?.parse().ok()?,
        inode: field.get(9)?.parse().ok()?,
    })
}

/// `0100007F:177A`: 32-bit words in host order, then the port.
fn socket_address(text: &str) -> Option<SocketAddr> {
    let (address, port) = text.split_once(':')?;
    let words: Vec<[u8; 4]> = address
        .as_bytes()
        .chunks(8)
        .map(|hex| Some(u32::from_str_radix(std::str::from_utf8(hex).ok()?, 16).ok()?.to_ne_bytes()))
        .collect::<Option<_>>()?;
    let ip = match words.as_slice() {
        [v4] => IpAddr::V4(Ipv4Addr::from(*v4)),
        [a, b, c, d] => {
            let mut all = [0; 16];
            for (i, word) in [a, b, c, d].into_iter().enumerate() {
                all[i * 4..i * 4 + 4].copy_from_slice(word);
            }
            IpAddr::V6(Ipv6Addr::from(all))
        }
        _ => return None,
    };
    Some(SocketAddr::new(ip, u16::from_str_radix(port, 16).ok()?))
}

/// Listening rows for a port, IPv4 first.
pub fn listeners(port: u16) -> Vec<TcpRow> {
    tcp_rows().into_iter().filter(|r| r.state == LISTEN && r.local.port() == port).collect()
}

/// The server's row of a connection: local = server, remote = client.
///
/// Whoever closes first keeps a row in TIME_WAIT for a minute, with no socket behind it: that one is gone.
pub fn server_row(client: SocketAddr, server: SocketAddr) -> Option<TcpRow> {
    tcp_rows().into_iter().find(|r| r.local == server && r.remote == client && r.state != TIME_WAIT)
}

/// Does somebody in this network namespace listen on the socket file?
pub fn unix_socket_listens(path: &Path) -> bool {
    let path = path.to_str().expect("a readable path");
    let table = std::fs::read_to_string("/proc/net/unix").unwrap_or_default();
    // Connections that were accepted over it carry the path too; the listener alone has the flag.
    table.lines().skip(1).any(|line| {
        let field: Vec<&str> = line.split_ascii_whitespace().collect();
        field.get(3) == Some(&"00010000") && field.get(7) == Some(&path)
    })
}

/// A TCP port of 127.0.0.1 that nobody has at this moment.
pub fn free_port() -> u16 {
    std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|l| l.local_addr()).expect("a free port on loopback").port()
}
