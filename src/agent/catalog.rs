//! The catalogue of agents: `catalog.toml`, and the user's `agents.toml` merged into it by id.

use std::collections::HashSet;

use serde::Deserialize;

use super::fix::{self, Fix};
use super::multiplexer;
use super::{Agent, AgentProcess, Mode, Role};
use crate::host::{Host, Raw};
use crate::verdict::Finding;

/// Every agent, in the order in which their programs are tried.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Catalog {
    #[serde(default, rename = "agent")]
    agents: Vec<Entry>,
}

/// One agent.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// Id, in output and as a reference.
    pub id: String,
    /// As a sentence names it.
    pub name: String,
    /// Names of processes that may not be looked into and yet count as this agent's, by name alone.
    #[serde(default)]
    pub names: Vec<String>,
    /// Variables that the agent lays on its tool children.
    #[serde(default)]
    pub markers: Vec<String>,
    /// The marker that names the session.
    pub session: Option<String>,
    /// The marker that names the pid of the agent's process.
    pub daemon_pid: Option<String>,
    /// Processes that a daemon starts without its markers are shown too.
    #[serde(default)]
    pub helpers: bool,
    /// How a program of it is told.
    #[serde(default, rename = "program")]
    pub programs: Vec<ProgramRow>,
}

/// How a program is told; `catalog.toml` says what the keys mean.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProgramRow {
    #[serde(default)]
    exe: Vec<String>,
    #[serde(default)]
    path: Vec<String>,
    #[serde(default)]
    interpreter: Vec<String>,
    #[serde(default)]
    script: Vec<String>,
    #[serde(default)]
    link: Vec<String>,
    #[serde(default)]
    comm: Vec<String>,
    #[serde(default)]
    args0: Vec<String>,
    #[serde(default)]
    args: Vec<String>,
    /// What such a process is to the agent.
    role: Option<Role>,
    /// How it was started.
    mode: Option<Mode>,
}

static CHOSEN: std::sync::OnceLock<Catalog> = std::sync::OnceLock::new();

/// Why a catalogue cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CatalogError {
    /// It is no TOML of this shape.
    #[error("{0}")]
    Syntax(String),
    /// A row would fit every process.
    #[error("agent {0:?}: a program needs `exe`, `path`, or `interpreter` with `script` or `comm`")]
    Boundless(String),
    /// An id stands twice.
    #[error("agent {0:?} stands twice")]
    Twice(String),
}

/// What of a process decides whether a row fits. `argv` and `script` are read only when a row asks for them.
pub(super) trait Subject {
    fn path(&self) -> &[u8];
    fn comm(&self) -> &[u8];
    fn argv(&self) -> &[Raw];
    /// The script's path.
    fn script(&self) -> Option<&Raw>;
    /// What the script's path points to, where it is a symbolic link: a question to the file system.
    fn link(&self) -> Option<&Raw>;
}

/// What a row decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fits<'c> {
    pub agent: &'c Entry,
    pub role: Role,
    pub mode: Option<Mode>,
}

impl Catalog {
    /// The catalogue that is part of the program.
    pub fn builtin() -> Catalog {
        // A test holds that the text is sound; without it there would be nothing to fall back to.
        Catalog::parse(include_str!("catalog.toml")).unwrap_or(Catalog { agents: Vec::new() })
    }

    /// Parses a catalogue, such as the user's `agents.toml`.
    ///
    /// # Errors
    /// When it is no TOML of this shape, a row would fit every process, or an id stands twice.
    pub fn parse(text: &str) -> Result<Catalog, CatalogError> {
        let catalog: Catalog = toml::from_str(text).map_err(|error| CatalogError::Syntax(crate::env::catalog::toml_error(text, &error)))?;
        let mut ids = HashSet::new();
        for agent in &catalog.agents {
            if !ids.insert(agent.id.as_str()) {
                return Err(CatalogError::Twice(agent.id.clone()));
            }
            if agent.programs.iter().any(ProgramRow::is_boundless) {
                return Err(CatalogError::Boundless(agent.id.clone()));
            }
        }
        Ok(catalog)
    }

