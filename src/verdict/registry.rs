//! Every finding the tool can make: id, severity, and what it means. The man page prints this table.

use super::Severity;

/// A kind of finding.
#[derive(Debug, PartialEq, Eq)]
pub struct Kind {
    /// `topic.problem`, stable across versions.
    pub id: &'static str,
    /// How much it matters.
    pub severity: Severity,
    /// What it means, one sentence.
    pub text: &'static str,
}

/// What is wrong with something that a variable names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Problem {
    /// Something answers, and it is not what the process was born with.
    Reused,
    /// The path or port is there and nothing listens.
    Refused,
    /// The path is gone.
    Dangling,
    /// It answers and says no.
    Rejected,
    /// It is alive, and belongs to another login than the terminal compared with.
    Foreign,
    /// The terminal has it and the daemon does not.
    Missing,
    /// What would decide could not be read.
    Unknown,
}

/// What a variable names, as far as findings tell it apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Topic {
    /// An X display.
    Display,
    /// A Wayland socket.
    Wayland,
    /// The file with the X cookies.
    XAuthority,
    /// An ssh agent's socket.
    SshAgent,
    /// The ssh connection of a login.
    SshConnection,
    /// A D-Bus address.
    Bus,
    /// The user's runtime directory.
    RuntimeDir,
    /// A terminal device.
    Tty,
    /// A tmux, screen, zellij, kitty or wezterm server.
    Multiplexer,
    /// An editor's IPC or git socket.
    Editor,
    /// A window manager's socket.
    WindowManager,
    /// A PulseAudio or PipeWire server.
    Audio,
    /// A gpg agent.
    Gpg,
    /// A container engine or cluster.
    Containers,
    /// A socket that a variable's name gives away.
    Socket,
    /// A network proxy.
    Proxy,
    /// A directory or file that a tool needs.
    Place,
}

