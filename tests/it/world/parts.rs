//! The smaller servers that variables point to: an ssh agent, a session bus, tmux.

use super::accounts::{Account, run};
use super::guard::{Other, Proc, tied};
use super::look::{self, wait_for, wait_until};
use super::need::{Needed, tool};
use super::sshd::{Session, quoted};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// An ssh-agent with one key in it.
#[derive(Debug)]
pub struct Agent {
    server: Proc,
    pub socket: PathBuf,
}

impl Agent {
    /// The agent of the client's side, which `ssh -A` forwards.
    pub fn start(dir: &Path) -> Needed<Agent> {
        Agent::new(dir, tied(tool("ssh-agent", "openssh-client")?)?)
    }

    /// An agent of the account's own on the server.
    pub fn start_as(account: &Account, dir: &Path) -> Needed<Agent> {
        let agent = Agent::new(dir, account.tied(tool("ssh-agent", "openssh-client")?)?)?;
        Ok(agent)
    }

    fn new(dir: &Path, mut command: Command) -> Needed<Agent> {
        let socket = dir.join("agent.sock");
        let server = Proc::spawn("ssh-agent", command.arg("-D").arg("-a").arg(&socket).stdout(Stdio::null()));
        wait_until("the agent's socket", || look::unix_socket_listens(&socket));
        let key = dir.join("agent_key");
        if !key.exists() {
            run(Command::new(tool("ssh-keygen", "openssh-client")?)
                .args(["-q", "-t", "ed25519", "-N", "", "-C", "whoseenv-test-key", "-f"])
                .arg(&key));
        }
        run(Command::new(tool("ssh-add", "openssh-client")?).arg("-q").arg(&key).env("SSH_AUTH_SOCK", &socket));
        Ok(Agent { server, socket })
    }

    pub fn pid(&self) -> u32 {
        self.server.pid()
    }

    /// Ends it as a logout does: the socket goes.
    pub fn stop(mut self) {
        self.server.stop();
    }

    /// Ends it as a crash does: the socket file stays, and nothing listens.
    pub fn crash(mut self) {
        self.server.kill();
    }
}

/// A session bus of an account's.
#[derive(Debug)]
pub struct Bus {
    server: Proc,
    /// What `DBUS_SESSION_BUS_ADDRESS` is.
    pub address: String,
    pub socket: PathBuf,
}

impl Bus {
    pub fn start(account: &Account, dir: &Path) -> Needed<Bus> {
        let socket = dir.join("bus");
        let mut server = Proc::spawn(
            "dbus-daemon",
            account
                .tied(tool("dbus-daemon", "dbus")?)?
                .args(["--session", "--nofork", "--nopidfile", "--print-address"])
                .arg(format!("--address=unix:path={}", socket.display()))
                .stdout(Stdio::piped())
                .stderr(Stdio::null()),
        );
        let mut address = String::new();
        BufReader::new(server.child().stdout.take().expect("piped")).read_line(&mut address).expect("the bus prints its address");
        Ok(Bus { server, address: address.trim().to_owned(), socket })
    }

    pub fn pid(&self) -> u32 {
        self.server.pid()
    }

    pub fn stop(mut self) {
        self.server.stop();
    }
}

/// A tmux server that a login started, as people do: it stays when the login goes.
#[derive(Debug)]
pub struct Tmux {
    server: Other,
    account: Account,
    /// The value of `tmux -L`.
    pub name: String,
    pub socket: PathBuf,
    /// The first pane's shell.
    pub pane: u32,
}

impl Tmux {
    /// `tmux -L NAME new-session -d -s main`
    pub fn start_in(login: &mut Session, name: &str) -> Needed<Tmux> {
        tool("tmux", "tmux")?;
        let t = format!("tmux -L {} -f /dev/null", quoted(name));
        login.stdout(&format!("{t} new-session -d -s main -x 80 -y 24"));
        let facts = login.stdout(&format!("{t} display-message -p -t main '#{{pid}} #{{pane_pid}} #{{socket_path}}'"));
        let facts: Vec<&str> = facts.trim().split(' ').collect();
        let number = |i: usize| facts[i].parse().expect("a pid");
        let server = Other::new(number(0)).expect("the tmux server runs");
        Ok(Tmux { server, account: login.account.clone(), name: name.to_owned(), socket: facts[2].into(), pane: number(1) })
    }

