//! Every program that is found, and the ones that are older than the database they would open.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rusqlite::{Connection, OpenFlags};
use serde_json::{Value, json};

use crate::run::{Ran, Sleeper, ran, whoseenv};
use crate::world::peers;

/// A home in which a host has made its database, and has ended.
fn home_made_by(program: &Path, args: &[&str], database: &str) -> (tempfile::TempDir, PathBuf) {
    let home = tempfile::tempdir().unwrap();
    let mut command = Command::new(program);
    command.args(args).env_clear().env("PATH", "/usr/bin:/bin").env("HOME", home.path()).current_dir(home.path());
    let path = home.path().join(".local/share/opencode").join(database);
    made(command, &path, None);
    (home, path)
}

/// Runs a host until it has made its database; asked at this port, where it makes it when it is first used.
fn made(mut command: Command, path: &Path, port: Option<u16>) {
    let mut host = Sleeper::of(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()));
    let until = Instant::now() + Duration::from_secs(60);
    let mut last = 0;
    loop {
        let made = migrations(path);
        // All are made in one go; two looks that are alike mean that it is over.
        if made.len() > 5 && made.len() == last {
            break;
        }
        last = made.len();
        assert!(Instant::now() < until, "{command:?} made no database at {}", path.display());
        let called = port.and_then(|port| std::net::TcpStream::connect(("127.0.0.1", port)).ok());
        let asked = called.map(|mut stream| write!(stream, "GET /session HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n").map(|()| stream));
        std::thread::sleep(Duration::from_millis(500));
        drop(asked);
    }
    let pid = rustix::process::Pid::from_child(&host.0);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    host.0.wait().unwrap();
}

fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

fn migrations(path: &Path) -> Vec<String> {
    let Ok(connection) = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY) else { return Vec::new() };
    // Before 1.17 the changes are rows of drizzle's own table, before 1.3 without a name.
    let queries = ["SELECT id FROM migration ORDER BY id", "SELECT CAST(created_at AS TEXT) FROM __drizzle_migrations ORDER BY created_at"];
    let Some(mut query) = queries.into_iter().find_map(|query| connection.prepare(query).ok()) else { return Vec::new() };
    let rows = query.query_map([], |row| row.get::<_, String>(0)).map(|rows| rows.flatten().collect());
    rows.unwrap_or_default()
}

/// The changes of the schema that a host makes in a database of its own.
pub fn migrations_made_by(program: &Path, args: &[&str], database: &str) -> Vec<String> {
    let (_home, path) = home_made_by(program, args, database);
    migrations(&path)
}

/// A copy that only this test has, so that what is found is what it put there.
fn install(program: &Path, place: &Path) {
    fs::create_dir_all(place.parent().unwrap()).unwrap();
    // One that still runs is busy.
    let _ = fs::remove_file(place);
    fs::copy(program, place).unwrap();
    fs::set_permissions(place, fs::Permissions::from_mode(0o755)).unwrap();
}

/// Asks as the terminal of that home would: a shell there, with `doctor` below it.
fn doctor(home: &Path, path: &str, more: &[&str]) -> Ran {
    let mut command = whoseenv(&["doctor", "--binaries"]);
    ran(command.args(more).env("HOME", home).env("PATH", path))
}

fn row<'d>(document: &'d Value, path: &Path) -> Option<&'d Value> {
    let rows = document["data"]["programs"]["binaries"].as_array().unwrap();
    rows.iter().find(|row| row["path"] == json!(path.to_str().unwrap()))
}

