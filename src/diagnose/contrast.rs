//! `diff`: two environments, side by side.

use schemars::JsonSchema;
use serde::Serialize;

use crate::env::diff::{self, State};
use crate::env::{Class, catalog};
use crate::host::{Entry, Environ, Host, Unknown};
use crate::redact::Redactor;
use crate::report::{Report, Rows};
use crate::verdict::Liveness;

use super::subject::{Subject, SubjectData};
use super::values::{Name, Shown, judge};

/// The answer of `diff`.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Data {
    /// The first environment.
    pub a: SubjectData,
    /// The second.
    pub b: SubjectData,
    /// Every name in either, sorted.
    pub variables: Vec<Row>,
}

impl Rows for Data {
    type Row = Row;
    const FIELD: Option<&'static str> = Some("variables");

    fn split(mut self) -> (Option<Self>, Vec<Row>) {
        let rows = std::mem::take(&mut self.variables);
        (Some(self), rows)
    }
}

/// One name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Row {
    /// The name.
    #[serde(flatten)]
    pub name: Name,
    /// How the two stand.
    pub state: State,
    /// Its value in the first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub a: Option<Shown>,
    /// Its value in the second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub b: Option<Shown>,
    /// What it is about.
    pub class: Class,
    /// Whether what the first value names is still there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub liveness_a: Option<Liveness>,
    /// Whether what the second value names is still there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub liveness_b: Option<Liveness>,
}

/// Compares two subjects. An environment that cannot be read makes every name of the other `unknown`.
pub fn contrast(host: &Host, redactor: &Redactor, a: &Subject, b: &Subject, connect: bool) -> Report<Data> {
    let variables = rows(host, redactor, a, b, connect);
    let differs = variables.iter().any(|row| matches!(row.state, State::Differs | State::OnlyA | State::OnlyB));
    let mut report = Report::new("diff", Data { a: a.data(host), b: b.data(host), variables });
    report.differs = differs;
    report.undetermined = report.data.variables.iter().any(|row| row.state == State::Unknown);
    for subject in [a, b] {
        for note in &subject.notes {
            if !report.notes.contains(note) {
                report.notes.push(note.clone());
            }
        }
        match (&subject.environ, subject.known()) {
            (Err(Unknown::NotPermitted), _) => {
                report.not_permitted = true;
                report
                    .notes
                    .push(format!("the environment of {} may not be read from this account; ask as its user or as root", subject.label));
            }
            (Err(reason), _) => {
                report.undetermined = true;
                report.notes.push(format!("the environment of {} could not be read: {reason}", subject.label));
            }
            (Ok(environ), _) if environ.overwritten => {
                report.undetermined = true;
                report
                    .notes
                    .push(format!("{} wrote over its environment block: what it was started with can no longer be read", subject.label));
            }
            (Ok(_), Err(reason)) => {
                report.undetermined = true;
                report.notes.push(format!("{}: {reason}", subject.label));
            }
            (Ok(environ), Ok(_)) => {
                // Entries of no name, or of one that may not be shown, have nothing to be compared with.
                let odd = |entry: &&Entry| {
                    entry.value.is_none() || redactor.name(entry.name.as_bytes()).is_err() || entry.name.as_bytes().is_empty()
                };
                match environ.entries.iter().filter(odd).count() {
                    0 => {}
                    1 => report
                        .notes
                        .push(format!("1 entry of {} has no name to compare it by: it has no `=`, or an odd one", subject.label)),
                    odd => report.notes.push(format!(
                        "{odd} entries of {} have no name to compare them by: they have no `=`, or an odd one",
                        subject.label
                    )),
                }
            }
        }
    }
    report
}

/// The rows alone.
pub fn rows(host: &Host, redactor: &Redactor, a: &Subject, b: &Subject, connect: bool) -> Vec<Row> {
    let comparable = a.elsewhere.is_none() && b.elsewhere.is_none();
    let (carrier_a, carrier_b) = (a.carrier(host, connect), b.carrier(host, connect));
    let differences = match (a.known(), b.known()) {
        (Ok(a), Ok(b)) => diff::diff(a, b, comparable),
        (Ok(a), Err(_)) => one_sided(a, true),
        (Err(_), Ok(b)) => one_sided(b, false),
        (Err(_), Err(_)) => Vec::new(),
    };
    differences
        .into_iter()
        .filter(|difference| redactor.name(difference.name.as_bytes()).is_ok())
        .map(|difference| {
            let name = difference.name.as_bytes();
            Row {
                state: difference.state,
                class: catalog::lookup(name).class,
                a: difference.a.as_ref().map(|value| Shown::of(redactor, name, value)),
                b: difference.b.as_ref().map(|value| Shown::of(redactor, name, value)),
                liveness_a: difference.a.as_ref().and_then(|value| judge(&carrier_a, redactor, name, value)).map(|named| named.liveness),
                liveness_b: difference.b.as_ref().and_then(|value| judge(&carrier_b, redactor, name, value)).map(|named| named.liveness),
                name: Name::of(name),
            }
        })
        .collect()
}

/// What one environment has, where the other cannot be read.
fn one_sided(environ: &Environ, first: bool) -> Vec<diff::Difference> {
    let (empty, known) = (Environ::default(), environ);
    let mut differences = if first { diff::diff(known, &empty, true) } else { diff::diff(&empty, known, true) };
    for difference in &mut differences {
        difference.state = State::Unknown;
    }
    differences
}
