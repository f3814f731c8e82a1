//! Which of a daemon's variables its tools get.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::host::Environ;

/// A daemon's block as its tools get it, and what became of the rest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HandedOn {
    /// What surely reaches them.
    pub environ: Environ,
    /// Names of variables that are set in the daemon and do not reach them, each with what drops it, as a sentence
    /// names it: `ZeroClaw's safe list`.
    pub dropped: BTreeMap<String, String>,
    /// Names of which that is not known, each with why.
    pub unknown: BTreeMap<String, String>,
    /// Why a file that decides could not be read.
    pub unread: Option<Unread>,
}

/// A file that decides and could not be read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unread {
    /// The file, or what names it.
    pub source: String,
    /// Why.
    pub reason: String,
}
