//! `probe opencode --spawn` on the real 1.x, the real preview and the contract host for 2.0.x.

use super::{Room, contract_host, evidence, fits_schema, ids, outcomes, python, with_outcome};
use crate::world::peers;

const ALL: [u32; 14] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14];
const EVERY_HOST: [u32; 5] = [1, 2, 7, 10, 13];
const UPLOADS: [u32; 9] = [3, 4, 5, 6, 8, 9, 11, 12, 14];

#[test]
fn v1_answers_as_it_does() {
    let program = need!(peers::opencode_v1());
    let room = Room::new();
    let ran = room.run(&["probe", "opencode", "--json", "--spawn", program.to_str().unwrap()]);
    let json = ran.json();
    assert_eq!(with_outcome(&json, "confirmed"), ids('O', &EVERY_HOST), "{json:#}");
    assert_eq!(with_outcome(&json, "not_supported"), ids('O', &UPLOADS));
    assert_eq!(ran.code, 0, "a host without a surface is no failure");
    assert_eq!((json["data"]["host"]["version"].as_str(), json["data"]["host"]["spawned"].as_bool()), (Some("1.18.34"), Some(true)));
    assert!(evidence(&json, "O3").contains("200, an HTML page"), "the trap: {}", evidence(&json, "O3"));
    assert!(evidence(&json, "O1").contains("its parent is opencode ("));
    let overlay = evidence(&json, "O7");
    assert!(overlay.contains("the session's shell: TERM=dumb AGENT=1 OPENCODE=1 OPENCODE_PID"), "{overlay}");
    assert!(overlay.contains("a PTY: TERM=xterm-256color OPENCODE_TERMINAL=1 OPENCODE OPENCODE_PID"), "{overlay}");
    // Its shell is a login shell: what profiles add is told apart, and falsifies nothing.
    assert!(evidence(&json, "O2").contains("the shell itself added PWD"));
    fits_schema("probe", &json);
}

#[test]
fn the_preview_answers_as_it_does() {
    let program = need!(peers::opencode_preview());
    let room = Room::new();
    let ran = room.run(&["probe", "opencode", "--json", "--spawn", program.to_str().unwrap()]);
    let json = ran.json();
    assert_eq!(with_outcome(&json, "confirmed"), ids('O', &EVERY_HOST), "{json:#}");
    assert_eq!(with_outcome(&json, "not_supported"), ids('O', &UPLOADS));
    assert!(evidence(&json, "O3").contains("404, no body"), "the trap: {}", evidence(&json, "O3"));
    assert!(evidence(&json, "O1").contains("its parent is opencode2 ("));
    let overlay = evidence(&json, "O7");
    for way in ["the session's shell", "the model's tool", "a PTY"] {
        assert!(overlay.contains(&format!("{way}: TERM=xterm-256color OPENCODE_TERMINAL=1")), "{overlay}");
    }
    assert!(json["data"]["claims"][0]["readback"] == "socket" && json["data"]["cleanup"]["looked_again"] == true);
    // A job that needs the upload says so.
    let required = room.run(&["probe", "opencode", "--json", "--require", "session-environment", "--spawn", program.to_str().unwrap()]);
    assert_eq!((required.code, required.json()["findings"][0]["id"].as_str()), (1, Some("probe.unsupported")));
}

#[test]
fn the_contract_host_confirms_every_claim() {
    need!(python());
    let room = Room::new();
    let dir = tempfile::tempdir().unwrap();
    let host = contract_host(dir.path(), &[]);
    let ran = room.run(&["probe", "opencode", "--json", "--spawn", host.to_str().unwrap()]);
    let json = ran.json();
    assert_eq!(with_outcome(&json, "confirmed"), ids('O', &ALL), "{json:#}");
    assert_eq!((ran.code, json["findings"].as_array().map(Vec::len)), (0, Some(0)));
    let tool = "the model's tool: TERM=xterm-256color OPENCODE_TERMINAL=1, also AGENT OPENCODE AI_AGENT OPENCODE_SESSION_ID";
    assert!(evidence(&json, "O7").contains(tool), "{}", evidence(&json, "O7"));
    let nowhere = evidence(&json, "O11");
    for named in ["UTF-16", "base64", "hex", "files", "the positive control", "opencode.db"] {
        assert!(nowhere.contains(named), "{named} is not in: {nowhere}");
    }
    assert!(!ran.stdout.contains("server password") && !ran.stderr.contains("password"));
}

#[test]
fn each_fault_refutes_exactly_its_claim() {
    need!(python());
    for fault in ids('O', &ALL) {
        let room = Room::new();
        let dir = tempfile::tempdir().unwrap();
        let host = contract_host(dir.path(), &[&fault]);
        let ran = room.run(&["probe", "opencode", "--json", "--spawn", host.to_str().unwrap()]);
        let json = ran.json();
        assert_eq!(with_outcome(&json, "refuted"), std::slice::from_ref(&fault), "{:?}", outcomes(&json));
        assert_eq!(with_outcome(&json, "not_supported"), Vec::<String>::new(), "{fault}");
        assert_eq!(ran.code, 1, "{fault}");
        let findings = json["findings"].as_array().unwrap();
        assert!(
            findings.iter().any(|finding| finding["id"] == "probe.refuted" && finding["subject"].as_str().unwrap().starts_with(&fault))
        );
    }
}

