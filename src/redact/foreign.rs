//! What another program prints: it says whatever its author liked, also its own password.

use super::names::secret_name;
use super::{Redactor, secret};
use crate::host::snapshot::HIDDEN;

/// Longest line that is told, in characters.
const LONGEST: usize = 200;

impl Redactor {
    /// A line that another program printed, cut to 200 characters, with the words that may be secrets replaced: what looks like one,
    /// and what follows a word that announces one.
    pub fn foreign(&self, line: &str) -> String {
        // First whole: half a secret looks like none.
        let told = if self.show.all { line.trim().to_owned() } else { veiled(line) };
        told.chars().take(LONGEST).collect()
    }
}

fn veiled(line: &str) -> String {
    let mut announced = false;
    let (mut words, mut kept) = (Vec::new(), Vec::new());
    for word in line.split_whitespace() {
        let separated = word.ends_with([':', '=']);
        let name = name(word.split([':', '=']).next().unwrap_or_default());
        let scheme = ["bearer", "basic"].iter().any(|scheme| scheme.eq_ignore_ascii_case(name));
        let secret_is_next = scheme || separated && secret_name(name.as_bytes());
        let holds = announced && !secret_is_next || assigns(word) || secret(b"", word.as_bytes(), false).is_some();
        words.push(if holds && !secret_is_next { HIDDEN } else { word });
        // A word that announces is no secret itself, nor is the next one any more.
        kept.extend((!holds && !secret_is_next).then_some(word));
        announced = secret_is_next;
    }
    // What only several words together give away.
    if secret(b"", kept.join(" ").as_bytes(), false).is_some() { HIDDEN.to_owned() } else { words.join(" ") }
}

/// `token=word`, `"password":"word"`, also in a list of them.
fn assigns(word: &str) -> bool {
    let pieces = word.split(['&', ',', ';', '?', '{']);
    pieces.filter_map(|piece| piece.split_once([':', '='])).any(|(left, value)| {
        let value = value.trim_matches(|char: char| !char.is_alphanumeric());
        !value.is_empty() && secret_name(name(left).as_bytes())
    })
}

fn name(word: &str) -> &str {
    word.trim_matches(|char: char| !char.is_ascii_alphanumeric())
}

#[cfg(test)]
mod tests {
    use super::veiled;

    #[test]
    fn what_programs_say_of_their_secrets() {
        for (line, kept, gone) in [
            ("refused: Authorization: Bearer abc123def now", "refused:", "abc123def"),
            ("key sk-ant-api03-abcdefghijklmnop0123456789 is wrong", "is wrong", "sk-ant"),
            ("cannot reach postgres://u:pw@h/db today", "cannot reach", "pw@h"),
            ("started with token=hunter2boot on 1", "started with", "hunter2boot"),
            (r#"bad config {"port":1,"password":"hunter2boot"} here"#, "bad config", "hunter2boot"),
            ("API_KEY: hunter2boot", "API_KEY:", "hunter2boot"),
            ("at http://127.0.0.1/x?token=hunter2boot&a=1 it", "at ", "hunter2boot"),
        ] {
            let told = veiled(line);
            assert!(told.contains(kept) && !told.contains(gone), "{line}: {told}");
        }
        for plain in
            ["Error: listen EADDRINUSE: address already in use 127.0.0.1:4096", "sh: 1: nothing: not found", "No such file: /etc/x"]
        {
            assert_eq!(veiled(plain), plain);
        }
    }
}
