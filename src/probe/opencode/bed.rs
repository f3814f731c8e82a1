//! A host on which experiments are made, and what they made there.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::host::http::{Asked, Http, NoAnswer, Question, Reply};
use crate::host::{Environ, Host, Pid, interrupt};

use super::api::{self, Dialect, Health, Name, Request, ask};
use super::mark::Mark;
use super::plain::Addition;
use crate::probe::Stop;
use crate::probe::readback::{Expected, Readback, Seen, Silence};
use crate::probe::stub_model::StubModel;

/// What a host lays over a command's environment, or its shell adds: by name. What stands there is O7's matter.
pub const OVERLAY: [&str; 11] =
    ["TERM", "OPENCODE_TERMINAL", "AGENT", "OPENCODE", "OPENCODE_PID", "AI_AGENT", "OPENCODE_SESSION_ID", "PWD", "SHLVL", "_", "OLDPWD"];

/// A command that is done and whose call is still on its way: a busy machine takes its time.
const LAST_CHANCE: Duration = Duration::from_millis(1500);

/// A host on which experiments are made.
pub struct Bed {
    /// Its API.
    pub http: Http,
    /// What it says of itself.
    pub health: Health,
    /// Its process.
    pub daemon: Pid,
    /// That process's environment block.
    pub block: Environ,
    /// Where shells call.
    pub readback: Readback,
    /// The model that it was configured with; a live host has its own.
    pub model: Option<StubModel>,
    /// The directory of the sessions.
    pub place: PathBuf,
    /// A directory that is the probe's alone.
    pub private: PathBuf,
    /// Longest wait for one answer.
    pub patience: Duration,
    /// Names that are laid over every session's shell and are not the host's own overlay: a plugin's.
    pub plugins: Vec<String>,
    /// Why no session's shell can call, where none can: then they tell in band.
    pub mute: Option<String>,
    /// What everything that is made is called by.
    pub(super) mark: Mark,
    pub(super) made: Made,
}

/// What was made.
#[derive(Default)]
pub(super) struct Made {
    pub(super) sessions: Vec<String>,
    pub(super) ptys: Vec<String>,
    pub(super) shells: Vec<String>,
    /// What was asked for and not waited for to its answer.
    pub(super) pending: Vec<Pending>,
}

/// Something that was asked for, and may be made although nobody waited.
pub(super) struct Pending {
    pub(super) asked: Asked,
    pub(super) what: String,
    pub(super) kind: Kind,
    /// The id that it was given is known.
    pub(super) named: bool,
}

