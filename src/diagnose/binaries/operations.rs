//! `binary ops`: the REST operations that a bundle registers, and a contract against them.

use std::path::Path;

use schemars::JsonSchema;
use serde::Serialize;

use super::{FileData, Opened, unreadable};
use crate::binary::ops::contract::{self, Comparison, Listed};
use crate::binary::ops::{self, Operation, Unresolved};
use crate::binary::regions;
use crate::host::files;
use crate::host::http::{self, Password};
use crate::report::{Exit, Problem, Report, Rows};

/// The answer of `binary ops`.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Data {
    /// The file.
    pub file: FileData,
    /// Every operation that the bundle registers, in the order of the file.
    pub operations: Vec<Operation>,
    /// Registrations whose path could not be made out.
    pub unresolved: Vec<Unresolved>,
    /// The contract against them, where one was named.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub against: Option<Comparison>,
}

impl Rows for Data {
    type Row = Operation;
    const FIELD: Option<&'static str> = Some("operations");

    fn split(mut self) -> (Option<Self>, Vec<Operation>) {
        let rows = std::mem::take(&mut self.operations);
        (Some(self), rows)
    }
}

/// Reads the operations.
///
/// # Errors
/// When the file cannot be read.
pub fn examine(opened: &Opened, contract: Option<(String, Vec<Listed>)>) -> Result<Report<Data>, Problem> {
    let found = ops::operations(&opened.program).map_err(|error| unreadable(&opened.label, &error))?;
    let against = contract.map(|(source, listed)| contract::compare(source, &found.found, listed));
    let data = Data { file: opened.data(), unresolved: found.unresolved, against, operations: found.found };
    let mut report = Report::new("binary-ops", data);
    report.differs = report.data.against.as_ref().is_some_and(|against| !against.is_equal());
    if report.data.operations.is_empty() {
        // A form that is not known registers too.
        report.undetermined = true;
        report.notes.push("no registration of a known form is in it: d.get(\"id\",\"/path\",…) or f(\"id\",\"/path\",…)".to_owned());
    }
    match report.data.unresolved.len() {
        0 => {}
        one => report.notes.push(format!("{one} registrations have a path that could not be made out (-v lists them)")),
    }
    if found.lost {
        report.undetermined = true;
        report.notes.push(regions::LOST.to_owned());
    }
    if found.given_up {
        report.undetermined = true;
        report.notes.push("understanding all of it would take too long: there may be more operations".to_owned());
    }
    opened.finish(&mut report);
    Ok(report)
}

/// The contract at a path or a URL on this machine.
///
/// # Errors
/// Not found (3), not on this machine or no contract (2), no answer (74).
pub fn contract(word: &str, password: Option<&Password>, remote: bool) -> Result<(String, Vec<Listed>), Problem> {
    if word.is_empty() {
        return Err(Problem::new(Exit::Usage, "--against names no contract").hint("Give a file, or http://127.0.0.1:PORT/doc"));
    }
    let told = if word.contains("://") { http::told(word) } else { word.to_owned() };
    if let Some((scheme, _)) = word.split_once("://").filter(|(scheme, _)| !matches!(*scheme, "http" | "https")) {
        return Err(
            Problem::new(Exit::Usage, format!("{told}: {scheme}:// is not spoken")).hint("Give a file, or http://127.0.0.1:PORT/doc")
        );
    }
    let is_url = word.starts_with("http://") || word.starts_with("https://");
    let read = if is_url { http::document(word, password, remote) } else { files::read_named(Path::new(word)) };
    let bytes = read.map_err(|reason| {
        let problem = Problem::unread(&told, &reason);
        match problem.message.ends_with("status 401") {
            true => problem.hint("The server asks for a password: set it in WHOSEENV_SERVER_PASSWORD."),
            false if is_url && problem.exit == Exit::Io => problem.hint("Does a server listen there? See which do: whoseenv ps"),
            false => problem,
        }
    })?;
    let listed = contract::parse(&bytes).map_err(|why| Problem::new(Exit::Usage, format!("{told}: {why}")))?;
    Ok((told, listed))
}
