//! The changes of a database schema that a program knows, by the names that it and the database give them.
//!
//! A name is the time at which the change was written and a word: `20260622202450_simplify_session_input`. OpenCode keeps the
//! names of those that were made in its table `migration`. Seen: 1.18.34 has 38 in its code and in the database that it makes,
//! next-16350 has 55.

use std::collections::BTreeSet;
use std::io;

use super::read::{ReadAt, pieces};

/// Longest name that is read.
const LONGEST: usize = 160;
const DIGITS: usize = 14;

/// The names in this code, in order of time.
///
/// # Errors
/// What the system says.
pub fn of(code: &dyn ReadAt) -> io::Result<Vec<String>> {
    let mut names = BTreeSet::new();
    pieces(code, 0..code.length(), LONGEST + 2, |piece| {
        names_in(piece, &mut names);
        false
    })?;
    Ok(names.into_iter().collect())
}

/// Adds the names that stand between quotes.
pub fn names_in(text: &[u8], names: &mut BTreeSet<String>) {
    for at in memchr::memmem::find_iter(text, b"20") {
        let Some(quote) = at.checked_sub(1).map(|before| text[before]).filter(|quote| matches!(quote, b'"' | b'\'' | b'`')) else {
            continue;
        };
        let rest = &text[at..text.len().min(at + LONGEST)];
        if rest.len() <= DIGITS || !rest[..DIGITS].iter().all(u8::is_ascii_digit) || rest[DIGITS] != b'_' {
            continue;
        }
        let length = rest.iter().take_while(|byte| byte.is_ascii_alphanumeric() || matches!(**byte, b'_' | b'-')).count();
        if rest.get(length) == Some(&quote)
            && length > DIGITS + 1
            && let Ok(name) = std::str::from_utf8(&rest[..length])
        {
            names.insert(name.to_owned());
        }
    }
}

/// Those of a database that a program does not know, in order of time.
pub fn lacking(known: &[String], made: &[String]) -> Vec<String> {
    let known: BTreeSet<&String> = known.iter().collect();
    made.iter().filter(|name| !known.contains(name)).collect::<BTreeSet<_>>().into_iter().cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stand_between_quotes() {
        let text = br#"{id:"20260716020354_kv",up(){}},{name:'20260706223930_add-session-fork'} 20260101000000_bare "20260101000000_cut"#;
        let mut names = BTreeSet::new();
        names_in(text, &mut names);
        assert_eq!(names.into_iter().collect::<Vec<_>>(), ["20260706223930_add-session-fork", "20260716020354_kv"]);
    }

    #[test]
    fn what_a_program_lacks_is_what_the_database_has_more() {
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        assert_eq!(lacking(&words(&["1_a", "2_b"]), &words(&["1_a", "3_c", "2_b"])), ["3_c"]);
        assert_eq!(lacking(&words(&["1_a", "2_b"]), &words(&["1_a"])), [""; 0]);
    }

    proptest::proptest! {
        #[test]
        fn no_text_panics(text in proptest::collection::vec(proptest::sample::select(&b"\"20_a'1"[..]), 0..80)) {
            names_in(&text, &mut BTreeSet::new());
        }
    }
}
