//! Probes, against real hosts and the contract host. What comes out is what the reference for probes says, literally.

mod bad_hosts;
mod contract;
mod exec;
mod exec_shown;
mod full_disk;
mod live;
mod live_ends;
mod nature;
mod old_v1;
mod opencode;
mod people;
mod plans;
mod reports;
mod signals;
mod told;
mod user_manager;
mod v1_live;
mod zeroclaw;

use std::collections::BTreeMap;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::run::{PROGRAM, Ran, ran};

/// Where a probe may make things; nothing may be left in it.
pub struct Room(tempfile::TempDir);

impl Room {
    pub fn new() -> Room {
        Room(tempfile::Builder::new().prefix("wp-").tempdir_in("/tmp").expect("a directory in /tmp"))
    }

    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// `whoseenv probe …` with its temporary files in here.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(PROGRAM);
        command.args(arguments).env_clear().env("PATH", "/usr/bin:/bin").env("HOME", "/nonexistent").env("TMPDIR", self.path());
        command.env("DISPLAY", ":canary-of-the-asker").stdin(std::process::Stdio::null());
        command
    }

    /// Runs it, and sees that nothing is left of it.
    pub fn run(&self, arguments: &[&str]) -> Ran {
        let ran = ran(&mut self.command(arguments));
        self.is_empty();
        ran
    }

    /// That nothing is left.
    pub fn is_empty(&self) {
        let left: Vec<_> = std::fs::read_dir(self.path()).unwrap().flatten().map(|entry| entry.path()).collect();
        assert_eq!(left, Vec::<PathBuf>::new(), "a probe left something");
    }
}

/// The contract host, with these faults: a program that can be spawned like a real one.
pub fn contract_host(dir: &Path, faults: &[&str]) -> PathBuf {
    let host = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/world/contract_host/opencode.py");
    let faults: String = faults.iter().map(|fault| format!(" --fault {fault}")).collect();
    let script = crate::run::write(
        dir,
        "contract-host",
        format!("#!/bin/sh\nexec /usr/bin/python3 {}{faults} --test {} \"$@\"\n", host.display(), dir.display()).as_bytes(),
    );
    std::fs::set_permissions(&script, Permissions::from_mode(0o755)).unwrap();
    script
}

/// Python, which the contract host is written in.
pub fn python() -> crate::world::Needed<()> {
    match Path::new("/usr/bin/python3").exists() {
        true => Ok(()),
        false => crate::world::Missing::new("the contract host needs /usr/bin/python3 (Debian: python3)"),
    }
}

/// Outcome by claim.
pub fn outcomes(json: &Value) -> BTreeMap<String, String> {
    let claims = json["data"]["claims"].as_array().unwrap_or_else(|| panic!("no claims in {json}"));
    claims.iter().map(|claim| (claim["id"].as_str().unwrap().to_owned(), claim["outcome"].as_str().unwrap().to_owned())).collect()
}

/// The claims with this outcome, sorted by number.
pub fn with_outcome(json: &Value, outcome: &str) -> Vec<String> {
    let mut ids: Vec<String> = outcomes(json).into_iter().filter(|(_, found)| found == outcome).map(|(id, _)| id).collect();
    ids.sort_by_key(|id| id[1..].parse::<u32>().unwrap_or(0));
    ids
}

/// All evidence of a claim, one string.
pub fn evidence(json: &Value, id: &str) -> String {
    let claims = json["data"]["claims"].as_array().unwrap();
    let claim = claims.iter().find(|claim| claim["id"] == id).unwrap_or_else(|| panic!("no claim {id}"));
    let lines = claim["evidence"].as_array().unwrap().iter();
    lines.map(|line| format!("{}: {}\n", line["source"].as_str().unwrap(), line["detail"].as_str().unwrap())).collect()
}

/// `O1, O2` as words.
pub fn ids(letter: char, numbers: &[u32]) -> Vec<String> {
    numbers.iter().map(|number| format!("{letter}{number}")).collect()
}

/// That output fits the schema.
pub fn fits_schema(command: &str, document: &Value) {
    let schema = crate::run::run(&["schema", command]).json();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let wrong: Vec<String> = validator.iter_errors(document).map(|error| format!("{error} at {}", error.instance_path)).collect();
    assert_eq!(wrong, Vec::<String>::new());
}
