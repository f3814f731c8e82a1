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
                        text: concat!("The process names ", $noun, " that refuses this client, or that it may not open.") },
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
        PATH_MISSING_DIRECTORY = "path.missing_directory", Warning, "The daemon's PATH names a directory that is not there; the terminal's does not name it in vain as well.";
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
        /// The store's generation is later than its daemon's.
        STORE_NEWER_THAN_DAEMON = "store.newer_than_daemon", Warning, "The store was made by a later line of the host than the daemon that holds it.";
        /// The store does not fit together.
        STORE_DAMAGED = "store.damaged", Error, "SQLite's own check says that the store, with its WAL, does not fit together.";
        /// The base alone does not fit together.
        STORE_BASE_DAMAGED = "store.base_damaged", Warning, "The database file alone does not fit together; with its -wal it does: who copies or moves it without the -wal loses it.";
        /// Shared memory over a network.
        STORE_ON_NETWORK = "store.on_network", Warning, "The store is in WAL mode on a network or user-space file system, where WAL does not hold.";
        /// Committed frames are lost.
        STORE_WAL_DAMAGED = "store.wal_damaged", Error, "Frames of the WAL do not check: SQLite leaves out everything from the first of them on, without a word, and what was committed there is lost.";
        /// Checkpoints do not come to their end.
        STORE_WAL_LARGE = "store.wal_large", Warning, "The WAL has grown over 64 MiB: somebody reads for long, or the host makes no checkpoint.";
        /// A transaction was never finished.
        STORE_HOT_JOURNAL = "store.hot_journal", Info, "A rollback journal holds a transaction that was never finished; the next host to open the store undoes it.";
        /// Not in WAL mode.
        STORE_ROLLBACK_JOURNAL = "store.rollback_journal", Info, "An OpenCode store that is not in WAL mode.";
        /// Migrations of old versions alone.
        STORE_LEGACY_JOURNAL = "store.legacy_journal", Info, "The store's migrations are in the journal of old versions of OpenCode 1.x alone.";
        /// A plugin is gone, its rows are not.
        STORE_KV_LEFT_OVER = "store.kv_left_over", Warning, "Rows in plugin storage belong to a plugin that is configured nowhere.";
        /// Keys without a scope of their own.
        STORE_KV_UNSCOPED = "store.kv_unscoped", Info, "Keys in plugin storage name no session and no path: two windows overwrite each other.";
        /// A value is large.
        STORE_VALUE_LARGE = "store.value_large", Warning, "A value in plugin storage has more than 1 MiB: the host has no quota, and reads and writes it whole.";
        /// Rows wait and nobody works.
        STORE_INBOX_STUCK = "store.inbox_stuck", Warning, "Rows wait in the queue of a session in which no turn runs: they are taken at its next wake, whenever that is.";
        /// One payload, twice.
        STORE_INBOX_DUPLICATE = "store.inbox_duplicate", Warning, "The same payload waits more than once for the same session.";
        /// A child without its parent.
        STORE_SESSION_ORPHAN = "store.session_orphan", Info, "Sessions are children of a session that is gone: nobody takes their result.";
        /// A parent id that names nothing.
        STORE_SESSION_DANGLING_PARENT = "store.session_dangling_parent", Warning, "A parent id names a session that is not there.";
        /// Parents in a circle.
        STORE_SESSION_PARENT_CIRCLE = "store.session_parent_circle", Warning, "Sessions are their own ancestors by their parent ids: no host makes such.";
        /// A turn that nobody runs.
        STORE_SESSION_SUSPENDED = "store.session_suspended", Warning, "A session is in the middle of a turn, and no daemon holds the store: the turn was cut off.";
        /// A directory is gone.
        STORE_SESSION_DIRECTORY_GONE = "store.session_directory_gone", Info, "Sessions work in a directory that is not there any more.";
        /// Events take most of it.
        STORE_EVENT_BLOAT = "store.event_bloat", Warning, "More than half of the store, and over 8 MiB, are events: its host deletes none.";
        /// Events are missing.
        STORE_EVENT_GAP = "store.event_gap", Info, "Events of a session are missing: before the first, between, or after the last up to the host's own counter.";
        /// Pages that hold nothing.
        STORE_FREE_PAGES = "store.free_pages", Info, "More than a quarter of the store, and over 4 MiB, hold nothing, and it does not vacuum itself.";
        /// Secrets are there.
        STORE_SECRET_COLUMNS = "store.secret_columns", Info, "The store has rows with credentials. They are counted and never read.";
        /// Files past their time.
        STORE_BLACKBOARD_STALE = "store.blackboard_stale", Info, "Files of a team's blackboard are older than the five days after which they should have been swept.";
        /// The server's own block names what is dead.
        MULTIPLEXER_STALE = "multiplexer.stale_environment", Info, "The multiplexer's server carries values that lead nowhere, and no client attached to it has brought newer ones: new windows get them.";
        /// What the shells of a daemon get could not be found out.
        HANDED_ON_UNKNOWN = "environ.handed_on_unknown", Warning, "Which of the daemon's variables reach its shells is decided by a file that could not be read: what its tools can do is not known.";
        /// A probe's claim does not hold.
        PROBE_REFUTED = "probe.refuted", Warning, "An experiment refuted a claim about what this host does with environments.";
        /// A probe could not tell.
        PROBE_UNDETERMINED = "probe.undetermined", Warning, "An experiment could not tell: its control did not hold, or the host did not answer.";
        /// A probe did not ask.
        PROBE_NOT_ASKED = "probe.not_asked", Info, "An experiment is not made on a host of this kind: a live one is not ended, and has a model of its own.";
        /// The host lacks what was required.
        PROBE_UNSUPPORTED = "probe.unsupported", Error, "The host has no such surface, and --require asks for it.";
        /// A declared name does not reach the child.
        PROBE_DECLARED_UNUSED = "probe.declared_unused", Info, "A name that the policy declares does not reach the child: it is not set in the daemon, or is no name.";
        /// A probe left something.
        PROBE_LEFT = "probe.left", Warning, "Something that a probe made could not be removed.";
        /// What a recipe expects was not seen.
        PROBE_UNEXPECTED = "probe.unexpected", Error, "A command that a recipe describes did not have the environment that the recipe expects.";
        /// A version string and the code are of two generations.
        BINARY_VERSION_DISAGREES = "binary.version_disagrees", Warning, "The version that a program carries is of another generation than its code.";
        /// A program that does not know the database's schema.
        BINARY_OLDER_THAN_DATABASE = "binary.older_than_database", Error, "A program lacks changes that were made to the database that it would open: it fails there, or damages it.";
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
