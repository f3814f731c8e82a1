//! What the real programs are, by their own code.

use serde_json::{Value, json};

use super::made::bundle;
use crate::run::{ran, run, whoseenv, write};
use crate::world::peers;

fn identified(program: &std::path::Path) -> Value {
    let ran = run(&["binary", "identify", program.to_str().unwrap(), "--json"]);
    assert_eq!(ran.code, 0, "{}{}", ran.stdout, ran.stderr);
    ran.json()["data"].clone()
}

fn has(found: &Value) -> Vec<&str> {
    let features = found["features"].as_array().unwrap();
    features.iter().filter(|feature| feature["present"] == true).map(|feature| feature["id"].as_str().unwrap()).collect()
}

#[test]
fn each_real_program_is_what_the_reference_says() {
    for (name, program) in super::real() {
        let program = need!(program);
        let found = identified(&program);
        let expected = match name {
            "preview" => ("opencode", "preview", "0.0.0-next-16350"),
            "zeroclaw" => ("zeroclaw", "gated", "0.8.7"),
            version => ("opencode", "v1", version),
        };
        let said = (&found["product"], &found["generation"], &found["version_string"]);
        assert_eq!(said, (&json!(expected.0), &json!(expected.1), &json!(expected.2)));
        // Every place that is named holds what is said to be there.
        let file = std::fs::File::open(&program).unwrap();
        let evidence = found["features"].as_array().unwrap().iter().flat_map(|feature| feature["evidence"].as_array().unwrap());
        for seen in evidence.chain(found["generation_evidence"].as_array().unwrap()) {
            let Some(offset) = seen["offset"].as_u64() else { continue };
            assert_eq!(seen["encoding"], "latin1");
            let string = seen["string"].as_str().unwrap();
            let mut bytes = vec![0; string.len()];
            std::os::unix::fs::FileExt::read_exact_at(&file, &mut bytes, offset).unwrap();
            assert_eq!(bytes, string.as_bytes());
        }
        let features = has(&found);
        match name {
            // Reference: no session environment, a background service, the queue in session_pending, /api/health.
            "preview" => {
                for id in ["shared_service", "pending", "health.api", "schema.kv", "schema.instructions", "marker.terminal"] {
                    assert!(features.contains(&id), "{id}: {features:?}");
                }
                for id in ["session_environment", "inbox", "persistent_terminals", "envelope.task", "envelope.subagent", "marker.pid"] {
                    assert!(!features.contains(&id), "{id}: {features:?}");
                }
            }
            "1.18.34" => {
                for id in ["input", "envelope.task", "health.global", "marker.pid", "events.idle"] {
                    assert!(features.contains(&id), "{id}: {features:?}");
                }
                for id in ["session_environment", "shared_service", "inbox", "pending", "schema.kv"] {
                    assert!(!features.contains(&id), "{id}: {features:?}");
                }
            }
            "zeroclaw" => {
                // Reference, 3: layer 1.
                let names = json!(["PATH", "HOME", "TERM", "LANG", "LC_ALL", "LC_CTYPE", "USER", "SHELL", "TMPDIR"]);
                let lists = found["safe_lists"].as_array().unwrap();
                assert!(lists.iter().any(|list| list["names"] == names), "{lists:?}");
                for id in ["client_environment", "safe_list", "gate.attach", "gate.retain", "gate.widening", "marker.session"] {
                    assert!(features.contains(&id), "{id}: {features:?}");
                }
            }
            _ => {}
        }
    }
}

#[test]
fn the_schema_changes_that_a_program_knows_are_those_that_it_makes() {
    // Made by the host itself, in a home of its own.
    for (program, args, database) in [
        (need!(peers::opencode_v1()), ["serve", "--port", "0"], "opencode.db"),
        (need!(peers::opencode_preview()), ["serve", "--port", "0"], "opencode-next.db"),
    ] {
        let made = super::doctor::migrations_made_by(&program, &args, database);
        assert!(made.len() > 30);
        let found = identified(&program);
        let known: Vec<&str> = found["migrations"].as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect();
        assert_eq!(known, made);
    }
}

#[test]
fn zerocode_is_the_client_and_says_nothing_of_the_daemons_generation() {
    let found = identified(&need!(peers::zerocode()));
    assert_eq!((&found["product"], &found["client"], &found["generation"]), (&json!("zeroclaw"), &json!(true), &Value::Null));
}

