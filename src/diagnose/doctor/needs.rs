//! What it takes to start a GUI program, to use git over ssh and to copy, and whether a process has it.

use schemars::JsonSchema;
use serde::Serialize;

use crate::agent::{self, HandedOn};
use crate::host::{Host, Raw, Unknown, Value};
use crate::origin::Carrier;
use crate::origin::display::Display;
use crate::redact::Redactor;
use crate::verdict::{Liveness, State};

use super::super::subject::Subject;
use super::super::values::judge;
use super::search::{self, Found};

/// Something a person wants to do from a tool of the agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Purpose {
    /// Open a window.
    Gui,
    /// Fetch and push with a key from an agent.
    GitOverSsh,
    /// Copy to the clipboard.
    Clipboard,
}

impl Purpose {
    /// As a person says it.
    pub fn words(self) -> &'static str {
        match self {
            Purpose::Gui => "open a window",
            Purpose::GitOverSsh => "git over ssh",
            Purpose::Clipboard => "copy to the clipboard",
        }
    }
}

/// Whether it would work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// All parts are there and alive.
    Works,
    /// A part is dead.
    Broken,
    /// It may succeed and do the wrong thing.
    Unreliable,
    /// A part is not set.
    Missing,
    /// A part could not be judged.
    Unknown,
}

impl Verdict {
    /// The word on the screen.
    pub fn word(self) -> &'static str {
        match self {
            Verdict::Works => "works",
            Verdict::Broken => "broken",
            Verdict::Unreliable => "unreliable",
            Verdict::Missing => "missing",
            Verdict::Unknown => "unknown",
        }
    }
}

/// One purpose with its parts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Need {
    /// What for.
    pub purpose: Purpose,
    /// Whether it would work.
    pub verdict: Verdict,
    /// Why, in a few words.
    pub detail: String,
    /// What it takes, part by part.
    pub parts: Vec<Part>,
}

/// A part: a variable or a program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Part {
    /// The variable or program.
    pub name: String,
    /// Its state.
    #[serde(flatten)]
    pub liveness: Liveness,
}

/// Whose tools the matrix is for: what reaches them, and how its values are judged.
struct Tools<'h> {
    carrier: Carrier<'h>,
    redactor: &'h Redactor,
    handed: Option<&'h HandedOn>,
}

/// The matrix of one process: of its own environment, or of what its agent hands on of that to a tool's shell.
pub fn of(carrier: &Carrier<'_>, redactor: &Redactor, handed: Option<&HandedOn>) -> Vec<Need> {
    let environ = handed.map_or(carrier.environ, |handed| &handed.environ);
    let tools = Tools { carrier: Carrier { environ, ..*carrier }, redactor, handed };
    let display = tools.part("DISPLAY");
    let cookie = tools.cookie();
    let wayland = tools.part("WAYLAND_DISPLAY");
    vec![tools.gui(&display, &cookie, &wayland), tools.git(), tools.clipboard(&display, &wayland)]
}

/// What a daemon hands on to its tools' shells; none where that is all it has.
pub fn handed_on(host: &Host, subject: &Subject) -> Option<HandedOn> {
    let process = subject.agent.as_ref()?;
    agent::agent(&process.agent).hands_on(host, process, subject.known().ok()?)
}

/// How a sentence says what an agent's layer does to a variable that the daemon has.
pub fn dropped(by: &str) -> String {
    format!("set in the daemon, dropped by {by}")
}

