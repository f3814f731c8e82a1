//! Databases that are out to harm: nothing of them runs, and there is an answer within two seconds and 256 MiB.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use rusqlite::Connection;

use super::fixtures::{make, plugin_key, preview, session};
use super::state::{COMMANDS, State, home};
use crate::run::{PROGRAM, Ran};

/// The build that people run, where the variable names it (`.ci/run` sets it when it has built one), and how long it may take; else the
/// one under test, which is not optimised and may take three times as long.
fn judged() -> (PathBuf, Duration) {
    match std::env::var_os("WHOSEENV_TEST_RELEASE") {
        Some(release) => (release.into(), Duration::from_secs(2)),
        None => (PROGRAM.into(), Duration::from_secs(6)),
    }
}

/// Every subcommand in every face, the first ten as in [`COMMANDS`].
pub(super) fn commands() -> Vec<&'static [&'static str]> {
    let others: [&[&str]; 15] = [
        &["info"],
        &["sessions"],
        &["sessions", "--tree"],
        &["sessions", "--tree", "--json", "--directory", "/tmp", "--since", "2d", "--limit", "3"],
        &["inbox"],
        &["inbox", "ses_1"],
        &["inbox", "--show-text", "--json"],
        &["kv"],
        &["kv", "--value", "deep", "--json"],
        &["kv", "--value", "huge"],
        &["events"],
        &["events", "--last", "10000", "--limit", "10000", "--format", "ndjson"],
        &["schema"],
        &["schema", "--quick", "--json"],
        &["audit"],
    ];
    COMMANDS.into_iter().chain(others).collect()
}

/// Runs every command and weighs it: two seconds and 256 MiB. What only the other tests on this machine make slow is tried again.
pub(super) fn bounded(what: &str, file: &Path) -> Vec<Ran> {
    let home = home();
    let before = State::of(file.parent().unwrap());
    let (program, patience) = judged();
    // Before the other tests, where this account may: it is the store that is weighed, not the machine.
    let first = Command::new("/usr/bin/chrt").args(["-r", "5", "true"]).output().is_ok_and(|ran| ran.status.success());
    let mut all = Vec::new();
    for arguments in commands() {
        let mut took = Duration::MAX;
        let mut last = None;
        for _ in 0..3 {
            let note = tempfile::NamedTempFile::new().unwrap();
            let start = Instant::now();
            let mut command = Command::new(if first { "/usr/bin/chrt" } else { "/usr/bin/time" });
            if first {
                command.args(["-r", "5", "/usr/bin/time"]);
            }
            command.args(["--quiet", "-f", "%M", "-o"]).arg(note.path()).arg(&program).arg("db").args(arguments).arg("--db").arg(file);
            let ran = crate::run::ran(command.env_clear().env("PATH", "/usr/bin:/bin").env("HOME", home.path()));
            took = took.min(start.elapsed());
            let peak: u64 = std::fs::read_to_string(note.path()).unwrap().trim().lines().last().unwrap().parse().unwrap();
            assert!(peak < 256 << 10, "{what}: {arguments:?} took {peak} KiB");
            last = Some(ran);
            if took < patience {
                break;
            }
        }
        let mut ran = last.unwrap();
        // For a person what went wrong stands on stderr.
        ran.stdout.push_str(&ran.stderr);
        assert!(took < patience, "{what}: {arguments:?} took {took:?}");
        assert!([0, 1, 3, 5].contains(&ran.code), "{what}: {arguments:?}: {} {} {}", ran.code, ran.stdout, ran.stderr);
        assert!(ran.code != 5 || !ran.stdout.is_empty(), "{what}: {arguments:?} says why");
        all.push(ran);
    }
    assert_eq!(State::of(file.parent().unwrap()), before, "{what}");
    all
}

fn store() -> (tempfile::TempDir, std::path::PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store.db");
    (dir, path)
}

