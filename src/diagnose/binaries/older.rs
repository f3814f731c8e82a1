//! The programs that are older than a database that they would open: `doctor --binaries` and `db audit --binaries`.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::identity;
use super::inventory::{Binary, Inventory, Known, find};
use super::places::BY_VARIABLE;
use crate::agent;
use crate::binary::identify::Identified;
use crate::binary::migrations::lacking;
use crate::binary::product::OPENCODE;
use crate::diagnose::db::Store;
use crate::host::{Fact, Host, Unknown, View};
use crate::report::Progress;
use crate::store::{Refusal, Tables, migrations};
use crate::verdict::registry::BINARY_OLDER_THAN_DATABASE;
use crate::verdict::{Evidence, Finding, How, Outcome};

/// A database that is newer than a program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Older {
    /// The database.
    pub database: String,
    /// The changes that it has and the program does not know, in order of time.
    pub lacking: Vec<String>,
}

/// A database, with the changes that were made to its schema.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Database {
    /// Where it is.
    pub path: String,
    /// The names of the changes that were made to it, as its host keeps them.
    pub migrations: Vec<String>,
    /// It has tables: a host has begun to use it.
    pub tables: bool,
}

/// What `doctor --binaries` adds.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct Data {
    /// Every program that was found, by path.
    pub binaries: Vec<Binary>,
    /// The databases that were read.
    pub databases: Vec<DatabaseData>,
}

/// A database, as JSON has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct DatabaseData {
    /// Where it is.
    pub path: String,
    /// How many changes were made to its schema.
    pub migrations: u64,
    /// The last of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_migration: Option<String>,
}

/// What `--binaries` comes to.
#[derive(Clone, Debug, Default)]
pub struct Examined {
    /// The answer.
    pub data: Data,
    /// The programs that are older than a database, and those whose version disagrees with their code.
    pub findings: Vec<Finding>,
    /// What could not be looked at, in words.
    pub notes: Vec<String>,
    /// Something could not be looked at that was asked about.
    pub undetermined: bool,
}

/// Finds the programs and reads the databases that they would open.
///
/// # Errors
/// When the processes of the machine cannot be listed.
pub fn examine(host: &Host) -> Fact<Examined> {
    let Some(mut inventory) = found(host)? else { return Ok(Examined::of_a_snapshot()) };
    let (mut databases, mut undetermined) = (Vec::new(), false);
    for path in std::mem::take(&mut inventory.databases) {
        match read(&Store::at(path, "an account's place for it")) {
            Ok(Some(database)) => databases.push(database),
            Ok(None) => {}
            Err(why) => {
                undetermined = true;
                inventory.notes.push(why);
            }
        }
    }
    let mut findings = join(host, &mut inventory.binaries, &databases);
    let disagreement = |known: &Known| identity::disagreement(host, &known.binary.path, &known.identified);
    findings.extend(inventory.binaries.iter().filter_map(disagreement));
    let database = |database: Database| DatabaseData {
        migrations: database.migrations.len() as u64,
        last_migration: database.migrations.iter().max().cloned(),
        path: database.path,
    };
    let data = Data {
        binaries: inventory.binaries.into_iter().map(|known| known.binary).collect(),
        databases: databases.into_iter().map(database).collect(),
    };
    Ok(Examined { data, findings, undetermined, notes: inventory.notes })
}

/// Finds the programs, and those of them that are older than this database and would open it.
///
/// # Errors
/// When the processes of the machine cannot be listed.
pub fn examine_for(host: &Host, store: &Store) -> Fact<Examined> {
    let Some(mut inventory) = found(host)? else { return Ok(Examined::of_a_snapshot()) };
    let mut undetermined = false;
    let database = read(store).unwrap_or_else(|why| {
        undetermined = true;
        inventory.notes.push(why);
        None
    });
    // What another namespace calls so is another file.
    let ours = store.view.mount.is_none();
    let same = |path: &str| ours && (path == store.shown() || is_same(host, path.as_bytes(), store.path.as_bytes()));
    for known in &mut inventory.binaries {
        if known.databases.iter().any(|path| same(path)) {
            known.databases = BTreeSet::from([store.shown()]);
        } else {
            known.databases.clear();
        }
    }
    if inventory.binaries.iter().all(|known| known.databases.is_empty()) {
        inventory.notes.push(format!("none of the programs found here would open {}: none was compared with it", store.shown()));
    }
    let findings = join(host, &mut inventory.binaries, database.as_slice());
    let data = Data { binaries: inventory.binaries.into_iter().map(|known| known.binary).collect(), databases: Vec::new() };
    Ok(Examined { data, findings, undetermined, notes: inventory.notes })
}

