//! `binary diff`: what came and what went between two programs.

use schemars::JsonSchema;
use serde::Serialize;

use super::{FileData, Opened, unreadable};
use crate::binary::delta::{Delta, Side, delta};
use crate::binary::fingerprints::Table;
use crate::report::{Problem, Report, Rows};

/// The answer of `binary diff`.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Data {
    /// The first.
    pub a: Program,
    /// The second.
    pub b: Program,
    /// What came and what went.
    #[serde(flatten)]
    pub delta: Delta,
}

impl Rows for Data {
    type Row = Data;
    const FIELD: Option<&'static str> = None;

    fn split(self) -> (Option<Self>, Vec<Data>) {
        (None, vec![self])
    }
}

/// One of the two.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Program {
    /// The file.
    pub file: FileData,
    /// Id of the product.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub product: Option<String>,
    /// Id of the generation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub generation: Option<String>,
    /// The version that it carries.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version_string: Option<String>,
}

/// Compares.
///
/// # Errors
/// When one of them cannot be read.
pub fn examine(a: &Opened, b: &Opened) -> Result<Report<Data>, Problem> {
    fn side(opened: &Opened) -> Result<Side<'_>, Problem> {
        Side::read(&opened.program, Table::in_force()).map_err(|error| unreadable(&opened.label, &error))
    }
    let (old, new) = (side(a)?, side(b)?);
    let program = |opened: &Opened, side: &Side| Program {
        file: opened.data(),
        product: side.identified.product.clone(),
        generation: side.identified.generation.clone(),
        version_string: side.identified.version_string.clone(),
    };
    let data = Data { a: program(a, &old), b: program(b, &new), delta: delta(&old, &new).map_err(|error| unreadable(&a.label, &error))? };
    let mut report = Report::new("binary-diff", data);
    report.differs = !report.data.delta.is_empty();
    for what in &report.data.delta.not_compared {
        report.undetermined = true;
        report.notes.push(format!("not compared: {what}"));
    }
    a.finish(&mut report);
    b.finish(&mut report);
    Ok(report)
}
