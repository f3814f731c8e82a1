//! `whoseenv probe zeroclaw`.

use std::path::PathBuf;
use std::time::Duration;

use super::super::{Global, Start};
use crate::probe::zeroclaw::{self, Options, Target};
use crate::report::Exit;

/// Claims Z1 to Z14: what ZeroClaw does with environments
///
/// SENDS: initialize with made-up environments, session/new, prompts that the probe's own model answers with one call of
/// the shell tool, and approvals of that call. CREATES: with --spawn a private home below the directory for temporary
/// files with the daemon, its configuration, tables and logs in it, and for Z8 a second daemon with this account in
/// its roster; with --live two sessions. REMOVED: with --spawn the daemons are ended and the home removed; with --live both
/// sessions are closed, deleted and asked for again. LEFT on a live daemon, by its own nature: lines in its log, and the
/// workspace that it makes for an agent's first session.
/// A live daemon has a model of its own, so that Z5 alone is judged there.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Run this program in a private home and probe that
    #[arg(long, value_name = "BIN", required_unless_present = "live")]
    spawn: Option<PathBuf>,
    /// Probe the daemon that runs: the only one, or the one on this socket
    #[arg(long, value_name = "SOCKET", num_args = 0..=1, conflicts_with = "spawn")]
    live: Option<Option<PathBuf>>,
    /// Leave the risk profile as ZeroClaw has it by default: the shell runs a script in the session's directory, and
    /// each call is approved
    #[arg(long, conflicts_with = "live")]
    default_policy: bool,
    /// Declare these names in shell_env_passthrough as well, for Z14
    #[arg(long, value_name = "NAME,…", value_delimiter = ',', conflicts_with = "live")]
    declare: Vec<String>,
    /// Print every request and process that would be made, and make none
    #[arg(long)]
    dry_run: bool,
    /// Longest wait for one answer
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=3600))]
    timeout: u64,
}

pub fn run(args: Args, global: &Global) -> Exit {
    let start = match Start::live("probe", global) {
        Ok(start) => start,
        Err(exit) => return exit,
    };
    let target = match (args.spawn, args.live) {
        (Some(program), _) => Target::Spawn(program),
        (None, live) => Target::Live(live.flatten()),
    };
    let plan = args.dry_run.then(|| zeroclaw::plan(&target, args.default_policy));
    let options =
        Options { target, patience: Duration::from_secs(args.timeout), default_policy: args.default_policy, declared: args.declare };
    super::tell(&start, "probe zeroclaw", global, &[], plan, |progress| zeroclaw::probe(&start.host, &options, &start.redactor, progress))
}