impl Tools<'_> {
    fn part(&self, name: &str) -> Part {
        let named = self.carrier.environ.get(name).and_then(|value| judge(&self.carrier, self.redactor, name.as_bytes(), value));
        let layer =
            |names: fn(&HandedOn) -> &std::collections::BTreeMap<String, String>| self.handed.and_then(|handed| names(handed).get(name));
        let liveness = match (named, layer(|handed| &handed.unknown), layer(|handed| &handed.dropped)) {
            (Some(named), ..) => named.liveness,
            (_, Some(why), _) => Liveness::passive(State::Unknown, format!("set in the daemon; whether a shell gets it: {why}")),
            (.., Some(by)) => Liveness::passive(State::Missing, dropped(by)),
            _ => Liveness::passive(State::Missing, "not set"),
        };
        Part { name: name.to_owned(), liveness }
    }

    /// What is missing, and by whose doing where a layer took it away.
    fn lacking(&self, parts: &[&Part], otherwise: &str) -> String {
        let taken = |part: &&&Part| self.handed.is_some_and(|handed| handed.dropped.contains_key(&part.name));
        parts.iter().find(taken).map_or_else(|| otherwise.to_owned(), |part| format!("{}: {}", part.name, part.liveness.detail))
    }

    /// The X authority file, the default one where the variable is not set.
    fn cookie(&self) -> Part {
        let set = self.part("XAUTHORITY");
        if set.liveness.state != State::Missing {
            return set;
        }
        let Some(home) = self.carrier.environ.filled("HOME") else { return set };
        let path = format!("{home}/.Xauthority");
        match judge(&self.carrier, self.redactor, b"XAUTHORITY", &Value::Clear(Raw::from(path.as_str()))) {
            Some(named) if named.liveness.state != State::Dangling => Part { name: "~/.Xauthority".to_owned(), liveness: named.liveness },
            _ => set,
        }
    }

    fn gui(&self, display: &Part, cookie: &Part, wayland: &Part) -> Need {
        let forwarded = self.carrier.environ.bytes("DISPLAY").and_then(Display::parse).is_some_and(|display| display.is_forwarded());
        let x11 = match (display.liveness.state, cookie.liveness.state) {
            (State::Alive, State::Alive) => Verdict::Works,
            // A local server may let its user in without a cookie; sshd's forwarding never does.
            (State::Alive, State::Missing | State::Dangling) if forwarded => Verdict::Broken,
            (State::Alive, State::Unknown) if forwarded => Verdict::Unknown,
            (State::Alive, _) => Verdict::Works,
            (state, _) => simple(state),
        };
        let wayland_verdict = simple(wayland.liveness.state);
        let (verdict, detail) = match (wayland_verdict, x11) {
            (Verdict::Works, _) => (Verdict::Works, format!("Wayland: {}", wayland.liveness.detail)),
            (_, Verdict::Works) => (Verdict::Works, format!("X: {}", display.liveness.detail)),
            (_, Verdict::Broken) if display.liveness.state == State::Alive => {
                (Verdict::Broken, format!("the display answers, the cookie is missing: {}", cookie.liveness.detail))
            }
            (Verdict::Unknown, _) => (Verdict::Unknown, wayland.liveness.detail.clone()),
            (_, Verdict::Unknown) => (Verdict::Unknown, display.liveness.detail.clone()),
            (_, Verdict::Broken) => (Verdict::Broken, display.liveness.detail.clone()),
            (Verdict::Broken, _) => (Verdict::Broken, wayland.liveness.detail.clone()),
            _ => (Verdict::Missing, self.lacking(&[display, wayland], "neither DISPLAY nor WAYLAND_DISPLAY is set")),
        };
        let parts =
            vec![display.clone(), cookie.clone(), wayland.clone(), self.part("XDG_RUNTIME_DIR"), self.part("DBUS_SESSION_BUS_ADDRESS")];
        Need { purpose: Purpose::Gui, verdict, detail, parts }
    }

    fn git(&self) -> Need {
        let agent = self.part("SSH_AUTH_SOCK");
        let ssh = program(&self.carrier, self.redactor, "ssh");
        let verdict = match simple(agent.liveness.state) {
            Verdict::Works if ssh.liveness.state == State::Missing => Verdict::Missing,
            other => other,
        };
        let detail = match verdict {
            Verdict::Missing if agent.liveness.state == State::Missing => {
                self.lacking(&[&agent], "no agent: only key files without a passphrase work")
            }
            Verdict::Missing => "there is no ssh on PATH".to_owned(),
            _ => agent.liveness.detail.clone(),
        };
        Need { purpose: Purpose::GitOverSsh, verdict, detail, parts: vec![agent, ssh] }
    }

    fn clipboard(&self, display: &Part, wayland: &Part) -> Need {
        let native = program(&self.carrier, self.redactor, "wl-copy");
        let x_tools = X_TOOLS.map(|name| program(&self.carrier, self.redactor, name));
        let place = |name: &str| search::find(&self.carrier, self.redactor, name.as_bytes()).ok().flatten();
        let first_x = X_TOOLS.iter().filter_map(|name| place(name)).min_by_key(|found| found.index);
        let first_native = place("wl-copy");
        let has_x = x_tools.iter().any(|tool| tool.liveness.state == State::Alive);
        let (verdict, detail) = match (simple(wayland.liveness.state), simple(display.liveness.state)) {
            (Verdict::Works, _) if native.liveness.state == State::Alive && !comes_first(first_x.as_ref(), first_native.as_ref()) => {
                (Verdict::Works, "wl-copy, under Wayland".to_owned())
            }
            (Verdict::Works, _) if has_x => {
                (Verdict::Unreliable, "WAYLAND_DISPLAY is set and the X tool comes first: it may succeed with stale text".to_owned())
            }
            (Verdict::Works, _) | (_, Verdict::Works) if !has_x && native.liveness.state != State::Alive => {
                (Verdict::Missing, "none of wl-copy, xclip and xsel is on PATH".to_owned())
            }
            (_, Verdict::Works) if has_x => (Verdict::Works, "an X tool, under X".to_owned()),
            (_, Verdict::Works) => (Verdict::Missing, "neither xclip nor xsel is on PATH".to_owned()),
            (Verdict::Unknown, _) => (Verdict::Unknown, wayland.liveness.detail.clone()),
            (_, Verdict::Unknown) => (Verdict::Unknown, display.liveness.detail.clone()),
            (Verdict::Broken, _) => (Verdict::Broken, wayland.liveness.detail.clone()),
            (_, Verdict::Broken) => (Verdict::Broken, display.liveness.detail.clone()),
            _ => (Verdict::Missing, self.lacking(&[display, wayland], "neither DISPLAY nor WAYLAND_DISPLAY is set")),
        };
        let mut parts = vec![wayland.clone(), display.clone(), native];
        parts.extend(x_tools);
        Need { purpose: Purpose::Clipboard, verdict, detail, parts }
    }
}

