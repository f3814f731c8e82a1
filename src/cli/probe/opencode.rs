//! `whoseenv probe opencode`.

use std::path::PathBuf;
use std::time::Duration;

use clap::ValueEnum;

use super::super::{Global, Start};
use crate::diagnose::probing::Required;
use crate::probe::opencode::{self, Options, Target};
use crate::report::Exit;

/// Claims O1 to O14: what OpenCode does with environments
///
/// SENDS: requests for health, sessions, shells, PTYs, forks, uploads of made-up variables, and (to a host that it
/// started) prompts that its own model answers. CREATES: with --spawn a private home below the directory for
/// temporary files with the host, its database and its logs in it; with --live sessions, shells and PTYs in the daemon,
/// and a private directory. REMOVED: with --spawn the host is ended and the home removed; with --live every session, shell
/// and PTY is deleted and asked for again, and on the preview the empty output file of each session shell is removed. LEFT
/// on a live host, by its own nature: one row for the directory, lines in its log, freed database pages, and what its first
/// session brings, whoever opens it: unpacked libraries, empty directories, on 1.x a .gitignore and npm's cache. The
/// registration file is read for the password and never written.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Run this program in a private home and probe that
    #[arg(long, value_name = "BIN", required_unless_present = "live")]
    spawn: Option<PathBuf>,
    /// Probe the daemon that runs: the only one, or the one at this address
    #[arg(long, value_name = "URL", num_args = 0..=1, conflicts_with = "spawn")]
    live: Option<Option<String>>,
    /// Print every request and process that would be made, and make none
    #[arg(long)]
    dry_run: bool,
    /// Longest wait for one answer
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=3600))]
    timeout: u64,
    /// Fail when the host lacks this
    #[arg(long, value_enum, value_name = "SURFACE")]
    require: Vec<RequiredArg>,
    /// Allow this address of this machine, which is not on loopback, to be sent requests and the password; a daemon of another
    /// machine is probed there, for its process and its shells are read in /proc
    #[arg(long, value_name = "URL")]
    allow_remote: Option<String>,
    /// A file that holds the daemon's password, for a daemon without a registration
    #[arg(long, value_name = "FILE")]
    password_file: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum RequiredArg {
    /// Uploads of an environment to a session
    SessionEnvironment,
}

impl From<RequiredArg> for Required {
    fn from(argument: RequiredArg) -> Required {
        match argument {
            RequiredArg::SessionEnvironment => Required::SessionEnvironment,
        }
    }
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
    let required: Vec<Required> = args.require.into_iter().map(Required::from).collect();
    let plan = args.dry_run.then(|| opencode::plan(&target));
    let options =
        Options { target, patience: Duration::from_secs(args.timeout), allow_remote: args.allow_remote, password_file: args.password_file };
    super::tell(&start, "probe opencode", global, &required, plan, |progress| {
        opencode::probe(&start.host, &options, &start.redactor, progress)
    })
}
