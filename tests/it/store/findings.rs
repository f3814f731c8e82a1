//! Each finding on a store, made to appear, and absent from a store that lacks the one thing.

use std::path::Path;

use rusqlite::Connection;
use serde_json::Value;

use super::fixtures::{THEN, filled, kv, make, plugin_key, preview, session, v1, v2, waits};
use super::state::{Host, command, db, home};

/// The findings of `audit` on a store, by id.
fn found(home: &Path, file: &Path) -> Vec<String> {
    ids(&db(home, file, &["audit", "--json"]).json())
}

fn ids(document: &Value) -> Vec<String> {
    let ids: std::collections::BTreeSet<String> =
        document["findings"].as_array().expect("an envelope").iter().map(|finding| finding["id"].as_str().unwrap().to_owned()).collect();
    ids.into_iter().collect()
}

/// A preview store made by `fill`, closed, and what `audit` finds.
fn with(fill: impl FnOnce(&Connection)) -> Vec<String> {
    let (dir, home) = (tempfile::tempdir().unwrap(), home());
    let path = dir.path().join("store.db");
    let conn = make(&path, &preview(), "wal");
    fill(&conn);
    drop(conn);
    found(home.path(), &path)
}

#[test]
fn nothing_is_wrong_with_a_sound_store() {
    assert_eq!(with(|conn| session(conn, "session", "s", None, "/tmp", &[])), [""; 0]);
}

#[test]
fn sessions_without_parents_turns_without_daemons_directories_that_are_gone() {
    assert_eq!(
        with(|conn| {
            session(conn, "session", "p", None, "/tmp", &[]);
            session(conn, "session", "c", Some("p"), "/tmp", &[]);
        }),
        [""; 0]
    );
    assert_eq!(
        with(|conn| session(conn, "session", "c", Some("gone"), "/tmp", &[])),
        ["store.session_dangling_parent", "store.session_orphan"]
    );
    assert_eq!(with(|conn| session(conn, "session", "s", None, "/nonexistent/project", &[])), ["store.session_directory_gone"]);
    assert_eq!(with(|conn| session(conn, "session", "s", None, "/tmp", &[("time_suspended", "5")])), ["store.session_suspended"]);
    // Somebody holds it, who is no daemon.
    let (dir, home) = (tempfile::tempdir().unwrap(), home());
    let path = dir.path().join("store.db");
    session(&make(&path, &preview(), "wal"), "session", "s", None, "/tmp", &[("time_suspended", "5")]);
    let host = need!(Host::open(&path, "select count(*) from session"));
    let audit = db(home.path(), &path, &["audit", "--json"]).json();
    assert_eq!(ids(&audit), ["store.session_suspended"]);
    assert_eq!(audit["data"]["store"]["holders"][0]["comm"], "sqlite3");
    drop(host);
}

#[test]
fn rows_that_wait_and_rows_that_wait_twice() {
    let now = jiff::Timestamp::now().as_millisecond();
    assert_eq!(
        with(|conn| {
            session(conn, "session", "s", None, "/tmp", &[]);
            waits(conn, "session_pending", "m", "s", "queue", 1, "{}");
        }),
        ["store.inbox_stuck"]
    );
    // A moment ago: a wake may be on its way.
    assert_eq!(
        with(|conn| {
            session(conn, "session", "s", None, "/tmp", &[]);
            waits(conn, "session_pending", "m", "s", "queue", 1, "{}");
            conn.execute("update session_pending set time_created = ?1", [now + 60_000]).unwrap();
        }),
        [""; 0]
    );
    // A turn runs and will take it (and nobody holds the store, so the turn was cut off).
    assert_eq!(
        with(|conn| {
            session(conn, "session", "s", None, "/tmp", &[("time_suspended", "5")]);
            waits(conn, "session_pending", "m", "s", "queue", 1, "{}");
        }),
        ["store.session_suspended"]
    );
    let twice = |second: &'static str| {
        with(move |conn| {
            session(conn, "session", "s", None, "/tmp", &[]);
            waits(conn, "session_pending", "m1", "s", "queue", 1, "{\"text\":\"go\"}");
            waits(conn, "session_pending", "m2", "s", "queue", 2, second);
        })
    };
    assert_eq!(twice("{\"text\":\"go\"}"), ["store.inbox_duplicate", "store.inbox_stuck"]);
    assert_eq!(twice("{\"text\":\"stop\"}"), ["store.inbox_stuck"]);
}

