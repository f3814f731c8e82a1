//! What was made in a live host goes again, and is looked for.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::host::http::Reply;

use super::api::{self, Dialect, ask};
use super::bed::{Bed, Kind, Made};
use super::mark::Whose;
use crate::host::interrupt;
use crate::probe::Cleanup;

/// A host that does not answer a removal in this time is not asked for the next.
const ROUND: Duration = Duration::from_secs(3);

impl Bed {
    /// Removes what was made in a live host, and looks again: by the ids that it gave, and by the mark in its lists, so that
    /// what was asked for and never waited for goes too. `outputs` are the files of that kind that were there before.
    pub fn remove(&mut self, outputs: &Outputs, cleanup: &mut Cleanup) {
        let unsettled = interrupt::ignoring(|| self.settle());
        let mut own = std::mem::take(&mut self.made);
        let mut orphans = Made::default();
        let mut round = Round { bed: self, hung: None, blind: Vec::new() };
        round.list(&mut own, &mut orphans);
        let data = outputs.data.as_deref();
        round.remove(&own, data, cleanup);
        if round.hung.is_some() {
            outputs.left(cleanup);
        }
        let mut earlier = Cleanup::default();
        round.remove(&orphans, data, &mut earlier);
        cleanup.removed.extend(earlier.removed.into_iter().map(|removed| format!("{removed} of a probe that was killed")));
        cleanup.left.extend(earlier.left);
        cleanup.looked_again = round.hung.is_none() && round.blind.is_empty() && unsettled.is_empty();
        for (path, why) in std::mem::take(&mut round.blind) {
            cleanup.failed(format!("what GET {path} would list"), why);
        }
        for what in unsettled {
            cleanup.failed(what, "it was asked for, and no answer came: the host may make it yet, and the next probe removes it then");
        }
    }

    /// Waits for the answers that nobody waited for; what has none and was given no id.
    fn settle(&mut self) -> Vec<String> {
        let end = Instant::now() + ROUND;
        let mut unsettled = Vec::new();
        for pending in std::mem::take(&mut self.made.pending) {
            let answer = pending.asked.poll(end.saturating_duration_since(Instant::now()));
            match answer {
                Some(Ok(reply)) => self.note(pending.kind, &reply),
                // What has an id, or makes nothing, is looked for by what is known.
                _ if pending.named || pending.kind == Kind::Plain => {}
                _ => unsettled.push(pending.what),
            }
        }
        unsettled
    }
}

/// The files in which the preview keeps what commands printed, as they were before the probe.
pub struct Outputs {
    data: Option<PathBuf>,
    before: BTreeSet<PathBuf>,
}

impl Outputs {
    /// Those that are there now, below the directory where a host keeps its data.
    pub fn now(data: Option<&Path>) -> Outputs {
        Outputs { data: data.map(Path::to_owned), before: data.map(outputs_below).unwrap_or_default() }
    }

    /// Tells of those that came since: a host that cannot be asked does not say which of them are the probe's.
    fn left(&self, cleanup: &mut Cleanup) {
        let now = self.data.as_deref().map(outputs_below).unwrap_or_default();
        for path in now.difference(&self.before) {
            cleanup.failed(
                path.display().to_string(),
                "it came while the probe ran, and the host cannot be asked whether for a command of the probe's; the next probe of a living \
                 daemon removes those",
            );
        }
    }
}

fn outputs_below(data: &Path) -> BTreeSet<PathBuf> {
    let projects = std::fs::read_dir(data.join("shell")).into_iter().flatten().flatten();
    let files = projects.flat_map(|project| std::fs::read_dir(project.path()).into_iter().flatten().flatten());
    files.map(|file| file.path()).filter(|path| path.extension().is_some_and(|extension| extension == "out")).collect()
}

/// Removes the files in which the preview keeps what the probe's own commands printed, which is nothing: it keeps them
/// for days after their session is deleted.
fn remove_outputs(data: Option<&Path>, shells: &[String], cleanup: &mut Cleanup) {
    let projects = data.and_then(|data| std::fs::read_dir(data.join("shell")).ok());
    let projects: Vec<PathBuf> = projects.into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    let mut gone = 0;
    for path in shells.iter().flat_map(|shell| projects.iter().map(move |project| project.join(format!("{shell}.out")))) {
        match std::fs::remove_file(&path) {
            Ok(()) => gone += 1,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => cleanup.failed(path.display().to_string(), error.to_string()),
        }
    }
    cleanup.removed(gone, "output file", "output files");
}

/// A round of removals.
struct Round<'b> {
    bed: &'b Bed,
    /// Why the host is not asked any more.
    hung: Option<String>,
    /// What it would not list, and what it said instead.
    blind: Vec<(String, String)>,
}

