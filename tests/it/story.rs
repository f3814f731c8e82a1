//! The story: a daemon started in login A, asked about from login B, while A ends and C gets A's display number.
//!
//! Real sshd, real X11 forwarding, the real OpenCode service; asked by an ordinary account, by a stranger and by root.

use serde_json::{Value, json};

use crate::world::sshd::Session;
use crate::world::{Needed, Story};

/// The account of the story. Questions are narrowed to it, so that agents of the person who runs the tests are not met.
pub const USER: &str = "weuser";

/// The findings with this id.
pub fn findings<'v>(document: &'v Value, id: &str) -> Vec<&'v Value> {
    document["findings"].as_array().expect("an envelope").iter().filter(|finding| finding["id"] == id).collect()
}

pub fn one<'v>(document: &'v Value, id: &str) -> &'v Value {
    match findings(document, id).as_slice() {
        [finding] => finding,
        other => panic!("{} findings {id} in {document:#}", other.len()),
    }
}

pub fn row<'v>(diff: &'v Value, name: &str) -> &'v Value {
    let rows = diff["data"]["variables"].as_array().expect("rows");
    rows.iter().find(|row| row["name"] == name).unwrap_or_else(|| panic!("no row {name} in {diff:#}"))
}

pub fn fix(finding: &Value) -> String {
    finding["fix"].as_array().expect("a fix").iter().map(|line| line.as_str().expect("a line")).collect::<Vec<_>>().join("\n")
}

pub fn evidence(finding: &Value) -> String {
    let pieces = finding["evidence"].as_array().expect("evidence");
    pieces
        .iter()
        .map(|piece| format!("{}: {}", piece["source"].as_str().unwrap(), piece["detail"].as_str().unwrap()))
        .collect::<Vec<_>>()
        .join("\n")
}

#[test]
fn step_1_both_displays_are_alive_and_the_daemon_has_the_other_login_s() {
    let mut story = need!(Story::new());
    let daemon = story.service.pid();
    let (diff, code) = story.b.whoseenv(&["diff", "opencode", "--user", USER, "--json"]);
    assert_eq!(code, 1);
    assert_eq!(diff["data"]["a"]["pid"], daemon);
    let display = row(&diff, "DISPLAY");
    assert_eq!(
        (&display["state"], &display["a"]["value"], &display["b"]["value"]),
        (&json!("differs"), &json!(story.birth_display), &json!(story.b.display()))
    );
    assert_eq!((&display["liveness_a"]["state"], &display["liveness_b"]["state"]), (&json!("alive"), &json!("alive")));
    assert_eq!(diff["data"]["a"]["birth"]["ssh_connection"], story.birth_connection);
    assert_eq!(diff["data"]["b"]["birth"]["ssh_connection"], story.b.connection());

    let (doctor, code) = story.b.whoseenv(&["doctor", "--user", USER, "--json"]);
    assert_eq!(code, 1);
    let foreign = one(&doctor, "display.foreign");
    assert_eq!((&foreign["severity"], &foreign["outcome"]), (&json!("warning"), &json!("confirmed")));
    assert!(fix(foreign).contains(&format!("DISPLAY={}", story.b.display())), "{}", fix(foreign));
    assert!(findings(&doctor, "display.reused").is_empty() && findings(&doctor, "display.refused").is_empty());

    let (ps, code) = story.b.whoseenv(&["ps", "--user", USER, "--json"]);
    let row = &ps["data"]["processes"].as_array().unwrap().iter().find(|row| row["pid"] == daemon).cloned().unwrap();
    assert_eq!(code, 0);
    assert_eq!(
        (&row["agent"], &row["role"], &row["product_version"], &row["user"], &row["birth"]["ssh_connection"]),
        (&json!("opencode"), &json!("daemon"), &json!("0.0.0-next-16350"), &json!(story.world.user.name), &json!(story.birth_connection))
    );
}

