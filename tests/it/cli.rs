//! The command line as a contract: exit codes, envelopes, man pages, completions, schemas.

use std::io::Read;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::run::{PROGRAM, Sleeper, ran, run, whoseenv, write};
use crate::world::need::tool;

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
fn what_narrows_must_exist_and_what_is_known_need_not_run() {
    let gone = "4194304";
    for (arguments, code, words) in [
        (vec!["ps", "--agent", "opencod"], 2, "Did you mean opencode"),
        (vec!["ps", "--all", "--agent", "opencod"], 2, "Did you mean opencode"),
        (vec!["doctor", "--agent", "frobnicate"], 2, "Agents: opencode, zeroclaw"),
        (vec!["show", "self", "--agent", "frobnicate"], 2, "Agents: "),
        (vec!["diff", "self", "--agent", "frobnicate"], 2, "Agents: "),
        (vec!["owner", ":0", "--agent", "frobnicate"], 2, "Agents: "),
        (vec!["ps", "--user", "no-such-user"], 3, "no account \"no-such-user\""),
        (vec!["doctor", "--user", "no-such-user"], 3, "no account \"no-such-user\""),
        (vec!["show", "opencode", "--user", "4000000000"], 3, "no account \"4000000000\""),
        (vec!["ps", "--pid", gone], 3, "no process 4194304"),
        (vec!["ps", "--all", "--pid", gone], 3, "no process 4194304"),
        (vec!["doctor", "--pid", gone], 3, "no process 4194304"),
    ] {
        let ran = run(&arguments);
        assert_eq!((ran.code, ran.stdout.as_str()), (code, ""), "{arguments:?}: {}", ran.stderr);
        assert!(ran.stderr.contains(words), "{arguments:?}: {}", ran.stderr);
        let status = ran_json(&arguments);
        assert_eq!(status, if code == 2 { "failed" } else { "not_found" }, "{arguments:?}");
    }
    let fixture = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/foreign");
    let captured = |user: &str| run(&["ps", "--from", fixture, "--user", user]);
    assert_eq!((captured("user1").code, captured("1001").code), (0, 0));
    let gone = captured("daemon2");
    assert!(gone.code == 3 && gone.stderr.contains("no account \"daemon2\" in this snapshot"), "{}", gone.stderr);
    let none = run(&["ps", "--agent", "goose", "--user", "daemon"]);
    assert_eq!((none.code, none.stdout.lines().next()), (0, Some("No agent process of goose of the account daemon runs here.")));
    let none = run(&["doctor", "--agent", "goose", "--user", "daemon"]);
    assert!(none.stdout.starts_with("No agent daemon of goose of the account daemon runs here."), "{}", none.stdout);
    let sleeper = Sleeper::start(&[("A", "1")]);
    let none = run(&["ps", "--pid", &sleeper.pid()]);
    assert_eq!(
        (none.code, none.stdout.lines().next()),
        (0, Some(format!("No agent process with the pid {} runs here.", sleeper.pid()).as_str()))
    );
}

fn ran_json(arguments: &[&str]) -> Value {
    run(&[arguments, &["--json"]].concat()).json()["status"].clone()
}

#[test]
fn one_host_has_one_pseudonym_in_every_variable() {
    let sleeper = Sleeper::start(&[
        ("DISPLAY", "zebrafinch.example.org:0"),
        ("DOCKER_HOST", "ssh://core@zebrafinch.example.org:22"),
        ("PULSE_SERVER", "tcp:Zebrafinch.Example.Org:4713"),
        ("https_proxy", "http://quokkaproxy.example.org:3128"),
        ("LC_NOTE", "quokkaproxy.example.org zebrafinch"),
    ]);
    let pid = sleeper.pid();
    let dir = tempfile::tempdir().unwrap();
    let snapshot = dir.path().join("snapshot");
    let snapshot = snapshot.to_str().unwrap();
    assert_eq!(run(&["snapshot", snapshot, "--pid", &pid, "--anonymize"]).code, 0);
    for arguments in [vec!["show", &pid, "--anonymize", "--show-all"], vec!["show", &pid, "--from", snapshot]] {
        for face in ["human", "json", "ndjson"] {
            let shown = ran(whoseenv(&arguments).args(["--format", face])).stdout;
            let lower = shown.to_lowercase();
            assert!(!lower.contains("zebrafinch") && !lower.contains("quokkaproxy"), "{arguments:?} {face}: {shown}");
        }
        let document = ran(whoseenv(&arguments).arg("--json")).json();
        let rows = document["data"]["environment"].as_array().unwrap();
        let value = |name: &str| rows.iter().find(|row| row["name"] == name).unwrap()["value"].as_str().unwrap().to_owned();
        let host = value("DISPLAY").trim_end_matches(":0").to_owned();
        assert!(host.starts_with("host"), "{host}");
        assert_eq!((value("DOCKER_HOST"), value("PULSE_SERVER")), (format!("ssh://core@{host}:22"), format!("tcp:{host}:4713")));
    }
}

