//! Whether a call is a registration: by its options, by the calls that it is chained to, and by standing in code.
//!
//! What has an id and a path alone may be anything: `params.get("next","/home")`, `log("event.name","/some/path")`. So may what
//! has options that others have too: `cookies.get("sid","/app",{path:"/"})`.

use super::expression::{Source, Word};

/// What a call says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// It registers: options that only registrations have, or calls that only registrations are chained to.
    Registers,
    /// It does if others of the same receiver do: it has options that others have too.
    Perhaps,
    /// It has an id and a path alone.
    Plain,
    /// It does not: no code stands there, or an object is made.
    Not,
}

/// What the third argument has.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Options {
    /// Nothing known.
    None,
    /// Some that others have too.
    Known,
    /// The one that only registrations have.
    Answer,
}

/// What an operation answers with (Effect's `HttpApiEndpoint`, as in next-16350 and 1.18.34): a schema, so no plain value.
const ANSWER: &[u8] = b"success";
/// Other options of an operation, which other calls have too.
const OPTIONS: [&[u8]; 9] = [b"params", b"path", b"urlParams", b"query", b"headers", b"payload", b"error", b"errors", b"disableCodecs"];
/// What is called on an operation; `add` and `set` with more behind, as in `addSuccess` and `setPayload`.
const CHAINED: [&[u8]; 2] = [b"annotate", b"middleware"];
const CHANGED: [&[u8]; 2] = [b"add", b"set"];
/// How far a comment or a literal is looked for.
const NEAR: usize = 64 << 10;

fn opens(byte: Option<u8>) -> bool {
    byte.is_none_or(|byte| b"=(,:[!&|?{};+>\n".contains(&byte))
}

fn closes(byte: Option<u8>) -> bool {
    byte.is_none_or(|byte| b";,)]}+:?.\n".contains(&byte))
}

