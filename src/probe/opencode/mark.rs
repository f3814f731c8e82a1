//! By what a probe's sessions, PTYs and shells are known in a live host, also to the next probe after this one was killed.
//!
//! A mark is in the title of each, or in the id of a session; whoever made it holds an abstract socket of that name, so
//! that nobody takes a living probe's things for leftovers. Such names are those of a network namespace: a daemon on loopback
//! is asked from its own alone, so that every probe of it sees the others.

use std::time::Duration;

use serde_json::Value;

use super::api::Name;
use crate::host::listen::{Address, Ear};
use crate::probe::token;

/// Digits of a mark.
const DIGITS: usize = 12;

/// What a title begins with.
const TITLE: &str = "whoseenv probe ";

/// What stands behind the mark in the id of a session.
const SESSION: &str = "whoseenv";

/// A probe's mark.
pub struct Mark {
    digits: String,
    /// Whoever calls it learns that the probe lives.
    _beacon: Ear,
}

impl Mark {
    /// A new one.
    ///
    /// # Errors
    /// When the system has no randomness, or refuses a socket.
    pub fn new() -> std::io::Result<Mark> {
        let digits = token()?[..DIGITS].to_owned();
        let beacon = Ear::open(beacon(&digits))?;
        Ok(Mark { digits, _beacon: beacon })
    }

    /// What is in the title or the id of everything that is made.
    pub fn digits(&self) -> &str {
        &self.digits
    }

    /// The title of what is made.
    pub fn title(&self) -> String {
        format!("{TITLE}{}", self.digits)
    }

    /// The name of a new session. An id has 12 digits and 14 letters or digits (next-16350).
    ///
    /// # Errors
    /// When the system has no randomness.
    pub fn name(&self) -> std::io::Result<Name> {
        Ok(Name { title: self.title(), session: format!("ses_{}{SESSION}{}", self.digits, &token()?[..6]) })
    }

    /// Whose this is, of a host's list.
    pub fn whose(&self, item: &Value) -> Whose {
        let text = |key: &str| item[key].as_str();
        let titled = text("title").and_then(|title| digits(title.strip_prefix(TITLE)?));
        let named =
            text("id").and_then(|id| id.strip_prefix("ses_")).filter(|id| id.get(DIGITS..).is_some_and(|id| id.starts_with(SESSION)));
        let commanded = text("command").and_then(|command| digits(&command[command.rfind(TITLE)? + TITLE.len()..]));
        match titled.or_else(|| named.and_then(digits)).or(commanded) {
            None => Whose::Another,
            Some(mark) if mark == self.digits => Whose::Own,
            Some(mark) if beacon(mark).call(Duration::from_secs(1)).is_ok() => Whose::Another,
            Some(_) => Whose::Nobody,
        }
    }
}

/// Whose something in a host's list is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whose {
    /// This probe's.
    Own,
    /// A probe's that lives no more.
    Nobody,
    /// Not ours: a person's, or another probe's that lives.
    Another,
}

fn beacon(digits: &str) -> Address {
    Address::Abstract(format!("whoseenv-mark-{digits}"))
}

/// The mark that a text begins with.
fn digits(text: &str) -> Option<&str> {
    let mark = text.get(..DIGITS)?;
    mark.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte)).then_some(mark)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_ours_anothers_and_nobodys_is_told_apart() {
        let (own, other) = (Mark::new().unwrap(), Mark::new().unwrap());
        let of = |mark: &Mark| {
            let name = mark.name().unwrap();
            [
                json!({"id": name.session, "title": "New session"}),
                json!({"id": "pty_1", "title": name.title}),
                json!({"id": "sh_1", "command": format!("x; : '{}'", name.title)}),
            ]
        };
        let theirs = of(&other);
        assert_eq!(of(&own).map(|item| own.whose(&item)), [Whose::Own; 3]);
        assert_eq!(theirs.each_ref().map(|item| own.whose(item)), [Whose::Another; 3]);
        drop(other);
        assert_eq!(theirs.each_ref().map(|item| own.whose(item)), [Whose::Nobody; 3]);
        for person in [
            json!({"id": "ses_dd179dae2ffeL462PDZvszVLd6", "title": "whoseenv probe of mine"}),
            json!({"id": "pty_1", "title": "whoseenv probe"}),
            json!({"id": "sh_1", "command": "echo whoseenv probe é"}),
            json!({"id": "ses_é"}),
        ] {
            assert_eq!(own.whose(&person), Whose::Another, "{person}");
        }
    }
}
