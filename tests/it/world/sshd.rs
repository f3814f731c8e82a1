//! A private sshd on loopback, and real logins to it, each from a client address of its own.
//!
//! One machine plays both sides. The *client* side (ssh, its agent, its screen, its terminal) runs as root from a
//! directory of its own; the *server* side is what the account sees. Whatever a login runs is read back through
//! files, so output is exact, with a terminal or without.

use super::accounts::{Account, run};
use super::display::Display;
use super::guard::{Other, Proc, tied};
use super::look::{self, PATIENCE, Process, wait_until, wait_up_to};
use super::need::{Needed, tool};
use super::parts::{Agent, Screen};
use serde_json::Value;
use std::cell::Cell;
use std::fs;
use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Where the server listens.
const SERVER: Ipv4Addr = Ipv4Addr::LOCALHOST;

#[derive(Debug)]
pub struct Sshd {
    server: Proc,
    pub port: u16,
    dir: PathBuf,
    logins: Cell<u32>,
}

/// How X11 is forwarded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum X11 {
    /// Not at all: no DISPLAY.
    None,
    /// `ssh -Y`
    Trusted,
    /// `ssh -X` with `ForwardX11Timeout` in seconds: later connections are accepted by the server's listener and
    /// then refused by the client.
    Untrusted { timeout: u32 },
}

/// The terminal that a login has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Terminal {
    /// A shell that reads commands from a pipe.
    None,
    /// `ssh -tt`: a controlling terminal of the default size.
    Tty,
    /// A real terminal window, `columns` by `rows`: tmux on the client's side, which can be looked at.
    Window { columns: u16, rows: u16 },
}

/// What a login is to be like.
#[derive(Debug, Clone)]
pub struct Login<'a> {
    from: Ipv4Addr,
    account: &'a Account,
    x11: X11,
    terminal: Terminal,
    agent: Option<&'a Agent>,
    master: Option<PathBuf>,
    over: Option<PathBuf>,
    options: Vec<String>,
}