impl Source<'_> {
    /// The shape of the call of `callee` whose parenthesis is at `open` and whose second argument ends at `end`.
    pub(super) fn shape(&self, callee: &Word<'_>, open: usize, end: usize) -> Shape {
        let third = (self.byte(end) == Some(b',')).then(|| self.skip_spaces(end + 1));
        let options = third.map_or(Options::None, |third| self.options(third));
        let in_a_group = self.text[..callee.at].ends_with(b".add(");
        let shape = match options {
            Options::Answer => Shape::Registers,
            _ if self.is_chained(open) => Shape::Registers,
            Options::Known => Shape::Perhaps,
            Options::None if in_a_group => Shape::Perhaps,
            Options::None => return Shape::Plain,
        };
        let none = self.text[..callee.at].ends_with(b"new ") || self.is_inert(callee.at, end);
        if none { Shape::Not } else { shape }
    }

    /// What the object at `at` has: `{}` and `{...others}` may have anything.
    fn options(&self, at: usize) -> Options {
        if self.byte(at) != Some(b'{') {
            return Options::None;
        }
        let mut key = self.skip_spaces(at + 1);
        let mut found = if self.byte(key) == Some(b'}') { Options::Known } else { Options::None };
        for _ in 0..32 {
            match self.word_at(key) {
                Some(word) if word.text == ANSWER => {
                    let colon = self.skip_spaces(key + word.text.len());
                    let value = self.skip_spaces(colon + 1);
                    let shorthand = matches!(self.byte(colon), Some(b',' | b'}'));
                    let plain: [&[u8]; 4] = [b"true", b"false", b"null", b"undefined"];
                    let schema = self.word_at(value).is_some_and(|word| !plain.contains(&word.text)) || self.byte(value) == Some(b'[');
                    if shorthand || self.byte(colon) == Some(b':') && schema {
                        return Options::Answer;
                    }
                }
                Some(word) if OPTIONS.contains(&word.text) => found = Options::Known,
                None if self.byte(key) == Some(b'.') => found = Options::Known,
                _ => {}
            }
            match self.argument_end(key) {
                Some(end) if self.byte(end) == Some(b',') => key = self.skip_spaces(end + 1),
                _ => break,
            }
        }
        found
    }

    fn is_chained(&self, open: usize) -> bool {
        let Some(dot) = self.closed(open).map(|end| self.skip_spaces(end)).filter(|end| self.byte(*end) == Some(b'.')) else {
            return false;
        };
        let Some(word) = self.word_at(dot + 1) else { return false };
        let changed = |name: &&[u8]| word.text.strip_prefix(*name).and_then(<[u8]>::first).is_some_and(u8::is_ascii_uppercase);
        CHAINED.iter().any(|name| word.text.starts_with(name)) || CHANGED.iter().any(changed)
    }

    /// What stands there is no code: a comment, or a part of a string.
    fn is_inert(&self, start: usize, end: usize) -> bool {
        let from = start.saturating_sub(NEAR);
        let before = &self.text[from..start];
        let line = memchr::memrchr(b'\n', before).map_or(0, |at| at + 1);
        self.budget.spend(64)
            && (self.is_commented(from, start, from + line) || b"\"'`".iter().any(|quote| self.is_quoted(*quote, from, start, end)))
    }

    fn is_commented(&self, from: usize, start: usize, line: usize) -> bool {
        // Something that may stand before a comment, not the end of a string.
        let free =
            |at: usize| at == 0 || matches!(self.text[at - 1], b' ' | b'\t' | b'\n' | b'\r' | b';' | b'{' | b'}' | b',' | b')' | b'(');
        let closing = |at: usize| matches!(self.byte(at), Some(b'"' | b'\'' | b'`'));
        if memchr::memmem::find_iter(&self.text[line..start], b"//").any(|at| free(line + at) && !self.is_in_string(line, line + at)) {
            return true;
        }
        let Some(open) = memchr::memmem::rfind(&self.text[from..start], b"/*").map(|at| from + at) else { return false };
        free(open)
            && !closing(open + 2)
            && memchr::memmem::find(&self.text[open + 2..start], b"*/").is_none()
            && memchr::memmem::find(&self.text[start..self.text.len().min(start + NEAR)], b"*/").is_some()
    }

    /// Whether a string that begins in this line is open at `at`.
    fn is_in_string(&self, line: usize, at: usize) -> bool {
        if !self.budget.spend(at - line) {
            return true;
        }
        let (mut here, mut open) = (line, None);
        while here < at {
            match (self.text[here], open) {
                (b'\\', _) => here += 1,
                (byte, Some(quote)) if byte == quote => open = None,
                (byte @ (b'"' | b'\'' | b'`'), None) => open = Some(byte),
                _ => {}
            }
            here += 1;
        }
        open.is_some()
    }

    /// Whether the nearest two of these quotes are the ends of a string around the place, rather than of two beside it.
    fn is_quoted(&self, quote: u8, from: usize, start: usize, end: usize) -> bool {
        let unescaped = |at: &usize| self.text[*at] != b'\n' && (*at == 0 || self.text[at - 1] != b'\\');
        let stop = if quote == b'`' { quote } else { b'\n' };
        // The call's own quotes: a string around it has others.
        if self.text[start..end].contains(&quote) {
            return false;
        }
        let Some(open) = memchr::memrchr2(quote, stop, &self.text[from..start]).map(|at| from + at).filter(unescaped) else { return false };
        let limit = self.text.len().min(end + NEAR);
        let Some(close) = memchr::memchr2(quote, stop, &self.text[end..limit]).map(|at| end + at).filter(unescaped) else { return false };
        let behind = |at: usize| self.byte(self.skip_spaces(at + 1));
        let before = |at: usize| self.text[at.saturating_sub(8)..at].iter().rev().copied().find(|byte| *byte != b' ');
        opens(before(open)) && closes(behind(close)) && !(closes(behind(open)) && opens(before(close)))
    }
}
