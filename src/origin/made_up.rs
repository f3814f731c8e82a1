//! A made-up machine for tests: a tree with `/proc`, socket tables and sockets.

use std::net::SocketAddr;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;

use crate::host::{Environ, Host, Stat, View};

use super::{Carrier, Kind, Named, examine};

pub struct MadeUp {
    tree: tempfile::TempDir,
    tcp: Vec<String>,
    unix: Vec<String>,
}

/// Ticks since boot of a process that is a minute old; the machine has been up for an hour.
pub const MINUTE_OLD: u64 = (3_600 - 60) * 100;

impl MadeUp {
    pub fn new() -> MadeUp {
        let made = MadeUp { tree: tempfile::tempdir().unwrap(), tcp: Vec::new(), unix: Vec::new() };
        made.file("proc/uptime", "3600.00 1.00\n");
        made.file("proc/sys/kernel/hostname", "vm\n");
        made.tables();
        made
    }

    pub fn path(&self, below: &str) -> PathBuf {
        self.tree.path().join(below.trim_start_matches('/'))
    }

    pub fn file(&self, below: &str, text: impl AsRef<[u8]>) {
        let path = self.path(below);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    fn tables(&self) {
        self.file("proc/net/tcp", format!("  sl  local_address rem_address   st\n{}", self.tcp.concat()));
        self.file("proc/net/unix", format!("Num       RefCount Protocol Flags    Type St Inode Path\n{}", self.unix.concat()));
    }

    fn tcp_row(&mut self, local: &str, remote: &str, state: &str, inode: u64) {
        // The listener's owner is whoever runs the test, like the processes.
        self.tcp_row_of(local, remote, state, inode, rustix::process::geteuid().as_raw());
    }

    fn tcp_row_of(&mut self, local: &str, remote: &str, state: &str, inode: u64, uid: u32) {
        let hex = |address: &str| {
            let SocketAddr::V4(address) = address.parse().unwrap() else { panic!("IPv4 only") };
            format!("{:08X}:{:04X}", u32::from_le_bytes(address.ip().octets()), address.port())
        };
        let row = format!(
            "   0: {} {} {state} 00000000:00000000 00:00000000 00000000  {uid}        0 {inode} 1 0000000000000000 100 0 0 10 0\n",
            hex(local),
            hex(remote)
        );
        self.tcp.push(row);
        self.tables();
    }

    pub fn listens(&mut self, local: &str, inode: u64) -> &mut MadeUp {
        self.tcp_row(local, "0.0.0.0:0", "0A", inode);
        self
    }

    /// A listener of another account.
    pub fn listens_as(&mut self, uid: u32, local: &str, inode: u64) -> &mut MadeUp {
        self.tcp_row_of(local, "0.0.0.0:0", "0A", inode, uid);
        self
    }

    /// An ssh connection to port 22 of 127.0.0.1.
    pub fn connected(&mut self, client: &str, inode: u64) -> &mut MadeUp {
        self.tcp_row("127.0.0.1:22", client, "01", inode);
        self
    }

    pub fn hang_up(&mut self, inode: u64) -> &mut MadeUp {
        let inode = format!(" {inode} 1 ");
        self.tcp.retain(|row| !row.contains(&inode));
        self.tables();
        self
    }

    /// A socket file, on which something listens where an inode is given.
    pub fn socket(&mut self, path: &str, inode: Option<u64>) -> &mut MadeUp {
        let at = self.path(path);
        std::fs::create_dir_all(at.parent().unwrap()).unwrap();
        drop(UnixListener::bind(at).unwrap());
        if let Some(inode) = inode {
            self.unix_row(path, inode);
        }
        self
    }

    pub fn unix_row(&mut self, path: &str, inode: u64) -> &mut MadeUp {
        self.unix.push(format!("0000000000000000: 00000002 00000000 00010000 0001 01 {inode} {path}\n"));
        self.tables();
        self
    }

    pub fn process(&self, pid: u32, comm: &str, ppid: u32, start: u64, environ: &str) -> &MadeUp {
        self.on_tty(pid, comm, ppid, start, environ, 0)
    }

    pub fn on_tty(&self, pid: u32, comm: &str, ppid: u32, start: u64, environ: &str, tty: u32) -> &MadeUp {
        let stat = format!("{pid} ({comm}) S {ppid} {pid} {pid} {tty} -1 0 0 0 0 0 0 0 0 0 20 0 1 0 {start}");
        self.file(&format!("proc/{pid}/stat"), stat);
        self.file(&format!("proc/{pid}/environ"), environ.replace('|', "\0"));
        self.file(&format!("proc/{pid}/cmdline"), format!("{comm}\0"));
        std::fs::create_dir_all(self.path(&format!("proc/{pid}/fd"))).unwrap();
        self
    }

    pub fn holds(&self, pid: u32, fd: u32, inode: u64) -> &MadeUp {
        std::os::unix::fs::symlink(format!("socket:[{inode}]"), self.path(&format!("proc/{pid}/fd/{fd}"))).unwrap();
        self
    }

    pub fn host(&self) -> Host {
        Host::at_root(self.tree.path())
    }

    /// What a value means to process 100 with this environment, a minute old.
    pub fn named(&self, kind: Kind, value: &str, environ: &[&str]) -> Named {
        named(&self.host(), kind, value, environ)
    }
}

pub fn named(host: &Host, kind: Kind, value: &str, environ: &[&str]) -> Named {
    let environ = Environ::parse(environ.join("\0").as_bytes());
    let euid = rustix::process::geteuid().as_raw();
    let line = format!("100 (opencode) S 1 100 100 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 {MINUTE_OLD}");
    let stat = Stat::parse(line.as_bytes(), euid).unwrap();
    let carrier = Carrier { host, process: Some(&stat), view: View::OURS, environ: &environ, born: &environ, connect: false };
    examine(&carrier, kind, value.as_bytes())
}