    /// This catalogue with the user's on top: an agent with a known id takes the place of that agent, the others come first.
    #[must_use]
    pub fn merged(self, user: Catalog) -> Catalog {
        let mut agents = self.agents;
        let mut first = Vec::new();
        for entry in user.agents {
            match agents.iter_mut().find(|known| known.id == entry.id) {
                Some(known) => *known = entry,
                None => first.push(entry),
            }
        }
        first.append(&mut agents);
        Catalog { agents: first }
    }

    /// The catalogue in force: the built-in one, or what [`Catalog::put_in_force`] put in its place.
    pub fn in_force() -> &'static Catalog {
        CHOSEN.get_or_init(Catalog::builtin)
    }

    /// Puts a merged catalogue in force for the whole process; the first one wins, and later ones are given back.
    ///
    /// # Errors
    /// When one is in force already.
    pub fn put_in_force(self) -> Result<(), Box<Catalog>> {
        CHOSEN.set(self).map_err(Box::new)
    }

    /// Every agent.
    pub fn agents(&self) -> &[Entry] {
        &self.agents
    }

    /// The agent of this id.
    pub fn get(&self, id: &str) -> Option<&Entry> {
        self.agents.iter().find(|agent| agent.id == id)
    }

    /// The first agent with a row that fits.
    pub(super) fn fit(&self, subject: &dyn Subject) -> Option<Fits<'_>> {
        let base = base(subject.path());
        self.agents.iter().find_map(|agent| {
            let row = agent.programs.iter().find(|row| row.fits(base, subject))?;
            Some(Fits { agent, role: row.role.unwrap_or(Role::Client), mode: row.mode })
        })
    }

    /// The agent that a process which may not be looked into calls itself after.
    pub(super) fn named(&self, comm: &[u8], argv0: &[u8]) -> Option<&Entry> {
        let base = base(argv0);
        self.agents.iter().find(|agent| agent.names.iter().any(|name| name.as_bytes() == comm || name.as_bytes() == base))
    }
}

impl ProgramRow {
    fn is_boundless(&self) -> bool {
        let script = !self.interpreter.is_empty() && (!self.script.is_empty() || !self.comm.is_empty());
        self.exe.is_empty() && self.path.is_empty() && !script
    }

    fn fits(&self, base: &[u8], subject: &dyn Subject) -> bool {
        // Cheapest first: almost every process ends at its base name.
        one_of(&self.exe, |pattern| like(pattern, base))
            && one_of(&self.interpreter, |pattern| like(pattern, base))
            && one_of(&self.comm, |comm| comm.as_bytes() == subject.comm())
            && one_of(&self.path, |part| contains(subject.path(), part))
            && one_of(&self.args0, |name| subject.argv().first().is_some_and(|argv0| argv0.as_bytes() == name.as_bytes()))
            && one_of(&self.args, |start| subject.argv().iter().skip(1).any(|arg| arg.as_bytes().starts_with(start.as_bytes())))
            && one_of(&self.script, |part| subject.script().is_some_and(|script| self.leads_to(script, part, subject)))
    }

    fn leads_to(&self, script: &Raw, part: &str, subject: &dyn Subject) -> bool {
        contains(script.as_bytes(), part)
            || (self.link.iter().any(|name| name.as_bytes() == base(script.as_bytes()))
                && subject.link().is_some_and(|target| contains(target.as_bytes(), part)))
    }
}

fn one_of(keys: &[String], fits: impl Fn(&str) -> bool) -> bool {
    keys.is_empty() || keys.iter().any(|key| fits(key))
}

fn contains(path: &[u8], part: &str) -> bool {
    memchr::memmem::find(path, part.as_bytes()).is_some()
}

fn like(pattern: &str, base: &[u8]) -> bool {
    match pattern.strip_suffix('*') {
        Some(start) => base.starts_with(start.as_bytes()),
        None => base == pattern.as_bytes(),
    }
}

