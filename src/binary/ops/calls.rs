//! Calls that may be registrations: `d.get(…)`, `d?.get(…)`, `d["get"](…)`, `ao(…)`, `d.make("GET")(…)`.

use std::collections::HashMap;

use aho_corasick::packed::Searcher;

use super::constants::METHODS;
use super::expression::{Source, Word};
use super::shape::Shape;
use super::{Operation, Unresolved, VERBS};

/// As far from a call that surely registers, another one of the same receiver may: names are given anew in each module.
const BESIDE: usize = 256 << 10;

/// A call with an id and a second argument.
struct Candidate<'t> {
    callee: Word<'t>,
    /// Its opening parenthesis.
    open: usize,
    shape: Shape,
    method: Option<&'static str>,
    id: String,
    path: Option<String>,
}

impl<'t> Source<'t> {
    /// The registrations among the calls, and those whose path is not made out.
    pub(super) fn calls(&self, base: u64, finder: &Searcher) -> (Vec<Operation>, Vec<Unresolved>) {
        let (mut found, mut unresolved) = (Vec::new(), Vec::new());
        let mut candidates = self.by_verb(finder);
        candidates.extend(self.by_id());
        let mut sure: HashMap<&[u8], Vec<usize>> = HashMap::new();
        for one in candidates.iter().filter(|one| one.shape == Shape::Registers) {
            sure.entry(one.callee.text).or_default().push(one.callee.at);
        }
        let beside = |one: &Candidate<'_>| {
            sure.get(one.callee.text).is_some_and(|places| places.iter().any(|place| place.abs_diff(one.callee.at) < BESIDE))
        };
        for one in candidates {
            if one.shape != Shape::Registers && !beside(&one) {
                continue;
            }
            let offset = base + one.callee.at as u64;
            let method = one.method.map(str::to_owned);
            match one.path {
                Some(path) => {
                    let identifier = self.identifier(one.open).filter(|name| *name != one.id);
                    found.push(Operation { id: one.id, identifier, method, path, offset });
                }
                None => unresolved.push(Unresolved { id: one.id, method, path: None, offset }),
            }
        }
        (found, unresolved)
    }

    /// `d.get("id",…)`.
    fn by_verb(&self, finder: &Searcher) -> Vec<Candidate<'t>> {
        let calls = finder.find_iter(self.text).filter_map(|found| {
            let (_, method) = VERBS[found.pattern().as_usize()];
            let end = found.start();
            let end = if self.text[..end].ends_with(b"?") { end - 1 } else { end };
            self.candidate(self.word_before(end)?, found.end() - 1, Some(method))
        });
        calls.collect()
    }

    /// Calls of anything else with a string first.
    fn by_id(&self) -> Vec<Candidate<'t>> {
        let quotes = memchr::memchr3_iter(b'"', b'\'', b'`', self.text);
        quotes
            .filter_map(|quote| {
                self.text[..quote].iter().rev().position(|byte| !byte.is_ascii_whitespace()).and_then(|spaces| {
                    let open = quote - spaces - 1;
                    if self.text[open] != b'(' || open == 0 {
                        return None;
                    }
                    match self.text[open - 1] {
                        b')' => self.curried(open),
                        b']' => self.computed(open),
                        _ => self.bare(open),
                    }
                })
            })
            .collect()
    }

    /// `d["get"]("id",…)`, with the parenthesis at `open`.
    fn computed(&self, open: usize) -> Option<Candidate<'t>> {
        let before = &self.text[..open - 1];
        let quote = *before.last().filter(|byte| matches!(byte, b'"' | b'\''))?;
        let start = memchr::memrchr(quote, &before[before.len().saturating_sub(16)..before.len() - 1])?;
        let start = before.len().saturating_sub(16) + start;
        let verb = &before[start + 1..before.len() - 1];
        let (_, method) = VERBS.iter().find(|(call, _)| &call.as_bytes()[1..call.len() - 1] == verb)?;
        let bracket = start.checked_sub(1).filter(|at| self.text[*at] == b'[')?;
        let end = if self.text[..bracket].ends_with(b"?.") { bracket - 2 } else { bracket };
        self.candidate(self.word_before(end)?, open, Some(method))
    }

    /// `d.make("GET")("id",…)`, with the second parenthesis at `open`.
    fn curried(&self, open: usize) -> Option<Candidate<'t>> {
        let before = &self.text[..open];
        let method = METHODS.into_iter().find(|method| {
            [b'"', b'\''].iter().any(|quote| before.ends_with(&[b"(", &[*quote][..], method.as_bytes(), &[*quote], b")"].concat()))
        })?;
        let callee = self.word_before(open - method.len() - 4)?;
        self.candidate(callee, open, Some(method)).filter(|one| one.shape == Shape::Registers)
    }

    /// `ao("id",…)`, with the parenthesis at `open`. Without a method that the code tells, only what surely registers counts.
    fn bare(&self, open: usize) -> Option<Candidate<'t>> {
        let callee = self.word_before(open)?;
        let member = callee.at.checked_sub(1).is_some_and(|before| self.text[before] == b'.');
        if member || matches!(callee.text, b"if" | b"while" | b"for" | b"switch" | b"return" | b"typeof" | b"function" | b"require") {
            return None;
        }
        let one = self.candidate(callee, open, None)?;
        let method = self.maker(callee.text, callee.at);
        (method.is_some() || one.shape == Shape::Registers).then_some(Candidate { method, ..one })
    }

    fn candidate(&self, callee: Word<'t>, open: usize, method: Option<&'static str>) -> Option<Candidate<'t>> {
        // `this.get("name", fallback)` is a map of its own.
        if callee.text == b"this" {
            return None;
        }
        let call = self.registration(open + 1)?;
        let shape = self.shape(&callee, open, call.end);
        if matches!(shape, Shape::Not | Shape::Plain) {
            return None;
        }
        let path = call.path.as_ref().and_then(|path| self.path(path, callee.at));
        // What says nothing of itself and has no path is no registration.
        let shown = path.is_some() || shape == Shape::Registers;
        shown.then_some(Candidate { callee, open, shape, method, id: call.id, path })
    }
}
