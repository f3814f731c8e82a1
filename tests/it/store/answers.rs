//! The same answers as the sqlite3 shell gives on a copy, for every table that a question is about.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use super::fixtures::{self, THEN};
use super::state::{db, home};

/// What the shell says of a copy, a row each.
pub fn shell(file: &Path, sql: &str) -> crate::world::Needed<Vec<Value>> {
    let dir = tempfile::tempdir().unwrap();
    let copy = dir.path().join("copy.db");
    std::fs::copy(file, &copy).unwrap();
    let wal = format!("{}-wal", file.display());
    if Path::new(&wal).exists() {
        std::fs::copy(wal, dir.path().join("copy.db-wal")).unwrap();
    }
    let output = Command::new(crate::world::need::tool("sqlite3", "sqlite3")?).arg("-json").arg(&copy).arg(sql).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(if output.stdout.is_empty() { Vec::new() } else { serde_json::from_slice(&output.stdout).unwrap() })
}

/// A store of each generation, with the tables of its sessions and of its queue.
fn generations(dir: &Path) -> Vec<(&'static str, std::path::PathBuf, &'static str, Option<&'static str>)> {
    let mut made = Vec::new();
    for (name, schema, sessions, queue) in [
        ("v1", fixtures::v1(), "session", Some("session_input")),
        ("preview", fixtures::preview(), "session", Some("session_pending")),
        ("v2_august", fixtures::v2(false), "session_v2", Some("session_pending")),
        ("v2", fixtures::v2(true), "session_v2", Some("session_inbox")),
        ("v2", format!("{} {}", fixtures::v1(), fixtures::v2(true)), "session_v2", Some("session_inbox")),
    ] {
        let path = dir.join(format!("{}.db", made.len()));
        let conn = fixtures::make(&path, &schema, "wal");
        for at in 0..300 {
            let id = format!("ses_{at:03}");
            // Some parents are there, some are not.
            let parent = (at % 3 == 1).then(|| format!("ses_{:03}", at * 2));
            fixtures::session(
                &conn,
                sessions,
                &id,
                parent.as_deref(),
                ["/tmp", "/tmp/a b", "/tmp/\u{202e}x"][at % 3],
                &[("agent", "'build'")],
            );
            conn.execute(
                &format!("update {sessions} set time_updated = ?1, title = ?2 where id = ?3"),
                (THEN + (at as i64 * 7919 % 1000), "t\u{e9}".repeat(at % 5), &id),
            )
            .unwrap();
            match queue {
                Some("session_input") => {
                    let promoted = (at % 4 == 0).then_some(at as i64);
                    conn.execute(
                        "insert into session_input values (?1, ?2, '{\"text\":\"x\",\"files\":[]}', ?3, ?4, ?5, ?6)",
                        (format!("msg_{at}"), format!("ses_{:03}", at % 7), ["steer", "queue"][at % 2], at as i64, promoted, THEN),
                    )
                    .unwrap();
                }
                Some(table) => fixtures::waits(
                    &conn,
                    table,
                    &format!("msg_{at}"),
                    &format!("ses_{:03}", at % 7),
                    ["steer", "queue"][at / 2 % 2],
                    at as i64,
                    "{\"text\":\"x\",\"k\":{\"in\":1}}",
                ),
                None => {}
            }
            if name != "v1" {
                fixtures::kv(
                    &conn,
                    &fixtures::plugin_key(["team", "caf\u{e9}\u{1f600}", "ab"][at % 3], &format!("k\"\\{at}")),
                    &["{\"a\":[1,{}],\"b\":2}", "[]", "\"s\"", "7", "no json"][at % 5].repeat(1 + at % 2),
                );
            }
        }
        if schema.contains("session_input") && sessions == "session_v2" {
            // What a migration left behind: one that is in both tables, one that is in the old one alone.
            fixtures::session(&conn, "session", "ses_000", None, "/tmp", &[]);
            fixtures::session(&conn, "session", "ses_old", None, "/tmp", &[]);
        }
        made.push((name, path, sessions, queue));
    }
    made
}

/// RFC 3339 of milliseconds, by SQLite's own clock.
const TIME: &str = "strftime('%Y-%m-%dT%H:%M:%f', X / 1000.0, 'unixepoch') || 'Z'";

fn time(column: &str) -> String {
    TIME.replace('X', column)
}

/// Only these keys of each row; what is null is absent.
fn picked(rows: &[Value], keys: &[&str]) -> Vec<Value> {
    let pick = |row: &Value| {
        let kept = keys.iter().filter_map(|key| Some(((*key).to_owned(), row.get(*key).filter(|value| !value.is_null())?.clone())));
        Value::Object(kept.collect())
    };
    rows.iter().map(pick).collect()
}

