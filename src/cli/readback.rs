//! What a probed host's shell runs, what a probe starts a host through, and what asks file systems that may hang. Not for people,
//! and so in no help.

use std::ffi::OsString;
use std::process::ExitCode;

use crate::host::{child, scout};
use crate::probe::readback;
use crate::report::printer::complain;
use crate::report::{Exit, Problem};

/// The helper's own arguments, if this run is the helper's: it must start fast, and so does without the command line.
pub fn arguments() -> Option<Vec<OsString>> {
    let mut arguments = std::env::args_os().skip(1);
    (arguments.next()? == "readback").then(|| arguments.collect())
}

/// `readback call SOCKET TOKEN`, `readback become PROGRAM …`, or `readback scout`.
pub fn run(arguments: &[OsString]) -> ExitCode {
    let word = |at: usize| arguments.get(at).and_then(|word| word.to_str()).unwrap_or_default();
    let failed = |what: &str, error: std::io::Error| ExitCode::from(complain(&Problem::new(Exit::Io, format!("{what}: {error}"))).code());
    match word(0) {
        "call" => readback::call(word(1), word(2)).map_or_else(|error| failed("the probe that asked", error), |()| ExitCode::SUCCESS),
        "scout" => scout::serve().map_or_else(|error| failed("the one who sent it", error), |()| ExitCode::SUCCESS),
        "become" => failed(word(1), child::become_program(arguments.get(1..).unwrap_or_default())),
        _ => {
            let problem = Problem::new(Exit::Usage, "readback is what a probe runs for itself").hint("See: whoseenv probe --help");
            ExitCode::from(complain(&problem).code())
        }
    }
}
