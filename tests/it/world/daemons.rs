//! The hosts: real daemons, started as people start them, each with a tool child when a test wants one.

use super::accounts::{Account, run};
use super::guard::{Other, Proc};
use super::http::Endpoint;
use super::look::{self, Process, wait_for, wait_up_to};
use super::need::Needed;
use super::peers;
use super::sshd::{Session, words};
use super::stub_model::StubModel;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime};

/// Who starts a daemon, and with which environment.
#[derive(Debug)]
pub enum Start<'a> {
    /// From a login's shell: with that login's environment, and outliving it.
    In(&'a mut Session),
    /// Without any login: a bare environment and these.
    As(&'a Account, Vec<(String, String)>),
}

impl<'a> Start<'a> {
    pub fn as_account(account: &'a Account, env: &[(&str, &str)]) -> Start<'a> {
        Start::As(account, env.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect())
    }

    fn account(&self) -> Account {
        match self {
            Start::In(login) => login.account.clone(),
            Start::As(account, _) => (*account).clone(),
        }
    }

    fn home(&self) -> PathBuf {
        match self {
            Start::As(account, env) => env.iter().find(|(k, _)| k == "HOME").map_or(account.home.clone(), |(_, v)| v.into()),
            Start::In(login) => login.account.home.clone(),
        }
    }

    fn run(&mut self, program: &Path, arguments: &[&str]) -> String {
        match self {
            Start::In(login) => login.stdout(&words(program, arguments)),
            Start::As(account, env) => run(account.command(program).args(arguments).envs(env.iter().cloned())),
        }
    }

    fn daemon(&mut self, program: &Path, arguments: &[&str]) -> Needed<Running> {
        Ok(match self {
            Start::In(login) => Running::Other(login.spawn(&words(program, arguments))),
            Start::As(account, env) => {
                let log =
                    std::fs::File::options().create(true).append(true).open(account.home.join("daemon.log")).expect("a log can be made");
                let mut command = account.tied(program)?;
                command.args(arguments).envs(env.iter().cloned()).stdout(log.try_clone().expect("a second handle")).stderr(log);
                Running::Child(Proc::spawn(&program.display().to_string(), &mut command))
            }
        })
    }
}

/// A daemon that runs, however it was started; ended and waited for on drop.
#[derive(Debug)]
pub enum Running {
    Child(Proc),
    Other(Other),
}

impl Running {
    pub fn pid(&self) -> u32 {
        match self {
            Running::Child(child) => child.pid(),
            Running::Other(other) => other.pid,
        }
    }

    pub fn process(&self) -> Process {
        Process::read(self.pid()).unwrap_or_else(|| panic!("the daemon {} has ended", self.pid()))
    }

    /// A daemon in the middle of a turn waits for its model: not for long.
    pub fn stop(&mut self) {
        let patience = Duration::from_secs(3);
        match self {
            Running::Child(child) => child.stop_within(patience),
            Running::Other(other) => other.stop_within(patience),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Where the service listens, unless its configuration says otherwise.
const SERVICE_PORT: u16 = 49374;

/// Which OpenCode an API belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Generation {
    V1,
    Preview,
}

/// An OpenCode server of either generation.
#[derive(Debug)]
pub struct Opencode {
    running: Running,
    pub generation: Generation,
    pub program: PathBuf,
    pub endpoint: Endpoint,
    /// The registration file; a foreground server has none.
    pub registration: Option<PathBuf>,
}

impl Opencode {
    /// The preview's background service, started the way a person does: `opencode2 service start`.
    pub fn service(mut start: Start) -> Needed<Opencode> {
        let program = peers::opencode_preview()?;
        let registration = start.home().join(".local/state/opencode/service.json");
        if !look::listeners(SERVICE_PORT).is_empty() {
            let config = start.home().join(".config/opencode/service.json");
            start.account().write(&config, &json!({"port": look::free_port()}).to_string());
        }
        start.run(&program, &["service", "start"]);
        let (registered, other) = wait_for("the service's registration", || {
            let registered: Value = serde_json::from_slice(&std::fs::read(&registration).ok()?).ok()?;
            let other = Other::new(u32::try_from(registered["pid"].as_u64()?).ok()?)?;
            Some((registered, other))
        });
        let text = |key: &str| registered[key].as_str().unwrap_or_else(|| panic!("the registration has no {key}"));
        let endpoint = Endpoint::new(text("url"), Some(("opencode", text("password"))));
        let server = Opencode {
            running: Running::Other(other),
            generation: Generation::Preview,
            program,
            endpoint,
            registration: Some(registration),
        };
        Ok(server.healthy())
    }

    /// The preview in the foreground: `opencode2 serve --port N`. It makes up a password and prints it.
    pub fn preview_serve(mut start: Start) -> Needed<Opencode> {
        let program = peers::opencode_preview()?;
        let port = look::free_port();
        let mut running = start.daemon(&program, &["serve", "--port", &port.to_string()])?;
        let password = wait_for("the server's password", || {
            let log = match (&start, &mut running) {
                (Start::In(login), _) => login.spawned_log(),
                (Start::As(account, _), Running::Child(child)) => {
                    let log = std::fs::read_to_string(account.home.join("daemon.log")).unwrap_or_default();
                    assert!(child.ended().is_none(), "the server ended: {log}");
                    log
                }
                (Start::As(..), Running::Other(_)) => String::new(),
            };
            log.lines().rev().find_map(|l| l.trim().strip_prefix("server password ").map(str::to_owned))
        });
        let endpoint = Endpoint::new(&format!("http://127.0.0.1:{port}"), Some(("opencode", &password)));
        Ok(Opencode { running, generation: Generation::Preview, program, endpoint, registration: None }.healthy())
    }

    /// OpenCode 1.x: `opencode serve --port N`, or `web`.
    pub fn v1(mut start: Start, command: &str) -> Needed<Opencode> {
        let program = peers::opencode_v1()?;
        let port = look::free_port();
        let running = start.daemon(&program, &[command, "--port", &port.to_string()])?;
        let endpoint = Endpoint::new(&format!("http://127.0.0.1:{port}"), None);
        Ok(Opencode { running, generation: Generation::V1, program, endpoint, registration: None }.healthy())
    }

    /// Names a model on loopback in the account's configuration; for daemons that start afterwards.
    pub fn configure(account: &Account, model: &StubModel) {
        let config = json!({"model": "stub/stub", "permission": "allow", "autoupdate": false, "provider": {"stub": {"npm": "@ai-sdk/openai-compatible",
            "options": {"baseURL": model.base_url(), "apiKey": "no-secret"}, "models": {"stub": {"name": "stub"}}}}});
        account.write(&account.home.join(".config/opencode/opencode.json"), &config.to_string());
    }

    fn healthy(self) -> Opencode {
        let path = match self.generation {
            Generation::V1 => "/global/health",
            Generation::Preview => "/api/health",
        };
        wait_for("the server's health", || {
            // While it starts, v1 takes a connection and never answers what comes over it: ask again soon.
            let (status, body) = self.endpoint.request_within(Duration::from_millis(300), "GET", path, None).ok()?;
            (status == 200 && serde_json::from_str::<Value>(&body).ok()?["healthy"] == true).then_some(())
        });
        self
    }

    pub fn pid(&self) -> u32 {
        self.running.pid()
    }

    pub fn process(&self) -> Process {
        self.running.process()
    }

    pub fn stop(mut self) {
        self.running.stop();
    }

    /// A new session's id.
    pub fn session(&self) -> String {
        let (path, id) = match self.generation {
            Generation::V1 => ("/session", "/id"),
            Generation::Preview => ("/api/session", "/data/id"),
        };
        let made = self.endpoint.json("POST", path, Some(&json!({})));
        made.pointer(id).and_then(Value::as_str).unwrap_or_else(|| panic!("no session id in {made}")).to_owned()
    }

    /// A command that the person runs through the host, and that goes on until dropped.
    pub fn shell_child(&self) -> ToolChild {
        let session = self.session();
        let command = ToolChild::command();
        let (path, body) = match self.generation {
            Generation::V1 => (format!("/session/{session}/shell"), json!({"agent": "build", "command": command})),
            Generation::Preview => (format!("/api/session/{session}/shell"), json!({"command": command})),
        };
        self.child(session, &command, path, body)
    }

    /// A command that the *model* runs with its shell tool; the daemon was configured with this model.
    pub fn tool_child(&self, model: &StubModel) -> ToolChild {
        let session = self.session();
        let command = ToolChild::command();
        model.set_command(&command);
        let (path, body) = match self.generation {
            Generation::V1 => (
                format!("/session/{session}/message"),
                json!({"model": {"providerID": "stub", "modelID": "stub"}, "parts": [{"type": "text", "text": "go"}]}),
            ),
            Generation::Preview => (format!("/api/session/{session}/prompt"), json!({"text": "go"})),
        };
        self.child(session, &command, path, body)
    }

    fn child(&self, session: String, command: &str, path: String, body: Value) -> ToolChild {
        // The answer comes when the command ends, which is when the test has seen enough.
        let asking = self.endpoint.ask("POST", &path, &body);
        ToolChild::find(self.pid(), session, command, Asking::Http(asking))
    }
}

/// A shell that a host runs for a session, and the program that keeps it alive.
#[derive(Debug)]
pub struct ToolChild {
    /// The shell: its environ is what the host gave it.
    pub shell: Other,
    /// `sleep`: its environ is what the shell made of that.
    pub sleep: Other,
    pub session_id: String,
    asking: Asking,
}

/// The request that the tool child belongs to; hung up when dropped.
#[derive(Debug)]
enum Asking {
    Http(TcpStream),
    Rpc(ZeroclawClient),
}

impl ToolChild {
    /// A command that never ends by itself, that no other tool child has, and that keeps its shell: a shell becomes
    /// its last command.
    fn command() -> String {
        static NUMBER: AtomicU32 = AtomicU32::new(1);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        format!("sleep 9{:05}.{number:03}; true", std::process::id() % 100_000)
    }

    fn find(daemon: u32, session_id: String, command: &str, asking: Asking) -> ToolChild {
        let seconds = command.split([' ', ';']).nth(1).expect("sleep's argument").to_owned();
        let found = wait_up_to(look::PATIENCE, || {
            let all = look::processes_of(Process::read(daemon)?.uid);
            let sleep = all.iter().find(|p| p.comm == "sleep" && p.argv() == ["sleep", &seconds])?;
            let shell = all.iter().find(|p| p.pid == sleep.ppid && p.ppid == daemon)?;
            Some((Other::new(shell.pid)?, Other::new(sleep.pid)?))
        });
        let (shell, sleep) = found.unwrap_or_else(|| panic!("the daemon {daemon} runs no `{command}`"));
        ToolChild { shell, sleep, session_id, asking }
    }

    /// The shell, as /proc shows it.
    pub fn process(&self) -> Process {
        Process::read(self.shell.pid).unwrap_or_else(|| panic!("the host has ended {self:?}"))
    }

    pub fn stop(self) {
        drop(self);
    }
}

impl Drop for ToolChild {
    fn drop(&mut self) {
        self.sleep.stop();
        self.shell.stop();
    }
}

/// Lets the account's OpenCode ask nobody outside this machine: it has a list of models that never grows old, and a
/// registry of packages that refuses. Files, not variables: the environment stays what the test makes of it.
pub fn keep_at_home(account: &Account) {
    let models = account.home.join(".cache/opencode/models.json");
    account.write(&models, "{}");
    let future = SystemTime::now() + Duration::from_secs(10 * 365 * 24 * 3600);
    std::fs::File::options().write(true).open(&models).and_then(|f| f.set_modified(future)).expect("its time can be set");
    account.write(&account.home.join(".npmrc"), "registry=http://127.0.0.1:9/\nfetch-retries=0\n");
}

/// A ZeroClaw daemon with a configuration of its own.
#[derive(Debug)]
pub struct Zeroclaw {
    running: Running,
    account: Account,
    pub config_dir: PathBuf,
    pub socket: PathBuf,
}

impl Zeroclaw {
    /// The configuration directory, private to the account, with `model` as the only model. `passthrough`: names in
    /// the risk profile's `shell_env_passthrough`.
    pub fn configure(account: &Account, model: &StubModel, passthrough: &[&str]) -> PathBuf {
        let dir = account.private_dir(&account.home.join(".zeroclaw"));
        let config = format!(
            "schema_version = 3\n\n[providers.models.custom.stub]\nuri = \"{}\"\napi_key = \"no-secret\"\nmodel = \"stub\"\nnative_tools = true\n\n\
             [risk_profiles.open]\nlevel = \"full\"\nallowed_commands = [\"*\"]\nshell_env_passthrough = {}\n\n[runtime_profiles.plain]\nagentic = true\n\n\
             [agents.main]\nmodel_provider = \"custom.stub\"\nrisk_profile = \"open\"\nruntime_profile = \"plain\"\n",
            model.base_url(),
            json!(passthrough)
        );
        account.write(&dir.join("config.toml"), &config);
        dir
    }

    /// `zeroclaw daemon --config-dir DIR`
    pub fn start(mut start: Start, config_dir: &Path) -> Needed<Zeroclaw> {
        let program = peers::zeroclaw()?;
        let running = start.daemon(&program, &["daemon", "--config-dir", config_dir.to_str().expect("a readable path")])?;
        let socket = config_dir.join("data/daemon.sock");
        wait_for("ZeroClaw's socket", || look::unix_socket_listens(&socket).then_some(()));
        Ok(Zeroclaw { running, account: start.account(), config_dir: config_dir.to_owned(), socket })
    }

    pub fn pid(&self) -> u32 {
        self.running.pid()
    }

    pub fn process(&self) -> Process {
        self.running.process()
    }

    pub fn stop(mut self) {
        self.running.stop();
    }

    /// A client that brings an environment, as zerocode does.
    pub fn client(&self, env: &[(&str, &str)]) -> ZeroclawClient {
        // The daemon takes its own account's clients alone, not even root's: connect as that account.
        let socket = self.socket.clone();
        let stream = self.account.act(move || UnixStream::connect(socket)).expect("the daemon takes connections");
        let mut client = ZeroclawClient { daemon: self.pid(), reader: BufReader::new(stream), asked: 0 };
        let env: serde_json::Map<String, Value> = env.iter().map(|(k, v)| ((*k).to_owned(), (*v).into())).collect();
        client.call("initialize", json!({"protocol_version": 1, "env": env}));
        client
    }
}

/// One connection to a ZeroClaw daemon.
#[derive(Debug)]
pub struct ZeroclawClient {
    daemon: u32,
    reader: BufReader<UnixStream>,
    asked: u64,
}

impl ZeroclawClient {
    /// A call's result; an error answer is the test's failure.
    pub fn call(&mut self, method: &str, parameters: Value) -> Value {
        let id = self.send(method, parameters);
        loop {
            let mut line = String::new();
            let read = self.reader.read_line(&mut line).expect("the daemon answers");
            assert!(read > 0, "the daemon hung up on {method}");
            let answer: Value = serde_json::from_str(&line).expect("a JSON line");
            if answer["id"] == id {
                assert!(answer.get("error").is_none(), "{method}: {answer}");
                return answer["result"].clone();
            }
        }
    }

    fn send(&mut self, method: &str, parameters: Value) -> u64 {
        self.asked += 1;
        let request = json!({"jsonrpc": "2.0", "id": self.asked, "method": method, "params": parameters});
        self.reader.get_mut().write_all(format!("{request}\n").as_bytes()).expect("the daemon reads");
        self.asked
    }

    /// A new session's id.
    pub fn session(&mut self, cwd: &Path) -> String {
        let made = self.call("session/new", json!({"agent_alias": "main", "cwd": cwd, "keep_siblings": true}));
        made["session_id"].as_str().unwrap_or_else(|| panic!("no session id in {made}")).to_owned()
    }

    /// A command that the model runs in a new session, and that goes on until dropped; this connection with it.
    pub fn tool_child(mut self, model: &StubModel, cwd: &Path) -> ToolChild {
        let command = ToolChild::command();
        model.set_command(&command);
        let session = self.session(cwd);
        let daemon = self.daemon;
        self.send("session/prompt", json!({"session_id": session, "prompt": "go"}));
        ToolChild::find(daemon, session, &command, Asking::Rpc(self))
    }
}

/// A client that a person started in a login's window: zerocode, a TUI.
#[derive(Debug)]
pub struct Client {
    client: Other,
}

impl Client {
    /// Types the command and returns when the program runs.
    pub fn start_in(login: &mut Session, program: &Path, arguments: &[&str]) -> Client {
        login.type_line(&words(program, arguments));
        let (shell, uid) = (login.shell(), login.account.uid);
        let client = wait_for("the client", || {
            let process = look::processes_of(uid).into_iter().find(|p| p.ppid == shell && p.exe().as_deref() == Some(program))?;
            Other::new(process.pid)
        });
        Client { client }
    }

    /// `zerocode --config-dir DIR`
    pub fn zerocode(login: &mut Session, config_dir: &Path) -> Needed<Client> {
        let config = config_dir.to_str().expect("a readable path");
        Ok(Client::start_in(login, &peers::zerocode()?, &["--config-dir", config]))
    }

    pub fn pid(&self) -> u32 {
        self.client.pid
    }

    /// Waits for a child of the client's: the server that it starts for itself.
    pub fn child(&self, what: &str, fits: impl Fn(&Process) -> bool) -> Process {
        let uid = Process::read(self.pid()).expect("the client runs").uid;
        wait_for(what, || look::processes_of(uid).into_iter().find(|p| p.ppid == self.pid() && fits(p)))
    }

    pub fn stop(self) {
        drop(self);
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.client.stop();
    }
}