/// anomalyco/opencode#49614: "no such column" after a newer version migrated the shared data directory. The database's last
/// migration, every opencode binary found, with the ones older than the database marked.
#[test]
fn r07_the_programs_older_than_the_database_are_named_with_what_they_lack() {
    let (old, new) = (need!(peers::opencode("1.14.48")), need!(peers::opencode_v1()));
    let (home, database) = home_made_by(&new, &["serve", "--port", "0"], "opencode.db");
    let made = migrations(&database);
    let bin = home.path().join("bin");
    let (old_copy, new_copy) = (bin.join("opencode"), home.path().join(".opencode/bin/opencode"));
    let npm = home.path().join("lib/node_modules/opencode-linux-x64/bin/opencode");
    install(&old, &old_copy);
    install(&new, &new_copy);
    install(&new, &npm);
    let before = look(&database);
    let found = doctor(home.path(), bin.to_str().unwrap(), &["--json"]);
    assert_eq!(look(&database), before, "nothing beside it came, went or changed");
    let document = found.json();
    let finding = |path: &Path| {
        let is = |finding: &&Value| finding["id"] == "binary.older_than_database" && finding["subject"] == json!(path.to_str().unwrap());
        document["findings"].as_array().unwrap().iter().find(is)
    };
    assert_eq!(found.code, 1);
    let said = finding(&old_copy).expect("the older one is named");
    // What 1.14.48 lacks, by what the two hosts themselves do: everything that only the newer one makes.
    let by_old = migrations_of_1_14_48(&old);
    let lacking: Vec<&String> = made.iter().filter(|name| !by_old.contains(name)).collect();
    assert!(lacking.len() > 10);
    let row_of = |path: &Path| row(&document, path).unwrap_or_else(|| panic!("{} is not listed: {document}", path.display()));
    assert_eq!(row_of(&old_copy)["older_than"][0]["lacking"], json!(lacking));
    assert_eq!(row_of(&old_copy)["older_than"][0]["database"], json!(database.to_str().unwrap()));
    assert!(said["message"].as_str().unwrap().contains(lacking[0]), "{said}");
    assert!(said["message"].as_str().unwrap().contains("1.14.48"), "{said}");
    for (path, how) in [(&new_copy, "home"), (&npm, "npm")] {
        assert_eq!((&row_of(path)["older_than"], finding(path)), (&json!([]), None));
        assert_eq!((&row_of(path)["version_string"], &row_of(path)["found"]), (&json!("1.18.34"), &json!([how])));
    }
    let databases = document["data"]["programs"]["databases"].as_array().unwrap();
    let listed = databases.iter().find(|row| row["path"] == json!(database.to_str().unwrap())).unwrap();
    assert_eq!((&listed["migrations"], &listed["last_migration"]), (&json!(made.len()), &json!(made.last().unwrap())));
    let page = doctor(home.path(), bin.to_str().unwrap(), &[]).stdout;
    assert!(page.contains("1.14.48") && page.contains("lacks") && page.contains(lacking[0].as_str()), "{page}");
    // Not asked, nothing of it: it costs more than the rest.
    let plain = ran(whoseenv(&["doctor", "--json"]).env("HOME", home.path()).env("PATH", &bin)).json();
    assert!(plain["data"].get("programs").is_none());
}

