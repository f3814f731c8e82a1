//! A time limit for questions to the file system.
//!
//! A `stat` below a dead network mount blocks for minutes, in the kernel, where nothing can interrupt it.
//! So such questions are asked on a thread of their own; one that does not answer in time is left
//! behind, and its mount point is not asked again.

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use super::fact::{Fact, Unknown};

/// How long a file system may take for one answer.
pub const PATIENCE: Duration = Duration::from_millis(700);

type Job = Box<dyn FnOnce() + Send>;

struct Desk {
    worker: Option<Sender<Job>>,
    hung: Vec<PathBuf>,
}

static DESK: Mutex<Desk> = Mutex::new(Desk { worker: None, hung: Vec::new() });

/// Asks `question`, which concerns `path`, and waits [`PATIENCE`] for the answer.
pub fn ask<T: Send + 'static>(path: &Path, question: impl FnOnce() -> Fact<T> + Send + 'static) -> Fact<T> {
    ask_within(PATIENCE, path, question)
}

fn ask_within<T: Send + 'static>(patience: Duration, path: &Path, question: impl FnOnce() -> Fact<T> + Send + 'static) -> Fact<T> {
    let answer: Receiver<Fact<T>> = {
        let mut desk = DESK.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if desk.hung.iter().any(|mount| path.starts_with(mount)) {
            return Err(Unknown::Deadline);
        }
        let (sender, receiver) = channel();
        let job: Job = Box::new(move || drop(sender.send(question())));
        let job = match &desk.worker {
            Some(worker) => worker.send(job).err().map(|refused| refused.0),
            None => Some(job),
        };
        if let Some(job) = job {
            desk.worker = Some(hire(job)?);
        }
        receiver
    };
    match answer.recv_timeout(patience) {
        Ok(fact) => fact,
        Err(RecvTimeoutError::Disconnected) => Err(Unknown::Io("the question could not be asked".to_owned())),
        Err(RecvTimeoutError::Timeout) => {
            let mut desk = DESK.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            desk.worker = None;
            desk.hung.push(mount_point(path));
            Err(Unknown::Deadline)
        }
    }
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
    let parent = path.parent().unwrap_or(path);
    // `/proc` itself never hangs. What is asked through it lies elsewhere: below another root, or where a program is.
    if let Ok(below) = path.strip_prefix("/proc") {
        let mut parts = below.components();
        let (Some(pid), Some(link)) = (parts.next(), parts.next()) else { return path.to_owned() };
        if link.as_os_str() != "root" {
            return path.to_owned();
        }
        let process = Path::new("/proc").join(pid);
        let inside = Path::new("/").join(parts.as_path());
        let mount = mounted(&process.join("mountinfo"), &inside);
        let hung = mount.or_else(|| inside.parent().map(Path::to_owned)).unwrap_or(inside);
        return process.join("root").join(hung.strip_prefix("/").unwrap_or(&hung));
    }
    mounted(Path::new("/proc/self/mountinfo"), path).unwrap_or_else(|| parent.to_owned())
}

/// Where the file system is mounted that holds `path`; none for the root's.
fn mounted(table: &Path, path: &Path) -> Option<PathBuf> {
    let table = std::fs::read_to_string(table).ok()?;
    let longest = mounts(&table).filter(|mount| path.starts_with(mount)).max_by_key(|mount| mount.as_os_str().len());
    longest.filter(|mount| mount != Path::new("/"))
}

fn mounts(table: &str) -> impl Iterator<Item = PathBuf> {
    let plain = |point: &str| point.replace("\\040", " ").replace("\\011", "\t").replace("\\012", "\n").replace("\\134", "\\");
    table.lines().filter_map(move |line| Some(PathBuf::from(plain(line.split(' ').nth(4)?))))
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
    fn a_program_that_hangs_is_no_reason_not_to_ask_for_others() {
        let own = std::process::id();
        let exe = PathBuf::from(format!("/proc/{own}/exe"));
        assert_eq!(mount_point(&exe), exe);
        assert_eq!(mount_point(Path::new(&format!("/proc/{own}/root/proc/version"))), PathBuf::from(format!("/proc/{own}/root/proc")));
    }

    #[test]
    fn mount_points_may_hold_spaces() {
        let table = "21 1 0:5 / /mnt/my\\040disk rw - nfs x rw\n22 1 0:6 / / rw - ext4 x rw\n";
        assert_eq!(mounts(table).collect::<Vec<_>>(), [PathBuf::from("/mnt/my disk"), PathBuf::from("/")]);
    }
}
