//! Strings from the host on their way to a terminal: nothing in them may move the cursor, turn the
//! direction of writing, or hide.

use unicode_width::UnicodeWidthChar;

/// The text with control, bidi and zero-width characters and invalid UTF-8 as visible escapes:
/// `\x1b`, `\n`, `\u{202e}`, `\xff`.
pub fn clean(bytes: impl AsRef<[u8]>) -> String {
    use std::fmt::Write;
    let bytes = bytes.as_ref();
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for char in chunk.valid().chars() {
            let _ = match char {
                '\n' => text.write_str("\\n"),
                '\r' => text.write_str("\\r"),
                '\t' => text.write_str("\\t"),
                char if char.is_ascii_control() => write!(text, "\\x{:02x}", char as u32),
                char if hides(char) => write!(text, "\\u{{{:x}}}", char as u32),
                char => text.write_char(char),
            };
        }
        for byte in chunk.invalid() {
            let _ = write!(text, "\\x{byte:02x}");
        }
    }
    text
}

/// Whether a terminal would not show the character as something of its own: C1 controls, marks of direction,
/// line separators, and everything without a width, combining characters included.
pub fn hides(char: char) -> bool {
    // None is a control character; U+2028 and U+2029 break lines, and the width tables do not agree on U+00AD.
    matches!(char, '\u{2028}' | '\u{2029}' | '\u{ad}') || is_bidi(char) || char.width().unwrap_or(0) == 0
}

fn is_bidi(char: char) -> bool {
    matches!(char, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_would_move_turn_or_hide_is_visible() {
        assert_eq!(clean("\x1b[31mred\x07"), "\\x1b[31mred\\x07");
        assert_eq!(clean("a\u{202e}b\u{200b}c\u{feff}"), "a\\u{202e}b\\u{200b}c\\u{feff}");
        assert_eq!(clean("one\ntwo\r\t"), "one\\ntwo\\r\\t");
        assert_eq!(clean(b"v\xff\xfe"), "v\\xff\\xfe");
        assert_eq!(clean("\u{9b}31m"), "\\u{9b}31m");
        assert_eq!(clean("e\u{301} \u{ad}\u{2028}\u{e0041}"), "e\\u{301} \\u{ad}\\u{2028}\\u{e0041}");
        assert_eq!(clean("Grüße, 世界 C:\\x"), "Grüße, 世界 C:\\x");
    }

    proptest! {
        #[test]
        fn no_character_of_the_output_is_invisible(bytes in proptest::collection::vec(any::<u8>(), 0..64), text in "\\PC*|.*") {
            for shown in [clean(&bytes), clean(&text)] {
                for char in shown.chars() {
                    prop_assert!(!char.is_control() && !is_bidi(char), "{:?}", char);
                    prop_assert!(!('\u{200b}'..='\u{200f}').contains(&char) && char != '\u{feff}' && char.width() != Some(0), "{:?}", char);
                }
            }
        }

        #[test]
        fn plain_text_passes_unchanged(text in "[ -~äöü世界]*") {
            prop_assert_eq!(clean(&text), text);
        }
    }
}
