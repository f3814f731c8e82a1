//! The REST operations that a JavaScript bundle registers: id, method, path, and where.
//!
//! Forms, all minified; the names of callees and constants change from build to build:
//! - `d.get("session.list","/api/session",…)`: the preview (next-16350), 1.18.34;
//! - the same with a path of constants: `` `${root}/current` ``, `root`, `Paths.health`, `root+"/current"` (both);
//! - `ao("session.list","/api/session",…)`: 2.0.16, as published; the method is that of `ao=make("GET")`, where that is found;
//! - `.get("/status",describeRoute({operationId:"session.status",…}),…)` in a chain that is mounted at `/session`: 1.2.1, 1.2.27
//!   and 1.3.2, see `ops/routes.rs`.
//!
//! A call with an id and a path alone may be anything: what makes it a registration is in `ops/shape.rs`. One that stands there
//! twice is one operation.
//!
//! The name of the operation in the host's contract stands in an annotation behind the call, where it is another one.

mod budget;
mod calls;
mod constants;
pub mod contract;
mod expression;
mod routes;
mod scope;
mod shape;

use std::collections::HashSet;
use std::io;
use std::ops::Range;

use aho_corasick::packed::{Config, Searcher};
use rayon::prelude::*;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::read::ReadAt;
use super::regions::{self, Regions};
use budget::Budget;
use expression::Source;

/// An operation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Operation {
    /// The id that it is registered by.
    pub id: String,
    /// Its id in the host's contract, where the code gives one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub identifier: Option<String>,
    /// `GET`, `POST`, …; absent where the code does not tell.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub method: Option<String>,
    /// The path, parameters as `:name`.
    pub path: String,
    /// Where in the file it is registered.
    pub offset: u64,
}

impl Operation {
    /// The id that its host's contract knows it by, as far as the code tells.
    pub fn name(&self) -> &str {
        self.identifier.as_ref().unwrap_or(&self.id)
    }
}

/// A registration whose path could not be made out.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
pub struct Unresolved {
    /// Where in the file it is registered.
    pub offset: u64,
    /// The id that it is registered by.
    pub id: String,
    /// `GET`, `POST`, …; absent where the code does not tell.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
    /// The end of its path, where only what stands before it is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
}

/// What a bundle registers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Operations {
    /// In the order of the file.
    pub found: Vec<Operation>,
    /// Registrations whose path could not be made out.
    pub unresolved: Vec<Unresolved>,
    /// Where the bundle's modules are is not known, and all of the file was read.
    pub lost: bool,
    /// Understanding all of it would have taken too long: there may be more, and what is unresolved may have a path.
    pub given_up: bool,
}

/// Methods, as a call names them.
const VERBS: [(&str, &str); 9] = [
    (".get(", "GET"),
    (".post(", "POST"),
    (".put(", "PUT"),
    (".patch(", "PATCH"),
    (".delete(", "DELETE"),
    (".del(", "DELETE"),
    (".head(", "HEAD"),
    (".options(", "OPTIONS"),
    (".trace(", "TRACE"),
];

/// A module of more than this is read in parts.
const PART: u64 = 24 << 20;
/// Parts overlap by so much.
const OVERLAP: u64 = 256 << 10;

/// The operations that the code of a program registers.
///
/// # Errors
/// What the system says.
pub fn operations(file: &dyn ReadAt) -> io::Result<Operations> {
    let code = Regions::code(file)?;
    let mut parts: Vec<Range<u64>> = code.parts().flat_map(cut).collect();
    parts.sort_by_key(|part| part.start);
    let (finder, budget) = (finder()?, Budget::new());
    // Few at a time: a part is in memory while it is searched.
    let looked: Vec<io::Result<Operations>> = parts
        .par_iter()
        .with_max_len(1)
        .map(|part| {
            let text = file.part(part.clone())?;
            Ok(extract(&text, part.start, &finder, &budget))
        })
        .collect();
    let mut all = Operations { lost: code.kind() == regions::Kind::Lost, ..Operations::default() };
    for part in looked {
        let part = part?;
        all.found.extend(part.found);
        all.unresolved.extend(part.unresolved);
    }
    all.found.sort_by_key(|operation| operation.offset);
    // Where parts overlap.
    all.found.dedup_by(|one, other| (one.offset, &one.path) == (other.offset, &other.path));
    all.given_up = budget.is_spent();
    // What the overlapping part made out, or another copy of the same code.
    let made_out: HashSet<(u64, &str)> = all.found.iter().map(|one| (one.offset, one.id.as_str())).collect();
    all.unresolved.retain(|one| !made_out.contains(&(one.offset, one.id.as_str())));
    let mut seen = HashSet::new();
    all.found.retain(|one| seen.insert((one.id.clone(), one.method.clone(), one.path.clone())));
    let mut seen = HashSet::new();
    all.unresolved.sort_unstable();
    all.unresolved.retain(|one| seen.insert((one.offset, one.id.clone())));
    Ok(all)
}

/// The operations in one text, whose first byte has this place.
pub fn of_text(text: &[u8], base: u64) -> Operations {
    finder().map(|finder| extract(text, base, &finder, &Budget::new())).unwrap_or_default()
}

fn cut(range: Range<u64>) -> impl Iterator<Item = Range<u64>> {
    let starts = (range.start..range.end).step_by((PART - OVERLAP) as usize);
    starts.map(move |start| start..range.end.min(start + PART))
}

fn finder() -> io::Result<Searcher> {
    let verbs = VERBS.iter().map(|(call, _)| call.as_bytes());
    Config::new().builder().extend(verbs).build().ok_or_else(|| io::Error::other("the search could not be made ready"))
}

fn extract(text: &[u8], base: u64, finder: &Searcher, budget: &Budget) -> Operations {
    let source = Source::new(text, budget);
    let (mut found, mut unresolved) = source.calls(base, finder);
    let routes = source.routes(base);
    found.extend(routes.0);
    unresolved.extend(routes.1);
    Operations { found, unresolved, ..Operations::default() }
}

#[cfg(test)]
mod tests;
