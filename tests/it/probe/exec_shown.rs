//! `probe exec`: what of a person's recipe is shown, what the shell makes of what it is given, and commands that fail.

use std::time::{Duration, Instant};

use super::{Room, evidence, outcomes};
use crate::run::write;

const SECRETS: [&str; 9] = [
    "hunter2secretvalue",
    "wJalrXUtnFEMI",
    "ghp_0123456789abcdefghijABCDEFGHIJ012345",
    "pw12345",
    "hunter3secret",
    "hunter4secret",
    "hunter5secret",
    "hunter6secret",
    "hunter7secret",
];

fn holds_none(face: &str, text: &str) {
    for secret in SECRETS {
        assert!(!text.contains(secret), "{secret} is in {face}: {text}");
    }
}

#[test]
fn secrets_in_a_persons_commands_are_in_no_face() {
    let room = Room::new();
    let shell = ["sh", "-c", "{command}"];
    let commands: [&[&str]; 5] = [
        &["env", "API_TOKEN=hunter2secretvalue"],
        &["env", "AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"],
        &["env", "GH=ghp_0123456789abcdefghijABCDEFGHIJ012345"],
        &["env", "DB=postgres://u:pw12345@h/db"],
        &["/usr/bin/env", "X=hunter2secretvalue"],
    ];
    for command in commands {
        for face in [&["--json"][..], &["-v"], &["--dry-run"], &["--dry-run", "--json"], &["--in-band", "-v"]] {
            let ran = room.run(&[&["probe", "exec"], face, &["--set", "A=1", "--"], command, &shell].concat());
            assert_eq!(ran.code, 0, "{} {}", ran.stdout, ran.stderr);
            holds_none(&format!("{face:?}"), &(ran.stdout + &ran.stderr));
        }
    }
    // What it prints of its own arguments, when it fails.
    let echo = ["sh", "-c", "echo the password $2 is wrong >&2; exit 3; $0", "{command}", "--password", "hunter3secret"];
    for face in [&["--json"][..], &["-v"], &["--dry-run"]] {
        let ran = room.run(&[&["probe", "exec"], face, &["--set", "A=1", "--"], &echo].concat());
        holds_none(&format!("{face:?}"), &(ran.stdout.clone() + &ran.stderr));
        if face == ["--json"] {
            assert!(evidence(&ran.json(), "command").contains("exit status: 3"), "{}", ran.stdout);
        }
    }
}

#[test]
fn secrets_of_a_recipe_of_ones_own_are_in_no_face() {
    let (room, dir) = (Room::new(), tempfile::tempdir().unwrap());
    let own = r#"
[[recipe]]
id = "own"
text = "x"
prepare = [["true", "--token", "hunter4secret"]]
start = ["sleep", "--password=hunter5secret", "60"]
inject = [["false", "--password", "hunter7secret"]]
http = { method = "PUT", url = "http://127.0.0.1:{port}/env?api_key=hunter6secret", body = "{\"password\":\"hunter3secret\",\"kept\":[1,\"{nonce}\"]}" }
run = ["sh", "-c", "{command}"]
stop = [["false", "--secret", "hunter2secretvalue"]]
expect.set = { A = "{nonce}" }
"#;
    let file = write(dir.path(), "own.toml", own.as_bytes());
    for face in [&["--json"][..], &["-v"], &["--dry-run"], &["--dry-run", "--json"]] {
        let ran = room.run(&[&["probe", "exec"], face, &["--timeout", "2", "--file", file.to_str().unwrap(), "own"]].concat());
        holds_none(&format!("{face:?}"), &(ran.stdout.clone() + &ran.stderr));
        if face.contains(&"--dry-run") {
            assert!(ran.stdout.contains("http://127.0.0.1:{port}/env?"), "{}", ran.stdout);
        } else {
            assert!(ran.stdout.contains("false --secret"), "what could not be undone: {}", ran.stdout);
        }
    }
}

