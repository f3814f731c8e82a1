//! Rows as JSON bytes, written straight from what SQLite lends: a million rows have no time for values in between.
//!
//! What a terminal would act on is escaped, as everywhere in our JSON. The type of each row is a struct with a schema; tests hold the two together.

use std::borrow::Cow;

use crate::redact::secret_shape;
use crate::redact::terminal::hides;

/// A name of the host's, or what is told instead of one that has a secret in it by its shape.
pub fn told(name: &[u8]) -> Cow<'_, [u8]> {
    if secret_shape(name) {
        Cow::Owned(format!("<{} bytes that look like a secret>", name.len()).into_bytes())
    } else {
        Cow::Borrowed(name)
    }
}

/// The same as text: for every name of a table, a column, a plugin, a directory that a store has, and for what SQLite says of them.
pub fn told_text(name: &[u8]) -> String {
    String::from_utf8_lossy(&told(name)).into_owned()
}

/// Writes one JSON object into a buffer.
pub struct Object<'b> {
    out: &'b mut Vec<u8>,
    first: bool,
}

impl<'b> Object<'b> {
    /// Begins one.
    pub fn begin(out: &'b mut Vec<u8>) -> Object<'b> {
        out.push(b'{');
        Object { out, first: true }
    }

    /// Ends it.
    pub fn end(self) {
        self.out.push(b'}');
    }

    /// The key, and room for its value. Keys are words of ours.
    fn key(&mut self, key: &str) -> &mut Vec<u8> {
        if !std::mem::take(&mut self.first) {
            self.out.push(b',');
        }
        self.out.push(b'"');
        self.out.extend_from_slice(key.as_bytes());
        self.out.extend_from_slice(b"\":");
        self.out
    }

    /// A word of ours.
    pub fn word(&mut self, key: &str, word: &str) {
        let out = self.key(key);
        out.push(b'"');
        out.extend_from_slice(word.as_bytes());
        out.push(b'"');
    }

    /// Hex digits.
    pub fn ascii_word(&mut self, key: &str, word: &[u8]) {
        ascii(self.key(key), word);
    }

    /// A name of the host's: as it is where it is UTF-8, else in base64 under `<key>_b64`; one that looks like a secret as [`told`] says.
    pub fn bytes(&mut self, key: &str, bytes: &[u8]) {
        match told(bytes) {
            Cow::Borrowed(bytes) => self.content(key, bytes),
            Cow::Owned(instead) => self.content(key, &instead),
        }
    }

    /// Content of the host's, which was asked for: as it is, whatever it looks like.
    pub fn content(&mut self, key: &str, bytes: &[u8]) {
        if bytes.is_ascii() {
            ascii(self.key(key), bytes);
        } else if let Ok(text) = std::str::from_utf8(bytes) {
            string(self.key(key), text);
        } else {
            self.word(&format!("{key}_b64"), &crate::host::fact::encode(bytes));
        }
    }

    /// A number.
    pub fn number(&mut self, key: &str, number: i64) {
        integer(self.key(key), number);
    }

    /// Yes or no.
    pub fn flag(&mut self, key: &str, flag: bool) {
        self.key(key).extend_from_slice(if flag { b"true" } else { b"false" });
    }

    /// Not known.
    pub fn null(&mut self, key: &str) {
        self.key(key).extend_from_slice(b"null");
    }

    /// Milliseconds since the epoch as RFC 3339.
    pub fn time(&mut self, key: &str, ms: i64) {
        let out = self.key(key);
        out.push(b'"');
        rfc3339(out, ms);
        out.push(b'"');
    }

    /// An object inside.
    pub fn object(&mut self, key: &str) -> Object<'_> {
        Object::begin(self.key(key))
    }

    /// A list of strings.
    pub fn strings<'s>(&mut self, key: &str, strings: impl Iterator<Item = &'s str>) {
        let out = self.key(key);
        out.push(b'[');
        for (at, text) in strings.enumerate() {
            if at > 0 {
                out.push(b',');
            }
            string(out, text);
        }
        out.push(b']');
    }
}

/// Bytes that stand in JSON as they are.
const PLAIN: [bool; 256] = {
    let mut plain = [false; 256];
    let mut byte = 0x20;
    while byte < 0x7f {
        plain[byte] = byte != b'"' as usize && byte != b'\\' as usize;
        byte += 1;
    }
    plain
};

