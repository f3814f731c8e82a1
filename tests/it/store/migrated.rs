//! A store that 2.x took over from 1.x: both generations side by side, one answer.

use std::path::PathBuf;

use super::fixtures::{THEN, make, session, v1, v2, waits};
use super::state::{db, home};

/// `ses_a` was moved; `ses_leg`, its child, and a row for it were not.
fn store() -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store.db");
    let conn = make(&path, &format!("{} {}", v1(), v2(true)), "wal");
    session(&conn, "session_v2", "ses_a", None, "/tmp", &[]);
    session(&conn, "session_v2", "ses_o1", Some("ses_GONE"), "/tmp", &[]);
    session(&conn, "session_v2", "ses_o2", Some("ses_GONE"), "/tmp", &[]);
    session(&conn, "session_v2", "ses_none", Some(""), "/tmp", &[]);
    session(&conn, "session", "ses_a", Some("ses_LONG_GONE"), "/tmp", &[]);
    session(&conn, "session", "ses_leg", Some("ses_LEGGONE"), "/nonexistent/legacy", &[]);
    session(&conn, "session", "ses_legc", Some("ses_leg"), "/tmp", &[]);
    waits(&conn, "session_inbox", "msg_new", "ses_a", "steer", 1, "{\"text\":\"n\"}");
    for (id, promoted) in [("msg_leg", "null"), ("msg_taken", "7"), ("msg_new", "null")] {
        conn.execute_batch(&format!(
            "insert into session_input values ('{id}', 'ses_leg', '{{\"text\":\"x\"}}', 'steer', {}, {promoted}, {THEN})",
            id.len()
        ))
        .unwrap();
    }
    (dir, path)
}

#[test]
fn audit_and_sessions_count_the_same() {
    let ((_dir, path), home) = (store(), home());
    let sessions = db(home.path(), &path, &["sessions", "--json"]).json();
    let audit = db(home.path(), &path, &["audit", "--json"]).json();
    let listed = sessions["data"]["sessions"].as_array().unwrap();
    assert_eq!((listed.len(), audit["data"]["sessions"].as_u64()), (6, Some(6)));
    let orphans: Vec<&str> = listed.iter().filter(|one| one["orphan"] == true).map(|one| one["id"].as_str().unwrap()).collect();
    // An empty text is no parent.
    assert_eq!((orphans.len(), orphans.contains(&"ses_none")), (3, false));
    assert_eq!((sessions["data"]["orphans"].as_u64(), audit["data"]["orphans"].as_u64()), (Some(3), Some(3)));
    let of = |id: &str| audit["findings"].as_array().unwrap().iter().find(|finding| finding["id"] == id).unwrap_or_else(|| panic!("{id}"));
    assert_eq!(of("store.session_dangling_parent")["message"], "2 parent ids name no session: ses_GONE, ses_LEGGONE");
    let orphan = of("store.session_orphan").to_string();
    assert!(orphan.contains("table session\"") && orphan.contains("ses_leg: parent ses_LEGGONE"), "{orphan}");
    assert_eq!(of("store.session_directory_gone")["message"], "1 directory of 1 session is gone: /nonexistent/legacy");
}

#[test]
fn what_waits_in_the_queue_of_before_is_told() {
    let ((_dir, path), home) = (store(), home());
    let inbox = db(home.path(), &path, &["inbox", "--json"]).json();
    let rows = inbox["data"]["rows"].as_array().unwrap();
    let seen: Vec<_> =
        rows.iter().map(|row| (row["id"].as_str().unwrap(), row["earlier_table"].as_str(), row["next_wake"].as_bool())).collect();
    assert_eq!(seen, [("msg_new", None, Some(true)), ("msg_leg", Some("session_input"), Some(false))]);
    assert_eq!(db(home.path(), &path, &["audit", "--json"]).json()["data"]["pending"], 2);
    // One limit for both tables.
    assert_eq!(db(home.path(), &path, &["inbox", "--limit", "1", "--json"]).json()["data"]["rows"].as_array().unwrap().len(), 1);
    for limit in ["2", "5"] {
        let rows = db(home.path(), &path, &["sessions", "--limit", limit, "--json"]).json();
        assert_eq!(rows["data"]["sessions"].as_array().unwrap().len().to_string(), limit);
    }
}