/// The same of one store: `db audit --binaries`, which looks at no other database.
#[test]
fn r07_an_audit_names_the_programs_that_are_older_than_the_store() {
    let (old, new) = (need!(peers::opencode("1.14.48")), need!(peers::opencode_v1()));
    let (home, database) = home_made_by(&new, &["serve", "--port", "0"], "opencode.db");
    let made = migrations(&database);
    let bin = home.path().join("bin");
    let (old_copy, new_copy) = (bin.join("opencode"), home.path().join(".opencode/bin/opencode"));
    install(&old, &old_copy);
    install(&new, &new_copy);
    let before = look(&database);
    let audit = |more: &[&str]| {
        let mut command = whoseenv(&["db", "audit"]);
        command.arg("--db").arg(&database).args(more);
        ran(command.env("HOME", home.path()).env("PATH", &bin))
    };
    let found = audit(&["--binaries", "--json"]);
    assert_eq!(look(&database), before, "nothing beside it came, went or changed");
    let document = found.json();
    assert_eq!(found.code, 1, "{document}");
    let row = |path: &Path| {
        let rows = document["data"]["binaries"].as_array().unwrap();
        rows.iter().find(|row| row["path"] == json!(path.to_str().unwrap())).unwrap_or_else(|| panic!("{document}"))
    };
    let by_old = migrations_of_1_14_48(&old);
    let lacking: Vec<&String> = made.iter().filter(|name| !by_old.contains(name)).collect();
    assert!(lacking.len() > 10);
    assert_eq!(row(&old_copy)["older_than"], json!([{ "database": database.to_str().unwrap(), "lacking": lacking }]));
    assert_eq!((&row(&old_copy)["version_string"], &row(&old_copy)["generation"]), (&json!("1.14.48"), &json!("v1")));
    assert_eq!((&row(&new_copy)["version_string"], &row(&new_copy)["older_than"]), (&json!("1.18.34"), &json!([])));
    let mut older = document["findings"].as_array().unwrap().iter().filter(|finding| finding["id"] == "binary.older_than_database");
    let said = older.find(|finding| finding["subject"] == json!(old_copy.to_str().unwrap())).expect("the older one is named");
    assert!(said["message"].as_str().unwrap().contains(lacking[0]), "{said}");
    let schema = ran(&mut whoseenv(&["schema", "db-audit"])).json();
    let validator = jsonschema::validator_for(&schema).unwrap();
    assert!(validator.is_valid(&document), "{document}");
    let page = audit(&["--binaries"]).stdout;
    assert!(page.contains("Programs") && page.contains("1.14.48") && page.contains(lacking[0].as_str()), "{page}");
    // Not asked, nothing of it.
    let plain = audit(&["--json"]).json();
    assert!(plain["data"].get("binaries").is_none() && !plain["findings"].to_string().contains("binary."), "{plain}");

    let snapshot = tempfile::tempdir().unwrap();
    let dir = snapshot.path().join("s");
    let mut take = whoseenv(&["snapshot", "--with-stores", "--pid", &std::process::id().to_string()]);
    let taken = ran(take.arg(&dir).env("HOME", home.path()).env("PATH", &bin));
    assert_eq!(taken.code, 0, "{} {}", taken.stdout, taken.stderr);
    let kept = ran(whoseenv(&["db", "audit", "--binaries", "--json", "--db"]).arg(&database).arg("--from").arg(&dir));
    let document = kept.json();
    assert_eq!(document["data"]["binaries"], json!([]), "{document}");
    assert!(document["notes"].to_string().contains("a snapshot holds no programs"), "{document}");
    assert_eq!((kept.code, &document["status"]), (5, &json!("undetermined")), "{document}");
}

/// 1.2.1 has no names of its changes, neither in its code nor in a database that it makes: their times tell.
#[test]
fn r07_a_program_whose_changes_have_no_names_is_older_too() {
    let (old, new) = (need!(peers::opencode("1.2.1")), need!(peers::opencode_v1()));
    let (home, database) = home_made_by(&new, &["serve", "--port", "0"], "opencode.db");
    let copy = home.path().join(".opencode/bin/opencode");
    install(&old, &copy);
    let document = doctor(home.path(), "/usr/bin:/bin", &["--json"]).json();
    let row = row(&document, &copy).expect("it is listed");
    // The three that 1.2.1 makes in a home of its own: 1769552633000, 1770830228000, 1770993676000, as `date -u -d @…` reads them.
    let times = ["20260127222353", "20260211171708", "20260213144116"];
    let made = migrations(&database);
    let lacking: Vec<&String> = made.iter().filter(|name| !times.contains(&&name[..14])).collect();
    assert_eq!(made.len() - lacking.len(), 3);
    assert_eq!((&row["version_string"], &row["migrations"]), (&json!("1.2.1"), &json!(3)));
    assert_eq!(row["older_than"], json!([{ "database": database.to_str().unwrap(), "lacking": lacking }]));
    let is = |finding: &&Value| finding["id"] == "binary.older_than_database" && finding["subject"] == json!(copy.to_str().unwrap());
    assert_eq!(document["findings"].as_array().unwrap().iter().find(is).unwrap()["outcome"], json!("confirmed"));
}