/// Whether two paths are one file.
fn is_same(host: &Host, one: &[u8], other: &[u8]) -> bool {
    let inode = |path| host.path(View::OURS, path).ok().map(|fact| fact.inode);
    inode(one).is_some_and(|inode_of_one| inode(other) == Some(inode_of_one))
}

/// None of a snapshot, which holds no programs.
fn found(host: &Host) -> Fact<Option<Inventory>> {
    match find(host) {
        Err(Unknown::NotCaptured) => Ok(None),
        found => found.map(Some),
    }
}

impl Examined {
    fn of_a_snapshot() -> Examined {
        let notes = vec!["a snapshot holds no programs: --binaries can look at none".to_owned()];
        Examined { notes, undetermined: true, ..Examined::default() }
    }
}

/// The changes that were made to a database; none where there is no database.
fn read(store: &Store) -> Result<Option<Database>, String> {
    let used = |tables: &Tables| tables.has("session") || tables.has("session_v2");
    let names = store.ask(&Progress::hidden(), |opened, tables| Ok((migrations::names(&opened.conn, tables)?, used(tables))));
    match names {
        Ok((names, tables)) => Ok(Some(Database { path: store.shown(), migrations: names.into_iter().collect(), tables })),
        // A host that starts makes the file first.
        Err(Refusal::Empty) => Ok(Some(Database { path: store.shown(), migrations: Vec::new(), tables: false })),
        Err(Refusal::Unknown(Unknown::Absent)) => Ok(None),
        Err(refusal) => Err(format!("{}: {refusal}", store.shown())),
    }
}

/// Marks the programs that are older than a database that they would open, and says so.
///
/// A program is older where the database has changes that it does not know, whatever the two call themselves.
pub fn join(host: &Host, binaries: &mut [Known], databases: &[Database]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for known in binaries {
        if known.identified.product.as_deref() != Some(OPENCODE) || keeps_files(&known.identified) {
            continue;
        }
        for database in databases {
            if !known.databases.contains(&database.path) {
                continue;
            }
            let lacking = lacking(&known.identified.migrations, &database.migrations);
            let [knows, made] = [&known.identified.migrations, &database.migrations].map(|names| !names.is_empty());
            // A list that may have come from elsewhere in the file says nothing.
            let knows = knows && known.identified.doubt.is_none();
            match (knows, made) {
                (true, true) if lacking.is_empty() => {}
                (true, true) => {
                    findings.push(older(host, known, database, &lacking));
                    known.binary.older_than.push(Older { database: database.path.clone(), lacking });
                }
                // An empty list is one that was not understood: it does not say that nothing is lacking.
                (_, false) if !database.tables => {}
                (knows, _) => {
                    findings.push(not_compared(host, &known.binary, database, knows));
                    known.binary.not_compared.push(database.path.clone());
                }
            }
        }
    }
    findings
}

/// Its code names no database: releases before 1.2 keep sessions in files (1.0.0, 1.1.27 and 1.1.56 have no `opencode.db`).
fn keeps_files(identified: &Identified) -> bool {
    let names = ["database.opencode_db", "database.channel", "database.path"];
    identified.migrations.is_empty() && !identified.features.is_empty() && !names.into_iter().any(|feature| identified.has(feature))
}

fn not_compared(host: &Host, binary: &Binary, database: &Database, knows: bool) -> Finding {
    let version = binary.version_string.as_deref().unwrap_or("of no stated version");
    let (source, detail) = match knows {
        true => (&database.path, "the tables migration and __drizzle_migrations list no change of a known form"),
        false => (&binary.path, "its code lists no change of the schema in a known form"),
    };
    let message = format!("whether {} {version} is older than {} is not known: {detail}", binary.product, database.path);
    let evidence = Evidence { source: source.clone(), how: How::Passive, at: host.machine().taken_at(), detail: detail.to_owned() };
    let fix = format!(
        "ask what made the database last, and compare the versions: whoseenv db info --db {}",
        agent::quote(database.path.as_bytes())
    );
    Finding::new(&BINARY_OLDER_THAN_DATABASE, Outcome::Undetermined, &binary.path, message).evidence([evidence]).fix(vec![fix])
}

