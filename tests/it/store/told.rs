//! How an answer is told: exit codes, numbers in words, secrets in names, and what a terminal gets.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::fixtures::{filled, kv, make, plugin_key, preview, session, waits};
use super::state::{command, db, home};
use crate::run::PROGRAM;
use crate::world::need;

fn store() -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store.db");
    (dir, path)
}

#[test]
fn a_session_that_is_not_there_is_exit_code_3() {
    let ((_dir, path), home) = (store(), home());
    drop(filled(&path, "wal"));
    for arguments in [
        &["sessions", "--id", "nope"][..],
        &["inbox", "nope"],
        &["sessions", "--id", "nope", "--format", "ndjson"],
        &["inbox", "nope", "--json"],
    ] {
        let ran = db(home.path(), &path, arguments);
        assert_eq!(ran.code, 3, "{arguments:?}: {}", ran.stdout);
        assert!(format!("{}{}", ran.stdout, ran.stderr).contains("it has no session nope"), "{arguments:?}: {}", ran.stdout);
    }
    // There, and nothing waits for it; there, and left out by another question.
    let nothing = db(home.path(), &path, &["inbox", "ses_19"]);
    assert!(nothing.code == 0 && nothing.stdout.contains("Nothing waits."), "{}", nothing.stdout);
    assert_eq!(db(home.path(), &path, &["sessions", "--id", "ses_1", "--since", "1s"]).code, 0);
}

const SECRET: &str = "sk-ant-api03-AAAABBBBCCCCDDDDEEEEFFFFGGGGHHHH";

#[test]
fn names_that_look_like_secrets_are_not_told() {
    let ((_dir, path), home) = (store(), home());
    let conn = make(&path, &preview(), "wal");
    kv(&conn, &plugin_key("team", SECRET), "{}");
    kv(&conn, &plugin_key("team", "task-0123456789abcdef"), "{}");
    session(&conn, "session", "s", Some(SECRET), "https://user:pass@example.org/x", &[]);
    session(&conn, "session", SECRET, None, "/tmp", &[("agent", "'ghp_0123456789abcdef0123456789abcdef0123'")]);
    waits(&conn, "session_pending", "m", "s", "queue", 1, &format!("{{\"{SECRET}\":1,\"text\":\"key {SECRET}\"}}"));
    conn.execute("insert into event values ('e', ?1, 5, 1, ?1, '{}')", [SECRET]).unwrap();
    conn.execute("insert into event values ('a', 's', 5, 1, 'session.input.admitted.1', ?1)", [format!("{{\"inputID\":\"{SECRET}\"}}")])
        .unwrap();
    // Where a name can stand: a plugin, a directory, a migration, a table, a column, an index, a trigger, a view.
    kv(&conn, &plugin_key(SECRET, "of a plugin"), "{}");
    kv(&conn, &plugin_key(SECRET, "large"), &"x".repeat(2 << 20));
    session(&conn, "session", "gone", None, &format!("/nowhere/{SECRET}"), &[("model", &format!("'{SECRET}'"))]);
    conn.execute("update session set project_id = ?1 where id = 'gone'", [SECRET]).unwrap();
    conn.execute("insert into migration values (?1, 1)", [SECRET]).unwrap();
    conn.execute_batch(&format!(
        "create table \"{SECRET}\" (\"{SECRET}\", other); create index \"i{SECRET}\" on kv (value); create view \"v {SECRET}\" as select 1;
         alter table kv add column \"{SECRET}\"; create trigger \"t {SECRET}\" after insert on kv begin select 1; end;
         create table \"nul {SECRET}\" (a text not null); pragma writable_schema=on;
         update sqlite_schema set sql = replace(sql, 'a text not null', 'a text') where name = 'nul {SECRET}'; pragma writable_schema=reset;
         insert into \"nul {SECRET}\" values (null); pragma writable_schema=on;
         update sqlite_schema set sql = replace(sql, 'a text)', 'a text not null)') where name = 'nul {SECRET}'"
    ))
    .unwrap();
    drop(conn);
    for arguments in super::state::COMMANDS.into_iter().chain([
        &["kv"][..],
        &["inbox"],
        &["inbox", "s", "--json"],
        &["inbox", "s"],
        &["sessions", "--tree"],
        &["audit"],
        &["events"],
        &["schema"],
        &["info"],
        &["audit", "--binaries"],
    ]) {
        let ran = db(home.path(), &path, arguments);
        for secret in [SECRET, "user:pass", "ghp_0123"] {
            assert!(!format!("{}{}", ran.stdout, ran.stderr).contains(secret), "{arguments:?}: {} {}", ran.stdout, ran.stderr);
        }
        // Nor in hexadecimal, as a plugin's id stands in a key.
        assert!(!ran.stdout.contains(&plugin_key(SECRET, "")), "{arguments:?}: {}", ran.stdout);
    }
    let schema = db(home.path(), &path, &["schema", "--json"]).json();
    let kv_table = schema["data"]["schema"]["tables"].as_array().unwrap().iter().find(|table| table["name"] == "kv").unwrap();
    assert_eq!(kv_table["added_columns"], serde_json::json!(["<45 bytes that look like a secret>"]));
    let audit = db(home.path(), &path, &["audit", "--json"]).json();
    assert_eq!(audit["data"]["integrity"], "damaged", "quick_check names the table, and its name is not told: {audit:#}");
    let rows = db(home.path(), &path, &["kv", "--json"]).json();
    let keys: Vec<&str> = rows["data"]["entries"].as_array().unwrap().iter().map(|row| row["key"].as_str().unwrap()).collect();
    assert_eq!(keys, ["large", "of a plugin", "<45 bytes that look like a secret>", "task-0123456789abcdef"]);
    let inbox = db(home.path(), &path, &["inbox", "--json"]).json();
    assert_eq!(inbox["data"]["rows"][0]["payload"]["keys"], serde_json::json!(["text"]));
    // Text that was asked for is as it is.
    assert!(db(home.path(), &path, &["inbox", "--show-text", "--json"]).stdout.contains(SECRET));
}