/// `OPENCODE_DB=new.db` is the one in the data directory, wherever the program is started: 1.15.0 makes it there.
#[test]
fn r07_a_program_is_older_than_the_database_that_a_relative_name_means() {
    let (old, new) = (need!(peers::opencode("1.15.0")), need!(peers::opencode_v1()));
    let (home, database) = home_made_by(&new, &["serve", "--port", "0"], "opencode.db");
    let (elsewhere, own) = (home.path().join("elsewhere"), database.with_file_name("own.db"));
    fs::create_dir(&elsewhere).unwrap();
    let (mut command, port) = (Command::new(&old), free_port());
    command.args(["serve", "--port", &port.to_string()]).env_clear().env("PATH", "/usr/bin:/bin").env("HOME", home.path());
    command.env("OPENCODE_DB", "own.db").current_dir(&elsewhere);
    made(command, &own, Some(port));
    let named = database.with_file_name("new.db");
    for beside in ["", "-wal", "-shm"] {
        let _ = fs::rename(database.with_file_name(format!("opencode.db{beside}")), named.with_file_name(format!("new.db{beside}")));
    }
    install(&old, &home.path().join(".opencode/bin/opencode"));
    for name in ["new.db", named.to_str().unwrap()] {
        let mut command = whoseenv(&["doctor", "--binaries", "--json"]);
        let document = ran(command.env("HOME", home.path()).env("PATH", "/usr/bin:/bin").env("OPENCODE_DB", name)).json();
        let row = row(&document, &home.path().join(".opencode/bin/opencode")).expect("it is listed");
        assert_eq!(row["older_than"][0]["database"], json!(named.to_str().unwrap()), "{name}: {row}");
        assert_eq!(row["older_than"].as_array().unwrap().len(), 1, "it opens this one alone: {row}");
    }
}

/// What is offered is done, by the program itself: it makes a database of its own, and leaves the newer one as it is.
#[test]
fn r07_the_remedy_keeps_the_program_away_from_the_newer_database() {
    let new = need!(peers::opencode_v1());
    let (home, database) = home_made_by(&new, &["serve", "--port", "0"], "opencode.db");
    let copy = home.path().join(".opencode/bin/opencode");
    // The one does not know OPENCODE_DB, the other does.
    for (version, own) in [("1.2.27", "opencode-1.2.27/opencode/opencode.db"), ("1.14.48", "opencode-1.14.48.db")] {
        install(&need!(peers::opencode(version)), &copy);
        let audit = || {
            let mut command = whoseenv(&["db", "audit", "--binaries", "--json", "--db"]);
            ran(command.arg(&database).env("HOME", home.path()).env("PATH", "/usr/bin:/bin")).json()
        };
        let before = look(&database);
        let mut remedies = Vec::new();
        for document in [doctor(home.path(), "/usr/bin:/bin", &["--json"]).json(), audit()] {
            let is =
                |finding: &&Value| finding["id"] == "binary.older_than_database" && finding["subject"] == json!(copy.to_str().unwrap());
            let finding = document["findings"].as_array().unwrap().iter().find(is).expect("it is older").clone();
            remedies.push(finding["fix"].as_array().unwrap().last().unwrap().as_str().unwrap().to_owned());
        }
        assert_eq!(remedies[0], remedies[1]);
        let (_, line) = remedies[0].rsplit_once(": ").unwrap();
        let mut command = Command::new("/bin/sh");
        // As it is offered, but in place of the shell, which would leave it behind.
        let line = line.replace(&format!(" {}", copy.display()), &format!(" exec {}", copy.display()));
        let port = free_port();
        command.args(["-c", &format!("{line} serve --port {port}")]).env_clear().env("HOME", home.path()).env("PATH", "/usr/bin:/bin");
        command.current_dir(home.path());
        made(command, &home.path().join(own), Some(port));
        assert_eq!(look(&database), before, "{version}: {line}");
    }
}

