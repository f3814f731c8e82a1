//! What came and what went between two programs.

use std::collections::BTreeSet;
use std::io;

use schemars::JsonSchema;
use serde::Serialize;

use super::fingerprints::Table;
use super::identify::{self, Identified, identify, look};
use super::ops::{Operation, operations};
use super::read::{ReadAt, pieces};
use super::regions::Regions;

/// An operation, without its place in the file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
pub struct Named {
    /// Its id: the one of the contract, where the code gives one.
    pub id: String,
    /// `GET`, `POST`, …; empty where the code does not tell.
    pub method: String,
    /// The path.
    pub path: String,
}

/// A feature that one has and the other has not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Turned {
    /// Its id in the table.
    pub id: String,
    /// What it is.
    pub title: String,
    /// Whether the second has it.
    pub present: bool,
    /// What proves it, in the one that has it.
    pub evidence: Vec<identify::Seen>,
}

/// How often a string of the table is in the code of each.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Counted {
    /// The string.
    pub string: String,
    /// How often in the first.
    pub a: u64,
    /// How often in the second.
    pub b: u64,
}

/// What came and what went.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Delta {
    /// Operations of the second alone.
    pub operations_came: Vec<Named>,
    /// Operations of the first alone.
    pub operations_went: Vec<Named>,
    /// Operations of both.
    pub operations_same: u64,
    /// Features that one of them has.
    pub features: Vec<Turned>,
    /// Strings of the table that are not equally often in both.
    pub strings: Vec<Counted>,
    /// Variables that the code of the second alone names.
    pub variables_came: Vec<String>,
    /// Variables that the code of the first alone names.
    pub variables_went: Vec<String>,
    /// Changes of the database schema that the second alone knows.
    pub migrations_came: Vec<String>,
    /// Changes of the database schema that the first alone knows.
    pub migrations_went: Vec<String>,
}

impl Delta {
    /// Whether nothing came and nothing went.
    pub fn is_empty(&self) -> bool {
        *self == Delta { operations_same: self.operations_same, ..Delta::default() }
    }
}

/// What is compared of a program.
pub struct Side {
    /// What it is.
    pub identified: Identified,
    operations: BTreeSet<Named>,
    strings: Vec<(String, u64)>,
    variables: BTreeSet<String>,
}

impl Side {
    /// Reads what is compared.
    ///
    /// # Errors
    /// What the system says.
    pub fn read(file: &dyn ReadAt, table: &Table) -> io::Result<Side> {
        let code = Regions::code(file)?;
        let strings = table.strings();
        let seen = look(&code, &strings)?;
        let named = |operation: Operation| Named {
            id: operation.identifier.unwrap_or(operation.id),
            method: operation.method.unwrap_or_default(),
            path: operation.path,
        };
        Ok(Side {
            identified: identify(file, table)?,
            operations: operations(file)?.found.into_iter().map(named).collect(),
            strings: strings.into_iter().map(|string| (string.to_owned(), seen.get(string).map_or(0, |seen| seen.occurrences))).collect(),
            variables: variables(&code)?,
        })
    }
}

/// What came and what went from `a` to `b`.
pub fn delta(a: &Side, b: &Side) -> Delta {
    fn only<T: Ord + Clone>(this: &BTreeSet<T>, that: &BTreeSet<T>) -> Vec<T> {
        this.difference(that).cloned().collect()
    }
    let [old, new] = [a, b].map(|side| side.identified.migrations.iter().cloned().collect::<BTreeSet<String>>());
    let turned = |here: &Identified, there: &Identified, present: bool| {
        let missing = here.features.iter().filter(|feature| feature.present && !there.has(&feature.id));
        let turned = |feature: &identify::Feature| Turned {
            id: feature.id.clone(),
            title: feature.title.clone(),
            present,
            evidence: feature.evidence.iter().filter(|seen| seen.occurrences > 0).cloned().collect(),
        };
        missing.map(turned).collect::<Vec<_>>()
    };
    let counted = a.strings.iter().zip(&b.strings).filter(|((_, a), (_, b))| a != b);
    Delta {
        operations_came: only(&b.operations, &a.operations),
        operations_went: only(&a.operations, &b.operations),
        operations_same: a.operations.intersection(&b.operations).count() as u64,
        features: [turned(&a.identified, &b.identified, false), turned(&b.identified, &a.identified, true)].concat(),
        strings: counted.map(|((string, a), (_, b))| Counted { string: string.clone(), a: *a, b: *b }).collect(),
        variables_came: only(&b.variables, &a.variables),
        variables_went: only(&a.variables, &b.variables),
        migrations_came: only(&new, &old),
        migrations_went: only(&old, &new),
    }
}

