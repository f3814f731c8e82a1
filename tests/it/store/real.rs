//! Stores that the real programs made, beside them while they run and after they ended.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use super::answers::shell;
use super::state::State;
use crate::run::{Ran, ran};
use crate::world::daemons::{Opencode, Start, Zeroclaw};
use crate::world::look::wait_until;
use crate::world::stub_model::StubModel;
use crate::world::{Needed, World};

/// `whoseenv db …` as the user.
fn ask(world: &World, arguments: &[&str]) -> Ran {
    let mut command = world.user.command(&world.whoseenv);
    command.arg("db").args(arguments);
    ran(&mut command)
}

/// A host that stands still: what changes meanwhile beside its store, it did not change.
struct Still(Option<u32>);

impl Still {
    fn hold(host: Option<u32>) -> Still {
        Still::tell(host, "-STOP");
        Still(host)
    }

    fn tell(host: Option<u32>, signal: &str) {
        if let Some(pid) = host {
            let sent = Command::new("kill").args([signal, &pid.to_string()]).status();
            assert!(sent.is_ok_and(|status| status.success()), "{signal} to {pid}");
        }
    }
}

impl Drop for Still {
    fn drop(&mut self) {
        Still::tell(self.0, "-CONT");
    }
}

/// Every command, with nothing changed beside the store; what the shell counts is what is told. `host` holds the store open.
fn agrees(world: &World, path: &Path, host: Option<u32>, (sessions, queue, pending): (&str, &str, &str)) -> Needed<Value> {
    let file = path.to_str().unwrap();
    let _still = Still::hold(host);
    for arguments in super::state::COMMANDS {
        let before = State::of(path.parent().unwrap());
        let mut all = arguments.to_vec();
        all.extend(["--db", file]);
        let told = ask(world, &all);
        assert!([0, 1, 3].contains(&told.code), "{arguments:?}: {} {}", told.stdout, told.stderr);
        assert_eq!(State::of(path.parent().unwrap()), before, "{arguments:?}");
    }
    let told = ask(world, &["sessions", "--json", "--db", file]).json();
    let expected = shell(
        path,
        &format!("select id, parent_id, directory, length(title) as title_len from {sessions} order by time_updated desc, id"),
    )?;
    let ours: Vec<Value> = told["data"]["sessions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|session| json!({"id": session["id"], "parent_id": session["parent_id"], "directory": session["directory"], "title_len": session["title_len"]}))
        .collect();
    assert_eq!(ours, expected);
    let inbox = ask(world, &["inbox", "--json", "--db", file]).json();
    let expected = shell(path, &format!("select id from {queue} where {pending} order by session_id, delivery desc, admitted_seq"))?;
    let ours: Vec<Value> = inbox["data"]["rows"].as_array().unwrap().iter().map(|row| json!({"id": row["id"]})).collect();
    assert_eq!(ours, expected);
    let tables = ask(world, &["schema", "--json", "--db", file]).json();
    let schema = &tables["data"]["schema"];
    assert_eq!((&schema["added_tables"], &schema["missing_tables"]), (&json!([]), &json!([])), "the generation's own tables, and no other");
    for table in schema["tables"].as_array().unwrap() {
        let name = table["name"].as_str().unwrap();
        assert_eq!(table["rows"], shell(path, &format!("select count(*) as n from \"{name}\""))?[0]["n"], "{name}");
        assert!(table.get("added_columns").is_none() && table.get("missing_columns").is_none(), "{table}");
    }
    Ok(told)
}

fn info(world: &World, path: &Path) -> Value {
    let told = ask(world, &["info", "--json"]).json();
    let stores = told["data"]["stores"].as_array().unwrap();
    stores
        .iter()
        .find(|store| store["path"] == path.to_str().unwrap())
        .unwrap_or_else(|| panic!("no {} in {told:#}", path.display()))
        .clone()
}

#[test]
fn the_preview_s_store() {
    let world = need!(World::new());
    let model = StubModel::start("true");
    Opencode::configure(&world.user, &model);
    let server = need!(Opencode::preview_serve(Start::as_account(&world.user, &[])));
    let path = world.user.home.join(".local/share/opencode/opencode-next.db");
    let api = |method: &str, path: &str, body: Value| server.endpoint.json(method, path, Some(&body));
    // A session with a sub-session, made by the model's own tool.
    let parent = server.session();
    model.call_once("subagent", json!({"agent": "general", "description": "a child", "prompt": "do nothing"}));
    api("POST", &format!("/api/session/{parent}/prompt"), json!({"text": "go"}));
    let children = || shell(&path, &format!("select id from session where parent_id = '{parent}'")).map_or(0, |rows| rows.len());
    wait_until("the sub-session", || children() == 1);
    // A fork, whose events go on where its parent stood.
    let fork = api("POST", &format!("/api/session/{parent}/fork"), json!({}))["data"]["id"].as_str().unwrap().to_owned();
    api("POST", &format!("/api/session/{fork}/synthetic"), json!({"text": "of the fork", "resume": false}));
    // A shell message, and rows that wait.
    let waiting = server.session();
    api("POST", &format!("/api/session/{waiting}/shell"), json!({"command": "true"}));
    api("POST", &format!("/api/session/{waiting}/synthetic"), json!({"text": "a note with a canary", "resume": false}));
    api("POST", &format!("/api/session/{waiting}/prompt"), json!({"text": "a question", "resume": false}));
    wait_until("the turn's end", || {
        shell(&path, "select id from session where time_suspended is not null").is_ok_and(|rows| rows.is_empty())
    });

    let store = info(&world, &path);
    assert_eq!((&store["generation"], &store["read_as"], &store["migrated"]), (&json!("preview"), &json!("shared"), &json!(false)));
    assert_eq!(store["holders"][0]["pid"], server.pid());
    assert_eq!(store["holders"][0]["version"], "0.0.0-next-16350");
    let told = need!(agrees(&world, &path, Some(server.pid()), ("session", "session_pending", "1")));
    let row = |id: &str| told["data"]["sessions"].as_array().unwrap().iter().find(|session| session["id"] == id).unwrap().clone();
    assert_eq!((&row(&parent)["children"], &row(&parent)["orphan"]), (&json!(1), &json!(false)));
    let inbox = ask(&world, &["inbox", &waiting, "--json", "--db", path.to_str().unwrap()]);
    assert!(!inbox.stdout.contains("canary"), "{}", inbox.stdout);
    let inbox = inbox.json();
    // The host's own list, in its own words.
    let pending = server.endpoint.json("GET", &format!("/api/session/{waiting}/pending"), None);
    let theirs: Vec<&Value> = pending["data"].as_array().unwrap().iter().map(|row| &row["id"]).collect();
    let ours: Vec<&Value> = inbox["data"]["rows"].as_array().unwrap().iter().map(|row| &row["id"]).collect();
    assert_eq!(ours, theirs);
    assert!(
        !ours.is_empty()
            && inbox["data"]["rows"].as_array().unwrap().iter().any(|row| row["type"] == "synthetic" && row["next_wake"] == true)
    );
    let lives = inbox["data"]["lives"].as_array().unwrap();
    assert!(
        ours.iter()
            .all(|id| lives.iter().any(|life| &&life["id"] == id && life["enqueued_seq"].is_u64() && life.get("delivered_seq").is_none()))
    );
    // A host that goes on writing would be asked about two moments.
    server.stop();
    // Every sequence begins at 0 and ends where the host's own counter stands: nothing is missing in a sound store.
    let events = ask(&world, &["events", "--json", "--db", path.to_str().unwrap()]).json();
    let events = &events["data"]["events"];
    assert_eq!((&events["gaps_count"], &events["emptied_count"]), (&json!(0), &json!(0)), "{events:#}");
    for one in events["aggregates"].as_array().unwrap() {
        let counted = format!("select seq from event_sequence where aggregate_id = '{}'", one["id"].as_str().unwrap());
        assert_eq!((&one["first_seq"], &one["last_seq"]), (&json!(0), &need!(shell(&path, &counted))[0]["seq"]), "{one}");
        assert_eq!(one.get("fork").is_some(), one["id"] == fork.as_str(), "{one}");
        let all = one["last_seq"].as_u64().unwrap() + 1;
        assert_eq!(one["count"] == all, one["id"] != fork.as_str(), "a fork leaves out what its parent had: {one}");
    }
    // What a host leaves that was stopped is whole, too.
    let audit = ask(&world, &["audit", "--json", "--db", path.to_str().unwrap()]).json();
    assert_eq!(audit["data"]["integrity"], "whole");
    need!(agrees(&world, &path, None, ("session", "session_pending", "1")));
}

#[test]
fn the_store_of_1_x() {
    let world = need!(World::new());
    let model = StubModel::start("true");
    Opencode::configure(&world.user, &model);
    let server = need!(Opencode::v1(Start::as_account(&world.user, &[]), "serve"));
    let session = server.session();
    let body = json!({"model": {"providerID": "stub", "modelID": "stub"}, "parts": [{"type": "text", "text": "go"}]});
    server.endpoint.json("POST", &format!("/session/{session}/message"), Some(&body));
    server.endpoint.json("POST", &format!("/session/{session}/shell"), Some(&json!({"agent": "build", "command": "true"})));
    let child = server.endpoint.json("POST", "/session", Some(&json!({"parentID": session})));
    let path = world.user.home.join(".local/share/opencode/opencode.db");
    let store = info(&world, &path);
    assert_eq!((&store["generation"], &store["read_as"]), (&json!("v1"), &json!("shared")));
    assert_eq!(store["holders"][0]["version"], "1.18.34");
    let told = need!(agrees(&world, &path, Some(server.pid()), ("session", "session_input", "promoted_seq is null")));
    let found = told["data"]["sessions"].as_array().unwrap().iter().find(|row| row["id"] == child["id"]).unwrap();
    assert_eq!(found["parent_id"], json!(session));
    // A SIGTERM leaves a WAL: the normal state, not the exception.
    server.stop();
    need!(agrees(&world, &path, None, ("session", "session_input", "promoted_seq is null")));
    assert_eq!(ask(&world, &["kv", "--db", path.to_str().unwrap()]).code, 3);
}

/// A daemon of 1.x that still runs when 2.x has migrated its store.
#[test]
fn a_store_of_a_later_line_than_the_daemon_that_holds_it() {
    let world = need!(World::new());
    let server = need!(Opencode::v1(Start::as_account(&world.user, &[]), "serve"));
    server.session();
    let path = world.user.home.join(".local/share/opencode/opencode.db");
    let file = path.to_str().unwrap();
    let newer = |generation: &str| {
        let info = ask(&world, &["info", "--json", "--db", file]).json();
        assert_eq!(info["data"]["stores"][0]["generation"], generation);
        info["findings"].as_array().unwrap().iter().any(|finding| finding["id"] == "store.newer_than_daemon")
    };
    assert!(!newer("v1"));
    let migration = "create table session_v2 (id text primary key); create table session_inbox (id text primary key)";
    need!(super::state::Host::open(&path, migration)).close();
    assert!(newer("v2"));
    server.stop();
    assert!(!newer("v2"), "nobody holds it");
}

#[test]
fn zeroclaw_s_stores() {
    let world = need!(World::new());
    let model = StubModel::start("true");
    let dir = Zeroclaw::configure(&world.user, &model, &[]);
    let daemon = need!(Zeroclaw::start(Start::as_account(&world.user, &[]), &dir));
    let mut client = daemon.client(&[("DISPLAY", ":9")]);
    let session = client.session(Path::new("/tmp"));
    client.call("session/prompt", json!({"session_id": session, "prompt": "hello"}));
    let data = dir.join("data");
    let stores = ask(&world, &["info", "--json"]).json();
    let of = |generation: &str| -> Option<PathBuf> {
        let stores = stores["data"]["stores"].as_array().unwrap();
        let found = stores
            .iter()
            .find(|store| store["generation"] == generation && store["path"].as_str().unwrap().starts_with(data.to_str().unwrap()));
        found.map(|store| store["path"].as_str().unwrap().into())
    };
    assert!(of("zeroclaw_control").is_some(), "{stores:#}");
    // Which of its two session databases a session goes into is the daemon's affair; what is in either is told.
    let mut all = 0;
    for (generation, sql) in [
        (
            "zeroclaw_acp",
            "select session_uuid as id, workspace_dir as directory, agent_alias as agent, created_at as time_created from acp_sessions \
             order by last_activity desc, session_uuid",
        ),
        (
            "zeroclaw_sessions",
            "select session_key as id, null as directory, agent_alias as agent, created_at as time_created from session_metadata \
             order by last_activity desc, session_key",
        ),
    ] {
        let path = of(generation).unwrap_or_else(|| panic!("no {generation} in {stores:#}"));
        let before = State::of(path.parent().unwrap());
        let told = ask(&world, &["sessions", "--json", "--db", path.to_str().unwrap()]).json();
        let audit = ask(&world, &["audit", "--json", "--db", path.to_str().unwrap()]).json();
        assert_eq!(State::of(path.parent().unwrap()), before);
        assert_eq!(audit["data"]["integrity"], "whole");
        let ours: Vec<Value> = told["data"]["sessions"]
            .as_array()
            .unwrap()
            .iter()
            .map(|row| json!({"id": row["id"], "directory": row["directory"], "agent": row["agent"], "time_created": row["time_created"]}))
            .collect();
        assert_eq!(ours, need!(shell(&path, sql)));
        all += ours.len();
    }
    assert!(all > 0, "the session that was made is in one of them");
}
