//! Program files: the real ones, counted by grep and described by the hosts themselves, and made-up ones.

mod contracts;
mod counts;
mod doctor;
mod identity;
mod made;
mod sturdy;

use std::path::PathBuf;

use crate::world::need::Needed;
use crate::world::peers;

/// Every real program, by a short name.
pub fn real() -> Vec<(&'static str, Needed<PathBuf>)> {
    vec![
        ("1.18.34", peers::opencode_v1()),
        ("1.14.48", peers::opencode("1.14.48")),
        ("1.2.27", peers::opencode("1.2.27")),
        ("preview", peers::opencode_preview()),
        ("zeroclaw", peers::zeroclaw()),
    ]
}

/// A made-up program and another, for what every command has to do.
fn pair(dir: &std::path::Path) -> [String; 2] {
    let code = [
        r#"q.get("zoo.list","/zoo",{success:x}),q.post("zoo.feed",unknown,{success:x});process.env.OPENCODE_PID;"/global/health""#,
        r#"q.get("zoo.list","/zoo",{success:x});"20260716020354_kv""#,
    ];
    code.map(|code| {
        let bytes = made::bundle("--user-agent=opencode/1.18.34 --", &[code]);
        crate::run::write(dir, &format!("opencode-{}", code.len()), &bytes).display().to_string()
    })
}

#[test]
fn output_fits_the_schema_that_the_program_gives_of_it() {
    let dir = tempfile::tempdir().unwrap();
    let [a, b] = pair(dir.path());
    let contract = crate::run::write(dir.path(), "contract", br#"{"paths":{"/x":{"get":{"operationId":"x.y"}}}}"#).display().to_string();
    for arguments in [
        vec!["scan", &a],
        vec!["scan", "--no-hash", "-e", "x", "-e", "\u{e9}", &a],
        vec!["ops", &a],
        vec!["ops", &a, "--against", &contract],
        vec!["identify", &a],
        vec!["identify", "/bin/sleep"],
        vec!["diff", &a, &b],
        vec!["scan", "/nonexistent"],
    ] {
        let schema = crate::run::run(&["schema", "binary", arguments[0]]);
        let validator = jsonschema::validator_for(&schema.json()).unwrap();
        let ran = crate::run::ran(crate::run::whoseenv(&["binary"]).args(&arguments).arg("--json"));
        let document = ran.json();
        let wrong: Vec<String> = validator.iter_errors(&document).map(|error| format!("{error} at {}", error.instance_path)).collect();
        assert_eq!(wrong, Vec::<String>::new(), "{arguments:?}");
        assert_eq!(document["schema"], serde_json::json!(format!("whoseenv.binary-{}/1", arguments[0])));
    }
    let schema = crate::run::run(&["schema", "doctor"]).json();
    let document = crate::run::run(&["doctor", "--binaries", "--json"]).json();
    assert!(jsonschema::validator_for(&schema).unwrap().is_valid(&document));
}

#[test]
fn forty_columns_are_enough_and_nothing_moves_the_cursor() {
    let dir = tempfile::tempdir().unwrap();
    let [a, b] = pair(dir.path());
    let hostile = made::bundle("--user-agent=opencode/1.0\x1b[2J --", &["q.get(\"a.b\",\"/x\u{202e}\",{success:x})\x1b"]);
    let hostile = crate::run::write(dir.path(), "hostile\x1b[2J", &hostile).display().to_string();
    for file in [&a, &hostile] {
        for arguments in [vec!["scan", file], vec!["ops", file, "-v"], vec!["identify", file, "-v"], vec!["diff", file, &b, "-v"]] {
            for width in [40usize, 80] {
                let ran = crate::run::ran(crate::run::whoseenv(&["binary"]).args(&arguments).env("WHOSEENV_WIDTH", width.to_string()));
                assert!(!ran.stdout.contains('\u{1b}') && !ran.stdout.contains('\u{202e}'), "{}", ran.stdout);
                for line in ran.stdout.lines() {
                    let columns = unicode_width::UnicodeWidthStr::width(line);
                    assert!(columns <= width, "{arguments:?} at {width}: {columns} columns: {line}");
                }
            }
        }
    }
}
