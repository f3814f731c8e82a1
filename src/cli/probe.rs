//! `whoseenv probe …`.

mod exec;
mod opencode;
mod page;
mod zeroclaw;

use super::{Global, Start};
use crate::diagnose::probing::{self, Required};
use crate::host::interrupt::{self, Watch};
use crate::probe::Data;
use crate::report::{Exit, Problem, Progress};

pub use page::{cleanup, page, plan, word};

/// Inject an environment into a host, run a command there, and read back what it saw, with a control
///
/// Creates things, and removes them: what, is said for every probe. Values never pass through the host's output,
/// database or logs: the host's shell runs whoseenv, which calls back over a private socket, and the verdict is taken
/// from the shell's own block in /proc.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    host: Host,
}

#[derive(Debug, clap::Subcommand)]
enum Host {
    Opencode(opencode::Args),
    Zeroclaw(zeroclaw::Args),
    Exec(exec::Args),
}

pub fn run(args: Args, global: &Global) -> Exit {
    match args.host {
        Host::Opencode(args) => opencode::run(args, global),
        Host::Zeroclaw(args) => zeroclaw::run(args, global),
        Host::Exec(args) => exec::run(args, global),
    }
}

/// From now on Ctrl-C lets what was made be removed first.
pub fn watched() -> Result<Watch, Problem> {
    interrupt::watch().map_err(|error| Problem::new(Exit::Io, format!("Ctrl-C cannot be watched for: {error}")))
}

/// Tells what a probe of an agent came to, or only what it would do.
fn tell(
    start: &Start,
    label: &str,
    global: &Global,
    required: &[Required],
    plan: Option<Result<Data, Problem>>,
    probe: impl FnOnce(&Progress) -> Result<Data, Problem>,
) -> Exit {
    let data = plan.unwrap_or_else(|| {
        let _watch = watched()?;
        probe(&Progress::new(label, Some(14), global.quiet))
    });
    match data {
        Ok(data) => start.answer(probing::report("probe", data, required), |report| page(report, start.verbose)),
        Err(problem) => start.problem("probe", &problem),
    }
}
