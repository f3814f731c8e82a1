//! What a name means where it is used: the assignment that reaches it, by the blocks that stand between.

use super::expression::{DEPTH, Source, is_word};
use super::scope::QUOTED;

/// The methods of HTTP.
pub(super) const METHODS: [&str; 8] = ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "TRACE"];

/// How far from its use a constant is looked for, on either side.
const NEAR: usize = 1 << 20;
/// How many assignments to one name are looked at.
const ASSIGNMENTS: usize = 64;
/// A search for a string takes so much less than a look at every byte.
const FASTER: usize = 8;
/// How far back the function is looked for whose parameter hides a constant that comes after it.
const FUNCTION: usize = 64 << 10;
/// How long a list of parameters may be.
const PARAMETERS: usize = 1024;

impl Source<'_> {
    /// The nearest assignment to `name` that reaches `at` and that `read` understands: before its use first, which is where
    /// minifiers put it. Assignments in blocks that are closed by then (a module that is made ready when it is first used) count
    /// where all of them say the same.
    pub(super) fn constant<T: PartialEq>(
        &self,
        name: &[u8],
        at: usize,
        depth: usize,
        read: impl Fn(&Self, usize) -> Option<T>,
    ) -> Option<T> {
        [&b"="[..], b" = "].into_iter().find_map(|sign| self.assigned(name, &[name, sign].concat(), at, depth, &read))
    }

    fn assigned<T: PartialEq>(
        &self,
        name: &[u8],
        needle: &[u8],
        at: usize,
        depth: usize,
        read: impl Fn(&Self, usize) -> Option<T>,
    ) -> Option<T> {
        let (start, end) = (at.saturating_sub(NEAR), self.text.len().min(at + NEAR));
        if !self.budget.spend((end - start) / FASTER + needle.len()) {
            return None;
        }
        let place = |found: usize| {
            let free = found.checked_sub(1).is_none_or(|before| !is_word(self.text[before]) && self.text[before] != b'.');
            let value = found + needle.len();
            let assigned = !matches!(self.byte(value), Some(b'=' | b'>'));
            (free && assigned).then(|| self.skip_spaces(value))
        };
        // The deeper, the fewer: constants are made of few others.
        let tries = ASSIGNMENTS >> (DEPTH - depth).min(5);
        let (mut closed, mut blocks, mut from) = (Vec::new(), 0, at);
        let before = memchr::memmem::FinderRev::new(needle);
        for found in before.rfind_iter(&self.text[start..at]).map(|found| start + found).take(tries) {
            blocks = self.blocks_before(found, from, blocks)?;
            from = found;
            match place(found) {
                Some(place) if blocks == 0 && self.is_default(place) => return None,
                Some(place) if blocks == 0 => {
                    if let Some(value) = read(self, place) {
                        return (!self.is_parameter(name, found, at)).then_some(value);
                    }
                }
                Some(place) if !self.is_declared(found) => closed.push(place),
                _ => {}
            }
        }
        (blocks, from) = (0, at);
        for found in memchr::memmem::find_iter(&self.text[at..end], needle).map(|found| at + found).take(tries) {
            blocks = self.blocks_behind(from, found, blocks)?;
            from = found;
            match place(found) {
                Some(place) if blocks == 0 && self.is_default(place) => {}
                Some(place) if blocks == 0 => {
                    if let Some(value) = read(self, place) {
                        return (!self.is_parameter(name, at.saturating_sub(FUNCTION), at)).then_some(value);
                    }
                }
                Some(place) if !self.is_declared(found) => closed.push(place),
                _ => {}
            }
        }
        if closed.is_empty() || self.is_parameter(name, at.saturating_sub(FUNCTION), at) {
            return None;
        }
        let mut values = closed.into_iter().filter_map(|place| read(self, place));
        let value = values.next()?;
        values.all(|other| other == value).then_some(value)
    }

    /// The value at `place` is the one that a parameter has where none is given.
    fn is_default(&self, place: usize) -> bool {
        let mut at = place;
        loop {
            match self.argument_end(at) {
                Some(end) if self.byte(end) == Some(b',') => at = end + 1,
                Some(end) if self.byte(end) == Some(b')') => {
                    let next = self.skip_spaces(end + 1);
                    return self.byte(next) == Some(b'{') || self.text[next..].starts_with(b"=>");
                }
                _ => return false,
            }
            // The list of parameters is short; what goes on is a list of variables.
            if at > place + PARAMETERS {
                return false;
            }
        }
    }

    /// The name is one of a block's own.
    fn is_declared(&self, at: usize) -> bool {
        [&b"var "[..], b"let ", b"const "].into_iter().any(|word| self.text[..at].ends_with(word))
    }

    /// How many blocks that are closed before `end` the place `start` stands in; `blocks` of them are known to be closed behind.
    fn blocks_before(&self, start: usize, end: usize, mut blocks: usize) -> Option<usize> {
        if !self.budget.spend(end - start) {
            return None;
        }
        let mut at = end;
        while at > start {
            at -= 1;
            match self.text[at] {
                b'}' => blocks += 1,
                b'{' => blocks = blocks.saturating_sub(1),
                b'"' | b'\'' => at = self.string_before(start, at),
                _ => {}
            }
        }
        Some(blocks)
    }

    /// How many blocks that are opened behind `start` the place `end` stands in.
    fn blocks_behind(&self, start: usize, end: usize, mut blocks: usize) -> Option<usize> {
        if !self.budget.spend(end - start) {
            return None;
        }
        let mut at = start;
        while at < end {
            match self.text[at] {
                b'{' => blocks += 1,
                b'}' => blocks = blocks.saturating_sub(1),
                quote @ (b'"' | b'\'') => {
                    let to = end.min(at + QUOTED);
                    match memchr::memchr2(quote, b'\n', &self.text[at + 1..to.max(at + 1)]) {
                        Some(found) if self.text[at + 1 + found] == quote => at += found + 1,
                        _ => {}
                    }
                }
                _ => {}
            }
            at += 1;
        }
        Some(blocks)
    }

    /// The method of a function that registers: `ao=make("GET")`, `ao=H.make("GET")`.
    pub(super) fn maker(&self, callee: &[u8], at: usize) -> Option<&'static str> {
        let found = self.constant(callee, at, DEPTH, |source, place| {
            let word = source.word_at(place)?;
            let mut open = place + word.text.len();
            while source.byte(open) == Some(b'.') {
                open += 1 + source.word_at(open + 1)?.text.len();
            }
            let (method, end) = (source.byte(open) == Some(b'(')).then(|| source.string(open + 1)).flatten()?;
            (source.byte(end) == Some(b')')).then(|| method.into_owned())
        })?;
        METHODS.into_iter().find(|method| *method == found)
    }
}