impl<'a> Login<'a> {
    /// A login from 127.0.0.`last`, with nothing forwarded and no terminal.
    pub fn from(last: u8, account: &'a Account) -> Login<'a> {
        Login {
            from: Ipv4Addr::new(127, 0, 0, last),
            account,
            x11: X11::None,
            terminal: Terminal::None,
            agent: None,
            master: None,
            over: None,
            options: Vec::new(),
        }
    }

    pub fn x11(mut self, x11: X11) -> Self {
        self.x11 = x11;
        self
    }

    pub fn terminal(mut self, terminal: Terminal) -> Self {
        self.terminal = terminal;
        self
    }

    /// `ssh -A`: forwards this agent.
    pub fn agent(mut self, agent: &'a Agent) -> Self {
        self.agent = Some(agent);
        self
    }

    /// Makes this connection a ControlMaster at a socket of the client's.
    pub fn master(mut self, socket: &Path) -> Self {
        self.master = Some(socket.to_owned());
        self
    }

    /// Goes over the connection of a master instead of one of its own.
    pub fn over(mut self, master: &Path) -> Self {
        self.over = Some(master.to_owned());
        self
    }

    /// One more `-o` for ssh, as `SetEnv=LC_X=1`.
    pub fn option(mut self, option: &str) -> Self {
        self.options.push(option.to_owned());
        self
    }
}

impl Sshd {
    /// Starts a server; the first forwarded display is `localhost:<display_offset>`.
    pub fn start(dir: &Path, display_offset: u16, accounts: &[&Account]) -> Needed<Sshd> {
        let sshd = tool("sshd", "openssh-server")?;
        let keygen = tool("ssh-keygen", "openssh-client")?;
        let xauth = tool("xauth", "xauth")?;
        fs::create_dir_all("/run/sshd").expect("sshd's own empty directory");
        fs::create_dir(dir).expect("a directory for sshd");
        for key in ["host_key", "user_key"] {
            run(Command::new(&keygen).args(["-q", "-t", "ed25519", "-N", "", "-C", key, "-f"]).arg(dir.join(key)));
        }
        fs::copy(dir.join("user_key.pub"), dir.join("authorized_keys")).expect("a key can be copied");
        let users: Vec<&str> = accounts.iter().map(|a| a.name.as_str()).collect();
        let config = dir.join("sshd_config");
        let file = |name: &str| dir.join(name).display().to_string();
        // Somebody else may take the port between the choice and the bind: then choose again.
        for _ in 0..5 {
            let port = look::free_port();
            let settings = [
                format!("ListenAddress {SERVER}:{port}"),
                format!("HostKey {}", file("host_key")),
                format!("AuthorizedKeysFile {}", file("authorized_keys")),
                format!("XAuthLocation {}", xauth.display()),
                format!("X11DisplayOffset {display_offset}"),
                format!("AllowUsers {}", users.join(" ")),
                "X11Forwarding yes\nX11UseLocalhost yes\nAllowAgentForwarding yes\nUsePAM no\nStrictModes no\nPasswordAuthentication no\n\
                 KbdInteractiveAuthentication no\nUseDNS no\nPidFile none\nPrintMotd no\nPrintLastLog no\nMaxStartups 100\nMaxSessions 50\n\
                 LoginGraceTime 20\nLogLevel VERBOSE\nAcceptEnv LANG LC_* COLORTERM WHOSEENV_TEST_*"
                    .into(),
            ];
            fs::write(&config, settings.join("\n") + "\n").expect("a configuration can be written");
            let mut server = Proc::spawn(
                "sshd",
                tied(&sshd)?
                    .args(["-D", "-E"])
                    .arg(dir.join("sshd.log"))
                    .arg("-f")
                    .arg(&config)
                    .stdout(Stdio::null())
                    .stderr(Stdio::null()),
            );
            let up = wait_up_to(PATIENCE, || {
                if server.ended().is_some() {
                    return Some(false);
                }
                look::listeners(port).iter().any(|r| r.uid == 0).then_some(true)
            });
            if up == Some(true) {
                let key = fs::read_to_string(dir.join("host_key.pub")).expect("the host key is there");
                fs::write(dir.join("known_hosts"), format!("[{SERVER}]:{port} {key}")).expect("a file can be written");
                return Ok(Sshd { server, port, dir: dir.to_owned(), logins: Cell::new(0) });
            }
        }
        panic!("sshd does not start: {}", fs::read_to_string(dir.join("sshd.log")).unwrap_or_default());
    }

    pub fn pid(&self) -> u32 {
        self.server.pid()
    }

    /// What sshd wrote.
    pub fn log(&self) -> String {
        fs::read_to_string(self.dir.join("sshd.log")).unwrap_or_default()
    }

    /// Logs in and returns when the shell answers. `screen`: where the client's windows go.
    pub fn login(&self, wanted: &Login, screen: &Display) -> Needed<Session> {
        let number = self.logins.get();
        self.logins.set(number + 1);
        let dir = self.dir.join(format!("login-{number}"));
        fs::create_dir(&dir).expect("a directory for the login");
        let exchange = wanted.account.private_dir(&dir.join("exchange"));
        let mut words = vec![tool("ssh", "openssh-client")?.display().to_string()];
        words.extend(self.client_options(wanted));
        words.push(format!("{}@{SERVER}", wanted.account.name));
        let mut settings = vec![
            ("HOME".to_owned(), dir.display().to_string()),
            ("PATH".to_owned(), "/usr/bin:/bin".to_owned()),
            ("TERM".to_owned(), "xterm-256color".to_owned()),
            ("DISPLAY".to_owned(), screen.name.clone()),
            ("XAUTHORITY".to_owned(), screen.authority.display().to_string()),
        ];
        settings.extend(wanted.agent.map(|a| ("SSH_AUTH_SOCK".to_owned(), a.socket.display().to_string())));
        let link = if let Terminal::Window { columns, rows } = wanted.terminal {
            Link::Window(Screen::start(&dir, columns, rows, &settings, &words)?)
        } else {
            let log = fs::File::create(dir.join("ssh.log")).expect("a log can be made");
            Link::Pipe(Proc::spawn(
                "ssh",
                tied(&words[0])?
                    .args(&words[1..])
                    .env_clear()
                    .envs(settings)
                    .current_dir(&dir)
                    .stdin(Stdio::piped())
                    .stdout(log.try_clone().expect("a second handle"))
                    .stderr(log),
            ))
        };
        let mut session = Session {
            link,
            dir,
            exchange,
            asked: 0,
            account: wanted.account.clone(),
            environ: Vec::new(),
            shell: None,
            whoseenv: None,
            shares_connection: wanted.over.is_some(),
        };
        let pid: u32 = session.stdout("echo $$").trim().parse().expect("the shell's pid");
        session.shell = Other::new(pid);
        session.environ = Process::read(pid).expect("the shell runs").environ();
        Ok(session)
    }