macro_rules! registry {
    (
        topics { $($topic:ident = $word:literal, $noun:literal;)* }
        single { $($(#[doc = $doc:literal])* $name:ident = $id:literal, $severity:ident, $text:literal;)* }
    ) => {
        impl Topic {
            /// Every topic.
            pub const ALL: &[Topic] = &[$(Topic::$topic),*];

            /// First half of a finding id.
            pub fn word(self) -> &'static str {
                match self { $(Topic::$topic => $word),* }
            }

            /// As a sentence names it.
            pub fn noun(self) -> &'static str {
                match self { $(Topic::$topic => $noun),* }
            }

            /// A place that is gone breaks the tools that use it; a socket or display that is gone breaks what everybody uses.
            const fn severity(self) -> Severity {
                if matches!(self, Topic::Place) { Severity::Warning } else { Severity::Error }
            }

            /// The kind of finding for a problem with this topic.
            pub fn kind(self, problem: Problem) -> &'static Kind {
                match self { $(Topic::$topic => match problem {
                    Problem::Reused => &Kind { id: concat!($word, ".reused"), severity: Severity::Error,
                        text: concat!("The process names ", $noun, " that something else answers on now: what it was born with is gone.") },
                    Problem::Refused => &Kind { id: concat!($word, ".refused"), severity: Severity::Error,
                        text: concat!("The process names ", $noun, " on which nothing listens any more.") },
                    Problem::Dangling => { const KIND: Kind = Kind { id: concat!($word, ".dangling"), severity: Topic::$topic.severity(),
                        text: concat!("The process names ", $noun, " that is gone.") }; &KIND }
                    Problem::Rejected => &Kind { id: concat!($word, ".rejected"), severity: Severity::Error,
                        text: concat!("The process names ", $noun, " that answers and refuses this client.") },
                    Problem::Foreign => &Kind { id: concat!($word, ".foreign"), severity: Severity::Warning,
                        text: concat!("The process names ", $noun, " that is alive and is not this terminal's.") },
                    Problem::Missing => &Kind { id: concat!($word, ".missing"), severity: Severity::Warning,
                        text: concat!("This terminal names ", $noun, " that works; the process names none.") },
                    Problem::Unknown => &Kind { id: concat!($word, ".unknown"), severity: Severity::Warning,
                        text: concat!("The process names ", $noun, ", and what would tell whether it is alive could not be read.") },
                }),* }
            }
        }

        $($(#[doc = $doc])* pub static $name: Kind = Kind { id: $id, severity: Severity::$severity, text: $text };)*

        /// The kinds that belong to no topic.
        const SINGLE: &[&Kind] = &[$(&$name),*];
    };
}

registry! {
    topics {
        Display = "display", "an X display";
        Wayland = "wayland", "a Wayland socket";
        XAuthority = "xauthority", "an X authority file";
        SshAgent = "ssh_agent", "an ssh agent socket";
        SshConnection = "ssh_connection", "an ssh connection";
        Bus = "bus", "a D-Bus address";
        RuntimeDir = "runtime_dir", "a runtime directory";
        Tty = "tty", "a terminal device";
        Multiplexer = "multiplexer", "a multiplexer's server";
        Editor = "editor", "an editor's socket";
        WindowManager = "window_manager", "a window manager's socket";
        Audio = "audio", "an audio server";
        Gpg = "gpg", "a gpg agent";
        Containers = "containers", "a container engine or cluster";
        Socket = "socket", "a socket";
        Proxy = "proxy", "a network proxy";
        Place = "place", "a file or directory";
    }
    single {
        /// The daemon's environment may not be read.
        DAEMON_UNREADABLE = "daemon.unreadable", Warning, "The process may not be looked into from this account: nothing about its environment is known, neither dead nor fine.";
        /// The daemon's program file was replaced.
        DAEMON_DELETED_EXE = "daemon.deleted_exe", Warning, "The program file of the running process was removed or replaced since it started: an update has not reached it.";
        /// The daemon's block was overwritten.
        ENVIRON_OVERWRITTEN = "environ.overwritten", Info, "The process wrote over its environment block: what it was started with can no longer be read.";
        /// Identity variables of another agent.
        ENVIRON_LEAKED_MARKER = "environ.leaked_marker", Warning, "The environment carries identity variables of another agent instance: the daemon was started from inside an agent.";
        /// A variable that is there only by inheritance.
        ENVIRON_INHERITED_ONLY = "environ.inherited_only", Info, "The daemon carries variables that this terminal does not have: present only by inheritance from whoever started it.";
        /// The two environments differ in a variable that decides how programs behave.
        ENVIRON_DIFFERS = "environ.differs", Info, "Daemon and terminal have different values for variables that steer programs, such as the git author or a proxy.";
        /// Secrets in a child.
        SECRET_INHERITED = "secret.inherited", Info, "Variables that are secrets by name or by shape reach this process from the daemon.";
        /// PATH names a directory that is not there.
        PATH_MISSING_DIRECTORY = "path.missing_directory", Warning, "The daemon's PATH names a directory that is not there.";
        /// A program resolves differently.
        PATH_RESOLVES_DIFFERENTLY = "path.resolves_differently", Warning, "A program is another one, or none, under the daemon's PATH than under this terminal's.";
        /// No PATH at all.
        PATH_UNSET = "path.unset", Warning, "The daemon has no PATH: its tools find only what their shell falls back to.";
        /// A GUI program would not start.
        GUI_INCOMPLETE = "gui.incomplete", Warning, "What a GUI program needs (a display with its cookie, or a Wayland socket) is not complete in this process.";
        /// The clipboard would be wrong.
        CLIPBOARD_UNRELIABLE = "clipboard.unreliable", Warning, "A Wayland session in which the X clipboard tool comes first: it may succeed with stale text.";
        /// Registration and process disagree on the pid.
        REGISTRATION_PID = "registration.pid", Error, "The registration file names a process that is gone or is not the agent: clients reach nobody, or somebody else.";
        /// Registration and process disagree on the version.
        REGISTRATION_VERSION = "registration.version", Warning, "The registration file and the running program are of different versions.";
        /// The URL's port has no or another listener.
        REGISTRATION_LISTENER = "registration.listener", Error, "The address in the registration file is not served by the process it names.";
        /// The file cannot be used.
        REGISTRATION_UNREADABLE = "registration.unreadable", Warning, "The registration file is no regular file of this user, or cannot be understood.";
        /// A service without a file.
        REGISTRATION_MISSING = "registration.missing", Warning, "The background service runs and no registration file names it: clients do not find it, and it soon ends itself.";
        /// Others can read the file.
        REGISTRATION_EXPOSED = "registration.exposed", Warning, "The registration file holds a password and can be read by others.";
        /// Unit file and live value differ.
        UNIT_DIFFERS = "unit.differs", Warning, "What the unit file or a drop-in sets is not what the running process has: the process was started before, or something else won.";
        /// Logging out kills the service.
        LINGER_OFF = "login.linger_off", Warning, "The daemon runs in the user manager and lingering is off: it ends with the last login.";
        /// The pane is older than the session layer.
        TMUX_PANE_STALE = "multiplexer.pane_stale", Warning, "The tmux client attached now comes from another login than this pane was born in: the pane's shell still has the old values.";
        /// The server's own block names what is dead.
        MULTIPLEXER_STALE = "multiplexer.stale_environment", Info, "The multiplexer's server carries values that lead nowhere, and no client attached to it has brought newer ones: new windows get them.";
        /// What the shells of a daemon get could not be found out.
        HANDED_ON_UNKNOWN = "environ.handed_on_unknown", Warning, "Which of the daemon's variables reach its shells is decided by a file that could not be read: what its tools can do is not known.";
        /// The snapshot was changed.
        SNAPSHOT_ALTERED = "snapshot.altered", Error, "A fact in the snapshot is not the one that was captured; it is not used.";
        /// The snapshot has a hole.
        SNAPSHOT_INCOMPLETE = "snapshot.incomplete", Warning, "A file or fact that the snapshot's manifest lists is missing or unreadable.";
    }
}

/// Every kind of finding.
pub fn all() -> Vec<&'static Kind> {
    const PROBLEMS: [Problem; 7] =
        [Problem::Reused, Problem::Refused, Problem::Dangling, Problem::Rejected, Problem::Foreign, Problem::Missing, Problem::Unknown];
    let topical = Topic::ALL.iter().flat_map(|topic| PROBLEMS.map(|problem| topic.kind(problem)));
    topical.chain(SINGLE.iter().copied()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_unique_and_well_formed() {
        let mut ids: Vec<_> = all().iter().map(|kind| kind.id).collect();
        let count = ids.len();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), count);
        for id in ids {
            let (topic, problem) = id.split_once('.').expect(id);
            for part in [topic, problem] {
                assert!(!part.is_empty() && part.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'), "{id}");
            }
        }
    }
}
