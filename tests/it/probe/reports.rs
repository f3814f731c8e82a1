//! Reports from the field about which only an experiment can tell.

use super::{Room, contract_host, evidence, outcomes, python, with_outcome};
use crate::run::write;
use crate::world::peers;
use std::os::unix::fs::PermissionsExt;

/// The shell tool has the session's environment and whatever else the daemon starts the service's: all side by side.
#[test]
fn r14_service_session_and_effective_environment_stand_side_by_side() {
    need!(python());
    let room = Room::new();
    let dir = tempfile::tempdir().unwrap();
    let host = contract_host(dir.path(), &[]);
    let json = room.run(&["probe", "opencode", "--json", "--spawn", host.to_str().unwrap()]).json();
    let seen = evidence(&json, "O3");
    let side_by_side = "DISPLAY is :64000 in the service, localhost:99.9 in the session, and the session's here";
    for way in ["the session's shell", "/api/shell that names the session", "the model's tool"] {
        let line = seen.lines().find(|line| line.contains(&format!("{way}:"))).unwrap_or_else(|| panic!("{way}: {seen}"));
        assert!(line.contains(side_by_side), "{line}");
    }
    // What is not the session's has the service's, and the upload ends with the daemon.
    assert_eq!(outcomes(&json)["O10"], "confirmed");
    assert_eq!(outcomes(&json)["O12"], "confirmed");
    assert!(evidence(&json, "O12").contains("after the restart the nonce is gone"));
    let program = need!(peers::opencode_preview());
    // Of an account that runs none: other tests' daemons are not this one's.
    let json = room.run(&["verify", "opencode", "--json", "--user", "bin", "--bin", program.to_str().unwrap()]).json();
    super::fits_schema("verify", &json);
    let lines: Vec<_> = json["data"]["lines"].as_array().unwrap().iter().map(|line| line["line"].as_str().unwrap()).collect();
    assert_eq!(lines, ["live", "injection", "control", "binary"]);
    assert_eq!(json["data"]["lines"][1]["outcome"], "not_supported");
    assert_eq!(json["data"]["lines"][2]["outcome"], "confirmed");
    // As grep counts `session.environment` in that program: 0.
    assert_eq!(json["data"]["lines"][3]["outcome"], "not_supported");
    assert!(json["data"]["lines"][3]["says"].as_str().unwrap().contains("generation preview"), "{json:#}");
    assert!(json["data"]["meaning"].as_str().unwrap().contains("frozen at that moment"));
}

/// A strict policy that holds once, and then the whole parent environment appears.
#[test]
fn r16_a_policy_that_holds_once_is_found_out() {
    let room = Room::new();
    let dir = tempfile::tempdir().unwrap();
    let host = write(
        dir.path(),
        "policy-host",
        b"#!/bin/sh\nif [ -e \"$1\" ]; then exec sh -c \"$2\"; fi\n: > \"$1\"\nexec env -i PATH=/usr/bin:/bin A=\"$A\" sh -c \"$2\"\n",
    );
    std::fs::set_permissions(&host, std::fs::Permissions::from_mode(0o755)).unwrap();
    let ask = |repeat: &str| {
        let marker = dir.path().join(format!("once-{repeat}"));
        let policy = ["--set", "A=declared", "--absent", "CANARY_TOKEN", "--only", "PATH,A", "--repeat", repeat, "--json", "--"];
        let command = [host.to_str().unwrap(), marker.to_str().unwrap(), "{command}"];
        room.run(&[&["probe", "exec"], &policy[..], &command[..]].concat())
    };
    let once = ask("1");
    assert_eq!(once.code, 0, "{}", once.stdout);
    let thrice = ask("3");
    let json = thrice.json();
    assert_eq!((thrice.code, json["findings"][0]["id"].as_str()), (1, Some("probe.unexpected")));
    let seen = evidence(&json, "command");
    assert!(seen.contains("run 1 of 3: 3 of 3 expectations hold"), "{seen}");
    assert!(seen.contains("run 2 of 3: CANARY_TOKEN is set; beyond what the policy allows: "), "{seen}");
    assert!(!thrice.stdout.contains("canary-"), "no value is shown");
}

/// The shell tool ignores what a plugin lays over.
#[test]
fn r17_a_plugins_overlay_that_the_tool_ignores() {
    need!(python());
    let room = Room::new();
    let dir = tempfile::tempdir().unwrap();
    let sound = contract_host(dir.path(), &["plugin"]);
    let json = room.run(&["probe", "opencode", "--json", "--spawn", sound.to_str().unwrap()]).json();
    assert_eq!(with_outcome(&json, "refuted"), Vec::<String>::new(), "an overlay on all ways alike is none of our business");
    let host = contract_host(dir.path(), &["plugin-skips-tool"]);
    let json = room.run(&["probe", "opencode", "--json", "--spawn", host.to_str().unwrap()]).json();
    assert_eq!(with_outcome(&json, "refuted"), ["O7"]);
    let seen = evidence(&json, "O7");
    assert!(seen.contains("laid over the session's shell by a plugin, and not over the model's tool: CANARY_OVERLAY"), "{seen}");
}

/// A passthrough that is declared and cannot be read in the shell: declared against effective, and the layer that dropped it.
#[test]
fn r19_declared_and_unreadable() {
    let program = need!(peers::zeroclaw());
    let room = Room::new();
    let arguments = ["probe", "zeroclaw", "--json", "--declare", "GOOGLE_APPLICATION_CREDENTIALS,MY-KEY", "--spawn"];
    let json = room.run(&[&arguments[..], &[program.to_str().unwrap()]].concat()).json();
    assert_eq!(outcomes(&json)["Z14"], "confirmed");
    let found: Vec<_> = json["findings"].as_array().unwrap().iter().filter(|finding| finding["id"] == "probe.declared_unused").collect();
    let messages: Vec<_> = found.iter().map(|finding| finding["message"].as_str().unwrap()).collect();
    assert_eq!(
        messages,
        [
            "declared, and not in the child: GOOGLE_APPLICATION_CREDENTIALS: unset in the daemon, dropped by layer 1",
            "declared, and not in the child: MY-KEY: no name, dropped by the policy"
        ]
    );
}
