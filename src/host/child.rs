//! Hosts that a probe starts: a process group of its own, which ends with the probe whatever happens to either.

use std::ffi::OsString;
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child as Process, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::{Pid as RawPid, Signal};

use super::{Host, Pid};

/// How much of what it prints is kept, to tell why it did not start.
const PRINTED: usize = 64 << 10;

/// How long it may take to end when asked to.
const POLITE: Duration = Duration::from_secs(4);

/// How a program is started: with exactly this environment.
#[derive(Clone, Debug)]
pub struct Recipe {
    /// The program and its arguments.
    pub argv: Vec<OsString>,
    /// Its whole environment.
    pub env: Vec<(OsString, OsString)>,
    /// Where.
    pub cwd: PathBuf,
    /// What it leaves running stays when it ends, until [`sweep`]: it may be there to start a server.
    pub leaves: bool,
}

/// Programs that run because a probe wants them to, and so are no orphans.
static WANTED: Mutex<Vec<Pid>> = Mutex::new(Vec::new());

/// Whether there ever was one.
static STARTED: AtomicBool = AtomicBool::new(false);

fn wanted() -> std::sync::MutexGuard<'static, Vec<Pid>> {
    WANTED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Starts a child that is no orphan.
pub(super) fn spawn_wanted(command: &mut Command) -> std::io::Result<Process> {
    // Under the lock: it must not be taken for an orphan before it is known.
    let mut wanted = wanted();
    let process = command.spawn()?;
    wanted.push(process.id());
    Ok(process)
}

/// A program that runs. Ended, with whatever it left running, when the value goes.
pub struct Child {
    process: Process,
    leaves: bool,
    printed: Arc<Mutex<Vec<u8>>>,
}

impl Child {
    /// Starts it. What it prints is kept in memory, never in a file: it may print its own password.
    ///
    /// It is started through this program, which asks the kernel to end it when this process ends, and becomes it.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start(recipe: &Recipe) -> std::io::Result<Child> {
        Child::start_with(recipe, None)
    }

    /// The same, with something to read.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start_with(recipe: &Recipe, stdin: Option<Vec<u8>>) -> std::io::Result<Child> {
        // Whatever it leaves behind becomes ours to end.
        STARTED.store(true, Ordering::Relaxed);
        let _ = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
        let mut command = Command::new(std::env::current_exe()?);
        command.stdin(if stdin.is_some() { Stdio::piped() } else { Stdio::null() });
        command.args(["readback", "become"]).args(&recipe.argv).env_clear().envs(recipe.env.iter().cloned());
        command.current_dir(&recipe.cwd).process_group(0).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut process = spawn_wanted(&mut command)?;
        if let (Some(mut pipe), Some(bytes)) = (process.stdin.take(), stdin) {
            // On a thread: it may read late, or never.
            std::thread::Builder::new().name("input".to_owned()).spawn(move || drop(std::io::Write::write_all(&mut pipe, &bytes)))?;
        }
        let printed = Arc::<Mutex<Vec<u8>>>::default();
        let streams: [Option<Box<dyn Read + Send>>; 2] =
            [process.stdout.take().map(|stream| Box::new(stream) as _), process.stderr.take().map(|stream| Box::new(stream) as _)];
        for mut stream in streams.into_iter().flatten() {
            let printed = Arc::clone(&printed);
            let read = move || {
                let mut piece = [0; 4096];
                while let Ok(length @ 1..) = stream.read(&mut piece) {
                    let mut printed = printed.lock().unwrap_or_else(PoisonError::into_inner);
                    let room = PRINTED.saturating_sub(printed.len());
                    printed.extend_from_slice(&piece[..length.min(room)]);
                }
            };
            std::thread::Builder::new().name("output".to_owned()).spawn(read)?;
        }
        Ok(Child { process, leaves: recipe.leaves, printed })
    }

    /// Its pid.
    pub fn pid(&self) -> Pid {
        self.process.id()
    }

    /// The first 64 KB of what it printed so far.
    pub fn printed(&self) -> String {
        String::from_utf8_lossy(&self.printed.lock().unwrap_or_else(PoisonError::into_inner)).into_owned()
    }

    /// The last line that it printed, that is not empty and fits; empty where there is none. For one that has ended: what it said last
    /// may still be on its way.
    pub fn last_line(&self, fits: impl Fn(&str) -> bool) -> String {
        let end = Instant::now() + Duration::from_millis(200);
        loop {
            let line = self.printed().lines().rfind(|line| !line.trim().is_empty() && fits(line)).unwrap_or_default().trim().to_owned();
            if !line.is_empty() || Instant::now() > end {
                return line;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// How it ended, if it did.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.process.try_wait().ok().flatten()
    }

    /// Asks it to end, and ends it; then whatever of its group and of its orphans still runs.
    pub fn end(&mut self) {
        self.end_within(POLITE);
    }

    /// The same with another patience.
    pub fn end_within(&mut self, patience: Duration) {
        let group = i32::try_from(self.process.id()).ok().and_then(RawPid::from_raw);
        if self.ended().is_none() {
            group.map(|group| rustix::process::kill_process(group, Signal::TERM));
            let end = Instant::now() + patience;
            while self.ended().is_none() && Instant::now() < end {
                std::thread::sleep(Duration::from_millis(5));
            }
            if self.ended().is_none() {
                let _ = self.process.kill();
                let _ = self.process.wait();
            }
        }
        if !self.leaves {
            group.map(|group| rustix::process::kill_process_group(group, Signal::KILL));
        }
        wanted().retain(|pid| *pid != self.process.id());
        if !self.leaves {
            sweep();
        }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        self.end();
    }
}

/// Our children that nobody wants: what a host that we started left behind.
pub fn orphans() -> Vec<Pid> {
    let own = std::process::id();
    let host = Host::live();
    let wanted = wanted();
    let children = host.scan(|process| process.stat().ok().filter(|stat| stat.ppid == own).map(|stat| stat.pid));
    children.unwrap_or_default().into_iter().filter(|pid| !wanted.contains(pid)).collect()
}

/// Ends what became ours because the program that started it has ended.
pub fn sweep() {
    // A child of an orphan becomes ours only when that one ends: a few rounds.
    for _ in 0..8 {
        let mut any = false;
        for pid in orphans().into_iter().filter_map(|pid| RawPid::from_raw(i32::try_from(pid).ok()?)) {
            any = true;
            let _ = rustix::process::kill_process(pid, Signal::KILL);
            let _ = rustix::process::waitpid(Some(pid), rustix::process::WaitOptions::empty());
        }
        if !any {
            return;
        }
    }
}

/// Ends everything that was started, for a program that ends without dropping its values.
pub fn end_all() {
    if !STARTED.load(Ordering::Relaxed) {
        return;
    }
    // Never waits for it: whoever holds it may be the one that asks.
    if let Ok(mut wanted) = WANTED.try_lock() {
        wanted.clear();
        drop(wanted);
        sweep();
    }
}

/// Becomes the program: what [`Child::start`] starts. Returns only when that fails.
pub fn become_program(argv: &[OsString]) -> std::io::Error {
    if let Err(errno) = rustix::process::set_parent_process_death_signal(Some(Signal::KILL)) {
        return errno.into();
    }
    let Some((program, arguments)) = argv.split_first() else { return std::io::Error::other("no program") };
    Command::new(program).args(arguments).exec()
}