#[test]
fn where_no_shell_can_call_the_fall_back_is_in_band_and_says_so() {
    need!(python());
    let room = Room::new();
    let dir = tempfile::tempdir().unwrap();
    let host = contract_host(dir.path(), &["no-helper"]);
    let json = room.run(&["probe", "opencode", "--json", "--spawn", host.to_str().unwrap()]).json();
    assert_eq!(with_outcome(&json, "confirmed"), ids('O', &[2, 3, 4, 5, 8, 9, 11, 12, 13, 14]), "{json:#}");
    // What only a whole block, a process or a PTY shows is not told in band, and that is said.
    assert_eq!(with_outcome(&json, "undetermined"), ids('O', &[1, 6, 7, 10]));
    for (claim, why) in [("O1", "whose child"), ("O6", "nothing else"), ("O7", "were not injected"), ("O10", "of a PTY")] {
        assert!(evidence(&json, claim).contains("in band") && evidence(&json, claim).contains(why), "{}", evidence(&json, claim));
    }
    let claims = json["data"]["claims"].as_array().unwrap().iter();
    for claim in claims.filter(|claim| claim["outcome"] == "confirmed" && claim["id"] != "O14") {
        assert_eq!(claim["readback"], "output", "{claim:#}");
    }
    let seen = evidence(&json, "O3");
    assert!(seen.contains("in band: the session's shell:") && seen.contains("DISPLAY is set, 14 bytes"), "{seen}");
}

#[test]
fn in_band_too_each_fault_refutes_exactly_its_claim() {
    need!(python());
    for fault in ids('O', &[2, 3, 4, 5, 6, 8, 9, 11, 12, 13]) {
        let room = Room::new();
        let dir = tempfile::tempdir().unwrap();
        let host = contract_host(dir.path(), &["no-helper", &fault]);
        let json = room.run(&["probe", "opencode", "--json", "--spawn", host.to_str().unwrap()]).json();
        assert_eq!(with_outcome(&json, "refuted"), std::slice::from_ref(&fault), "{:?}", outcomes(&json));
    }
}

#[test]
fn a_route_that_breaks_is_no_missing_route() {
    need!(python());
    let room = Room::new();
    let dir = tempfile::tempdir().unwrap();
    let host = contract_host(dir.path(), &["upload-breaks"]);
    let ran = room.run(&["probe", "opencode", "--json", "--spawn", host.to_str().unwrap()]);
    let json = ran.json();
    assert_eq!(with_outcome(&json, "not_supported"), Vec::<String>::new(), "{json:#}");
    assert!(evidence(&json, "O3").contains("500, JSON"), "{}", evidence(&json, "O3"));
    assert_eq!(ran.code, 5);
}

#[test]
fn a_dry_run_prints_every_request_and_makes_none() {
    let room = Room::new();
    let ran = room.run(&["probe", "opencode", "--dry-run", "--spawn", "/bin/true"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    for request in ["POST /api/session", "PUT /api/session/ID/environment", "POST /api/pty", "POST /session/ID/shell", "DELETE /api/pty/ID"]
    {
        assert!(ran.stdout.contains(request), "{request}: {}", ran.stdout);
    }
    // A home that goes as a whole needs none of its sessions deleted.
    assert!(!ran.stdout.contains("DELETE /api/session"), "{}", ran.stdout);
    assert!(room.run(&["probe", "opencode", "--dry-run", "--live"]).stdout.contains("DELETE /api/session/ID"));
    let verify = room.run(&["verify", "opencode", "--dry-run", "--json", "--user", "bin", "--bin", "/bin/true"]);
    let plan = verify.json()["data"]["probe"]["plan"].to_string();
    assert!(verify.code == 0 && plan.contains("read no daemon's environment") && plan.contains("read /bin/true"), "{plan}");
    assert!(plan.contains("× POST /api/session "), "{plan}");
    fits_schema("verify", &verify.json());
    assert_eq!(room.run(&["probe", "zeroclaw", "--dry-run", "--live"]).code, 0);
    assert_eq!(room.run(&["probe", "exec", "--dry-run", "tmux-e"]).code, 0);
}

#[test]
fn what_is_no_program_is_said() {
    let room = Room::new();
    let code = |arguments: &[&str]| room.run(arguments).code;
    assert_eq!(code(&["probe", "opencode", "--spawn", "/no/such/program"]), 3);
    assert_eq!(code(&["probe", "opencode", "--spawn", "/etc"]), 2);
    assert_eq!(code(&["probe", "opencode", "--spawn", "/etc/passwd"]), 4);
    assert_eq!(code(&["probe", "opencode"]), 2, "neither --spawn nor --live");
    assert_eq!(code(&["probe", "opencode", "--live", "http://192.0.2.1:80"]), 3, "no daemon of this machine");
    assert_eq!(code(&["--from", "/tmp", "probe", "opencode", "--live"]), 2);
    let early = room.run(&["probe", "opencode", "--json", "--spawn", "/bin/false"]);
    assert_eq!(early.code, 5);
    assert!(evidence(&early.json(), "O1").contains("before it answered"), "{}", early.stdout);
}
