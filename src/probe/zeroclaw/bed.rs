//! A ZeroClaw of our own, its clients, and turns of its model.

use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::client::Client;
use crate::host::child::{Child, Recipe};
use crate::host::lines::Said;
use crate::host::listen::Address;
use crate::host::{Environ, Host, Pid, interrupt};
use crate::probe::nest::Nest;
use crate::probe::readback::{Expected, Readback, Seen, Silence, quoted};
use crate::probe::stub_model::StubModel;
use crate::probe::{Cleanup, Stop, token};
use crate::redact::Redactor;

/// The safe list of layer 1 (0.8.7).
pub const SAFE: [&str; 9] = ["PATH", "HOME", "TERM", "LANG", "LC_ALL", "LC_CTYPE", "USER", "SHELL", "TMPDIR"];

/// What layer 1 adds to it.
pub const SESSION_ID: &str = "ZEROCLAW_SESSION_ID";

/// Names that the probe's own profile declares: one that the daemon has, one that it has not, one that is no name.
pub const DECLARED: [&str; 3] = ["WHOSEENV_FROZEN", "WHOSEENV_UNSET", "1-NO-NAME"];

/// Attaching is refused with this (0.8.6 and later).
pub const FORBIDDEN: i64 = -32012;

/// A session of somebody else's (0.8.7).
pub const NOT_OWNED: i64 = -32003;

/// A session that is not there (0.8.7).
pub const NOT_FOUND: i64 = -32000;

/// The risk profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// The shell runs anything.
    Open,
    /// As ZeroClaw has it by default: a script in the session's directory is the only way in, and is approved.
    Default,
}

/// A ZeroClaw of our own.
pub struct Bed<'r> {
    redactor: &'r Redactor,
    program: PathBuf,
    policy: Policy,
    declared: Vec<String>,
    /// Longest wait for one answer.
    pub patience: Duration,
    /// The private home.
    pub nest: Nest,
    model: StubModel,
    readback: Readback,
    daemon: Option<Child>,
    /// Its environment block.
    pub block: Environ,
    socket: PathBuf,
}

/// A turn that was begun.
pub struct Turn {
    expected: Expected,
    number: u64,
    session: String,
    /// What of its command no other command has.
    trace: String,
}

impl Turn {
    /// What of its command no other command has: the daemon's log has it, once the tool is called (0.8.7).
    pub fn trace(&self) -> &str {
        &self.trace
    }
}

/// What a turn came to.
pub enum Turned {
    /// The shell called.
    Shell(Box<Seen>),
    /// It ended, and no shell had called; what the tool said.
    Silent(String),
}

