//! As much of JavaScript as a path is made of: strings, templates, names of constants, members of constant objects, and sums
//! of these. Nothing is run, and what is not of this form is no path.

use std::borrow::Cow;

use super::budget::Budget;

/// How deep constants may be made of constants.
pub(super) const DEPTH: usize = 8;
/// Longest string that is read.
const STRING: usize = 512;
/// How far behind a call its annotations may end.
const CHAIN: usize = 64 << 10;

/// A text of JavaScript.
pub(super) struct Source<'t> {
    pub text: &'t [u8],
    pub budget: &'t Budget,
}

/// A word, and where it starts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Word<'t> {
    pub at: usize,
    pub text: &'t [u8],
}

/// The first two arguments of a registration.
#[derive(Debug)]
pub(super) struct Call<'t> {
    pub id: String,
    /// None where it is made of more than is read here.
    pub path: Option<Expression<'t>>,
    /// What ends its second argument: a comma or the closing parenthesis.
    pub end: usize,
}

/// A sum of parts.
pub(super) type Expression<'t> = Vec<Part<'t>>;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Part<'t> {
    Text(String),
    Name(&'t [u8]),
    Member(&'t [u8], &'t [u8]),
}

pub(super) fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'$'
}

/// What may be an id: one word, whatever it is made of.
fn is_id(text: &str) -> bool {
    !text.is_empty() && !text.starts_with('/') && text.len() <= 128 && text.chars().all(|char| !char.is_whitespace() && !char.is_control())
}

pub(super) fn is_path(text: &str) -> bool {
    text.starts_with('/') && text.chars().all(|char| !char.is_whitespace() && !char.is_control())
}