fn ascii(out: &mut Vec<u8>, bytes: &[u8]) {
    out.push(b'"');
    escaped(out, bytes);
    out.push(b'"');
}

fn escaped(out: &mut Vec<u8>, bytes: &[u8]) {
    let mut from = 0;
    for (at, &byte) in bytes.iter().enumerate() {
        if PLAIN[usize::from(byte)] {
            continue;
        }
        out.extend_from_slice(&bytes[from..at]);
        from = at + 1;
        match byte {
            b'"' => out.extend_from_slice(b"\\\""),
            b'\\' => out.extend_from_slice(b"\\\\"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            0x08 => out.extend_from_slice(b"\\b"),
            0x0c => out.extend_from_slice(b"\\f"),
            _ => unit(out, u16::from(byte)),
        }
    }
    out.extend_from_slice(&bytes[from..]);
}

/// A string of the host's.
pub fn string(out: &mut Vec<u8>, text: &str) {
    out.push(b'"');
    let mut rest = text;
    while let Some(at) = rest.bytes().position(|byte| !byte.is_ascii()) {
        escaped(out, &rest.as_bytes()[..at]);
        let Some(char) = rest[at..].chars().next() else { break };
        if hides(char) {
            char.encode_utf16(&mut [0; 2]).iter().for_each(|&word| unit(out, word));
        } else {
            out.extend_from_slice(char.encode_utf8(&mut [0; 4]).as_bytes());
        }
        rest = &rest[at + char.len_utf8()..];
    }
    escaped(out, rest.as_bytes());
    out.push(b'"');
}

fn unit(out: &mut Vec<u8>, unit: u16) {
    out.extend_from_slice(b"\\u");
    for shift in [12, 8, 4, 0] {
        out.push(b"0123456789abcdef"[usize::from(unit >> shift & 15)]);
    }
}

fn integer(out: &mut Vec<u8>, number: i64) {
    if number < 0 {
        out.push(b'-');
    }
    digits(out, number.unsigned_abs(), 1);
}

fn digits(out: &mut Vec<u8>, mut number: u64, width: usize) {
    let mut text = [b'0'; 20];
    let mut at = text.len();
    loop {
        at -= 1;
        text[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    out.extend_from_slice(&text[at.min(text.len() - width)..]);
}

/// `2026-11-30T20:22:43.343Z`, as everywhere in our output; days by Howard Hinnant's `civil_from_days`.
fn rfc3339(out: &mut Vec<u8>, ms: i64) {
    /// The years 0 to 9999.
    const RANGE: std::ops::Range<i64> = -62_167_219_200_000..253_402_300_800_000;
    if !RANGE.contains(&ms) {
        integer(out, ms);
        out.extend_from_slice(b" ms");
        return;
    }
    let (days, rest) = (ms.div_euclid(86_400_000), ms.rem_euclid(86_400_000) as u64);
    let z = days + 719_468;
    let (era, day_of_era) = (z.div_euclid(146_097), z.rem_euclid(146_097));
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    for (number, width, after) in [
        (year as u64, 4, b'-'),
        (month as u64, 2, b'-'),
        (day as u64, 2, b'T'),
        (rest / 3_600_000, 2, b':'),
        (rest / 60_000 % 60, 2, b':'),
        (rest / 1000 % 60, 2, b'.'),
        (rest % 1000, 3, b'Z'),
    ] {
        digits(out, number, width);
        out.push(after);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_string_comes_back_and_shows_nothing_hidden(text in "\\PC*|.*") {
            let mut out = Vec::new();
            string(&mut out, &text);
            let written = String::from_utf8(out).unwrap();
            prop_assert!(!written.chars().any(hides));
            prop_assert_eq!(serde_json::from_str::<String>(&written).unwrap(), text);
        }

        #[test]
        fn times_are_those_of_the_rest_of_the_output(ms in -62_167_219_200_000i64..253_402_300_000_000) {
            let mut out = Vec::new();
            rfc3339(&mut out, ms);
            prop_assert_eq!(String::from_utf8(out).unwrap(), crate::host::machine::rfc3339(ms));
        }

        #[test]
        fn any_number_comes_back(number in any::<i64>()) {
            let mut out = Vec::new();
            integer(&mut out, number);
            prop_assert_eq!(String::from_utf8(out).unwrap(), number.to_string());
        }
    }
}
