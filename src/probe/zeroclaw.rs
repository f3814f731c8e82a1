//! What ZeroClaw does with environments: claims Z1 to Z14, on a daemon started for it or on a live one.
//!
//! Verdicts are what *this version* does; the documented rule stands beside them. No RPC of ZeroClaw runs its shell tool
//! without a model (0.8.7), so a daemon of our own is given one, and a live one is asked only what needs none.

mod bed;
mod claims;
mod client;
mod disk;
mod live;
mod plan;
mod sessions;

use std::path::PathBuf;
use std::time::Duration;

use crate::host::interrupt;
use crate::redact::Redactor;
use crate::report::{Exit, Problem, Progress};
use crate::verdict::Outcome;

use super::claims::{self as registry, ZEROCLAW};
use super::opencode::runnable;
use super::trail::{Stop, Trail, judge};
use super::{Claim, Cleanup, Data, Judged, Probed};
use bed::{Bed, Policy};

pub use bed::DECLARED;
pub use plan::plan;

/// Source of the evidence that a declared name is not there.
pub const ABSENT: &str = "declared and silently absent";

/// What is probed.
#[derive(Clone, Debug)]
pub enum Target {
    /// This program, with a private configuration.
    Spawn(PathBuf),
    /// The daemon that listens on this socket, or where one listens by default.
    Live(Option<PathBuf>),
}

/// How to go about it.
#[derive(Clone, Debug)]
pub struct Options {
    /// What is probed.
    pub target: Target,
    /// Longest wait for one answer.
    pub patience: Duration,
    /// Leave the risk profile as ZeroClaw has it by default: shells run a script, and each call is approved.
    pub default_policy: bool,
    /// More names for `shell_env_passthrough`, judged by Z14.
    pub declared: Vec<String>,
}

/// Probes.
///
/// # Errors
/// When there is no such program or daemon, or it may not be asked.
pub fn probe(host: &crate::host::Host, options: &Options, redactor: &Redactor, progress: &Progress) -> Result<Data, Problem> {
    let program = match &options.target {
        Target::Spawn(program) => program,
        Target::Live(socket) => return live::probe(host, socket.as_deref(), options, progress),
    };
    runnable(program)?;
    progress.doing("starting the daemon");
    let policy = if options.default_policy { Policy::Default } else { Policy::Open };
    let mut cleanup = Cleanup::default();
    let made = Bed::new((program, redactor), policy, &options.declared, options.patience);
    let (host, claims) = match made {
        Err(error) => return Err(Problem::new(Exit::Io, format!("a private home cannot be made: {error}"))),
        Ok(mut bed) => {
            let done = match bed.start() {
                Ok((version, pid)) => {
                    let probed = Probed { product: "zeroclaw".to_owned(), version, pid: Some(pid), spawned: true };
                    (Some(probed), experiments(&mut bed, progress))
                }
                Err(stop) => (None, unknown(stop.why())),
            };
            bed.end(&mut cleanup);
            done
        }
    };
    Ok(Data { host, claims, cleanup, plan: Vec::new() })
}

type Experiment = fn(&mut Bed<'_>, &mut Trail) -> Result<(), Stop>;

/// In the order in which they are made: Z8 starts a second daemon, and Z12 searches what all others left.
const EXPERIMENTS: [(&Claim, Experiment); 14] = [
    (&registry::Z1, claims::client_wins),
    (&registry::Z2, claims::layer_one_alone),
    (&registry::Z3, claims::layer_one),
    (&registry::Z14, claims::declared),
    (&registry::Z4, claims::isolated),
    (&registry::Z5, sessions::attaching),
    (&registry::Z6, sessions::reconnect),
    (&registry::Z7, sessions::superseded),
    (&registry::Z9, sessions::naming),
    (&registry::Z10, sessions::other_mode),
    (&registry::Z11, sessions::foreign_prompt),
    (&registry::Z13, claims::oversized),
    (&registry::Z12, disk::nowhere),
    (&registry::Z8, disk::not_admin),
];

fn experiments(bed: &mut Bed<'_>, progress: &Progress) -> Vec<Judged> {
    let mut lost = None::<String>;
    let mut judged = Vec::new();
    for (number, (claim, experiment)) in EXPERIMENTS.into_iter().enumerate() {
        progress.doing(claim.id);
        progress.reached(number as u64);
        let this = judge(claim, |trail| match &lost {
            Some(why) => Err(Stop::Failed(why.clone())),
            None => experiment(bed, trail),
        });
        if this.outcome == Outcome::Undetermined && lost.is_none() {
            lost = if interrupt::came().is_some() { Some("interrupted".to_owned()) } else { bed.lost() };
        }
        judged.push(this);
    }
    judged.sort_by_key(|judged| ZEROCLAW.iter().position(|claim| claim.id == judged.id));
    judged
}

/// Claims of which nothing is known, because there was no daemon to ask.
fn unknown(why: &str) -> Vec<Judged> {
    ZEROCLAW.iter().map(|claim| judge(claim, |_| Err(Stop::Failed(why.to_owned())))).collect()
}
