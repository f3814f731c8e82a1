//! The changes of a database schema that a program knows, by the names that it and the database give them.
//!
//! A name is the time at which the change was written and a word: `20260622202450_simplify_session_input`. OpenCode keeps the
//! names of those that were made in its table `migration`. Seen: 1.18.34 has 38 in its code and in the database that it makes,
//! next-16350 has 55.
//!
//! OpenCode 1.2.1 gives them no name: its code has `{sql:"…",timestamp:1769552633000}` (milliseconds), and the database that it
//! makes has that number alone. Here such a change is named by its time: `20260127222353`. Later releases have the same change
//! as `20260127222353_familiar_lady_ursula` (1.2.27, 1.14.48, 1.18.34), so that the time tells which it is.

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
        times_in(piece, &mut names);
        false
    })?;
    // A change that has a time and a name is one change.
    let named: BTreeSet<String> = names.iter().filter(|name| name.len() > DIGITS).map(|name| time(name).to_owned()).collect();
    names.retain(|name| name.len() > DIGITS || !named.contains(name));
    Ok(names.into_iter().collect())
}

/// When a change was written, as its name says.
fn time(name: &str) -> &str {
    name.get(..DIGITS).filter(|time| time.bytes().all(|byte| byte.is_ascii_digit())).unwrap_or(name)
}

/// The name of a change that has none, by the milliseconds since 1970 at which it was written: `20260127222353`.
pub fn named_by_time(milliseconds: i64) -> Option<String> {
    let name = jiff::Timestamp::from_millisecond(milliseconds).ok()?.strftime("%Y%m%d%H%M%S").to_string();
    (name.len() == DIGITS && name.starts_with("20")).then_some(name)
}

/// Adds the times in `"…",timestamp:1769552633000}`, with or without spaces, by name.
fn times_in(text: &[u8], names: &mut BTreeSet<String>) {
    const KEY: &[u8] = b"timestamp:";
    const MILLISECONDS: usize = 13;
    let skip = |mut at: usize| {
        while text.get(at).is_some_and(u8::is_ascii_whitespace) {
            at += 1;
        }
        at
    };
    for at in memchr::memmem::find_iter(text, KEY) {
        let mut before = text[..at].iter().rev().filter(|byte| !byte.is_ascii_whitespace());
        if before.next() != Some(&b',') || !before.next().is_some_and(|quote| matches!(quote, b'"' | b'\'' | b'`')) {
            continue;
        }
        let start = skip(at + KEY.len());
        let Some(digits) = text.get(start..start + MILLISECONDS).and_then(|digits| std::str::from_utf8(digits).ok()) else { continue };
        if matches!(text.get(skip(start + MILLISECONDS)), Some(b'}' | b','))
            && let Ok(milliseconds) = digits.parse()
        {
            names.extend(named_by_time(milliseconds));
        }
    }
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

/// Those of a database that a program does not know, in order of time. Where either has a time and no name, the time decides.
pub fn lacking(known: &[String], made: &[String]) -> Vec<String> {
    let names: BTreeSet<&str> = known.iter().map(String::as_str).collect();
    let times: BTreeSet<&str> = known.iter().map(|name| time(name)).collect();
    let has = |name: &str| match name.len() > DIGITS {
        true => names.contains(name) || names.contains(time(name)),
        false => times.contains(name),
    };
    made.iter().filter(|name| !has(name)).collect::<BTreeSet<_>>().into_iter().cloned().collect()
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

    /// As 1.2.1 has them in its code, and 1.18.34 in the database that it makes.
    #[test]
    fn r07_changes_without_a_name_are_known_by_their_time() {
        let text =
            b"[{ sql: \"CREATE INDEX `x` ON `todo` (`session_id`);\", timestamp: 1769552633000 }, {sql:\"y\",timestamp:1770830228000}]"
                .to_vec();
        let known = of(&text).unwrap();
        assert_eq!(known, ["20260127222353", "20260211171708"]);
        let made = ["20260127222353_familiar_lady_ursula", "20260211171708_add_project_commands", "20260213144116_wakeful_the_professor"]
            .map(str::to_owned);
        assert_eq!(lacking(&known, &made), ["20260213144116_wakeful_the_professor"]);
        assert_eq!(lacking(&made[..2], &["20260127222353".to_owned(), "20260213144116".to_owned()]), ["20260213144116"]);
        let both = b"{sql:\"y\",timestamp:1770830228000,name:\"20260211171708_add_project_commands\"}".to_vec();
        assert_eq!(of(&both).unwrap(), ["20260211171708_add_project_commands"]);
        assert_eq!(of(&b"{timestamp:1770830228000},{a:1,timestamp:1770830228000},{a:\"\",timestamp:12}".to_vec()).unwrap(), [""; 0]);
    }

    proptest::proptest! {
        #[test]
        fn no_text_panics(text in proptest::collection::vec(proptest::sample::select(&b"\"20_a'1"[..]), 0..80), at in 0i64..i64::MAX) {
            names_in(&text, &mut BTreeSet::new());
            times_in(&[&b"\"\",timestamp:"[..], &text].concat(), &mut BTreeSet::new());
            let _ = named_by_time(at);
        }
    }
}
