//! The fall-back where a host's shell cannot call: what a command prints of some names.
//!
//! It prints set or unset, the length, and whether the value equals what was injected; never a value. A host keeps the
//! commands that it ran, so that no value is in the command either: it reads them from a private file.

use std::collections::HashMap;
use std::fs::File;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use super::readback::{Seen, quoted};
use super::{Stop, token};

/// A command that tells in band of some names.
#[derive(Debug)]
pub struct InBand {
    mark: String,
    command: String,
    names: usize,
    /// Holds the values, mode 0600; goes with this.
    file: PathBuf,
}

impl Drop for InBand {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.file);
    }
}

impl InBand {
    /// Asks about these names; with a value, whether it is that one. The values are kept in a file in `private`.
    ///
    /// # Errors
    /// When a shell has no variable of such a name, or the file cannot be written.
    pub fn about(names: &[(String, Option<String>)], private: &Path) -> Result<InBand, Stop> {
        let token = token()?;
        let (mark, file) = (format!("WHOSEENV-{}", &token[..8]), private.join(format!("values-{}", &token[8..20])));
        let path = quoted(&file.to_string_lossy());
        let mut command = format!("r=no; if [ -r {path} ]; then r=yes; . {path}; fi; ");
        let mut values = String::new();
        for (number, (name, value)) in names.iter().enumerate() {
            if !is_shell_name(name) {
                return Err(Stop::Failed(format!("{name}: a shell has no variable of this name, so that it cannot be read in band")));
            }
            let same = match value {
                Some(value) => {
                    values.push_str(&format!("whoseenv_{number}={}\n", quoted(value)));
                    format!(
                        "if [ $r = no ]; then e=unread; elif [ \"${{{name}-}}\" = \"$whoseenv_{number}\" ]; then e=same; else e=other; fi"
                    )
                }
                None => "e=unasked".to_owned(),
            };
            command.push_str(&format!(
                "if [ \"${{{name}+x}}\" ]; then s=set; else s=unset; fi; {same}; echo {mark} {name} $s ${{#{name}}} $e; "
            ));
        }
        command.push(':');
        let asking = InBand { mark, command, names: names.len(), file };
        File::options().write(true).create_new(true).mode(0o600).open(&asking.file)?.write_all(values.as_bytes())?;
        Ok(asking)
    }

    /// The line for the host's shell.
    pub fn command(&self) -> &str {
        &self.command
    }

    /// What was told.
    ///
    /// # Errors
    /// When nothing was, or the shell could not read what to compare with.
    pub fn told(&self, output: &str) -> Result<Telling, Stop> {
        let told = Telling::parse(output, &self.mark);
        if told.0.len() < self.names {
            return Err(Stop::Failed("the host's shell did not call, and nothing came in band either".to_owned()));
        }
        if told.0.values().any(|told| told.same == Same::Unread) {
            return Err(Stop::Failed(
                "the host's shell may not read the private file with what was injected, to compare with it".to_owned(),
            ));
        }
        Ok(told)
    }
}

/// Whether a shell can have a variable of this name.
pub fn is_shell_name(name: &str) -> bool {
    let letters = |(at, byte): (usize, u8)| byte == b'_' || byte.is_ascii_alphabetic() || at > 0 && byte.is_ascii_digit();
    !name.is_empty() && name.bytes().enumerate().all(letters)
}

/// What a command told in band of some names: set or unset, length, whether it equals what was injected.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Telling(HashMap<String, Told>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Told {
    set: bool,
    length: usize,
    same: Same,
}

/// Whether a value is the one that was asked about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Same {
    Yes,
    No,
    /// There was nothing to compare with.
    Unasked,
    /// The shell could not read what to compare with.
    Unread,
}

