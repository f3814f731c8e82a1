//! What is many, what is hidden, and what a store does not tell: each is looked at to its end, or told as not known.

use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use serde_json::Value;

use super::fixtures::{THEN, kv, make, plugin_key, preview, session, v1, v2, waits};
use super::state::{Host, command, db, home};
use crate::run::{Ran, ran};

fn finding<'d>(document: &'d Value, id: &str) -> Option<&'d Value> {
    document["findings"].as_array().unwrap().iter().find(|finding| finding["id"] == id)
}

#[test]
fn a_migrated_store_has_one_order() {
    let (dir, home) = (tempfile::tempdir().unwrap(), home());
    let path = dir.path().join("store.db");
    let conn = make(&path, &format!("{} {}", v1(), v2(true)), "delete");
    for (table, id, at) in [("session_v2", "ses_a", 1), ("session", "ses_b", 3), ("session_v2", "ses_c", 2), ("session", "ses_d", 0)] {
        session(&conn, table, id, None, "/tmp", &[]);
        conn.execute(&format!("update {table} set time_updated = ?1 where id = ?2"), (THEN + at, id)).unwrap();
    }
    session(&conn, "session_v2", "ses_own", Some("ses_own"), "/tmp", &[]);
    conn.execute_batch("update session_v2 set time_updated = 5 where id = 'ses_own'").unwrap();
    drop(conn);
    let shell = need!(crate::world::need::tool("sqlite3", "sqlite3"));
    let union =
        "select id from (select id, time_updated u from session_v2 union all select id, time_updated from session) order by u desc, id";
    let said = Command::new(shell).arg("-readonly").arg(&path).arg(union).output().unwrap();
    let expected: Vec<String> = String::from_utf8(said.stdout).unwrap().lines().map(str::to_owned).collect();
    assert_eq!(expected.len(), 5);
    let listed = |more: &[&str]| {
        let document = db(home.path(), &path, &[&["sessions", "--json"], more].concat()).json();
        let ids = |row: &Value| row["id"].as_str().unwrap().to_owned();
        (document["data"]["sessions"].as_array().unwrap().iter().map(ids).collect::<Vec<_>>(), document)
    };
    let (all, document) = listed(&[]);
    assert_eq!(all, expected);
    assert_eq!(listed(&["--limit", "1"]).0, expected[..1]);
    assert_eq!(listed(&["--directory", "/tmp", "--limit", "2"]).0, expected[..2]);
    let own = document["data"]["sessions"].as_array().unwrap().iter().find(|row| row["id"] == "ses_own").unwrap();
    assert_eq!((&own["table"], &own["children"], &own["orphan"]), (&"session_v2".into(), &0.into(), &false.into()));
}

#[test]
fn more_directories_and_plugins_than_anybody_has_are_all_judged() {
    let (dir, home) = (tempfile::tempdir().unwrap(), home());
    let path = dir.path().join("store.db");
    let conn = make(&path, &preview(), "delete");
    conn.execute_batch("begin").unwrap();
    for at in 0..1500 {
        let project = dir.path().join(format!("p{at:04}"));
        if at < 1400 {
            std::fs::create_dir(&project).unwrap();
        }
        session(&conn, "session", &format!("ses_{at}"), None, project.to_str().unwrap(), &[]);
        kv(&conn, &plugin_key(&format!("plugin-{at:04}"), "ses_1/x"), "1");
        waits(&conn, "session_pending", &format!("m{at}"), &format!("ses_{}", at % 15), "queue", at, &format!("{{\"text\":\"{at}\"}}"));
    }
    conn.execute("update kv set value = hex(zeroblob(1000000)) where key = ?1", [plugin_key("plugin-1499", "ses_1/x")]).unwrap();
    conn.execute_batch("commit").unwrap();
    drop(conn);
    // The last plugin is configured in the last project that is there.
    let plugins = dir.path().join("p1399/.opencode/plugin");
    std::fs::create_dir_all(&plugins).unwrap();
    std::fs::write(plugins.join("x.js"), "export default { id: \"plugin-1499\", setup() {} }").unwrap();
    let audit = db(home.path(), &path, &["audit", "--json"]).json();
    let gone = finding(&audit, "store.session_directory_gone").unwrap()["message"].as_str().unwrap().to_owned();
    assert!(gone.starts_with("100 directories of 100 sessions are gone"), "{gone}");
    assert_eq!(finding(&audit, "store.value_large").unwrap()["message"], "1 value of plugin plugin-1499 has over 1048576 bytes");
    assert_eq!(audit["data"]["plugin_rows"], 1500);
    // All of them are counted.
    assert_eq!(finding(&audit, "store.inbox_stuck").unwrap()["message"], "1500 rows wait in 15 sessions in which no turn runs");
    let kv = db(home.path(), &path, &["kv", "--json"]).json();
    let word = |plugin: &str| {
        kv["data"]["entries"].as_array().unwrap().iter().find(|entry| entry["plugin"] == plugin).unwrap()["configured"].clone()
    };
    assert_eq!((word("plugin-1499"), word("plugin-0000")), ("yes".into(), "no".into()));
}

