//! `whoseenv probe …`.

mod exec;
mod opencode;
mod page;
mod zeroclaw;

use super::Global;
use crate::report::Exit;

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
