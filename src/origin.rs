//! Whose it is: what a value names, whether that still lives, who owns it, and where a process was born.
//!
//! One file a matter. Everything is judged in the view of the process that carries the value, passively
//! unless the question was asked with `connect`.

pub mod access;
pub mod address;
pub mod agent_socket;
pub mod birth;
pub mod bus;
pub mod container;
pub mod display;
pub mod login;
pub mod named_socket;
pub mod one_place;
pub mod owner;
pub mod place;
pub mod pulse;
pub mod screen;
pub mod socket;
pub mod ssh;
pub mod tmux;
pub mod tty;
pub mod unit;
pub mod wayland;
pub mod xauthority;

use serde::{Deserialize, Serialize};

use crate::host::connect::Answer;
use crate::host::{Environ, Fact, Host, Pid, Stat, Unknown, View};
use crate::verdict::registry::Topic;
use crate::verdict::{Evidence, How, Liveness, State};

pub use birth::birth;

/// Two clocks are compared only beyond this: start times count ticks, files have wall-clock times.
pub const TOLERANCE_MS: i64 = 2_000;

/// What a value is, which decides how it is judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// `DISPLAY`.
    Display,
    /// `WAYLAND_DISPLAY`: a name below the runtime directory, or an absolute path.
    WaylandDisplay,
    /// `XAUTHORITY`.
    XAuthority,
    /// `SSH_CONNECTION`: client address and port, server address and port.
    SshConnection,
    /// `SSH_CLIENT`: client address and port, server port.
    SshClient,
    /// A terminal device such as `SSH_TTY`.
    Tty,
    /// `SSH_AUTH_SOCK`.
    SshAgent,
    /// `SSH_AGENT_PID` and others that hold a pid.
    ProcessId,
    /// `DBUS_SESSION_BUS_ADDRESS`.
    BusAddress,
    /// `XDG_RUNTIME_DIR`.
    RuntimeDir,
    /// `TMUX`: socket, server pid, session.
    Tmux,
    /// `STY`.
    Screen,
    /// A path of a Unix socket.
    UnixSocket,
    /// A path of a Unix socket, with a prefix such as `unix:` or `unix://`, or a TCP address.
    SocketAddress,
    /// `PULSE_SERVER`: several addresses, of Unix sockets or hosts.
    PulseServer,
    /// `PIPEWIRE_REMOTE`: a name below PipeWire's directory, or an absolute path.
    PipewireRemote,
    /// `HYPRLAND_INSTANCE_SIGNATURE`: names the directory of Hyprland's sockets.
    HyprlandInstance,
    /// `https_proxy` and its like: `[scheme://][user@]host:port`.
    Proxy,
    /// A directory.
    Directory,
    /// A file.
    File,
    /// A program: a path, or a name that is searched on PATH.
    Program,
    /// A list of files separated by colons, of which those that are there are read.
    FileList,
    /// A list of directories separated by colons.
    PathList,
    /// A value that names nothing that lives.
    Plain,
}

/// The carrier of a value, and how far the question may go.
#[derive(Clone, Copy)]
pub struct Carrier<'h> {
    /// The machine.
    pub host: &'h Host,
    /// The process; none for a file of assignments.
    pub process: Option<&'h Stat>,
    /// From where it sees files and networks.
    pub view: View,
    /// Its whole environment: a Wayland name needs the runtime directory beside it.
    pub environ: &'h Environ,
    /// The environment that tells in which login it was born: its own, or where that was thinned out on the way, that of
    /// the process which it comes from.
    pub born: &'h Environ,
    /// Whether the thing may be opened (`--connect`).
    pub connect: bool,
}