/// What runs in another home opens that home's database.
#[test]
fn r07_a_program_that_would_open_another_database_is_not_older_than_this_one() {
    let (old, new) = (need!(peers::opencode("1.14.48")), need!(peers::opencode_v1()));
    let (home, database) = home_made_by(&new, &["serve", "--port", "0"], "opencode.db");
    let other = tempfile::tempdir().unwrap();
    let copy = other.path().join("opencode");
    install(&old, &copy);
    let mut command = Command::new(&copy);
    command.args(["serve", "--port", "0"]).env_clear().env("PATH", "/usr/bin:/bin").env("HOME", other.path()).current_dir(other.path());
    let _host = Sleeper::of(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()));
    let audit = |database: &Path| {
        let mut command = whoseenv(&["db", "audit", "--binaries", "--json", "--db"]);
        ran(command.arg(database).env("HOME", home.path()).env("PATH", "/usr/bin:/bin")).json()
    };
    let document = audit(&database);
    let rows = document["data"]["binaries"].as_array().unwrap();
    let row = rows.iter().find(|row| row["path"] == json!(copy.to_str().unwrap())).expect("it is listed");
    assert_eq!((&row["older_than"], &row["not_compared"]), (&json!([]), &json!([])), "{row}");
    assert!(!document["findings"].to_string().contains(copy.to_str().unwrap()), "{document}");
    let doctor = doctor(home.path(), "/usr/bin:/bin", &["--json"]).json();
    assert_eq!(self::row(&doctor, &copy).unwrap()["older_than"], json!([]), "the two are of one mind");
    // One that nobody opens.
    let aside = home.path().join("aside.db");
    fs::copy(&database, &aside).unwrap();
    let document = audit(&aside);
    assert!(!document["findings"].to_string().contains("binary.older_than_database"), "{document}");
    assert!(document["notes"].to_string().contains("none of the programs found here would open"), "{document}");
}

/// Where `npm root -g` says that it is.
#[test]
fn npms_global_folder_is_where_npm_says() {
    let npm = need!(crate::world::need::tool("npm", "npm"));
    let dir = tempfile::tempdir().unwrap();
    let home = dir.path();
    let [here, there, settings] = ["here", "there", "settings"].map(|name| home.join(name));
    fs::write(home.join(".npmrc"), "; a comment\nprefix=${HOME}/elsewhere\n").unwrap();
    fs::write(&settings, format!("prefix = \"{}\"\n", there.display())).unwrap();
    let none: &[(&str, &Path)] = &[];
    for variables in [
        none,
        &[("npm_config_prefix", &here)],
        &[("NPM_CONFIG_PREFIX", &here)],
        &[("NPM_CONFIG_USERCONFIG", &settings)],
        &[("PREFIX", &home.join("by-prefix"))],
    ] {
        let mut command = Command::new(&npm);
        command.args(["root", "-g"]).env_clear().env("PATH", "/usr/bin:/bin").env("HOME", home).envs(variables.iter().copied());
        let root = command.current_dir(home).output().unwrap().stdout;
        let root = PathBuf::from(String::from_utf8(root).unwrap().trim_end());
        assert!(root.starts_with(home), "{variables:?}: {}", root.display());
        let program = root.join("opencode-ai/node_modules/opencode-linux-x64/bin/opencode");
        fs::create_dir_all(program.parent().unwrap()).unwrap();
        fs::write(&program, super::made::bundle("--user-agent=opencode/1.18.34 --", &["x"])).unwrap();
        let mut command = whoseenv(&["doctor", "--binaries", "--json"]);
        let document = ran(command.env("HOME", home).env("PATH", "/usr/bin:/bin").envs(variables.iter().copied())).json();
        let row = row(&document, &program).unwrap_or_else(|| panic!("{variables:?}: {} is not listed", program.display()));
        assert_eq!(row["found"], json!(["npm"]));
        fs::remove_dir_all(&root).unwrap();
    }
}