fn rows(ndjson: &str) -> Vec<Value> {
    let lines: Vec<Value> = ndjson.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.last().unwrap()["status"], "ok");
    lines[1..lines.len() - 1].to_vec()
}

#[test]
fn sessions_inbox_and_kv_of_every_generation() {
    let dir = tempfile::tempdir().unwrap();
    let home = home();
    for (generation, path, sessions, queue) in generations(dir.path()) {
        let info = db(home.path(), &path, &["info", "--json"]).json();
        assert_eq!(info["data"]["stores"][0]["generation"], generation);
        let old = if generation == "v2" && !need!(shell(&path, "select 1 from sqlite_schema where name = 'session'")).is_empty() {
            format!(
                " union all select 'session', * from (select id, parent_id, project_id, directory, title, agent, time_created, time_updated from session where id not in (select id from {sessions}))"
            )
        } else {
            String::new()
        };
        assert_eq!(info["data"]["stores"][0]["migrated"], json!(!old.is_empty()));
        let all = format!(
            "with s as (select '{sessions}' as tab, id, parent_id, project_id, directory, title, agent, time_created, time_updated from {sessions}{old})"
        );
        let expected = need!(shell(
            &path,
            &format!(
                "{all} select tab as 'table', id, parent_id, project_id, directory, length(title) as title_len, agent, {} as time_created, {} as time_updated, \
             (select count(*) from s c where c.parent_id = s.id) as children, \
             iif(parent_id is not null and parent_id not in (select id from s), 'yes', 'no') as orphan \
             from s order by tab desc, s.time_updated desc, id",
                time("time_created"),
                time("s.time_updated")
            )
        ));
        let keys = [
            "table",
            "id",
            "parent_id",
            "project_id",
            "directory",
            "title_len",
            "agent",
            "time_created",
            "time_updated",
            "children",
            "orphan",
        ];
        let streamed = db(home.path(), &path, &["sessions", "--format", "ndjson"]);
        let mut ours = picked(&rows(&streamed.stdout), &keys);
        ours.iter_mut().for_each(|row| row["orphan"] = json!(if row["orphan"] == true { "yes" } else { "no" }));
        assert_eq!(ours, picked(&expected, &keys), "{generation}");
        assert!(!streamed.stdout.contains('\u{202e}'), "a mark of direction is escaped");
        let whole = db(home.path(), &path, &["sessions", "--json"]).json();
        assert_eq!(whole["data"]["sessions"].as_array().unwrap(), &rows(&streamed.stdout), "both faces tell the same");
        assert_eq!(whole["data"]["orphans"], json!(ours.iter().filter(|row| row["orphan"] == "yes").count()));

        let queue = queue.unwrap();
        let (payload, seq, pending, kind) = match queue {
            "session_input" => ("prompt", "admitted_seq", "promoted_seq is null", "'user'"),
            "session_inbox" => ("payload", "enqueued_seq", "1", "type"),
            _ => ("data", "admitted_seq", "1", "type"),
        };
        let expected = need!(shell(
            &path,
            &format!(
                "select id, session_id, {kind} as type, delivery, {seq} as seq, {} as time_created, length(cast({payload} as blob)) as bytes, \
             (select json_group_array(key) from json_each({payload})) as keys, \
             iif(delivery = 'steer' or not exists (select 1 from {queue} o where o.session_id = q.session_id and {other} and (o.delivery = 'steer' or o.{seq} < q.{seq})), 'yes', 'no') as next_wake \
             from {queue} q where {pending} order by session_id, delivery = 'queue', {seq}",
                time("time_created"),
                other = pending.replace("promoted_seq", "o.promoted_seq")
            )
        ));
        let streamed = rows(&db(home.path(), &path, &["inbox", "--format", "ndjson"]).stdout);
        let flat: Vec<Value> = streamed
            .iter()
            .map(|row| {
                let mut flat =
                    picked(std::slice::from_ref(row), &["id", "session_id", "type", "delivery", "seq", "time_created"]).remove(0);
                flat["bytes"] = row["payload"]["bytes"].clone();
                flat["keys"] = json!(row["payload"]["keys"].to_string());
                flat["next_wake"] = json!(if row["next_wake"] == true { "yes" } else { "no" });
                flat
            })
            .collect();
        assert_eq!(flat, expected, "{generation}");
        let whole = db(home.path(), &path, &["inbox", "--json"]).json();
        assert_eq!(whole["data"]["rows"].as_array().unwrap().len(), streamed.len());

        if generation == "v1" {
            assert_eq!(db(home.path(), &path, &["kv", "--json"]).code, 3);
            continue;
        }
        let expected = need!(shell(
            &path,
            &format!(
                "select key as raw_key, length(cast(value as blob)) as bytes, iif(json_valid(value), json_type(value), 'text') as kind, {} as time_created from kv order by key",
                time("time_created")
            )
        ));
        let streamed = rows(&db(home.path(), &path, &["kv", "--format", "ndjson"]).stdout);
        let mut values: BTreeMap<String, std::collections::BTreeSet<String>> = BTreeMap::new();
        for (ours, theirs) in streamed.iter().zip(&expected) {
            for key in ["raw_key", "bytes", "time_created"] {
                assert_eq!(ours[key], theirs[key], "{generation}");
            }
            // The form is told by the ends alone: what only looks like one is no JSON to the shell.
            if theirs["kind"] != "text" && theirs["kind"] != "integer" {
                assert_eq!(
                    ours["shape"]["type"].as_str().map(|word| word.replace("string", "text")),
                    theirs["kind"].as_str().map(|kind| kind.replace("string", "text")),
                    "{ours}"
                );
            }
            let raw = theirs["raw_key"].as_str().unwrap();
            values.entry(ours["fingerprint"].as_str().unwrap().to_owned()).or_default();
            assert_eq!(fixtures::plugin_key(ours["plugin"].as_str().unwrap(), ours["key"].as_str().unwrap()), raw);
        }
        assert_eq!((streamed.len(), expected.len()), (300, 300));
        let distinct = need!(shell(&path, "select count(distinct value) as n from kv"))[0]["n"].as_u64().unwrap();
        assert_eq!(values.len() as u64, distinct, "equal fingerprints are equal values");
    }
}