impl Round<'_> {
    /// Removes all of this, and looks again.
    fn remove(&mut self, made: &Made, data: Option<&Path>, cleanup: &mut Cleanup) {
        let (dialect, place) = (self.bed.dialect(), self.bed.place.clone());
        let outputs: Vec<String> = made.sessions.iter().flat_map(|session| self.outputs(session)).collect();
        let ptys = made.ptys.iter().filter(|id| self.gone(&dialect.close_pty(&place, id).1, "PTY", id, cleanup)).count();
        let shells = made.shells.iter().filter(|id| self.gone(&api::bare_path(&place, id), "shell", id, cleanup)).count();
        let sessions = made.sessions.iter().filter(|id| self.gone(&dialect.session(id), "session", id, cleanup)).count();
        remove_outputs(data, &outputs, cleanup);
        cleanup.removed(sessions, "session", "sessions");
        cleanup.removed(ptys, "PTY", "PTYs");
        cleanup.removed(shells, "shell", "shells");
    }

    /// What the host's lists have of this probe, and of probes that live no more.
    fn list(&mut self, own: &mut Made, orphans: &mut Made) {
        let (dialect, place) = (self.bed.dialect(), &self.bed.place);
        let mut lists = vec![(dialect.sessions(place), Kind::Session), (dialect.ptys(place), Kind::Pty)];
        if dialect == Dialect::V2 {
            lists.push((api::bare_shells(place), Kind::Bare));
        }
        for (path, kind) in lists {
            let Some(reply) = self.get(&path) else { return };
            let body = reply.json().filter(|_| reply.status == 200).unwrap_or_default();
            let items = body.as_array().or_else(|| body["data"].as_array());
            if items.is_none() {
                self.blind.push((path, reply.shape()));
            }
            for (item, id) in items.into_iter().flatten().filter_map(|item| Some((item, api::sound_id(item)?))) {
                let all = match self.bed.mark.whose(item) {
                    Whose::Own => &mut *own,
                    Whose::Nobody => &mut *orphans,
                    Whose::Another => continue,
                };
                let ids = match kind {
                    Kind::Pty => &mut all.ptys,
                    Kind::Bare => &mut all.shells,
                    Kind::Session | Kind::Plain => &mut all.sessions,
                };
                ids.push(id);
            }
        }
        for ids in [&mut own.sessions, &mut own.ptys, &mut own.shells] {
            ids.sort();
            ids.dedup();
        }
    }

    /// What the host answers, unless it hangs.
    fn get(&mut self, path: &str) -> Option<Reply> {
        if self.hung.is_some() {
            return None;
        }
        match interrupt::ignoring(|| ask(&self.bed.http, "GET", path, None, ROUND.min(self.bed.patience))) {
            Ok(reply) => Some(reply),
            Err(no) => {
                self.hung = Some(no.to_string());
                None
            }
        }
    }

    /// The ids of the commands that ran in a session, from its messages (the preview and 2.x).
    fn outputs(&mut self, session: &str) -> Vec<String> {
        if self.bed.dialect() == Dialect::V1 {
            return Vec::new();
        }
        let path = format!("{}?limit=200", self.bed.dialect().messages(session));
        let Some(reply) = self.get(&path) else { return Vec::new() };
        let body = reply.json().unwrap_or_default();
        // A session that is gone has none.
        if reply.status != 404 && !body["data"].is_array() {
            self.blind.push((path, reply.shape()));
        }
        let of_a_file = |id: &&str| id.starts_with("sh_") && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        let ids = body["data"].as_array().into_iter().flatten().filter_map(|message| message["shellID"].as_str());
        ids.filter(of_a_file).map(str::to_owned).collect()
    }

    /// Removes what is at this path and looks again; whether it is gone.
    fn gone(&mut self, path: &str, kind: &str, id: &str, cleanup: &mut Cleanup) -> bool {
        // Ctrl-C must not keep the clean-up from being done.
        let ask = |method| interrupt::ignoring(|| ask(&self.bed.http, method, path, None, ROUND.min(self.bed.patience)));
        let why = match &self.hung {
            Some(why) => why.clone(),
            None => match ask("DELETE").and_then(|_| ask("GET")) {
                Ok(reply) if reply.status == 404 => return true,
                // 1.x answers for a PTY that is gone with its web page.
                Ok(reply) if kind == "PTY" && reply.status == 200 && reply.kind == "text/html" => return true,
                Ok(reply) => format!("looked for again: {}", reply.shape()),
                Err(no) => {
                    self.hung = Some(no.to_string());
                    no.to_string()
                }
            },
        };
        cleanup.failed(format!("{kind} {id}"), why);
        false
    }
}