#[test]
fn a_plugin_of_a_directory_above_is_configured() {
    let (dir, home) = (tempfile::tempdir().unwrap(), home());
    let path = dir.path().join("store.db");
    let below = dir.path().join("repo/sub");
    std::fs::create_dir_all(&below).unwrap();
    let conn = make(&path, &preview(), "delete");
    session(&conn, "session", "ses_1", None, below.to_str().unwrap(), &[]);
    kv(&conn, &plugin_key("team", "ses_1"), "1");
    drop(conn);
    let word = |more: &[(&str, &std::path::Path)]| {
        let mut asked = command(home.path(), &path, &["kv", "--json"]);
        more.iter().for_each(|(name, value)| {
            asked.env(name, value);
        });
        ran(&mut asked).json()["data"]["entries"][0]["configured"].as_str().unwrap().to_owned()
    };
    assert_eq!(word(&[]), "no");
    let plugin = dir.path().join("team.js");
    std::fs::write(&plugin, "export default { id: \"team\", setup() {} }").unwrap();
    let config = format!("{{\"plugins\": [\"file://{}\"]}}", plugin.display());
    let alone = dir.path().join("alone.json");
    std::fs::write(&alone, &config).unwrap();
    assert_eq!(word(&[("OPENCODE_CONFIG", &alone)]), "yes");
    // next-16350 looks for it in the session's directory and in every one above.
    std::fs::write(dir.path().join("repo/opencode.json"), &config).unwrap();
    assert_eq!(word(&[]), "yes");
}

/// next-16350 leaves `time_suspended` empty while a turn runs, and writes these events (seen: started, and no end, while `/api/session/active` lists it).
#[test]
fn a_turn_that_only_events_tell_of() {
    let (dir, home) = (tempfile::tempdir().unwrap(), home());
    let path = dir.path().join("store.db");
    let stuck = |events: &[&str], host: Option<&str>| {
        let _ = std::fs::remove_file(&path);
        let conn = make(&path, &preview(), "wal");
        session(&conn, "session", "s", None, "/tmp", &[]);
        waits(&conn, "session_pending", "m", "s", "queue", 9, "{}");
        for (seq, event) in events.iter().enumerate() {
            conn.execute(
                "insert into event values (?1, 's', ?2, ?3, ?4, '{}')",
                (format!("e{seq}"), i64::try_from(seq).unwrap(), THEN, event),
            )
            .unwrap();
        }
        drop(conn);
        // Something that could be a host has it open: python under the name of one.
        let child = host.map(|name| {
            let python = dir.path().join(name);
            std::fs::copy("/usr/bin/python3", &python).unwrap();
            let hold = "import sqlite3, sys, time\nc = sqlite3.connect(sys.argv[1])\nc.execute('select 1 from session').fetchall()\nprint('ready', flush=True)\ntime.sleep(60)";
            let mut child =
                Command::new(&python).args(["-c", hold]).arg(&path).stdout(std::process::Stdio::piped()).spawn().unwrap();
            use std::io::Read;
            child.stdout.as_mut().unwrap().read_exact(&mut [0; 6]).unwrap();
            child
        });
        let audit = db(home.path(), &path, &["audit", "--json"]).json();
        if let Some(mut child) = child {
            let _ = child.kill();
            let _ = child.wait();
        }
        finding(&audit, "store.inbox_stuck").map(|finding| finding["outcome"].as_str().unwrap().to_owned())
    };
    let (started, ended) = ("session.execution.started.1", "session.execution.succeeded.1");
    let (confirmed, open) = (Some("confirmed".to_owned()), Some("undetermined".to_owned()));
    // Nobody is there who could run one.
    assert_eq!(stuck(&["session.created.1", started], None), confirmed);
    assert_eq!(stuck(&["session.created.1"], None), confirmed);
    if !std::path::Path::new("/usr/bin/python3").exists() {
        skip!("python3 is not installed");
    }
    let host = Some("opencode-of-nobody");
    assert_eq!(stuck(&["session.created.1", started], host), None, "a turn runs and will take it");
    assert_eq!(stuck(&["session.created.1", started, ended], host), confirmed);
    assert_eq!(stuck(&["session.created.1", started, ended, started, "session.step.started.1"], host), None);
    assert_eq!(stuck(&["session.created.1"], host), open, "no event tells");
}

