//! What a probe of a live host says that stays by the host's nature is all that stays: files before and after.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;

use super::Room;
use super::live::Service;
use super::v1_live::Server;
use crate::world::guard::{Proc, tied};
use crate::world::look::{unix_socket_listens, wait_until, wait_up_to};
use crate::world::peers;

/// Every file and directory below.
fn all(dir: &Path) -> BTreeSet<PathBuf> {
    let mut found = BTreeSet::new();
    for path in std::fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path()) {
        if path.is_dir() && !path.is_symlink() {
            found.extend(all(&path));
        }
        found.insert(path);
    }
    found
}

/// What the probe says that stays by nature, in one text.
fn by_nature(json: &Value) -> String {
    let left = json["data"]["cleanup"]["left"].as_array().unwrap();
    assert!(left.iter().all(|left| left["by_nature"] == true), "{left:?}");
    left.iter().map(|left| format!("{}: {}\n", left["what"].as_str().unwrap(), left["why"].as_str().unwrap())).collect()
}

#[test]
fn a_live_preview_keeps_what_is_listed_and_no_other_file() {
    let service = need!(Service::start());
    let room = Room::new();
    let before = all(service.home.path());
    let ran = service.probe(&room, &[]);
    let said = by_nature(&ran.json());
    let (temporary, shells) = (service.home.path().join("tmp"), service.home.path().join(".local/share/opencode/shell"));
    assert!(said.contains(&format!("{}/.*-0000000N.so", temporary.display())) && said.contains(&shells.display().to_string()), "{said}");
    let listed = |path: &PathBuf| {
        let name = path.file_name().unwrap().to_str().unwrap();
        let library = path.starts_with(&temporary) && name.starts_with('.') && name.ends_with(".so");
        library || path.is_dir() && (path.starts_with(&shells) || said.contains(&path.display().to_string()))
    };
    let unlisted = || -> Vec<PathBuf> { all(service.home.path()).difference(&before).filter(|path| !listed(path)).cloned().collect() };
    // A lock of the host's own goes with what it was for.
    wait_up_to(Duration::from_secs(10), || unlisted().is_empty().then_some(()));
    assert_eq!(unlisted(), Vec::<PathBuf>::new(), "there since, and not in:\n{said}");
}

#[test]
fn a_live_1x_keeps_what_is_listed_and_no_other_file() {
    let server = need!(Server::start());
    let room = Room::new();
    let before = all(server.home.path());
    let ran = crate::run::ran(&mut server.command(&room, "20"));
    let said = by_nature(&ran.json());
    let below = |path: &str| server.home.path().join(path);
    let (config, temporary) = (below(".config/opencode"), below("tmp"));
    assert!(said.contains(&format!("{}/.gitignore", config.display())) && said.contains("npm's cache, .npm in"), "{said}");
    let listed = |path: &PathBuf| {
        let library = path.starts_with(&temporary) && path.extension().is_some_and(|ext| ext == "so");
        library || [&config, &below(".npm"), &below(".local/state/opencode/locks")].iter().any(|place| path.starts_with(place))
    };
    let unlisted: Vec<_> = all(server.home.path()).difference(&before).filter(|path| !listed(path)).cloned().collect();
    assert_eq!(unlisted, Vec::<PathBuf>::new(), "there since, and not in:\n{said}");
}

#[test]
fn a_live_zeroclaw_keeps_what_is_listed_and_no_other_file() {
    let program = need!(peers::zeroclaw());
    let (room, home) = (Room::new(), tempfile::tempdir().unwrap());
    let config = "schema_version = 3\n\n[providers.models.custom.stub]\nuri = \"http://127.0.0.1:9/v1\"\napi_key = \"none\"\nmodel = \"stub\"\n\n\
         [risk_profiles.open]\nlevel = \"full\"\n\n[runtime_profiles.plain]\nagentic = true\n\n\
         [agents.main]\nmodel_provider = \"custom.stub\"\nrisk_profile = \"open\"\nruntime_profile = \"plain\"\n";
    std::fs::write(home.path().join("config.toml"), config).unwrap();
    let mut command = need!(tied(program));
    command.args(["daemon", "--config-dir"]).arg(home.path()).env_clear().env("HOME", home.path()).env("PATH", "/usr/bin:/bin");
    let _daemon = Proc::spawn("zeroclaw", command.stdout(Stdio::null()).stderr(Stdio::null()));
    let socket = home.path().join("data/daemon.sock");
    wait_until("ZeroClaw's socket", || unix_socket_listens(&socket));
    // It goes on making its own tables for a moment after it listens.
    std::thread::sleep(std::time::Duration::from_secs(3));
    let before = all(home.path());
    let ran = room.run(&["probe", "zeroclaw", "--json", "--live", socket.to_str().unwrap()]);
    let said = by_nature(&ran.json());
    let new: Vec<_> = all(home.path()).difference(&before).cloned().collect();
    let unlisted: Vec<_> = new
        .iter()
        .filter(|path| {
            let listed = path.is_dir() || said.contains(path.file_stem().unwrap().to_str().unwrap());
            !(path.strip_prefix(home.path()).unwrap().starts_with("agents") && listed)
        })
        .collect();
    assert_eq!(unlisted, Vec::<&PathBuf>::new(), "there since, and not in:\n{said}");
}
