//! The processes to look at.
//!
//! A keeper, this program once more, in a session of its own, starts them and ends them when its standard input
//! ends: so they go when the run is over, when it fails, and when it is interrupted or killed.
//!
//! What it is told, a line each, answered by a line each:
//!
//! ```text
//! grow PROCESSES HOLDERS DESCRIPTORS      so many processes in all, the first of them with so many open files
//! daemon PORT PROGRAM                     PROGRAM serve --port PORT, until it listens
//! ```

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

/// Programs on a machine are not all one file: copies of `sleep` under these names, so many of each.
const PROGRAMS: &[&str] = &["worker", "postgres", "nginx", "python3.11", "bash", "containerd-shim", "redis-server", "java"];
const COPIES: usize = 8;

/// The machine under load; it is gone when this is dropped.
pub struct Load {
    keeper: Child,
    orders: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Load {
    pub fn start() -> Result<Load, String> {
        let program = std::env::current_exe().map_err(|error| error.to_string())?;
        let mut command = Command::new(program);
        command.arg("--keeper").stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut keeper = command.spawn().map_err(|error| format!("the keeper: {error}"))?;
        let (orders, answers) = (keeper.stdin.take(), keeper.stdout.take().expect("it is piped"));
        Ok(Load { keeper, orders, answers: BufReader::new(answers) })
    }

    pub fn grow_to(&mut self, processes: usize, holders: usize, descriptors: usize) -> Result<(), String> {
        self.order(&format!("grow {processes} {holders} {descriptors}"))
    }

    /// Real OpenCode servers, as far as the tests' cache holds them; returns which.
    pub fn add_daemons(&mut self) -> Result<Vec<String>, String> {
        let mut added = Vec::new();
        for program in cached() {
            let port = TcpListener::bind("127.0.0.1:0").and_then(|socket| socket.local_addr()).map_err(|error| error.to_string())?.port();
            self.order(&format!("daemon {port} {}", program.display()))?;
            added.push(program.parent().and_then(Path::file_name).unwrap_or_default().to_string_lossy().into_owned());
        }
        Ok(added)
    }

    fn order(&mut self, line: &str) -> Result<(), String> {
        let orders = self.orders.as_mut().expect("open until dropped");
        writeln!(orders, "{line}").and_then(|()| orders.flush()).map_err(|error| format!("the keeper: {error}"))?;
        let mut answer = String::new();
        self.answers.read_line(&mut answer).map_err(|error| format!("the keeper: {error}"))?;
        match answer.trim() {
            "done" => Ok(()),
            "" => Err(format!("the keeper ended at: {line}")),
            reason => Err(format!("{line}: {reason}")),
        }
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.orders = None;
        let _ = self.keeper.wait();
    }
}

/// How many processes the machine has.
pub fn running() -> usize {
    let is_process = |entry: &std::fs::DirEntry| entry.file_name().to_string_lossy().bytes().all(|byte| byte.is_ascii_digit());
    std::fs::read_dir("/proc").map_or(0, |entries| entries.flatten().filter(is_process).count())
}

/// The OpenCode programs in the tests' cache: 1.x and the 2.0 preview.
fn cached() -> Vec<PathBuf> {
    let set = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let cache = set("WHOSEENV_TEST_PEERS").or_else(|| {
        set("XDG_CACHE_HOME").or_else(|| set("HOME").map(|home| home.join(".cache"))).map(|dir| dir.join("whoseenv/test-peers"))
    });
    let places = cache.and_then(|cache| std::fs::read_dir(cache).ok()).into_iter().flatten().flatten();
    let mut programs: Vec<PathBuf> =
        places.flat_map(|place| ["opencode", "opencode2"].map(|name| place.path().join(name))).filter(|file| file.is_file()).collect();
    programs.sort();
    programs.truncate(2);
    programs
}

/// The keeper.
pub fn keep() -> ExitCode {
    // A Ctrl-C is for the run; the keeper hears of it when its input ends.
    let _ = rustix::process::setsid();
    let mut kept = match Kept::new() {
        Ok(kept) => kept,
        Err(reason) => {
            println!("{reason}");
            return ExitCode::FAILURE;
        }
    };
    for line in std::io::stdin().lines().map_while(Result::ok) {
        match kept.obey(&line) {
            Ok(()) => println!("done"),
            Err(reason) => println!("{}", reason.replace('\n', " ")),
        }
    }
    ExitCode::SUCCESS
}

/// What the keeper started.
struct Kept {
    processes: Vec<Child>,
    daemons: Vec<Child>,
    programs: Vec<PathBuf>,
    /// Goes last.
    dir: tempfile::TempDir,
}

impl Kept {
    fn new() -> Result<Kept, String> {
        let dir = tempfile::tempdir().map_err(|error| error.to_string())?;
        let mut programs = Vec::new();
        for copy in 0..COPIES {
            let bin = dir.path().join(format!("srv{copy}/bin"));
            std::fs::create_dir_all(&bin).map_err(|error| error.to_string())?;
            for name in PROGRAMS {
                let program = bin.join(name);
                std::fs::copy("/usr/bin/sleep", &program).map_err(|error| format!("/usr/bin/sleep: {error}"))?;
                programs.push(program);
            }
        }
        Ok(Kept { processes: Vec::new(), daemons: Vec::new(), programs, dir })
    }

