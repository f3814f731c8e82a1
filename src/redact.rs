//! What may be shown, and how.
//!
//! The rules, in this order: what was asked for is shown; a secret by name, by shape or by looking random
//! is masked; what the allow-list names is shown; everything else is masked. The allow-list is handed in
//! ([`AllowList`]): what variables mean is the matter of a room above.

pub mod anonymize;
mod argv;
mod entropy;
mod foreign;
mod names;
mod shapes;
pub mod terminal;

use std::fmt;

use hmac::{Hmac, KeyInit, Mac};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

pub use anonymize::Anonymizer;
pub use names::secret_name;

use crate::host::snapshot::{HIDDEN, Mask};
use crate::host::{Entry, Environ, Masked, Raw, Value};

macro_rules! rules {
    ($($name:ident = $word:literal, $text:literal;)*) => {
        /// The rule that masked a value.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
        pub enum Rule {
            $(#[doc = $text] #[serde(rename = $word)] $name,)*
        }

        impl Rule {
            /// Every rule, in the order in which they are tried.
            pub const ALL: &[Rule] = &[$(Rule::$name),*];

            /// The word used in JSON and on the screen.
            pub fn word(self) -> &'static str {
                match self { $(Rule::$name => $word),* }
            }

            /// What it means, for the man page.
            pub fn text(self) -> &'static str {
                match self { $(Rule::$name => $text),* }
            }

            /// Whether this word is of a rule that tells secrets, not of one that tells what nobody allowed.
            pub fn is_secret(word: &str) -> bool {
                [Rule::SecretName, Rule::SecretShape, Rule::Entropy].iter().any(|rule| rule.word() == word)
            }
        }
    };
}

rules! {
    SecretName = "secret-name", "The name, or the word before an argument, says that it is a secret: a token, key, password, PIN, credential or cookie.";
    SecretShape = "secret-shape", "The value has the shape of a secret: a password in a URL, a PEM block, a JWT, a known token prefix.";
    Entropy = "entropy", "The value looks random, as keys and tokens do.";
    NotListed = "not-listed", "The variable is not on the list of those that may be shown.";
    Argv = "argv", "The argument is not of a kind that may be shown: an option's name, a path, a subcommand, a number, a loopback address; behind a short option that takes a secret in some programs (-a, -k, -p, -w) only a path is.";
    Raw = "raw", "An entry without `=`, or with a name that no program would choose, may hold anything.";
}

/// The key of fingerprints: equal fingerprints under one key mean equal values.
#[derive(Clone)]
pub struct FingerprintKey(Hmac<Sha256>);

impl FingerprintKey {
    /// A key that nobody will see again.
    ///
    /// # Errors
    /// When the system has no randomness to give.
    pub fn random() -> std::io::Result<FingerprintKey> {
        let mut bytes = [0u8; 32];
        let mut filled = 0;
        while filled < bytes.len() {
            filled += rustix::rand::getrandom(&mut bytes[filled..], rustix::rand::GetRandomFlags::empty())?;
        }
        Ok(FingerprintKey::from_bytes(&bytes))
    }

    /// The key that a text stands for (`WHOSEENV_FINGERPRINT_KEY`).
    pub fn from_text(text: &[u8]) -> FingerprintKey {
        FingerprintKey::from_bytes(&Sha256::digest(text).into())
    }

    fn from_bytes(bytes: &[u8; 32]) -> FingerprintKey {
        // HMAC fills a short key with zeroes to the block's 64 bytes; doing it here leaves no error to handle.
        let mut block = [0u8; 64];
        block[..bytes.len()].copy_from_slice(bytes);
        FingerprintKey(Hmac::new(&block.into()))
    }

    /// The same, as digits alone: for a million values.
    pub fn digits(&self, value: &[u8]) -> [u8; 12] {
        let tag = self.0.clone().chain_update(value).finalize().into_bytes();
        let mut hex = [0; 12];
        for (pair, byte) in hex.chunks_exact_mut(2).zip(tag) {
            pair[0] = b"0123456789abcdef"[usize::from(byte >> 4)];
            pair[1] = b"0123456789abcdef"[usize::from(byte & 15)];
        }
        hex
    }