#[test]
fn every_table_s_columns_rows_and_bytes() {
    let dir = tempfile::tempdir().unwrap();
    let home = home();
    for (generation, path, ..) in generations(dir.path()) {
        let ours = db(home.path(), &path, &["schema", "--json"]).json();
        let tables = need!(shell(&path, "select name from sqlite_schema where type = 'table' and name not like 'sqlite_%' order by name"));
        let named: Vec<&Value> = tables.iter().map(|row| &row["name"]).collect();
        let told = ours["data"]["schema"]["tables"].as_array().unwrap();
        assert_eq!(told.iter().map(|table| &table["name"]).collect::<Vec<_>>(), named, "{generation}");
        let sizes =
            need!(shell(&path, "select tbl_name as t, sum(pgsize) as n from dbstat d join sqlite_schema s on s.name = d.name group by 1"));
        for table in told {
            let name = table["name"].as_str().unwrap();
            let count = need!(shell(&path, &format!("select count(*) as n from \"{name}\"")));
            assert_eq!(table["rows"], count[0]["n"], "{name}");
            let columns = need!(shell(&path, &format!("select name from pragma_table_info('{name}')")));
            assert_eq!(
                table["columns"].as_array().unwrap().iter().collect::<Vec<_>>(),
                columns.iter().map(|row| &row["name"]).collect::<Vec<_>>()
            );
            let size = sizes.iter().find(|row| row["t"] == name).unwrap();
            assert_eq!(table["bytes"], size["n"], "{name}");
        }
    }
}

#[test]
fn output_fits_the_schema_that_the_program_gives_of_it() {
    let (dir, home) = (tempfile::tempdir().unwrap(), home());
    let path = dir.path().join("store.db");
    drop(fixtures::filled(&path, "wal"));
    for (name, arguments) in [
        ("info", &["info"][..]),
        ("sessions", &["sessions", "--tree"]),
        ("inbox", &["inbox", "ses_1"]),
        ("kv", &["kv"]),
        ("events", &["events"]),
        ("schema", &["schema"]),
        ("audit", &["audit"]),
    ] {
        let schema = crate::run::run(&["schema", "db", name]).json();
        let validator = jsonschema::validator_for(&schema).unwrap();
        let mut all = arguments.to_vec();
        all.push("--json");
        let document = db(home.path(), &path, &all).json();
        let wrong: Vec<String> = validator.iter_errors(&document).map(|error| format!("{error} at {}", error.instance_path)).collect();
        assert_eq!(wrong, Vec::<String>::new(), "{name}");
        assert_eq!(document["schema"], json!(format!("whoseenv.db-{name}/1")));
    }
}