    fn client_options(&self, wanted: &Login) -> Vec<String> {
        let file = |name: &str| self.dir.join(name).display().to_string();
        let mut words: Vec<String> = vec!["-F".into(), "/dev/null".into(), "-p".into(), self.port.to_string()];
        words.extend(["-i".into(), file("user_key"), "-b".into(), wanted.from.to_string()]);
        let mut option = |text: String| words.extend(["-o".into(), text]);
        option(format!("UserKnownHostsFile={}", file("known_hosts")));
        option("GlobalKnownHostsFile=/dev/null".into());
        option("IdentitiesOnly=yes".into());
        option("StrictHostKeyChecking=yes".into());
        option("BatchMode=yes".into());
        option("EscapeChar=none".into());
        match (&wanted.master, &wanted.over) {
            (Some(socket), _) => {
                option("ControlMaster=yes".into());
                option(format!("ControlPath={}", socket.display()));
            }
            (None, Some(socket)) => {
                option("ControlMaster=no".into());
                option(format!("ControlPath={}", socket.display()));
            }
            (None, None) => option("ControlPath=none".into()),
        }
        match wanted.x11 {
            X11::None => option("ForwardX11=no".into()),
            X11::Trusted => {
                option("ForwardX11=yes".into());
                option("ForwardX11Trusted=yes".into());
            }
            X11::Untrusted { timeout } => {
                option("ForwardX11=yes".into());
                option("ForwardX11Trusted=no".into());
                option(format!("ForwardX11Timeout={timeout}"));
            }
        }
        match wanted.agent {
            Some(agent) => option(format!("ForwardAgent={}", agent.socket.display())),
            None => option("ForwardAgent=no".into()),
        }
        wanted.options.iter().cloned().for_each(&mut option);
        words.push(if wanted.terminal == Terminal::None { "-T" } else { "-tt" }.into());
        words
    }
}

#[derive(Debug)]
enum Link {
    Pipe(Proc),
    Window(Screen),
}

/// What a command in a login left behind.
#[derive(Debug, Clone)]
pub struct Answer {
    pub stdout: String,
    pub stderr: String,
    pub code: i32,
}

/// A login that is there: an interactive shell of the account's, and the ssh client that keeps it.
#[derive(Debug)]
pub struct Session {
    link: Link,
    dir: PathBuf,
    exchange: PathBuf,
    asked: u32,
    pub account: Account,
    environ: Vec<String>,
    shell: Option<Other>,
    /// The program under test, once the world has said where it is.
    pub whoseenv: Option<PathBuf>,
    shares_connection: bool,
}

impl Session {
    /// Runs a script in the login's own shell (`cd` and `export` stay) and waits for its end.
    pub fn run(&mut self, script: &str) -> Answer {
        let number = self.begin(script);
        self.finish(number, script)
    }

    fn begin(&mut self, script: &str) -> u32 {
        self.asked += 1;
        let number = self.asked;
        fs::write(self.exchange.join(format!("{number}.sh")), format!("{script}\n")).expect("a script can be written");
        self.account.own(&self.exchange.join(format!("{number}.sh")));
        // Short enough for the line buffer of any terminal; the answer's last file is complete when it has its name.
        let dir = self.exchange.display();
        self.type_line(&format!("X={dir}/{number}; . $X.sh </dev/null >$X.out 2>$X.err; echo $? >$X.rc_; mv $X.rc_ $X.rc"));
        number
    }

