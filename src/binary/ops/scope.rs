//! Whether a name that is used is a function's own: its parameter, whose value nobody knows.

use super::expression::{Source, is_word};

/// Longest string in quotes that is stepped over.
pub(super) const QUOTED: usize = 512;
/// How long a list of parameters may be.
const LIST: usize = 4096;

impl Source<'_> {
    /// Between `start` and the use at `end` a function begins that the use is in, with a parameter of this name; also where this
    /// is not made out.
    pub(super) fn is_parameter(&self, name: &[u8], start: usize, end: usize) -> bool {
        if !self.budget.spend(end - start) {
            return true;
        }
        // How many brackets that are closed before the use are open here, and whether the use is in another expression of the
        // same bracket.
        let (mut depth, mut apart, mut at) = (0usize, false, end);
        while at > start {
            at -= 1;
            match self.text[at] {
                b')' | b']' | b'}' => depth += 1,
                b'(' | b'[' | b'{' if depth > 0 => depth -= 1,
                b'{' => {
                    if self.takes(name, at) {
                        return true;
                    }
                    apart = false;
                }
                b'(' | b'[' => apart = false,
                b',' | b';' if depth == 0 => apart = true,
                b'>' if depth == 0 && !apart && at > 0 && self.text[at - 1] == b'=' && self.lists(name, at - 1) => return true,
                b'"' | b'\'' => at = self.string_before(start, at),
                _ => {}
            }
        }
        false
    }

    /// Where the string opens whose closing quotation mark stands at `at`; `at` itself where none does behind `start`.
    pub(super) fn string_before(&self, start: usize, at: usize) -> usize {
        let (quote, from) = (self.text[at], start.max(at.saturating_sub(QUOTED)));
        match memchr::memrchr2(quote, b'\n', &self.text[from..at]) {
            Some(found) if self.text[from + found] == quote => from + found,
            _ => at,
        }
    }

    /// The block that opens at `brace` is a function's with this parameter, or a loop's with this variable.
    fn takes(&self, name: &[u8], brace: usize) -> bool {
        let end = self.spaces_before(brace);
        if self.text[..end].ends_with(b"=>") {
            return self.lists(name, end - 2);
        }
        let Some(list) = self.list_before(end) else { return false };
        let word = self.word_before(self.spaces_before(list.start)).map(|word| word.text);
        !matches!(word, Some(b"if" | b"while" | b"switch" | b"with")) && self.has_word(name, list)
    }

    /// The parameters before `=>` have this one.
    fn lists(&self, name: &[u8], arrow: usize) -> bool {
        let end = self.spaces_before(arrow);
        match self.list_before(end) {
            Some(list) => self.has_word(name, list),
            None => self.word_before(end).is_some_and(|word| word.text == name),
        }
    }

    /// What stands in the parentheses that close before `end`, with them.
    fn list_before(&self, end: usize) -> Option<std::ops::Range<usize>> {
        if self.text[..end].last() != Some(&b')') {
            return None;
        }
        let mut depth = 0usize;
        for at in (end.saturating_sub(LIST)..end).rev() {
            match self.text[at] {
                b')' => depth += 1,
                b'(' => {
                    depth -= 1;
                    if depth == 0 {
                        return Some(at..end);
                    }
                }
                _ => {}
            }
        }
        None
    }

    fn has_word(&self, name: &[u8], range: std::ops::Range<usize>) -> bool {
        let list = &self.text[range];
        memchr::memmem::find_iter(list, name).any(|at| !is_word(list[at.saturating_sub(1)]) && !is_word(list[at + name.len()]))
    }

    pub(super) fn spaces_before(&self, end: usize) -> usize {
        end - self.text[..end].iter().rev().take_while(|byte| byte.is_ascii_whitespace()).count()
    }
}