#[test]
fn filters_and_the_forest() {
    let (dir, home) = (tempfile::tempdir().unwrap(), home());
    let path = dir.path().join("store.db");
    let conn = fixtures::make(&path, &fixtures::preview(), "wal");
    for (id, parent, directory) in [
        ("root", None, "/w/a"),
        ("child", Some("root"), "/w/a/sub"),
        ("grandchild", Some("child"), "/w/ab"),
        ("lost", Some("gone"), "/w"),
        ("c1", Some("c2"), "/w"),
        ("c2", Some("c1"), "/w"),
    ] {
        fixtures::session(&conn, "session", id, parent, directory, &[]);
    }
    drop(conn);
    let ids = |arguments: &[&str]| -> Vec<String> {
        let mut all = vec!["sessions", "--json"];
        all.extend(arguments);
        let document = db(home.path(), &path, &all).json();
        document["data"]["sessions"].as_array().unwrap().iter().map(|session| session["id"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(ids(&["--directory", "/w/a"]), ["child", "root"]);
    assert_eq!(ids(&["--directory", "/w/a/"]), ["child", "root"]);
    assert_eq!(ids(&["--id", "lost"]), ["lost"]);
    assert_eq!(ids(&["--limit", "2"]).len(), 2);
    assert_eq!(ids(&["--since", "2026-11-01T00:00:00.001Z"]), [""; 0]);
    assert_eq!(ids(&["--since", "2026-11-01T00:00:00Z"]).len(), 6);
    assert_eq!(db(home.path(), &path, &["sessions", "--since", "yesterday"]).code, 2);
    let tree = db(home.path(), &path, &["sessions", "--tree", "--json"]).json();
    let sessions = tree["data"]["sessions"].as_array().unwrap();
    let lines: Vec<(String, u64)> = tree["data"]["tree"]
        .as_array()
        .unwrap()
        .iter()
        .map(|node| {
            (sessions[node["session"].as_u64().unwrap() as usize]["id"].as_str().unwrap().to_owned(), node["depth"].as_u64().unwrap())
        })
        .collect();
    assert_eq!(lines.len(), 6, "circles too");
    let at = |id: &str| lines.iter().position(|line| line.0 == id).unwrap();
    assert_eq!((lines[at("root")].1, lines[at("child")].1, lines[at("grandchild")].1), (0, 1, 2));
    assert!(at("root") < at("child") && at("child") < at("grandchild"));
}

#[test]
fn one_value_and_one_text_on_request_alone() {
    let (dir, home) = (tempfile::tempdir().unwrap(), home());
    let path = dir.path().join("store.db");
    let conn = fixtures::make(&path, &fixtures::preview(), "wal");
    fixtures::kv(&conn, &fixtures::plugin_key("a", "k"), "{\"canary\":\"value-canary\"}");
    fixtures::kv(&conn, &fixtures::plugin_key("b", "k"), "2");
    fixtures::kv(&conn, &fixtures::plugin_key("b", "own"), "3");
    fixtures::waits(&conn, "session_pending", "m", "s", "steer", 1, "{\"text\":\"text \\u00e9 canary\"}");
    conn.execute("insert into credential (id, label, value, time_created, time_updated) values ('c', 'l', 'secret-canary', 1, 1)", [])
        .unwrap();
    fixtures::session(&conn, "session", "s", None, "/tmp", &[("title", "'title-canary'")].map(|_| ("agent", "'a'")));
    conn.execute("update session set title = 'title-canary'", []).unwrap();
    drop(conn);
    for arguments in super::state::COMMANDS.iter().copied().chain([
        &["info"][..],
        &["sessions"],
        &["inbox"],
        &["kv"],
        &["events"],
        &["schema"],
        &["audit", "-v"],
    ]) {
        let ran = db(home.path(), &path, arguments);
        assert!(!ran.stdout.contains("canary") && !ran.stderr.contains("canary"), "{arguments:?}: {}", ran.stdout);
    }
    assert_eq!(db(home.path(), &path, &["kv", "--value", "own"]).stdout, "3");
    assert_eq!(db(home.path(), &path, &["kv", "--value", &fixtures::plugin_key("a", "k")]).stdout, "{\"canary\":\"value-canary\"}");
    assert_eq!(db(home.path(), &path, &["kv", "--value", "k"]).code, 2, "two plugins have it");
    assert_eq!(db(home.path(), &path, &["kv", "--value", "none"]).code, 3);
    let shown = db(home.path(), &path, &["inbox", "--show-text", "--json"]).json();
    assert_eq!(shown["data"]["rows"][0]["payload"]["text"], "text \u{e9} canary");
}
