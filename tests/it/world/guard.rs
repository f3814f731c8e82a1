//! Processes that end when their owner ends: when the value is dropped, when the test panics, when the runner is killed.

use super::look::{self, Process, wait_up_to};
use super::need::{Needed, tool};
use std::ffi::OsStr;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// A command for `program` that the kernel kills when the thread that starts it ends, however that happens.
///
/// `setpriv` sets that and becomes the program, so pid, exe and argv are the program's own.
pub fn tied(program: impl AsRef<OsStr>) -> Needed<Command> {
    let mut command = Command::new(tool("setpriv", "util-linux")?);
    command.args(["--pdeathsig", "KILL", "--"]).arg(program).stdin(Stdio::null());
    Ok(command)
}

/// How long a process may take to tidy up, on a machine that is busy.
const POLITE: Duration = Duration::from_secs(15);

/// A child of the test.
#[derive(Debug)]
pub struct Proc {
    name: String,
    child: Child,
}

impl Proc {
    pub fn spawn(name: &str, command: &mut Command) -> Proc {
        let child = command.spawn().unwrap_or_else(|e| panic!("{name} does not start ({command:?}): {e}"));
        Proc { name: name.to_owned(), child }
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn child(&mut self) -> &mut Child {
        &mut self.child
    }

    /// Some when it has ended by itself.
    pub fn ended(&mut self) -> Option<std::process::ExitStatus> {
        self.child.try_wait().expect("the child can be waited for")
    }

    /// SIGTERM, and SIGKILL for one that does not end; waited for.
    pub fn stop(&mut self) {
        self.stop_within(POLITE);
    }

    /// The same with less patience.
    pub fn stop_within(&mut self, patience: Duration) {
        if self.ended().is_none() {
            signal(self.pid(), rustix::process::Signal::TERM);
            if wait_up_to(patience, || self.ended()).is_none() {
                self.kill();
            }
        }
    }

    /// SIGKILL, waited for.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Proc {
    fn drop(&mut self) {
        self.stop();
    }
}

/// A process that is nobody's child, or another's.
#[derive(Debug, Clone)]
pub struct Other {
    pub pid: u32,
    pub start_ticks: u64,
}

impl Other {
    /// The process that has this number now.
    pub fn new(pid: u32) -> Option<Other> {
        let process = Process::read(pid).filter(Process::runs)?;
        Some(Other { pid, start_ticks: process.start_ticks })
    }

    pub fn runs(&self) -> bool {
        look::runs(self.pid, self.start_ticks)
    }

    /// SIGTERM, and SIGKILL for one that does not end; returns when it runs no more.
    pub fn stop(&self) {
        self.stop_within(POLITE);
    }

    /// The same with less patience.
    pub fn stop_within(&self, patience: Duration) {
        for (kill, patience) in [(rustix::process::Signal::TERM, patience), (rustix::process::Signal::KILL, look::PATIENCE)] {
            if !self.runs() {
                return;
            }
            signal(self.pid, kill);
            if wait_up_to(patience, || (!self.runs()).then_some(())).is_some() {
                return;
            }
        }
        assert!(std::thread::panicking(), "process {} survives SIGKILL", self.pid);
    }
}

fn signal(pid: u32, signal: rustix::process::Signal) {
    if let Some(pid) = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw) {
        let _ = rustix::process::kill_process(pid, signal);
    }
}

/// Ends every process of an account; only for accounts that are the tests' own, and only under the world's lock.
pub fn sweep(uid: u32) {
    assert!(uid >= 1000, "uid {uid} is no test account");
    // An interactive shell shrugs off SIGTERM, and what these leave in files goes anyway.
    look::wait_until("the account's processes to end", || {
        let left = look::processes_of(uid);
        left.iter().for_each(|process| signal(process.pid, rustix::process::Signal::KILL));
        left.is_empty()
    });
}