    fn obey(&mut self, line: &str) -> Result<(), String> {
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["grow", processes, holders, descriptors] => {
                let number = |word: &str| word.parse::<usize>().map_err(|error| error.to_string());
                self.grow(number(processes)?, number(holders)?, descriptors)
            }
            ["daemon", port, program] => self.daemon(port, program),
            _ => Err(format!("what is {line:?}?")),
        }
    }

    fn grow(&mut self, processes: usize, holders: usize, descriptors: &str) -> Result<(), String> {
        while self.processes.len() < processes {
            let number = self.processes.len();
            let mut command = if number < holders {
                let mut command = Command::new(std::env::current_exe().map_err(|error| error.to_string())?);
                command.args(["--holder", descriptors]);
                command
            } else {
                let program = &self.programs[number % self.programs.len()];
                let mut command = Command::new(program);
                // `sleep` adds its arguments up: the rest makes the line as long as such lines are.
                command.args(["1000000", "0.00000000000000000000000000000000000001", "0.0000000000000001"]);
                command
            };
            command.env_clear().envs(environment(number, self.dir.path())).current_dir("/");
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            self.processes.push(command.spawn().map_err(|error| format!("process {number}: {error}"))?);
        }
        Ok(())
    }

    fn daemon(&mut self, port: &str, program: &str) -> Result<(), String> {
        let home = self.dir.path().join(format!("home{port}"));
        std::fs::create_dir(&home).map_err(|error| error.to_string())?;
        let mut command = Command::new(program);
        command.args(["serve", "--port", port]).env_clear().envs(environment(0, &home)).current_dir(&home);
        command.env("OPENCODE_DISABLE_AUTOUPDATE", "1").env("OPENCODE_DISABLE_MODELS_FETCH", "1");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(File::create(home.join("log")).map_err(|error| error.to_string())?);
        let child = command.process_group(0).spawn().map_err(|error| format!("{program}: {error}"))?;
        self.daemons.push(child);
        let start = Instant::now();
        while TcpStream::connect(format!("127.0.0.1:{port}")).is_err() {
            if start.elapsed() > Duration::from_secs(30) {
                return Err(format!("{program} does not listen on port {port}"));
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        Ok(())
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        for child in &self.daemons {
            if let Some(group) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
                let _ = kill_process_group(group, Signal::KILL);
            }
        }
        for child in &mut self.processes {
            let _ = child.kill();
        }
        for child in self.processes.iter_mut().chain(&mut self.daemons) {
            let _ = child.wait();
        }
    }
}

/// An environment of some 3 KB, as a service started from a login has it.
fn environment(number: usize, home: &Path) -> Vec<(String, String)> {
    let home = home.display().to_string();
    let mut variables: Vec<(String, String)> = [
        ("SHELL", "/bin/bash"),
        ("HOME", &home),
        ("USER", "build"),
        ("LOGNAME", "build"),
        ("LANG", "C.UTF-8"),
        ("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/usr/games:/opt/tools/bin"),
        ("DISPLAY", "localhost:10.0"),
        ("SSH_CLIENT", "192.0.2.7 50022 22"),
        ("SSH_CONNECTION", "192.0.2.7 50022 192.0.2.1 22"),
        ("SSH_TTY", "/dev/pts/4"),
        ("SSH_AUTH_SOCK", "/tmp/ssh-XXXXl0aded/agent.4711"),
        ("XDG_RUNTIME_DIR", "/run/user/1000"),
        ("XDG_SESSION_ID", "17"),
        ("XDG_SESSION_TYPE", "tty"),
        ("XDG_SESSION_CLASS", "user"),
        ("XDG_DATA_DIRS", "/usr/local/share:/usr/share:/var/lib/flatpak/exports/share"),
        ("DBUS_SESSION_BUS_ADDRESS", "unix:path=/run/user/1000/bus"),
        ("TERM", "tmux-256color"),
        ("COLORTERM", "truecolor"),
        ("TMUX", "/tmp/tmux-1000/default,3900,0"),
        ("TMUX_PANE", "%3"),
        ("EDITOR", "vim"),
        ("PAGER", "less"),
        ("MAIL", "/var/mail/build"),
        ("LESSOPEN", "| /usr/bin/lesspipe %s"),
        ("LESSCLOSE", "/usr/bin/lesspipe %s %s"),
        ("NVM_DIR", "/home/build/.nvm"),
        ("CARGO_HOME", "/home/build/.cargo"),
        ("JAVA_HOME", "/usr/lib/jvm/default-java"),
        ("SERVICE_OPTIONS", "-Xms256m -Xmx2048m -Dfile.encoding=UTF-8 -Djava.awt.headless=true"),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .into();
    variables.push(("SERVICE_INSTANCE".to_owned(), format!("{number:08}")));
    variables.push(("LS_COLORS".to_owned(), "*.tar=01;31:*.zip=01;31:*.jpg=01;35:*.mp3=00;36:".repeat(42)));
    variables
}

/// A process with so many open files: regular files, sockets and pipes.
pub fn hold(descriptors: usize) -> ExitCode {
    let mut files = Vec::new();
    let mut sockets = Vec::new();
    while files.len() + 2 * sockets.len() < descriptors.saturating_sub(3) {
        files.extend(File::open("/etc/passwd"));
        sockets.extend(std::os::unix::net::UnixStream::pair());
    }
    loop {
        std::thread::park();
    }
}