pub(super) fn gnu_time() -> crate::world::Needed<std::path::PathBuf> {
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
    for (ran, arguments) in bounded("computed columns", &path).iter().zip(commands()) {
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
    // An index on what is computed, and one with a condition.
    let quoted = big.replace('\'', "''");
    let (_dir, path) = store();
    let conn = Connection::open(&path).unwrap();
    conn.execute_batch(&format!(
        "create table session (id text primary key, time_updated); insert into session {many} i, 1 from n; pragma writable_schema=on;
         insert into sqlite_schema values ('index', 'odd', 'session', 3, 'CREATE INDEX odd ON session (length({quoted} || id)) WHERE length({quoted} || id) > 1')"
    ))
    .unwrap();
    drop(conn);
    bounded("indices", &path);
}

#[test]
fn tables_without_the_keys_that_hosts_look_up() {
    need!(gnu_time());
    let (_dir, path) = store();
    let conn = Connection::open(&path).unwrap();
    let many = "with recursive n(i) as (select 1 union all select i + 1 from n where i < 100000) select";
    conn.execute_batch(&format!(
        "create table session (id text, parent_id text, directory text, time_updated, time_suspended); create table session_v2 as select * from session;
         create table session_inbox (id text, session_id text, type text, payload text, delivery text, enqueued_seq, time_created);
         create table session_input (id text, session_id text, prompt text, delivery text, admitted_seq, promoted_seq, time_created);
         create table event (id text, aggregate_id text, seq integer, created, type text, data text); create table event_sequence (aggregate_id text, seq);
         insert into session {many} 'a' || i, 'b' || i, '/', i, i from n; insert into session_v2 {many} 'b' || i, 'a' || i, '/', i, i from n;
         insert into session_inbox {many} 'x' || i, 'a' || i, 'user', '{{}}', 'queue', i, i from n;
         insert into session_input {many} 'y' || i, 'a' || i, '{{}}', 'queue', i, null, i from n;
         insert into event_sequence {many} 'ses_' || i, i from n;
         insert into event {many} 'e', 'ses_' || (i + 7), 3, 1, 'session.input.admitted.1', '{{}}' from n;
         insert into event {many} 'e', 'ses_1', i, 1, 'session.input.admitted.1', '{{\"inputID\":\"' || i || '\"}}' from n"
    ))
    .unwrap();
    drop(conn);
    let ran = bounded("no keys", &path);
    assert!(ran[1].code == 5 && ran[1].stdout.contains("table session_v2 has no key on id"), "{}", ran[1].stdout);
}

#[test]
fn functions_and_modules_that_a_schema_names() {
    need!(gnu_time());
    let (_dir, path) = store();
    let conn = Connection::open(&path).unwrap();
    conn.execute_batch(
        "create table session (id text primary key, time_updated); insert into session values ('ses_1', 1);
         create table kv (key text primary key, value text, time_created, time_updated); insert into kv values ('k', '1', 1, 1);
         pragma writable_schema=on;
         update sqlite_schema set sql = 'CREATE TABLE kv (key text primary key, value text default (load_extension(''/tmp/evil'')), time_created, time_updated,
            check (load_extension(''/tmp/evil'') is null))' where name = 'kv';
         insert into sqlite_schema values ('table', 'event', 'event', 0, 'CREATE VIRTUAL TABLE event USING dbstat(main)');
         insert into sqlite_schema values ('table', 'session_pending', 'session_pending', 0, 'CREATE VIRTUAL TABLE session_pending USING nothing(''/tmp/evil'')');
         insert into sqlite_schema values ('view', 'session_v2', 'session_v2', 0, 'CREATE VIEW session_v2 AS SELECT readfile(''/etc/shadow'') AS id, writefile(''/tmp/evil'', 1) AS title');
         insert into sqlite_schema values ('trigger', 't', 'kv', 0, 'CREATE TRIGGER t AFTER DELETE ON kv BEGIN SELECT load_extension(''/tmp/evil''); END')",
    )
    .unwrap();
    drop(conn);
    let ran = bounded("functions", &path);
    assert!(ran[1].stdout.contains("ses_1") || ran[1].code == 5, "{}", ran[1].stdout);
    assert!(ran.iter().all(|ran| !ran.stdout.contains("root:")));
    assert!(!Path::new("/tmp/evil").exists());
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