/// The names that 1.14.48 keeps of the changes it has made, by its own database.
fn migrations_of_1_14_48(program: &Path) -> Vec<String> {
    let home = tempfile::tempdir().unwrap();
    let mut command = Command::new(program);
    command.args(["serve", "--port", "0"]).env_clear().env("PATH", "/usr/bin:/bin").env("HOME", home.path()).current_dir(home.path());
    let _host = Sleeper::of(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()));
    let path = home.path().join(".local/share/opencode/opencode.db");
    let until = Instant::now() + Duration::from_secs(60);
    let names = || -> Option<Vec<String>> {
        let connection = Connection::open_with_flags(&path, OpenFlags::SQLITE_OPEN_READ_ONLY).ok()?;
        let mut query = connection.prepare("SELECT name FROM __drizzle_migrations ORDER BY name").ok()?;
        query.query_map([], |row| row.get::<_, String>(0)).ok()?.collect::<Result<_, _>>().ok()
    };
    let mut last = 0;
    loop {
        let found = names().unwrap_or_default();
        if found.len() > 5 && found.len() == last {
            return found;
        }
        last = found.len();
        assert!(Instant::now() < until, "1.14.48 made no database");
        std::thread::sleep(Duration::from_millis(500));
    }
}

/// Names, lengths, times and bytes of what lies in the database's directory.
fn look(database: &Path) -> Vec<(PathBuf, std::time::SystemTime, Vec<u8>)> {
    let entries = fs::read_dir(database.parent().unwrap()).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> = entries
        .filter(|path| path.is_file())
        .map(|path| (path.clone(), fs::metadata(&path).unwrap().modified().unwrap(), fs::read(&path).unwrap()))
        .collect();
    files.sort();
    files
}

#[test]
fn programs_that_are_found_are_read_and_never_run() {
    let dir = tempfile::tempdir().unwrap();
    let (bin, marker) = (dir.path().join("bin"), dir.path().join("ran"));
    fs::create_dir(&bin).unwrap();
    for name in ["opencode", "opencode2", "zeroclaw", "zerocode"] {
        let script = format!("#!/bin/sh\ntouch {}\n", marker.display());
        fs::write(bin.join(name), script).unwrap();
        fs::set_permissions(bin.join(name), fs::Permissions::from_mode(0o755)).unwrap();
    }
    let document = doctor(dir.path(), bin.to_str().unwrap(), &["--json"]).json();
    assert!(row(&document, &bin.join("opencode")).is_none(), "a script is no program of the table");
    assert!(!marker.exists());
}

#[test]
fn a_program_on_path_is_known_by_what_it_is_and_not_by_its_name() {
    let program = need!(peers::opencode_v1());
    let dir = tempfile::tempdir().unwrap();
    let copy = dir.path().join("bin/notes");
    install(&program, &copy);
    let document = doctor(dir.path(), dir.path().join("bin").to_str().unwrap(), &["--json"]).json();
    let row = row(&document, &copy).expect("it is listed");
    assert_eq!((&row["found"], &row["product"], &row["version_string"]), (&json!(["path"]), &json!("opencode"), &json!("1.18.34")));
}

#[test]
fn a_running_program_is_found_where_it_really_is() {
    let program = need!(peers::opencode_v1());
    let dir = tempfile::tempdir().unwrap();
    let copy = dir.path().join("notes");
    install(&program, &copy);
    let mut command = Command::new(&copy);
    command.args(["serve", "--port", "0"]).env_clear().env("PATH", "/usr/bin:/bin").env("HOME", dir.path()).current_dir(dir.path());
    let host = Sleeper::of(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()));
    let document = doctor(dir.path(), "/usr/bin:/bin", &["--json"]).json();
    let row = row(&document, &copy).expect("it is listed");
    assert_eq!((&row["found"], &row["generation"]), (&json!(["running"]), &json!("v1")));
    assert_eq!(row["pids"], json!([host.0.id()]));
}

#[test]
fn a_snapshot_has_no_programs_and_says_so() {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/demo");
    let found = ran(whoseenv(&["doctor", "--binaries", "--json", "--from"]).arg(fixtures));
    let document = found.json();
    assert_eq!(document["data"]["programs"]["binaries"], json!([]));
    assert!(document["notes"].as_array().unwrap().iter().any(|note| note.as_str().unwrap().contains("a snapshot holds no programs")));
}
