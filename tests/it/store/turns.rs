//! Turns that run, as the hosts themselves say, and sessions whose parents go in a circle.

use serde_json::{Value, json};

use super::fixtures::{THEN, make, preview, session, v1, v2};
use super::state::{db, home};
use crate::run::ran;
use crate::world::World;
use crate::world::daemons::{Opencode, Start};
use crate::world::look::wait_until;

fn finding<'d>(document: &'d Value, id: &str) -> Option<&'d Value> {
    document["findings"].as_array().unwrap().iter().find(|finding| finding["id"] == id)
}

fn event(conn: &rusqlite::Connection, of: &str, seq: i64, kind: &str) {
    let columns = "id, aggregate_id, seq, type, data";
    conn.execute(&format!("insert into event ({columns}) values (?1, ?2, ?3, ?4, '{{}}')"), (format!("{of}{seq}"), of, seq, kind)).unwrap();
}

/// A provider that nobody reaches: the host tries again and again, and the turn goes on.
#[test]
fn a_turn_of_a_real_preview_is_one_until_its_host_is_killed_and_after() {
    let world = need!(World::new());
    let config = json!({"model": "stub/stub", "permission": "allow", "autoupdate": false, "provider": {"stub": {"npm": "@ai-sdk/openai-compatible",
        "options": {"baseURL": "http://127.0.0.1:9/v1", "apiKey": "no-secret"}, "models": {"stub": {"name": "stub"}}}}});
    world.user.write(&world.user.home.join(".config/opencode/opencode.json"), &config.to_string());
    let server = need!(Opencode::preview_serve(Start::as_account(&world.user, &[])));
    let path = world.user.home.join(".local/share/opencode/opencode-next.db");
    let file = path.to_str().unwrap();
    let ask = |arguments: &[&str]| {
        let mut command = world.user.command(&world.whoseenv);
        command.arg("db").args(arguments).args(["--db", file]);
        ran(&mut command)
    };
    // What the host says, beside what is told of its store.
    let active = || -> Vec<String> {
        let active = server.endpoint.json("GET", "/api/session/active", None);
        active["data"].as_object().unwrap().keys().cloned().collect()
    };
    let suspended = || -> Vec<String> {
        let sessions = ask(&["sessions", "--json"]).json();
        let sessions = sessions["data"]["sessions"].as_array().unwrap();
        sessions.iter().filter(|row| row["suspended"] == true).map(|row| row["id"].as_str().unwrap().to_owned()).collect()
    };
    let (idle, busy) = (server.session(), server.session());
    server.endpoint.json("POST", &format!("/api/session/{busy}/prompt"), Some(&json!({"text": "wake now"})));
    server.endpoint.json("POST", &format!("/api/session/{busy}/prompt"), Some(&json!({"text": "later", "delivery": "queue"})));
    wait_until("the turn", || active() == [busy.as_str()] && suspended() == [busy.as_str()]);
    let sessions = ask(&["sessions", "--json"]).json();
    let of_idle = sessions["data"]["sessions"].as_array().unwrap().iter().find(|row| row["id"] == idle.as_str()).unwrap();
    assert_eq!((&of_idle["suspended"], &sessions["notes"]), (&json!(false), &json!([])));
    assert!(ask(&["sessions"]).stdout.lines().any(|line| line.contains(&busy) && line.ends_with("in a turn")));
    let audit = ask(&["audit", "--json"]).json();
    assert_eq!(active(), [busy.as_str()], "it went on all the while");
    assert_eq!((&audit["data"]["suspended"], finding(&audit, "store.session_suspended")), (&json!(1), None), "{audit:#}");
    assert_eq!(finding(&audit, "store.inbox_stuck"), None, "the turn takes what waits");
    // Killed in the middle.
    let pid = rustix::process::Pid::from_raw(i32::try_from(server.pid()).unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    server.stop();
    // As root: to another account whoever holds it may be one of the processes that it cannot look into.
    let root = home();
    let audit = db(root.path(), &path, &["audit", "--json"]);
    let document = audit.json();
    let began = super::answers::shell(
        &path,
        &format!("select max(seq) as seq from event where aggregate_id = '{busy}' and type like 'session.execution.started%'"),
    );
    let began = need!(began)[0]["seq"].clone();
    let found = finding(&document, "store.session_suspended").unwrap_or_else(|| panic!("{document:#}"));
    assert_eq!((audit.code, &found["outcome"], &document["data"]["suspended"]), (1, &json!("confirmed"), &json!(1)));
    let detail = found["evidence"][0]["detail"].as_str().unwrap();
    assert!(detail.starts_with(&format!("{busy}: event {began} began a turn")), "{detail}");
}

#[test]
fn what_events_tell_of_turns_and_what_they_do_not() {
    let (dir, home) = (tempfile::tempdir().unwrap(), home());
    let path = dir.path().join("store.db");
    let told = |schema: &str, table: &str, events: &[(&str, i64, &str)]| {
        let _ = std::fs::remove_file(&path);
        let conn = make(&path, schema, "delete");
        for id in ["a", "b"] {
            session(&conn, table, id, None, "/tmp", &[]);
        }
        for (of, seq, kind) in events {
            if schema == preview() {
                conn.execute("insert into event values (?1, ?2, ?3, ?4, ?5, '{}')", (format!("{of}{seq}"), of, seq, THEN, kind)).unwrap();
            } else {
                event(&conn, of, *seq, kind);
            }
        }
        drop(conn);
        let sessions = db(home.path(), &path, &["sessions", "--json"]).json();
        let audit = db(home.path(), &path, &["audit", "--json"]).json();
        let row =
            |id: &str| sessions["data"]["sessions"].as_array().unwrap().iter().find(|row| row["id"] == id).unwrap()["suspended"].clone();
        assert_eq!(sessions["notes"], audit["notes"]);
        (row("a"), row("b"), audit["data"]["suspended"].clone(), sessions["notes"][0].clone())
    };
    let (started, failed) = ("session.execution.started.1", "session.execution.failed.1");
    let (created, step) = ("session.created.1", "session.step.started.1");
    let of_a = [("b", 0, created), ("a", 0, created), ("a", 2, started), ("a", 9, failed), ("a", 10, started), ("a", 11, step)];
    let all = |count: u64| {
        json!(format!("whether a turn runs is not known of {count} sessions: the store has no event that tells of their turns"))
    };
    let one = json!("whether a turn runs is not known of 1 session: the store has no event that tells of its turns");
    assert_eq!(told(&preview(), "session", &of_a), (json!(true), json!(false), json!(1), Value::Null));
    assert_eq!(told(&preview(), "session", &of_a[..4]), (json!(false), json!(false), json!(0), Value::Null));
    // A preview that writes none of them, and 1.18.34, whose own routes write none (seen, while /session/status lists a turn).
    assert_eq!(told(&preview(), "session", &of_a[..2]), (Value::Null, Value::Null, Value::Null, all(2)));
    assert_eq!(told(&v1(), "session", &of_a[..2]), (Value::Null, Value::Null, Value::Null, all(2)));
    assert_eq!(told(&v1(), "session", &of_a), (json!(true), Value::Null, json!(1), one));
    // 2.0.x fills its column.
    assert_eq!(told(&v2(true), "session_v2", &[]), (json!(false), json!(false), json!(0), Value::Null));
}

#[test]
fn parents_that_go_in_a_circle() {
    let (dir, home) = (tempfile::tempdir().unwrap(), home());
    let path = dir.path().join("store.db");
    let conn = make(&path, &preview(), "delete");
    for (id, parent) in [
        ("ses_a", Some("ses_b")),
        ("ses_b", Some("ses_a")),
        ("ses_below", Some("ses_a")),
        ("ses_root", None),
        ("ses_child", Some("ses_root")),
    ] {
        session(&conn, "session", id, parent, "/tmp", &[]);
    }
    drop(conn);
    let audit = db(home.path(), &path, &["audit", "--json"]);
    assert_eq!(audit.code, 1, "{}", audit.stdout);
    let audit = audit.json();
    let found = finding(&audit, "store.session_parent_circle").unwrap();
    assert_eq!(found["message"], "2 sessions are their own ancestors by their parent ids");
    assert_eq!((found["evidence"].as_array().unwrap().len(), &audit["data"]["circular"]), (2, &json!(2)));
    let tree = db(home.path(), &path, &["sessions", "--tree", "--json"]).json();
    let told: Vec<(&str, u64, bool)> = tree["data"]["tree"]
        .as_array()
        .unwrap()
        .iter()
        .map(|node| {
            let at = usize::try_from(node["session"].as_u64().unwrap()).unwrap();
            let id = tree["data"]["sessions"][at]["id"].as_str().unwrap();
            (id, node["depth"].as_u64().unwrap(), node["circle"] == true)
        })
        .collect();
    let expected = [("ses_root", 0, false), ("ses_child", 1, false), ("ses_a", 0, true), ("ses_b", 1, true), ("ses_below", 1, false)];
    assert_eq!(told, expected);
    let shown = db(home.path(), &path, &["sessions", "--tree"]).stdout;
    assert!(shown.contains("its own ancestor, by parent ses_b") && shown.contains("its own ancestor, by parent ses_a"), "{shown}");
}

#[test]
fn one_of_anything_is_one() {
    let (dir, home) = (tempfile::tempdir().unwrap(), home());
    let path = dir.path().join("store.db");
    let conn = make(&path, &preview(), "delete");
    super::fixtures::kv(&conn, &super::fixtures::plugin_key("team", "theme"), "1");
    super::fixtures::waits(&conn, "session_pending", "m", "s", "queue", 1, "1");
    conn.execute("insert into event values ('e', 's', 0, ?1, 'session.created.1', '1')", [THEN]).unwrap();
    drop(conn);
    for arguments in [&["kv"][..], &["inbox"], &["events"], &["audit"], &["info"], &["schema"], &["sessions"]] {
        let said = db(home.path(), &path, arguments).stdout;
        for word in ["bytes", "rows", "keys", "events", "sessions", "pages", "values", "files"] {
            let wrong = said.match_indices(&format!("1 {word}")).any(|(at, _)| !said[..at].ends_with(|c: char| c.is_ascii_digit()));
            assert!(!wrong, "{arguments:?}: 1 {word}\n{said}");
        }
    }
}
