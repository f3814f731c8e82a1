//! What lies in a directory: names, kinds, sizes, times, bytes.

use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use sha2::{Digest, Sha256};

use crate::run::{Ran, ran, whoseenv};

/// Mode, inode, size, modified and changed with nanoseconds, SHA-256.
type Seen = (u32, u64, u64, [i64; 4], Option<Vec<u8>>);

/// Everything that a trace could be in.
#[derive(Debug, PartialEq, Eq)]
pub struct State(BTreeMap<Vec<u8>, Seen>);

impl State {
    /// Of a directory, and of itself.
    pub fn of(dir: &Path) -> State {
        let mut entries = BTreeMap::new();
        for path in std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).chain([dir.to_owned()]) {
            let meta = path.symlink_metadata().unwrap();
            let digest = meta.is_file().then(|| digest(&path, meta.len()));
            let times = [meta.mtime(), meta.mtime_nsec(), meta.ctime(), meta.ctime_nsec()];
            let seen = (meta.mode(), meta.ino(), meta.len(), times, digest);
            entries.insert(path.as_os_str().as_bytes().to_vec(), seen);
        }
        State(entries)
    }
}

/// SHA-256; of a large file by coreutils: a debug build of our own takes ten times as long.
fn digest(path: &Path, bytes: u64) -> Vec<u8> {
    if bytes < 1 << 20 {
        return Sha256::digest(std::fs::read(path).unwrap()).to_vec();
    }
    let output = std::process::Command::new("sha256sum").arg("--").arg(path).output().unwrap();
    assert!(output.status.success());
    output.stdout[..64].to_vec()
}

/// Every subcommand, in a face that reads all of it.
pub const COMMANDS: [&[&str]; 10] = [
    &["info", "--json"],
    &["sessions", "--json"],
    &["sessions", "--format", "ndjson"],
    &["inbox", "--format", "ndjson"],
    &["inbox", "ses_1", "--json"],
    &["kv", "--json"],
    &["kv", "--format", "ndjson"],
    &["events", "--json"],
    &["schema", "--json"],
    &["audit", "--json"],
];

/// A home that nothing else is in, for private copies.
pub fn home() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

/// `whoseenv db ARGUMENTS --db FILE` with its cache in `home`.
pub fn command(home: &Path, file: &Path, arguments: &[&str]) -> std::process::Command {
    let mut command = whoseenv(&["db"]);
    command.args(arguments).arg("--db").arg(file).env("HOME", home).env("WHOSEENV_FINGERPRINT_KEY", "a key for the tests");
    command
}

/// Runs it.
pub fn db(home: &Path, file: &Path, arguments: &[&str]) -> Ran {
    ran(&mut command(home, file, arguments))
}

/// Nothing of ours is left in a home.
pub fn assert_clean(home: &Path) {
    let cache = home.join(".cache/whoseenv");
    let left: Vec<_> = std::fs::read_dir(&cache).into_iter().flatten().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(left, Vec::<std::path::PathBuf>::new());
}

/// How `db info` says that a store was read.
pub fn read_as(home: &Path, file: &Path) -> String {
    let info = db(home, file, &["info", "--json"]).json();
    info["data"]["stores"][0]["read_as"].as_str().unwrap_or("not read").to_owned()
}

/// A host that has the store open: the sqlite3 shell, a process of its own, as every host is. Closing any file of a database drops
/// the locks that the same process has on it, so that a test that looks at the files cannot be the host as well.
pub struct Host {
    child: std::process::Child,
}

impl Host {
    /// Opens the store and runs these statements.
    pub fn open(file: &Path, sql: &str) -> crate::world::Needed<Host> {
        let shell = crate::world::need::tool("sqlite3", "sqlite3")?;
        let mut command = std::process::Command::new(shell);
        command.arg("-bail").arg(file).stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
        let mut host = Host { child: command.spawn().unwrap() };
        host.run(sql);
        Ok(host)
    }

    /// Runs statements to their end.
    pub fn run(&mut self, sql: &str) {
        use std::io::{Read, Write};
        writeln!(self.child.stdin.as_mut().unwrap(), "{sql};\nselect 'ready';").unwrap();
        let mut said = Vec::new();
        let out = self.child.stdout.as_mut().unwrap();
        while !said.ends_with(b"ready\n") {
            let mut byte = [0];
            assert_eq!(out.read(&mut byte).unwrap(), 1, "the host ended: {}", String::from_utf8_lossy(&said));
            said.push(byte[0]);
        }
    }

    /// Closes the store as a host does that ends.
    pub fn close(mut self) {
        drop(self.child.stdin.take());
        self.child.wait().unwrap();
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