/// Names of variables in this code: what JavaScript reads from its environment, and every name with a product's prefix.
fn variables(code: &dyn ReadAt) -> io::Result<BTreeSet<String>> {
    let mut names = BTreeSet::new();
    pieces(code, 0..code.length(), 256, |piece| {
        names_in(piece, &mut names);
        false
    })?;
    Ok(names)
}

/// Adds the names of variables in a text.
pub fn names_in(text: &[u8], names: &mut BTreeSet<String>) {
    const READS: [&[u8]; 5] = [b"process.env.", b"process.env[\"", b"Bun.env.", b"Bun.env[\"", b"import.meta.env."];
    const PREFIXES: [&[u8]; 2] = [b"OPENCODE_", b"ZEROCLAW_"];
    let is_name = |byte: &u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || *byte == b'_';
    let mut add = |at: usize| {
        let rest = &text[at..];
        let length = rest.iter().take(128).take_while(|byte| is_name(byte)).count();
        // A name that goes on in small letters is none; one at the very end may be cut, and comes whole with the next piece.
        let whole = rest.get(length).is_some_and(|byte| !byte.is_ascii_lowercase());
        // `OPENCODE_` alone is the beginning of names.
        if length > 1
            && whole
            && rest[length - 1] != b'_'
            && !rest[0].is_ascii_digit()
            && let Ok(name) = std::str::from_utf8(&rest[..length])
        {
            names.insert(name.to_owned());
        }
    };
    for read in READS {
        memchr::memmem::find_iter(text, read).for_each(|at| add(at + read.len()));
    }
    for prefix in PREFIXES {
        let starts = memchr::memmem::find_iter(text, prefix).filter(|at| at.checked_sub(1).is_none_or(|before| !is_name(&text[before])));
        starts.for_each(&mut add);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::binary::bun::made_payload;
    use crate::binary::elf::made_elf;

    #[test]
    fn names_are_whole_and_read_from_the_environment() {
        let text = br#"process.env.HOME,process.env["XDG_STATE_HOME"],process.env.npm_x,e.OPENCODE_DB;"OPENCODE_",MY_OPENCODE_X OPENCODE_Cut;OPENCODE_END"#;
        let mut names = BTreeSet::new();
        names_in(text, &mut names);
        assert_eq!(names.into_iter().collect::<Vec<_>>(), ["HOME", "OPENCODE_DB", "XDG_STATE_HOME"]);
    }

    #[test]
    fn what_came_and_went_is_told_by_kind() {
        let made = |sources: &[&str]| {
            let mut file = made_elf(&[]);
            file.extend_from_slice(&made_payload("--user-agent=opencode/1.0.0 --", sources));
            Side::read(&file, &Table::built_in()).unwrap()
        };
        let a = made(&[r#"d.get("zoo.list","/zoo",{});process.env.OPENCODE_OLD;"<task id=""#]);
        let b = made(&[r#"d.get("zoo.list","/zoo",{});d.post("zoo.feed","/zoo/feed",{});process.env.OPENCODE_NEW;"20260716020354_kv""#]);
        let found = delta(&a, &b);
        assert_eq!(found.operations_came, [Named { id: "zoo.feed".to_owned(), method: "POST".to_owned(), path: "/zoo/feed".to_owned() }]);
        assert_eq!((found.operations_went.len(), found.operations_same), (0, 1));
        assert_eq!((found.variables_came, found.variables_went), (vec!["OPENCODE_NEW".to_owned()], vec!["OPENCODE_OLD".to_owned()]));
        assert_eq!(found.migrations_came, ["20260716020354_kv"]);
        let turned: Vec<_> = found.features.iter().map(|feature| (feature.id.as_str(), feature.present)).collect();
        assert_eq!(turned, [("envelope.task", false)]);
        assert_eq!(found.strings, [Counted { string: "<task id=".to_owned(), a: 1, b: 0 }]);
        assert!(delta(&a, &a).is_empty());
    }
}
