//! What each agent host is: which processes belong to it, and what repairs their environment.
//!
//! A process is an agent by what its program *is*: the payload of the program file, the sockets and files it has
//! open. Its arguments tell no more than the mode of a process already known. Where the program may not be looked
//! into, the name alone speaks, and [`KnownBy::Name`] says so.
//!
//! | file | matter |
//! |---|---|
//! | `catalog.toml`, `catalog` | every agent by id; programs told by signature |
//! | `recognise` | one process: is it an agent's, and in which mode |
//! | `relate` | tool children and helpers, by the parent chain |
//! | `discover` | the whole machine |
//! | `stores`, `plugins` | where their databases are, and which plugins are configured |
//! | `opencode`, `zeroclaw` | the two agents that are known from inside |
//! | `handed_on` | which of a daemon's variables its tools get |
//! | `fix`, `relaunch`, `multiplexer` | the lines that repair an environment |
//!
//! To add an agent that is told by signature: a table in `catalog.toml`. One that is known from inside: a file
//! with an [`Agent`], and a line in [`KNOWN`].

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::host::{Environ, Exe, Fact, Host, Pid, Raw, Stat, Unknown};
use crate::verdict::{Evidence, Finding};

pub mod catalog;
mod discover;
mod fix;
mod handed_on;
#[cfg(test)]
mod made;
mod multiplexer;
pub mod opencode;
pub mod plugins;
mod recognise;
mod relate;
mod relaunch;
pub mod stores;
pub mod zeroclaw;

pub use catalog::{Catalog, CatalogError};
pub use discover::{discover, discover_with};
pub use fix::{Fix, gone, note, quote};
pub use handed_on::{HandedOn, Unread};
pub use recognise::{Identity, Look, Mark, Recogniser};
pub use relate::Seen;

/// What a process is to its agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// It serves others: it listens, or a client talks to it over a private channel.
    Daemon,
    /// A front end, or a program that works for one terminal and serves nobody else. A client that runs tools
    /// itself (OpenCode 1.x without a port, most catalogued agents) is one too.
    Client,
    /// Started by the agent to run a tool, or by such a process in its turn.
    Tool,
    /// The server of a terminal multiplexer.
    Multiplexer,
    /// Anything else of the agent: a launcher, a language server, an MCP server.
    Other,
}

impl Role {
    /// The word used in JSON and on the screen.
    pub fn word(self) -> &'static str {
        match self {
            Role::Daemon => "daemon",
            Role::Client => "client",
            Role::Tool => "tool",
            Role::Multiplexer => "multiplexer",
            Role::Other => "other",
        }
    }
}

/// How a process of an agent was started.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// The background service that clients share and a registration file names.
    Service,
    /// A server in the foreground, registered nowhere.
    Serve,
    /// A server with a web interface (OpenCode 1.x).
    Web,
    /// The private server of one client, which ends with it.
    Standalone,
    /// The full-screen interface.
    Tui,
    /// The small interactive interface.
    Mini,
    /// One prompt, then the end.
    Run,
    /// Agent Client Protocol over standard input and output.
    Acp,
    /// One request to a server.
    Api,
    /// A front end for a server named on the command line.
    Attach,
    /// Any other command of the program.
    Command,
    /// A script that starts the real program.
    Launcher,
    /// A shell or program that runs a tool.
    Shell,
    /// A process that the daemon started and that carries none of its tool markers.
    Helper,
}

/// Which line of a product a program belongs to, where lines differ in what they do with environments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Generation {
    /// OpenCode 1.x: one process is server and client; tools get its environment.
    V1,
    /// OpenCode 2.0 preview: a background service; tools get the service's environment.
    Preview,
    /// OpenCode 2.x: a background service; a session may carry an environment of its own.
    V2,
}

impl Generation {
    /// As a sentence names it.
    pub fn word(self) -> &'static str {
        match self {
            Generation::V1 => "1.x",
            Generation::Preview => "2.0 preview",
            Generation::V2 => "2.x",
        }
    }
}

