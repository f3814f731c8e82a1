//! What came and what went between two programs.

use std::collections::BTreeSet;
use std::io;

use schemars::JsonSchema;
use serde::Serialize;

use super::fingerprints::Table;
use super::identify::{self, Identified, identify, look};
use super::ops::{Operation, operations};
use super::read::{ReadAt, pieces};
use super::regions::{self, Kind, Regions};

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
    /// Variables that the second reads from its environment, and whose names are nowhere in the code of the first.
    pub variables_came: Vec<String>,
    /// Variables that the first reads from its environment, and whose names are nowhere in the code of the second.
    pub variables_went: Vec<String>,
    /// Changes of the database schema that the second alone knows.
    pub migrations_came: Vec<String>,
    /// Changes of the database schema that the first alone knows.
    pub migrations_went: Vec<String>,
    /// What could not be compared, and why.
    pub not_compared: Vec<String>,
}

impl Delta {
    /// Whether nothing came and nothing went.
    pub fn is_empty(&self) -> bool {
        *self == Delta { operations_same: self.operations_same, not_compared: self.not_compared.clone(), ..Delta::default() }
    }
}

/// What is compared of a program.
pub struct Side<'f> {
    /// What it is.
    pub identified: Identified,
    code: Regions<'f>,
    operations: BTreeSet<Named>,
    /// Ids of registrations that were not made out.
    unresolved: BTreeSet<String>,
    given_up: bool,
    strings: Vec<(String, u64)>,
    variables: BTreeSet<String>,
}

