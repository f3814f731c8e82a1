//! Every OpenCode and ZeroClaw program that is found on a machine, and the ones that are older than the database they would open.
//!
//! Programs are read, never run.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::Serialize;

use super::places::{Account, candidates, databases_of};
use super::{database, identity, shown};
use crate::agent::{self, AgentProcess, Role};
use crate::binary::identify::Identified;
use crate::binary::migrations::lacking;
use crate::binary::product::{OPENCODE, ZEROCLAW};
use crate::binary::read::Program;
use crate::host::{Fact, Host, Pid, Raw, Unknown, View};
use crate::verdict::registry::BINARY_OLDER_THAN_DATABASE;
use crate::verdict::{Evidence, Finding, How, Outcome};

/// A program that was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Binary {
    /// Where it is, links followed by whoever starts it.
    pub path: String,
    /// Where it was found: `running`, `path`, `npm`, `home`.
    pub found: Vec<String>,
    /// Processes that run it.
    pub pids: Vec<Pid>,
    /// Id of the product.
    pub product: String,
    /// Id of the generation, by its code.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub generation: Option<String>,
    /// The version that it carries.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version_string: Option<String>,
    /// How many changes of the database schema it knows.
    pub migrations: u64,
    /// The last of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_migration: Option<String>,
    /// The databases that it would open and that have changes it does not know.
    pub older_than: Vec<Older>,
}

/// A database that is newer than a program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
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
}