#[test]
fn secrets_of_a_file_that_is_wrong_and_of_an_address_that_nobody_has_are_in_no_face() {
    let (room, dir) = (Room::new(), tempfile::tempdir().unwrap());
    let with = |http: &str| {
        format!(
            "[[recipe]]\nid = \"own\"\ntext = \"x\"\nrun = [\"sh\", \"-c\", \"{{command}}\"]\nexpect.present = [\"A\"]\nhttp = {http}\n"
        )
    };
    for (own, code) in [
        ("[[recipe]]\nid = \"own\"\nrun = \"curl --token hunter4secret\"\n".to_owned(), 2),
        (with(r#"{ method = "PUT", url = "http://u:hunter3secret@192.0.2.9:80/env?api_key=hunter6secret", body = "{}" }"#), 5),
        (with(r#"{ method = "PUT", url = "http://192.0.2.9:80/env?api_key=hunter6secret", body = "{}" }"#), 5),
        (with(r#"{ method = "PUT", url = "http://127.0.0.1:1/env?api_key=hunter6secret", body = "{}" }"#), 5),
        (with(r#"{ method = "PUT", url = "http://127.0.0.1:1/env", body = "{hunter6secret" }"#), 5),
    ] {
        let file = write(dir.path(), "own.toml", own.as_bytes());
        for face in ["--json", "-v"] {
            let ran = room.run(&["probe", "exec", face, "--timeout", "1", "--file", file.to_str().unwrap(), "own"]);
            assert_eq!(ran.code, code, "{own}: {} {}", ran.stdout, ran.stderr);
            holds_none(face, &(ran.stdout + &ran.stderr));
        }
    }
}

/// As `env` would print it in each: the shell is given A, and what it runs is not.
#[test]
fn what_the_shell_takes_away_is_said() {
    let room = Room::new();
    let run = |arguments: &[&str], script: &str| {
        let ran = room.run(&[&["probe", "exec", "--json"], arguments, &["--", "bash", "-c", script, "{command}"]].concat());
        (ran.code, ran.json())
    };
    let (code, json) = run(&["--set", "A=1"], "unset A; eval \"$0\"");
    let seen = evidence(&json, "command");
    assert!(code == 0 && seen.contains("taken away: A"), "{seen}");
    assert_eq!(json["data"]["claims"][0]["statement"], "The host's shell is given the environment that is expected.");
    let (code, json) = run(&["--absent", "LEAK"], "unset LEAK; eval \"$0\"");
    let seen = evidence(&json, "command");
    assert!(code == 1 && seen.contains("taken away: LEAK"), "{seen}");
    // The shell becomes the helper: its own block counts, and not that of the program that asks.
    let (code, json) = run(&["--set", "A=1"], "exec env -u A ${0%;*}");
    let seen = evidence(&json, "command");
    assert!(code == 1 && outcomes(&json)["command"] == "refuted" && !seen.contains("DISPLAY"), "{seen}");
    let (code, json) = run(&["--set", "A=1"], "exec env -u HOME ${0%;*}");
    assert_eq!(code, 0, "{}", evidence(&json, "command"));
}

#[test]
fn a_command_that_is_missing_or_fails_is_said_at_once() {
    let room = Room::new();
    for (command, said) in [
        (&["no-such-program", "{command}"][..], "no-such-program: there is no such program"),
        (&["/no/such/program", "{command}"], "No such file or directory"),
        (&["false", "{command}"], "exit status: 1"),
        (&["sh", "-c", "exec ls /no/such/dir", "{command}"], "exit status: 2): ls: "),
        (&["sh", "-c", "kill -9 $$", "{command}"], "signal: 9"),
    ] {
        let begun = Instant::now();
        let ran = room.run(&[&["probe", "exec", "--json", "--timeout", "60", "--set", "A=1", "--"], command].concat());
        let seen = evidence(&ran.json(), "command");
        assert!(ran.code == 5 && seen.contains(said), "{command:?}: {seen}");
        assert!(begun.elapsed() < Duration::from_secs(10), "{command:?} took {:?}", begun.elapsed());
    }
}

/// A check that says no is not supported; one that could not be asked says nothing.
#[test]
fn a_check_that_could_not_be_asked_is_undetermined() {
    let (room, dir) = (Room::new(), tempfile::tempdir().unwrap());
    for (check, outcome) in
        [("\"false\"", "not_supported"), ("\"sleep\", \"60\"", "undetermined"), ("\"sh\", \"-c\", \"kill -9 $$\"", "undetermined")]
    {
        let own = format!(
            "[[recipe]]\nid = \"own\"\ntext = \"x\"\ncheck = [{check}]\nrun = [\"sh\", \"-c\", \"{{command}}\"]\nexpect.present = [\"PATH\"]\n"
        );
        let file = write(dir.path(), "own.toml", own.as_bytes());
        let ran = room.run(&["probe", "exec", "--json", "--timeout", "2", "--file", file.to_str().unwrap(), "own"]);
        assert_eq!(outcomes(&ran.json())["own"], outcome, "{check}: {}", ran.stdout);
    }
}
