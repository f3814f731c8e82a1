//! The course of one experiment: what was seen, whether the control held, and what follows.

use std::path::PathBuf;

use crate::host::http::NoAnswer;
use crate::host::trawl::{Catch, ENCODINGS, trawl};
use crate::verdict::{Evidence, How, Outcome};

use super::in_band::Shown;
use super::readback::Seen;
use super::{Channel, Claim, Judged, listed, now};

/// Why an experiment has no verdict of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stop {
    /// The control did not hold: the experiment could not tell.
    Control(String),
    /// The host has no such surface; how that was seen.
    Unsupported(String),
    /// It is no experiment for a host like this; why.
    NotAsked(String),
    /// The command ended, and its shell did not call.
    Silent(String),
    /// The host answered, and it is not the answer that does it: the status, and in words.
    Answered(u16, String),
    /// It could not be done: the host ended, hung, answered nonsense, or Ctrl-C came.
    Failed(String),
}

impl From<NoAnswer> for Stop {
    fn from(no: NoAnswer) -> Stop {
        Stop::Failed(no.to_string())
    }
}

impl From<std::io::Error> for Stop {
    fn from(error: std::io::Error) -> Stop {
        Stop::Failed(error.to_string())
    }
}

impl Stop {
    /// Why, in words.
    pub fn why(&self) -> &str {
        match self {
            Stop::Control(why)
            | Stop::Unsupported(why)
            | Stop::NotAsked(why)
            | Stop::Silent(why)
            | Stop::Answered(_, why)
            | Stop::Failed(why) => why,
        }
    }
}

/// What was seen so far.
#[derive(Debug, Default)]
pub struct Trail {
    evidence: Vec<Evidence>,
    readback: Option<Channel>,
    broken: Vec<String>,
}

impl Trail {
    /// Something was read.
    pub fn saw(&mut self, source: impl Into<String>, how: How, detail: impl Into<String>) {
        self.evidence.push(Evidence { source: source.into(), how, at: now(), detail: detail.into() });
    }

    /// A shell was read: where, and what of it matters.
    pub fn shell(&mut self, seen: &Seen, detail: impl Into<String>) {
        self.readback.get_or_insert(Channel::Socket);
        let added = if seen.added.is_empty() { String::new() } else { format!("; the shell itself added {}", listed(&seen.added)) };
        let removed = match seen.removed.is_empty() {
            true => String::new(),
            false => format!("; on the way to what the shell ran, taken away: {}", listed(&seen.removed)),
        };
        self.saw(
            seen.source.clone(),
            How::RunsACommand,
            format!("{} ({}): {}{added}{removed}", seen.shell_name, seen.shell, detail.into()),
        );
    }

    /// Many shells were read: what of them together matters.
    pub fn shells(&mut self, source: impl Into<String>, detail: impl Into<String>) {
        self.readback.get_or_insert(Channel::Socket);
        self.saw(source, How::RunsACommand, detail);
    }

    /// A shell's output was read, because the shell could not be.
    pub fn output(&mut self, source: impl Into<String>, detail: impl Into<String>) {
        self.readback = Some(Channel::Output);
        self.saw(source, How::RunsACommand, detail);
    }

    /// A shell was read, or told in band: what of it matters.
    pub fn shown(&mut self, shown: &Shown, detail: impl Into<String>) {
        match shown {
            Shown::Shell(seen) => self.shell(seen, detail),
            Shown::Told(told) => self.output("the command's output, in band", format!("{}; {}", detail.into(), told.words())),
        }
    }

    /// Something that the claim says; what was seen instead, where it does not hold.
    pub fn holds(&mut self, holds: bool, otherwise: impl FnOnce() -> String) {
        if !holds {
            self.broken.push(otherwise());
        }
    }

    /// "Nowhere on disk": the canary is in none of the places, and the same search finds what was printed there in band.
    ///
    /// # Errors
    /// When the search finds not even that, or some place could not be searched.
    pub fn nowhere(&mut self, places: &[PathBuf], canary: &str, printed: &str) -> Result<(), Stop> {
        let catch = trawl(places, &[canary, printed]).map_err(|reason| Stop::Failed(reason.to_string()))?;
        self.searched(places, &catch);
        let control = catch.holding(1);
        self.control(!control.is_empty(), "the same search does not find what was printed in band")?;
        self.saw("the positive control", How::Passive, format!("what was printed in band is in {}", control.join(", ")));
        self.control(catch.unread.is_empty(), format!("{} places could not be searched", catch.unread.len()))?;
        let found = catch.holding(0);
        self.holds(found.is_empty(), || format!("the canary is in {}", found.join(", ")));
        Ok(())
    }

    /// What was searched for bytes that should be nowhere.
    fn searched(&mut self, places: &[PathBuf], catch: &Catch) {
        let names: Vec<_> = places.iter().map(|place| place.display().to_string()).collect();
        let unread: String = catch.unread.iter().take(5).map(|(path, why)| format!("; not {}: {why}", path.display())).collect();
        let detail = format!("{} files, {} bytes searched in {ENCODINGS}{unread}", catch.files, catch.bytes);
        self.saw(names.join(", "), How::Passive, detail);
    }

    /// The control: without it nothing follows.
    ///
    /// # Errors
    /// When it does not hold.
    pub fn control(&mut self, holds: bool, what: impl Into<String>) -> Result<(), Stop> {
        if holds { Ok(()) } else { Err(Stop::Control(what.into())) }
    }
}

impl Trail {
    /// What the experiment came to, and whether it was one for this host.
    pub fn verdict(&mut self, ended: Result<(), Stop>) -> (Outcome, bool) {
        let (source, how, detail, outcome) = match ended {
            Ok(()) if self.broken.is_empty() => return (Outcome::Confirmed, true),
            Ok(()) => {
                for broken in std::mem::take(&mut self.broken) {
                    self.saw("the claim", How::RunsACommand, broken);
                }
                return (Outcome::Refuted, true);
            }
            Err(Stop::Control(why)) => ("the control", How::RunsACommand, format!("it did not hold: {why}"), Outcome::Undetermined),
            Err(Stop::Unsupported(why)) => ("the host's answers", How::Connects, why, Outcome::NotSupported),
            Err(Stop::NotAsked(why)) => {
                self.saw("not asked", How::Passive, why);
                return (Outcome::Undetermined, false);
            }
            Err(Stop::Failed(why) | Stop::Answered(_, why) | Stop::Silent(why)) => {
                ("the experiment", How::Connects, format!("it could not be finished: {why}"), Outcome::Undetermined)
            }
        };
        self.saw(source, how, detail);
        (outcome, true)
    }

    /// How the environment was read, and what was seen.
    pub fn taken(self) -> (Option<Channel>, Vec<Evidence>) {
        (self.readback, self.evidence)
    }
}

/// Runs an experiment and says what it came to.
pub fn judge(claim: &'static Claim, experiment: impl FnOnce(&mut Trail) -> Result<(), Stop>) -> Judged {
    let mut trail = Trail::default();
    let ended = experiment(&mut trail);
    let (outcome, asked) = trail.verdict(ended);
    let (readback, evidence) = trail.taken();
    Judged {
        id: claim.id.to_owned(),
        statement: claim.statement.to_owned(),
        documented: claim.documented.map(str::to_owned),
        outcome,
        asked,
        experiment: claim.experiment.to_owned(),
        control: claim.control.to_owned(),
        readback,
        evidence,
    }
}