/// What was found out about a value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Named {
    /// Its state, why, and how that is known.
    pub liveness: Liveness,
    /// Who listens, where that could be found out.
    pub owner: Option<Owner>,
    /// Whether it still belongs to the connection (or server) that the carrier was born with; none where that has no meaning or is not known.
    pub same_connection: Option<bool>,
    /// What was read.
    pub evidence: Vec<Evidence>,
    /// What a reader should know besides, such as a restarted server on a stable path.
    pub notes: Vec<String>,
}

/// The process behind a socket.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Owner {
    /// Its pid.
    pub pid: Pid,
    /// When it started, in clock ticks since boot; older snapshots do not have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_ticks: Option<u64>,
    /// The kernel's name of it.
    pub comm: String,
    /// The login name it runs as.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// The ssh connection it serves: `client_ip client_port server_ip server_port`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connection: Option<String>,
}

/// Where a process was born, as far as its environment, its control group and its terminal still tell.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Birth {
    /// `client_ip client_port server_ip server_port`, from SSH_CONNECTION.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ssh_connection: Option<String>,
    /// The controlling tty, or the SSH_TTY it was started with, unless that was inside a multiplexer: `pts/3`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tty: Option<String>,
    /// The login session of logind, from the control group (`session-<id>.scope`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub login_session: Option<String>,
    /// Socket, server pid and session of tmux.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tmux: Option<String>,
    /// The systemd unit, from the control group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit: Option<String>,
    /// The container, from the control group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub container: Option<String>,
}

impl Carrier<'_> {
    /// A piece of evidence read now, passively.
    pub fn saw(&self, source: impl Into<String>, detail: impl Into<String>) -> Evidence {
        Evidence { source: source.into(), how: How::Passive, at: self.host.machine().taken_at(), detail: detail.into() }
    }

    /// Where we find what it names by this path: in its own files, where those are not ours.
    pub fn seen_at(&self, path: &[u8]) -> String {
        let path = String::from_utf8_lossy(path);
        self.view.mount.map_or_else(|| path.clone().into_owned(), |pid| format!("/proc/{pid}/root{path}"))
    }

    /// When the carrier was started, milliseconds since the epoch.
    fn started_ms(&self) -> Option<i64> {
        Some(self.host.machine().started_ms(self.process?.start_ticks))
    }

    /// By how much something of this age is younger than the carrier; none unless it is so beyond [`TOLERANCE_MS`].
    fn younger_by_ms(&self, made_ms: i64) -> Option<i64> {
        Some(made_ms - self.started_ms()?).filter(|&by| by > TOLERANCE_MS)
    }

    /// Whether it got its value of a variable since its process began, as an `export` in a shell does: the block that it was started with
    /// has another. Then neither the login of birth nor the process's age says anything of it.
    fn got_since(&self, name: &str) -> bool {
        let Some(process) = self.process else { return false };
        let block = self.host.process(process.pid).environ();
        self.environ.get(name).is_some() && block.is_ok_and(|block| !block.overwritten && block.get(name) != self.environ.get(name))
    }

    /// Whether its value of a variable was set anew somewhere above it, as an `export` in a shell that it comes from does: a process above it of
    /// the same login was started with another. A value that all of them share may be as old as the login.
    fn was_given_anew(&self, name: &str) -> bool {
        let Some(process) = self.process else { return false };
        for above in self.host.chain(process.pid).iter().skip(1) {
            let Ok(block) = self.host.process(above.pid).environ() else { return false };
            if block.overwritten || block.get("SSH_CONNECTION") != self.born.get("SSH_CONNECTION") {
                return false;
            }
            if block.get(name) != self.environ.get(name) {
                return true;
            }
        }
        false
    }

    /// Process ids in its values are known to mean what they mean to us.
    fn shares_pids(&self) -> bool {
        self.view.pids == Some(true)
    }

    /// Why they do not, or that it is not known.
    fn other_pids(&self) -> &'static str {
        match self.view.pids {
            Some(_) => "means a process in another namespace",
            None => "may mean a process in another namespace: which one this process is in could not be read",
        }
    }
}

