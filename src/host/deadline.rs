//! A time limit for questions to the file system.
//!
//! A `stat` below a dead network mount blocks for minutes, in the kernel, where nothing can interrupt it.
//! So such questions are asked on a thread of their own; one that does not answer in time is left
//! behind, and its mount point is not asked again. Where a mount is of a type that hangs by nature, another
//! process asks first ([`super::scout`]): a thread that is left behind there could keep this one from ending.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::fact::{Fact, Unknown};
use super::mounts;
use super::scout::{self, Errand, Report};

/// How long a file system may take for one answer.
pub const PATIENCE: Duration = Duration::from_millis(700);

type Job = Box<dyn FnOnce() + Send>;

enum Answer<T> {
    Begun,
    Given(Fact<T>),
}

struct Desk {
    worker: Option<Sender<Job>>,
    /// How many workers there were: tells this one from those that were left behind.
    turn: u64,
    hung: Vec<PathBuf>,
}

static DESK: Mutex<Desk> = Mutex::new(Desk { worker: None, turn: 0, hung: Vec::new() });

/// Asks `question`, which concerns `path`, and waits [`PATIENCE`] for the answer from when it is asked. What it waits
/// for before, an earlier question that hangs, counts against the earlier one.
pub fn ask<T: Send + 'static>(path: &Path, question: impl FnOnce() -> Fact<T> + Send + 'static) -> Fact<T> {
    scouted(path, Errand::Stat)?;
    ask_within(PATIENCE, path, question)
}

/// The same for a question about every name in a directory.
pub fn ask_entries<T: Send + 'static>(path: &Path, question: impl FnOnce() -> Fact<T> + Send + 'static) -> Fact<T> {
    scouted(path, Errand::Entries)?;
    ask_within(PATIENCE, path, question)
}

/// Has another process ask first, where the path leads to a mount that may hang.
fn scouted(path: &Path, errand: Errand) -> Fact<()> {
    if mounts::slow(path).is_empty() {
        return Ok(());
    }
    let asked = path.to_owned();
    // Links on the way are looked up where nothing hangs by nature, and with a deadline all the same.
    let Some(mount) = ask_within(PATIENCE, path, move || Ok(mounts::leads_to_slow(&asked)))? else { return Ok(()) };
    if desk().is_hung(&mount) {
        return Err(Unknown::Deadline);
    }
    if scout::send(PATIENCE, path, errand) == Report::Lost {
        desk().hung.push(mount);
        return Err(Unknown::Deadline);
    }
    Ok(())
}

impl Desk {
    fn is_hung(&self, path: &Path) -> bool {
        self.hung.iter().any(|mount| path.starts_with(mount))
    }
}

/// The root below which a path is looked up, where that is another process's (`/proc/<pid>/root`), and the path there.
pub(super) fn split(path: &Path) -> (Option<PathBuf>, PathBuf) {
    let inside = || {
        let mut parts = path.strip_prefix("/proc").ok()?.components();
        let pid = parts.next()?;
        (parts.next()?.as_os_str() == "root").then(|| (Path::new("/proc").join(pid).join("root"), Path::new("/").join(parts.as_path())))
    };
    match inside() {
        Some((root, inside)) => (Some(root), inside),
        None => (None, path.to_owned()),
    }
}

/// What [`split`] took apart.
pub(super) fn joined(root: Option<&Path>, path: &Path) -> PathBuf {
    root.map_or_else(|| path.to_owned(), |root| root.join(path.strip_prefix("/").unwrap_or(path)))
}

fn ask_within<T: Send + 'static>(patience: Duration, path: &Path, question: impl FnOnce() -> Fact<T> + Send + 'static) -> Fact<T> {
    let (sender, receiver) = channel();
    // Whichever worker comes to it first asks it.
    let question = Arc::new(Mutex::new(Some(question)));
    let job = || -> Job {
        let (question, sender) = (Arc::clone(&question), sender.clone());
        Box::new(move || {
            let taken = question.lock().unwrap_or_else(PoisonError::into_inner).take();
            if let Some(question) = taken {
                let _ = sender.send(Answer::Begun);
                let _ = sender.send(Answer::Given(question()));
            }
        })
    };
    let desk = desk();
    if desk.is_hung(path) {
        return Err(Unknown::Deadline);
    }
    let mut asked_by = give(desk, job())?;
    let begun = receiver.recv_timeout(patience).or_else(|_| {
        // The worker is held up by an earlier question, about another place perhaps: that says nothing about this one.
        let mut desk = self::desk();
        if desk.turn == asked_by {
            desk.worker = None;
        }
        asked_by = give(desk, job())?;
        receiver.recv_timeout(patience).map_err(|_| Unknown::Io("the question could not be asked".to_owned()))
    })?;
    if let Answer::Given(fact) = begun {
        return fact;
    }
    match receiver.recv_timeout(patience) {
        Ok(Answer::Given(fact)) => fact,
        Ok(Answer::Begun) | Err(RecvTimeoutError::Disconnected) => Err(Unknown::Io("the question could not be asked".to_owned())),
        Err(RecvTimeoutError::Timeout) => {
            let mut desk = self::desk();
            if desk.turn == asked_by {
                desk.worker = None;
            }
            desk.hung.push(mount_point(path));
            Err(Unknown::Deadline)
        }
    }
}

