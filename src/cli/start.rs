//! What every command starts with: the machine to ask, the printer, the rules for what may be shown.

use std::path::{Path, PathBuf};

use crate::agent::Catalog;
use crate::binary::fingerprints;
use crate::diagnose::{pseudonyms, snapshot_faults, unusable};
use crate::env::catalog;
use crate::host::snapshot::Captured;
use crate::host::{Host, Unknown, files};
use crate::redact::{FingerprintKey, Redactor, ShowPolicy};
use crate::report::printer::note;
use crate::report::{Exit, Page, Printer, Problem, Report, Rows};

use crate::verdict::Finding;

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
    ///
    /// # Errors
    /// When there is no such snapshot, or a user file cannot be used; it was said then, and this is the exit code.
    pub fn new(command: &'static str, global: &Global) -> Result<Start, Exit> {
        let failed = |problem: Problem| printer(global).problem(command, None, &problem);
        let host = match &global.from {
            Some(dir) => Host::captured(Captured::open(dir).map_err(|error| failed(unusable(dir, &error)))?),
            None => Host::live(),
        };
        Start::with(global, host, fingerprint_key().map_err(failed)?).map_err(failed)
    }

    /// This machine, for a command that does something to it: a snapshot cannot be probed.
    ///
    /// # Errors
    /// Under `--from`, and as [`Start::new`].
    pub fn live(command: &'static str, global: &Global) -> Result<Start, Exit> {
        if global.from.is_some() {
            let problem = Problem::new(Exit::Usage, "a snapshot cannot be probed").hint("Run it without --from, on the machine itself.");
            return Err(printer(global).problem(command, None, &problem));
        }
        Start::new(command, global)
    }

    /// The same, on a machine that is at hand already. The user's own catalogues count on a live machine alone.
    ///
    /// # Errors
    /// When a user file cannot be used.
    pub fn with(global: &Global, host: Host, key: FingerprintKey) -> Result<Start, Problem> {
        if !host.is_captured() {
            user_catalogues(global.quiet)?;
        }
        let mut printer = printer(global);
        if global.anonymize {
            printer.rewrite(pseudonyms::rewriter(&host));
        }
        Ok(Start {
            host,
            printer,
            redactor: catalog::redactor(key, policy(global)),
            verbose: global.verbose,
            connect: global.connect,
            ignore: global.ignore.clone(),
        })
    }

    /// Prints a report: ignored findings left out, what is wrong with the snapshot itself added.
    pub fn answer<T: Rows>(&self, mut report: Report<T>, page: impl FnOnce(&Report<T>) -> Page) -> Exit {
        self.finish(&mut report);
        self.printer.answer(self.host.machine(), report, page)
    }

    /// What [`Start::answer`] does before it prints.
    pub fn finish<T>(&self, report: &mut Report<T>) {
        snapshot_faults(&self.host, report);
        let (left_out, kept): (Vec<Finding>, Vec<Finding>) =
            std::mem::take(&mut report.findings).into_iter().partition(|finding| self.ignore.contains(&finding.id));
        report.findings = kept;
        report.ignored = left_out.len();
        if !left_out.is_empty() {
            let mut ids: Vec<&str> = left_out.iter().map(|finding| finding.id.as_str()).collect();
            ids.sort_unstable();
            ids.dedup();
            let plural = if left_out.len() == 1 { "finding" } else { "findings" };
            report.notes.push(format!("{} {plural} left out by --ignore: {}", left_out.len(), ids.join(", ")));
        }
        // What is masked was masked where it was read; this is for a host's string that found a way round.
        for finding in &mut report.findings {
            finding.sentences(|text| self.redactor.sentence(text));
        }
        report.notes.iter_mut().for_each(|note| self.redactor.sentence(note));
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

/// The key of this report's fingerprints: the one in `WHOSEENV_FINGERPRINT_KEY`, else one that nobody will see again.
///
/// # Errors
/// When the system has no randomness to give.
pub fn fingerprint_key() -> Result<FingerprintKey, Problem> {
    use std::os::unix::ffi::OsStrExt;
    match std::env::var_os("WHOSEENV_FINGERPRINT_KEY") {
        Some(text) if !text.is_empty() => Ok(FingerprintKey::from_text(text.as_bytes())),
        _ => FingerprintKey::random().map_err(|error| Problem::new(Exit::Io, format!("no randomness for a key: {error}"))),
    }
}

/// Puts `variables.toml`, `fingerprints.toml` and `agents.toml` of the user on top of the built-in catalogues.
fn user_catalogues(quiet: bool) -> Result<(), Problem> {
    let unusable = |path: &Path, error: String| {
        Problem::new(Exit::Usage, format!("{}: {error}", path.display()))
            .hint("Mend it or move it away; the tables it adds to are in the man page.")
    };
    if let Some((path, text)) = user_file("variables.toml", quiet)? {
        let merged = catalog::built_in().merge(&text).map_err(|error| unusable(&path, error.to_string()))?;
        // A catalogue is in force already only when this was done before.
        let _ = catalog::put_in_force(merged);
    }
    if let Some((path, text)) = user_file("fingerprints.toml", quiet)? {
        let user = fingerprints::Table::parse(&text).map_err(|error| unusable(&path, error.to_string()))?;
        fingerprints::Table::built_in().merged(user).put_in_force();
    }
    if let Some((path, text)) = user_file("agents.toml", quiet)? {
        let user = Catalog::parse(&text).map_err(|error| unusable(&path, error.to_string()))?;
        let _ = Catalog::builtin().merged(user).put_in_force();
    }
    Ok(())
}

/// A file of the user's own, if there is one.
///
/// # Errors
/// When it is there and cannot be used.
pub fn user_file(name: &str, quiet: bool) -> Result<Option<(PathBuf, String)>, Problem> {
    let filled = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let Some(config) = filled("XDG_CONFIG_HOME").or_else(|| Some(filled("HOME")?.join(".config"))) else { return Ok(None) };
    let path = config.join("whoseenv").join(name);
    let unusable = |why: &str| Problem::new(Exit::Usage, format!("{}: {why}", path.display())).hint("Mend it or move it away.");
    match files::read_named(&path) {
        Ok(bytes) => match String::from_utf8(bytes) {
            Ok(text) => Ok(Some((path, text))),
            Err(error) => {
                let line = 1 + error.as_bytes()[..error.utf8_error().valid_up_to()].iter().filter(|&&byte| byte == b'\n').count();
                Err(unusable(&format!("line {line} is not UTF-8")))
            }
        },
        // Under sudo the directory may be one that root may not look into (a network home).
        Err(Unknown::Absent | Unknown::NotPermitted) => Ok(None),
        Err(Unknown::Malformed(why)) => Err(unusable(&why)),
        // A home on a dead network mount: what can be answered without it is answered.
        Err(reason @ Unknown::Deadline) => {
            if !quiet {
                note(&format!("{}: {reason}; the built-in tables alone are used", path.display()));
            }
            Ok(None)
        }
        Err(reason) => Err(Problem::new(Exit::Io, format!("{}: {reason}", path.display()))),
    }
}