impl Named {
    /// A state, with nothing else known yet.
    pub fn new(state: State, detail: impl Into<String>) -> Named {
        Named { liveness: Liveness::passive(state, detail), owner: None, same_connection: None, evidence: Vec::new(), notes: Vec::new() }
    }

    /// What would decide could not be read.
    pub fn unknown(what: impl std::fmt::Display, reason: &Unknown) -> Named {
        Named::new(State::Unknown, format!("{what}: {reason}"))
    }

    fn with(mut self, evidence: impl IntoIterator<Item = Evidence>) -> Named {
        self.evidence.extend(evidence);
        self
    }

    fn note(mut self, note: impl Into<String>) -> Named {
        self.notes.push(note.into());
        self
    }

    /// Takes in what the thing itself answered. An answer does not tell whose it is: `reused` stays.
    fn answered(mut self, carrier: &Carrier<'_>, what: String, answer: Fact<Answer>) -> Named {
        let (state, detail) = match answer {
            Ok(Answer::Answers(detail)) if self.liveness.state == State::Unknown => (State::Alive, detail),
            Ok(Answer::Answers(detail)) => (self.liveness.state, detail),
            Ok(Answer::Rejected(detail)) => (State::Rejected, detail),
            Ok(Answer::Refused(detail)) => (State::Refused, detail),
            // What it was born with is gone, whether or not the other one answers.
            Ok(Answer::Silent(detail)) if self.liveness.state == State::Reused => {
                self.notes.push(format!("Asked: {detail}."));
                return self;
            }
            Ok(Answer::Silent(detail)) => (State::Unknown, detail),
            Err(unknown) => {
                self.notes.push(format!("Asked, and no answer could be had: {unknown}."));
                return self;
            }
        };
        self.liveness = Liveness { state, detail: detail.clone(), how: How::Connects };
        self.evidence.push(Evidence { source: what, how: How::Connects, at: carrier.host.machine().taken_at(), detail });
        self
    }

    /// Whether it is worth asking the thing itself.
    fn may_answer(&self) -> bool {
        matches!(self.liveness.state, State::Alive | State::Unknown)
    }
}

/// Variables whose values decide about those of others: a snapshot must keep them clear.
pub const READ_BESIDE: [&str; 10] = [
    "DISPLAY",
    "HOME",
    "PIPEWIRE_RUNTIME_DIR",
    "SCREENDIR",
    "SSH_CONNECTION",
    "TMUX",
    "TMUX_TMPDIR",
    "USER",
    "XAUTHORITY",
    "XDG_RUNTIME_DIR",
];

/// What a value names, in the view of the process that carries it.
///
/// Only what the host's facts show is claimed; what could not be read makes the state `unknown`.
pub fn examine(carrier: &Carrier<'_>, kind: Kind, value: &[u8]) -> Named {
    if value.is_empty() && kind != Kind::XAuthority {
        return match kind {
            Kind::Plain | Kind::PathList => Named::new(State::None, "the value is empty"),
            _ => Named::new(State::Missing, "it is set to the empty string, which counts as unset"),
        };
    }
    match kind {
        Kind::Display => display::examine(carrier, value),
        Kind::WaylandDisplay => wayland::examine(carrier, value),
        Kind::XAuthority => xauthority::examine(carrier, value),
        Kind::SshConnection => ssh::examine_connection(carrier, value),
        Kind::SshClient => ssh::examine_client(carrier, value),
        Kind::Tty => tty::examine(carrier, value),
        Kind::SshAgent => agent_socket::examine(carrier, value),
        Kind::ProcessId => owner::examine_pid(carrier, value),
        Kind::BusAddress => bus::examine(carrier, value),
        Kind::RuntimeDir => place::examine_runtime_dir(carrier, value),
        Kind::Tmux => tmux::examine(carrier, value),
        Kind::Screen => screen::examine(carrier, value),
        Kind::UnixSocket => socket::examine_any(carrier, value),
        Kind::SocketAddress => address::examine(carrier, value),
        Kind::PulseServer => pulse::examine(carrier, value),
        Kind::PipewireRemote => named_socket::examine_pipewire(carrier, value),
        Kind::HyprlandInstance => named_socket::examine_hyprland(carrier, value),
        Kind::Proxy => address::examine_proxy(carrier, value),
        Kind::Directory => place::examine(carrier, value, place::Wanted::Directory),
        Kind::File => place::examine(carrier, value, place::Wanted::File),
        Kind::Program => place::examine_program(carrier, value),
        Kind::FileList => place::examine_list(carrier, value),
        Kind::PathList | Kind::Plain => Named::new(State::None, "it names nothing that lives"),
    }
}