fn desk() -> MutexGuard<'static, Desk> {
    DESK.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Gives the job to the worker, or to a new one where there is none; says which worker it is.
fn give(mut desk: MutexGuard<'_, Desk>, job: Job) -> Fact<u64> {
    let job = match &desk.worker {
        Some(worker) => worker.send(job).err().map(|refused| refused.0),
        None => Some(job),
    };
    if let Some(job) = job {
        desk.worker = Some(hire(job)?);
        desk.turn += 1;
    }
    Ok(desk.turn)
}

fn hire(first: Job) -> Fact<Sender<Job>> {
    let (sender, jobs) = channel::<Job>();
    let work = move || {
        first();
        while let Ok(job) = jobs.recv() {
            job();
        }
    };
    std::thread::Builder::new().name("file system".to_owned()).spawn(work)?;
    Ok(sender)
}

/// The mount point that `path` lies below, as the kernel's table has it; its directory where the table cannot be read.
fn mount_point(path: &Path) -> PathBuf {
    let (root, inside) = split(path);
    // `/proc` itself never hangs. What is asked through it lies elsewhere: below another root, or where a program is.
    if root.is_none() && path.starts_with("/proc") {
        return path.to_owned();
    }
    let mount = mounted(&mounts::table(root.as_deref()), &inside);
    let hung = mount.or_else(|| inside.parent().map(Path::to_owned)).unwrap_or(inside);
    joined(root.as_deref(), &hung)
}

/// Where the file system is mounted that holds `path`; none for the root's.
fn mounted(table: &Path, path: &Path) -> Option<PathBuf> {
    let table = std::fs::read_to_string(table).ok()?;
    let longest = mounts::points(&table).filter(|mount| path.starts_with(mount)).max_by_key(|mount| mount.as_os_str().len());
    longest.filter(|mount| mount != Path::new("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_comes_back_and_a_hung_place_is_asked_once() {
        assert_eq!(ask(Path::new("/etc"), || Ok(7)), Ok(7));
        let hung = Path::new("/nowhere/hung/file");
        let start = std::time::Instant::now();
        let never = || {
            std::thread::sleep(Duration::from_secs(5));
            Ok(())
        };
        assert_eq!(ask_within(Duration::from_millis(20), hung, never), Err(Unknown::Deadline));
        assert_eq!(ask(Path::new("/nowhere/hung/other"), || Ok(())), Err(Unknown::Deadline));
        assert!(start.elapsed() < Duration::from_secs(2));
        assert_eq!(ask(Path::new("/etc"), || Ok(8)), Ok(8), "the next question has a new worker");
    }

    #[test]
    fn a_question_that_waits_behind_a_hung_one_is_asked_all_the_same() {
        let hung = std::thread::spawn(|| {
            ask_within(Duration::from_millis(400), Path::new("/nowhere/slow/file"), || {
                std::thread::sleep(Duration::from_secs(3));
                Ok(())
            })
        });
        std::thread::sleep(Duration::from_millis(50));
        assert_eq!(ask_within(Duration::from_millis(100), Path::new("/nowhere/quick/file"), || Ok(9)), Ok(9));
        assert_eq!(ask(Path::new("/nowhere/quick/other"), || Ok(10)), Ok(10));
        assert_eq!(hung.join().unwrap(), Err(Unknown::Deadline));
    }

    #[test]
    fn a_program_that_hangs_is_no_reason_not_to_ask_for_others() {
        let own = std::process::id();
        let exe = PathBuf::from(format!("/proc/{own}/exe"));
        assert_eq!(mount_point(&exe), exe);
        assert_eq!(mount_point(Path::new(&format!("/proc/{own}/root/proc/version"))), PathBuf::from(format!("/proc/{own}/root/proc")));
    }
}