    /// The first 12 hexadecimal digits of HMAC-SHA256.
    pub fn fingerprint(&self, value: &[u8]) -> String {
        let tag = self.0.clone().chain_update(value).finalize().into_bytes();
        crate::host::hex(&tag[..6])
    }
}

impl fmt::Debug for FingerprintKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FingerprintKey")
    }
}

/// What was asked to be shown whatever the rules say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShowPolicy {
    /// Names given to `--show`.
    pub names: Vec<String>,
    /// `--show-all`.
    pub all: bool,
}

impl ShowPolicy {
    fn covers(&self, name: &[u8]) -> bool {
        self.all || self.names.iter().any(|asked| asked.as_bytes() == name)
    }
}

/// That a value may be shown unless a rule for secrets speaks against it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allowance {
    /// It is a random identifier by nature: looking random is no reason to mask it.
    pub identifier: bool,
}

/// Which variables may be shown.
pub trait AllowList: Send + Sync {
    /// The allowance for a variable; none where it is not on the list.
    fn allows(&self, name: &[u8], value: &[u8]) -> Option<Allowance>;
}

/// Decides for every value whether it may be shown, and makes what is told instead.
pub struct Redactor {
    key: FingerprintKey,
    show: ShowPolicy,
    list: &'static dyn AllowList,
}

impl Redactor {
    /// A redactor for one report.
    pub fn new(key: FingerprintKey, show: ShowPolicy, list: &'static dyn AllowList) -> Redactor {
        Redactor { key, show, list }
    }

    /// The key of this report's fingerprints.
    pub fn key(&self) -> &FingerprintKey {
        &self.key
    }

    /// The rule that masks a value; none where it may be shown.
    pub fn rule(&self, name: &[u8], value: &[u8]) -> Option<Rule> {
        if self.show.covers(name) {
            return None;
        }
        let allowance = self.list.allows(name, value);
        let identifier = allowance.is_some_and(|allowance| allowance.identifier && entropy::is_identifier(value));
        secret(name, value, identifier).or_else(|| allowance.is_none().then_some(Rule::NotListed))
    }

    /// Whether the value of a variable may be shown.
    ///
    /// # Errors
    /// What is told instead, where it may not.
    pub fn value(&self, name: &[u8], value: &[u8]) -> Result<(), Masked> {
        self.rule(name, value).map_or(Ok(()), |rule| Err(self.masked(value, rule)))
    }

    /// Whether an entry without `=` may be shown: it may hold anything, so only on request.
    ///
    /// # Errors
    /// What is told instead.
    pub fn raw(&self, entry: &[u8]) -> Result<(), Masked> {
        if self.show.covers(entry) { Ok(()) } else { Err(self.masked(entry, Rule::Raw)) }
    }

    /// Whether a name may be shown: a block that was not made of assignments (a PEM file with its `=`) has secrets for names.
    ///
    /// # Errors
    /// What is told instead.
    pub fn name(&self, name: &[u8]) -> Result<(), Masked> {
        if sound_name(name) || self.show.covers(name) { Ok(()) } else { Err(self.masked(name, Rule::Raw)) }
    }