#[test]
fn a_slash_is_no_scope_and_a_path_is() {
    let (dir, home) = (tempfile::tempdir().unwrap(), home());
    let path = dir.path().join("store.db");
    let unscoped = |key: &str| {
        let _ = std::fs::remove_file(&path);
        let conn = make(&path, &preview(), "delete");
        kv(&conn, &plugin_key("team", key), "1");
        drop(conn);
        finding(&db(home.path(), &path, &["audit", "--json"]).json(), "store.kv_unscoped").is_some()
    };
    for key in ["settings/theme", "token/abc", "theme", "a/b/c", "//", "x / y"] {
        assert!(unscoped(key), "{key}");
    }
    for key in ["ses_1", "notes:/home/a/project", "/tmp", "prj_1/x", "board=/w"] {
        assert!(!unscoped(key), "{key}");
    }
}

#[test]
fn a_payload_that_was_not_read_says_so() {
    let (dir, home) = (tempfile::tempdir().unwrap(), home());
    let path = dir.path().join("store.db");
    let conn = make(&path, &preview(), "delete");
    waits(&conn, "session_pending", "m", "s", "queue", 1, &format!("{{\"text\":\"{}\"}}", "x".repeat(17_000_000)));
    drop(conn);
    let document = db(home.path(), &path, &["inbox", "--show-text", "--json"]).json();
    let payload = &document["data"]["rows"][0]["payload"];
    assert_eq!((&payload["bytes"], &payload["not_read"]), (&17_000_011.into(), &"it is over 16 MiB".into()));
    assert!(payload.get("text").is_none() && payload.get("fingerprint").is_none());
    assert!(db(home.path(), &path, &["inbox", "--show-text"]).stdout.contains("not read: it is over 16 MiB"));
}

#[test]
fn what_a_stranger_cannot_see_is_not_well() {
    // A world ends whatever runs as this account.
    let _alone = crate::world::world::alone();
    let stranger = need!(crate::world::accounts::stranger());
    let dir = tempfile::tempdir().unwrap();
    std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let path = dir.path().join("store.db");
    let hidden = dir.path().join("closed");
    std::fs::create_dir(&hidden).unwrap();
    std::fs::set_permissions(&hidden, std::fs::Permissions::from_mode(0o700)).unwrap();
    let conn = make(&path, &preview(), "wal");
    session(&conn, "session", "s", None, hidden.join("gone").to_str().unwrap(), &[]);
    drop(conn);
    let program = dir.path().join("whoseenv");
    std::fs::copy(crate::run::PROGRAM, &program).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let cache = tempfile::tempdir().unwrap();
    std::os::unix::fs::chown(cache.path(), Some(stranger.uid), Some(stranger.gid)).unwrap();
    let as_stranger = |arguments: &[&str]| -> Ran {
        use std::os::unix::process::CommandExt;
        let mut command = Command::new(&program);
        command.arg("db").args(arguments).arg("--db").arg(&path).env_clear().env("PATH", "/usr/bin:/bin").env("HOME", cache.path());
        command.uid(stranger.uid).gid(stranger.gid);
        ran(&mut command)
    };
    let audit = as_stranger(&["audit", "--json"]);
    assert_eq!((audit.code, &audit.json()["status"]), (5, &"undetermined".into()), "{}", audit.stdout);
    assert!(audit.json()["notes"].to_string().contains("not permitted to read it"), "{}", audit.stdout);
    // Nobody is not what she sees.
    let info = as_stranger(&["info"]);
    assert!(info.stdout.contains("unknown: the open files of other accounts' processes are hidden"), "{}", info.stdout);
    // Whoever has it open holds SQLite's lock on -shm, which /proc/locks tells everybody, on file systems that stat and it name alike.
    let host = need!(Host::open(&path, "update session set title = 'live'"));
    for entry in std::fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_file()) {
        std::fs::set_permissions(entry, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    let info = as_stranger(&["info", "--json"]).json();
    let store = &info["data"]["stores"][0];
    assert_eq!(store["holders_unseen"], true);
    if ["ext4", "xfs", "tmpfs"].contains(&store["file_system"].as_str().unwrap()) {
        assert_eq!(store["holders"][0]["comm"], "sqlite3", "{info}");
    }
    host.close();
}
