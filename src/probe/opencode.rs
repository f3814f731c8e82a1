//! What OpenCode does with environments: claims O1 to O14, on a host started for it or on a live one.

pub mod api;
pub mod bed;
mod disk;
pub mod live;
mod mark;
mod plain;
mod plan;
mod removal;
mod shown;
pub mod spawn;
mod uploads;

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::host::files::{FileKind, stat_named};
use crate::host::http::Reply;
use crate::host::{Environ, Host, Unknown, interrupt};
use crate::redact::Redactor;
use crate::report::{Exit, Problem, Progress};
use crate::verdict::Outcome;

use super::claims::{self, OPENCODE};
use super::readback::Seen;
use super::trail::{Stop, Trail, judge};
use super::{Claim, Data, Judged, map, nonce};
use api::Condition;
use bed::{Bed, Way};

pub use plan::plan;

/// A session that no host has.
const NO_SESSION: &str = "ses_ffffffffffffwhoseenvprobe0";

/// What is probed.
#[derive(Clone, Debug)]
pub enum Target {
    /// This program, in a private home.
    Spawn(PathBuf),
    /// The daemon that runs: at this address, or the one there is.
    Live(Option<String>),
}

/// How to go about it.
#[derive(Clone, Debug)]
pub struct Options {
    /// What is probed.
    pub target: Target,
    /// Longest wait for one answer.
    pub patience: Duration,
    /// An address off this machine that may be sent a password.
    pub allow_remote: Option<String>,
    /// A file that holds the daemon's password.
    pub password_file: Option<PathBuf>,
}

/// Whether a host takes uploads, and how that was seen.
pub enum Support {
    /// It does.
    Yes(String),
    /// It has no such surface.
    No(String),
    /// It could not be found out.
    Unknown(Stop),
}

/// What a host is started anew by: ends it, starts it on the same files, and puts the new one in the old one's place.
pub type Restart<'r> = &'r mut dyn FnMut(&mut Bed) -> Result<(), Stop>;

/// An experiment on a host.
type Experiment = fn(&mut Bed, &mut Trail) -> Result<(), Stop>;

/// Probes.
///
/// # Errors
/// When there is no such program or daemon, or it may not be asked.
pub fn probe(host: &Host, options: &Options, redactor: &Redactor, progress: &Progress) -> Result<Data, Problem> {
    match &options.target {
        Target::Spawn(program) => {
            runnable(program)?;
            Ok(spawn::probe(program, options.patience, redactor, progress))
        }
        Target::Live(url) => live::probe(host, url.as_deref(), options, progress),
    }
}

/// That a program is there and can be run.
///
/// # Errors
/// When it is not.
pub fn runnable(program: &Path) -> Result<(), Problem> {
    let missing = |exit, why: &str| Problem::new(exit, format!("{}: {why}", program.display())).hint("Name the program file itself.");
    match stat_named(program) {
        Ok(stat) if stat.kind == FileKind::File && stat.mode & 0o111 != 0 => Ok(()),
        Ok(stat) if stat.kind == FileKind::File => Err(missing(Exit::NotPermitted, "it may not be run")),
        Ok(stat) => Err(missing(Exit::Usage, &format!("it is {}, not a program", stat.kind.word()))),
        Err(Unknown::NotPermitted) => Err(missing(Exit::NotPermitted, "it may not be looked at")),
        Err(unknown) if unknown.is_absence() => Err(missing(Exit::NotFound, "there is no such file")),
        Err(unknown) => Err(missing(Exit::Io, &unknown.to_string())),
    }
}