#[test]
fn plugins_that_are_gone_keys_without_scope_values_too_large() {
    let (dir, home) = (tempfile::tempdir().unwrap(), home());
    let path = dir.path().join("store.db");
    let conn = make(&path, &preview(), "wal");
    kv(&conn, &plugin_key("team", "ses_1/notes"), "{}");
    drop(conn);
    let config = home.path().join(".config/opencode");
    std::fs::create_dir_all(&config).unwrap();
    let configured = |text: Option<&str>| {
        match text {
            Some(text) => std::fs::write(config.join("opencode.jsonc"), text).unwrap(),
            None => drop(std::fs::remove_file(config.join("opencode.jsonc"))),
        }
        let word = db(home.path(), &path, &["kv", "--json"]).json()["data"]["entries"][0]["configured"].as_str().unwrap().to_owned();
        (word, found(home.path(), &path).concat())
    };
    let left_over = "store.kv_left_over".to_owned();
    assert_eq!(configured(None), ("no".to_owned(), left_over.clone()));
    assert_eq!(configured(Some("{ // none\n \"plugin\": [] }")), ("no".to_owned(), left_over.clone()));
    assert_eq!(configured(Some("{\"plugin\": [\"team@1.0.0\"]}")), ("yes".to_owned(), String::new()));
    // What another package calls itself nobody knows, and a config that cannot be read says nothing: unknown is not no.
    assert_eq!(configured(Some("{\"plugin\": [\"other\"]}")), ("unknown".to_owned(), String::new()));
    assert_eq!(configured(Some("{\"plugin\": [")), ("unknown".to_owned(), String::new()));
    let plugin = dir.path().join("my-plugin");
    std::fs::create_dir(&plugin).unwrap();
    std::fs::write(plugin.join("index.js"), "export default { id: \"team\", setup(ctx) {} }").unwrap();
    assert_eq!(configured(Some(&format!("{{\"plugins\": [\"file://{}\"]}}", plugin.display()))), ("yes".to_owned(), String::new()));
    std::fs::write(plugin.join("index.js"), "export default { id: \"renamed\", setup(ctx) {} }").unwrap();
    assert_eq!(configured(Some(&format!("{{\"plugins\": [\"file://{}\"]}}", plugin.display()))), ("no".to_owned(), left_over));
    std::fs::write(config.join("opencode.jsonc"), "{}").unwrap();
    std::fs::create_dir_all(config.join("plugin")).unwrap();
    std::fs::write(config.join("plugin/mine.ts"), "const id = 'team'").unwrap();
    assert_eq!(found(home.path(), &path), [""; 0]);
    let conn = Connection::open(&path).unwrap();
    kv(&conn, &plugin_key("team", "notes"), "{}");
    kv(&conn, &plugin_key("team", "ses_2/big"), &"x".repeat((1 << 20) + 1));
    drop(conn);
    assert_eq!(found(home.path(), &path), ["store.kv_unscoped", "store.value_large"]);
}

#[test]
fn events_that_take_most_of_it_gaps_and_free_pages() {
    let bulk = "with recursive n(i) as (select 1 union all select i + 1 from n where i < 10000) select i from n";
    let filled = |conn: &Connection| {
        conn.execute_batch(&format!("insert into event select 'evt_' || i, 'ses', i - 1, 1, 't', hex(zeroblob(600)) from ({bulk})"))
            .unwrap();
    };
    assert_eq!(with(filled), ["store.event_bloat"]);
    assert_eq!(
        with(|conn| {
            filled(conn);
            conn.execute("delete from event where seq = 77", []).unwrap();
        }),
        ["store.event_bloat", "store.event_gap"]
    );
    assert_eq!(
        with(|conn| {
            filled(conn);
            conn.execute("delete from event", []).unwrap();
        }),
        ["store.free_pages"]
    );
    assert_eq!(
        with(|conn| {
            filled(conn);
            conn.execute_batch("delete from event; vacuum").unwrap();
        }),
        [""; 0]
    );
}

#[test]
fn secrets_are_counted() {
    assert_eq!(
        with(|conn| {
            conn.execute("insert into credential (id, label, value, time_created, time_updated) values ('c', 'l', 'v', 1, 1)", []).unwrap();
        }),
        ["store.secret_columns"]
    );
}