/// A head with what belongs to no row, a line a row, a tail with the verdict: together no more and no less than the document.
#[test]
fn ndjson_is_the_document_row_by_row_for_every_command() {
    let fixture = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/foreign");
    for (arguments, field, rows) in [
        (vec!["doctor", "--demo"], Some("daemons"), 1),
        (vec!["doctor", "--from", fixture], Some("daemons"), 1),
        (vec!["ps", "--all", "--from", fixture], Some("processes"), 2),
        (vec!["show", "opencode", "--from", fixture], Some("environment"), 10),
        (vec!["diff", "opencode", "--from", fixture], Some("variables"), 10),
        (vec!["owner", "DISPLAY", "opencode", "--from", fixture], None, 1),
    ] {
        let asked = |face: &str| ran(whoseenv(&arguments).args(["--format", face]).env("WHOSEENV_FINGERPRINT_KEY", "0"));
        let (json, ndjson) = (asked("json"), asked("ndjson"));
        assert_eq!(json.code, ndjson.code, "{arguments:?}");
        let document = json.json();
        let lines: Vec<Value> = ndjson.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let [head, found @ .., tail] = &lines[..] else { panic!("{arguments:?}: {}", ndjson.stdout) };
        assert!(found.len() >= rows, "{arguments:?}: {}", found.len());
        for key in ["schema", "tool", "host", "privilege", "status"] {
            assert_eq!(head[key], document[key], "{arguments:?}: {key}");
        }
        for key in ["schema", "status", "findings", "notes"] {
            assert_eq!(tail[key], document[key], "{arguments:?}: {key}");
        }
        assert_eq!(tail.get("data"), None, "{arguments:?}");
        match field {
            None => assert_eq!((head.get("data"), &found[0]), (None, &document["data"]), "{arguments:?}"),
            Some(field) => {
                let mut rest = document["data"].clone();
                let items = rest.as_object_mut().unwrap().shift_remove(field).unwrap();
                assert_eq!(Value::from(found.to_vec()), items, "{arguments:?}");
                let rest = Some(rest).filter(|rest| rest != &json!({}));
                assert_eq!(head.get("data"), rest.as_ref(), "{arguments:?}");
                let schema = run(&["schema", arguments[0]]).json();
                assert!(schema["description"].as_str().unwrap().contains(&format!("data.{field}")), "{schema:#}");
            }
        }
    }
}

#[test]
fn a_name_and_a_value_together_are_explained() {
    for query in ["DISPLAY=:94", "SSH_AUTH_SOCK=/tmp/x", "A="] {
        let name = query.split('=').next().unwrap();
        let ran = run(&["owner", query]);
        assert_eq!(ran.code, 2, "{}", ran.stdout);
        assert!(ran.stderr.starts_with(&format!("whoseenv: {name}=… is a name and a value; give one of them\n\n")), "{}", ran.stderr);
        assert!(ran.stderr.contains(&format!("whoseenv owner {name} self")), "{}", ran.stderr);
    }
    assert_ne!(run(&["owner", "unix:path=/nonexistent/bus"]).code, 2, "an address with a `=` in it is a value");
}

#[test]
fn what_takes_the_connection_and_says_nothing_is_unknown() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("agent.1");
    let _silent = std::os::unix::net::UnixListener::bind(&path).unwrap();
    let sleeper = Sleeper::start(&[("SSH_AUTH_SOCK", path.to_str().unwrap())]);
    let passive = run(&["owner", "SSH_AUTH_SOCK", &sleeper.pid(), "--json"]).json();
    assert_eq!(passive["data"]["liveness"]["state"], "alive", "{passive:#}");
    let asked = run(&["owner", "SSH_AUTH_SOCK", &sleeper.pid(), "--connect", "--json"]);
    assert_eq!(asked.code, 5, "{}", asked.stdout);
    assert_eq!(
        asked.json()["data"]["liveness"],
        json!({"state": "unknown", "detail": "it took the connection and did not answer within 2000 ms", "how": "connects"})
    );
}

