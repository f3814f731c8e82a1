//! The command line as a contract: exit codes, envelopes, man pages, completions, schemas.

use std::io::Read;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::run::{Sleeper, ran, run, whoseenv, write};

/// Every top-level key of the envelope.
const ENVELOPE: [&str; 8] = ["schema", "tool", "host", "privilege", "status", "findings", "notes", "data"];

#[test]
fn the_man_pages_are_current() {
    let dir = tempfile::tempdir().unwrap();
    let made = dir.path().join("man");
    assert_eq!(run(&["man", made.to_str().unwrap()]).code, 0);
    let pages = |dir: &std::path::Path| {
        let mut pages: Vec<_> = std::fs::read_dir(dir)
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .filter(|name| name.to_string_lossy().ends_with(".1"))
            .collect();
        pages.sort();
        pages
    };
    let kept = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("man");
    assert_eq!(pages(&made), pages(&kept), "run: cargo run -- man man");
    for page in pages(&made) {
        let (made, kept) = (std::fs::read_to_string(made.join(&page)).unwrap(), std::fs::read_to_string(kept.join(&page)).unwrap());
        assert!(made == kept, "man/{} is not current; run: cargo run -- man man", page.to_string_lossy());
    }
}

#[test]
fn completions_are_scripts_that_the_shell_accepts() {
    let script = run(&["completions", "bash"]);
    assert_eq!(script.code, 0);
    let dir = tempfile::tempdir().unwrap();
    let file = write(dir.path(), "whoseenv.bash", script.stdout.as_bytes());
    assert!(Command::new("bash").arg("-n").arg(file).status().unwrap().success());
    for shell in ["zsh", "fish", "elvish", "powershell"] {
        let script = run(&["completions", shell]);
        assert!(script.code == 0 && script.stdout.contains("doctor"), "{shell}");
    }
}

#[test]
fn output_fits_the_schema_that_the_program_gives_of_it() {
    let sleeper = Sleeper::start(&[("DISPLAY", ":77"), ("API_TOKEN", "x"), ("N", "v")]);
    let dir = tempfile::tempdir().unwrap();
    let snapshot = dir.path().join("snapshot");
    let snapshot = snapshot.to_str().unwrap();
    for arguments in [
        vec!["doctor"],
        vec!["doctor", "--demo"],
        vec!["ps", "--all", "--names"],
        vec!["show", &sleeper.pid()],
        vec!["diff", &sleeper.pid()],
        vec!["owner", "DISPLAY", &sleeper.pid()],
        vec!["snapshot", snapshot, "--pid", &sleeper.pid()],
        vec!["probe", "exec", "env-i"],
        vec!["probe", "opencode", "--dry-run", "--live"],
    ] {
        let schema = run(&["schema", arguments[0]]);
        let validator = jsonschema::validator_for(&schema.json()).unwrap();
        let ran = ran(whoseenv(&arguments).arg("--json"));
        let document = ran.json();
        let wrong: Vec<String> = validator.iter_errors(&document).map(|error| format!("{error} at {}", error.instance_path)).collect();
        assert_eq!(wrong, Vec::<String>::new(), "{arguments:?}");
        for key in ENVELOPE {
            assert!(document.get(key).is_some(), "{arguments:?}: {key}");
        }
        assert_eq!(document["schema"], json!(format!("whoseenv.{}/1", arguments[0])));
    }
}

