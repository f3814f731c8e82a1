//! Whose it is: what a value names, whether that still lives, who owns it, and where a process was born.
//!
//! One file a matter. Everything is judged in the view of the process that carries the value, passively
//! unless the question was asked with `connect`.

use serde::{Deserialize, Serialize};

use crate::host::{Environ, Host, Pid, Stat, View};
use crate::verdict::registry::Topic;
use crate::verdict::{Evidence, How, Liveness};

/// What a value is, which decides how it is judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
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
    /// A directory.
    Directory,
    /// A file.
    File,
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
    /// Whether the thing may be opened (`--connect`).
    pub connect: bool,
}

/// What was found out about a value.
#[derive(Clone, Debug, PartialEq, Eq)]
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
    /// The controlling tty, or the SSH_TTY it was started with: `pts/3`.
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
        Kind::Directory | Kind::File => Some(Topic::Place),
        Kind::ProcessId | Kind::UnixSocket | Kind::SocketAddress | Kind::PathList | Kind::Plain => None,
    }
}
