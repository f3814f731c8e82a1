//! A host whose disk is full does what it can: what it fails at is neither refused nor absent.

use std::collections::BTreeMap;
use std::path::Path;

use super::{Room, contract_host, evidence, outcomes, python, with_outcome};
use crate::small_disk::SmallDisk;
use crate::world::accounts;
use crate::world::peers;

/// What the real hosts answer by the reference, for the claims that they have an answer to.
fn answers(letter: char, confirmed: &[u32], other: &str, others: &[u32]) -> BTreeMap<String, String> {
    let all = |numbers: &[u32], word: &str| numbers.iter().map(|number| (format!("{letter}{number}"), word.to_owned())).collect::<Vec<_>>();
    all(confirmed, "confirmed").into_iter().chain(all(others, other)).collect()
}

fn as_known_or_undetermined(host: &str, program: &Path, size: &str, known: &BTreeMap<String, String>) -> Option<usize> {
    let room = Room::new();
    let small = SmallDisk::mounted(room.path(), size)?;
    let mut command = room.command(&["probe", host, "--json", "--timeout", "8", "--spawn", program.to_str().unwrap()]);
    let ran = crate::run::ran(command.env("TMPDIR", small.path()));
    let json = ran.json();
    let all = outcomes(&json);
    assert_eq!(all.len(), 14);
    for (id, outcome) in &all {
        let fits = outcome == "undetermined" || Some(outcome) == known.get(id);
        assert!(fits, "{host} with {size}: {id} is {outcome}: {}", evidence(&json, id));
    }
    assert_eq!(small.entries(), 0, "{host} with {size} left something");
    Some(all.values().filter(|outcome| *outcome != "undetermined").count())
}

#[test]
fn no_verdict_of_zeroclaw_comes_from_a_full_disk() {
    let program = need!(peers::zeroclaw());
    need!(accounts::possible());
    let known = answers('Z', &[1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 13, 14], "refuted", &[10]);
    let judged = ["64k", "256k", "1m", "2m", "8m", "40m"].map(|size| as_known_or_undetermined("zeroclaw", &program, size, &known));
    if judged[0].is_none() {
        skip!("no tmpfs can be mounted here");
    }
    assert_eq!(judged[5], Some(14), "with 40m there is room for all");
}

#[test]
fn no_verdict_of_opencode_comes_from_a_full_disk() {
    let (v1, preview) = (need!(peers::opencode_v1()), need!(peers::opencode_preview()));
    need!(accounts::possible());
    let known = answers('O', &[1, 2, 7, 10, 13], "not_supported", &[3, 4, 5, 6, 8, 9, 11, 12, 14]);
    for size in ["256k", "2m", "8m"] {
        for program in [&v1, &preview] {
            if as_known_or_undetermined("opencode", program, size, &known).is_none() {
                skip!("no tmpfs can be mounted here");
            }
        }
    }
}

/// A 500 is no refusal of an unknown session, and no missing fork.
#[test]
fn an_internal_error_is_neither_a_refusal_nor_a_missing_route() {
    need!(python());
    let room = Room::new();
    let dir = tempfile::tempdir().unwrap();
    let host = contract_host(dir.path(), &["internal"]);
    let json = room.run(&["probe", "opencode", "--json", "--spawn", host.to_str().unwrap()]).json();
    assert_eq!(with_outcome(&json, "undetermined"), ["O9", "O14"], "{json:#}");
    assert_eq!(with_outcome(&json, "confirmed").len(), 12);
    assert!(evidence(&json, "O14").contains("500"), "{}", evidence(&json, "O14"));
}
