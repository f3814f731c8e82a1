//! What is told of what is refused: no secret of a host's or of an address, no word that is ignored in silence.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;

use super::{Room, evidence};
use crate::world::peers;

const SECRETS: [&str; 5] = ["abc123hunter", "sk-ant-api03-", "u:pw77@h", "hunter2boot", "hunter2url"];

fn holds_none(face: &str, text: &str) {
    for secret in SECRETS {
        assert!(!text.contains(secret), "{secret} is in {face}: {text}");
    }
}

/// A program that ends at once says on stderr what it was configured with.
#[test]
fn secrets_of_a_host_that_does_not_start_are_in_no_face() {
    let lines = [
        "proxy refused: Authorization: Bearer abc123hunter",
        "the key sk-ant-api03-abcdefghijklmnop0123456789ABCDEFGH is wrong",
        "cannot reach postgres://u:pw77@h/db",
        "started with token=hunter2boot",
        r#"bad settings {\"token\":\"hunter2boot\"}"#,
    ];
    for line in lines {
        let (room, dir) = (Room::new(), tempfile::tempdir().unwrap());
        let host = crate::run::write(dir.path(), "host", format!("#!/bin/sh\necho \"boot: {}\" >&2\nexit 3\n", line).as_bytes());
        std::fs::set_permissions(&host, Permissions::from_mode(0o755)).unwrap();
        let host = host.to_str().unwrap();
        for asked in
            [&["probe", "opencode", "--spawn", host][..], &["probe", "zeroclaw", "--spawn", host], &["verify", "opencode", "--bin", host]]
        {
            for face in ["--json", "-v"] {
                let told = room.run(&[asked, &[face]].concat());
                assert!(told.stdout.contains("boot:"), "the rest is told: {}", told.stdout);
                holds_none(&format!("{asked:?} {face}"), &(told.stdout + &told.stderr));
            }
        }
        let exec = room.run(&["probe", "exec", "--json", "--set", "A=1", "--", host, "{command}"]);
        holds_none("exec", &(exec.stdout + &exec.stderr));
    }
}

#[test]
fn a_password_in_an_address_is_echoed_nowhere_and_what_is_no_address_is_a_usage_error() {
    let room = Room::new();
    for url in [
        "http://user:hunter2url@127.0.0.1:45511",
        "http://user:hunter2url@127.0.0.1:45511/x",
        "http://user:a/hunter2url@127.0.0.1:45511",
        "https://user:hunter2url@127.0.0.1:45511",
        "http://127.0.0.1:45511/?token=hunter2url",
        "http://127.0.0.1:45511/../x",
        "https://127.0.0.1:45511",
        "ftp://127.0.0.1:45511",
    ] {
        for more in [&[][..], &["--json"], &["--dry-run"], &["--allow-remote", url]] {
            let told = room.run(&[&["probe", "opencode", "--live", url], more].concat());
            assert_eq!(told.code, 2, "{url} {more:?}: {} {}", told.stdout, told.stderr);
            let all = told.stdout + &told.stderr;
            assert!(all.contains("is no http://ADDRESS:PORT"), "{url}: {all}");
            holds_none(url, &all);
        }
        if url.contains("hunter2url") {
            let told = room.run(&["binary", "ops", "/bin/true", "--against", url]);
            let all = told.stdout + &told.stderr;
            assert!(told.code != 0 && !all.contains("user:"), "{all}");
            holds_none(url, &all);
        }
    }
}

/// A probe reads processes: of another machine it can read none, whatever is allowed.
#[test]
fn a_daemon_of_another_machine_is_said_to_be_out_of_reach() {
    let (room, url) = (Room::new(), "http://198.51.100.7:45520");
    let told = room.run(&["probe", "opencode", "--live", url, "--allow-remote", url]);
    assert_eq!(told.code, 3, "{}", told.stderr);
    assert!(told.stderr.contains("is no address of this machine") && told.stderr.contains("where the daemon runs"), "{}", told.stderr);
}

#[test]
fn a_plan_is_not_made_for_a_program_that_is_not_there() {
    let room = Room::new();
    for asked in [["probe", "opencode", "--spawn"], ["probe", "zeroclaw", "--spawn"], ["verify", "opencode", "--bin"]] {
        let told = room.run(&[&asked[..], &["/no/such/program", "--dry-run"]].concat());
        assert!(told.code == 3 && told.stderr.contains("/no/such/program"), "{asked:?}: {} {}", told.code, told.stdout);
    }
}

#[test]
fn a_command_that_is_run_twice_is_said_to_be_judged_once() {
    let room = Room::new();
    let told = room.run(&["probe", "exec", "--json", "--set", "A=1", "--", "sh", "-c", "{command}; A=2 {command}"]);
    assert_eq!(told.code, 0, "{}", told.stdout);
    assert!(evidence(&told.json(), "command").contains("it was run 2 times, and the first time alone"), "{}", told.stdout);
    let once = room.run(&["probe", "exec", "--json", "--set", "A=1", "--", "sh", "-c", "{command}"]);
    assert!(!evidence(&once.json(), "command").contains("times"), "{}", once.stdout);
}

#[test]
fn a_name_that_is_given_twice_is_a_usage_error() {
    let room = Room::new();
    for twice in [["--set", "A=1", "--set", "A=2"], ["--set", "A=1", "--absent", "A"], ["--absent", "A", "--absent", "A"]] {
        let told = room.run(&[&["probe", "exec"], &twice[..], &["--", "sh", "-c", "{command}"]].concat());
        assert!(told.code == 2 && told.stderr.contains("A is given twice"), "{twice:?}: {} {}", told.code, told.stderr);
    }
}

/// An assignment before the command is the command's, and not in the block that its shell was given.
#[test]
fn in_band_the_sentence_is_of_the_command() {
    let room = Room::new();
    let statement = |more: &[&str]| {
        let told = room.run(&[&["probe", "exec", "--json", "--set", "A=1"], more, &["--", "sh", "-c", "A=2 {command}"]].concat()).json();
        let claim = &told["data"]["claims"][0];
        (claim["outcome"].as_str().unwrap().to_owned(), claim["statement"].as_str().unwrap().to_owned())
    };
    let (shell, command) = (statement(&[]), statement(&["--in-band"]));
    assert!(shell.0 == "confirmed" && shell.1.starts_with("The host's shell is given"), "{shell:?}");
    assert!(command.0 == "refuted" && command.1.starts_with("The command"), "{command:?}");
}

/// What the host puts in itself tells nothing of a declaration.
#[test]
fn a_declared_name_that_the_host_sets_anyway_refutes_nothing() {
    let program = need!(peers::zeroclaw());
    let room = Room::new();
    for more in [&["--declare", "ZEROCLAW_SESSION_ID"][..], &["--default-policy", "--declare", "ZEROCLAW_SESSION_ID,PWD,SHLVL"]] {
        let told = room.run(&[&["probe", "zeroclaw", "--json", "--spawn", program.to_str().unwrap()], more].concat()).json();
        let claim = |id: &str| told["data"]["claims"].as_array().unwrap().iter().find(|claim| claim["id"] == id).unwrap().clone();
        assert_eq!(claim("Z14")["outcome"], "confirmed", "{told:#}");
        assert_eq!(claim("Z3")["outcome"], "confirmed", "{told:#}");
        let said = evidence(&told, "Z14");
        assert!(said.contains("ZEROCLAW_SESSION_ID: layer 1 puts it in"), "{said}");
        assert!(!said.contains("silently absent: ZEROCLAW_SESSION_ID"), "{said}");
        assert_eq!(claim("Z4")["readback"], "socket", "its twenty shells are read");
    }
}