#[test]
fn masked_variables_of_the_terminal_share_a_line_where_nothing_else_is_told_of_them() {
    let masked = ["NODE_EXTRA_CA_CERTS", "SSL_CERT_FILE", "KUBECONFIG"];
    let ran = ran(whoseenv(&["doctor", "--agent", "aider"]).envs(masked.map(|name| (name, "/etc/passwd"))));
    let text = ran.stdout;
    assert_eq!(text.matches("its value is masked").count(), 1, "{text}");
    let line = text.lines().find(|line| line.contains("KUBECONFIG")).unwrap_or_default();
    assert!(masked.iter().all(|name| line.contains(name)), "{text}");
}

/// The kernel's own two numbers, `btime` and the start in ticks, and not the moment of asking.
#[test]
fn a_start_time_is_the_same_in_every_run() {
    let sleeper = Sleeper::start(&[("DISPLAY", ":77")]);
    let pid = sleeper.pid();
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let ticks: u64 = stat.rsplit(')').next().unwrap().split_whitespace().nth(19).unwrap().parse().unwrap();
    let kernel = std::fs::read_to_string("/proc/stat").unwrap();
    let btime: u64 = kernel.lines().find_map(|line| line.strip_prefix("btime ")).unwrap().parse().unwrap();
    let started = ran(Command::new("date").args(["-u", "+%Y-%m-%dT%H:%M:%S.", "-d"]).arg(format!("@{}", btime + ticks / 100))).stdout;
    let started = format!("{}{:03}Z", started.trim(), ticks % 100 * 10);
    let facts = |value: &Value| (value["start_time"].as_str().unwrap().to_owned(), value["start_ticks"].as_u64().unwrap());
    for _ in 0..5 {
        let show = run(&["show", &pid, "--json"]).json();
        let owner = run(&["owner", "DISPLAY", &pid, "--json"]).json();
        let ps = run(&["ps", "--all", "--pid", &pid, "--json"]).json();
        for value in [&show["data"]["process"], &show["data"]["chain"][0], &owner["data"]["carrier"], &ps["data"]["processes"][0]] {
            assert_eq!(facts(value), (started.clone(), ticks), "{value:#}");
        }
    }
}

