//! Commands that tell an environment: `tmux show-environment`, `systemctl --user show-environment`, a login shell.
//!
//! They are run only when a reference that names one was given; nothing that merely looks comes here.

use std::ffi::OsString;
use std::io::Read;
use std::process::{Command, Stdio};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::Host;
use super::environ::Environ;
use super::fact::{Fact, Raw, Unknown};

/// How long a command may take.
pub const PATIENCE: Duration = Duration::from_secs(2);

/// More than any environment.
const OUTPUT_LIMIT: u64 = 8 << 20;

/// What a command told of an environment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Layer {
    /// The variables that it sets.
    pub environ: Environ,
    /// The variables that it takes away (tmux: `-NAME`).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub removed: Vec<Raw>,
}

impl Host {
    /// Runs a command, as the invoking user and without a shell, and parses what it prints. A snapshot keeps the
    /// answer with its values masked.
    ///
    /// # Errors
    /// When it cannot be started, takes longer than [`PATIENCE`], or fails: then with its first line of complaint.
    pub fn layer(&self, argv: &[OsString], parse: fn(&[u8]) -> Layer) -> Fact<Layer> {
        let key = argv.iter().map(|argument| argument.to_string_lossy()).collect::<Vec<_>>().join(" ");
        let read = || {
            // A made-up tree has no programs; ours would answer for the wrong machine.
            if self.live_root() != Some(std::path::Path::new("/")) {
                return Err(Unknown::NotCaptured);
            }
            Ok(parse(&run(argv)?))
        };
        self.masked_fact("commands.json", &key, read, |mask, layer| Layer {
            environ: mask.environ(&layer.environ),
            removed: layer.removed.clone(),
        })
    }
}

fn run(argv: &[OsString]) -> Fact<Vec<u8>> {
    let (program, arguments) = argv.split_first().ok_or_else(|| Unknown::Io("no command".to_owned()))?;
    let mut child = Command::new(program).args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let (sender, output) = channel();
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    std::thread::spawn(move || {
        let told = stdout.map_or(Ok(Vec::new()), all);
        drop(sender.send((told, stderr.map_or(Ok(Vec::new()), all))));
    });
    let end = Instant::now() + PATIENCE;
    let told = output.recv_timeout(PATIENCE);
    let status = loop {
        match child.try_wait()? {
            Some(status) => break status,
            None if told.is_err() || Instant::now() >= end => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(Unknown::Deadline);
            }
            None => std::thread::sleep(Duration::from_millis(2)),
        }
    };
    let (stdout, stderr) = told.map_err(|_| Unknown::Deadline)?;
    if status.success() {
        return Ok(stdout?);
    }
    let complaint = stderr.unwrap_or_default();
    let line = String::from_utf8_lossy(&complaint).lines().next().unwrap_or("it failed without a word").to_owned();
    Err(Unknown::Io(line))
}

fn all(stream: impl Read) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    stream.take(OUTPUT_LIMIT).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<OsString> {
        line.split(' ').map(OsString::from).collect()
    }

    #[test]
    fn a_command_answers_fails_or_takes_too_long() {
        assert_eq!(run(&words("echo A=1")), Ok(b"A=1\n".to_vec()));
        assert!(matches!(run(&words("ls /no/such/dir")), Err(Unknown::Io(line)) if line.contains("/no/such/dir")));
        assert_eq!(run(&words("whoseenv-no-such-program")), Err(Unknown::Absent));
        let start = Instant::now();
        assert_eq!(run(&words("sleep 30")), Err(Unknown::Deadline));
        assert!(start.elapsed() < Duration::from_secs(4));
    }

    #[test]
    fn a_made_up_machine_runs_nothing() {
        let tree = tempfile::tempdir().unwrap();
        let layer = Host::at_root(tree.path()).layer(&words("echo A=1"), |_| Layer::default());
        assert_eq!(layer, Err(Unknown::NotCaptured));
    }
}