#[test]
fn pages_that_do_not_fit_and_a_base_that_only_its_wal_makes_whole() {
    let (dir, home) = (tempfile::tempdir().unwrap(), home());
    let path = dir.path().join("store.db");
    drop(filled(&path, "wal"));
    // A page of the table in the middle, written over.
    let conn = Connection::open(&path).unwrap();
    let root: i64 = conn.query_row("select rootpage from sqlite_schema where name = 'session'", [], |row| row.get(0)).unwrap();
    drop(conn);
    let sound = std::fs::read(&path).unwrap();
    let mut wrong = sound.clone();
    let at = (root as usize - 1) * 4096;
    wrong[at..at + 4096].fill(0x5a);
    std::fs::write(&path, &wrong).unwrap();
    assert!(found(home.path(), &path).contains(&"store.damaged".to_owned()));
    // The same page, whole, in the WAL of a host that was killed in the middle of a checkpoint.
    std::fs::write(&path, &sound).unwrap();
    let conn = Connection::open(&path).unwrap();
    conn.execute_batch("pragma wal_autocheckpoint=0; update session set title = title || '!'").unwrap();
    let wal = std::fs::read(format!("{}-wal", path.display())).unwrap();
    drop(conn);
    let crash = tempfile::tempdir().unwrap();
    let copy = crash.path().join("store.db");
    std::fs::write(&copy, &wrong).unwrap();
    std::fs::write(format!("{}-wal", copy.display()), &wal).unwrap();
    let audit = db(home.path(), &copy, &["audit", "--json"]).json();
    assert_eq!((audit["data"]["integrity"].as_str(), audit["data"]["base_integrity"].as_str()), (Some("whole"), Some("damaged")));
    assert!(ids(&audit).contains(&"store.base_damaged".to_owned()) && !ids(&audit).contains(&"store.damaged".to_owned()));
    std::fs::write(&copy, &sound).unwrap();
    let audit = db(home.path(), &copy, &["audit", "--json"]).json();
    assert_eq!(audit["data"]["base_integrity"], "whole");
    assert!(!ids(&audit).contains(&"store.base_damaged".to_owned()));
}

#[test]
fn journals_of_other_kinds() {
    let (dir, home) = (tempfile::tempdir().unwrap(), home());
    let path = dir.path().join("store.db");
    drop(make(&path, &preview(), "delete"));
    assert_eq!(found(home.path(), &path), ["store.rollback_journal"]);
    std::fs::remove_file(&path).unwrap();
    let conn = make(&path, &v1(), "wal");
    conn.execute_batch("create table __drizzle_migrations (id integer primary key, hash text, created_at numeric)").unwrap();
    drop(conn);
    assert_eq!(found(home.path(), &path), [""; 0], "both journals: a 1.x store of today");
    Connection::open(&path).unwrap().execute_batch("drop table migration").unwrap();
    assert_eq!(found(home.path(), &path), ["store.legacy_journal"]);
    let conn = make(&dir.path().join("hot.db"), &preview(), "delete");
    conn.execute_batch("pragma cache_size=1; begin immediate").unwrap();
    for at in 0..2000 {
        session(&conn, "session", &format!("{at}"), None, "/tmp", &[]);
    }
    // Its writer is alive and holds RESERVED: to SQLite such a journal is not hot (sqlite.org/lockingv3.html, 4.1).
    let hot = dir.path().join("hot.db");
    assert_eq!(found(home.path(), &hot), ["store.rollback_journal"]);
    // What it leaves when it is killed.
    let left = dir.path().join("left.db");
    for suffix in ["", "-journal"] {
        std::fs::copy(format!("{}{suffix}", hot.display()), format!("{}{suffix}", left.display())).unwrap();
    }
    assert_eq!(found(home.path(), &left), ["store.hot_journal", "store.rollback_journal"]);
}

#[test]
fn a_wal_that_grew() {
    let (dir, home) = (tempfile::tempdir().unwrap(), home());
    let path = dir.path().join("store.db");
    drop(make(&path, &preview(), "wal"));
    let host = need!(Host::open(
        &path,
        "pragma wal_autocheckpoint=0; insert into kv values ('a', hex(zeroblob(20000000)), 1, 1); update kv set value = value || '1'"
    ));
    let grown = || found(home.path(), &path).contains(&"store.wal_large".to_owned());
    assert!(grown());
    host.close();
    assert!(!grown());
}

#[test]
fn blackboards_past_their_time() {
    let (dir, home) = (tempfile::tempdir().unwrap(), home());
    let repo = dir.path().join("repo");
    let task = repo.join(".git/opencode-team/ses_1/task");
    std::fs::create_dir_all(&task).unwrap();
    let file = task.join("01-lead-plan.md");
    std::fs::write(&file, "<!-- tm_board_write -->").unwrap();
    let path = dir.path().join("store.db");
    let below = repo.join("src");
    std::fs::create_dir(&below).unwrap();
    session(&make(&path, &preview(), "wal"), "session", "s", None, below.to_str().unwrap(), &[]);
    assert_eq!(found(home.path(), &path), [""; 0]);
    let old = std::time::SystemTime::now() - std::time::Duration::from_secs(6 * 24 * 3600);
    std::fs::File::options().write(true).open(&file).unwrap().set_modified(old).unwrap();
    assert_eq!(found(home.path(), &path), ["store.blackboard_stale"]);

    // A linked worktree, as git makes it: its board lies where the repository is.
    let git = need!(crate::world::need::tool("git", "git"));
    std::fs::remove_dir_all(repo.join(".git")).unwrap();
    let tree = dir.path().join("tree");
    let run = |arguments: &[&str]| {
        let mut command = std::process::Command::new(&git);
        command.args(["-c", "user.name=n", "-c", "user.email=n@example.org"]).args(arguments).current_dir(&repo).env("HOME", home.path());
        assert!(command.output().unwrap().status.success(), "{arguments:?}");
    };
    run(&["init", "-q"]);
    run(&["commit", "-q", "--allow-empty", "-m", "m"]);
    run(&["worktree", "add", "-q", tree.to_str().unwrap()]);
    std::fs::create_dir_all(&task).unwrap();
    std::fs::write(&file, "x").unwrap();
    std::fs::File::options().write(true).open(&file).unwrap().set_modified(old).unwrap();
    let other = dir.path().join("other.db");
    session(&make(&other, &preview(), "wal"), "session", "s", None, tree.to_str().unwrap(), &[]);
    assert_eq!(found(home.path(), &other), ["store.blackboard_stale"]);
}

