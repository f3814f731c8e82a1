//! Databases that are out to harm: nothing of them runs, and there is an answer within two seconds and 256 MiB.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use rusqlite::Connection;

use super::fixtures::{make, plugin_key, preview, session};
use super::state::{COMMANDS, State, home};
use crate::run::{PROGRAM, Ran};

/// Runs every command under a limit on memory; none may take longer than two seconds (a debug build: three times as long).
fn bounded(what: &str, file: &Path) -> Vec<Ran> {
    let home = home();
    let before = State::of(file.parent().unwrap());
    let patience = Duration::from_secs(if cfg!(debug_assertions) { 6 } else { 2 });
    let mut all = Vec::new();
    for arguments in COMMANDS {
        let note = tempfile::NamedTempFile::new().unwrap();
        let start = Instant::now();
        let mut command = Command::new("/usr/bin/time");
        command.args(["--quiet", "-f", "%M", "-o"]).arg(note.path()).arg(PROGRAM).arg("db").args(arguments).arg("--db").arg(file);
        let ran = crate::run::ran(command.env_clear().env("PATH", "/usr/bin:/bin").env("HOME", home.path()));
        assert!(start.elapsed() < patience, "{what}: {arguments:?} took {:?}", start.elapsed());
        let peak: u64 = std::fs::read_to_string(note.path()).unwrap().trim().lines().last().unwrap().parse().unwrap();
        assert!(peak < 256 << 10, "{what}: {arguments:?} took {peak} KiB");
        assert!([0, 1, 3, 5].contains(&ran.code), "{what}: {arguments:?}: {} {} {}", ran.code, ran.stdout, ran.stderr);
        assert_eq!(State::of(file.parent().unwrap()), before, "{what}: {arguments:?}");
        all.push(ran);
    }
    all
}

fn store() -> (tempfile::TempDir, std::path::PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store.db");
    (dir, path)
}

fn gnu_time() -> crate::world::Needed<std::path::PathBuf> {
    if Path::new("/usr/bin/time").exists() {
        Ok("/usr/bin/time".into())
    } else {
        crate::world::need::Missing::new("GNU time is not installed (package time)")
    }
}

#[test]
fn views_triggers_and_virtual_tables_in_the_place_of_ours() {
    need!(gnu_time());
    let (dir, path) = store();
    let conn = Connection::open(&path).unwrap();
    conn.execute_batch(
        "create view session as with recursive n(i) as (select 1 union all select i + 1 from n) select i as id, i as parent_id, 'p' as project_id from n;
         create view kv as with recursive n(i) as (select 1 union all select i + 1 from n) select i as key, zeroblob(1000000000) as value from n;
         create view session_pending as select load_extension('/tmp/evil') as id;
         create view event as select * from event;
         create virtual table session_inbox using fts5(id, session_id);",
    )
    .unwrap();
    drop(conn);
    let ran = bounded("views", &path);
    assert!(ran[1].code != 0 && ran[1].stdout.contains("is a view or a virtual table"), "{}", ran[1].stdout);
    drop(dir);

    let (_dir, path) = store();
    let conn = make(&path, &preview(), "delete");
    session(&conn, "session", "ses_1", None, "/tmp", &[]);
    conn.execute_batch(
        "create table victim (a); create trigger t after update on session begin insert into victim values (1); end;
         alter table kv add column computed generated always as (hex(zeroblob(100000000))) virtual;
         create index heavy on session (abs(cost));",
    )
    .unwrap();
    drop(conn);
    bounded("triggers, generated columns", &path);
    let (_dir, path) = store();
    let conn = Connection::open(&path).unwrap();
    // The column that is read is itself computed.
    conn.execute_batch("create table kv (key text, time_created, time_updated, value generated always as (hex(zeroblob(100000000))) virtual); insert into kv (key) values ('x')").unwrap();
    drop(conn);
    let ran = bounded("a computed value", &path);
    assert!(ran[5].code != 0, "{}", ran[5].stdout);

    // Not too large, and fifty thousand times.
    let many = "with recursive n(i) as (select 1 union all select i + 1 from n where i < 50000) select";
    let big = format!("'{}'", "A".repeat(900_000));
    let (_dir, path) = store();
    let conn = Connection::open(&path).unwrap();
    conn.execute_batch(&format!(
        "create table session (id text primary key, directory text generated always as ({big} || id || {big}) virtual, time_updated);
         create table kv (key text primary key, v, value text as ({big} || v || {big} || {big}) virtual, time_created, time_updated);
         create table other (a, b text as ({big} || a) virtual not null);
         insert into session (id, time_updated) {many} i, 1 from n; insert into kv (key, v) {many} i, 'v' from n; insert into other (a) {many} i from n"
    ))
    .unwrap();
    drop(conn);
    for (ran, arguments) in bounded("computed columns", &path).iter().zip(COMMANDS) {
        if ["sessions", "kv", "audit"].contains(&arguments[0]) {
            assert!(ran.code == 5 && ran.stdout.contains("has a computed column"), "{arguments:?}: {}", ran.stdout);
        }
    }
    // A condition on each row, which quick_check would compute.
    let (_dir, path) = store();
    let conn = Connection::open(&path).unwrap();
    conn.execute_batch(&format!(
        "pragma ignore_check_constraints=on; create table session (id text primary key, check (length({big} || id || {big}) > 0)); insert into session {many} i from n"
    ))
    .unwrap();
    drop(conn);
    bounded("conditions", &path);
}

