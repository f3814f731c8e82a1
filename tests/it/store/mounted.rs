//! A store on a file system where WAL does not hold: a real one in user space, and the kinds that this machine cannot mount.

use std::io::Write;
use std::path::Path;
use std::process::Command;

use super::fixtures::filled;
use super::state::{COMMANDS, State, assert_clean, db, home};
use crate::world::need;

/// A directory seen through FUSE.
struct Mounted<'d>(&'d Path);

impl Drop for Mounted<'_> {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(self.0).status();
    }
}

fn finding(home: &Path, file: &Path, command: &str) -> Option<String> {
    let told = db(home, file, &[command, "--json"]).json();
    let found = told["findings"].as_array().unwrap().iter().find(|finding| finding["id"] == "store.on_network");
    found.map(|finding| finding["message"].as_str().unwrap().to_owned())
}

#[test]
fn a_store_in_wal_mode_on_fuse() {
    // No package brings what the kernel does not have.
    if !Path::new("/dev/fuse").exists() {
        let _ = writeln!(std::io::stderr(), "this kernel has no FUSE: the kinds of file systems alone are compared");
        return;
    }
    let bindfs = need!(need::tool("bindfs", "bindfs"));
    let (dir, home) = (tempfile::tempdir().unwrap(), home());
    let (real, seen) = (dir.path().join("real"), dir.path().join("seen"));
    for made in [&real, &seen] {
        std::fs::create_dir(made).unwrap();
    }
    drop(filled(&real.join("wal.db"), "wal"));
    drop(filled(&real.join("rollback.db"), "delete"));
    let mounted = Command::new(bindfs).args([&real, &seen]).output().unwrap();
    if !mounted.status.success() {
        skip!("bindfs mounts nothing here: {}", String::from_utf8_lossy(&mounted.stderr));
    }
    let _mounted = Mounted(&seen);
    let before = State::of(&real);
    for command in ["info", "audit"] {
        let message = finding(home.path(), &seen.join("wal.db"), command);
        assert_eq!(message.as_deref(), Some("it is in WAL mode on fuse, where its shared memory does not hold"), "{command}");
        assert_eq!(finding(home.path(), &seen.join("rollback.db"), command), None, "{command}: no WAL");
        assert_eq!(finding(home.path(), &real.join("wal.db"), command), None, "{command}: the same file where it really lies");
    }
    for arguments in COMMANDS {
        let (through, direct) = (db(home.path(), &seen.join("wal.db"), arguments), db(home.path(), &real.join("wal.db"), arguments));
        if !["info", "audit"].contains(&arguments[0]) {
            assert_eq!(through.code, direct.code, "{arguments:?}: {}", through.stdout);
        }
    }
    assert_eq!(State::of(&real), before);
    assert_clean(home.path());
}

#[test]
fn kinds_that_take_a_server() {
    use whoseenv::store::beside::is_network;
    assert!(["nfs", "cifs", "smb2", "fuse", "9p", "ceph"].iter().all(|kind| is_network(kind)));
    assert!(!["ext4", "btrfs", "xfs", "tmpfs", "overlay"].iter().any(|kind| is_network(kind)));
}
