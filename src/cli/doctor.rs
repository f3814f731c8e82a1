//! `whoseenv doctor`, which is also `whoseenv`.

mod demo;
mod page;

use super::start::{fingerprint_key, printer};
use super::{Global, NarrowArgs, Start};
use crate::diagnose::doctor;
use crate::diagnose::subject::{Narrow, Subject, resolve};
use crate::env::reference::Reference;
use crate::host::Host;
use crate::report::{Exit, Problem};

pub use page::{needs_table, programs_table};

/// Find everything that is wrong between this terminal and the agent daemons here, and the fix for each
#[derive(Debug, Default, clap::Args)]
pub struct Args {
    /// Compare with this environment instead of this terminal
    #[arg(long, value_name = "REF")]
    against: Option<Reference>,
    /// Run on a captured machine that is part of the program: an OpenCode daemon whose display another login got
    #[arg(long, conflicts_with = "from")]
    demo: bool,
    /// Also find every OpenCode and ZeroClaw program here, and those older than the database they would open
    ///
    /// Looked for: what runs, the directories of PATH, ~/.opencode/bin, ~/.cargo/bin and ~/.local/bin, and npm's global folder (by
    /// npm's settings, and beside node), each for this terminal and for the users of the daemons. There, files of the usual names, and
    /// of any name from 20 MB on (64 of them at most): their content says what they are. They are read, never run.
    #[arg(long)]
    binaries: bool,
    #[command(flatten)]
    narrow: NarrowArgs,
}

pub fn run(args: Args, global: &Global) -> Exit {
    let start = match start(args.demo, global) {
        Ok(start) => start,
        Err(exit) => return exit,
    };
    let narrow = Narrow::from(args.narrow);
    let checked = if args.binaries { start.fingerprints() } else { Ok(()) };
    if let Err(problem) = checked.and_then(|()| narrow.check(&start.host)) {
        return start.problem("doctor", &problem);
    }
    let terminal = match &args.against {
        None => Subject::terminal(&start.host),
        Some(reference) => match resolve(&start.host, reference, &narrow) {
            Ok(subject) => subject,
            Err(problem) => return start.problem("doctor", &problem),
        },
    };
    let examined = doctor::examine(&start.host, &start.redactor, &terminal, &narrow, start.connect).and_then(|mut report| {
        if args.binaries {
            doctor::add_programs(&start.host, &mut report)?;
        }
        Ok(report)
    });
    match examined {
        Ok(report) => {
            if let Some(pid) = narrow.pid.filter(|pid| report.data.daemons.iter().all(|daemon| daemon.pid != *pid)) {
                return start.problem("doctor", &doctor::no_daemon(&start.host, pid));
            }
            let around =
                page::Around { verbose: start.verbose, demo: args.demo, hidden: start.host.hiding().is_some(), narrow: narrow.words() };
            start.answer(report, |report| page::page(report, &terminal.label, &around))
        }
        Err(reason) => start.problem("doctor", &Problem::new(Exit::Io, format!("the list of processes could not be read: {reason}"))),
    }
}

fn start(demo: bool, global: &Global) -> Result<Start, Exit> {
    if !demo {
        return Start::new("doctor", global);
    }
    let failed = |problem: Problem| printer(global).problem("doctor", None, &problem);
    let captured = demo::machine().map_err(|error| failed(Problem::new(Exit::Bug, format!("the demo machine: {error}"))))?;
    Start::with(global, Host::captured(captured), fingerprint_key().map_err(failed)?).map_err(failed)
}