#[test]
fn exit_codes_are_the_documented_ones() {
    let sleeper = Sleeper::start(&[("A", "1")]);
    let dir = tempfile::tempdir().unwrap();
    let same = write(dir.path(), "same", b"A=1\0");
    let same = format!("file:{}", same.display());
    assert_eq!(run(&["diff", &sleeper.pid(), &same]).code, 0, "no difference");
    assert_eq!(run(&["diff", &sleeper.pid()]).code, 1, "differences");
    assert_eq!(run(&["frobnicate"]).code, 2, "usage");
    assert_eq!(run(&["show", "no-such-agent"]).code, 2, "no reference at all");
    assert_eq!(run(&["show", "4194304"]).code, 3, "no such process");
    assert_eq!(run(&["owner", "NO_SUCH_NAME", &sleeper.pid()]).code, 3, "not set");
    assert_eq!(run(&["--from", "/nonexistent/snapshot", "ps"]).code, 3, "no such snapshot");
    assert_eq!(run(&["--from", "/etc/passwd", "ps"]).code, 74, "not a snapshot");
    assert_eq!(run(&["diff", "file:/nonexistent"]).code, 3, "no such file");
    assert_eq!(run(&["--help"]).code, 0);
    assert_eq!(run(&["--version"]).stdout, format!("whoseenv {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn errors_name_the_thing_and_the_remedy_and_are_envelopes_too() {
    let human = run(&["show", "4194304"]);
    assert_eq!(human.stdout, "");
    assert!(human.stderr.starts_with("whoseenv: there is no process 4194304\n\n"), "{}", human.stderr);
    assert!(human.stderr.contains("whoseenv ps --all"));
    let json = run(&["show", "4194304", "--json"]);
    assert_eq!(json.code, 3);
    let document = json.json();
    assert_eq!((&document["status"], &document["error"]["message"]), (&json!("not_found"), &json!("there is no process 4194304")));
    let usage = run(&["frobnicate", "--json"]);
    assert_eq!((usage.code, &usage.json()["status"]), (2, &json!("failed")));
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    for arguments in [vec!["ps", "--all"], vec!["ps", "--all", "--names", "--format", "ndjson"], vec!["schema", "doctor"]] {
        let mut child = whoseenv(&arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let status = child.wait().unwrap();
        let mut complaint = String::new();
        child.stderr.take().unwrap().read_to_string(&mut complaint).unwrap();
        assert_eq!((status.code(), complaint.as_str()), (Some(0), ""), "{arguments:?}");
    }
}

#[test]
fn a_full_disk_is_said_and_counts() {
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let ran = ran(whoseenv(&["ps", "--all"]).stdout(full));
    assert_eq!(ran.code, 74);
    assert!(ran.stderr.contains("cannot write to stdout"), "{}", ran.stderr);
}

#[test]
fn quiet_says_nothing_and_the_code_is_the_answer() {
    let sleeper = Sleeper::start(&[("A", "1")]);
    let ran = run(&["diff", &sleeper.pid(), "-q"]);
    assert_eq!((ran.code, ran.stdout.as_str(), ran.stderr.as_str()), (1, "", ""));
    assert_eq!(run(&["show", "4194304", "-q"]).stderr, "");
}

#[test]
fn no_colour_without_a_terminal_and_none_against_no_color() {
    let plain = run(&["doctor", "--demo"]).stdout;
    assert!(!plain.contains('\u{1b}'));
    let forced = run(&["doctor", "--demo", "--color", "always"]).stdout;
    assert!(forced.contains('\u{1b}'));
    assert_eq!(ran(whoseenv(&["doctor", "--demo"]).env("NO_COLOR", "1").env("TERM", "xterm-256color")).stdout, plain);
}

#[test]
fn forty_columns_are_enough() {
    for arguments in [vec!["doctor", "--demo"], vec!["doctor", "--demo", "--verbose"], vec!["ps", "--all"], vec!["show", "1"]] {
        let document = ran(whoseenv(&arguments).arg("--json")).json();
        let fixes: Vec<&str> = document["findings"]
            .as_array()
            .unwrap()
            .iter()
            .flat_map(|finding| finding["fix"].as_array().unwrap())
            .map(|line| line.as_str().unwrap())
            .collect();
        for width in [40usize, 80] {
            let ran = ran(whoseenv(&arguments).env("WHOSEENV_WIDTH", width.to_string()));
            for line in ran.stdout.lines() {
                let columns = unicode_width::UnicodeWidthStr::width(line);
                // A line to paste stays one line.
                assert!(columns <= width || fixes.contains(&line.trim()), "{arguments:?} at {width}: {columns} columns: {line}");
            }
        }
    }
}

#[test]
fn ndjson_is_a_head_a_line_a_row_and_a_tail() {
    let ran = run(&["ps", "--all", "--format", "ndjson"]);
    let lines: Vec<Value> = ran.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let (head, rest) = lines.split_first().unwrap();
    let (tail, rows) = rest.split_last().unwrap();
    assert_eq!(head["schema"], json!("whoseenv.ps/1"));
    assert!(head["host"]["boot_id"].is_string());
    assert_eq!((&tail["status"], &tail["findings"]), (&json!("ok"), &json!([])));
    assert!(rows.len() > 1 && rows.iter().all(|row| row["pid"].is_u64() && row["birth"].is_object() && row.get("agent").is_some()));
}