fn simple(state: State) -> Verdict {
    match state {
        State::Alive => Verdict::Works,
        State::Missing | State::None => Verdict::Missing,
        State::Unknown => Verdict::Unknown,
        State::Reused | State::Refused | State::Dangling | State::Rejected => Verdict::Broken,
    }
}

const X_TOOLS: [&str; 2] = ["xclip", "xsel"];

/// Whether the X tool stands in an earlier directory of PATH. In one directory the program that copies decides.
fn comes_first(x: Option<&Found>, native: Option<&Found>) -> bool {
    match (x, native) {
        (Some(x), Some(native)) => x.index < native.index,
        (Some(_), None) => true,
        (None, _) => false,
    }
}

fn program(carrier: &Carrier<'_>, redactor: &Redactor, name: &str) -> Part {
    let liveness = match search::find(carrier, redactor, name.as_bytes()) {
        Ok(Some(found)) => Liveness::passive(State::Alive, found.path()),
        Ok(None) => Liveness::passive(State::Missing, "not on PATH"),
        Err(Unknown::Absent) => Liveness::passive(State::Missing, "PATH is not set"),
        Err(reason) => Liveness::passive(State::Unknown, format!("PATH could not be searched: {reason}")),
    };
    Part { name: name.to_owned(), liveness }
}
