//! What was made in a live host goes again, and is looked for.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::api::{Dialect, ask};
use super::bed::Bed;
use crate::host::interrupt;
use crate::probe::Cleanup;

/// A host that does not answer a removal in this time is not asked for the next.
const ROUND: Duration = Duration::from_secs(3);

impl Bed {
    /// Removes what was made in a live host, and looks again. `data` is where the host keeps the output of commands.
    pub fn remove(&mut self, data: Option<&Path>, cleanup: &mut Cleanup) {
        let dialect = self.dialect();
        let made = std::mem::take(&mut self.made);
        let mut round = Round { bed: self, hung: None };
        let outputs: Vec<String> = made.sessions.iter().flat_map(|session| round.outputs(session)).collect();
        let ptys = made.ptys.iter().filter(|id| round.gone(&dialect.close_pty(&self.place, id).1, "PTY", id, cleanup)).count();
        let shell = |id: &String| format!("/api/shell/{id}?{}", dialect.place(&self.place));
        let shells = made.shells.iter().filter(|id| round.gone(&shell(id), "shell", id, cleanup)).count();
        let sessions = made.sessions.iter().filter(|id| round.gone(&dialect.session(id), "session", id, cleanup)).count();
        remove_outputs(data, &outputs, cleanup);
        cleanup.removed(sessions, "session", "sessions");
        cleanup.removed(ptys, "PTY", "PTYs");
        cleanup.removed(shells, "shell", "shells");
        cleanup.looked_again = round.hung.is_none();
    }
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
}

impl Round<'_> {
    /// The ids of the commands that ran in a session, from its messages (the preview and 2.x).
    fn outputs(&mut self, session: &str) -> Vec<String> {
        if self.bed.dialect() == Dialect::V1 || self.hung.is_some() {
            return Vec::new();
        }
        let path = format!("{}?limit=200", self.bed.dialect().messages(session));
        let asked = interrupt::ignoring(|| ask(&self.bed.http, "GET", &path, None, ROUND.min(self.bed.patience)));
        let body = match asked {
            Ok(reply) => reply.json().unwrap_or_default(),
            Err(no) => {
                self.hung = Some(no.to_string());
                return Vec::new();
            }
        };
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
                Ok(reply) if kind == "PTY" && reply.json().is_none() => return true,
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