#[test]
fn step_2_the_display_refuses_and_the_fix_names_this_terminal_s() {
    let mut story = need!(Story::new());
    story.a_disconnects();
    let (doctor, code) = story.b.whoseenv(&["doctor", "--user", USER, "--json"]);
    assert_eq!(code, 1);
    let refused = one(&doctor, "display.refused");
    assert_eq!((&refused["severity"], &refused["outcome"]), (&json!("error"), &json!("confirmed")));
    assert!(fix(refused).contains(&format!("DISPLAY={}", story.b.display())), "{}", fix(refused));
    assert!(fix(refused).contains("service restart"), "{}", fix(refused));
    assert!(evidence(refused).contains("/proc/net/tcp"), "{}", evidence(refused));
    let daemon = &doctor["data"]["daemons"][0];
    assert_eq!(
        (&daemon["pid"], &daemon["needs"][0]["purpose"], &daemon["needs"][0]["verdict"]),
        (&json!(story.service.pid()), &json!("gui"), &json!("broken"))
    );

    let (owner, code) = story.b.whoseenv(&["owner", "DISPLAY", "opencode", "--user", USER, "--json"]);
    assert_eq!((code, &owner["data"]["liveness"]["state"]), (0, &json!("refused")));
    assert_eq!(owner["data"]["birth_connection"], story.birth_connection);
}

#[test]
fn step_3_the_number_is_reused_and_only_root_learns_by_whom() {
    let mut story = need!(Story::new());
    story.a_disconnects();
    need!(story.c_logs_in());
    let (doctor, code) = story.b.whoseenv(&["doctor", "--user", USER, "--json"]);
    assert_eq!(code, 1);
    let reused = one(&doctor, "display.reused");
    assert_eq!((&reused["severity"], &reused["outcome"]), (&json!("error"), &json!("confirmed")));
    assert!(fix(reused).contains(&format!("DISPLAY={}", story.b.display())), "{}", fix(reused));

    // R04 is this: the number belongs to somebody else now. The ordinary account can prove it, and not by whom.
    let (owner, _) = story.b.whoseenv(&["owner", "DISPLAY", "opencode", "--user", USER, "--json"]);
    let data = &owner["data"];
    assert_eq!(
        (&data["liveness"]["state"], &data["same_connection"], &data["birth_connection"]),
        (&json!("reused"), &json!(false), &json!(story.birth_connection))
    );
    assert!(data.get("owner").is_none_or(|owner| owner.get("connection").is_none()), "{data:#}");

    let (doctor, code) = need!(story.world.ask_as_root(&mut story.b, &["doctor", "--user", USER, "--json"]));
    assert_eq!((code, &one(&doctor, "display.reused")["outcome"]), (1, &json!("confirmed")));
    let (owner, _) = need!(story.world.ask_as_root(&mut story.b, &["owner", "DISPLAY", "opencode", "--user", USER, "--json"]));
    let c = story.c.as_ref().expect("C is connected").connection();
    assert_eq!((&owner["data"]["liveness"]["state"], &owner["data"]["owner"]["connection"]), (&json!("reused"), &json!(c)));
    assert_eq!(owner["data"]["owner"]["user"], story.world.user.name);
    assert!(owner["data"]["owner"]["comm"].as_str().unwrap().starts_with("sshd"));
}

#[test]
fn step_4_a_stranger_is_told_neither_dead_nor_fine() {
    let mut story = need!(Story::new());
    story.a_disconnects();
    let mut stranger = need!(story.stranger());
    let daemon = story.service.pid().to_string();
    let (doctor, code) = stranger.whoseenv(&["doctor", "--user", USER, "--json"]);
    assert_eq!((code, &doctor["status"]), (4, &json!("not_permitted")), "{doctor:#}");
    let unreadable = one(&doctor, "daemon.unreadable");
    assert_eq!(unreadable["outcome"], "undetermined");
    assert!(findings(&doctor, "display.refused").is_empty());
    for (arguments, state) in [
        (["owner", "DISPLAY", &daemon, "--json"], "/data/liveness/state"),
        (["diff", &daemon, "self", "--json"], "/data/variables/0/state"),
    ] {
        let (document, code) = stranger.whoseenv(&arguments);
        assert_eq!((code, document.pointer(state)), (4, Some(&json!("unknown"))), "{arguments:?}: {document:#}");
    }
    let (_, code) = stranger.whoseenv(&["show", &daemon, "--json"]);
    assert_eq!(code, 4);
}

/// Everything that is a time, and what depends on the moment of asking, made equal.
fn timeless(document: &Value) -> Value {
    const TIMES: [&str; 3] = ["age_ms", "at", "taken_at"];
    match document {
        Value::Object(object) => {
            // Whether a process sleeps is the scheduler's: one letter, unlike what became of a display.
            let sleeps = |key: &str, value: &Value| key == "state" && value.as_str().is_some_and(|state| state.len() == 1);
            let kept = object
                .iter()
                .filter(|(key, value)| !TIMES.contains(&key.as_str()) && *key != "fingerprint" && !sleeps(key.as_str(), value));
            Value::Object(kept.map(|(key, value)| (key.clone(), timeless(value))).collect())
        }
        Value::Array(items) => Value::Array(items.iter().map(timeless).collect()),
        // Whether a process runs or sleeps is the scheduler's, from moment to moment.
        Value::String(state) if ["R", "D"].contains(&state.as_str()) => json!("S"),
        other => other.clone(),
    }
}