/// Makes every experiment.
pub fn experiments(bed: &mut Bed, restart: Option<Restart<'_>>, places: &[PathBuf], progress: &Progress) -> Vec<Judged> {
    let mut course = Course { judged: Vec::new(), lost: None, progress };
    let session = bed.session();
    let plain: Result<Seen, Stop> = session.and_then(|session| bed.run(Way::Session(&session)));
    if let Ok(seen) = &plain {
        // Whatever the one who asks has too may come from there, which is O2's matter.
        let own = host_environ();
        bed.plugins = bed.extra(seen).into_iter().filter(|name| own.get(name).is_none()).collect();
    }
    if let Err(Stop::Silent(why)) = &plain {
        bed.mute = Some(why.clone());
    }
    course.step(bed, &claims::O1, |bed, trail| plain::child_of_daemon(bed, &plain, trail));
    course.step(bed, &claims::O2, |bed, trail| plain::daemons_environment(bed, &plain, trail));
    course.step(bed, &claims::O13, plain::requests);
    let support = match &course.lost {
        Some(why) => Support::Unknown(Stop::Failed(why.clone())),
        None => support(bed).unwrap_or_else(Support::Unknown),
    };
    course.step(bed, &claims::O7, |bed, trail| plain::overlay(bed, &support, &plain, trail));
    course.step(bed, &claims::O10, |bed, trail| plain::without_session(bed, &support, trail));
    let uploads: [(&'static Claim, Experiment); 7] = [
        (&claims::O3, uploads::arrives),
        (&claims::O4, uploads::replaces),
        (&claims::O5, uploads::last_wins),
        (&claims::O6, uploads::empty),
        (&claims::O8, uploads::isolated),
        (&claims::O9, uploads::children),
        (&claims::O14, uploads::refusals),
    ];
    for (claim, experiment) in uploads {
        course.step(bed, claim, |bed, trail| needs_uploads(&support, trail).and_then(|()| experiment(bed, trail)));
    }
    course.step(bed, &claims::O11, |bed, trail| {
        needs_uploads(&support, trail)?;
        disk::nowhere(bed, places, trail)
    });
    course.step(bed, &claims::O12, |bed, trail| {
        needs_uploads(&support, trail)?;
        let Some(restart) = restart else { return Err(Stop::NotAsked("a live daemon is not ended for a probe".to_owned())) };
        let before = disk::before_restart(bed, trail)?;
        restart(bed)?;
        disk::after_restart(bed, &before, trail)
    });
    course.in_order(OPENCODE)
}

/// The environment of the one who asks; empty where it cannot be read.
fn host_environ() -> Environ {
    Host::live().process(std::process::id()).environ().unwrap_or_default()
}

fn needs_uploads(support: &Support, trail: &mut Trail) -> Result<(), Stop> {
    match support {
        Support::Yes(how) => {
            trail.saw("PUT /api/session/…/environment", crate::verdict::How::Connects, how.clone());
            Ok(())
        }
        Support::No(why) => Err(Stop::Unsupported(why.clone())),
        Support::Unknown(stop) => Err(stop.clone()),
    }
}

/// Whether the host takes uploads: 204 for a session it has, and a JSON 404 for one it has not; or 204 and an effect.
fn support(bed: &mut Bed) -> Result<Support, Stop> {
    if !bed.health.keeps_to_itself() {
        return by_contract(bed);
    }
    let mark = nonce("support")?;
    let session = bed.session()?;
    let variables = map(&[("WHOSEENV_MARK", &mark)]);
    let real = bed.send(&api::upload(&session, &variables))?;
    let unknown = bed.send(&api::upload(NO_SESSION, &variables))?;
    let said = format!("a session of this host: {}; an unknown session: {}", real.shape(), unknown.shape());
    let tagged = |reply: &Reply| reply.json().is_some_and(|body| body["_tag"].is_string());
    if real.status == 204 && real.body.is_empty() {
        // A 204 alone proves nothing: the refusal of an unknown session does, or the effect.
        let refused = unknown.status == 404 && tagged(&unknown);
        if refused || bed.look(&session, &[("WHOSEENV_MARK", &mark)])?.equals("WHOSEENV_MARK", &mark) {
            return Ok(Support::Yes(said));
        }
        api::decided(unknown)?;
        return Ok(Support::No(format!("PUT to {said}; and no effect")));
    }
    // No route: 404 or 405 that speaks of no session, or a page that stands for every path.
    let no_route = [404, 405].contains(&real.status) && !tagged(&real);
    let page = (200..300).contains(&real.status) && real.json().is_none();
    if no_route || page {
        return Ok(Support::No(format!("PUT to {said}: no upload")));
    }
    Ok(Support::Unknown(Stop::Failed(format!("PUT to {said}: neither an upload nor a missing route"))))
}

/// The same of a host that hands what it does not know on to the web: it is not asked what it may not know.
fn by_contract(bed: &Bed) -> Result<Support, Stop> {
    let reply = api::ask(&bed.http, "GET", api::CONTRACT, None, bed.patience)?;
    let contract = reply.json().filter(|_| reply.status == 200).unwrap_or_default();
    let paths: Vec<&String> = contract["paths"].as_object().into_iter().flatten().map(|(path, _)| path).collect();
    // The positive control: what runs a command must be in it.
    if !paths.iter().any(|path| path.ends_with("/shell")) {
        return Ok(Support::Unknown(Stop::Failed(format!("GET {}: {}: not its contract", api::CONTRACT, reply.shape()))));
    }
    let said = format!("its own contract, GET {}: {} paths", api::CONTRACT, paths.len());
    match paths.iter().find(|path| path.contains("environment")) {
        Some(path) => Ok(Support::Unknown(Stop::Failed(format!("{said}, among them {path}, which is not known of this version")))),
        None => Ok(Support::No(format!("{said}, none of them an upload; it hands unknown paths on to the web, so that none was tried"))),
    }
}

/// The course of all experiments.
struct Course<'p> {
    judged: Vec<Judged>,
    /// Why no more are made.
    lost: Option<String>,
    progress: &'p Progress,
}

impl Course<'_> {
    fn step(&mut self, bed: &mut Bed, claim: &'static Claim, experiment: impl FnOnce(&mut Bed, &mut Trail) -> Result<(), Stop>) {
        self.progress.doing(claim.id);
        self.progress.reached(self.judged.len() as u64);
        let judged = judge(claim, |trail| match &self.lost {
            Some(why) => Err(Stop::Failed(why.clone())),
            None => experiment(bed, trail),
        });
        if judged.outcome == Outcome::Undetermined && self.lost.is_none() {
            self.lost = lost(bed);
        }
        self.judged.push(judged);
    }

    fn in_order(mut self, registry: &[&Claim]) -> Vec<Judged> {
        self.judged.sort_by_key(|judged| registry.iter().position(|claim| claim.id == judged.id));
        self.judged
    }
}

/// Why the host cannot be asked any more: one that hangs is not waited for fourteen times.
fn lost(bed: &Bed) -> Option<String> {
    const PATIENCE: Duration = Duration::from_secs(3);
    if interrupt::came().is_some() {
        return Some("interrupted".to_owned());
    }
    match api::health(&bed.http, PATIENCE.min(bed.patience)) {
        Ok(Condition::Well(_)) => None,
        Ok(Condition::Unwell(said)) => Some(format!("the host is not healthy ({said})")),
        Err(no) => Some(format!("the host cannot be asked any more: {no}")),
    }
}

/// Claims of which nothing is known, because there was no host to ask.
pub fn unknown(why: &str) -> Vec<Judged> {
    OPENCODE.iter().map(|claim| judge(claim, |_| Err(Stop::Failed(why.to_owned())))).collect()
}
