//! Every claim that a probe judges: one row each, which the man pages print.

/// A claim.
#[derive(Debug, PartialEq, Eq)]
pub struct Claim {
    /// Stable id.
    pub id: &'static str,
    /// What is claimed, one sentence.
    pub statement: &'static str,
    /// What the host's documents say of it; none where they are silent.
    pub documented: Option<&'static str>,
    /// What is done.
    pub experiment: &'static str,
    /// What must hold for the experiment to tell anything.
    pub control: &'static str,
}

macro_rules! claims {
    ($(#[doc = $doc:literal])* $table:ident; $($id:ident: $statement:literal, $documented:expr, $experiment:literal, $control:literal;)*) => {
        $(#[doc = $statement]
        pub static $id: Claim = Claim {
            id: stringify!($id), statement: $statement, documented: $documented, experiment: $experiment, control: $control,
        };)*
        $(#[doc = $doc])*
        pub const $table: &[&Claim] = &[$(&$id),*];
    };
}

claims! {
    /// What OpenCode does with environments.
    OPENCODE;
    O1: "The command is a child of the daemon.", Some("Tools run in the server, never in a client."),
        "A session's shell calls back; its parent is read from /proc.", "The shell that called is alive while it is read.";
    O2: "Without an upload the command gets the daemon's environment, frozen at its start.", Some("Without an upload it falls back to the daemon's environment."),
        "A session's shell, compared with the daemon's own block name by name, the overlay apart.", "The environment of the one who asks is another one.";
    O3: "After an upload a session's shells get the uploaded environment: the session's shell, /api/shell that names the session, and the model's tool.", Some("PUT /api/session/:id/environment replaces the environment of the session's shell commands."),
        "Upload a nonce, run all three, look for it.", "The daemon's own environment does not hold the nonce.";
    O4: "An upload replaces: nothing of the daemon's remains.", Some("Replace the process environment used by local shell commands."),
        "Upload names without HOME and without a name that only the daemon has; both must be gone.", "The upload took effect; without one both are there.";
    O5: "The last upload wins, whole.", Some("The last one to open the session wins."),
        "Upload one map, then another with other names; the first one's names must be gone.", "The first upload took effect before the second.";
    O6: "{} is an empty environment.", None,
        "Upload {} to a new session; its shell has the overlay and nothing else.", "An upload that is not empty replaces, in another session.";
    O7: "An overlay is laid over whatever else the command gets.", Some("TERM and OPENCODE_TERMINAL are set on top."),
        "Read TERM and OPENCODE's own names in the session's shell, the model's tool and a PTY, after an upload of another TERM where uploads exist.", "The daemon's TERM is another one; the upload took effect.";
    O8: "Two sessions with two uploads are isolated, also twenty at once.", Some("One map a session."),
        "Twenty sessions, twenty nonces, twenty shells at once; each sees its own alone.", "Every shell sees a nonce at all.";
    O9: "A fork and a sub-session do not inherit an upload: they get the daemon's.", None,
        "Fork the session and make a child of it; run a shell in both.", "The parent session has its upload, and a session of no relation has the daemon's.";
    O10: "A PTY, and /api/shell that names no session, get the daemon's environment.", None,
        "Both, while a session with an upload exists.", "That session's own shell sees its upload, where uploads exist; a plain session has the daemon's.";
    O11: "An upload is nowhere on disk, in no log and in no response.", Some("It is kept in memory."),
        "Upload a canary, run a shell, search every file and every answer.", "The canary was in the shell; the same search finds a second canary that was printed in band.";
    O12: "An upload is gone after the daemon has been started anew.", Some("It is lost when the server restarts."),
        "End the daemon and start it on the same files; run a shell in the same session.", "Before that the shell saw the upload.";
    O13: "No header, query or body field of a run request changes the environment.", Some("The protocol has no environment per request."),
        "Run a session's shell with a nonce in twelve headers, four query fields and four body fields.", "The same run without them works, and has the daemon's environment.";
    O14: "An upload to an unknown session is 404 SessionNotFoundError; a value that is no string is 400 InvalidRequestError, kind Payload.", Some("The endpoint's contract."),
        "Both requests.", "An upload to a real session is 204.";
}

claims! {
    /// What ZeroClaw does with environments.
    ZEROCLAW;
    Z1: "The client's value wins over the daemon's.", Some("zerocode's variables win on conflict."),
        "A client sends another PATH, HOME and a nonce; the model's shell is read.", "The daemon has other values for PATH and HOME.";
    Z2: "A client that sends no environment, or {}, gets layer 1 alone.", Some("Layer 1 is the base for every shell."),
        "One client of each kind; its shell holds no name beside layer 1.", "The daemon has names that are not in layer 1.";
    Z3: "Layer 1 is exactly the safe list, the declared passthrough and ZEROCLAW_SESSION_ID.", Some("SAFE_ENV_VARS + shell_env_passthrough from the daemon."),
        "The shell of a client without an environment, compared with the daemon's block.", "The daemon has every name of the safe list, and others.";
    Z4: "Clients are isolated, also twenty at once.", Some("Other clients' environments are never changed."),
        "Twenty clients, twenty nonces, twenty turns at once; each sees its own alone.", "Every shell sees a nonce at all.";
    Z5: "Attaching to a live session with another environment, with none, or with one onto none is refused; with the identical one it is allowed.", Some("Refused unless both forward exactly the same environment."),
        "session/new with a live session's id from four clients.", "The session is live: its own client may attach.";
    Z6: "After a reconnect with the same tui_id live sessions keep their clone, and new ones get the new environment.", Some("A clone, not a reference."),
        "Reconnect with tui_id and tui_sig and another nonce; an old and a new session are read.", "Before that the old session saw the old nonce.";
    Z7: "New sessions of the superseded connection get layer 1 alone.", None,
        "A new session on the old connection after the reconnect.", "Before the reconnect that connection's sessions saw its nonce.";
    Z8: "A principal without admin rights has its environment dropped at initialize, and the log says so.", Some("A roster principal must not decide what runs as the daemon's account."),
        "A second daemon with this account in its roster; the shell and the log are read.", "With the first daemon the same environment arrives.";
    Z9: "Naming another client's tui_id in session/new changes nothing.", Some("Only the caller's own registration, never one that the request names."),
        "session/new with tui_id of a client that has another nonce.", "The other client's own session sees that nonce.";
    Z10: "A live session never changes its environment under a new attacher.", Some("A live session keeps its own environment; another one is refused."),
        "session/new with the same id, the other chat_mode and another environment; then the session's shell is read.", "The same call with the same chat_mode is refused.";
    Z11: "session/prompt on another client's live session runs with the session's own environment.", None,
        "Another client prompts the session; its shell is read.", "The session's own client sees its nonce.";
    Z12: "A snapshot is in no table, file or log.", Some("Snapshots live in the daemon's registry."),
        "A canary in a client's environment, a turn, and a search of every file below the daemon's directory.", "The canary was in the shell; the same search finds a second canary that was printed in band.";
    Z13: "With an oversized value every shell call fails and the session lives on.", None,
        "A client with a value of 200,000 bytes; a turn; then the same session is asked again.", "The same client without that value has a shell.";
    Z14: "What shell_env_passthrough declares is what the child has.", Some("The profile names which variables of the daemon pass."),
        "A declared name that is set, one that is unset, and one that is no name.", "The daemon's block holds the first.";
}

/// The claim of this id.
pub fn by_id(id: &str) -> Option<&'static Claim> {
    OPENCODE.iter().chain(ZEROCLAW).copied().find(|claim| claim.id == id)
}
