//! The REST operations that a JavaScript bundle registers: id, method, path, and where.
//!
//! Forms, all minified; the names of callees and constants change from build to build:
//! - `d.get("session.list","/api/session",…)`: the preview (next-16350), 1.18.34;
//! - the same with a path of constants: `` `${root}/current` ``, `root`, `Paths.health`, `root+"/current"` (both);
//! - `ao("session.list","/api/session",…)`: 2.0.16, as published; the method is that of `ao=make("GET")`, where that is found.
//!
//! A call with an id and a path alone may be anything: what makes it a registration is in `ops/shape.rs`. One that stands there
//! twice is one operation.
//!
//! The name of the operation in the host's contract stands in an annotation behind the call, where it is another one.

mod budget;
mod constants;
pub mod contract;
mod expression;
mod shape;

use std::collections::HashSet;
use std::io;
use std::ops::Range;

use aho_corasick::packed::{Config, Searcher};
use rayon::prelude::*;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::read::ReadAt;
use super::regions::Regions;
use budget::Budget;
use expression::Source;
use shape::Shape;

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

/// What a bundle registers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Operations {
    /// In the order of the file.
    pub found: Vec<Operation>,
    /// Registrations whose path could not be made out: where, and by which id.
    pub unresolved: Vec<(u64, String)>,
    /// Understanding all of it would have taken too long: there may be more, and what is unresolved may have a path.
    pub given_up: bool,
}

/// Methods, as a call names them.
const VERBS: [(&str, &str); 8] = [
    (".get(", "GET"),
    (".post(", "POST"),
    (".put(", "PUT"),
    (".patch(", "PATCH"),
    (".delete(", "DELETE"),
    (".del(", "DELETE"),
    (".head(", "HEAD"),
    (".options(", "OPTIONS"),
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
    let mut all = Operations::default();
    for part in looked {
        let part = part?;
        all.found.extend(part.found);
        all.unresolved.extend(part.unresolved);
    }
    all.found.sort_by_key(|operation| operation.offset);
    // Where parts overlap.
    all.found.dedup_by_key(|operation| operation.offset);
    all.given_up = budget.is_spent();
    let mut seen = HashSet::new();
    all.found.retain(|one| seen.insert((one.id.clone(), one.method.clone(), one.path.clone())));
    all.unresolved.sort_unstable();
    all.unresolved.dedup();
    all.unresolved.retain(|(at, _)| all.found.binary_search_by_key(at, |operation| operation.offset).is_err());
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
    let (mut calls, mut registers) = (Vec::new(), HashSet::new());
    for found in finder.find_iter(text) {
        let (_, method) = VERBS[found.pattern().as_usize()];
        let Some(callee) = source.word_before(found.start()) else { continue };
        // `this.get("name", fallback)` is a map of its own.
        if callee.text == b"this" {
            continue;
        }
        let Some(call) = source.registration(found.end()) else { continue };
        let shape = source.shape(&callee, found.end() - 1, call.end);
        if matches!(shape, Shape::Not | Shape::Plain) {
            continue;
        }
        let path = source.path(&call.path, callee.at);
        if shape == Shape::Registers && path.is_some() {
            registers.insert(callee.text);
        }
        calls.push((shape, callee, found.end() - 1, method, call.id, path));
    }
    let mut all = Operations::default();
    for (shape, callee, open, method, id, path) in calls {
        // A call that does not tell, or has no path, is a registration only where the same receiver makes others.
        if !registers.contains(callee.text) || (shape == Shape::Perhaps && path.is_none()) {
            continue;
        }
        let offset = base + callee.at as u64;
        match path {
            Some(path) => {
                let identifier = source.identifier(open).filter(|name| *name != id);
                all.found.push(Operation { id, identifier, method: Some(method.to_owned()), path, offset });
            }
            None => all.unresolved.push((offset, id)),
        }
    }
    for bare in source.bare_calls() {
        let callee = expression::Word { at: bare.at, text: bare.callee };
        let shape = source.shape(&callee, bare.open, bare.end);
        if shape == Shape::Not {
            continue;
        }
        let method = source.maker(bare.callee, bare.at).map(str::to_owned);
        // A function that was made for a method registers whatever it is called with.
        if shape != Shape::Registers && method.is_none() {
            continue;
        }
        let identifier = source.identifier(bare.open).filter(|name| *name != bare.id);
        all.found.push(Operation { id: bare.id, identifier, method, path: bare.path, offset: base + bare.at as u64 });
    }
    all
}

#[cfg(test)]
mod tests;
