//! Captures the machines in fixtures/ from the story, as the ordinary account, with names and addresses replaced.
//!
//! `cargo test --test it capture -- --ignored`, which also leaves the screens of README in `target/tmp/screens`.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use crate::world::Story;
use crate::world::sshd::{Login, Session, Terminal, X11};

fn capture(asker: &mut Session, daemon: u32, machine: &str) {
    let dir = asker.stdout(&format!("echo $HOME/{machine}")).trim().to_owned();
    let (taken, code) = asker.whoseenv(&["snapshot", &dir, "--pid", &daemon.to_string(), "--anonymize", "--json"]);
    assert_eq!(code, 0, "{taken:#}");
    for columns in [80, 40] {
        asker.resize(columns, 70);
        let program = asker.whoseenv.clone().expect("the program is there");
        for (name, question) in [("doctor", "doctor --user weuser"), ("demo", "doctor --demo"), ("diff", "diff opencode"), ("ps", "ps")] {
            let screen = asker.seen(&format!("{} {question}", program.display()));
            write(&format!("{machine}-{name}-{columns}.txt"), screen.trim_end());
        }
    }
    let target = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("fixtures").join(machine);
    let _ = std::fs::remove_dir_all(&target);
    copy(Path::new(&dir), &target);
    scrub(&target);
}

fn write(name: &str, text: &str) {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("screens");
    std::fs::create_dir_all(&dir).and_then(|()| std::fs::write(dir.join(name), format!("{text}\n"))).expect("a screen can be kept");
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("a directory can be made");
    for entry in std::fs::read_dir(from).expect("the snapshot is there") {
        let path = entry.expect("an entry").path();
        let target = to.join(path.file_name().expect("a name"));
        if path.is_dir() {
            copy(&path, &target);
        } else {
            std::fs::write(&target, std::fs::read(&path).expect("root reads it")).expect("it can be written");
        }
    }
}

/// What tells of the machine that the tests ran on, and what stands in its place.
const SCRUBBED: [(&str, &str); 3] = [
    ("process_api", "init"),
    ("/var/tmp/whoseenv-peers-0/opencode2-0.0.0-next-16350/", "/usr/local/bin/"),
    ("/tmp/whoseenv-world-", "/tmp/world-"),
];

/// Replaces [`SCRUBBED`], masks pid 1's arguments, and writes the digests anew.
fn scrub(dir: &Path) {
    let path = dir.join("manifest.json");
    let mut manifest: Value = serde_json::from_slice(&std::fs::read(&path).expect("a manifest")).expect("JSON");
    let read = |name: &str| -> Map<String, Value> {
        serde_json::from_slice(&std::fs::read(dir.join(name)).expect("a file of the snapshot")).expect("facts")
    };
    // Processes of which nothing but their being there was learned are the machine's, not the story's.
    let is_story = |name: &str| {
        let facts = read(name);
        !name.starts_with("processes/")
            || name == "processes/1.json"
            || facts.contains_key("fds")
            || facts["environ"].get("value").is_some()
    };
    let listed = manifest["files"].as_object_mut().expect("files");
    let strangers: Vec<String> = listed.keys().filter(|name| !is_story(name)).cloned().collect();
    for name in &strangers {
        listed.shift_remove(name);
        std::fs::remove_file(dir.join(name)).expect("it can be removed");
    }
    let dropped = |pid: &Value| strangers.contains(&format!("processes/{pid}.json"));
    for (name, listed) in manifest["files"].as_object_mut().expect("files") {
        let file = dir.join(name);
        let text = std::fs::read_to_string(&file).expect("a file of the snapshot");
        let text = SCRUBBED.iter().fold(text, |text, (from, to)| text.replace(from, to));
        let mut facts: Map<String, Value> = serde_json::from_str(&text).expect("facts");
        if name == "processes/1.json" {
            facts.insert("cmdline".to_owned(), json!({ "value": [{ "clear": "/sbin/init" }] }));
        }
        // What the test started has init for a parent, as on a machine that runs no tests.
        if let Some(parent) = facts.get_mut("stat").and_then(|stat| stat.pointer_mut("/value/ppid")).filter(|parent| dropped(parent)) {
            *parent = json!(1);
        }
        facts.sort_keys();
        listed["facts"] =
            facts.iter().map(|(key, fact)| (key.clone(), json!(digest(fact.to_string().as_bytes())))).collect::<Map<_, _>>().into();
        let text = serde_json::to_vec_pretty(&facts).expect("JSON");
        listed["sha256"] = json!(digest(&text));
        std::fs::write(&file, text).expect("it can be written");
    }
    std::fs::write(&path, serde_json::to_vec_pretty(&manifest).expect("JSON")).expect("it can be written");
}

fn digest(bytes: &[u8]) -> String {
    use sha2::Digest;
    sha2::Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
#[ignore = "writes fixtures/"]
fn the_story_s_machines() {
    let mut story = need!(Story::with_terminals(Terminal::Window { columns: 80, rows: 70 }));
    let daemon = story.service.pid();
    capture(&mut story.b, daemon, "foreign");
    story.a_disconnects();
    capture(&mut story.b, daemon, "refused");
    need!(story.c_logs_in());
    capture(&mut story.b, daemon, "demo");
    let program = story.world.whoseenv.clone();
    let owner = need!(story.world.as_root(&mut story.b, &program, &["owner", "DISPLAY", "opencode"]));
    write("owner-as-root.txt", owner.stdout.trim_end());
    let login = Login::from(4, &story.world.stranger).x11(X11::Trusted).terminal(Terminal::Window { columns: 80, rows: 70 });
    let mut stranger = need!(story.world.login(login));
    capture(&mut stranger, daemon, "stranger");
}
