//! Help texts that belong to no one command, and what to say to arguments that do not parse.

use std::ffi::OsString;

use clap::error::ErrorKind;

use crate::report::printer::{Colour, Printer};
use crate::report::{Exit, Format, Problem};
use crate::verdict::Severity;

/// Stands below every help.
pub const AFTER: &str = "\
An environment is named: self, a pid, an agent (opencode), file:PATH, snapshot:DIR#PID; tmux:SESSION, systemd-user and
login-shell run a command and so are read only when named.

Exit codes: 0 as expected, 1 findings or differences, 2 usage, 3 not found, 4 not permitted, 5 undetermined, 70 bug, 74 I/O.

New here? whoseenv doctor --demo";

/// Prints help, version or a usage error.
pub fn unparsed(error: &clap::Error) -> Exit {
    let format = format_of(std::env::args_os().skip(1));
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => match error.print() {
            Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Exit::Io,
            _ => Exit::Ok,
        },
        _ if format != Format::Human => {
            let text = error.render().to_string();
            let mut lines = text.lines().filter(|line| !line.trim().is_empty());
            let message = lines.next().unwrap_or_default().trim_start_matches("error: ").to_owned();
            let mut problem = Problem::new(Exit::Usage, message);
            problem.hints = lines.map(|line| line.trim().to_owned()).collect();
            Printer::new(format, Colour::Never, false, Severity::Warning).problem("usage", None, &problem)
        }
        _ => {
            // With stderr gone there is nobody left to tell.
            let _ = error.print();
            Exit::Usage
        }
    }
}

/// The face that arguments ask for which do not parse.
fn format_of(arguments: impl Iterator<Item = OsString>) -> Format {
    let mut format = Format::Human;
    let mut arguments = arguments.take_while(|argument| argument != "--");
    while let Some(argument) = arguments.next() {
        let value = match argument.to_str() {
            Some("--json") => Some("json".to_owned()),
            Some("--format") => arguments.next().and_then(|value| value.into_string().ok()),
            Some(other) => other.strip_prefix("--format=").map(str::to_owned),
            None => None,
        };
        format = match value.as_deref() {
            Some("json") => Format::Json,
            Some("ndjson") => Format::Ndjson,
            Some("human") => Format::Human,
            _ => format,
        };
    }
    format
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_face_of_a_usage_error() {
        let of = |line: &str| format_of(line.split(' ').map(OsString::from));
        assert_eq!(of("ps --nonsense --json"), Format::Json);
        assert_eq!(of("--format ndjson ps --nonsense"), Format::Ndjson);
        assert_eq!(of("ps --format=ndjson x"), Format::Ndjson);
        assert_eq!(of("owner json --nonsense"), Format::Human, "a value is no option");
        assert_eq!(of("owner --nonsense -- --json"), Format::Human);
        assert_eq!(of("ps --format xml"), Format::Human);
    }
}
