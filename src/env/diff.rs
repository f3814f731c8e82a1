//! Two environments compared, name by name.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::host::{Environ, Raw, Value};

/// How two environments stand to one another in one variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// Both have it, with the same value.
    Same,
    /// Both have it, with different values.
    Differs,
    /// Only the first has it.
    OnlyA,
    /// Only the second has it.
    OnlyB,
    /// Both have it, and at least one value was masked in a way that does not let them be compared.
    Unknown,
}

impl State {
    /// The word used in JSON and on the screen.
    pub fn word(self) -> &'static str {
        match self {
            State::Same => "same",
            State::Differs => "differs",
            State::OnlyA => "only_a",
            State::OnlyB => "only_b",
            State::Unknown => "unknown",
        }
    }
}

/// One variable of two environments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The name.
    pub name: Raw,
    /// How they stand.
    pub state: State,
    /// The first environment's value, as `getenv` gives it: that of the first entry.
    pub a: Option<Value>,
    /// The second environment's.
    pub b: Option<Value>,
    /// How many entries of that name the first environment has.
    pub entries_a: usize,
    /// How many the second has.
    pub entries_b: usize,
}

/// Compares two environments by name, sorted by the names' bytes. Entries without `=` are no variables.
///
/// `comparable`: masked values on both sides have fingerprints of one key, so that equal ones mean equal values.
pub fn diff(a: &Environ, b: &Environ, comparable: bool) -> Vec<Difference> {
    let (a, b) = (by_name(a), by_name(b));
    let mut names: Vec<&Raw> = a.keys().chain(b.keys().filter(|name| !a.contains_key(*name))).copied().collect();
    names.sort_unstable();
    let each = names.into_iter().map(|name| {
        let (first, second) = (a.get(name), b.get(name));
        let state = match (first, second) {
            (Some((a, _)), Some((b, _))) => compare(a, b, comparable),
            (Some(_), None) => State::OnlyA,
            (None, _) => State::OnlyB,
        };
        Difference {
            name: name.clone(),
            state,
            a: first.map(|(value, _)| (*value).clone()),
            b: second.map(|(value, _)| (*value).clone()),
            entries_a: first.map_or(0, |(_, entries)| *entries),
            entries_b: second.map_or(0, |(_, entries)| *entries),
        }
    });
    each.collect()
}

/// The first value of each name, and how many entries have the name.
fn by_name(environ: &Environ) -> BTreeMap<&Raw, (&Value, usize)> {
    let mut names = BTreeMap::new();
    for entry in &environ.entries {
        // A masked entry without a name was no assignment.
        if let Some(value) = entry.value.as_ref().filter(|_| !entry.name.as_bytes().is_empty()) {
            names.entry(&entry.name).or_insert((value, 0)).1 += 1;
        }
    }
    names
}

fn compare(a: &Value, b: &Value, comparable: bool) -> State {
    match (a, b) {
        (Value::Clear(a), Value::Clear(b)) if a == b => State::Same,
        (Value::Clear(_), Value::Clear(_)) => State::Differs,
        (Value::Masked(a), Value::Masked(b)) if comparable && a.fingerprint == b.fingerprint => State::Same,
        (Value::Masked(_), Value::Masked(_)) if comparable => State::Differs,
        // Lengths are known and need no key.
        (Value::Masked(a), Value::Masked(b)) if a.len != b.len => State::Differs,
        (Value::Masked(masked), Value::Clear(raw)) | (Value::Clear(raw), Value::Masked(masked))
            if masked.len != raw.as_bytes().len() as u64 =>
        {
            State::Differs
        }
        _ => State::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::{Entry, Masked};

    fn masked(name: &str, fingerprint: &str, len: u64) -> Entry {
        let masked = Masked { len, fingerprint: fingerprint.to_owned(), rule: "not-listed".to_owned() };
        Entry { name: name.into(), value: Some(Value::Masked(masked)) }
    }

    fn states(a: &Environ, b: &Environ, comparable: bool) -> Vec<(String, &'static str)> {
        diff(a, b, comparable).iter().map(|one| (one.name.lossy().into_owned(), one.state.word())).collect()
    }

    #[test]
    fn by_name_first_entry_sorted() {
        let a = Environ::parse(b"Z=1\0DISPLAY=localhost:10.0\0DISPLAY=:0\0A=x\0lonely\0");
        let b = Environ::parse(b"DISPLAY=localhost:11.0\0A=x\0B=\0");
        let expected = [("A", "same"), ("B", "only_b"), ("DISPLAY", "differs"), ("Z", "only_a")];
        assert_eq!(states(&a, &b, true), expected.map(|(name, state)| (name.to_owned(), state)));
        let display = &diff(&a, &b, true)[2];
        assert_eq!(display.a.as_ref().unwrap().clear().unwrap(), b"localhost:10.0");
        assert_eq!((display.entries_a, display.entries_b), (2, 1));
    }

    #[test]
    fn masked_values_compare_inside_one_snapshot_only() {
        let of = |entries: Vec<Entry>| Environ { entries, overwritten: false };
        let a = of(vec![masked("E", "aa", 3), masked("F", "aa", 3), masked("", "zz", 9)]);
        let b = of(vec![masked("E", "aa", 3), masked("F", "bb", 3)]);
        assert_eq!(states(&a, &b, true), [("E".to_owned(), "same"), ("F".to_owned(), "differs")]);
        assert_eq!(states(&a, &b, false), [("E".to_owned(), "unknown"), ("F".to_owned(), "unknown")]);
        let clear = Environ::parse(b"E=abc\0F=abcd\0");
        assert_eq!(states(&a, &clear, true), [("E".to_owned(), "unknown"), ("F".to_owned(), "differs")]);
    }

    #[test]
    fn state_words_are_the_words_of_the_json() {
        for state in [State::Same, State::Differs, State::OnlyA, State::OnlyB, State::Unknown] {
            assert_eq!(serde_json::to_value(state).unwrap(), state.word());
        }
    }
}