impl Telling {
    /// Reads `WHOSEENV-<mark> NAME set|unset LENGTH same|other|unasked|unread` lines.
    pub fn parse(text: &str, mark: &str) -> Telling {
        let row = |line: &str| {
            let mut parts = line.trim_end().strip_prefix(mark)?.split(' ').skip(1);
            let (name, set, length, same) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
            let same = match same {
                "same" => Same::Yes,
                "unasked" => Same::Unasked,
                "unread" => Same::Unread,
                _ => Same::No,
            };
            Some((name.to_owned(), Told { set: set == "set", length: length.parse().ok()?, same }))
        };
        Telling(text.lines().filter_map(row).collect())
    }

    /// Whether the name is set.
    pub fn is_set(&self, name: &str) -> bool {
        self.0.get(name).is_some_and(|told| told.set)
    }

    /// Whether it equals what was injected.
    pub fn equals(&self, name: &str) -> bool {
        self.0.get(name).is_some_and(|told| told.set && told.same == Same::Yes)
    }

    /// Whether a name that was asked about is not set, or has another value than the one asked about.
    pub fn differs(&self, name: &str) -> bool {
        self.0.get(name).is_some_and(|told| !told.set || told.same == Same::No)
    }

    /// The names of which both do not tell the same.
    pub fn differing(&self, other: &Telling) -> Vec<String> {
        let mut names: Vec<String> =
            self.0.keys().chain(other.0.keys()).filter(|name| self.0.get(*name) != other.0.get(*name)).cloned().collect();
        names.sort();
        names.dedup();
        names
    }

    /// So many names were asked about, so many of them with a value.
    pub fn count(&self) -> (usize, usize) {
        (self.0.len(), self.0.values().filter(|told| told.same != Same::Unasked).count())
    }

    /// As evidence has it.
    pub fn words(&self) -> String {
        let mut all: Vec<_> = self
            .0
            .iter()
            .map(|(name, told)| if told.set { format!("{name} is set, {} bytes", told.length) } else { format!("{name} is unset") })
            .collect();
        all.sort();
        all.join(", ")
    }
}

/// What a shell was seen to have.
#[derive(Clone, Debug)]
pub enum Shown {
    /// Out of band: its whole block.
    Shell(Box<Seen>),
    /// In band: what it told of the names that it was asked about.
    Told(Telling),
}

impl Shown {
    /// Whether the name is set.
    pub fn is_set(&self, name: &str) -> bool {
        match self {
            Shown::Shell(seen) => seen.get(name).is_some(),
            Shown::Told(told) => told.is_set(name),
        }
    }

    /// Whether it has this value, which in band is the one that was asked about.
    pub fn equals(&self, name: &str, value: &str) -> bool {
        match self {
            Shown::Shell(seen) => seen.has(name, value),
            Shown::Told(told) => told.equals(name),
        }
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

    #[test]
    fn no_value_is_in_the_command() {
        let dir = tempfile::tempdir().unwrap();
        let secret = "hunter2 'SECRET' $(x)";
        let about = [("A".to_owned(), Some(secret.to_owned())), ("B".to_owned(), Some("b".to_owned())), ("C".to_owned(), None)];
        let asking = InBand::about(&about, dir.path()).unwrap();
        assert!(!asking.command().contains("hunter2"), "{}", asking.command());
        for shell in ["sh", "bash"] {
            let ran = std::process::Command::new(shell)
                .args(["-c", asking.command()])
                .env("A", secret)
                .env("B", "x")
                .env_remove("C")
                .output()
                .unwrap();
            let told = asking.told(&String::from_utf8(ran.stdout).unwrap()).unwrap();
            assert!(told.equals("A") && !told.equals("B") && told.is_set("B") && !told.is_set("C"), "{told:?}");
        }
        std::fs::remove_file(&asking.file).unwrap();
        let ran = std::process::Command::new("sh").args(["-c", asking.command()]).output().unwrap();
        assert!(asking.told(&String::from_utf8(ran.stdout).unwrap()).is_err(), "what cannot be compared is not told");
    }
}
