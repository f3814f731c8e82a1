//! Exit codes: one table, which `--help`, the man page and the code share.

use crate::verdict::{Outcome, Severity};

use super::Report;

/// Why the program ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Exit {
    /// As expected.
    Ok,
    /// Confirmed findings at or above `--fail-on`, or differences in `diff`.
    Findings,
    /// Usage error, or a target that fits several processes.
    Usage,
    /// The target was not found.
    NotFound,
    /// Not permitted to look at what was asked; what could be seen was printed.
    NotPermitted,
    /// What was asked could not be decided.
    Undetermined,
    /// A bug in this program.
    Bug,
    /// Input or output failed.
    Io,
}

impl Exit {
    /// In order of precedence: when several apply, the first one here is the one.
    pub const PRECEDENCE: [Exit; 8] =
        [Exit::Bug, Exit::Io, Exit::Usage, Exit::NotFound, Exit::Findings, Exit::NotPermitted, Exit::Undetermined, Exit::Ok];

    /// The number.
    pub fn code(self) -> u8 {
        match self {
            Exit::Ok => 0,
            Exit::Findings => 1,
            Exit::Usage => 2,
            Exit::NotFound => 3,
            Exit::NotPermitted => 4,
            Exit::Undetermined => 5,
            Exit::Bug => 70,
            Exit::Io => 74,
        }
    }

