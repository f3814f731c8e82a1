//! A made-up machine: what this one does not have (systemd, logind, another OpenSSH), as a tree that the library
//! captures, and as a snapshot that the program is asked about.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use serde_json::Value;
use whoseenv::diagnose::capture::{Query, capture};
use whoseenv::env::catalog;
use whoseenv::host::Host;
use whoseenv::redact::{FingerprintKey, ShowPolicy};

use crate::run::{Ran, run};

/// A tree with `/proc` of a machine that has been up for an hour, and this terminal's shell (pid 900) on it.
pub struct MadeUp {
    dir: tempfile::TempDir,
    tcp: String,
}

/// A process of it, with the fields that a test has something to say about.
#[derive(Default)]
pub struct Made<'a> {
    pub pid: u32,
    pub ppid: u32,
    pub comm: &'a str,
    /// Where the program is; a file of that name is made.
    pub exe: &'a str,
    pub argv: &'a [&'a str],
    pub environ: &'a [&'a str],
    /// `0::/system.slice/x.service`
    pub cgroup: &'a str,
    /// Sockets that it has open.
    pub sockets: &'a [u64],
    /// Number of its `/dev/pts`; none for a process without a terminal.
    pub pts: Option<u32>,
}

const UPTIME_S: u64 = 3_600;

impl MadeUp {
    pub fn new() -> MadeUp {
        let made = MadeUp { dir: tempfile::tempdir().unwrap(), tcp: String::new() };
        made.file("proc/uptime", &format!("{UPTIME_S}.00 1.00\n"));
        made.file("proc/sys/kernel/hostname", "vm\n");
        made.file("proc/sys/kernel/random/boot_id", "11111111-2222-3333-4444-555555555555\n");
        made.file("usr/bin/ls", "");
        made.program("usr/bin/ls");
        made.process(&Made { pid: 1, comm: "systemd", exe: "/usr/lib/systemd/systemd", ..Made::default() });
        symlink("901", made.at("proc/self")).unwrap();
        made
    }

    /// This terminal: a shell, and the tool that it started.
    pub fn terminal(&self, environ: &[&str]) {
        let shell = Made { pid: 900, ppid: 1, comm: "bash", exe: "/usr/bin/bash", argv: &["-bash"], environ, ..Made::default() };
        self.process(&shell);
        self.process(&Made { pid: 901, ppid: 900, comm: "whoseenv", exe: "/usr/bin/whoseenv", argv: &["whoseenv"], ..shell });
    }

    fn at(&self, path: &str) -> PathBuf {
        self.dir.path().join(path.trim_start_matches('/'))
    }

    pub fn file(&self, path: &str, text: &str) {
        let path = self.at(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// A file that a user may start.
    pub fn program(&self, path: &str) {
        use std::os::unix::fs::PermissionsExt;
        self.file(path, "#!/bin/sh\n");
        fs::set_permissions(self.at(path), fs::Permissions::from_mode(0o755)).unwrap();
    }

    pub fn process(&self, made: &Made<'_>) {
        let Made { pid, ppid, comm, .. } = made;
        let at = |name: &str| format!("proc/{pid}/{name}");
        let tty = made.pts.map_or(0, |pts| 0x8800 + pts);
        // A minute after boot.
        self.file(&at("stat"), &format!("{pid} ({comm}) S {ppid} {pid} {pid} {tty} -1 0 0 0 0 0 0 0 0 0 20 0 1 0 6000 0 0\n"));
        let joined = |words: &[&str]| words.iter().map(|word| format!("{word}\0")).collect::<String>();
        self.file(&at("cmdline"), &joined(made.argv));
        self.file(&at("environ"), &joined(made.environ));
        self.file(&at("cgroup"), &format!("{}\n", if made.cgroup.is_empty() { "0::/" } else { made.cgroup }));
        if !self.at(made.exe).exists() {
            self.program(made.exe);
        }
        symlink(self.at(made.exe), self.at(&at("exe"))).unwrap();
        symlink("/", self.at(&at("cwd"))).unwrap();
        fs::create_dir_all(self.at(&at("fd"))).unwrap();
        for (number, inode) in made.sockets.iter().enumerate() {
            symlink(format!("socket:[{inode}]"), self.at(&at(&format!("fd/{number}")))).unwrap();
        }
        fs::create_dir_all(self.at(&at("ns"))).unwrap();
        for namespace in ["mnt", "net", "pid", "user"] {
            symlink(format!("{namespace}:[1]"), self.at(&at(&format!("ns/{namespace}")))).unwrap();
        }
    }

    /// A row of `/proc/net/tcp` as the kernel writes it; `remote` is none for a listener.
    pub fn tcp(&mut self, local: &str, remote: Option<&str>, inode: u64) {
        let hex = |address: &str| {
            let address: std::net::SocketAddrV4 = address.parse().unwrap();
            format!("{:08X}:{:04X}", u32::from_le_bytes(address.ip().octets()), address.port())
        };
        let (there, state) = remote.map_or(("00000000:0000".to_owned(), "0A"), |remote| (hex(remote), "01"));
        self.tcp += &format!(
            "   0: {} {there} {state} 00000000:00000000 00:00000000 00000000     0        0 {inode} 1 0000000000000000 100 0 0 10 0\n",
            hex(local)
        );
    }

    /// Captures it, and asks the capture.
    pub fn ask(&self, arguments: &[&str]) -> (Value, i32) {
        let header = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n";
        self.file("proc/net/tcp", &format!("{header}{}", self.tcp));
        self.file("proc/net/tcp6", header);
        self.file("proc/net/unix", "Num       RefCount Protocol Flags    Type St Inode Path\n");
        let redactor = || catalog::redactor(FingerprintKey::from_text(b"made up"), ShowPolicy::default());
        let host = Host::recording_at(self.dir.path(), Box::new(redactor()));
        let out = tempfile::tempdir().unwrap();
        let snapshot = out.path().join("snapshot");
        capture(&host, &redactor(), &snapshot, &Query::default()).unwrap_or_else(|problem| panic!("{problem:?}"));
        let mut all = vec!["--from", snapshot.to_str().unwrap()];
        all.extend(arguments);
        let ran: Ran = run(&all);
        let document = ran.json();
        crate::one_mind::assert_of_one_mind(&document);
        (document, ran.code)
    }
}
