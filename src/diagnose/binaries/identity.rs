//! `binary identify`: what a program is, by its own code.

use schemars::JsonSchema;
use serde::Serialize;

use super::{FileData, Opened, unreadable};
use crate::binary::fingerprints::Table;
use crate::binary::identify::{Feature, Identified, identify};
use crate::binary::read::Program;
use crate::host::Host;
use crate::report::{Problem, Report, Rows};
use crate::verdict::registry::BINARY_VERSION_DISAGREES;
use crate::verdict::{Evidence, Finding, How, Outcome};

/// The answer of `binary identify`.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Data {
    /// The file.
    pub file: FileData,
    /// What it is.
    #[serde(flatten)]
    pub identified: Identified,
}

impl Rows for Data {
    type Row = Feature;
    const FIELD: Option<&'static str> = Some("features");

    fn split(mut self) -> (Option<Self>, Vec<Feature>) {
        let rows = std::mem::take(&mut self.identified.features);
        (Some(self), rows)
    }
}

/// Identifies.
///
/// # Errors
/// When the file cannot be read.
pub fn examine(host: &Host, opened: &Opened) -> Result<Report<Data>, Problem> {
    let identified = of(&opened.program, &opened.label)?;
    let mut report = Report::new("binary-identify", Data { file: opened.data(), identified });
    let identified = &report.data.identified;
    report.findings.extend(disagreement(host, &opened.label, identified));
    if let Some(doubt) = &identified.doubt {
        report.undetermined = true;
        report.notes.push(doubt.clone());
    }
    match (&identified.product, &identified.generation) {
        (None, _) => {
            report.undetermined = true;
            report
                .notes
                .push("it is no product of the table; add one in fingerprints.toml, or count strings: whoseenv binary scan".to_owned());
        }
        (Some(_), None) if !identified.client => {
            report.undetermined = true;
            report.notes.push("no strings of the table decide its generation, and its version alone proves none".to_owned());
        }
        _ => {}
    }
    opened.finish(&mut report);
    Ok(report)
}

/// What the program is, by the table in force.
///
/// # Errors
/// When the file cannot be read.
pub fn of(program: &Program, label: &str) -> Result<Identified, Problem> {
    identify(program, Table::in_force()).map_err(|error| unreadable(label, &error))
}

/// The version that it carries is of another generation than its code.
pub fn disagreement(host: &Host, label: &str, identified: &Identified) -> Option<Finding> {
    let (code, version) = identified.disagrees()?;
    let carried = identified.version_string.as_deref().unwrap_or_default();
    let message = format!("it calls itself {carried}, which would be generation {version}; its code is generation {code}");
    let seen = identified.generation_evidence.iter().filter(|seen| seen.offset.is_some()).map(|seen| Evidence {
        source: format!("{label}, byte {}", seen.offset.unwrap_or_default()),
        how: How::Passive,
        at: host.machine().taken_at(),
        detail: format!("{} stands there, {} times in all", seen.string, seen.occurrences),
    });
    let fix = "believe the code; a version string is set when a program is built, by whoever builds it".to_owned();
    Some(Finding::new(&BINARY_VERSION_DISAGREES, Outcome::Confirmed, label, message).evidence(seen).fix([fix]))
}