#[test]
fn a_blackboard_outside_of_git_is_its_directory_s_alone() {
    use sha2::Digest;
    let (dir, home) = (tempfile::tempdir().unwrap(), home());
    let (mine, yours) = (dir.path().join("mine"), dir.path().join("yours"));
    std::fs::create_dir_all(&mine).unwrap();
    std::fs::create_dir_all(&yours).unwrap();
    let hash: String = sha2::Sha256::digest(mine.to_str().unwrap()).iter().map(|byte| format!("{byte:02x}")).collect();
    let shard = Path::new("/tmp/opencode-team").join(format!("w-{hash}"));
    let task = shard.join("ses_1/task");
    std::fs::create_dir_all(&task).unwrap();
    let file = task.join("01-lead-plan.md");
    std::fs::write(&file, "x").unwrap();
    let old = std::time::SystemTime::now() - std::time::Duration::from_secs(6 * 24 * 3600);
    std::fs::File::options().write(true).open(&file).unwrap().set_modified(old).unwrap();
    let of = |name: &str, directory: &Path| {
        let path = dir.path().join(name);
        session(&make(&path, &preview(), "wal"), "session", "s", None, directory.to_str().unwrap(), &[]);
        found(home.path(), &path)
    };
    let answers = (of("mine.db", &mine), of("yours.db", &yours));
    std::fs::remove_dir_all(&shard).unwrap();
    let _ = std::fs::remove_dir("/tmp/opencode-team");
    assert_eq!(answers, (vec!["store.blackboard_stale".to_owned()], Vec::new()));
}

#[test]
fn payloads_too_large_to_be_read_are_not_the_same() {
    let large = |first: char| format!("{{\"text\":\"{}\"}}", first.to_string().repeat(17 << 20));
    let ids = with(|conn| {
        session(conn, "session", "s", None, "/tmp", &[]);
        waits(conn, "session_pending", "m1", "s", "queue", 1, &large('a'));
        waits(conn, "session_pending", "m2", "s", "queue", 2, &large('b'));
    });
    assert_eq!(ids, ["store.inbox_stuck"]);
}

#[test]
fn several_stores_are_never_one_of_them() {
    let home = home();
    let data = home.path().join(".local/share/opencode");
    std::fs::create_dir_all(&data).unwrap();
    drop(filled(&data.join("opencode.db"), "wal"));
    let ask = |arguments: &[&str]| {
        let mut command = crate::run::whoseenv(&["db"]);
        crate::run::ran(command.args(arguments).env("HOME", home.path()))
    };
    // Other daemons on this machine have stores of their own, so the count is not ours alone.
    let info = ask(&["info", "--json"]).json();
    let ours = |document: &Value| {
        document["data"]["stores"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|store| store["path"].as_str().unwrap().starts_with(home.path().to_str().unwrap()))
            .count()
    };
    assert_eq!(ours(&info), 1);
    drop(make(&data.join("opencode-next.db"), &v2(true), "wal"));
    assert_eq!(ours(&ask(&["info", "--json"]).json()), 2);
    let several = ask(&["sessions", "--json"]);
    assert_eq!(several.code, 2);
    assert!(several.json()["error"]["hints"].as_array().unwrap().iter().any(|hint| hint.as_str().unwrap().ends_with("opencode-next.db")));
    // The variable names one, as the host reads it.
    let mut command = crate::run::whoseenv(&["db", "sessions", "--json"]);
    let one = crate::run::ran(command.env("HOME", home.path()).env("OPENCODE_DB", "opencode.db"));
    assert!(one.code == 0 || one.code == 2, "{}", one.stdout);
    let _ = THEN;
    let closed = command_fails(home.path());
    assert_eq!(closed, 2);
}

fn command_fails(home: &Path) -> i32 {
    crate::run::ran(command(home, Path::new("x"), &["sessions", "--limit", "many"]).arg("--json")).code
}