fn older(host: &Host, known: &Known, database: &Database, lacking: &[String]) -> Finding {
    let binary = &known.binary;
    let version = binary.version_string.as_deref().unwrap_or("of no stated version");
    let (first, count) = (lacking.first().map(String::as_str).unwrap_or_default(), lacking.len());
    let message = format!(
        "{} {version} lacks {count} of the changes that were made to {}, the first of them {first}: a newer version made them",
        binary.product, database.path
    );
    let saw =
        |source: &str, detail: String| Evidence { source: source.to_owned(), how: How::Passive, at: host.machine().taken_at(), detail };
    let last = |names: &[String]| names.iter().max().cloned().unwrap_or_default();
    let evidence = [
        saw(
            &binary.path,
            format!("its code knows {} changes, the last {}", binary.migrations, binary.last_migration.clone().unwrap_or_default()),
        ),
        saw(
            &format!("{}, tables migration and __drizzle_migrations", database.path),
            format!("{} changes were made, the last {}", database.migrations.len(), last(&database.migrations)),
        ),
    ];
    let program = agent::quote(binary.path.trim_end_matches(" (deleted)").as_bytes());
    let mut fix = vec![format!("bring it up to the version that made them, or remove it: {program}")];
    let own = format!("$HOME/opencode-{}", binary.version_string.as_deref().unwrap_or("old"));
    fix.push(match known.identified.has(BY_VARIABLE) {
        true => format!("to use it as it is, give it a database of its own: OPENCODE_DB=\"{own}.db\" {program}"),
        // It would open the same one all the same (1.2.27).
        false => {
            format!("to use it as it is, give it data of its own, since it does not know OPENCODE_DB: XDG_DATA_HOME=\"{own}\" {program}")
        }
    });
    Finding::new(&BINARY_OLDER_THAN_DATABASE, Outcome::Confirmed, &binary.path, message).evidence(evidence).fix(fix)
}

#[cfg(test)]
mod tests {
    use super::super::inventory::row;
    use super::*;

    const DATABASE: &str = "/home/u/.local/share/opencode/opencode.db";

    fn known(version: &str, migrations: &[&str], channel: bool) -> Known {
        let feature = crate::binary::identify::Feature {
            id: "database.channel".to_owned(),
            title: String::new(),
            present: channel,
            evidence: Vec::new(),
        };
        let identified = Identified {
            product: Some(OPENCODE.to_owned()),
            version_string: Some(version.to_owned()),
            features: vec![feature],
            migrations: migrations.iter().map(|name| (*name).to_owned()).collect(),
            ..Identified::default()
        };
        let databases = BTreeSet::from([DATABASE.to_owned()]);
        Known { binary: row("/opt/opencode", &identified), identified, databases }
    }

    #[test]
    fn r07_a_program_is_older_where_the_database_has_changes_that_it_does_not_know() {
        let host = Host::at_root("/nonexistent");
        let database = |path: &str, names: &[&str]| Database {
            path: path.to_owned(),
            migrations: names.iter().map(|name| (*name).to_owned()).collect(),
            tables: true,
        };
        let made = ["20260101000000_a", "20260202000000_b"];
        let mut binaries = [
            known("9.9.9", &made[..1], true),
            known("1.0.0", &made, true),
            known("1.0.1", &[made[0], made[1], "20260303000000_c"], true),
            known("0.0.0-next-1", &made[..1], true),
        ];
        // It has a database of its own.
        binaries[3].databases.clear();
        let others = database("/home/v/.local/share/opencode/opencode.db", &["20260404000000_d"]);
        let findings = join(&host, &mut binaries, &[database(DATABASE, &made), others]);
        assert_eq!(findings.len(), 1, "whatever it calls itself: {findings:?}");
        assert_eq!(binaries[0].binary.older_than[0].lacking, ["20260202000000_b"]);
        assert!(binaries[1..].iter().all(|known| known.binary.older_than.is_empty()));
        assert!(findings[0].message.contains("20260202000000_b") && findings[0].message.contains("9.9.9"));
    }

    #[test]
    fn r07_an_empty_list_does_not_say_that_nothing_is_lacking() {
        let host = Host::at_root("/nonexistent");
        let database = |names: &[&str], tables| Database {
            path: DATABASE.to_owned(),
            migrations: names.iter().map(|name| (*name).to_owned()).collect(),
            tables,
        };
        // A program whose code lists none, a database that lists none, a database that nobody uses yet, and a release that keeps files.
        for (program, database, undetermined) in [
            (known("1.2.9", &[], true), database(&["20260101000000_a"], true), true),
            (known("1.2.9", &["20260101000000_a"], true), database(&[], true), true),
            (known("1.2.9", &["20260101000000_a"], true), database(&[], false), false),
            (known("1.0.0", &[], false), database(&["20260101000000_a"], true), false),
        ] {
            let mut binaries = [program];
            let findings = join(&host, &mut binaries, &[database]);
            assert!(binaries[0].binary.older_than.is_empty());
            assert_eq!(binaries[0].binary.not_compared, if undetermined { vec![DATABASE] } else { Vec::new() });
            assert_eq!(findings.len(), usize::from(undetermined));
            assert!(findings.iter().all(|finding| finding.outcome == Outcome::Undetermined && finding.message.contains("is not known")));
        }
    }
}
