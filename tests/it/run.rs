//! Runs the program under test with a cleared environment.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

/// The program under test.
pub const PROGRAM: &str = env!("CARGO_BIN_EXE_whoseenv");

/// A command of the program, with nothing in its environment but PATH and HOME.
pub fn whoseenv(arguments: &[&str]) -> Command {
    let mut command = Command::new(PROGRAM);
    command.args(arguments).env_clear().env("PATH", "/usr/bin:/bin").env("HOME", "/nonexistent").stdin(Stdio::null());
    command
}

/// What it printed and how it ended.
pub struct Ran {
    pub stdout: String,
    pub stderr: String,
    pub code: i32,
}

impl Ran {
    /// The JSON it printed.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {}\n{}", self.stdout, self.stderr))
    }
}

/// Runs a command to its end.
pub fn ran(command: &mut Command) -> Ran {
    let Output { status, stdout, stderr } = command.output().expect("the program starts");
    let text = |bytes| String::from_utf8(bytes).expect("the program prints UTF-8");
    Ran { stdout: text(stdout), stderr: text(stderr), code: status.code().expect("the program is not killed by a signal") }
}

/// Runs the program with arguments.
pub fn run(arguments: &[&str]) -> Ran {
    ran(&mut whoseenv(arguments))
}

/// A process with an environment of the test's choosing, which ends with the value.
pub struct Sleeper(pub std::process::Child);

impl Sleeper {
    /// Starts `sleep` with exactly these variables.
    pub fn start(environment: &[(&str, &str)]) -> Sleeper {
        let mut command = Command::new("sleep");
        command.arg("600").env_clear().envs(environment.iter().copied()).stdin(Stdio::null()).stdout(Stdio::null());
        Sleeper::of(&mut command)
    }

    /// Starts any command, and waits until it has become what it will be.
    pub fn of(command: &mut Command) -> Sleeper {
        let sleeper = Sleeper(command.spawn().expect("the command starts"));
        let exe = format!("/proc/{}/exe", sleeper.0.id());
        let own = std::fs::read_link("/proc/self/exe").expect("own exe");
        for _ in 0..200 {
            if std::fs::read_link(&exe).is_ok_and(|exe| exe != own) {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        sleeper
    }

    /// Its pid, as an argument.
    pub fn pid(&self) -> String {
        self.0.id().to_string()
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A file in a directory.
pub fn write(dir: &Path, name: &str, bytes: &[u8]) -> std::path::PathBuf {
    let path = dir.join(name);
    std::fs::File::create(&path).and_then(|mut file| file.write_all(bytes)).expect("a test file can be written");
    path
}
