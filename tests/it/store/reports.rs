//! Field reports about stores: what people hit, and what the tool has to say of it.

use rusqlite::Connection;

use super::fixtures::{THEN, filled, make, preview, session, v1, waits};
use super::state::{Host, db, home};

/// R08, anomalyco/opencode#32010: wake-up prompts are stored and never run. `db audit` and `db inbox`.
#[test]
fn r08_admitted_inputs_of_an_idle_session_with_age_type_and_delivery() {
    let (dir, home) = (tempfile::tempdir().unwrap(), home());
    let path = dir.path().join("store.db");
    let conn = make(&path, &v1(), "wal");
    session(&conn, "session", "ses_1", None, "/tmp", &[]);
    for at in 0..3i64 {
        conn.execute(
            "insert into session_input values (?1, 'ses_1', '{\"text\":\"wake up\"}', ?2, ?3, ?4, ?5)",
            (format!("msg_{at}"), ["queue", "steer", "queue"][at as usize], at, (at == 2).then_some(9), THEN),
        )
        .unwrap();
    }
    drop(conn);
    let audit = db(home.path(), &path, &["audit", "--json"]).json();
    let finding = audit["findings"].as_array().unwrap().iter().find(|finding| finding["id"] == "store.inbox_stuck").unwrap();
    assert!(finding["message"].as_str().unwrap().starts_with("2 rows wait in 1 session"), "{finding}");
    let inbox = db(home.path(), &path, &["inbox", "--json"]).json();
    let rows = inbox["data"]["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 2, "what was promoted waits no more");
    for row in rows {
        assert!(row["age_ms"].as_i64().unwrap() > 0 && row["type"] == "user" && row["delivery"].is_string());
    }
}

/// R09, backnotprop/plannotator#1459: a `resume:false` message stays pending, then eats the next turn. `db inbox`, `rows[].next_wake`.
#[test]
fn r09_the_queue_in_promotion_order_with_what_the_next_wake_takes() {
    let (dir, home) = (tempfile::tempdir().unwrap(), home());
    let path = dir.path().join("store.db");
    let conn = make(&path, &preview(), "wal");
    for (id, session, delivery, seq) in [
        ("q1", "a", "queue", 1),
        ("s2", "a", "steer", 2),
        ("q3", "a", "queue", 3),
        ("s4", "a", "steer", 4),
        ("q5", "b", "queue", 5),
        ("q6", "b", "queue", 6),
    ] {
        waits(&conn, "session_pending", id, session, delivery, seq, "{\"text\":\"x\"}");
    }
    drop(conn);
    let inbox = db(home.path(), &path, &["inbox", "--json"]).json();
    let order: Vec<(&str, bool)> = inbox["data"]["rows"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| (row["id"].as_str().unwrap(), row["next_wake"].as_bool().unwrap()))
        .collect();
    assert_eq!(order, [("s2", true), ("s4", true), ("q1", false), ("q3", false), ("q5", true), ("q6", false)]);
    assert_eq!(inbox["data"]["author"], "reaches the model as user; no author is recorded");
}

/// R10, anomalyco/opencode#37314, #39260: orphan sub-sessions for days; a dangling parent id bricks a session. `db sessions --tree`.
#[test]
fn r10_the_forest_with_its_orphans_and_dangling_parents() {
    let (dir, home) = (tempfile::tempdir().unwrap(), home());
    let path = dir.path().join("store.db");
    let conn = make(&path, &preview(), "wal");
    for (id, parent) in
        [("p", None), ("c1", Some("p")), ("c2", Some("p")), ("o1", Some("gone")), ("o2", Some("gone")), ("o3", Some("also gone"))]
    {
        session(&conn, "session", id, parent, "/tmp", &[]);
    }
    drop(conn);
    let document = db(home.path(), &path, &["sessions", "--tree", "--json"]).json();
    assert_eq!((&document["data"]["orphans"], &document["data"]["dangling_parents"]), (&3.into(), &2.into()));
    let parent = document["data"]["sessions"].as_array().unwrap().iter().find(|session| session["id"] == "p").unwrap();
    assert_eq!((&parent["children"], &parent["orphan"]), (&2.into(), &false.into()));
    let shown = db(home.path(), &path, &["sessions", "--tree"]).stdout;
    assert!(shown.contains("\n  c1 ") && shown.contains("3 orphans; 2 parent ids name no session"), "{shown}");
    let audit = db(home.path(), &path, &["audit", "--json"]).json();
    assert_eq!((&audit["data"]["orphans"], audit["findings"].as_array().unwrap().len()), (&3.into(), 2));
}

/// R11, anomalyco/opencode#38849, #21215: people read `busy_timeout` = 0 from their own shell and blame the host. No answer has one.
#[test]
fn r11_our_own_busy_timeout_is_never_told_as_the_host_s() {
    let (dir, home) = (tempfile::tempdir().unwrap(), home());
    let path = dir.path().join("store.db");
    drop(filled(&path, "wal"));
    for arguments in super::state::COMMANDS {
        let ran = db(home.path(), &path, arguments);
        assert!(!ran.stdout.contains("busy") && !ran.stderr.contains("busy"), "{arguments:?}");
    }
}

/// R12, anomalyco/opencode#33356, #47729: the event table grows to tens of GB, deletes free nothing. `db schema`, `db events`, `db audit`.
#[test]
fn r12_share_of_each_table_rows_per_aggregate_free_pages_auto_vacuum() {
    let (dir, home) = (tempfile::tempdir().unwrap(), home());
    let path = dir.path().join("store.db");
    let conn = make(&path, &preview(), "wal");
    conn.execute_batch(
        "insert into event with recursive n(i) as (select 1 union all select i + 1 from n where i < 30000) \
        select 'evt_' || i, 'ses_' || (i / 10000), i, 1, 't', hex(zeroblob(300)) from n; delete from event where seq < 10000 or seq = 30000",
    )
    .unwrap();
    drop(conn);
    let schema = db(home.path(), &path, &["schema", "--json"]).json();
    let tables = schema["data"]["schema"]["tables"].as_array().unwrap();
    let all: u64 = tables.iter().map(|table| table["bytes"].as_u64().unwrap()).sum();
    let event = tables.iter().find(|table| table["name"] == "event").unwrap();
    assert!(event["bytes"].as_u64().unwrap() * 10 > all * 9 && event["rows"] == 20_000);
    let events = db(home.path(), &path, &["events", "--json"]).json();
    let aggregates = events["data"]["events"]["aggregates"].as_array().unwrap();
    assert_eq!((aggregates.len(), &aggregates[0]["count"]), (2, &10_000.into()));
    let info = &db(home.path(), &path, &["info", "--json"]).json()["data"]["stores"][0];
    let free: i64 = Connection::open(&path).unwrap().query_row("pragma freelist_count", [], |row| row.get(0)).unwrap();
    assert!(free > 500);
    assert_eq!((&info["free_pages"], &info["auto_vacuum"]), (&free.into(), &"none".into()));
    let audit = db(home.path(), &path, &["audit", "--json"]).json();
    let ids: Vec<&str> = audit["findings"].as_array().unwrap().iter().map(|finding| finding["id"].as_str().unwrap()).collect();
    assert!(ids.contains(&"store.event_bloat"), "{ids:?}");
}

/// R20, anomalyco/opencode#33320, #47566: `database is locked`, or a run that hangs on a store that another server holds. `db info`, `stores[].holders`.
#[test]
fn r20_who_holds_the_store_and_how_large_its_wal_is() {
    let (dir, home) = (tempfile::tempdir().unwrap(), home());
    let path = dir.path().join("store.db");
    drop(filled(&path, "wal"));
    let host = need!(Host::open(&path, "begin immediate; update session set title = 'held'"));
    let start = std::time::Instant::now();
    let info = db(home.path(), &path, &["info", "--json"]).json();
    assert!(start.elapsed() < std::time::Duration::from_secs(5), "whoever holds it keeps nobody waiting");
    let store = &info["data"]["stores"][0];
    assert_eq!(store["holders"].as_array().unwrap().len(), 1);
    assert_eq!(store["holders"][0]["comm"], "sqlite3");
    assert_eq!(store["wal_bytes"], std::fs::metadata(format!("{}-wal", path.display())).unwrap().len());
    drop(host);
    assert_eq!(db(home.path(), &path, &["info", "--json"]).json()["data"]["stores"][0]["holders"], serde_json::json!([]));
}