/// What a value is by its form alone, where no variable's name tells: `localhost:10.0`, `unix:path=…`, `/dev/pts/3`.
pub fn kind_of_value(value: &[u8]) -> Option<Kind> {
    let starts = |prefix: &str| value.starts_with(prefix.as_bytes());
    if starts("unix:path=") || starts("unix:abstract=") || starts("unix:tmpdir=") || starts("tcp:host=") || starts("autolaunch:") {
        return Some(Kind::BusAddress);
    }
    if starts("unix://") || starts("tcp://") {
        return Some(Kind::SocketAddress);
    }
    if ssh::Connection::parse(value).is_some() {
        return Some(Kind::SshConnection);
    }
    if tmux::Place::parse(value).is_some() {
        return Some(Kind::Tmux);
    }
    if starts("/dev/") {
        return Some(Kind::Tty);
    }
    if starts("/") {
        return Some(if agent_socket::Scheme::of(value) == agent_socket::Scheme::Stable { Kind::UnixSocket } else { Kind::SshAgent });
    }
    if starts("wayland-") {
        return Some(Kind::WaylandDisplay);
    }
    let display = display::Display::parse(value)?;
    // Nobody has a thousand displays: `127.0.0.1:8080` is a port. A screen behind it makes it a display all the same.
    let is_port = matches!(display.way, display::Way::Tcp(_)) && display.number >= 1024 && !value.ends_with(b".0");
    Some(if is_port { Kind::SocketAddress } else { Kind::Display })
}

/// A span of time as a sentence gives it.
fn span(ms: i64) -> String {
    let seconds = ms / 1000;
    match seconds {
        ..120 => format!("{seconds} s"),
        120..7_200 => format!("{} min", seconds / 60),
        7_200..172_800 => format!("{} h", seconds / 3_600),
        _ => format!("{} days", seconds / 86_400),
    }
}

/// Topic of a kind, for findings; none for values whose state is no finding.
pub fn topic(kind: Kind) -> Option<Topic> {
    match kind {
        Kind::Display => Some(Topic::Display),
        Kind::WaylandDisplay => Some(Topic::Wayland),
        Kind::XAuthority => Some(Topic::XAuthority),
        Kind::SshConnection | Kind::SshClient => Some(Topic::SshConnection),
        Kind::Tty => Some(Topic::Tty),
        Kind::SshAgent => Some(Topic::SshAgent),
        Kind::BusAddress => Some(Topic::Bus),
        Kind::RuntimeDir => Some(Topic::RuntimeDir),
        Kind::Tmux | Kind::Screen => Some(Topic::Multiplexer),
        Kind::PipewireRemote | Kind::PulseServer => Some(Topic::Audio),
        Kind::HyprlandInstance => Some(Topic::WindowManager),
        Kind::Proxy => Some(Topic::Proxy),
        Kind::Directory | Kind::File | Kind::Program | Kind::FileList => Some(Topic::Place),
        Kind::ProcessId | Kind::UnixSocket | Kind::SocketAddress | Kind::PathList | Kind::Plain => None,
    }
}

#[cfg(test)]
mod made_up;
#[cfg(test)]
mod tests;