    fn finish(&mut self, number: u32, script: &str) -> Answer {
        let part = |kind: &str| self.exchange.join(format!("{number}.{kind}"));
        let (rc, out, err) = (part("rc"), part("out"), part("err"));
        let text = |file: &Path| String::from_utf8_lossy(&fs::read(file).unwrap_or_default()).into_owned();
        let code = wait_up_to(PATIENCE, || {
            if let Link::Pipe(client) = &mut self.link
                && let Some(end) = client.ended()
            {
                panic!("the login ended ({end}) during `{script}`: {}{}", text(&err), text(&self.dir.join("ssh.log")));
            }
            fs::read_to_string(&rc).ok()?.trim().parse().ok()
        });
        let code = code.unwrap_or_else(|| panic!("no answer to `{script}`: {}{}\n{}", text(&out), text(&err), self.picture()));
        Answer { stdout: text(&out), stderr: text(&err), code }
    }

    /// What a script prints; it must succeed.
    pub fn stdout(&mut self, script: &str) -> String {
        let answer = self.run(script);
        assert!(answer.code == 0, "`{script}`: {answer:?}");
        answer.stdout
    }

    /// Starts a program that outlives the login, as `nohup … &` does; returns its pid.
    pub fn spawn(&mut self, command: &str) -> Other {
        let pid = self.stdout(&format!("nohup {command} >{}/spawned.log 2>&1 & echo $!", self.exchange.display()));
        let pid = pid.trim().parse().expect("a pid");
        Other::new(pid).unwrap_or_else(|| panic!("`{command}` ended: {}", self.spawned_log()))
    }

    /// What spawned programs wrote.
    pub fn spawned_log(&self) -> String {
        fs::read_to_string(self.exchange.join("spawned.log")).unwrap_or_default()
    }

    /// Runs a program with these arguments, whatever is in them.
    pub fn program(&mut self, program: &Path, arguments: &[&str]) -> Answer {
        self.run(&words(program, arguments))
    }

    /// `whoseenv` in this login: its JSON and its exit code.
    pub fn whoseenv(&mut self, arguments: &[&str]) -> (Value, i32) {
        let program = self.whoseenv.clone().expect("the world says where whoseenv is");
        self.program(&program, arguments).json()
    }

    /// A line typed at the shell, or at whatever program has the terminal; nobody waits for it.
    pub fn type_line(&mut self, line: &str) {
        match &mut self.link {
            Link::Pipe(client) => {
                let stdin = client.child().stdin.as_mut().expect("piped");
                stdin.write_all(format!("{line}\n").as_bytes()).and_then(|()| stdin.flush()).expect("the client reads");
            }
            Link::Window(screen) => screen.type_line(line),
        }
    }

    /// Makes the window another size, as a person who drags its corner.
    pub fn resize(&mut self, columns: u16, rows: u16) {
        let Link::Window(screen) = &self.link else { panic!("this login has no window") };
        screen.resize(columns, rows);
        let size = format!("{rows} {columns}");
        wait_until("the new size to arrive", || self.run("stty size </dev/tty").stdout.trim() == size);
    }

    /// What the window shows now; for a login without one, what the client printed.
    pub fn picture(&self) -> String {
        match &self.link {
            Link::Pipe(_) => fs::read_to_string(self.dir.join("ssh.log")).unwrap_or_default(),
            Link::Window(screen) => screen.picture(),
        }
    }

    /// A cleared window with a command's own view of it: what a person sees who types it.
    pub fn seen(&mut self, command: &str) -> String {
        let Link::Window(_) = &self.link else { panic!("this login has no window") };
        self.asked += 1;
        let done = self.exchange.join(format!("{}.done", self.asked));
        self.type_line(&format!("PS1=; clear; {command}; touch {}", done.display()));
        wait_until(command, || done.exists());
        // The last bytes are on their way from sshd to the window when the file is there: look until it rests.
        let mut last = String::new();
        for _ in 0..50 {
            std::thread::sleep(std::time::Duration::from_millis(20));
            let now = self.picture();
            if now == last && !now.is_empty() {
                break;
            }
            last = now;
        }
        last
    }

    /// `whoseenv` as a person sees it in this login's window.
    pub fn whoseenv_seen(&mut self, arguments: &[&str]) -> String {
        let program = self.whoseenv.clone().expect("the world says where whoseenv is");
        self.seen(&words(&program, arguments))
    }