impl<'t> Source<'t> {
    pub(super) fn new(text: &'t [u8], budget: &'t Budget) -> Source<'t> {
        Source { text, budget }
    }

    /// The word that ends before `end`.
    pub(super) fn word_before(&self, end: usize) -> Option<Word<'t>> {
        let length = self.text[..end].iter().rev().take(128).take_while(|byte| is_word(**byte)).count();
        (length > 0).then(|| Word { at: end - length, text: &self.text[end - length..end] })
    }

    /// The word that starts at `at`.
    pub(super) fn word_at(&self, at: usize) -> Option<Word<'t>> {
        let rest = self.text.get(at..)?;
        let length = rest.iter().take(128).take_while(|byte| is_word(**byte)).count();
        (length > 0 && !rest[0].is_ascii_digit()).then(|| Word { at, text: &rest[..length] })
    }

    pub(super) fn skip_spaces(&self, mut at: usize) -> usize {
        while self.text.get(at).is_some_and(u8::is_ascii_whitespace) {
            at += 1;
        }
        at
    }

    pub(super) fn byte(&self, at: usize) -> Option<u8> {
        self.text.get(at).copied()
    }

    /// `"id",path` and what ends an argument, behind an opening parenthesis.
    pub(super) fn registration(&self, at: usize) -> Option<Call<'t>> {
        let first = self.skip_spaces(at);
        let (id, after) = self.string(first).or_else(|| self.plain_template(first))?;
        let comma = self.skip_spaces(after);
        if self.byte(comma) != Some(b',') || !is_id(&id) {
            return None;
        }
        let second = self.skip_spaces(comma + 1);
        // A function or an object is no path, and may be long.
        if matches!(self.byte(second), Some(b'{' | b'[' | b')')) {
            return None;
        }
        let read = self.expression(second).map(|(path, end)| (path, self.skip_spaces(end)));
        let (path, end) = match read.filter(|(_, end)| matches!(self.byte(*end), Some(b',' | b')'))) {
            Some((path, end)) => (Some(path), end),
            None => (None, self.argument_end(second)?),
        };
        Some(Call { id: id.into_owned(), path, end })
    }

    /// A string in quotes; and where it ends.
    pub(super) fn string(&self, at: usize) -> Option<(Cow<'t, str>, usize)> {
        let quote = self.byte(at).filter(|byte| matches!(byte, b'"' | b'\''))?;
        let rest = self.text.get(at + 1..self.text.len().min(at + 1 + STRING))?;
        let end = memchr::memchr3(quote, b'\\', b'\n', rest)?;
        if rest[end] == quote {
            return Some((std::str::from_utf8(&rest[..end]).ok()?.into(), at + end + 2));
        }
        self.escaped(quote, rest).map(|(text, end)| (text.into(), at + end + 2))
    }

    /// A string with escapes, behind its quote; and where the other one is.
    fn escaped(&self, quote: u8, rest: &[u8]) -> Option<(String, usize)> {
        let (mut text, mut at) = (Vec::new(), 0);
        loop {
            match *rest.get(at)? {
                byte if byte == quote => return Some((String::from_utf8(text).ok()?, at)),
                b'\n' => return None,
                b'\\' => {
                    let digits = |from: usize, count: usize| {
                        let digits = std::str::from_utf8(rest.get(from..from + count)?).ok()?;
                        char::from_u32(u32::from_str_radix(digits, 16).ok()?)
                    };
                    let (char, length) = match *rest.get(at + 1)? {
                        b'x' => (digits(at + 2, 2)?, 4),
                        b'u' if rest.get(at + 2) == Some(&b'{') => return None,
                        b'u' => (digits(at + 2, 4)?, 6),
                        b'n' => ('\n', 2),
                        b'r' => ('\r', 2),
                        b't' => ('\t', 2),
                        b'0'..=b'9' | b'b' | b'f' | b'v' | b'\n' | b'\r' => return None,
                        byte if byte.is_ascii() => (char::from(byte), 2),
                        _ => return None,
                    };
                    text.extend_from_slice(char.encode_utf8(&mut [0; 4]).as_bytes());
                    at += length;
                }
                byte => {
                    text.push(byte);
                    at += 1;
                }
            }
        }
    }

    /// A template without anything put in; and where it ends.
    pub(super) fn plain_template(&self, at: usize) -> Option<(Cow<'t, str>, usize)> {
        (self.byte(at)? == b'`').then(|| self.template(at)).flatten().and_then(|(parts, end)| match <[Part<'_>; 1]>::try_from(parts) {
            Ok([Part::Text(text)]) => Some((text.into(), end)),
            _ => None,
        })
    }

    /// A sum; and where it ends.
    fn expression(&self, at: usize) -> Option<(Expression<'t>, usize)> {
        let (mut parts, mut end) = self.term(at)?;
        loop {
            let plus = self.skip_spaces(end);
            if self.byte(plus) != Some(b'+') || self.byte(plus + 1) == Some(b'+') || parts.len() > 32 {
                return Some((parts, end));
            }
            let (more, after) = self.term(self.skip_spaces(plus + 1))?;
            parts.extend(more);
            end = after;
        }
    }

    fn term(&self, at: usize) -> Option<(Expression<'t>, usize)> {
        let (mut parts, mut end) = self.part(at, DEPTH)?;
        // "/a".concat("/b")
        while self.text[end..].starts_with(b".concat(") {
            let (more, after) = self.part(self.skip_spaces(end + 8), DEPTH)?;
            let close = self.skip_spaces(after);
            if self.byte(close) != Some(b')') || parts.len() > 32 {
                return None;
            }
            parts.extend(more);
            end = close + 1;
        }
        Some((parts, end))
    }

    fn part(&self, at: usize, depth: usize) -> Option<(Expression<'t>, usize)> {
        match self.byte(at)? {
            b'(' => {
                let (parts, end) = self.part(self.skip_spaces(at + 1), depth.checked_sub(1)?)?;
                let close = self.skip_spaces(end);
                (self.byte(close) == Some(b')')).then_some((parts, close + 1))
            }
            b'"' | b'\'' => self.string(at).map(|(text, end)| (vec![Part::Text(text.into_owned())], end)),
            b'`' => self.template(at),
            _ => self.name(at).map(|(part, end)| (vec![part], end)),
        }
    }

    /// `name` or `name.member`.
    fn name(&self, at: usize) -> Option<(Part<'t>, usize)> {
        let word = self.word_at(at)?;
        let end = at + word.text.len();
        if self.byte(end) != Some(b'.') {
            return Some((Part::Name(word.text), end));
        }
        let member = self.word_at(end + 1)?;
        Some((Part::Member(word.text, member.text), end + 1 + member.text.len()))
    }

    fn template(&self, at: usize) -> Option<(Expression<'t>, usize)> {
        let (mut parts, mut from) = (Vec::new(), at + 1);
        let limit = self.text.len().min(at + STRING);
        loop {
            let rest = self.text.get(from..limit)?;
            let end = memchr::memchr3(b'`', b'$', b'\\', rest)?;
            parts.push(Part::Text(std::str::from_utf8(&rest[..end]).ok()?.to_owned()));
            match rest[end] {
                b'`' => return Some((parts, from + end + 1)),
                b'$' if rest.get(end + 1) == Some(&b'{') => {
                    let (part, after) = self.name(self.skip_spaces(from + end + 2))?;
                    let close = self.skip_spaces(after);
                    if self.byte(close) != Some(b'}') || parts.len() > 32 {
                        return None;
                    }
                    parts.push(part);
                    from = close + 1;
                }
                _ => return None,
            }
        }
    }

    /// The path that an expression used at `at` makes, if it makes one.
    pub(super) fn path(&self, expression: &[Part<'t>], at: usize) -> Option<String> {
        self.value(expression, at, DEPTH).filter(|path| is_path(path))
    }

    pub(super) fn value(&self, expression: &[Part<'t>], at: usize, depth: usize) -> Option<String> {
        let depth = depth.checked_sub(1)?;
        let mut whole = String::new();
        for part in expression {
            match part {
                Part::Text(text) => whole.push_str(text),
                Part::Name(name) => whole.push_str(&self.constant(name, at, depth, |source, place| {
                    let (expression, end) = source.expression(place)?;
                    source.ends(end).then(|| source.value(&expression, place, depth)).flatten()
                })?),
                Part::Member(name, member) => whole.push_str(&self.constant(name, at, depth, |source, place| {
                    let (expression, place) = source.member(place, member)?;
                    source.value(&expression, place, depth)
                })?),
            }
            if whole.len() > STRING {
                return None;
            }
        }
        Some(whole)
    }

    /// What follows a constant's value.
    pub(super) fn ends(&self, at: usize) -> bool {
        matches!(self.byte(at), None | Some(b',' | b';' | b'\n' | b'\r' | b'}' | b')'))
    }

    /// The value of a member of the object that starts at `at`.
    pub(super) fn member(&self, at: usize, member: &[u8]) -> Option<(Expression<'t>, usize)> {
        let mut at = match self.byte(at)? {
            b'{' => at + 1,
            // Object.freeze({…})
            _ => memchr::memmem::find(self.text.get(at..self.text.len().min(at + 32))?, b"freeze({").map(|found| at + found + 8)?,
        };
        let limit = self.text.len().min(at + CHAIN);
        while at < limit {
            at = self.skip_spaces(at);
            let (key, end) = match self.string(at) {
                Some((key, end)) => (key.into_owned().into_bytes(), end),
                None => {
                    let word = self.word_at(at)?;
                    (word.text.to_vec(), at + word.text.len())
                }
            };
            let colon = self.skip_spaces(end);
            if self.byte(colon) == Some(b':') {
                let value = self.skip_spaces(colon + 1);
                if key == member {
                    return self.expression(value).map(|(expression, _)| (expression, value));
                }
                at = self.argument_end(value)?;
            } else {
                at = self.argument_end(end)?;
            }
            if self.byte(at) != Some(b',') {
                return None;
            }
            at += 1;
        }
        None
    }

    /// Where an argument or a member's value ends: at the comma or the bracket that closes what it stands in.
    pub(super) fn argument_end(&self, at: usize) -> Option<usize> {
        let end = self.closing(at);
        let walked = end.unwrap_or(self.text.len()).min(at + CHAIN).saturating_sub(at);
        end.filter(|_| self.budget.spend(walked))
    }

    fn closing(&self, mut at: usize) -> Option<usize> {
        if self.budget.is_spent() {
            return None;
        }
        let limit = self.text.len().min(at + CHAIN);
        let mut depth = 0usize;
        while at < limit {
            match self.text[at] {
                b',' if depth == 0 => return Some(at),
                b')' | b']' | b'}' if depth == 0 => return Some(at),
                b'(' | b'[' | b'{' => depth += 1,
                b')' | b']' | b'}' => depth -= 1,
                quote @ (b'"' | b'\'' | b'`') => {
                    at += 1;
                    while at < limit && self.text[at] != quote {
                        at += if self.text[at] == b'\\' { 2 } else { 1 };
                    }
                }
                _ => {}
            }
            at += 1;
        }
        None
    }

    /// Behind the bracket that closes the one at `open`.
    pub(super) fn closed(&self, open: usize) -> Option<usize> {
        let mut at = open + 1;
        loop {
            at = self.argument_end(at)?;
            if self.byte(at) != Some(b',') {
                return Some(at + 1);
            }
            at += 1;
        }
    }

    /// The name in the contract that is annotated to the call whose parenthesis is at `open`:
    /// `….annotateMerge(S.annotations({identifier:"v2.session.list",…}))`.
    pub(super) fn identifier(&self, open: usize) -> Option<String> {
        const ANNOTATIONS: &[u8] = b"annotations({";
        const IDENTIFIER: &[u8] = b"identifier:";
        let mut at = self.closed(open)?;
        for _ in 0..16 {
            if self.byte(at) != Some(b'.') {
                return None;
            }
            let word = self.word_at(at + 1)?;
            let open = at + 1 + word.text.len();
            if self.byte(open) != Some(b'(') {
                return None;
            }
            let end = self.closed(open)?;
            let inside = &self.text[open..end];
            if let Some(found) = memchr::memmem::find(&inside[..inside.len().min(64)], ANNOTATIONS) {
                let members = open + found + ANNOTATIONS.len();
                let near = &self.text[members..end.min(members + 4096)];
                if let Some(found) = memchr::memmem::find(near, IDENTIFIER) {
                    return self.string(members + found + IDENTIFIER.len()).map(|(text, _)| text.into_owned());
                }
            }
            at = end;
        }
        None
    }
}
