//! A string as bytes: how it may be written in a program.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How a string is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Encoding {
    /// The bytes as they were given, which for ASCII is a byte a character: what `grep -F` looks for.
    Latin1,
    /// Two bytes a character, the low one first.
    Utf16le,
}

impl Encoding {
    /// The word used in JSON and on the screen.
    pub fn word(self) -> &'static str {
        match self {
            Encoding::Latin1 => "latin1",
            Encoding::Utf16le => "utf16le",
        }
    }
}

/// Every way to write a string that fits on one line. The first is the string as it was given, which is what `grep -F` looks for.
///
/// A program written in JavaScript keeps a string as Latin-1 where that is possible, else as UTF-16.
pub fn encoded(string: &[u8]) -> Vec<(Encoding, Vec<u8>)> {
    let wide = match std::str::from_utf8(string) {
        Ok(text) => text.encode_utf16().flat_map(u16::to_le_bytes).collect(),
        Err(_) => string.iter().flat_map(|byte| [*byte, 0]).collect(),
    };
    let mut ways = vec![(Encoding::Latin1, string.to_vec()), (Encoding::Utf16le, wide)];
    ways.retain(|(_, bytes)| !bytes.contains(&b'\n'));
    ways
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_are_written_in_every_way_that_fits_on_a_line() {
        assert_eq!(encoded(b"ab"), [(Encoding::Latin1, b"ab".to_vec()), (Encoding::Utf16le, b"a\0b\0".to_vec())]);
        assert_eq!(encoded("é".as_bytes()), [(Encoding::Latin1, b"\xc3\xa9".to_vec()), (Encoding::Utf16le, b"\xe9\0".to_vec())]);
        assert_eq!(encoded("→".as_bytes()), [(Encoding::Latin1, b"\xe2\x86\x92".to_vec()), (Encoding::Utf16le, b"\x92\x21".to_vec())]);
        assert_eq!(encoded(b"\xff"), [(Encoding::Latin1, b"\xff".to_vec()), (Encoding::Utf16le, b"\xff\0".to_vec())]);
        // U+010A holds a line break in UTF-16.
        assert_eq!(encoded("Ċ".as_bytes()).len(), 1);
    }
}
