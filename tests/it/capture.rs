//! Captures the machines in fixtures/ from the story, as the ordinary account, with names and addresses replaced.
//!
//! `cargo test --test it capture -- --ignored`

use std::path::{Path, PathBuf};

use crate::world::Story;
use crate::world::sshd::Session;

fn capture(asker: &mut Session, daemon: u32, machine: &str) {
    let dir = asker.stdout(&format!("echo $HOME/{machine}")).trim().to_owned();
    let (taken, code) = asker.whoseenv(&["snapshot", &dir, "--pid", &daemon.to_string(), "--anonymize", "--json"]);
    assert_eq!(code, 0, "{taken:#}");
    let target = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("fixtures").join(machine);
    let _ = std::fs::remove_dir_all(&target);
    copy(Path::new(&dir), &target);
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

#[test]
#[ignore = "writes fixtures/"]
fn the_story_s_machines() {
    let mut story = need!(Story::new());
    let daemon = story.service.pid();
    capture(&mut story.b, daemon, "foreign");
    story.a_disconnects();
    capture(&mut story.b, daemon, "refused");
    need!(story.c_logs_in());
    capture(&mut story.b, daemon, "demo");
    let mut stranger = need!(story.stranger());
    capture(&mut stranger, daemon, "stranger");
}
