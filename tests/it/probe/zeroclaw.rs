//! `probe zeroclaw` on the real 0.8.7.

use std::time::{Duration, Instant};

use super::{Room, evidence, fits_schema, ids, with_outcome};
use crate::world::peers;

const CONFIRMED: [u32; 13] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 13, 14];

#[test]
fn zeroclaw_answers_as_it_does() {
    let program = need!(peers::zeroclaw());
    let room = Room::new();
    let begun = Instant::now();
    let ran = room.run(&["probe", "zeroclaw", "--json", "--spawn", program.to_str().unwrap()]);
    let took = begun.elapsed();
    let json = ran.json();
    assert_eq!(with_outcome(&json, "confirmed"), ids('Z', &CONFIRMED), "{json:#}");
    assert_eq!(with_outcome(&json, "refuted"), ["Z10"]);
    assert_eq!((ran.code, json["data"]["host"]["version"].as_str()), (1, Some("0.8.7")));
    let finding = &json["findings"][0];
    assert_eq!((finding["id"].as_str(), finding["severity"].as_str()), (Some("probe.refuted"), Some("warning")));
    assert!(evidence(&json, "Z5").contains("refused, -32012"), "{}", evidence(&json, "Z5"));
    assert!(evidence(&json, "Z8").contains("dropped_vars is there"));
    assert!(evidence(&json, "Z13").contains("Argument list too long"));
    assert!(evidence(&json, "Z12").contains("the positive control"));
    assert!(took < Duration::from_secs(60), "all claims took {took:?}");
    fits_schema("probe", &json);
    assert_eq!(room.run(&["probe", "zeroclaw", "-q", "--ignore", "probe.refuted", "--spawn", program.to_str().unwrap()]).code, 0);
}

#[test]
fn under_the_default_risk_profile_a_script_is_the_way_in() {
    let program = need!(peers::zeroclaw());
    let room = Room::new();
    let ran = room.run(&["probe", "zeroclaw", "--json", "--default-policy", "--spawn", program.to_str().unwrap()]);
    let json = ran.json();
    assert_eq!(with_outcome(&json, "confirmed"), ids('Z', &CONFIRMED), "{json:#}");
    assert!(evidence(&json, "Z1").contains("python3 ("), "{}", evidence(&json, "Z1"));
}

/// ZeroClaw's own list of forbidden paths has the places in which programs are installed.
#[test]
fn wherever_this_program_is_installed() {
    let program = need!(peers::zeroclaw());
    for place in ["/var/tmp", "/home", "/opt"] {
        let Ok(installed) = tempfile::Builder::new().prefix("wp bin-").tempdir_in(place) else { continue };
        let own = installed.path().join("whoseenv");
        std::fs::copy(crate::run::PROGRAM, &own).unwrap();
        let room = Room::new();
        let mut command = std::process::Command::new(own);
        command.args(["probe", "zeroclaw", "--json", "--spawn"]).arg(&program);
        command.env_clear().env("PATH", "/usr/bin:/bin").env("HOME", "/nonexistent").env("TMPDIR", room.path());
        let ran = crate::run::ran(command.stdin(std::process::Stdio::null()));
        assert_eq!(with_outcome(&ran.json(), "confirmed"), ids('Z', &CONFIRMED), "from {place}: {}", evidence(&ran.json(), "Z1"));
    }
}

#[test]
fn what_is_no_zeroclaw_is_said() {
    let room = Room::new();
    assert_eq!(room.run(&["probe", "zeroclaw", "--spawn", "/no/such/program"]).code, 3);
    let nobody = room.run(&["probe", "zeroclaw", "--live", "/tmp/no-such-socket"]);
    assert_eq!(nobody.code, 3, "{}", nobody.stderr);
    assert!(nobody.stderr.contains("/tmp/no-such-socket"), "{}", nobody.stderr);
    let ended = room.run(&["probe", "zeroclaw", "--json", "--spawn", "/bin/false"]);
    assert_eq!(ended.code, 5);
    assert!(evidence(&ended.json(), "Z1").contains("before it answered"));
    let silent = room.run(&["probe", "zeroclaw", "--json", "--timeout", "1", "--spawn", "/usr/bin/yes"]);
    assert_eq!(silent.code, 5, "a program that never answers");
}
