//! `db audit --binaries`: the programs here, and what they lack of one store.

use super::Store;
use super::audit::Data;
use crate::diagnose::binaries::older;
use crate::host::{Fact, Host};
use crate::report::Report;

/// Adds the programs that are found here, and the findings on those that are older than the store.
///
/// # Errors
/// When the processes of the machine cannot be listed.
pub fn add(host: &Host, store: &Store, report: &mut Report<Data>) -> Fact<()> {
    let examined = older::examine_for(host, store)?;
    report.data.binaries = Some(examined.data.binaries);
    report.findings.extend(examined.findings);
    report.notes.extend(examined.notes);
    report.undetermined |= examined.undetermined;
    Ok(())
}