    pub fn pid(&self) -> u32 {
        self.server.pid
    }

    /// The words that start a tmux command of this server.
    pub fn command(&self) -> String {
        format!("tmux -L {} -f /dev/null", quoted(&self.name))
    }

    /// Asks the server from outside of any login, as the account.
    pub fn ask(&self, arguments: &[&str]) -> String {
        run(self.account.command("tmux").arg("-S").arg(&self.socket).args(arguments))
    }

    /// Attaches a login that has a terminal, and returns when the server knows that client.
    pub fn attach(&self, login: &mut Session) {
        let before = self.clients();
        login.type_line(&format!("{} attach -t main", self.command()));
        wait_until("the tmux client", || self.clients() > before);
    }

    /// How many clients are attached.
    pub fn clients(&self) -> usize {
        self.ask(&["list-clients"]).lines().count()
    }

    pub fn stop(self) {
        self.server.stop();
    }
}

impl Drop for Tmux {
    fn drop(&mut self) {
        self.server.stop();
    }
}

/// A terminal window of the client's side, with one program in it: tmux, which can be typed into and looked at.
#[derive(Debug)]
pub struct Screen {
    server: Proc,
    tmux: PathBuf,
    socket: PathBuf,
}

impl Screen {
    pub fn start(dir: &Path, columns: u16, rows: u16, env: &[(String, String)], words: &[String]) -> Needed<Screen> {
        let tmux = tool("tmux", "tmux")?;
        let socket = dir.join("window.sock");
        // -D: the server stays our child, and ends with us.
        let mut server = tied(&tmux)?;
        server
            .arg("-S")
            .arg(&socket)
            .args(["-f", "/dev/null", "-D"])
            .env_clear()
            .env("LANG", "C.UTF-8")
            .envs(env.iter().cloned())
            .current_dir(dir);
        let server = Proc::spawn("tmux", server.stdout(Stdio::null()).stderr(Stdio::null()));
        wait_until("the window's tmux", || look::unix_socket_listens(&socket));
        let screen = Screen { server, tmux, socket };
        let program = words.iter().map(|w| quoted(w)).collect::<Vec<_>>().join(" ");
        let size = [columns.to_string(), rows.to_string()];
        // What is asked from here on comes from the test: its environment is not the window's.
        screen.ask(
            &[
                "set-option",
                "-g",
                "remain-on-exit",
                "on",
                ";",
                "set-option",
                "-g",
                "status",
                "off",
                ";",
                "set-option",
                "-g",
                "history-limit",
                "10000",
                ";",
                "set-option",
                "-g",
                "update-environment",
                "",
                ";",
            ]
            .into_iter()
            .chain(["new-session", "-d", "-s", "main", "-x", &size[0], "-y", &size[1], &format!("exec {program}")])
            .collect::<Vec<_>>(),
        );
        Ok(screen)
    }

    fn ask(&self, arguments: &[&str]) -> String {
        run(Command::new(&self.tmux).arg("-S").arg(&self.socket).args(arguments).env("LANG", "C.UTF-8"))
    }

    pub fn type_line(&self, line: &str) {
        self.ask(&["send-keys", "-t", "main", "-l", line]);
        self.ask(&["send-keys", "-t", "main", "Enter"]);
    }

    /// A key by tmux's name: `C-c`, `q`, `Escape`.
    pub fn key(&self, key: &str) {
        self.ask(&["send-keys", "-t", "main", key]);
    }

    pub fn resize(&self, columns: u16, rows: u16) {
        self.ask(&["resize-window", "-t", "main", "-x", &columns.to_string(), "-y", &rows.to_string()]);
    }

    /// The window's lines, history first, trailing blanks gone.
    pub fn picture(&self) -> String {
        self.ask(&["capture-pane", "-p", "-S", "-", "-t", "main"]).trim_end().to_owned()
    }

    /// The program in it.
    pub fn program(&self) -> u32 {
        wait_for("the window's program", || self.ask(&["display-message", "-p", "-t", "main", "#{pane_pid}"]).trim().parse().ok())
    }

    pub fn stop(&mut self) {
        let program = Other::new(self.program());
        self.server.kill();
        if let Some(program) = program {
            program.stop();
        }
    }
}
