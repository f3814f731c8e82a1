//! The three environments that only a command can tell: a tmux session's, the systemd user manager's, a fresh login shell's.
//!
//! They are read only when a person names them.

use std::io::Read;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::Host;
use super::environ::Environ;
use super::fact::{Fact, Unknown};

/// How long such a command may take. A login shell reads the person's profile, which may be slow.
const PATIENCE: Duration = Duration::from_secs(10);

/// More output than this is no environment.
const LIMIT: u64 = 16 << 20;

/// A command to run, and how its output separates entries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recipe {
    /// Program and arguments.
    pub argv: Vec<String>,
    /// Entries are separated by newlines; else by NUL.
    pub lines: bool,
    /// Variables the command starts with; none = those of this program.
    pub environment: Option<Vec<(String, String)>>,
}

/// The environment that a command prints, kept in a snapshot under `key`.
///
/// # Errors
/// The command is not there, fails, is too slow, or the snapshot does not hold its answer.
pub fn environment(host: &Host, key: &str, recipe: &Recipe) -> Fact<Environ> {
    host.masked_fact("commands.json", key, || run(recipe), |mask, environ| mask.environ(environ))
}

fn run(recipe: &Recipe) -> Fact<Environ> {
    let (program, arguments) = recipe.argv.split_first().ok_or(Unknown::Absent)?;
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    if let Some(environment) = &recipe.environment {
        command.env_clear().envs(environment.iter().cloned());
    }
    let mut child = command.spawn().map_err(|error| Unknown::Io(format!("cannot run {program}: {error}")))?;
    let output = child.stdout.take().map(|pipe| std::thread::spawn(move || read_all(pipe)));
    let complaint = child.stderr.take().map(|pipe| std::thread::spawn(move || read_all(pipe)));
    let start = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if start.elapsed() > PATIENCE {
            let _ = child.kill();
            let _ = child.wait();
            return Err(Unknown::Io(format!("{program} did not end within {} s", PATIENCE.as_secs())));
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    let text = |thread: Option<std::thread::JoinHandle<Vec<u8>>>| thread.and_then(|thread| thread.join().ok()).unwrap_or_default();
    if !status.success() {
        let complaint = text(complaint);
        let first = complaint.split(|&byte| byte == b'\n').next().unwrap_or_default();
        return Err(Unknown::Io(format!("{program} failed ({status}): {}", String::from_utf8_lossy(first))));
    }
    let output = text(output);
    Ok(if recipe.lines { Environ::parse_file(&output) } else { Environ::parse(&output) })
}

fn read_all(pipe: impl Read) -> Vec<u8> {
    let mut bytes = Vec::new();
    // What could be read before an error is what there is.
    let _ = pipe.take(LIMIT).read_to_end(&mut bytes);
    bytes
}
