//! The fall-back where a host's shell cannot call: what a command prints of some names.
//!
//! It prints set or unset, the length, and whether the value equals what was injected; never a value.

use std::collections::HashMap;

use super::readback::quoted;
use super::{Stop, token};

/// A command that tells in band of some names.
#[derive(Clone, Debug)]
pub struct InBand {
    mark: String,
    command: String,
}

impl InBand {
    /// Asks about these names; with a value, whether it is that one.
    ///
    /// # Errors
    /// When a shell has no variable of such a name.
    pub fn about(names: &[(String, Option<String>)]) -> Result<InBand, Stop> {
        let mark = format!("WHOSEENV-{}", &token()?[..8]);
        let mut command = String::new();
        for (name, value) in names {
            let letters = |(at, byte): (usize, u8)| byte == b'_' || byte.is_ascii_alphabetic() || at > 0 && byte.is_ascii_digit();
            if name.is_empty() || !name.bytes().enumerate().all(letters) {
                return Err(Stop::Failed(format!("{name}: a shell has no variable of this name, so that it cannot be read in band")));
            }
            let same = value.as_ref().map_or("false".to_owned(), |value| format!("[ \"${{{name}-}}\" = {} ]", quoted(value)));
            command.push_str(&format!(
                "if [ \"${{{name}+x}}\" ]; then s=set; else s=unset; fi; if {same}; then e=same; else e=other; fi; echo {mark} {name} $s ${{#{name}}} $e; "
            ));
        }
        command.push(':');
        Ok(InBand { mark, command })
    }

    /// The line for the host's shell.
    pub fn command(&self) -> &str {
        &self.command
    }

    /// What was told.
    pub fn told(&self, output: &str) -> Telling {
        Telling::parse(output, &self.mark)
    }
}

/// What a command told in band of some names: set or unset, length, whether it equals what was injected.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Telling(HashMap<String, (bool, usize, bool)>);

impl Telling {
    /// Reads `WHOSEENV-<mark> NAME set|unset LENGTH same|other` lines.
    pub fn parse(text: &str, mark: &str) -> Telling {
        let row = |line: &str| {
            let mut parts = line.trim_end().strip_prefix(mark)?.split(' ').skip(1);
            let (name, set, length, same) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
            Some((name.to_owned(), (set == "set", length.parse().ok()?, same == "same")))
        };
        Telling(text.lines().filter_map(row).collect())
    }

    /// Whether the name is set.
    pub fn is_set(&self, name: &str) -> bool {
        self.0.get(name).is_some_and(|(set, ..)| *set)
    }

    /// Whether it equals what was injected.
    pub fn equals(&self, name: &str) -> bool {
        self.0.get(name).is_some_and(|(_, _, same)| *same)
    }

    /// As evidence has it.
    pub fn words(&self) -> String {
        let mut all: Vec<_> = self
            .0
            .iter()
            .map(|(name, (set, length, _))| if *set { format!("{name} is set, {length} bytes") } else { format!("{name} is unset") })
            .collect();
        all.sort();
        all.join(", ")
    }

    /// Whether nothing was told.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_in_band_has_no_value() {
        let told = Telling::parse("noise\nWHOSEENV-1 A set 3 same\nWHOSEENV-1 B unset 0 other\nWHOSEENV-2 C set 1 same\n", "WHOSEENV-1");
        assert!(told.is_set("A") && told.equals("A") && !told.is_set("B") && !told.is_set("C"));
        assert_eq!(told.words(), "A is set, 3 bytes, B is unset");
    }
}