/// The last component of a path.
pub(super) fn base(path: &[u8]) -> &[u8] {
    memchr::memrchr(b'/', path).map_or(path, |at| &path[at + 1..])
}

/// The rules for agents of which no more than the signature is known.
pub(super) struct Catalogued;

impl Agent for Catalogued {
    fn id(&self) -> &'static str {
        "catalogued"
    }

    fn findings(&self, host: &Host, process: &AgentProcess) -> Vec<Finding> {
        fix::deleted_exe(host, process, vec![fix::note("restart it from this terminal")]).into_iter().collect()
    }

    fn fix(&self, host: &Host, process: &AgentProcess, wanted: &Fix<'_>) -> Vec<String> {
        multiplexer::lines(host, process, wanted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Made {
        path: &'static str,
        comm: &'static str,
        argv: Vec<Raw>,
        script: Option<Raw>,
        link: Option<Raw>,
    }

    impl Subject for Made {
        fn path(&self) -> &[u8] {
            self.path.as_bytes()
        }
        fn comm(&self) -> &[u8] {
            self.comm.as_bytes()
        }
        fn argv(&self) -> &[Raw] {
            &self.argv
        }
        fn script(&self) -> Option<&Raw> {
            self.script.as_ref()
        }
        fn link(&self) -> Option<&Raw> {
            self.link.as_ref()
        }
    }

    fn fit(path: &'static str, comm: &'static str, argv: &[&str], scripts: &[&str]) -> Option<(String, Role)> {
        let made = Made {
            path,
            comm,
            argv: argv.iter().map(|arg| Raw::from(*arg)).collect(),
            script: scripts.first().map(|script| Raw::from(*script)),
            link: scripts.get(1).map(|link| Raw::from(*link)),
        };
        Catalog::builtin().fit(&made).map(|fits| (fits.agent.id.clone(), fits.role))
    }

    fn is(id: &str, role: Role) -> Option<(String, Role)> {
        Some((id.to_owned(), role))
    }

    #[test]
    fn the_builtin_catalogue_is_sound_and_names_every_agent_of_the_issue() {
        let catalog = Catalog::parse(include_str!("catalog.toml")).unwrap();
        let ids: Vec<_> = catalog.agents().iter().map(|agent| agent.id.as_str()).collect();
        for id in [
            "opencode",
            "zeroclaw",
            "codex",
            "claude-code",
            "gemini-cli",
            "cursor-server",
            "vscode-server",
            "copilot",
            "aider",
            "goose",
            "tmux",
            "screen",
            "zellij",
            "emacs",
        ] {
            assert!(ids.contains(&id), "{id}");
        }
    }

    #[test]
    fn programs_are_told_by_where_they_are_installed() {
        let native = "/home/u/.local/share/claude/versions/2.1.220";
        assert_eq!(fit(native, "claude", &["claude"], &[]), is("claude-code", Role::Client));
        let vendored =
            "/usr/lib/node_modules/@openai/codex/node_modules/@openai/codex-linux-x64/vendor/x86_64-unknown-linux-musl/codex/codex";
        assert_eq!(fit(vendored, "codex", &["codex"], &[]), is("codex", Role::Client));
        assert_eq!(fit(vendored, "codex", &["codex", "app-server"], &[]), is("codex", Role::Daemon));
        let server = "/root/.vscode-server/cli/servers/Stable-645f29c/server/node";
        let main = "/root/.vscode-server/cli/servers/Stable-645f29c/server/out/server-main.js";
        assert_eq!(fit(server, "node", &["node", main], &[main]), is("vscode-server", Role::Daemon));
        assert_eq!(fit(server, "node", &["node", "--type=extensionHost"], &["/x/bootstrap-fork"]), is("vscode-server", Role::Other));
        let cursor = "/home/u/.cursor-server/cli/servers/Stable-1a2b3c/server/node";
        assert_eq!(fit(cursor, "node", &[], &["/home/u/.cursor-server/x/out/server-main.js"]), is("cursor-server", Role::Daemon));
    }

    #[test]
    fn a_script_counts_by_its_path_and_only_under_its_interpreter() {
        let gemini = "/usr/lib/node_modules/@google/gemini-cli/bundle/gemini.js";
        assert_eq!(fit("/usr/bin/node", "node", &[], &["/usr/bin/gemini", gemini]), is("gemini-cli", Role::Client));
        assert_eq!(fit("/usr/bin/node", "node", &[], &["/usr/bin/tool", gemini]), None, "only links that packages make are followed");
        assert_eq!(fit("/usr/bin/sleep", "gemini", &["node", gemini], &[gemini]), None);
        assert_eq!(fit("/usr/bin/python3.11", "aider", &[], &["/home/u/.local/bin/aider"]), is("aider", Role::Client));
        assert_eq!(fit("/usr/bin/node", "claude", &["claude"], &[]), is("claude-code", Role::Client));
        assert_eq!(fit("/bin/bash", "claude", &["claude"], &[]), None);
        assert_eq!(fit("/usr/bin/node", "node", &["node", "server.js"], &["server.js"]), None);
    }

    #[test]
    fn servers_of_multiplexers_are_told_from_their_clients() {
        assert_eq!(fit("/usr/bin/tmux", "tmux: server", &["tmux", "new", "-d"], &[]), is("tmux", Role::Multiplexer));
        assert_eq!(fit("/usr/bin/tmux", "tmux: client", &["tmux", "attach"], &[]), is("tmux", Role::Client));
        assert_eq!(fit("/usr/bin/screen", "screen", &["SCREEN", "-dmS", "x"], &[]), is("screen", Role::Multiplexer));
        assert_eq!(fit("/usr/bin/screen", "screen", &["screen", "-r"], &[]), is("screen", Role::Client));
        assert_eq!(fit("/usr/bin/zellij", "zellij", &["/usr/bin/zellij", "--server", "/run/x"], &[]), is("zellij", Role::Multiplexer));
        assert_eq!(fit("/usr/bin/emacs-gtk", "emacs", &["emacs", "--daemon=x"], &[]), is("emacs", Role::Daemon));
        assert_eq!(fit("/usr/bin/emacs-gtk", "emacs", &["emacs", "file"], &[]), None);
    }

    #[test]
    fn the_users_rows_win_by_id_and_new_ones_come_first() {
        let user = Catalog::parse(
            "[[agent]]\nid = \"goose\"\nname = \"My goose\"\n[[agent]]\nid = \"mine\"\nname = \"Mine\"\nprogram = [{ exe = [\"tmux\"], role = \"other\" }]\n",
        )
        .unwrap();
        let merged = Catalog::builtin().merged(user);
        assert_eq!(merged.get("goose").unwrap().name, "My goose");
        assert_eq!(merged.get("goose").unwrap().programs, []);
        let made = Made { path: "/usr/bin/tmux", comm: "tmux: server", ..Made::default() };
        assert_eq!(merged.fit(&made).unwrap().agent.id, "mine");
    }

    #[test]
    fn rows_that_fit_everything_are_refused() {
        for text in [
            "[[agent]]\nid = \"x\"\nname = \"X\"\nprogram = [{ role = \"daemon\" }]",
            "[[agent]]\nid = \"x\"\nname = \"X\"\nprogram = [{ interpreter = [\"node\"] }]",
            "[[agent]]\nid = \"x\"\nname = \"X\"\nprogram = [{ comm = [\"x\"] }]",
            "[[agent]]\nid = \"x\"\nname = \"X\"\n[[agent]]\nid = \"x\"\nname = \"X\"",
            "[[agent]]\nid = \"x\"\nname = \"X\"\nfavourite = true",
            "agent = 7",
        ] {
            assert!(Catalog::parse(text).is_err(), "{text}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_text_panics(text in ".{0,200}") {
            let _ = Catalog::parse(&text);
        }
    }
}
