//! A made-up machine for tests: a directory tree with the files of `/proc` that discovery reads.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use crate::binary::bun::made_payload;
use crate::binary::elf::made_elf;
use crate::host::Host;

/// OpenCode 1.18.34, as far as its program is looked at.
pub(super) fn opencode_v1() -> Vec<u8> {
    with_payload("--user-agent=opencode/1.18.34 --use-system-ca --", &["process.env.OPENCODE_PID"])
}

/// The 2.0 preview.
pub(super) fn opencode_preview() -> Vec<u8> {
    with_payload("--user-agent=opencode2/0.0.0-next-16350 --use-system-ca --", &["x", r#"["serve","--service"]"#])
}

/// OpenCode 2.0.24.
pub(super) fn opencode_v2() -> Vec<u8> {
    with_payload("--user-agent=opencode/latest/2.0.24/cli --use-system-ca --", &["\"--service\"", "d.put(\"session.environment\",\"/x\")"])
}

fn with_payload(arguments: &str, sources: &[&str]) -> Vec<u8> {
    let mut file = made_elf(&[(".rodata", b"bun"), (".data", &vec![0; 5 << 20])]);
    file.extend_from_slice(&made_payload(arguments, sources));
    file
}

/// ZeroClaw 0.8.7, or zerocode.
pub(super) fn zeroclaw(krate: &str) -> Vec<u8> {
    let constants = format!("/root/.cargo/registry/src/x/{krate}-0.8.7/src/lib.rs\0").repeat(9);
    made_elf(&[(".rodata", constants.as_bytes()), (".data", &vec![0; 5 << 20])])
}

pub(super) struct Made {
    dir: tempfile::TempDir,
    tcp: String,
    unix: String,
}

pub(super) struct Process<'m> {
    pub made: &'m Made,
    pub pid: u32,
    pub ppid: u32,
    pub session: u32,
    pub start: u64,
    pub comm: &'static str,
    pub exe: &'static str,
    pub argv: &'static [&'static str],
    pub environ: &'static [&'static str],
    pub fds: &'static [&'static str],
    /// Empty: not to be known.
    pub cwd: &'static str,
}

impl Made {
    /// A machine with a terminal (pid 900) and nothing else. Its ages count from a boot 1,000 s ago.
    pub(super) fn new() -> Made {
        let made = Made { dir: tempfile::tempdir().unwrap(), tcp: "header\n".to_owned(), unix: "header\n".to_owned() };
        fs::create_dir_all(made.at("/proc/net")).unwrap();
        fs::write(made.at("/proc/uptime"), "1000.00 1000.00\n").unwrap();
        made.program("/bin/bash", &made_elf(&[(".rodata", b"bash")]));
        made.program("/bin/sleep", &made_elf(&[(".rodata", b"sleep")]));
        made.process(1, 0).write();
        Process { environ: &["HOME=/home/u", "DISPLAY=localhost:11.0"], ..made.process(899, 1) }.write();
        Process { environ: &["HOME=/home/u", "DISPLAY=localhost:11.0"], ..made.process(900, 899) }.write();
        symlink("900", made.at("/proc/self")).unwrap();
        made
    }

    pub(super) fn at(&self, path: &str) -> PathBuf {
        self.dir.path().join(path.trim_start_matches('/'))
    }

    pub(super) fn program(&self, path: &str, bytes: &[u8]) {
        self.file(path, bytes);
    }

    pub(super) fn file(&self, path: &str, bytes: &[u8]) {
        let path = self.at(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }

    /// A TCP listener on 127.0.0.1, in `/proc/net/tcp`.
    pub(super) fn tcp(&mut self, port: u16, inode: u64) {
        self.tcp += &format!(
            "   0: 0100007F:{port:04X} 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 {inode} 1 0000000000000000 100 0 0 10 0\n"
        );
    }

    /// A listening Unix socket, in `/proc/net/unix`.
    pub(super) fn unix(&mut self, path: &str, inode: u64) {
        self.unix += &format!("0000000000000000: 00000002 00000000 00010000 0001 01 {inode} {path}\n");
    }

    /// A shell that does nothing, to be changed with struct update and written.
    pub(super) fn process(&self, pid: u32, ppid: u32) -> Process<'_> {
        Process {
            made: self,
            pid,
            ppid,
            session: pid,
            start: 1_000,
            comm: "bash",
            exe: "/bin/bash",
            argv: &["bash"],
            environ: &[],
            fds: &[],
            cwd: "",
        }
    }

    /// Another environment for a process that was written.
    pub(super) fn environ(&self, pid: u32, environ: &[&str]) {
        fs::write(self.at(&format!("/proc/{pid}/environ")), joined(environ)).unwrap();
    }

    pub(super) fn host(&self) -> Host {
        fs::write(self.at("/proc/net/tcp"), &self.tcp).unwrap();
        fs::write(self.at("/proc/net/unix"), &self.unix).unwrap();
        Host::at_root(self.dir.path())
    }
}

impl Process<'_> {
    pub(super) fn write(self) {
        let Process { pid, ppid, session, start, comm, .. } = self;
        let dir = self.made.at(&format!("/proc/{pid}"));
        for part in ["fd", "ns", "net"] {
            fs::create_dir_all(dir.join(part)).unwrap();
        }
        let stat = format!("{pid} ({comm}) S {ppid} {pid} {session} 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 {start} 0 0\n");
        fs::write(dir.join("stat"), stat).unwrap();
        fs::write(dir.join("cmdline"), joined(self.argv)).unwrap();
        fs::write(dir.join("environ"), joined(self.environ)).unwrap();
        symlink(self.made.at(self.exe), dir.join("exe")).unwrap();
        if !self.cwd.is_empty() {
            symlink(self.cwd, dir.join("cwd")).unwrap();
        }
        for (number, target) in self.fds.iter().enumerate() {
            symlink(target, dir.join("fd").join(number.to_string())).unwrap();
        }
        for namespace in ["mnt", "net"] {
            symlink(format!("{namespace}:[1]"), dir.join("ns").join(namespace)).unwrap();
        }
    }
}

fn joined(words: &[&str]) -> String {
    words.iter().map(|word| format!("{word}\0")).collect()
}
