//! Where the host of a store has its configuration: what decides whether a plugin is still configured anywhere.
//!
//! next-16350 reads the config directory, `$OPENCODE_CONFIG`, `$OPENCODE_CONFIG_CONTENT`, and for each session `opencode.json[c]` and `.opencode/`
//! in its directory and in every directory above, up to `/`; 1.x stops at the top of the repository. Reading what a host of 1.x would not
//! can make a "no" an "unknown" or a "yes", never the other way round.

use std::os::unix::ffi::OsStrExt;

use crate::agent::plugins::Configured;
use crate::agent::stores;
use crate::host::{Environ, Host, Raw, View};
use crate::report::Progress;

use super::holders::Holders;
use super::{Store, processes};

/// So many directories of sessions are looked into; beyond, no plugin is said to be configured nowhere.
const DIRECTORIES: usize = 5_000;

/// Which plugins are configured for whoever uses a store: in this user's configuration, in that of its owner and of the processes that hold it,
/// and in the projects of its sessions.
pub fn of(host: &Host, store: &Store, progress: &Progress) -> Configured {
    let mut found = Found::default();
    found.environ(&stores::own_environ(host), "this command");
    let owner = owner(host, store);
    if let Some(uid) = owner {
        found.owner(host, store, uid);
    }
    let (holders, unseen) = match (&store.kept, store.real()) {
        (Some(kept), _) => (kept.holders.clone(), kept.holders_unseen),
        (None, Ok(real)) => {
            let holders = Holders::look(host, &processes(host));
            (holders.of(real.as_os_str().as_bytes()), holders.hidden > 0)
        }
        (None, Err(_)) => (Vec::new(), false),
    };
    for holder in holders.iter().filter(|holder| holder.may_be_host()) {
        match host.process(holder.pid).environ() {
            Ok(environ) => found.environ(&environ, &format!("pid {}", holder.pid)),
            Err(reason) => found.unknown.push(format!("the environment of pid {}, which holds the store: {reason}", holder.pid)),
        }
    }
    let foreign = owner.is_some_and(|uid| uid != host.machine().uid);
    if unseen && foreign && holders.is_empty() {
        found.unknown.push("who holds the store, and with which configuration, is hidden from this account".to_owned());
    }
    let projects = store.ask(progress, |opened, tables| {
        let mut projects = std::collections::BTreeSet::new();
        for table in ["session_v2", "session"].into_iter().filter(|table| tables.column(table, "directory")) {
            let mut statement = opened.conn.prepare(&format!("select directory from {table} group by directory"))?;
            let mut rows = statement.query([])?;
            while let Some(row) = rows.next()? {
                let directory = row.get_ref(0)?.as_bytes_or_null().ok().flatten().unwrap_or_default();
                if directory.starts_with(b"/") && projects.len() <= DIRECTORIES {
                    projects.insert(Raw::from(directory));
                }
            }
        }
        Ok(projects)
    });
    let projects: Vec<Raw> = match projects {
        Ok(projects) => projects.into_iter().collect(),
        Err(refusal) => {
            found.unknown.push(format!("the directories of its sessions: {refusal}"));
            Vec::new()
        }
    };
    if projects.len() > DIRECTORIES {
        found.unknown.push(format!("directories of sessions beyond the first {DIRECTORIES}"));
    }
    found.dirs.dedup();
    let mut configured = Configured::read(host, View::OURS, &found.dirs, &found.files, &projects[..projects.len().min(DIRECTORIES)]);
    configured.unknown.extend(found.unknown);
    configured
}

fn owner(host: &Host, store: &Store) -> Option<u32> {
    match &store.kept {
        Some(kept) => Some(kept.beside.uid),
        None => host.path(View::OURS, store.path.as_bytes()).ok().map(|stat| stat.uid),
    }
}

/// Places of configuration, and what hides others.
#[derive(Default)]
struct Found {
    dirs: Vec<Raw>,
    files: Vec<Raw>,
    unknown: Vec<String>,
}

impl Found {
    fn dir(&mut self, dir: &[u8], name: &str) {
        let dir = Raw([dir, name.as_bytes()].concat());
        if dir.as_bytes().starts_with(b"/") && !self.dirs.contains(&dir) {
            self.dirs.push(dir);
        }
    }

    /// What a process with this environment would read.
    fn environ(&mut self, environ: &Environ, whose: &str) {
        let filled = |name: &str| environ.bytes(name).filter(|value| !value.is_empty());
        for name in ["OPENCODE_CONFIG_DIR", "XDG_CONFIG_HOME", "HOME", "OPENCODE_CONFIG"] {
            if environ.get(name).is_some() && environ.bytes(name).is_none() {
                self.unknown.push(format!("{name} of {whose} is masked"));
            }
        }
        if environ.get("OPENCODE_CONFIG_CONTENT").is_some() {
            self.unknown.push(format!("OPENCODE_CONFIG_CONTENT of {whose} is a configuration too"));
        }
        if let Some(dir) = filled("OPENCODE_CONFIG_DIR") {
            self.dir(dir, "");
        }
        match (filled("XDG_CONFIG_HOME"), filled("HOME")) {
            (Some(dir), _) => self.dir(dir, "/opencode"),
            (None, Some(home)) => self.dir(home, "/.config/opencode"),
            (None, None) => {}
        }
        self.files.extend(filled("OPENCODE_CONFIG").filter(|file| file.starts_with(b"/")).map(Raw::from));
    }

    /// What the owner of the store would read, whose environment nobody knows while no process of it holds the store.
    fn owner(&mut self, host: &Host, store: &Store, uid: u32) {
        // `…/.local/share/opencode/opencode.db` lies in the home whose `.config` its host reads.
        let by_path =
            memchr::memmem::find(store.path.as_bytes(), b"/.local/share/opencode/").map(|at| store.path.as_bytes()[..at].to_vec());
        if let Some(home) = &by_path {
            self.dir(home, "/.config/opencode");
        }
        if uid == host.machine().uid {
            return;
        }
        match host.home_of(uid) {
            Some(home) => self.dir(home.as_bytes(), "/.config/opencode"),
            None if by_path.is_none() => self.unknown.push(format!("where uid {uid}, whose store it is, has its configuration")),
            None => {}
        }
    }
}