/// The ways to a shell.
#[derive(Clone, Copy, Debug)]
pub enum Way<'s> {
    /// A session's shell.
    Session(&'s str),
    /// The model's tool.
    Tool(&'s str),
    /// A PTY.
    Pty,
    /// `/api/shell`, naming a session or none.
    Bare(Option<&'s str>),
}

/// A command that was asked for.
pub struct Running {
    expected: Expected,
    asked: Asked,
    what: String,
    /// The answer comes when the command is done.
    waits: bool,
    kind: Kind,
}

#[derive(Clone, Copy, PartialEq)]
pub(super) enum Kind {
    Session,
    Plain,
    Pty,
    Bare,
}

impl Bed {
    /// A host that answers; the directory of its sessions, and one that is the probe's alone.
    ///
    /// # Errors
    /// When its process cannot be read.
    pub fn new(
        http: Http,
        health: Health,
        daemon: Pid,
        readback: Readback,
        (place, private): (PathBuf, PathBuf),
        patience: Duration,
    ) -> Result<Bed, Stop> {
        let block = Host::live().process(daemon).environ();
        let block = block.map_err(|reason| Stop::Failed(format!("/proc/{daemon}/environ: {reason}")))?;
        let (mark, made) = (Mark::new()?, Made::default());
        Ok(Bed {
            http,
            health,
            daemon,
            block,
            readback,
            model: None,
            place,
            private,
            patience,
            plugins: Vec::new(),
            mute: None,
            mark,
            made,
        })
    }

    /// Which API it speaks.
    pub fn dialect(&self) -> Dialect {
        self.health.dialect
    }

    /// Sends a request.
    ///
    /// # Errors
    /// When there is no answer.
    pub fn send(&self, (method, path, body): &Request) -> Result<Reply, NoAnswer> {
        ask(&self.http, method, path, body.as_ref(), self.patience)
    }

    /// A new session.
    ///
    /// # Errors
    /// When the host makes none.
    pub fn session(&mut self) -> Result<String, Stop> {
        let name = self.mark.name()?;
        let request = self.dialect().create(&self.place, &name);
        self.creating_named(&request, Some(name))
    }

    /// A new session by a request that makes one.
    ///
    /// # Errors
    /// When the host makes none.
    pub fn creating(&mut self, request: &Request) -> Result<String, Stop> {
        self.creating_named(request, None)
    }

    fn creating_named(&mut self, request: &Request, name: Option<Name>) -> Result<String, Stop> {
        let (method, path, body) = request;
        let asked = self.http.ask(&Question { method, path, headers: &[], body: body.as_ref() }, self.patience);
        let reply = match asked.wait() {
            Ok(reply) => reply,
            Err(no) => {
                // It may be made all the same, and is then called so.
                let id = name.filter(|_| self.dialect() == Dialect::V2).map(|name| name.session);
                self.made.pending.push(Pending { asked, what: format!("{method} {path}"), kind: Kind::Session, named: id.is_some() });
                self.made.sessions.extend(id);
                return Err(no.into());
            }
        };
        if let (400, Some(_), Some(body)) = (reply.status, &name, body) {
            // A host that gives its ids alone.
            let mut body = body.clone();
            if body.as_object_mut().and_then(|body| body.remove("id")).is_some() {
                return self.creating_named(&(method, path.clone(), Some(body)), None);
            }
        }
        let id = self.dialect().id(&reply).ok_or_else(|| Stop::Answered(reply.status, format!("{method} {path}: {}", reply.shape())))?;
        self.made.sessions.push(id.clone());
        Ok(id)
    }

    /// A new session with an upload that was accepted.
    ///
    /// # Errors
    /// When there is no session, or the upload is not accepted.
    pub fn uploaded(&mut self, variables: &Value) -> Result<String, Stop> {
        let session = self.session()?;
        self.upload(&session, variables)?;
        Ok(session)
    }

    /// An upload that must be accepted.
    ///
    /// # Errors
    /// When it is not.
    pub fn upload(&self, session: &str, variables: &Value) -> Result<(), Stop> {
        let reply = self.send(&api::upload(session, variables))?;
        match reply.status {
            204 => Ok(()),
            status => Err(Stop::Answered(status, format!("PUT /api/session/…/environment: {}", reply.shape()))),
        }
    }

    /// Runs a command that calls back, and tells what its shell was given.
    ///
    /// # Errors
    /// When it does not call.
    pub fn run(&mut self, way: Way<'_>) -> Result<Seen, Stop> {
        let running = self.start(way, &[])?;
        self.finish(running)
    }

    /// Asks for a command that calls back.
    ///
    /// # Errors
    /// When there is no such way on this host.
    pub fn start(&mut self, way: Way<'_>, headers: &[(&str, String)]) -> Result<Running, Stop> {
        let expected = self.readback.expect()?;
        let command = expected.command().to_owned();
        let dialect = self.dialect();
        let (request, waits, kind) = match way {
            Way::Session(id) => (dialect.shell(id, &command), true, Kind::Plain),
            // It stays until it is closed: next-16350 keeps four files and three threads for each that ends by itself.
            Way::Pty => (dialect.pty(&self.place, &self.mark.title(), &format!("{command}; read -r _")), false, Kind::Pty),
            // The command ends with a colon, which does nothing with what follows.
            Way::Bare(session) => (api::bare_shell(&self.place, session, &format!("{command} '{}'", self.mark.title())), false, Kind::Bare),
            Way::Tool(id) => {
                let Some(model) = &self.model else {
                    return Err(Stop::Failed("the model's tool is not asked: a live host has a model of its own".to_owned()));
                };
                model.wants(expected.token(), &command);
                (dialect.turn(id, &format!("whoseenv {}", expected.token())), dialect == Dialect::V1, Kind::Plain)
            }
        };
        Ok(self.asking(expected, &request, headers, waits, kind))
    }

    /// Asks for a session's shell with a request that was added to.
    ///
    /// # Errors
    /// When there is no randomness for a token.
    pub fn start_with(&mut self, session: &str, addition: &Addition) -> Result<Running, Stop> {
        let expected = self.readback.expect()?;
        let request = added(self.dialect().shell(session, expected.command()), addition);
        Ok(self.asking(expected, &request, &addition.headers, true, Kind::Plain))
    }

    fn asking(&self, expected: Expected, request: &Request, headers: &[(&str, String)], waits: bool, kind: Kind) -> Running {
        let (method, path, body) = request;
        let asked = self.http.ask(&Question { method, path, headers, body: body.as_ref() }, self.patience);
        let what = format!("{method} {}", path.split('?').next().unwrap_or_default());
        Running { expected, asked, what, waits, kind }
    }

    /// Waits for the call of a command that was asked for.
    ///
    /// # Errors
    /// When it does not come.
    pub fn finish(&mut self, running: Running) -> Result<Seen, Stop> {
        let mut answer = None;
        let seen = self.called(&running, &mut answer);
        let Running { asked, what, kind, .. } = running;
        match (answer, &seen) {
            (Some(_), _) => {}
            (None, Ok(_)) => match asked.wait() {
                Ok(reply) => self.note(kind, &reply),
                Err(no) => {
                    self.made.pending.push(Pending { asked, what, kind, named: false });
                    return Err(no.into());
                }
            },
            // What it makes is removed all the same.
            (None, Err(_)) => self.made.pending.push(Pending { asked, what, kind, named: false }),
        }
        let seen = seen?;
        if let (Kind::Pty, Some(id)) = (kind, self.made.ptys.last()) {
            // Looked for again at the end, with everything else.
            self.send(&self.dialect().close_pty(&self.place, id))?;
        }
        Ok(seen)
    }

    /// What the shell was given, once it has called; and the host's answer, if it came before that.
    fn called(&mut self, running: &Running, answer: &mut Option<Reply>) -> Result<Seen, Stop> {
        let end = Instant::now() + self.patience;
        let mut last_chance = None::<Instant>;
        loop {
            match running.expected.read(Duration::from_millis(10), Some(self.daemon)) {
                Ok(seen) => return Ok(seen),
                Err(Silence::Broken(why)) => return Err(Stop::Failed(format!("{}: {why}", running.what))),
                Err(Silence::NotYet) => {}
            }
            if interrupt::came().is_some() {
                return Err(Stop::Failed("interrupted".to_owned()));
            }
            if answer.is_none()
                && let Some(reply) = running.asked.poll(Duration::ZERO).transpose()?
            {
                self.note(running.kind, &reply);
                let refused = !(200..300).contains(&reply.status) || reply.kind == "text/html";
                let (status, shape) = (reply.status, reply.shape());
                *answer = Some(reply);
                if refused {
                    return Err(Stop::Answered(status, format!("{}: {shape}", running.what)));
                }
                // It says that it is done, and nobody called: a moment for the call to arrive.
                last_chance = running.waits.then(|| Instant::now() + LAST_CHANCE);
            }
            if last_chance.is_some_and(|end| Instant::now() > end) {
                return Err(Stop::Silent(format!("{}: the command ended, and its shell did not call", running.what)));
            }
            if Instant::now() > end {
                return Err(Stop::Failed(format!(
                    "{}: the command's shell did not call within {} s",
                    running.what,
                    self.patience.as_secs()
                )));
            }
        }
    }

    /// Notes what an answer says was made.
    pub(super) fn note(&mut self, kind: Kind, reply: &Reply) {
        match (kind, self.dialect().id(reply)) {
            (Kind::Session, Some(id)) => self.made.sessions.push(id),
            (Kind::Pty, Some(id)) => self.made.ptys.push(id),
            (Kind::Bare, Some(id)) => self.made.shells.push(id),
            _ => {}
        }
    }

    /// Names that are neither the daemon's nor the overlay's.
    pub fn extra(&self, seen: &Seen) -> Vec<String> {
        let is_extra = |name: &String| !OVERLAY.contains(&name.as_str()) && self.block.get(name).is_none();
        seen.names().into_iter().filter(is_extra).collect()
    }

    /// The daemon was started anew on the same files.
    ///
    /// # Errors
    /// When its process cannot be read.
    pub fn moved(&mut self, http: Http, daemon: Pid) -> Result<(), Stop> {
        let block = Host::live().process(daemon).environ();
        self.block = block.map_err(|reason| Stop::Failed(format!("/proc/{daemon}/environ: {reason}")))?;
        (self.http, self.daemon) = (http, daemon);
        Ok(())
    }
}

/// A request with more in its query and body.
pub(super) fn added((method, path, body): Request, addition: &Addition) -> Request {
    let mut body = body.unwrap_or_default();
    for (name, value) in addition.fields.as_object().into_iter().flatten() {
        body[name] = value.clone();
    }
    (method, if addition.query.is_empty() { path } else { format!("{path}?{}", addition.query) }, Some(body))
}