/// A program with what it is.
#[derive(Clone, Debug)]
pub struct Known {
    /// The program.
    pub binary: Binary,
    /// What it is.
    pub identified: Identified,
    /// The databases of the accounts that would start it.
    pub databases: BTreeSet<String>,
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

/// What `doctor --binaries` comes to.
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
    let mut inventory = match find(host) {
        Err(Unknown::NotCaptured) => {
            let notes = vec!["a snapshot holds no programs: --binaries can look at none".to_owned()];
            return Ok(Examined { notes, undetermined: true, ..Examined::default() });
        }
        other => other?,
    };
    let (mut databases, mut undetermined) = (Vec::new(), false);
    for path in &inventory.databases {
        match database::read(path.as_path()) {
            Ok(database) => databases.push(database),
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

/// Which of the programs a file is, by device and inode; none where it is no program of the table.
type Seen = BTreeMap<(u64, u64), Option<usize>>;

/// What was found, and what could not be looked at.
#[derive(Clone, Debug, Default)]
pub struct Inventory {
    /// The programs, by path.
    pub binaries: Vec<Known>,
    /// What could not be looked at, in words.
    pub notes: Vec<String>,
    /// The databases of the accounts concerned that may be there: paths.
    pub databases: Vec<Raw>,
}

/// Finds the programs: those that run, and those where this terminal and the daemons' users would start them from.
///
/// # Errors
/// When the processes of the machine cannot be listed; [`Unknown::NotCaptured`] on a snapshot, which holds no programs.
pub fn find(host: &Host) -> Fact<Inventory> {
    if host.is_captured() {
        return Err(Unknown::NotCaptured);
    }
    let mut inventory = Inventory::default();
    let mut seen = Seen::new();
    let agents: Vec<AgentProcess> = agent::discover(host)?;
    let ours = |process: &&AgentProcess| [OPENCODE, ZEROCLAW].contains(&process.agent.as_str());
    let runs = |process: &&AgentProcess| matches!(process.role, Role::Daemon | Role::Client) && process.is_certain();
    let running: Vec<&AgentProcess> = agents.iter().filter(ours).filter(runs).collect();
    let mut all = BTreeSet::new();
    for process in &running {
        let pid = process.stat.pid;
        let handle = host.process(pid);
        let path = process.exe.as_ref().map_or_else(|_| format!("/proc/{pid}/exe"), |exe| shown(&exe.shown()));
        let opened = host.open_program(pid).and_then(|file| Ok(Program::new(file)?));
        // Where its environment may not be read, nobody knows what it opens.
        let environ = handle.environ().ok();
        let account = environ.as_ref().map(|environ| Account { environ, view: handle.view().unwrap_or_default() });
        let databases = account.as_ref().map(|account| databases_of(host, account)).unwrap_or_default();
        inventory.add(&mut seen, Place { path: &path, how: "running", pid: Some(pid), databases: &databases }, opened);
        all.extend(databases);
        if let Some(account) = account {
            inventory.below(host, &mut seen, &account);
        }
    }
    if let Some(environ) = host.terminal().ok().and_then(|terminal| terminal.environ.as_ref().ok()) {
        let account = Account { environ, view: View::OURS };
        all.extend(databases_of(host, &account));
        inventory.below(host, &mut seen, &account);
    }
    inventory.databases = all.into_iter().collect();
    inventory.binaries.sort_by(|a, b| a.binary.path.cmp(&b.binary.path));
    Ok(inventory)
}

/// Where a program was found.
struct Place<'p> {
    path: &'p str,
    how: &'p str,
    pid: Option<Pid>,
    databases: &'p [Raw],
}

impl Inventory {
    /// The programs that an account would start.
    fn below(&mut self, host: &Host, seen: &mut Seen, account: &Account<'_>) {
        let databases = databases_of(host, account);
        for (path, how) in candidates(host, account) {
            let opened = host.open_file(account.view, &path).and_then(|file| Ok(Program::new(file)?));
            self.add(seen, Place { path: &shown(&path), how, pid: None, databases: &databases }, opened);
        }
    }

    fn add(&mut self, seen: &mut Seen, place: Place<'_>, opened: Fact<Program>) {
        let Place { path, how, pid, databases } = place;
        let program = match opened {
            Ok(program) => program,
            Err(Unknown::NotPermitted | Unknown::Deadline) => {
                let note = format!("{path} may not be read from this account: what it is, is not known");
                if !self.notes.contains(&note) {
                    self.notes.push(note);
                }
                return;
            }
            Err(_) => return,
        };
        let Ok(key) = program.inode() else { return };
        let index = *seen.entry(key).or_insert_with(|| match identity::of(&program, path) {
            Ok(identified @ Identified { product: Some(_), .. }) => {
                self.binaries.push(Known { binary: row(path, &identified), identified, databases: BTreeSet::new() });
                Some(self.binaries.len() - 1)
            }
            Ok(_) => None,
            Err(problem) => {
                self.notes.push(problem.message);
                None
            }
        });
        if let Some(known) = index.and_then(|index| self.binaries.get_mut(index)) {
            known.binary.pids.extend(pid);
            known.databases.extend(databases.iter().map(|path| shown(path.as_bytes())));
            if !known.binary.found.iter().any(|known| known == how) {
                known.binary.found.push(how.to_owned());
            }
        }
    }
}

fn row(path: &str, identified: &Identified) -> Binary {
    Binary {
        path: path.to_owned(),
        found: Vec::new(),
        pids: Vec::new(),
        product: identified.product.clone().unwrap_or_default(),
        generation: identified.generation.clone(),
        version_string: identified.version_string.clone(),
        migrations: identified.migrations.len() as u64,
        last_migration: identified.migrations.last().cloned(),
        older_than: Vec::new(),
    }
}

/// The name of the database that a program would open in its user's directory, where nothing in the environment says another.
///
/// A channel that is not released has its own: next-16350 opens `opencode-next.db` (seen), 1.18.34 `opencode.db` (seen).
pub fn database_of(identified: &Identified) -> Option<String> {
    if identified.product.as_deref() != Some(OPENCODE) {
        return None;
    }
    let channel = identified.version_string.as_deref().and_then(|version| version.strip_prefix("0.0.0-")?.split('-').next());
    Some(match channel {
        Some(channel) if identified.has("database.channel") && !matches!(channel, "latest" | "beta" | "prod") => {
            format!("opencode-{channel}.db")
        }
        _ => "opencode.db".to_owned(),
    })
}

/// Marks the programs that are older than a database that they would open, and says so.
///
/// A program is older where the database has changes that it does not know, whatever the two call themselves.
pub fn join(host: &Host, binaries: &mut [Known], databases: &[Database]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for known in binaries {
        let Some(name) = database_of(&known.identified) else { continue };
        for database in databases {
            let file = database.path.rsplit('/').next().unwrap_or_default();
            // A database of a name of its own is opened by whoever is told to.
            let opens = file == name || !file.starts_with("opencode");
            let lacking = lacking(&known.identified.migrations, &database.migrations);
            if !known.databases.contains(&database.path) || !opens || lacking.is_empty() || known.identified.migrations.is_empty() {
                continue;
            }
            findings.push(older(host, &known.binary, database, &lacking));
            known.binary.older_than.push(Older { database: database.path.clone(), lacking });
        }
    }
    findings
}

fn older(host: &Host, binary: &Binary, database: &Database, lacking: &[String]) -> Finding {
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
    fix.push(format!("to use it as it is, give it a database of its own: OPENCODE_DB=\"$HOME/opencode-{version}.db\" {program}"));
    Finding::new(&BINARY_OLDER_THAN_DATABASE, Outcome::Confirmed, &binary.path, message).evidence(evidence).fix(fix)
}

#[cfg(test)]
mod tests {
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
    fn the_database_follows_from_the_channel() {
        let of = |version, channel| database_of(&known(version, &[], channel).identified).unwrap();
        assert_eq!(of("1.18.34", true), "opencode.db");
        assert_eq!(of("0.0.0-next-16350", true), "opencode-next.db");
        assert_eq!(of("0.0.0-beta-7", true), "opencode.db");
        assert_eq!(of("0.0.0-next-16350", false), "opencode.db");
    }

    #[test]
    fn r07_a_program_is_older_where_the_database_has_changes_that_it_does_not_know() {
        let host = Host::at_root("/nonexistent");
        let database = |path: &str, names: &[&str]| Database {
            path: path.to_owned(),
            migrations: names.iter().map(|name| (*name).to_owned()).collect(),
        };
        let made = ["20260101000000_a", "20260202000000_b"];
        let mut binaries = [
            known("9.9.9", &made[..1], true),
            known("1.0.0", &made, true),
            known("1.0.1", &[made[0], made[1], "20260303000000_c"], true),
            known("0.0.0-next-1", &made[..1], true),
            known("1.0.2", &[], true),
        ];
        let others = database("/home/v/.local/share/opencode/opencode.db", &["20260404000000_d"]);
        let findings = join(&host, &mut binaries, &[database(DATABASE, &made), others]);
        assert_eq!(findings.len(), 1, "whatever it calls itself: {findings:?}");
        assert_eq!(binaries[0].binary.older_than[0].lacking, ["20260202000000_b"]);
        assert!(binaries[1..].iter().all(|known| known.binary.older_than.is_empty()));
        assert!(findings[0].message.contains("20260202000000_b") && findings[0].message.contains("9.9.9"));
    }
}
