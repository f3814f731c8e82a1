//! Snapshots that hold the stores: the same answers later, without what is secret.

use serde_json::Value;

use super::fixtures::{filled, waits};
use super::state::{COMMANDS, Host, home};
use crate::run::{Ran, ran, whoseenv};

fn timeless(value: &mut Value) {
    match value {
        Value::Object(object) => {
            for (key, value) in object.iter_mut() {
                if ["taken_at", "at", "age_ms", "why", "agent"].contains(&key.as_str()) {
                    *value = Value::Null;
                }
                timeless(value);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(timeless),
        _ => {}
    }
}

fn answer(ran: &Ran) -> (Vec<Value>, i32) {
    let mut documents: Vec<Value> = match serde_json::from_str(&ran.stdout) {
        Ok(document) => vec![document],
        Err(_) => ran.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect(),
    };
    for document in &mut documents {
        timeless(document);
        for key in ["host", "privilege"] {
            document.as_object_mut().unwrap().remove(key);
        }
        // Why it was looked at is another matter than what it says.
        if let Some(agent) = document.pointer_mut("/data/store").and_then(Value::as_object_mut) {
            agent.remove("agent");
        }
        for store in document.pointer_mut("/data/stores").and_then(Value::as_array_mut).into_iter().flatten() {
            store.as_object_mut().unwrap().remove("agent");
        }
    }
    (documents, ran.code)
}

#[test]
fn the_same_answers_from_a_snapshot_and_no_secret_in_it() {
    let (dir, home) = (tempfile::tempdir().unwrap(), home());
    let data = home.path().join(".local/share/opencode");
    std::fs::create_dir_all(&data).unwrap();
    let path = data.join("opencode-kept.db");
    let conn = filled(&path, "wal");
    conn.execute("insert into credential (id, label, value, time_created, time_updated) values ('c', 'l', 'canary-of-a-credential-0123456789', 1, 1)", []).unwrap();
    waits(&conn, "session_pending", "msg_x", "ses_9", "steer", 99, "{\"text\":\"late\"}");
    drop(conn);
    let host = need!(Host::open(&path, "update session set title = 'live'"));
    let key = |mut command: std::process::Command| {
        command.env("HOME", home.path()).env("WHOSEENV_FINGERPRINT_KEY", "a key for the tests");
        ran(&mut command)
    };
    let before = super::state::State::of(&data);
    let snapshot = dir.path().join("snapshot");
    let snapshot = snapshot.to_str().unwrap();
    let taken = key(whoseenv(&["snapshot", snapshot, "--with-stores", "--pid", &std::process::id().to_string(), "--json"]));
    assert_eq!(taken.code, 0, "{} {}", taken.stdout, taken.stderr);
    assert!(taken.json()["notes"].to_string().contains("what was said in sessions"), "{}", taken.stdout);
    assert_eq!(super::state::State::of(&data), before);
    super::state::assert_clean(home.path());
    let file = path.to_str().unwrap();
    let live: Vec<Ran> = COMMANDS
        .iter()
        .map(|arguments| {
            key({
                let mut command = whoseenv(&["db"]);
                command.args(*arguments).args(["--db", file]);
                command
            })
        })
        .collect();
    host.close();
    std::fs::remove_file(&path).unwrap();
    for (arguments, live) in COMMANDS.iter().zip(&live) {
        let kept = key({
            let mut command = whoseenv(&["--from", snapshot, "db"]);
            command.args(*arguments).args(["--db", file]);
            command
        });
        let ((kept_says, kept_code), (mut live_says, live_code)) = (answer(&kept), answer(live));
        if arguments[0] == "audit" {
            // An audit reads what has frames in its WAL from a private copy, and the snapshot was taken beside the host.
            live_says[0]["data"]["store"]["read_as"] = kept_says[0]["data"]["store"]["read_as"].clone();
            assert_eq!(live_says[0]["data"]["base_integrity"], "whole");
        }
        assert_eq!(kept_code, live_code, "{arguments:?}");
        for (kept, live) in kept_says.iter().zip(&live_says) {
            assert_eq!(kept, live, "{arguments:?}");
        }
        assert_eq!(kept_says.len(), live_says.len(), "{arguments:?}");
    }
    // Nothing of the secret, in no page.
    let output = std::process::Command::new("grep").args(["-rl", "canary-of-a-credential", snapshot]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "");
    // What was changed since is not used.
    let kept = std::path::Path::new(snapshot).join("stores/0.db");
    let kept = if kept.exists() { kept } else { panic!("{}", kept.display()) };
    for entry in std::fs::read_dir(kept.parent().unwrap()).unwrap() {
        let path = entry.unwrap().path();
        let mut bytes = std::fs::read(&path).unwrap();
        let last = bytes.len() - 1;
        bytes[last] ^= 1;
        std::fs::write(&path, bytes).unwrap();
    }
    let altered = key(whoseenv(&["--from", snapshot, "db", "sessions", "--db", file, "--json"]));
    assert_ne!(altered.code, 0, "{}", altered.stdout);
    assert!(altered.stdout.contains("altered"), "{}", altered.stdout);
}

/// The copy in a snapshot has no WAL of its own: what was wrong with that one, and with the base without it, is kept beside it.
#[test]
fn what_was_wrong_beside_the_store_is_known_later() {
    let (dir, home) = (tempfile::tempdir().unwrap(), home());
    let data = home.path().join(".local/share/opencode");
    std::fs::create_dir_all(&data).unwrap();
    let path = data.join("opencode-next.db");
    let made = dir.path().join("made.db");
    let host = need!(Host::open(&made, "pragma journal_mode=wal; create table held (a)"));
    drop(filled(&made, "wal"));
    // What a host leaves that was killed, with frames that do not check.
    for suffix in ["", "-wal"] {
        std::fs::copy(format!("{}{suffix}", made.display()), format!("{}{suffix}", path.display())).unwrap();
    }
    host.close();
    let wal = format!("{}-wal", path.display());
    let mut bytes = std::fs::read(&wal).unwrap();
    let at = bytes.len() - 3 * 4120 + 100;
    bytes[at] ^= 0xff;
    std::fs::write(&wal, bytes).unwrap();
    let snapshot = dir.path().join("snapshot");
    let snapshot = snapshot.to_str().unwrap();
    let own = std::process::id().to_string();
    let taken = ran(whoseenv(&["snapshot", snapshot, "--with-stores", "--pid", &own]).env("HOME", home.path()));
    assert_eq!(taken.code, 0, "{} {}", taken.stdout, taken.stderr);
    let file = path.to_str().unwrap();
    let live = ran(whoseenv(&["db", "audit", "--json", "--db", file]).env("HOME", home.path()));
    let ids = |ran: &Ran| ran.json()["findings"].as_array().unwrap().iter().map(|one| one["id"].clone()).collect::<Vec<_>>();
    assert!(ids(&live).contains(&"store.wal_damaged".into()), "{}", live.stdout);
    std::fs::remove_dir_all(&data).unwrap();
    for arguments in [["audit", "--json"], ["kv", "--json"], ["events", "--json"], ["schema", "--json"]] {
        let kept = ran(whoseenv(&["--from", snapshot, "db"]).args(arguments).args(["--db", file]).env("HOME", home.path()));
        if arguments[0] == "audit" {
            assert_eq!((ids(&kept), &kept.json()["data"]["base_integrity"]), (ids(&live), &live.json()["data"]["base_integrity"]));
        }
        if arguments[0] == "kv" {
            assert_eq!(kept.json()["data"]["configs_unknown"], serde_json::json!([]), "{}", kept.stdout);
        }
    }
}

#[test]
fn a_snapshot_without_stores_says_so() {
    let (dir, home) = (tempfile::tempdir().unwrap(), home());
    let snapshot = dir.path().join("snapshot");
    let snapshot = snapshot.to_str().unwrap();
    let pid = std::process::id().to_string();
    let taken = ran(whoseenv(&["snapshot", snapshot, "--pid", &pid]).env("HOME", home.path()));
    assert_eq!(taken.code, 0, "{}", taken.stderr);
    let said = ran(whoseenv(&["--from", snapshot, "db", "info"]).env("HOME", home.path()));
    assert!(said.code == 3 && said.stderr.contains("--with-stores"), "{}", said.stderr);
    let both = ran(&mut whoseenv(&["snapshot", "/nonexistent/x", "--with-stores", "--anonymize"]));
    assert_eq!(both.code, 2, "{}", both.stderr);
    assert!(both.stderr.contains("cannot be anonymised") && both.stderr.contains("Leave out --with-stores"), "{}", both.stderr);
    assert!(!std::path::Path::new("/nonexistent").exists());
    // The remedy that it names is one.
    let path = dir.path().join("store.db");
    drop(filled(&path, "delete"));
    let told = ran(whoseenv(&["db", "sessions", "--anonymize", "--json", "--db", path.to_str().unwrap()]).env("HOME", home.path()));
    assert!(told.code == 0 && told.json()["data"]["sessions"].as_array().unwrap().len() == 20, "{}", told.stdout);
}