    /// The envelope's `status`.
    pub fn status(self) -> &'static str {
        match self {
            Exit::Ok => "ok",
            Exit::Findings => "findings",
            Exit::NotFound => "not_found",
            Exit::NotPermitted => "not_permitted",
            Exit::Undetermined => "undetermined",
            Exit::Usage | Exit::Bug | Exit::Io => "failed",
        }
    }

    /// What it means, for help and man pages.
    pub fn text(self) -> &'static str {
        match self {
            Exit::Ok => "as expected; also when the reader of a pipe went away",
            Exit::Findings => "confirmed findings at or above --fail-on (default: warning), or differences in diff",
            Exit::Usage => "usage error, an agent that is not known, or a target that fits several processes",
            Exit::NotFound => "the target was not found",
            Exit::NotPermitted => "not permitted to look at what was asked; what could be seen is printed",
            Exit::Undetermined => "what was asked could not be decided",
            Exit::Bug => "a bug in whoseenv",
            Exit::Io => "input or output failed",
        }
    }

    /// What the codes of a command mean, beside 2 (usage), 70 (a bug) and 74 (input or output failed), which every command has.
    pub fn of_command(command: &str) -> &'static [(Exit, &'static str)] {
        match command {
            "doctor" => &[
                (Exit::Ok, "nothing is wrong at or above --fail-on"),
                (Exit::Findings, "something is"),
                (Exit::NotFound, "--pid, --user, --against or --from names what is not there"),
                (
                    Exit::NotPermitted,
                    "a daemon, or the process of --pid, may not be looked into from this account, and nothing worse was found",
                ),
                (Exit::Undetermined, "what would decide could not be read"),
            ],
            "ps" => &[
                (Exit::Ok, "the list is printed, also when it is empty"),
                (Exit::NotFound, "--pid, --user or --from names what is not there"),
                (Exit::NotPermitted, "/proc hides the process of --pid from this account"),
            ],
            "show" => &[
                (Exit::Ok, "the process is shown"),
                (Exit::NotFound, "there is no such process, or no such account"),
                (Exit::NotPermitted, "its environment may not be read from this account; the rest is shown"),
                (Exit::Undetermined, "its environment could not be read"),
            ],
            "diff" => &[
                (Exit::Ok, "the two are equal"),
                (Exit::Findings, "they differ"),
                (Exit::NotFound, "one of them is not there"),
                (Exit::NotPermitted, "one of them may not be read from this account"),
                (Exit::Undetermined, "some values could not be compared, and no others differ"),
            ],
            "owner" => &[
                (Exit::Ok, "the state is known, whatever it is"),
                (Exit::NotFound, "the variable is not set, or the target is not there"),
                (Exit::NotPermitted, "the target's environment may not be read from this account"),
                (Exit::Undetermined, "the state is unknown"),
            ],
            "probe" | "probe-opencode" | "probe-zeroclaw" => &[
                (Exit::Ok, "no claim is refuted; a host without a surface is no failure unless --require asks for it"),
                (Exit::Findings, "a claim is refuted, what --require asks for is not there, or something could not be removed"),
                (Exit::NotFound, "there is no such program or daemon"),
                (Exit::NotPermitted, "the daemon, its environment or its password may not be looked at from this account"),
                (Exit::Undetermined, "an experiment could not tell: its control did not hold, or the host did not answer"),
            ],
            "probe-exec" => &[
                (Exit::Ok, "every command had the environment that the recipe expects"),
                (Exit::Findings, "one had not, or something could not be removed"),
                (Exit::NotFound, "there is no such recipe or file"),
                (Exit::Undetermined, "a command could not be run or read back"),
            ],
            "verify" => &[
                (Exit::Ok, "the lines of evidence agree"),
                (Exit::Findings, "one of them refutes a claim, or something could not be removed"),
                (Exit::NotFound, "there is no such agent or program, or --pid names no daemon of it"),
                (Exit::NotPermitted, "the environment of the daemon that --pid names may not be read from this account; the rest is shown"),
                (Exit::Undetermined, "an experiment could not tell"),
            ],
            "binary-scan" | "binary-identify" => &[
                (Exit::Ok, "the file was read; how often a string is there is no finding"),
                (Exit::Findings, "identify: version and code are of two generations"),
                (Exit::NotFound, "there is no such file, process or agent"),
                (Exit::NotPermitted, "the program may not be read from this account"),
                (Exit::Undetermined, "no strings decide, the file changed while it was read, or --from: a snapshot holds no programs"),
            ],
            "binary-ops" => &[
                (Exit::Ok, "the operations are listed, and equal to the contract where one was named"),
                (Exit::Findings, "they differ from the contract"),
                (Exit::NotFound, "there is no such file, process or agent"),
                (Exit::NotPermitted, "the program may not be read from this account"),
                (Exit::Undetermined, "the file changed while it was read, or --from: a snapshot holds no programs"),
            ],
            "binary-diff" => &[
                (Exit::Ok, "nothing came and nothing went"),
                (Exit::Findings, "something did"),
                (Exit::NotFound, "one of them is not there"),
                (Exit::NotPermitted, "one of them may not be read from this account"),
                (Exit::Undetermined, "a file changed while it was read, or --from: a snapshot holds no programs"),
            ],
            "db" | "db-info" | "db-sessions" | "db-inbox" | "db-kv" | "db-events" | "db-schema" | "db-audit" => &[
                (Exit::Ok, "the answer is printed, and nothing is wrong at or above --fail-on"),
                (Exit::Findings, "something is wrong with the store (info, audit)"),
                (Exit::NotFound, "there is no such store, session, key or table"),
                (Exit::NotPermitted, "the store may not be read from this account"),
                (Exit::Undetermined, "it is damaged, no database, or changed while it was read"),
            ],
            "snapshot" => &[(Exit::Ok, "the snapshot is written"), (Exit::NotFound, "--pid names a process that is not there")],
            _ => &[(Exit::Ok, "it is written")],
        }
    }

    /// The first of the two in precedence.
    #[must_use]
    pub fn and(self, other: Exit) -> Exit {
        Exit::PRECEDENCE.into_iter().find(|exit| *exit == self || *exit == other).unwrap_or(Exit::Bug)
    }

    /// What a report comes to, when findings at or above `fail_on` count.
    pub fn of<T>(report: &Report<T>, fail_on: Severity) -> Exit {
        let counted = |outcome| report.findings.iter().any(|finding| finding.severity >= fail_on && finding.outcome == outcome);
        let mut exit = Exit::Ok;
        if counted(Outcome::Confirmed) || report.differs {
            exit = exit.and(Exit::Findings);
        }
        if report.not_permitted {
            exit = exit.and(Exit::NotPermitted);
        }
        if report.undetermined || counted(Outcome::Undetermined) {
            exit = exit.and(Exit::Undetermined);
        }
        exit
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verdict::Finding;
    use crate::verdict::registry::{DAEMON_UNREADABLE, PATH_UNSET};

    #[test]
    fn precedence_is_the_documented_one() {
        let codes = Exit::PRECEDENCE.map(Exit::code);
        assert_eq!(codes, [70, 74, 2, 3, 1, 4, 5, 0]);
        assert_eq!(Exit::NotPermitted.and(Exit::Findings), Exit::Findings);
        assert_eq!(Exit::Undetermined.and(Exit::NotPermitted), Exit::NotPermitted);
    }

    #[test]
    fn could_not_look_is_neither_fine_nor_a_finding() {
        let mut report = Report::new("doctor", ());
        assert_eq!(Exit::of(&report, Severity::Warning), Exit::Ok);
        report.findings.push(Finding::new(&DAEMON_UNREADABLE, Outcome::Undetermined, "x", "x"));
        assert_eq!(Exit::of(&report, Severity::Warning), Exit::Undetermined);
        report.not_permitted = true;
        assert_eq!(Exit::of(&report, Severity::Warning), Exit::NotPermitted);
        report.findings.push(Finding::new(&PATH_UNSET, Outcome::Confirmed, "x", "x"));
        assert_eq!(Exit::of(&report, Severity::Error), Exit::NotPermitted, "a warning does not count under --fail-on error");
        assert_eq!(Exit::of(&report, Severity::Warning), Exit::Findings);
    }
}