#[test]
fn a_version_that_disagrees_with_the_code_is_a_finding() {
    let dir = tempfile::tempdir().unwrap();
    let code = r#"d.put("session.environment","/api/session/:sessionID/environment",{success:x})"#;
    let file = write(dir.path(), "opencode", &bundle("--user-agent=opencode/1.18.34 --", &[code]));
    let ran = run(&["binary", "identify", file.to_str().unwrap(), "--json"]);
    assert_eq!(ran.code, 1);
    let finding = &ran.json()["findings"][0];
    assert_eq!(finding["id"], "binary.version_disagrees");
    assert!(finding["message"].as_str().unwrap().contains("1.18.34") && finding["message"].as_str().unwrap().contains("generation v2"));
    assert!(finding["evidence"][0]["source"].as_str().unwrap().contains("byte "));
    assert_eq!(run(&["binary", "identify", file.to_str().unwrap(), "--ignore", "binary.version_disagrees"]).code, 0);
}

#[test]
fn what_the_table_does_not_decide_is_undetermined() {
    let dir = tempfile::tempdir().unwrap();
    let file = write(dir.path(), "opencode", &bundle("--user-agent=opencode/2.0.24 --", &["nothing to go by"]));
    let found = run(&["binary", "identify", file.to_str().unwrap(), "--json"]);
    assert_eq!((found.code, &found.json()["data"]["generation"]), (5, &Value::Null), "a version alone proves nothing");
    assert_eq!(run(&["binary", "identify", "/bin/sleep"]).code, 5);
}

#[test]
fn a_users_table_adds_products_and_features() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("whoseenv")).unwrap();
    let table = "[[product]]\nid = \"zoo\"\ntitle = \"Zoo\"\nall = [\"zebra crossing\"]\n\
        [[generation]]\nid = \"striped\"\nproduct = \"zoo\"\ntitle = \"striped\"\nany = [\"stripes\"]\n\
        [[feature]]\nid = \"hoof\"\nproduct = \"zoo\"\ntitle = \"it has hooves\"\nany = [\"hoof\"]\n";
    write(&dir.path().join("whoseenv"), "fingerprints.toml", table.as_bytes());
    let file = write(dir.path(), "zoo", &bundle("--", &["zebra crossing, stripes"]));
    let ask = || {
        let mut command = whoseenv(&["binary", "identify", file.to_str().unwrap(), "--json"]);
        command.env("XDG_CONFIG_HOME", dir.path());
        ran(&mut command)
    };
    let found = ask().json();
    assert_eq!((&found["data"]["product"], &found["data"]["generation"]), (&json!("zoo"), &json!("striped")));
    assert_eq!((&found["data"]["features"][0]["id"], &found["data"]["features"][0]["present"]), (&json!("hoof"), &json!(false)));
    write(&dir.path().join("whoseenv"), "fingerprints.toml", b"[[feature]]\nid = \"x\"\nproduct = \"y\"\ntitle = \"z\"\n");
    let broken = ask();
    assert!(broken.code == 2 && broken.stdout.contains("proves nothing"), "{}", broken.stdout);
    // Who does not look into programs does not need it.
    for arguments in [vec!["ps"], vec!["doctor"], vec!["doctor", "--binaries"]] {
        let mut command = whoseenv(&arguments);
        let code = ran(command.env("XDG_CONFIG_HOME", dir.path())).code;
        assert_eq!(code == 2, arguments.len() == 2, "{arguments:?}: {code}");
    }
}

#[test]
fn what_came_and_went_between_two_real_programs() {
    let (a, b) = (need!(peers::opencode_v1()), need!(peers::opencode_preview()));
    let ran = run(&["binary", "diff", a.to_str().unwrap(), b.to_str().unwrap(), "--json"]);
    assert_eq!(ran.code, 1);
    let data = &ran.json()["data"];
    let names = |key: &str| data[key].as_array().unwrap().iter().map(|name| name.as_str().unwrap().to_owned()).collect::<Vec<_>>();
    let turned = |id: &str| data["features"].as_array().unwrap().iter().find(|one| one["id"] == id).map(|one| one["present"].clone());
    assert_eq!((turned("pending"), turned("envelope.task"), turned("session_environment")), (Some(json!(true)), Some(json!(false)), None));
    assert!(names("variables_came").contains(&"OPENCODE_PASSWORD".to_owned()));
    assert!(names("variables_went").contains(&"OPENCODE_PID".to_owned()));
    assert!(names("migrations_came").contains(&"20260716020354_kv".to_owned()));
    let paths = |key: &str| data[key].as_array().unwrap().iter().map(|one| one["path"].as_str().unwrap().to_owned()).collect::<Vec<_>>();
    assert!(paths("operations_went").contains(&"/global/health".to_owned()));
    assert!(paths("operations_came").contains(&"/api/session/:sessionID/pending".to_owned()));
    let same = run(&["binary", "diff", b.to_str().unwrap(), b.to_str().unwrap()]);
    assert!(same.code == 0 && same.stdout.contains("Nothing came and nothing went."), "{}", same.stdout);
}