impl<'f> Side<'f> {
    /// Reads what is compared.
    ///
    /// # Errors
    /// What the system says.
    pub fn read(file: &'f dyn ReadAt, table: &Table) -> io::Result<Side<'f>> {
        let code = Regions::code(file)?;
        let strings = table.strings();
        let seen = look(&code, &strings)?;
        let named = |operation: Operation| Named {
            id: operation.identifier.unwrap_or(operation.id),
            method: operation.method.unwrap_or_default(),
            path: operation.path,
        };
        let operations = operations(file)?;
        Ok(Side {
            identified: identify(file, table)?,
            given_up: operations.given_up,
            unresolved: operations.unresolved.iter().map(|one| one.id.clone()).collect(),
            operations: operations.found.into_iter().map(named).collect(),
            strings: strings.into_iter().map(|string| (string.to_owned(), seen.get(string).map_or(0, |seen| seen.occurrences))).collect(),
            variables: variables(&code)?,
            code,
        })
    }

    /// Those of these names that stand nowhere in the code.
    fn without(&self, names: &BTreeSet<String>) -> io::Result<Vec<String>> {
        let names: Vec<&String> = names.iter().collect();
        let finder = aho_corasick::AhoCorasick::new(&names).map_err(io::Error::other)?;
        // Constants of a compiled program follow each other without anything between.
        let words = self.code.kind() != Kind::Constants;
        let mut there = vec![false; names.len()];
        pieces(&self.code, 0..self.code.length(), 256, |piece| {
            for found in finder.find_overlapping_iter(piece) {
                let goes_on =
                    |at: Option<usize>| at.and_then(|at| piece.get(at)).is_some_and(|byte| is_name(byte) || byte.is_ascii_lowercase());
                let whole = !words || !goes_on(found.start().checked_sub(1)) && !goes_on(Some(found.end()));
                there[found.pattern().as_usize()] |= whole;
            }
            there.iter().all(|there| *there)
        })?;
        Ok(names.into_iter().zip(there).filter(|(_, there)| !there).map(|(name, _)| name.clone()).collect())
    }

    /// The operations of this one that the other has not, where that can be told.
    fn operations_beyond(&self, other: &Side<'_>) -> Vec<Named> {
        let told = |one: &&Named| {
            let id = one.id.strip_prefix("v2.").unwrap_or(&one.id);
            !other.unresolved.iter().any(|unresolved| unresolved.strip_prefix("v2.").unwrap_or(unresolved) == id)
        };
        self.operations.difference(&other.operations).filter(told).cloned().collect()
    }
}

/// What came and what went from `a` to `b`: only what is not in the other at all.
///
/// # Errors
/// What the system says.
pub fn delta(a: &Side<'_>, b: &Side<'_>) -> io::Result<Delta> {
    fn only<C: FromIterator<String>>(this: &BTreeSet<String>, that: &BTreeSet<String>) -> C {
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
    let mut delta = Delta {
        operations_came: b.operations_beyond(a),
        operations_went: a.operations_beyond(b),
        operations_same: a.operations.intersection(&b.operations).count() as u64,
        features: [turned(&a.identified, &b.identified, false), turned(&b.identified, &a.identified, true)].concat(),
        strings: counted.map(|((string, a), (_, b))| Counted { string: string.clone(), a: *a, b: *b }).collect(),
        variables_came: a.without(&only(&b.variables, &a.variables))?,
        variables_went: b.without(&only(&a.variables, &b.variables))?,
        migrations_came: only(&new, &old),
        migrations_went: only(&old, &new),
        not_compared: Vec::new(),
    };
    if a.operations.is_empty() != b.operations.is_empty() || a.given_up || b.given_up {
        (delta.operations_came, delta.operations_went) = Default::default();
        delta.not_compared.push("operations: those of one of the two were not made out, see whoseenv binary ops".to_owned());
    }
    if [a, b].into_iter().any(|side| side.code.kind() == Kind::Lost) {
        delta = Delta { not_compared: vec![format!("nothing of the two: {}", regions::LOST)], ..Delta::default() };
    }
    Ok(delta)
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

fn is_name(byte: &u8) -> bool {
    byte.is_ascii_uppercase() || byte.is_ascii_digit() || *byte == b'_'
}

/// Adds the names of variables in a text.
pub fn names_in(text: &[u8], names: &mut BTreeSet<String>) {
    const READS: [&[u8]; 5] = [b"process.env.", b"process.env[\"", b"Bun.env.", b"Bun.env[\"", b"import.meta.env."];
    const PREFIXES: [&[u8]; 2] = [b"OPENCODE_", b"ZEROCLAW_"];
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
            file
        };
        fn read(file: &Vec<u8>) -> Side<'_> {
            Side::read(file, &Table::built_in()).unwrap()
        }
        let a = made(&[r#"d.get("zoo.list","/zoo",{success:x});process.env.OPENCODE_OLD;"<task id=""#]);
        let b = made(&[
            r#"d.get("zoo.list","/zoo",{success:x});d.post("zoo.feed","/zoo/feed",{success:x});process.env.OPENCODE_NEW;"20260716020354_kv""#,
        ]);
        let (a, b) = (read(&a), read(&b));
        let found = delta(&a, &b).unwrap();
        assert_eq!(found.operations_came, [Named { id: "zoo.feed".to_owned(), method: "POST".to_owned(), path: "/zoo/feed".to_owned() }]);
        assert_eq!((found.operations_went.len(), found.operations_same), (0, 1));
        assert_eq!((found.variables_came, found.variables_went), (vec!["OPENCODE_NEW".to_owned()], vec!["OPENCODE_OLD".to_owned()]));
        assert_eq!(found.migrations_came, ["20260716020354_kv"]);
        let turned: Vec<_> = found.features.iter().map(|feature| (feature.id.as_str(), feature.present)).collect();
        assert_eq!(turned, [("envelope.task", false)]);
        assert_eq!(found.strings, [Counted { string: "<task id=".to_owned(), a: 1, b: 0 }]);
        assert!(delta(&a, &a).unwrap().is_empty());
    }

    #[test]
    fn a_name_that_still_stands_there_did_not_go() {
        let made = |source: &str| {
            let mut file = made_elf(&[(".rodata", b"process.env.RUNTIME")]);
            file.extend_from_slice(&made_payload("--user-agent=opencode/1.0.0 --", &[source]));
            file
        };
        let old = made("process.env.HTTP_PROXY,process.env.XDG_A,process.env.KEY,process.env.GONE,process.env.RUNTIME");
        let new = made(r#"process?.env?.HTTP_PROXY,U.XDG_A||"";{env:["KEY"]};x.GONE_NOT,NOT_GONE,GONEs"#);
        let table = Table::built_in();
        let (a, b) = (Side::read(&old, &table).unwrap(), Side::read(&new, &table).unwrap());
        let found = delta(&a, &b).unwrap();
        assert_eq!(found.variables_went, ["GONE", "RUNTIME"]);
        assert_eq!(delta(&b, &a).unwrap().variables_came, ["GONE", "RUNTIME"]);
    }
}
