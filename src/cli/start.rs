//! What every command starts with: the machine to ask, the printer, the rules for what may be shown.

use crate::host::Host;
use crate::host::snapshot::Captured;
use crate::redact::{FingerprintKey, Redactor, ShowPolicy};
use crate::report::{Exit, Page, Printer, Problem, Report};

use super::Global;

/// The machine to ask, the printer, the rules for what may be shown.
pub struct Start {
    /// The machine, live or captured.
    pub host: Host,
    /// Where output goes.
    pub printer: Printer,
    /// What may be shown.
    pub redactor: Redactor,
    /// Evidence under every line.
    pub verbose: bool,
    /// Things may be opened.
    pub connect: bool,
    ignore: Vec<String>,
}

impl Start {
    /// Opens the machine or the snapshot that the options name.
    pub fn new(command: &'static str, global: &Global) -> Result<Start, Exit> {
        match &global.from {
            None => Ok(Start::with(global, Host::live(), FingerprintKey::from_environment())),
            Some(dir) => match Captured::open(dir) {
                Ok(captured) => Ok(Start::with(global, Host::captured(captured), FingerprintKey::from_environment())),
                Err(error) => {
                    let exit = match &error {
                        crate::host::snapshot::SnapshotError::Open(source) if source.kind() == std::io::ErrorKind::NotFound => Exit::NotFound,
                        _ => Exit::Io,
                    };
                    let problem = Problem::new(exit, format!("{}: {error}", dir.display())).hint("Take a new one: whoseenv snapshot DIR");
                    Err(printer(global).problem(command, None, &problem))
                }
            },
        }
    }

    /// The same, on a machine that is at hand already.
    pub fn with(global: &Global, host: Host, key: FingerprintKey) -> Start {
        let mut printer = printer(global);
        if global.anonymize {
            printer.rewrite(crate::diagnose::pseudonyms::rewriter(&host));
        }
        Start {
            host,
            printer,
            redactor: Redactor::new(key, policy(global)),
            verbose: global.verbose,
            connect: global.connect,
            ignore: global.ignore.clone(),
        }
    }

    /// Prints a report: ignored findings left out, what is wrong with the snapshot itself put first.
    pub fn print<T: serde::Serialize>(&self, mut report: Report<T>, page: impl FnOnce(&Report<T>) -> Page) -> Exit {
        self.finish(&mut report);
        self.printer.report(self.host.machine(), &report, page)
    }

    /// What [`Start::print`] does before it prints.
    pub fn finish<T>(&self, report: &mut Report<T>) {
        crate::diagnose::snapshot_faults(&self.host, report);
        report.findings.retain(|finding| !self.ignore.contains(&finding.id));
    }

    /// Prints why there is no answer.
    pub fn problem(&self, command: &str, problem: &Problem) -> Exit {
        self.printer.problem(command, Some(self.host.machine()), problem)
    }
}

/// What the options let be shown.
pub fn policy(global: &Global) -> ShowPolicy {
    ShowPolicy { names: global.show.clone(), all: global.show_all }
}

/// The printer that the options ask for.
pub fn printer(global: &Global) -> Printer {
    Printer::new(global.format(), global.colour(), global.quiet, global.fail_on())
}
