//! `db`: which stores there are, and what each answers. What a store holds is the matter of [`crate::store`]; here processes, files and stores meet.

pub mod audit;
pub mod blackboard;
pub mod configs;
pub mod holders;
pub mod info;
pub mod keep;
pub mod look;
pub mod programs;
pub mod rows;

use std::path::PathBuf;

use crate::agent::stores::{self, Place};
use crate::agent::{self, AgentProcess};
use crate::host::{Host, Raw, View};
use crate::report::{Exit, Problem, Progress};
use crate::store::{Opened, Refusal, Tables, beside, open};

use keep::Kept;

/// Which store, and how it is looked at.
#[derive(Clone, Debug, Default)]
pub struct Asked {
    /// This file, and no search.
    pub file: Option<PathBuf>,
    /// Say nothing on stderr.
    pub quiet: bool,
}

/// A store to ask.
#[derive(Clone, Debug)]
pub struct Store {
    /// The agent's id, where the search says so.
    pub agent: Option<&'static str>,
    /// Its path, as it was named or found.
    pub path: Raw,
    /// Why it is looked at.
    pub why: String,
    /// Whose view the path is in.
    pub view: View,
    /// What a snapshot holds of it.
    pub kept: Option<Kept>,
}

/// `1 child`, `2 children`.
pub fn counted(count: u64, one: &str, many: &str) -> String {
    if count == 1 { format!("1 {one}") } else { format!("{count} {many}") }
}

/// The agents' processes, for whatever needs them.
pub fn processes(host: &Host) -> Vec<AgentProcess> {
    agent::discover(host).unwrap_or_default()
}

/// The stores that were asked for: the one named, or every one there is.
///
/// # Errors
/// When a snapshot holds none.
pub fn find(host: &Host, processes: &[AgentProcess], asked: &Asked) -> Result<Vec<Store>, Problem> {
    if host.is_captured() {
        let kept = keep::list(host)?;
        let named = |kept: &Kept| asked.file.as_ref().is_none_or(|file| kept.path.as_path() == file);
        let stores: Vec<Store> = kept.into_iter().filter(named).map(Store::kept).collect();
        return match (&asked.file, stores.is_empty()) {
            (Some(file), true) => Err(Problem::new(Exit::NotFound, format!("the snapshot holds no store {}", file.display()))
                .hint("See which it holds: whoseenv --from DIR db info")),
            _ => Ok(stores),
        };
    }
    if let Some(file) = &asked.file {
        use std::os::unix::ffi::OsStrExt;
        let path = std::path::absolute(file).unwrap_or_else(|_| file.clone());
        let path = Raw::from(path.as_os_str().as_bytes());
        return Ok(vec![Store::at(path, "named by --db")]);
    }
    let of_place = |place: Place| Store { agent: Some(place.agent), path: place.path, why: place.why, view: place.view, kept: None };
    Ok(stores::places(host, processes).into_iter().map(of_place).collect())
}

/// The one store that a question is put to.
///
/// # Errors
/// When there is none, or several could be meant.
pub fn find_one(host: &Host, asked: &Asked, fits: impl Fn(&Tables) -> bool) -> Result<Store, Problem> {
    let processes = if asked.file.is_some() { Vec::new() } else { processes(host) };
    let mut stores = find(host, &processes, asked)?;
    if stores.len() > 1 {
        // Those that cannot be read stay: leaving them out would pick one.
        stores.retain(|store| store.tables().map_or_else(|refusal| refusal.exit() != Exit::NotFound, |tables| fits(&tables)));
    }
    match stores.len() {
        0 => Err(Problem::new(Exit::NotFound, "no store of an agent is here")
            .hint("Name one: --db FILE")
            .hint("See where they were looked for: whoseenv db info")),
        1 => Ok(stores.remove(0)),
        _ => {
            let mut problem = Problem::new(Exit::Usage, format!("{} stores fit; name one", stores.len()));
            for store in &stores {
                problem = problem.hint(format!("--db {}", agent::quote(store.path.as_bytes())));
            }
            Err(problem)
        }
    }
}

impl Store {
    /// A file of this machine, as we see it.
    pub fn at(path: Raw, why: &str) -> Store {
        Store { agent: None, path, why: why.to_owned(), view: View::OURS, kept: None }
    }

    fn kept(kept: Kept) -> Store {
        Store { agent: None, path: kept.path.clone(), why: kept.why.clone(), view: View::OURS, kept: Some(kept) }
    }

    /// As a message names it.
    pub fn shown(&self) -> String {
        self.path.lossy().into_owned()
    }

    /// Where it really is: its file, or the snapshot's copy.
    ///
    /// # Errors
    /// When there is nothing to open.
    pub fn real(&self) -> Result<PathBuf, Refusal> {
        match &self.kept {
            Some(kept) => kept.file.clone().map_err(Refusal::Unknown),
            None => match self.view.mount {
                // Another mount namespace: SQLite would look for the files beside it along links that lead back to ours.
                Some(pid) => Err(Refusal::Io(format!("it is in the file system of pid {pid}, a container's; ask inside of it"))),
                None => beside::real(self.path.as_path()),
            },
        }
    }

    /// Asks it; again, when it changed meanwhile. `question` must not have told anybody anything.
    ///
    /// # Errors
    /// Why there is no answer.
    pub fn ask<T>(&self, progress: &Progress, mut question: impl FnMut(&mut Opened, &Tables) -> Result<T, Refusal>) -> Result<T, Refusal> {
        let path = self.real()?;
        let mut asking = |opened: &mut Opened| {
            let tables = Tables::read(&opened.conn)?;
            opened.whole();
            question(opened, &tables)
        };
        match &self.kept {
            Some(_) => asking(&mut Opened::kept(&path)?),
            None => open::ask(&path, progress, asking),
        }
    }

    /// Opens it, for an answer that is told while it is read; `long`: one that did not come in time ([`Opened::is_hurried`]).
    ///
    /// # Errors
    /// Why it cannot be read.
    pub fn open(&self, progress: &Progress, long: bool) -> Result<(Opened, Tables), Refusal> {
        let path = self.real()?;
        let opened = match (&self.kept, long) {
            (Some(_), _) => Opened::kept(&path)?,
            (None, false) => Opened::open(&path, progress)?,
            (None, true) => Opened::open_long(&path, progress)?,
        };
        let tables = Tables::read(&opened.conn)?;
        opened.whole();
        Ok((opened, tables))
    }

    fn tables(&self) -> Result<Tables, Refusal> {
        self.ask(&Progress::hidden(), |opened, _| Tables::read(&opened.conn))
    }

    /// Why there is no answer, for the person.
    pub fn problem(&self, refusal: &Refusal) -> Problem {
        refusal.problem(&self.shown())
    }
}
