//! Where the agents' databases are: those that processes hold open, and those in the directories of daemons and of this user.
//!
//! OpenCode: `OPENCODE_DB`, else `opencode*.db` in `$XDG_DATA_HOME/opencode` (the channel is in the name: `opencode-next.db` of
//! next-16350). ZeroClaw 0.8.7: `sessions/sessions.db`, `sessions/acp-sessions.db` and `control_plane.db` in `<config>/data`.

use std::collections::BTreeMap;

use super::{AgentProcess, Role, opencode, zeroclaw};
use crate::host::{Environ, Host, Raw, View};

/// A file that is an agent's store, or would be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The agent's id in the catalogue.
    pub agent: &'static str,
    /// Its absolute path, as its host names it.
    pub path: Raw,
    /// Whose view the path is in.
    pub view: View,
    /// Why it is looked at.
    pub why: String,
}

/// Variables that decide where a host keeps its store.
const VARIABLES: [&str; 8] = [
    "OPENCODE_CONFIG",
    "HOME",
    "XDG_DATA_HOME",
    "XDG_CONFIG_HOME",
    "OPENCODE_DB",
    "OPENCODE_CONFIG_DIR",
    "ZEROCLAW_CONFIG_DIR",
    "ZEROCLAW_DATA_DIR",
];

/// This program's own values of them: whoever asks means the stores that a host started here would use.
pub fn own_environ(host: &Host) -> Environ {
    let read = || {
        use std::os::unix::ffi::OsStrExt;
        let own = VARIABLES.iter().filter_map(|name| Some((*name, Raw::from(std::env::var_os(name)?.as_bytes()))));
        Ok(own.map(|(name, value)| (name.to_owned(), value)).collect::<BTreeMap<String, Raw>>())
    };
    let own = host.fact("stores.json", "own variables", read).unwrap_or_default();
    let block: Vec<u8> = own.iter().flat_map(|(name, value)| [name.as_bytes(), b"=", value.as_bytes(), b"\0"].concat()).collect();
    Environ::parse(&block)
}

/// Every store, each path once, in order of its path.
pub fn places(host: &Host, processes: &[AgentProcess]) -> Vec<Place> {
    let mut found: BTreeMap<(View, Raw), Place> = BTreeMap::new();
    let mut add = |agent: &'static str, path: Raw, view: View, why: String| {
        found.entry((view, path.clone())).or_insert(Place { agent, path, view, why });
    };
    for process in processes.iter().filter(|process| process.parent.is_none() && matches!(process.role, Role::Daemon | Role::Client)) {
        let Some(agent) = [opencode::ID, zeroclaw::ID].into_iter().find(|id| *id == process.agent) else { continue };
        let handle = host.process(process.stat.pid);
        let view = handle.view().unwrap_or(View::OURS);
        for fd in handle
            .fds()
            .unwrap_or_default()
            .iter()
            .filter(|fd| fd.target.as_bytes().starts_with(b"/") && fd.target.as_bytes().ends_with(b".db"))
        {
            add(agent, fd.target.clone(), view, format!("pid {} has it open", process.stat.pid));
        }
        let Ok(environ) = handle.environ() else { continue };
        let config = (agent == zeroclaw::ID).then(|| zeroclaw::config_path(host, process)).flatten();
        for path in of_environ(host, agent, &environ, config, view) {
            add(agent, path, view, format!("where pid {} keeps its own", process.stat.pid));
        }
    }
    let own = own_environ(host);
    for agent in [opencode::ID, zeroclaw::ID] {
        for path in of_environ(host, agent, &own, None, View::OURS) {
            add(agent, path, View::OURS, "where this user's would be".to_owned());
        }
    }
    found.into_values().collect()
}

fn join(dir: &[u8], name: &str) -> Raw {
    Raw([dir, b"/", name.as_bytes()].concat())
}

fn of_environ(host: &Host, agent: &str, environ: &Environ, config: Option<Raw>, view: View) -> Vec<Raw> {
    let filled = |name: &str| environ.bytes(name).filter(|value| !value.is_empty());
    if agent == zeroclaw::ID {
        let config = config.or_else(|| filled("ZEROCLAW_CONFIG_DIR").map(Raw::from));
        let data = config.map(|dir| join(dir.as_bytes(), "data"));
        let data = data.or_else(|| filled("ZEROCLAW_DATA_DIR").map(Raw::from)).or_else(|| Some(join(filled("HOME")?, ".zeroclaw/data")));
        let Some(data) = data.filter(|data| data.as_bytes().starts_with(b"/")) else { return Vec::new() };
        return in_dir(host, view, &join(data.as_bytes(), "sessions"), |name| name.ends_with(".db"))
            .into_iter()
            .chain(in_dir(host, view, &data, |name| name == "control_plane.db"))
            .collect();
    }
    let Some(kept) = opencode(environ) else { return Vec::new() };
    match kept.named {
        Named::Memory => Vec::new(),
        Named::At(path) => vec![path],
        Named::Nothing => in_dir(host, view, &kept.dir, |name| name.starts_with("opencode") && name.ends_with(".db")),
    }
}

/// Where an OpenCode keeps its databases.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    /// The directory, absolute.
    pub dir: Raw,
    /// The one that `OPENCODE_DB` names.
    pub named: Named,
}

/// What `OPENCODE_DB` says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Named {
    /// Nothing.
    Nothing,
    /// The database is in memory.
    Memory,
    /// It is this file. A relative name lies in the directory, wherever the host was started (1.15.0, 1.18.34).
    At(Raw),
}

/// Where an OpenCode with these variables keeps its databases; none where they do not say.
pub fn opencode(environ: &Environ) -> Option<Kept> {
    let filled = |name: &str| environ.bytes(name).filter(|value| !value.is_empty());
    let data = filled("XDG_DATA_HOME").map(Raw::from).or_else(|| Some(join(filled("HOME")?, ".local/share")))?;
    let dir = join(data.as_bytes(), "opencode");
    if !dir.as_bytes().starts_with(b"/") {
        return None;
    }
    let named = match filled("OPENCODE_DB") {
        None => Named::Nothing,
        Some(b":memory:") => Named::Memory,
        Some(path) if path.starts_with(b"/") => Named::At(Raw::from(path)),
        Some(path) => Named::At(Raw([dir.as_bytes(), b"/", path].concat())),
    };
    Some(Kept { dir, named })
}

fn in_dir(host: &Host, view: View, dir: &Raw, fits: impl Fn(&str) -> bool) -> Vec<Raw> {
    let names = host.listing(view, dir.as_bytes()).unwrap_or_default();
    names.iter().filter_map(|name| name.as_str().filter(|name| fits(name))).map(|name| join(dir.as_bytes(), name)).collect()
}
