//! The form of a JSON text: its type, and the keys at its top, without building anything of it. No recursion: a text of
//! any depth is a count.

use memchr::memchr2;

/// What a text is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    /// An object.
    Object,
    /// An array.
    Array,
    /// A string.
    String,
    /// A number.
    Number,
    /// `true` or `false`.
    Boolean,
    /// `null`.
    Null,
    /// No JSON.
    Other,
}

impl Type {
    /// The word used in JSON and on the screen.
    pub fn word(self) -> &'static str {
        match self {
            Type::Object => "object",
            Type::Array => "array",
            Type::String => "string",
            Type::Number => "number",
            Type::Boolean => "boolean",
            Type::Null => "null",
            Type::Other => "text",
        }
    }
}

/// The type that the first and the last sign of a text show.
pub fn kind(text: &[u8]) -> Type {
    let text = text.trim_ascii();
    match (text.first(), text.last()) {
        (Some(b'{'), Some(b'}')) if text.len() > 1 => Type::Object,
        (Some(b'['), Some(b']')) if text.len() > 1 => Type::Array,
        (Some(b'"'), Some(b'"')) if text.len() > 1 => Type::String,
        (Some(b'-' | b'0'..=b'9'), Some(b'0'..=b'9')) => Type::Number,
        _ if text == b"true" || text == b"false" => Type::Boolean,
        _ if text == b"null" => Type::Null,
        _ => Type::Other,
    }
}

/// Calls `key` with each key of the object at the top, as it is written, and the length of its value in bytes.
/// Ends at the first thing that is no JSON.
pub fn members<'t>(text: &'t [u8], mut member: impl FnMut(&'t [u8], &'t [u8])) {
    let mut at = blank(text, 0);
    if text.get(at) != Some(&b'{') {
        return;
    }
    at = blank(text, at + 1);
    while text.get(at) == Some(&b'"') {
        let Some(end) = string_end(text, at) else { return };
        let key = &text[at + 1..end];
        at = blank(text, end + 1);
        if text.get(at) != Some(&b':') {
            return;
        }
        let from = blank(text, at + 1);
        let Some(end) = value_end(text, from) else { return };
        member(key, &text[from..end]);
        at = blank(text, end);
        if text.get(at) != Some(&b',') {
            return;
        }
        at = blank(text, at + 1);
    }
}

/// The text of the member of this name, if it is a string without escapes.
pub fn plain_string<'t>(text: &'t [u8], wanted: &str) -> Option<&'t [u8]> {
    let mut found = None;
    members(text, |key, value| {
        if key == wanted.as_bytes() && value.len() >= 2 && value[0] == b'"' && !value.contains(&b'\\') {
            found = Some(&value[1..value.len() - 1]);
        }
    });
    found
}

fn blank(text: &[u8], mut at: usize) -> usize {
    while text.get(at).is_some_and(u8::is_ascii_whitespace) {
        at += 1;
    }
    at
}

/// Where the string that begins at `at` has its closing quote.
fn string_end(text: &[u8], at: usize) -> Option<usize> {
    let mut at = at + 1;
    loop {
        at += memchr2(b'"', b'\\', text.get(at..)?)?;
        if text[at] == b'"' {
            return Some(at);
        }
        at += 2;
    }
}

/// Where the value that begins at `at` ends.
fn value_end(text: &[u8], mut at: usize) -> Option<usize> {
    let begin = at;
    let mut depth = 0usize;
    loop {
        match text.get(at) {
            None => return (depth == 0 && at > begin).then_some(at),
            Some(b'"') => at = string_end(text, at)? + 1,
            Some(b'{' | b'[') => {
                depth += 1;
                at += 1;
                continue;
            }
            Some(b'}' | b']') => {
                if depth == 0 {
                    return (at > begin).then_some(at);
                }
                depth -= 1;
                at += 1;
            }
            Some(b',') if depth == 0 => return (at > begin).then_some(at),
            Some(_) => {
                at += 1;
                continue;
            }
        }
        if depth == 0 {
            return Some(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn keys(text: &str) -> Vec<String> {
        let mut keys = Vec::new();
        members(text.as_bytes(), |key, _| keys.push(String::from_utf8_lossy(key).into_owned()));
        keys
    }

    #[test]
    fn keys_at_the_top_alone() {
        assert_eq!(keys(r#" { "text" : "a\"}b", "files":[{"x":1},2], "n" :-1.5e3,"o":{"in":{}} } "#), ["text", "files", "n", "o"]);
        assert_eq!(keys("[1]"), [""; 0]);
        assert_eq!(keys(r#"{"a":1"#), ["a"]);
        assert_eq!(keys(r#"{"a" 1}"#), [""; 0]);
        assert_eq!(plain_string(br#"{"a":{"inputID":"no"},"inputID":"msg_1"}"#, "inputID"), Some(&b"msg_1"[..]));
    }

    #[test]
    fn depth_is_a_count() {
        let deep = format!("{{\"a\":{}{},\"b\":1}}", "[".repeat(1_000_000), "]".repeat(1_000_000));
        assert_eq!(keys(&deep), ["a", "b"]);
        assert_eq!(kind(deep.as_bytes()), Type::Object);
    }

    proptest! {
        #[test]
        fn no_bytes_panic(text in proptest::collection::vec(any::<u8>(), 0..200)) {
            members(&text, |_, _| {});
            let _ = kind(&text);
        }

        #[test]
        fn the_keys_are_those_that_a_parser_finds(names in proptest::collection::vec("[a-z ]{1,8}", 0..6), text in "\\PC{0,20}") {
            let mut object = serde_json::Map::new();
            for name in names {
                object.insert(name, serde_json::json!([text, {"x": [1, null]}]));
            }
            let expected: Vec<String> = object.keys().cloned().collect();
            prop_assert_eq!(keys(&serde_json::Value::Object(object).to_string()), expected);
        }
    }
}