    /// A path that no variable gave, such as a working directory, as it may be shown: whole, or [`HIDDEN`].
    pub fn place<'t>(&self, text: &'t [u8]) -> &'t [u8] {
        if self.show.all { text } else { place(text) }
    }

    /// A sentence with its words that have the shape of a secret replaced. What was asked to be shown may stand in any sentence, so
    /// then it is left alone.
    pub fn sentence(&self, text: &mut String) {
        let asked = self.show.all || !self.show.names.is_empty();
        if asked || !shapes::secret(text.as_bytes()) {
            return;
        }
        let pieces = text.split_inclusive(|char: char| char.is_whitespace() || ",;()\"'".contains(char));
        *text = pieces
            .map(|piece| {
                let word = piece.trim_end_matches(|char: char| char.is_whitespace() || ",;()\"'".contains(char));
                if shapes::token(word.as_bytes()) { piece.replacen(word, HIDDEN, 1) } else { piece.to_owned() }
            })
            .collect();
    }

    /// What is told of a value that is not shown.
    pub fn masked(&self, value: &[u8], rule: Rule) -> Masked {
        Masked { len: value.len() as u64, fingerprint: self.key.fingerprint(value), rule: rule.word().to_owned() }
    }

    /// The entry with what must not be shown replaced. Where it has no `=`, or a name that must not be shown, the
    /// whole entry is masked under an empty name, which no parsed entry has.
    pub fn entry(&self, entry: &Entry) -> Entry {
        let unnamed = |masked| Entry { name: Raw::default(), value: Some(Value::Masked(masked)) };
        let name = entry.name.as_bytes();
        match &entry.value {
            None => self.raw(name).map_or_else(unnamed, |()| entry.clone()),
            Some(Value::Masked(_)) => entry.clone(),
            Some(Value::Clear(value)) => {
                if self.name(name).is_err() {
                    let whole = [name, b"=", value.as_bytes()].concat();
                    return unnamed(self.masked(&whole, Rule::Raw));
                }
                match self.value(name, value.as_bytes()) {
                    Ok(()) => entry.clone(),
                    Err(masked) => Entry { name: entry.name.clone(), value: Some(Value::Masked(masked)) },
                }
            }
        }
    }
}

/// Whether a name is what names are, and nothing that somebody's secret could be.
pub fn sound_name(name: &[u8]) -> bool {
    // Most names are too short for anything random, and hold nothing that a shape could be made of.
    let short = name.len() < 16 && name.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_');
    // Capitals alone do not change from character to character; one issuer's tokens could be made of them.
    let capitals = || name.len() <= 128 && name.iter().all(|byte| byte.is_ascii_uppercase() || *byte == b'_');
    let token = || [&b"AKIA"[..], b"ASIA"].iter().any(|prefix| memchr::memmem::find(name, prefix).is_some());
    if short || capitals() && !token() {
        return true;
    }
    let usual = |byte: &u8| byte.is_ascii_graphic() || !byte.is_ascii();
    name.len() <= 128 && name.iter().all(usual) && !entropy::random_name(name) && !shapes::secret(name)
}

/// Whether a name or an id that a program chose (a key, a member, a directory) has a secret in it by its shape. Nothing is said of randomness:
/// ids are random. Cheap enough for every text of a million rows.
pub fn secret_shape(text: &[u8]) -> bool {
    shapes::secret(text)
}

/// The rule by which a value is a secret, whatever the allow-list says; `identifier` = it is random by nature.
pub fn secret(name: &[u8], value: &[u8], identifier: bool) -> Option<Rule> {
    if value.is_empty() {
        return None;
    }
    if secret_name(name) {
        return Some(Rule::SecretName);
    }
    if shapes::secret(value) {
        return Some(Rule::SecretShape);
    }
    entropy::random_value(value, identifier).then_some(Rule::Entropy)
}

impl Mask for Redactor {
    fn environ(&self, environ: &Environ) -> Environ {
        let entries = environ.entries.iter().map(|entry| self.entry(entry)).collect();
        Environ { entries, overwritten: environ.overwritten }
    }

    fn argv(&self, argv: &[Value]) -> Vec<Value> {
        self.arguments(argv)
    }

    fn hides(&self, text: &[u8]) -> bool {
        !self.show.all && secret_place(text)
    }
}

/// Whether a path or an address has a secret in it. It is no variable's value and has no name to go by, so looking random alone
/// does not make it one, except by the measure for paths.
pub fn secret_place(text: &[u8]) -> bool {
    shapes::secret(text) || text.starts_with(b"/") && entropy::random_value(text, false)
}

/// A path as it may be shown: whole, or [`HIDDEN`].
pub fn place(text: &[u8]) -> &[u8] {
    if secret_place(text) { HIDDEN.as_bytes() } else { text }
}

#[cfg(test)]
mod tests;
