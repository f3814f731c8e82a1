//! The machine of `doctor --demo`: a scrubbed snapshot of a run of ours, read by the same reader as any other.

use crate::host::snapshot::{Captured, SnapshotError};

include!(concat!(env!("OUT_DIR"), "/demo.rs"));

/// Opens it.
pub fn machine() -> Result<Captured, SnapshotError> {
    Captured::embedded(FILES)
}