    /// The cookie that this login has for its display.
    pub fn cookie(&mut self) -> String {
        let number = self.display().trim_start_matches("localhost:").split('.').next().unwrap_or_default().to_owned();
        let list = self.stdout("xauth list");
        let mine = list.lines().find(|l| l.split_whitespace().next().is_some_and(|name| name.ends_with(&format!("/unix:{number}"))));
        mine.and_then(|l| l.split_whitespace().last()).unwrap_or_else(|| panic!("no cookie for {}: {list}", self.display())).to_owned()
    }

    /// The login shell.
    pub fn shell(&self) -> u32 {
        self.shell.as_ref().expect("the login has a shell").pid
    }

    /// The ssh client; of a window, the one inside it.
    pub fn client(&self) -> u32 {
        match &self.link {
            Link::Pipe(client) => client.pid(),
            Link::Window(screen) => screen.program(),
        }
    }

    /// The login shell's block, as the kernel has it.
    pub fn environ(&self) -> &[String] {
        &self.environ
    }

    /// A variable that sshd gave the login.
    pub fn var(&self, name: &str) -> Option<&str> {
        self.environ.iter().find_map(|e| e.strip_prefix(name)?.strip_prefix('='))
    }

    /// `localhost:10.0`
    pub fn display(&self) -> &str {
        self.var("DISPLAY").expect("X11 is forwarded")
    }

    /// The port behind `display`: 6010.
    pub fn display_port(&self) -> u16 {
        display_port(self.display())
    }

    /// `127.0.0.2 40000 127.0.0.1 2222`
    pub fn connection(&self) -> &str {
        self.var("SSH_CONNECTION").expect("sshd sets it")
    }

    /// The two ends of `connection`: client, server.
    pub fn ends(&self) -> (SocketAddr, SocketAddr) {
        match self.connection().split(' ').collect::<Vec<_>>()[..] {
            [client, client_port, server, server_port] => {
                let end = |ip: &str, port: &str| format!("{ip}:{port}").parse().expect("an address");
                (end(client, client_port), end(server, server_port))
            }
            _ => panic!("SSH_CONNECTION is {}", self.connection()),
        }
    }

    /// Ends the login as a person does who closes the window, and returns when the server has noticed: its end of
    /// the connection has left the TCP table, and the login's shell runs no more.
    pub fn disconnect(self) {
        drop(self);
    }

    fn end(&mut self) {
        match &mut self.link {
            Link::Pipe(client) => {
                client.child().stdin.take();
                client.kill();
            }
            Link::Window(screen) => screen.stop(),
        }
        let Some(shell) = self.shell.take() else { return };
        let (client, server) = self.ends();
        let display = self.var("DISPLAY").map(display_port);
        let mine = !self.shares_connection;
        let gone = wait_up_to(PATIENCE, || {
            let closed =
                if mine { look::server_row(client, server).is_none() } else { display.is_none_or(|d| look::listeners(d).is_empty()) };
            (closed && !shell.runs()).then_some(())
        });
        if gone.is_none() && !std::thread::panicking() {
            let row = look::server_row(client, server);
            panic!("the login from {client} does not end: connection {row:?}, shell {:?}", Process::read(shell.pid));
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.end();
    }
}

/// `localhost:10.0` is behind 6010.
pub fn display_port(display: &str) -> u16 {
    let (_, rest) = display.rsplit_once(':').expect("a display");
    6000 + rest.split('.').next().and_then(|n| n.parse::<u16>().ok()).expect("a display number")
}

impl Answer {
    /// The JSON that was printed, and the exit code.
    pub fn json(&self) -> (Value, i32) {
        let json = serde_json::from_str(&self.stdout).unwrap_or_else(|e| panic!("no JSON ({e}): {self:?}"));
        (json, self.code)
    }
}

/// A command line for a shell.
pub fn words(program: &Path, arguments: &[&str]) -> String {
    let program = program.to_str().expect("a readable path");
    std::iter::once(program).chain(arguments.iter().copied()).map(quoted).collect::<Vec<_>>().join(" ")
}

/// For a shell.
pub fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', "'\\''"))
}