#[test]
fn one_value() {
    let ((_dir, path), home) = (store(), home());
    let conn = make(&path, &preview(), "wal");
    kv(&conn, &plugin_key("team", "esc"), "\"\u{1b}]0;pwn\u{7}\"");
    kv(&conn, &plugin_key("team", "other"), "1");
    drop(conn);
    assert_eq!(db(home.path(), &path, &["kv", "--value", "esc"]).stdout, "\"\u{1b}]0;pwn\u{7}\"", "a pipe gets the bytes");
    let document = db(home.path(), &path, &["kv", "--value", "esc", "--json"]).json();
    assert_eq!(document["data"]["entries"].as_array().unwrap().len(), 1);
    assert_eq!(document["data"]["entries"][0]["value"], "\"\u{1b}]0;pwn\u{7}\"");
    let lines = db(home.path(), &path, &["kv", "--value", "other", "--format", "ndjson"]).stdout;
    assert!(
        lines.lines().all(|line| serde_json::from_str::<serde_json::Value>(line).is_ok()) && lines.contains("\"value\":\"1\""),
        "{lines}"
    );
    assert_eq!(db(home.path(), &path, &["kv", "--value", "none", "--json"]).code, 3);
    let script = need!(need::tool("script", "util-linux"));
    let ran = format!("{PROGRAM} db kv --value esc --db {}", path.display());
    let terminal = Command::new(script).args(["-qec", &ran, "/dev/null"]).env("HOME", home.path()).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&terminal.stdout).trim_end(), "\"\\x1b]0;pwn\\x07\"");
}

#[test]
fn a_directory_relative_to_where_one_stands() {
    let ((dir, path), home) = (store(), home());
    let conn = make(&path, &preview(), "wal");
    let project = dir.path().canonicalize().unwrap().join("project");
    std::fs::create_dir(&project).unwrap();
    session(&conn, "session", "here", None, project.to_str().unwrap(), &[]);
    session(&conn, "session", "elsewhere", None, "/tmp", &[]);
    drop(conn);
    let asked = |cwd: &Path, directory: &str| {
        let ran = crate::run::ran(command(home.path(), &path, &["sessions", "--json", "--directory", directory]).current_dir(cwd)).json();
        let sessions = ran["data"]["sessions"].as_array().unwrap().iter();
        sessions.map(|session| session["id"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(asked(&project, "."), ["here"]);
    assert_eq!(asked(dir.path(), "project"), ["here"]);
    assert_eq!(asked(&project, "../project/"), ["here"]);
    assert_eq!(asked(dir.path(), "gone"), [""; 0]);
}

#[test]
fn one_is_not_many() {
    let ((_dir, path), home) = (store(), home());
    let conn = make(&path, &preview(), "wal");
    session(&conn, "session", "p", None, "/tmp", &[]);
    session(&conn, "session", "c", Some("p"), "/tmp", &[]);
    session(&conn, "session", "o", Some("gone"), "/tmp", &[]);
    waits(&conn, "session_pending", "m", "p", "queue", 1, "{}");
    kv(&conn, &plugin_key("team", "notes"), "{}");
    drop(conn);
    let sessions = db(home.path(), &path, &["sessions"]).stdout;
    assert!(sessions.contains("1 child\n") || sessions.contains("1 child "), "{sessions}");
    assert!(sessions.contains("1 orphan; 1 parent id names no session"), "{sessions}");
    let audit = db(home.path(), &path, &["audit"]).stdout;
    let audit = audit.split_whitespace().collect::<Vec<_>>().join(" ");
    for line in [
        "1 row waits in 1 session in which no turn runs",
        "1 key of plugin team names no session",
        "1 session has a parent that is gone",
        "1 of 3 sessions has such a parent_id",
        "3, 1 orphan, not known how many in a turn",
    ] {
        assert!(audit.contains(line), "{line}: {audit}");
    }
    // Nowhere is a place, too.
    let config = home.path().join(".config/opencode");
    assert!(audit.contains(&format!("{}: has no opencode.json", config.display())), "{audit}");
    for arguments in [["sessions", "--limit", "0"], ["inbox", "--limit", "0"], ["kv", "--limit", "0"]] {
        let none = db(home.path(), &path, &arguments).stdout;
        assert!(none.contains("None is shown: --limit 0."), "{none}");
    }
}
