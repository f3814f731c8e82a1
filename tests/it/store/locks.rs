//! A host that writes without a WAL and without a journal on disk: only its locks tell; and what lies beside a store and is no file.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use super::fixtures::{filled, make, preview, session};
use super::state::{COMMANDS, State, db, home};
use crate::world::need;

/// Python's sqlite3 in the middle of a transaction that has spilt into the file.
struct Writer(Child);

impl Writer {
    fn start(python: &Path, file: &Path, mode: &str) -> Writer {
        let script = format!(
            "import sqlite3, sys, time
conn = sqlite3.connect(sys.argv[1], isolation_level=None)
conn.execute('pragma journal_mode={mode}')
conn.execute('pragma cache_size=5')
conn.execute('begin immediate')
conn.execute(\"update session set title = 'never committed' || title\")
print('ready', flush=True)
time.sleep(60)"
        );
        let mut child = Command::new(python).args(["-c", &script]).arg(file).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        Writer(child)
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn three_thousand(path: &Path) {
    let conn = make(path, &preview(), "delete");
    conn.execute_batch("begin").unwrap();
    for at in 0..3000 {
        session(&conn, "session", &format!("ses_{at}"), None, &"/x".repeat(50), &[]);
    }
    conn.execute_batch("commit").unwrap();
}

#[test]
fn rows_that_were_never_committed_do_not_appear() {
    let python = need!(need::tool("python3", "python3"));
    let shell = need!(need::tool("sqlite3", "sqlite3"));
    for mode in ["memory", "off"] {
        let (dir, home) = (tempfile::tempdir().unwrap(), home());
        let path = dir.path().join("store.db");
        three_thousand(&path);
        let writer = Writer::start(&python, &path, mode);
        let shell = Command::new(&shell).args(["-readonly"]).arg(&path).arg("select count(*) from session").output().unwrap();
        assert!(String::from_utf8_lossy(&shell.stderr).contains("database is locked"), "the shell may not read it either");
        let before = State::of(dir.path());
        for arguments in COMMANDS {
            let ran = db(home.path(), &path, arguments);
            assert!(!ran.stdout.contains("\"ses_"), "{mode}: {arguments:?}");
            assert_eq!(ran.code, 5, "{mode}: {arguments:?}: {}", ran.stdout);
            assert!(ran.stdout.contains(&format!("pid {} is writing into it", writer.0.id())), "{mode}: {arguments:?}: {}", ran.stdout);
        }
        assert_eq!(State::of(dir.path()), before);
    }
}

#[test]
fn a_reserved_lock_keeps_no_reader_out() {
    let python = need!(need::tool("python3", "python3"));
    let (dir, home) = (tempfile::tempdir().unwrap(), home());
    let path = dir.path().join("store.db");
    drop(filled(&path, "delete"));
    // Twenty rows do not spill: nothing of the transaction is in the file.
    let _writer = Writer::start(&python, &path, "memory");
    let document = db(home.path(), &path, &["sessions", "--json"]).json();
    assert_eq!(document["data"]["sessions"].as_array().unwrap().len(), 20);
    assert_eq!(document["data"]["sessions"][0]["title_len"], 7);
}

/// What a killed host leaves, in a directory of its own.
fn crashed(with_shm: impl FnOnce(&Path)) -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let (alive, path) = (dir.path().join("alive.db"), dir.path().join("store.db"));
    let conn = filled(&alive, "wal");
    std::fs::copy(&alive, &path).unwrap();
    std::fs::copy(dir.path().join("alive.db-wal"), dir.path().join("store.db-wal")).unwrap();
    drop(conn);
    with_shm(&dir.path().join("store.db-shm"));
    (dir, path)
}

#[test]
fn an_shm_that_is_no_file_is_not_opened() {
    let fifo = |path: &Path| rustix::fs::mknodat(rustix::fs::CWD, path, rustix::fs::FileType::Fifo, rustix::fs::Mode::RUSR, 0).unwrap();
    let directory = |path: &Path| std::fs::create_dir(path).unwrap();
    let link = |path: &Path| std::os::unix::fs::symlink("/dev/zero", path).unwrap();
    for make in [&fifo as &dyn Fn(&Path), &directory, &link] {
        let (_dir, path) = crashed(make);
        let home = home();
        for arguments in COMMANDS {
            let start = std::time::Instant::now();
            let ran = db(home.path(), &path, arguments);
            assert!(start.elapsed().as_secs() < 6, "{arguments:?}");
            assert_eq!(ran.code, 5, "{arguments:?}: {}", ran.stdout);
            assert!(ran.stdout.contains("-shm is no regular file"), "{arguments:?}: {}", ran.stdout);
        }
    }
}

#[test]
fn a_home_without_a_cache_has_none_afterwards() {
    let (_dir, path) = crashed(|_| {});
    let home = home();
    assert_eq!(db(home.path(), &path, &["sessions", "--json"]).json()["data"]["read_as"], "private_copy");
    assert_eq!(std::fs::read_dir(home.path()).unwrap().count(), 0);
    std::fs::create_dir(home.path().join(".cache")).unwrap();
    db(home.path(), &path, &["sessions", "--json"]);
    assert!(home.path().join(".cache").exists(), "one that was there stays");
}

#[test]
fn frames_of_a_wal_that_do_not_check_are_told() {
    let found = |path: &Path| {
        let home = home();
        let audit = db(home.path(), path, &["audit", "--json"]).json();
        let findings = audit["findings"].as_array().unwrap().clone();
        findings
            .into_iter()
            .find(|finding| finding["id"] == "store.wal_damaged")
            .map(|finding| finding["message"].as_str().unwrap().to_owned())
    };
    let (dir, path) = crashed(|_| {});
    let wal = dir.path().join("store.db-wal");
    assert_eq!(found(&path), None);
    let sound = std::fs::read(&wal).unwrap();
    let write = |at: usize, bytes: &[u8]| {
        let mut wal_bytes = sound.clone();
        wal_bytes[at..at + bytes.len()].copy_from_slice(bytes);
        std::fs::write(&wal, wal_bytes).unwrap();
    };
    // A frame is 24 bytes and a page of 4096; the tenth begins at 32 + 9 * 4120.
    write(32 + 9 * 4120 + 24 + 100, &[0x5a; 3000]);
    let message = found(&path).expect("a finding");
    assert!(message.starts_with("SQLite reads 9 frames of its -wal"), "{message}");
    let shell = need!(need::tool("sqlite3", "sqlite3"));
    // What SQLite itself keeps of such a WAL: less than there was.
    let copy = tempfile::tempdir().unwrap();
    for end in ["", "-wal"] {
        std::fs::copy(format!("{}{end}", path.display()), format!("{}/c.db{end}", copy.path().display())).unwrap();
    }
    let rows = Command::new(shell).arg(copy.path().join("c.db")).arg("select count(*) from session").output().unwrap();
    assert_ne!(String::from_utf8_lossy(&rows.stdout).trim(), "20");
    write(24, &[0; 8]);
    assert!(found(&path).expect("a finding").contains("header of its -wal does not check"));
    // The end of a transaction that was being written: never committed, nothing lost.
    std::fs::write(&wal, &sound[..sound.len() - 2000]).unwrap();
    assert_eq!(found(&path), None);
}