#[test]
fn a_million_tables() {
    need!(gnu_time());
    let (_dir, path) = store();
    let sql = "pragma journal_mode=off; pragma synchronous=off; create table session (id text primary key); pragma writable_schema=on; \
        insert into sqlite_schema with recursive n(i) as (select 1 union all select i + 1 from n where i < 1000000) \
        select 'table', 't' || i, 't' || i, 2, 'CREATE TABLE t' || i || ' (a, b, c)' from n;";
    let shell = need!(crate::world::need::tool("sqlite3", "sqlite3"));
    assert!(Command::new(shell).arg(&path).arg(sql).output().unwrap().status.success());
    for ran in bounded("a million tables", &path) {
        assert!(ran.code != 0 || ran.stdout.contains("not read to its end"), "{}", ran.stdout);
        assert!(ran.stdout.contains("not read to its end"), "{}", ran.stdout);
    }
}

#[test]
fn huge_cells_deep_json_and_bytes_that_are_no_text() {
    need!(gnu_time());
    let (_dir, path) = store();
    let conn = make(&path, &preview(), "delete");
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    conn.execute("insert into kv values (?1, ?2, 1, 1)", (plugin_key("a", "deep"), format!("{{\"x\":{deep}}}"))).unwrap();
    conn.execute(
        "insert into session_pending values ('m', 's', 'user', ?1, 'steer', 1, 1)",
        [format!("{{\"text\":{deep},\"z\":{{\"a\":{deep}}}}}")],
    )
    .unwrap();
    conn.execute("insert into kv select ?1, cast(zeroblob(300000000) as text), 1, 1", [plugin_key("a", "huge")]).unwrap();
    conn.execute_batch(
        "insert into kv values (cast(x'706c7567696e3a303036313aff' as text), cast(x'fffe00' as text), 9223372036854775807, -9223372036854775808);
         insert into session_pending values (x'ff00', cast(x'c328' as text), 7, x'00', null, 1e300, 'no time');
         insert into session (id, project_id, slug, directory, title, version, time_created, time_updated) values (cast(x'80' as text), 1.5, '', cast(x'2fff' as text), 5, '', 'x', 9e99);
         insert into session (id, project_id, slug, directory, title, version, time_created, time_updated) values ('esc', 'p', '', char(27) || '[31m', char(27), '', 1, 2);",
    )
    .unwrap();
    drop(conn);
    let ran = bounded("cells", &path);
    let document = ran[5].json();
    let entries = document["data"]["entries"].as_array().unwrap();
    let of = |key: &str| entries.iter().find(|entry| entry["key"] == key).unwrap_or_else(|| panic!("{key}"));
    assert_eq!((of("deep")["shape"]["type"].as_str(), of("deep")["shape"]["members"].as_u64()), (Some("object"), Some(1)));
    assert_eq!(of("huge")["bytes"], 300_000_000);
    assert!(of("huge").get("fingerprint").is_none(), "what is too large is not read");
    assert!(entries.iter().any(|entry| entry["key_b64"] == "/w=="));
    let sessions = ran[1].json();
    assert!(sessions["data"]["sessions"].as_array().unwrap().iter().any(|session| session["id_b64"] == "gA=="));
    assert!(ran.iter().all(|ran| !ran.stdout.contains('\u{1b}')));
}