impl<'r> Bed<'r> {
    /// A private home, not started yet.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn new((program, redactor): (&Path, &'r Redactor), policy: Policy, declared: &[String], patience: Duration) -> io::Result<Bed<'r>> {
        let nest = Nest::new()?;
        // Abstract: ZeroClaw's policy refuses a command that names a path outside of the session's directory (0.8.7).
        let readback = Readback::open(Address::Abstract(format!("whoseenv-{}", token()?)))?;
        let socket = nest.join("config/zc/data/daemon.sock");
        let declared = DECLARED.iter().map(|name| (*name).to_owned()).chain(declared.iter().cloned()).collect();
        let program = std::path::absolute(program)?;
        Ok(Bed {
            redactor,
            program,
            policy,
            declared,
            patience,
            nest,
            model: StubModel::start()?,
            readback,
            daemon: None,
            block: Environ::default(),
            socket,
        })
    }

    /// The names that the profile declares.
    pub fn declared(&self) -> &[String] {
        &self.declared
    }

    /// Starts it; its version and pid.
    ///
    /// # Errors
    /// When it does not answer.
    pub fn start(&mut self) -> Result<(Option<String>, Pid), Stop> {
        self.start_with("")
    }

    /// Ends it and starts another on the same files, with more in its configuration.
    ///
    /// # Errors
    /// When it does not answer.
    pub fn start_with(&mut self, more: &str) -> Result<(Option<String>, Pid), Stop> {
        self.daemon = None;
        // A socket that is left would be taken for the new daemon's.
        let _ = std::fs::remove_file(&self.socket);
        self.nest.write("config/zc/config.toml", &(self.config() + more))?;
        let mut argv = vec![self.program.clone().into_os_string(), "daemon".into(), "--config-dir".into()];
        argv.push(self.nest.join("config/zc").into_os_string());
        let daemon = Child::start(&Recipe { argv, env: self.nest.environment(), cwd: self.nest.join("work"), leaves: false })?;
        let pid = daemon.pid();
        let daemon = self.daemon.insert(daemon);
        let end = Instant::now() + self.patience;
        loop {
            if let Some(status) = daemon.ended() {
                let line = self.redactor.foreign(&daemon.last_line(|_| true));
                return Err(Stop::Failed(format!("{} ended ({status}) before it answered: {line}", self.program.display())));
            }
            if interrupt::came().is_some() {
                return Err(Stop::Failed("interrupted".to_owned()));
            }
            match Client::connect(&self.socket, None, None, self.patience.min(Duration::from_secs(5))) {
                Ok(client) => {
                    let block = Host::live().process(pid).environ();
                    self.block = block.map_err(|reason| Stop::Failed(format!("/proc/{pid}/environ: {reason}")))?;
                    return Ok((client.version, pid));
                }
                Err(no) if Instant::now() > end => {
                    return Err(Stop::Failed(format!(
                        "{} does not answer within {} s: {no}",
                        self.program.display(),
                        self.patience.as_secs()
                    )));
                }
                Err(_) => std::thread::sleep(Duration::from_millis(20)),
            }
        }
    }

    fn config(&self) -> String {
        let profile = match self.policy {
            // The list of forbidden paths has /home, /usr and the like (0.8.7): the read-back's program is installed there.
            Policy::Open => {
                "level = \"full\"\nworkspace_only = false\nallowed_commands = [\"*\"]\nrequire_approval_for_medium_risk = false\n\
                 block_high_risk_commands = false\nauto_approve = [\"shell\"]\n\
                 forbidden_paths = []\n"
            }
            Policy::Default => "",
        };
        format!(
            "schema_version = 3\n\n[providers.models.custom.stub]\nuri = \"{}\"\napi_key = \"none\"\nmodel = \"stub\"\nnative_tools = true\n\n\
             [risk_profiles.probe]\n{profile}allowed_roots = {}\nshell_env_passthrough = {}\n\n[runtime_profiles.plain]\nagentic = true\n\n\
             [memory]\nbackend = \"none\"\n\n[observability]\nlog_persistence = \"full\"\n\n\
             [agents.main]\nmodel_provider = \"custom.stub\"\nrisk_profile = \"probe\"\nruntime_profile = \"plain\"\n",
            self.model.url(),
            // Without it a principal of the roster may not work there.
            json!([self.nest.join("work")]),
            json!(self.declared)
        )
    }

    /// A client with this environment; none sends the field not at all.
    ///
    /// # Errors
    /// When the daemon does not take it.
    pub fn client(&self, env: Option<&Value>) -> Result<Client, Stop> {
        Ok(Client::connect(&self.socket, env, None, self.patience)?)
    }

    /// The same client again, with another environment.
    ///
    /// # Errors
    /// When the daemon does not take it.
    pub fn again(&self, client: &Client, env: &Value) -> Result<Client, Stop> {
        Ok(Client::connect(&self.socket, Some(env), Some((&client.tui_id, &client.tui_sig)), self.patience)?)
    }

    /// A new session of the client's.
    ///
    /// # Errors
    /// When the daemon makes none.
    pub fn session(&self, client: &mut Client) -> Result<String, Stop> {
        client.session(&self.nest.join("work"), &json!({}))
    }

    /// `session/new` with more in it; whatever the answer.
    ///
    /// # Errors
    /// When there is no answer.
    pub fn new_session(&self, client: &mut Client, more: &Value) -> Result<Said, Stop> {
        Ok(client.new_session(&self.nest.join("work"), more)?)
    }

    /// Begins a turn in which the model runs a command that calls back.
    ///
    /// # Errors
    /// When the daemon does not take it.
    pub fn begin(&self, client: &mut Client, session: &str) -> Result<Turn, Stop> {
        let expected = self.readback.expect()?;
        let (command, trace) = match self.policy {
            Policy::Open => (expected.command().to_owned(), expected.token().to_owned()),
            Policy::Default => {
                let words =
                    [self.readback.program(), "readback", "call", self.readback.address(), expected.token()].map(|word| json!(word));
                let name = format!("probe-{}.py", &token()?[..8]);
                self.nest
                    .write(&format!("work/{name}"), &format!("import subprocess\nsubprocess.run({})\n", Value::from(words.to_vec())))?;
                (format!("python3 {}", quoted(&name)), name)
            }
        };
        self.model.wants(expected.token(), &command);
        let prompt = json!({"session_id": session, "prompt": format!("whoseenv {}", expected.token())});
        let number = client.lines.send("session/prompt", &prompt)?;
        Ok(Turn { expected, number, session: session.to_owned(), trace })
    }

    /// Waits for the end of a turn.
    ///
    /// # Errors
    /// When it does not end, or the daemon refuses it.
    pub fn end_turn(&self, client: &mut Client, turn: &Turn) -> Result<Turned, Stop> {
        self.end_attended(client, turn, None)
    }

    /// The same, for a turn whose approvals another client may be asked for: the session's owner.
    fn end_attended(&self, client: &mut Client, turn: &Turn, mut owner: Option<&mut Client>) -> Result<Turned, Stop> {
        let end = Instant::now() + self.patience;
        let daemon = self.daemon.as_ref().map(Child::pid);
        let (mut seen, mut answered, mut said) = (None, None::<Instant>, String::new());
        loop {
            if seen.is_none() {
                match turn.expected.read(Duration::ZERO, daemon) {
                    Ok(shell) => seen = Some(shell),
                    Err(Silence::Broken(why)) => return Err(Stop::Failed(why)),
                    Err(Silence::NotYet) => {}
                }
            }
            if answered.is_none() {
                if let Some(answer) = client.lines.answer_to(turn.number)? {
                    answer.result("session/prompt")?;
                    answered = Some(Instant::now());
                }
                client.attend(&turn.session, &mut said)?;
                if let (Some(owner), Policy::Default) = (&mut owner, self.policy) {
                    // No request has the number 0: whatever comes is kept for it to attend to.
                    owner.lines.answer_to(0)?;
                    owner.attend(&turn.session, &mut said)?;
                }
            }
            match (&mut seen, answered) {
                (seen @ Some(_), Some(_)) => {
                    if let Some(seen) = seen.take() {
                        return Ok(Turned::Shell(Box::new(seen)));
                    }
                }
                (None, Some(at)) if at.elapsed() > Duration::from_millis(1000) => return Ok(Turned::Silent(said)),
                _ => {}
            }
            if Instant::now() > end {
                return Err(Stop::Failed(format!("a turn of the model did not end within {} s", self.patience.as_secs())));
            }
        }
    }

    /// A turn whose shell must call.
    ///
    /// # Errors
    /// When it does not.
    pub fn turn(&self, client: &mut Client, session: &str) -> Result<Seen, Stop> {
        self.turn_of(client, session, None)
    }

    /// The same in a session of another client's.
    ///
    /// # Errors
    /// When its shell does not call.
    pub fn turn_of(&self, client: &mut Client, session: &str, owner: Option<&mut Client>) -> Result<Seen, Stop> {
        let turn = self.begin(client, session)?;
        called(self.end_attended(client, &turn, owner)?)
    }

    /// A turn in which the model prints a word, in band.
    ///
    /// # Errors
    /// When it does not end.
    pub fn print(&self, client: &mut Client, session: &str, word: &str) -> Result<(), Stop> {
        let turn_token = token()?;
        let command = match self.policy {
            Policy::Open => format!("echo {word}"),
            Policy::Default => {
                self.nest.write("work/print.py", &format!("print(\"{word}\")\n"))?;
                "python3 print.py".to_owned()
            }
        };
        self.model.wants(&turn_token, &command);
        let number = client.lines.send("session/prompt", &json!({"session_id": session, "prompt": format!("whoseenv {turn_token}")}))?;
        let end = Instant::now() + self.patience;
        let mut said = String::new();
        while Instant::now() < end {
            if let Some(answer) = client.lines.answer_to(number)? {
                answer.result("session/prompt")?;
                return Ok(());
            }
            client.attend(session, &mut said)?;
        }
        Err(Stop::Failed("a turn of the model did not end".to_owned()))
    }

    /// Who puts this name into a shell's block, whatever the daemon has and the profile declares.
    pub fn put_in(&self, name: &str) -> Option<&'static str> {
        // A shell that became its script had added these by then.
        let became = self.policy == Policy::Default;
        match name {
            SESSION_ID => Some("layer 1"),
            "PWD" | "SHLVL" | "OLDPWD" | "_" if became => Some("the shell itself"),
            _ => None,
        }
    }

    /// Names of the shell's block that layer 1 does not explain.
    pub fn beyond_layer_one(&self, seen: &Seen) -> Vec<String> {
        let allowed = |name: &String| self.put_in(name).is_some() || SAFE.contains(&name.as_str()) || self.declared.contains(name);
        seen.names().into_iter().filter(|name| !allowed(name)).collect()
    }

    /// Why the daemon cannot be asked any more.
    pub fn lost(&mut self) -> Option<String> {
        if let Some(status) = self.daemon.as_mut().and_then(Child::ended) {
            return Some(format!("the daemon has ended ({status})"));
        }
        let asked = Client::connect(&self.socket, None, None, self.patience.min(Duration::from_secs(3)));
        asked.err().map(|no| format!("the daemon cannot be asked any more: {no}"))
    }

    /// Ends the daemon, removes the private home, looks again.
    pub fn end(self, cleanup: &mut Cleanup) {
        let Bed { nest, readback, daemon, model, .. } = self;
        drop(daemon);
        drop(readback);
        drop(model);
        nest.remove(cleanup);
    }
}

/// The shell of a turn that must have called.
///
/// # Errors
/// When it has not.
pub fn called(turned: Turned) -> Result<Seen, Stop> {
    match turned {
        Turned::Shell(seen) => Ok(*seen),
        Turned::Silent(said) => Err(Stop::Failed(format!("the turn ended, and its shell did not call{}", but(&said)))),
    }
}

/// What the tool said, for a message.
pub fn but(said: &str) -> String {
    if said.is_empty() { String::new() } else { format!("; the tool said: {}", said.chars().take(200).collect::<String>()) }
}
