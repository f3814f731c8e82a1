//! What a session's shell was seen to have: read out of band, or told in band where no shell can call.

use serde_json::Value;

use super::api::{Dialect, ask};
use super::bed::{Bed, OVERLAY, Way, added};
use super::plain::Addition;
use crate::host::http::{Asked, Question};
use crate::probe::in_band::{InBand, Shown, Telling, is_shell_name};
use crate::probe::{Stop, shown};

/// The daemon's variables whose values are compared in band, where it has them; of all others only that they are there:
/// a value that is compared lies in a file meanwhile.
const COMPARED: [&str; 3] = ["WHOSEENV_FROZEN", "DISPLAY", "HOME"];

/// What shells set by themselves where they were not given it: bash 5 and dash. In band the two are not told apart.
const OF_SHELLS: [&str; 9] = ["PATH", "SHELL", "IFS", "OPTIND", "PPID", "HOSTNAME", "HOSTTYPE", "MACHTYPE", "OSTYPE"];

/// A command that tells in band and was asked for.
pub struct Asking {
    in_band: InBand,
    asked: Asked,
}

impl Bed {
    /// A session's shell: its whole block, or where it cannot call what it tells of these names and the daemon's.
    ///
    /// # Errors
    /// When neither comes.
    pub fn look(&mut self, session: &str, names: &[(&str, &str)]) -> Result<Shown, Stop> {
        if self.mute.is_none() {
            match self.run(Way::Session(session)) {
                Ok(seen) => return Ok(Shown::Shell(Box::new(seen))),
                Err(Stop::Silent(_)) => {}
                Err(stop) => return Err(stop),
            }
        }
        self.tell(session, names).map(Shown::Told)
    }

    /// What it tells in band, without being asked to call.
    ///
    /// # Errors
    /// When nothing comes.
    pub fn tell(&mut self, session: &str, names: &[(&str, &str)]) -> Result<Telling, Stop> {
        let asking = self.ask_in_band(session, names, None)?;
        self.hear(session, &asking)
    }

    /// Asks a session's shell in band, and does not wait.
    ///
    /// # Errors
    /// When the private file cannot be written.
    pub fn ask_in_band(&self, session: &str, names: &[(&str, &str)], addition: Option<&Addition>) -> Result<Asking, Stop> {
        let mut about: Vec<(String, Option<String>)> = names.iter().map(|(name, value)| ((*name).into(), Some((*value).into()))).collect();
        for name in self.block.entries.iter().map(|entry| entry.name.lossy().into_owned()) {
            let known = OVERLAY.iter().chain(&OF_SHELLS).any(|known| *known == name) || about.iter().any(|(known, _)| *known == name);
            if !known && is_shell_name(&name) {
                let value = COMPARED.contains(&name.as_str()).then(|| self.block.text(&name).map(str::to_owned)).flatten();
                about.push((name, value));
            }
        }
        let in_band = InBand::about(&about, &self.private)?;
        let request = self.dialect().shell(session, in_band.command());
        let (method, path, body) = match addition {
            Some(addition) => added(request, addition),
            None => request,
        };
        let headers = addition.map(|addition| addition.headers.as_slice()).unwrap_or_default();
        let asked = self.http.ask(&Question { method, path: &path, headers, body: body.as_ref() }, self.patience);
        Ok(Asking { in_band, asked })
    }

    /// Waits for what it tells.
    ///
    /// # Errors
    /// When nothing comes.
    pub fn hear(&self, session: &str, asking: &Asking) -> Result<Telling, Stop> {
        let reply = asking.asked.wait()?;
        if !(200..300).contains(&reply.status) {
            return Err(Stop::Failed(format!("a command in band: {}", reply.shape())));
        }
        // 1.x has the output in the answer, the preview and 2.x in the session's messages.
        let answer = match self.dialect() {
            Dialect::V1 => reply,
            Dialect::V2 => ask(&self.http, "GET", &self.dialect().messages(session), None, self.patience)?,
        };
        let mut texts = Vec::new();
        outputs(&answer.json().unwrap_or_default(), &mut texts);
        asking.in_band.told(&texts.join("\n"))
    }

    /// What cannot be told in band is not told.
    ///
    /// # Errors
    /// When no session's shell can call.
    pub fn not_in_band(&self, what: &str) -> Result<(), Stop> {
        match &self.mute {
            Some(why) => Err(Stop::Failed(format!("{why}; and in band {what}"))),
            None => Ok(()),
        }
    }

    /// Where the command's environment is not the daemon's: missing or other values, the overlay's names apart.
    pub fn deviations(&self, seen: &Shown) -> Vec<String> {
        let theirs = self.block.entries.iter().map(|entry| entry.name.lossy().into_owned());
        let other = |name: &String| {
            !OVERLAY.contains(&name.as_str())
                && match seen {
                    Shown::Shell(seen) => seen.block.get(name) != self.block.get(name),
                    Shown::Told(told) => told.differs(name),
                }
        };
        theirs
            .filter(other)
            .map(|name| format!("{} {}", shown(&name), if seen.is_set(&name) { "is another" } else { "is missing" }))
            .collect()
    }

    /// The daemon's names that are there, beside the overlay and `but`.
    pub fn of_daemon(&self, seen: &Shown, but: &[&str]) -> Vec<String> {
        let theirs = self.block.entries.iter().map(|entry| entry.name.lossy().into_owned());
        theirs.filter(|name| seen.is_set(name) && !OVERLAY.contains(&name.as_str()) && !but.contains(&name.as_str())).collect()
    }
}

/// Every text in a JSON value that is called `output`.
fn outputs(value: &Value, texts: &mut Vec<String>) {
    match value {
        Value::Object(map) => map.iter().for_each(|(key, value)| match value {
            Value::String(text) if key == "output" => texts.push(text.clone()),
            other => outputs(other, texts),
        }),
        Value::Array(items) => items.iter().for_each(|item| outputs(item, texts)),
        _ => {}
    }
}
