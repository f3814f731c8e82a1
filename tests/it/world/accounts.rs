//! The ordinary accounts: `weuser`, who logs in and starts daemons, and `westranger`, who may look at neither.
//!
//! They are made once with `useradd` and stay on the machine; the comment field marks them as ours, and only an
//! account with that mark is ever used. Their homes are emptied, and their processes ended, when a world begins
//! and when it ends.

use super::guard;
use super::need::{Missing, Needed, tool};
use std::ffi::OsStr;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The comment in /etc/passwd that says: a test may empty this home.
const MARK: &str = "whoseenv tests";

/// What `PATH` is for them before any login shell has its say.
pub const PATH: &str = "/usr/local/bin:/usr/bin:/bin";

#[derive(Debug, Clone)]
pub struct Account {
    pub name: String,
    pub uid: u32,
    pub gid: u32,
    pub home: PathBuf,
}

/// The one who logs in, starts the daemon and asks.
pub fn ordinary() -> Needed<Account> {
    account("weuser")
}

/// Another ordinary account on the same machine.
pub fn stranger() -> Needed<Account> {
    account("westranger")
}

/// Only root can make accounts, and start programs as them.
pub fn possible() -> Needed<()> {
    if rustix::process::geteuid().is_root() { Ok(()) } else { Missing::new("making accounts and starting sshd takes root") }
}

fn account(name: &str) -> Needed<Account> {
    possible()?;
    if find(name)?.is_none() {
        // Without a password, and not locked either: sshd without PAM refuses a locked one.
        run(Command::new(tool("useradd", "passwd")?).args(["-m", "-s", "/bin/bash", "-c", MARK, name]));
        run(Command::new(tool("usermod", "passwd")?).args(["-p", "*", name]));
    }
    Ok(find(name)?.unwrap_or_else(|| panic!("useradd made no {name}")))
}

fn find(name: &str) -> Needed<Option<Account>> {
    let passwd = std::fs::read_to_string("/etc/passwd").expect("/etc/passwd is readable");
    for line in passwd.lines() {
        if let [login, _, uid, gid, comment, home, _] = line.split(':').collect::<Vec<_>>()[..]
            && login == name
        {
            if comment != MARK {
                return Missing::new(format!("an account {name} is here and is not the tests' own"));
            }
            let number = |n: &str| n.parse().expect("a number in /etc/passwd");
            return Ok(Some(Account { name: name.into(), uid: number(uid), gid: number(gid), home: home.into() }));
        }
    }
    Ok(None)
}

impl Account {
    /// `NAME=value` as a bare login has them.
    pub fn env(&self) -> Vec<(String, String)> {
        let home = self.home.to_str().expect("a readable home");
        [("HOME", home), ("USER", &self.name), ("LOGNAME", &self.name), ("SHELL", "/bin/bash"), ("PATH", PATH), ("LANG", "C.UTF-8")]
            .map(|(k, v)| (k.to_owned(), v.to_owned()))
            .into()
    }

    /// Turns a command into one that this account runs, with an environment of its own and nothing of the test's.
    pub fn dress<'c>(&self, command: &'c mut Command) -> &'c mut Command {
        command.env_clear().envs(self.env()).current_dir(&self.home).uid(self.uid).gid(self.gid)
    }

    /// A program that this account runs to its end.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        self.dress(&mut command).stdin(Stdio::null());
        command
    }

    /// A program that this account runs and that ends with the test.
    pub fn tied(&self, program: impl AsRef<OsStr>) -> Needed<Command> {
        let mut command = guard::tied(program)?;
        self.dress(&mut command);
        Ok(command)
    }

    /// Does something as this account, on a thread of its own: what the kernel then permits is what it permits the
    /// account, and whoever it talks to sees the account's uid.
    pub fn act<T: Send + 'static>(&self, what: impl FnOnce() -> T + Send + 'static) -> T {
        use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};
        let (uid, gid) = (rustix::process::Uid::from_raw(self.uid), rustix::process::Gid::from_raw(self.gid));
        let acting = std::thread::spawn(move || {
            set_thread_groups(&[gid]).and_then(|()| set_thread_res_gid(gid, gid, gid)).expect("root can change groups");
            set_thread_res_uid(uid, uid, uid).expect("root can become anybody");
            what()
        });
        acting.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }

    /// A directory of this account's own, mode 0700.
    pub fn private_dir(&self, path: &Path) -> PathBuf {
        use std::os::unix::fs::PermissionsExt;
        std::fs::create_dir_all(path).expect("a directory can be made");
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o700)).expect("its mode can be set");
        self.own(path);
        path.to_owned()
    }

    /// Makes a file or directory this account's.
    pub fn own(&self, path: &Path) {
        std::os::unix::fs::lchown(path, Some(self.uid), Some(self.gid)).expect("root can give a file away");
    }

    /// Writes a file of this account's, its directories too.
    pub fn write(&self, path: &Path, content: &str) {
        let parents: Vec<&Path> = path.ancestors().skip(1).take_while(|p| !p.exists()).collect();
        for dir in parents.into_iter().rev() {
            std::fs::create_dir(dir).expect("a directory can be made");
            self.own(dir);
        }
        std::fs::write(path, content).expect("a file can be written");
        self.own(path);
    }

    /// Ends what the account runs and empties its home and its places in /tmp.
    pub fn reset(&self) {
        guard::sweep(self.uid);
        let skeleton = [".bashrc", ".profile", ".bash_logout"];
        empty(&self.home, |name| skeleton.iter().any(|s| name == *s));
        for place in ["/tmp", "/var/tmp", "/dev/shm"] {
            remove_owned(Path::new(place), self.uid);
        }
    }
}

fn empty(dir: &Path, keep: impl Fn(&OsStr) -> bool) {
    for entry in std::fs::read_dir(dir).expect("the home is there").flatten() {
        if !keep(&entry.file_name()) {
            remove(&entry.path());
        }
    }
}

fn remove_owned(dir: &Path, uid: u32) {
    use std::os::unix::fs::MetadataExt;
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        if entry.path().symlink_metadata().is_ok_and(|m| m.uid() == uid) {
            remove(&entry.path());
        }
    }
}

fn remove(path: &Path) {
    let _ = match path.symlink_metadata() {
        Ok(m) if m.is_dir() => std::fs::remove_dir_all(path),
        _ => std::fs::remove_file(path),
    };
}

/// Runs a command of the set-up and shows what it said when it fails.
pub fn run(command: &mut Command) -> String {
    let output = command.stdin(Stdio::null()).output().unwrap_or_else(|e| panic!("{command:?}: {e}"));
    assert!(output.status.success(), "{command:?}: {}\n{}", output.status, String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}