/// What made a process known as an agent's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KnownBy {
    /// The program file's payload.
    Program,
    /// The sockets and files it has open.
    Files,
    /// A row of the catalogue.
    Signature,
    /// Its parent chain, with or without the agent's markers.
    Parents,
    /// Its name alone, since the program could not be looked into for this reason: it may be a decoy.
    Name(Unknown),
}

/// A socket on which a process serves others.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Listener {
    /// A TCP port.
    Tcp(std::net::SocketAddr),
    /// A Unix socket with a name.
    Unix(Raw),
}

impl Mode {
    /// The word used in JSON and on the screen.
    pub fn word(self) -> &'static str {
        match self {
            Mode::Service => "service",
            Mode::Serve => "serve",
            Mode::Web => "web",
            Mode::Standalone => "standalone",
            Mode::Tui => "tui",
            Mode::Mini => "mini",
            Mode::Run => "run",
            Mode::Acp => "acp",
            Mode::Api => "api",
            Mode::Attach => "attach",
            Mode::Command => "command",
            Mode::Launcher => "launcher",
            Mode::Shell => "shell",
            Mode::Helper => "helper",
        }
    }
}

impl std::fmt::Display for Listener {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Listener::Tcp(address) => write!(formatter, "tcp {address}"),
            Listener::Unix(path) => write!(formatter, "unix {}", path.lossy()),
        }
    }
}

/// A process of an agent.
#[derive(Clone, Debug, PartialEq)]
pub struct AgentProcess {
    /// Pid, start, name, parents, owner (`euid`).
    pub stat: Stat,
    /// Id of the agent in the catalogue.
    pub agent: String,
    /// What it is to the agent.
    pub role: Role,
    /// How it was started.
    pub mode: Option<Mode>,
    /// The product's version, as the running program carries it.
    pub product_version: Option<String>,
    /// The product's line.
    pub generation: Option<Generation>,
    /// The program file.
    pub exe: Fact<Exe>,
    /// The session a tool child works for, where its environment says so.
    pub session_id: Option<String>,
    /// The agent process that a tool child or helper descends from.
    pub parent: Option<Pid>,
    /// Where it serves others; empty for tool children and helpers, whose open files are not read.
    pub listeners: Fact<Vec<Listener>>,
    /// The registration file that names this process.
    pub registration: Option<opencode::Registration>,
    /// What made it known.
    pub known_by: KnownBy,
    /// What was read.
    pub evidence: Vec<Evidence>,
}

impl AgentProcess {
    /// As a finding names it: `opencode (pid 42)`.
    pub fn subject(&self) -> String {
        format!("{} (pid {})", self.agent, self.stat.pid)
    }

    /// Whether its program, files or parents show what it is; else only its name does.
    pub fn is_certain(&self) -> bool {
        !matches!(self.known_by, KnownBy::Name(_))
    }
}

/// An agent that is known from inside.
pub trait Agent: Sync {
    /// Id in the catalogue.
    fn id(&self) -> &'static str;

    /// What is wrong with a process of it, its program and its registration; not with its environment.
    fn findings(&self, host: &Host, process: &AgentProcess) -> Vec<Finding>;

    /// Lines that bring about `fix` for this process: commands to paste, or an instruction.
    fn fix(&self, host: &Host, process: &AgentProcess, fix: &Fix<'_>) -> Vec<String>;

    /// What there is to do beside starting the process anew, or instead: lines of the same form. They are part of
    /// what [`Agent::fix`] gives.
    fn beside(&self, _host: &Host, _process: &AgentProcess, _fix: &Fix<'_>) -> Vec<String> {
        Vec::new()
    }

    /// Which variables of this block the tools of a daemon get; none where they get all of them.
    fn hands_on(&self, _host: &Host, _process: &AgentProcess, _environ: &Environ) -> Option<HandedOn> {
        None
    }
}

/// Every agent that is known from inside.
pub const KNOWN: &[&dyn Agent] = &[&opencode::OpenCode, &zeroclaw::ZeroClaw];

/// The agent of this id: one known from inside, or one for which the catalogue's rules hold.
pub fn agent(id: &str) -> &'static dyn Agent {
    KNOWN.iter().copied().find(|agent| agent.id() == id).unwrap_or(&catalog::Catalogued)
}