/// What narrows is never passed over, and the default command's options are told by name.
#[test]
fn what_narrows_is_never_passed_over() {
    let fixture = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/foreign");
    let shown = run(&["--from", fixture, "show", "--agent", "opencode", "--json"]).json();
    assert_eq!(shown["data"]["process"]["agent"], "opencode");
    let pid = shown["data"]["process"]["pid"].to_string();
    assert_eq!(run(&["--from", fixture, "show", "--pid", &pid, "--json"]).json()["data"]["process"]["agent"], "opencode");
    let owner = run(&["--from", fixture, "owner", "DISPLAY", "--agent", "opencode", "--json"]).json();
    assert_eq!(owner["data"]["query"]["value"], "localhost:10.0");
    let alone = run(&["--from", fixture, "show", "--user", "0", "--json"]);
    assert_eq!((alone.code, alone.json()["data"].is_null()), (2, true), "{}", alone.stdout);
    let (own, init) = (std::process::id().to_string(), "1");
    for (arguments, code, words) in [
        (&["show", &own, "--user", "nobody"][..], 3, "not of nobody"),
        (&["show", &own, "--agent", "opencode"], 3, "is none of opencode"),
        (&["show", &own, "--pid", init], 3, "is not the one that --pid names, 1"),
        (&["show", "--pid", &own, "--agent", "opencode"], 3, "is none of opencode"),
        (&["owner", "PATH", &own, "--user", "nobody"], 3, "not of nobody"),
        (&["owner", ":0", "self", "--pid", init], 2, "--pid narrows the name of an agent, and this terminal is none"),
        (&["show", "self", "--user", "nobody", "--agent", "opencode"], 2, "--user and --agent narrow the name of an agent"),
        (&["show", "file:/proc/self/environ", "--user", "nobody"], 2, "--user narrows"),
        (&["diff", &own, "--user", "nobody"], 3, "not of nobody"),
        (&["diff", "self", "self", "--agent", "opencode"], 2, "--agent narrows"),
        (&["diff", "file:/proc/self/environ", "--pid", init], 2, "--pid narrows"),
        (&["binary", "scan", "/bin/true", "--user", "nobody"], 2, "--user narrows the name of an agent, and a file is none"),
        (&["binary", "scan", &format!("pid:{own}"), "--user", "nobody"], 3, "not of nobody"),
        (&["binary", "scan", "opencode", "--user", "no-such-user"], 3, "no account"),
        (&["show", "goose", "--user", "nobody"], 3, "no goose process of the account nobody runs here"),
    ] {
        let ran = run(arguments);
        assert_eq!((ran.code, ran.stdout.as_str()), (code, ""), "{arguments:?}: {}", ran.stderr);
        assert!(ran.stderr.contains(words), "{arguments:?}: {}", ran.stderr);
    }
    for fitting in [&["show", &own, "--pid", &own, "--json"][..], &["show", "--pid", &own, "--json"]] {
        assert_eq!(run(fitting).json()["data"]["process"]["pid"].to_string(), own);
    }
    for words in [&["--user", "ann"][..], &["--demo"], &["--agent", "opencode"]] {
        let ran = run(words);
        assert_eq!(ran.code, 2);
        assert!(ran.stderr.contains(&format!("whoseenv doctor {}", words.join(" "))), "{}", ran.stderr);
    }
    let ran = run(&["--demo", "--json"]);
    assert!(ran.stdout.contains("whoseenv doctor --demo --json"), "{}", ran.stdout);
    assert!(!run(&["--nonsense"]).stderr.contains("whoseenv doctor --nonsense"));
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
    let schema_of = |name: &str| -> Value { serde_json::from_str(&run(&["schema", name]).stdout).unwrap() };
    for arguments in [&["frobnicate", "--format", "ndjson"][..], &["ps", "--nonsense", "--format=ndjson"], &["ps", "--nonsense", "--json"]]
    {
        let usage = run(arguments);
        let document = usage.json();
        assert_eq!((usage.code, &document["schema"]), (2, &json!("whoseenv.usage/1")), "{arguments:?}");
        assert!(document["error"]["message"].as_str().unwrap().contains(arguments.iter().find(|word| word.contains("n")).unwrap()));
        assert_eq!(usage.stderr, "");
        assert_eq!(usage.stdout.lines().count() == 1, !arguments.contains(&"--json"), "ndjson is one line");
    }
    for name in ["usage", "man", "completions", "schema"] {
        assert_eq!(schema_of(name)["title"], format!("whoseenv.{name}/1"));
    }
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
fn what_is_ignored_is_counted_and_nothing_is_called_fine() {
    let fixture = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/demo");
    let document = run(&["--from", fixture, "doctor", "--json"]).json();
    let mut ids: Vec<&str> = document["findings"].as_array().unwrap().iter().map(|finding| finding["id"].as_str().unwrap()).collect();
    let all = ids.len();
    ids.sort_unstable();
    ids.dedup();
    let ignore: Vec<&str> = ids.iter().flat_map(|id| ["--ignore", id]).collect();
    let ran = run(&[&["--from", fixture, "doctor"][..], &ignore].concat());
    assert_eq!(ran.code, 0, "{}", ran.stdout);
    assert!(ran.stdout.contains("Nothing else wrong.") && !ran.stdout.to_lowercase().contains("nothing wrong"), "{}", ran.stdout);
    let joined: Vec<&str> = ran.stdout.split_whitespace().collect();
    assert!(
        joined.join(" ").contains(&format!("{all} finding{} left out by --ignore: {}", if all == 1 { "" } else { "s" }, ids.join(", "))),
        "{}",
        ran.stdout
    );
}

#[test]
fn no_colour_without_a_terminal_and_none_against_no_color() {
    let plain = run(&["doctor", "--demo"]).stdout;
    assert!(!plain.contains('\u{1b}'));
    let forced = run(&["doctor", "--demo", "--color", "always"]).stdout;
    assert!(forced.contains('\u{1b}'));
    assert_eq!(ran(whoseenv(&["doctor", "--demo"]).env("NO_COLOR", "1").env("TERM", "xterm-256color")).stdout, plain);
    // An empty one counts as unset. On a real terminal, which script(1) makes.
    let script = need!(tool("script", "bsdutils"));
    let on_a_terminal = |no_color: &str| {
        let mut command = Command::new(&script);
        command.args(["-qec", &format!("{PROGRAM} doctor --demo"), "/dev/null"]).env_clear().env("PATH", "/usr/bin:/bin");
        ran(command.env("TERM", "xterm-256color").env("NO_COLOR", no_color).stdin(Stdio::null())).stdout
    };
    assert!(on_a_terminal("").contains("\u{1b}["));
    assert!(!on_a_terminal("1").contains("\u{1b}["));
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
