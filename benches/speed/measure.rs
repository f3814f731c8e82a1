//! Rounds, medians, peak memory.

use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// A command; what it prints goes to /dev/null.
#[derive(Clone, PartialEq)]
pub struct Job {
    program: PathBuf,
    arguments: Vec<String>,
}

impl Job {
    pub fn new(program: &Path, arguments: &[String]) -> Job {
        Job { program: program.to_owned(), arguments: arguments.to_vec() }
    }

    fn name(&self) -> String {
        format!("{} {}", self.program.display(), self.arguments.join(" "))
    }

    fn quiet(mut command: Command) -> Command {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command
    }

    /// Wall time from before it is started until it was waited for.
    fn time(&self) -> Result<Duration, String> {
        let mut command = Command::new(&self.program);
        command.args(&self.arguments);
        let mut command = Job::quiet(command);
        let start = Instant::now();
        let status = command.status().map_err(|error| format!("{}: {error}", self.name()))?;
        let took = start.elapsed();
        self.check(status)?;
        Ok(took)
    }

    /// An answer of another kind (findings, not permitted, …) takes as long as a good one; a failure proves nothing.
    fn check(&self, status: ExitStatus) -> Result<(), String> {
        match status.code() {
            Some(0 | 1 | 3 | 4 | 5) => Ok(()),
            Some(code) => Err(format!("{} ended with exit code {code}", self.name())),
            None => Err(format!("{} was ended by signal {}", self.name(), status.signal().unwrap_or(0))),
        }
    }
}

/// What the rounds measured.
pub struct Times {
    jobs: Vec<Job>,
    took: Vec<Vec<Duration>>,
    /// How many there were.
    pub rounds: usize,
}

/// Runs every job once a round, each second round backwards, after two rounds that do not count.
pub fn rounds(jobs: &[Job], count: usize, patience: Duration) -> Result<Times, String> {
    let start = Instant::now();
    let mut times = Times { jobs: jobs.to_vec(), took: vec![Vec::new(); jobs.len()], rounds: 0 };
    for _ in 0..2 {
        for job in jobs {
            job.time()?;
        }
    }
    // Three at least: less has no median.
    while times.rounds < count && (times.rounds < 3 || start.elapsed() < patience) {
        let mut order: Vec<usize> = (0..jobs.len()).collect();
        if times.rounds % 2 == 1 {
            order.reverse();
        }
        for at in order {
            times.took[at].push(jobs[at].time()?);
        }
        times.rounds += 1;
    }
    Ok(times)
}

impl Times {
    /// The median of a job that took part.
    pub fn median(&self, job: &Job) -> Duration {
        let at = self.jobs.iter().position(|other| other == job).expect("it took part");
        let mut took = self.took[at].clone();
        took.sort_unstable();
        let middle = took.len() / 2;
        if took.len() % 2 == 1 { took[middle] } else { (took[middle - 1] + took[middle]) / 2 }
    }
}

/// The largest of three runs' resident sets, as the kernel counts for the parent that waits: GNU time.
pub fn peak_kib(job: &Job) -> Result<u64, String> {
    let note = tempfile::NamedTempFile::new().map_err(|error| error.to_string())?;
    let mut peak = 0;
    for _ in 0..3 {
        let mut command = Command::new("/usr/bin/time");
        command.arg("--quiet").arg("-f").arg("%M").arg("-o").arg(note.path()).arg(&job.program).args(&job.arguments);
        let status = Job::quiet(command).status().map_err(|_| "not measured: GNU time is missing".to_owned())?;
        job.check(status)?;
        let text = std::fs::read_to_string(note.path()).map_err(|error| error.to_string())?;
        peak = peak.max(text.trim().parse().map_err(|_| format!("not measured: GNU time says {text:?}"))?);
    }
    Ok(peak)
}