const QUESTIONS: [&[&str]; 5] = [
    &["doctor", "--user", USER, "--json"],
    &["ps", "--user", USER, "--json"],
    &["show", "opencode", "--user", USER, "--json"],
    &["diff", "opencode", "--user", USER, "--json"],
    &["owner", "DISPLAY", "opencode", "--user", USER, "--json"],
];

/// Asks live, takes a snapshot, asks the snapshot.
fn same_from_a_snapshot(asker: &mut Session, name: &str) {
    let dir = asker.stdout(&format!("echo $HOME/{name}")).trim().to_owned();
    let live: Vec<(Value, i32)> = QUESTIONS.iter().map(|question| asker.whoseenv(question)).collect();
    let (taken, code) = asker.whoseenv(&["snapshot", &dir, "--json"]);
    assert_eq!(code, 0, "{taken:#}");
    for (question, (live, live_code)) in QUESTIONS.iter().zip(live) {
        let mut arguments = vec!["--from", &dir];
        arguments.extend(*question);
        let (captured, code) = asker.whoseenv(&arguments);
        assert_eq!(code, live_code, "{name} {question:?}");
        let (live, captured) = (timeless(&live), timeless(&captured));
        if live != captured {
            panic!("{name} {question:?}: {}", first_difference(&live, &captured, String::new()));
        }
    }
}

fn first_difference(a: &Value, b: &Value, at: String) -> String {
    match (a, b) {
        (Value::Object(x), Value::Object(y)) => {
            let mut keys = x.keys().chain(y.keys());
            let differing = keys.find(|key| x.get(*key) != y.get(*key)).expect("they differ");
            first_difference(
                x.get(differing).unwrap_or(&Value::Null),
                y.get(differing).unwrap_or(&Value::Null),
                format!("{at}/{differing}"),
            )
        }
        (Value::Array(x), Value::Array(y)) if x.len() == y.len() => {
            let index = (0..x.len()).find(|&index| x[index] != y[index]).expect("they differ");
            first_difference(&x[index], &y[index], format!("{at}/{index}"))
        }
        _ => format!("{at}: live {a:#}, captured {b:#}"),
    }
}

fn stories() -> Needed<()> {
    let mut story = Story::new()?;
    same_from_a_snapshot(&mut story.b, "step-1");
    story.a_disconnects();
    same_from_a_snapshot(&mut story.b, "step-2");
    story.c_logs_in()?;
    same_from_a_snapshot(&mut story.b, "step-3");
    let mut stranger = story.stranger()?;
    let dir = stranger.stdout("echo $HOME/step-4").trim().to_owned();
    assert_eq!(stranger.whoseenv(&["snapshot", &dir, "--json"]).1, 0);
    let (captured, code) = stranger.whoseenv(&["--from", &dir, "doctor", "--user", USER, "--json"]);
    assert_eq!((code, &one(&captured, "daemon.unreadable")["outcome"]), (4, &json!("undetermined")));

    // One captured fact deleted: what hung on it is undetermined, and the rest stands.
    let dir = story.b.stdout("echo $HOME/step-3").trim().to_owned();
    let gone = story.b.run(&format!("rm {dir}/net/ours.json"));
    assert_eq!(gone.code, 0);
    let (holed, code) = story.b.whoseenv(&["--from", &dir, "doctor", "--user", USER, "--json"]);
    assert_eq!(code, 5, "{holed:#}");
    assert!(findings(&holed, "display.reused").is_empty());
    let outcomes: Vec<&Value> = holed["findings"].as_array().expect("findings").iter().map(|finding| &finding["outcome"]).collect();
    assert!(outcomes.iter().all(|outcome| **outcome == "undetermined"), "{holed:#}");
    let subjects: Vec<&Value> = findings(&holed, "display.unknown").iter().map(|finding| &finding["subject"]).collect();
    assert_eq!(subjects, [&json!("this terminal"), &json!(format!("opencode (pid {})", story.service.pid()))]);
    assert_eq!(one(&holed, "snapshot.incomplete")["subject"], "net/ours.json");
    assert_eq!(holed["data"]["daemons"][0]["pid"], story.service.pid());
    Ok(())
}

#[test]
fn step_5_a_snapshot_gives_the_same_answers() {
    need!(stories());
}
