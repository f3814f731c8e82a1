//! No trace: every state a store can be in, every command, and who else might ask.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use rusqlite::Connection;

use super::fixtures::{filled, make, preview};
use super::state::{COMMANDS, Host, State, assert_clean, command, db, home, read_as};
use crate::run::ran;
use crate::small_disk::SmallDisk;

/// Runs every command on a store and sees that nothing beside it changes. `codes`: those that may come.
fn untouched(what: &str, file: &Path, codes: &[i32]) {
    let codes = |arguments: &[&str]| match arguments {
        // These tell what can be told of a store that cannot be read.
        ["audit", ..] if codes == [5] => vec![1, 5],
        _ => codes.to_vec(),
    };
    let home = home();
    let dir = file.parent().unwrap();
    let before = State::of(dir);
    for arguments in COMMANDS {
        let ran = db(home.path(), file, arguments);
        assert!(codes(arguments).contains(&ran.code), "{what}: {arguments:?}: {} {} {}", ran.code, ran.stdout, ran.stderr);
        assert_eq!(State::of(dir), before, "{what}: {arguments:?}");
        assert_clean(home.path());
    }
}

/// What a killed host leaves: a copy of its files, but for those with these endings.
fn crashed(from: &Path, without: &[&str]) -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let to = dir.path().join("store.db");
    for end in ["", "-wal", "-shm", "-journal"] {
        let source = PathBuf::from(format!("{}{end}", from.display()));
        if source.exists() && !without.contains(&end) {
            std::fs::copy(source, format!("{}{end}", to.display())).unwrap();
        }
    }
    (dir, to)
}

fn store() -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store.db");
    (dir, path)
}

fn sessions(home: &Path, file: &Path) -> usize {
    db(home, file, &["sessions", "--json"]).json()["data"]["sessions"].as_array().map_or(0, Vec::len)
}

#[test]
fn a_cleanly_closed_store() {
    let (dir, path) = store();
    drop(filled(&path, "wal"));
    untouched("closed", &path, &[0, 1]);
    let home = home();
    assert_eq!((read_as(home.path(), &path).as_str(), sessions(home.path(), &path)), ("immutable", 20));
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
}

#[test]
fn beside_a_live_writer() {
    let (_dir, path) = store();
    drop(filled(&path, "wal"));
    let mut host = need!(Host::open(&path, "update session set title = 'live'"));
    untouched("live", &path, &[0, 1]);
    let home = home();
    assert_eq!((read_as(home.path(), &path).as_str(), sessions(home.path(), &path)), ("shared", 20));
    // A WAL whose frames were all moved is still there.
    host.run("pragma wal_checkpoint(passive)");
    untouched("checkpointed", &path, &[0, 1]);
    host.run("pragma wal_checkpoint(truncate)");
    untouched("truncated WAL", &path, &[0, 1]);
    assert_eq!(sessions(home.path(), &path), 20);
    // In the middle of a transaction: what is not committed is not there.
    host.run("begin immediate; delete from session");
    untouched("writing", &path, &[0, 1]);
    assert_eq!(sessions(home.path(), &path), 20);
    host.run("rollback; delete from kv");
}

#[test]
fn a_killed_host() {
    let (_dir, path) = store();
    let conn = filled(&path, "wal");
    let (_crash, copy) = crashed(&path, &["-shm"]);
    untouched("no -shm", &copy, &[0, 1]);
    let home = home();
    assert_eq!((read_as(home.path(), &copy).as_str(), sessions(home.path(), &copy)), ("private_copy", 20));
    let (_crash, copy) = crashed(&path, &[]);
    untouched("stale -shm", &copy, &[0, 1]);
    assert_eq!(sessions(home.path(), &copy), 20);
    // A -shm of other times.
    std::fs::write(format!("{}-shm", copy.display()), vec![0xa5u8; 32768]).unwrap();
    untouched("garbage -shm", &copy, &[0, 1]);
    assert_eq!(sessions(home.path(), &copy), 20);
    drop(conn);
}

#[test]
fn a_hot_journal_s_rows_do_not_appear() {
    let (_dir, path) = store();
    let conn = filled(&path, "delete");
    conn.execute_batch("pragma cache_size=1; pragma cache_spill=1; begin immediate;").unwrap();
    for at in 0..2000 {
        super::fixtures::session(&conn, "session", &format!("never_{at}"), None, "/tmp", &[]);
    }
    let journal = PathBuf::from(format!("{}-journal", path.display()));
    assert!(journal.metadata().unwrap().len() > 512, "the transaction has spilt");
    let (_crash, copy) = crashed(&path, &[]);
    untouched("hot journal", &copy, &[0, 1]);
    let home = home();
    assert_eq!((read_as(home.path(), &copy).as_str(), sessions(home.path(), &copy)), ("private_copy", 20));
    // And beside the host that is still at it.
    untouched("hot journal, alive", &path, &[0, 1]);
    assert_eq!(sessions(home.path(), &path), 20);
    conn.execute_batch("rollback").unwrap();
}

#[test]
fn a_journal_that_names_other_databases_is_left_alone() {
    let (_dir, path) = store();
    let conn = filled(&path, "delete");
    conn.execute_batch("pragma cache_size=1; pragma cache_spill=1; begin immediate;").unwrap();
    for at in 0..2000 {
        super::fixtures::session(&conn, "session", &format!("never_{at}"), None, "/tmp", &[]);
    }
    let (crash, copy) = crashed(&path, &[]);
    // The end of a journal with a super-journal: page number, name, length, checksum, magic.
    let victim = crash.path().join("victim");
    std::fs::write(&victim, b"must stay").unwrap();
    let name = victim.as_os_str().as_bytes();
    let mut end = vec![0, 0x10, 0, 1];
    end.extend_from_slice(name);
    end.extend_from_slice(&(name.len() as u32).to_be_bytes());
    end.extend_from_slice(&name.iter().map(|byte| u32::from(*byte)).sum::<u32>().to_be_bytes());
    end.extend_from_slice(&[0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7]);
    use std::io::Write;
    std::fs::OpenOptions::new().append(true).open(format!("{}-journal", copy.display())).unwrap().write_all(&end).unwrap();
    untouched("super-journal", &copy, &[5]);
    conn.execute_batch("rollback").unwrap();
}

#[test]
fn an_exclusive_lock_and_the_other_journal_modes() {
    for mode in ["delete", "truncate", "persist", "memory", "off"] {
        let (_dir, path) = store();
        let conn = filled(&path, mode);
        untouched(mode, &path, &[0, 1]);
        drop(conn);
        // Whether the file holds what was never committed is not to be seen while its host keeps everybody out.
        let host = need!(Host::open(&path, &format!("pragma journal_mode={mode}; pragma locking_mode=exclusive; begin exclusive")));
        untouched(&format!("{mode}, exclusive"), &path, &[5]);
        drop(host);
        let home = home();
        assert_eq!(sessions(home.path(), &path), 20, "{mode}");
    }
    let (_dir, path) = store();
    let conn = Connection::open(&path).unwrap();
    conn.execute_batch("pragma locking_mode=exclusive").unwrap();
    drop(conn);
    let conn = Connection::open(&path).unwrap();
    conn.execute_batch(&format!("pragma locking_mode=exclusive; pragma journal_mode=wal; {}", preview())).unwrap();
    super::fixtures::session(&conn, "session", "ses_1", None, "/tmp", &[]);
    untouched("exclusive WAL", &path, &[0, 1]);
    let home = home();
    assert_eq!((read_as(home.path(), &path).as_str(), sessions(home.path(), &path)), ("private_copy", 1));
}

#[test]
fn what_is_no_database_is_said() {
    let (dir, path) = store();
    std::fs::write(&path, b"").unwrap();
    untouched("0 bytes", &path, &[5]);
    std::fs::write(&path, (0..20_000u32).map(|at| (at * 7919 % 251) as u8).collect::<Vec<_>>()).unwrap();
    untouched("random", &path, &[5]);
    std::fs::remove_file(&path).unwrap();
    drop(filled(&path, "wal"));
    let whole = std::fs::read(&path).unwrap();
    for length in [50, 100, 4096, whole.len() / 2, whole.len() - 1000] {
        std::fs::write(&path, &whole[..length]).unwrap();
        untouched("truncated", &path, &[0, 1, 3, 5]);
        let home = home();
        let audit = db(home.path(), &path, &["audit", "--json"]);
        assert!(audit.code != 0, "{length}: {}", audit.stdout);
    }
    let mut wrong = whole;
    wrong[4096..].iter_mut().for_each(|byte| *byte ^= 0x5a);
    std::fs::write(&path, &wrong).unwrap();
    untouched("wrong pages", &path, &[1, 3, 5]);
    let home = home();
    let said = db(home.path(), &path, &["sessions"]);
    assert!(said.code == 5 && said.stderr.contains("store.db: "), "{} {}", said.code, said.stderr);
    drop(dir);
}

#[test]
fn what_is_no_file_is_not_opened() {
    let (dir, path) = store();
    drop(filled(&path, "wal"));
    let home = home();
    let link = dir.path().join("link.db");
    std::os::unix::fs::symlink(&path, &link).unwrap();
    assert_eq!(sessions(home.path(), &link), 20, "a link is followed to what it names");
    let fifo = dir.path().join("fifo.db");
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, rustix::fs::Mode::RUSR, 0).unwrap();
    let dangling = dir.path().join("dangling.db");
    std::os::unix::fs::symlink(dir.path().join("nothing"), &dangling).unwrap();
    let before = State::of(dir.path());
    for (file, code) in
        [(fifo.as_path(), 2), (dir.path(), 2), (Path::new("/dev/null"), 2), (dangling.as_path(), 3), (Path::new("/nonexistent/x.db"), 3)]
    {
        for arguments in COMMANDS {
            let ran = db(home.path(), file, arguments);
            assert_eq!(ran.code, code, "{}: {arguments:?}: {}", file.display(), ran.stdout);
        }
    }
    // A FIFO in the place of the WAL is not waited for.
    let wal = PathBuf::from(format!("{}-wal", path.display()));
    rustix::fs::mknodat(rustix::fs::CWD, &wal, rustix::fs::FileType::Fifo, rustix::fs::Mode::RUSR, 0).unwrap();
    assert_eq!(db(home.path(), &path, &["sessions"]).code, 5);
    std::fs::remove_file(&wal).unwrap();
    std::fs::remove_dir_all(home.path().join(".cache")).unwrap_or(());
    let after = State::of(dir.path());
    assert_ne!(before, after, "the FIFO changed the directory's time: the comparison sees such things");
}

#[test]
fn names_that_a_uri_would_break() {
    for name in [
        &b"a b.db"[..],
        b"what?mode=rwc.db",
        b"x#y.db",
        b"100%25.db",
        b"%41.db",
        b"caf\xc3\xa9.db",
        b"bytes\xff\xfe.db",
        b"a&immutable=0.db",
    ] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(OsStr::from_bytes(name));
        drop(filled(&dir.path().join("made.db"), "wal"));
        std::fs::rename(dir.path().join("made.db"), &path).unwrap();
        untouched(&path.display().to_string(), &path, &[0, 1]);
        let home = home();
        assert_eq!(sessions(home.path(), &path), 20, "{}", path.display());
    }
}

#[test]
fn no_room_for_a_copy_is_said_and_nothing_stays() {
    let (_dir, path) = store();
    let conn = filled(&path, "wal");
    let (_crash, copy) = crashed(&path, &["-shm"]);
    drop(conn);
    let dir = tempfile::tempdir().unwrap();
    let Some(small) = SmallDisk::mounted(dir.path(), "64k") else { skip!("a small file system takes root and mount") };
    let before = State::of(copy.parent().unwrap());
    let said = ran(command(dir.path(), &copy, &["sessions", "--json"]).env("XDG_CACHE_HOME", small.path()));
    let left = small.entries();
    assert_eq!(said.code, 74, "{}", said.stdout);
    assert!(said.json()["error"]["message"].as_str().unwrap().contains("free"), "{}", said.stdout);
    assert_eq!((State::of(copy.parent().unwrap()), left), (before, 0));
}

#[test]
fn a_read_only_directory_and_another_account() {
    // A world ends whatever runs as this account.
    let _alone = crate::world::world::alone();
    let stranger = need!(crate::world::accounts::stranger());
    let (dir, path) = store();
    let conn = filled(&path, "wal");
    std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let program = dir.path().parent().unwrap().join(format!("whoseenv-of-anybody-{}", std::process::id()));
    std::fs::copy(crate::run::PROGRAM, &program).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let cache = tempfile::tempdir().unwrap();
    std::fs::set_permissions(cache.path(), std::fs::Permissions::from_mode(0o700)).unwrap();
    std::os::unix::fs::chown(cache.path(), Some(stranger.uid), Some(stranger.gid)).unwrap();
    let as_stranger = |file: &Path, arguments: &[&str]| {
        use std::os::unix::process::CommandExt;
        let mut command = Command::new(&program);
        command.arg("db").args(arguments).arg("--db").arg(file).env_clear().env("PATH", "/usr/bin:/bin").env("HOME", cache.path());
        command.uid(stranger.uid).gid(stranger.gid);
        ran(&mut command)
    };
    // Somebody else's store, in a directory that she may not write into: readable, live, then left behind.
    for (what, live) in [("live", true), ("left", false)] {
        let (_crash, left) = crashed(&path, &["-shm"]);
        std::fs::set_permissions(left.parent().unwrap(), std::fs::Permissions::from_mode(0o755)).unwrap();
        let file = if live { &path } else { &left };
        for entry in std::fs::read_dir(file.parent().unwrap()).unwrap() {
            std::fs::set_permissions(entry.unwrap().path(), std::fs::Permissions::from_mode(0o644)).unwrap();
        }
        let before = State::of(file.parent().unwrap());
        for arguments in COMMANDS {
            let ran = as_stranger(file, arguments);
            assert!([0, 1].contains(&ran.code), "{what} {arguments:?}: {} {}", ran.stdout, ran.stderr);
            assert_eq!(State::of(file.parent().unwrap()), before, "{what} {arguments:?}");
        }
        // Her own directory, closed to herself.
        std::fs::set_permissions(left.parent().unwrap(), std::fs::Permissions::from_mode(0o555)).unwrap();
        for path in
            std::fs::read_dir(left.parent().unwrap()).unwrap().map(|entry| entry.unwrap().path()).chain([left.parent().unwrap().to_owned()])
        {
            std::os::unix::fs::chown(path, Some(stranger.uid), Some(stranger.gid)).unwrap();
        }
        let before = State::of(left.parent().unwrap());
        for arguments in COMMANDS {
            assert!([0, 1].contains(&as_stranger(&left, arguments).code), "0555 {arguments:?}");
            assert_eq!(State::of(left.parent().unwrap()), before, "0555 {arguments:?}");
        }
    }
    // One that she may not read.
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    let before = State::of(dir.path());
    for arguments in COMMANDS {
        assert_eq!(as_stranger(&path, arguments).code, 4, "{arguments:?}");
        assert_eq!(State::of(dir.path()), before);
    }
    let _ = std::fs::remove_file(program);
    assert_clean(cache.path());
    drop(conn);
}

#[test]
fn a_read_only_mount() {
    let (dir, path) = store();
    let conn = filled(&path, "wal");
    let (crash, left) = crashed(&path, &["-shm"]);
    let closed = tempfile::tempdir().unwrap();
    drop(filled(&closed.path().join("store.db"), "wal"));
    drop(left);
    let bind =
        |flags: &[&str], dir: &Path| Command::new("mount").args(flags).arg(dir).arg(dir).status().is_ok_and(|status| status.success());
    for dir in [dir.path(), crash.path(), closed.path()] {
        if !bind(&["--bind"], dir) {
            skip!("a read-only mount takes root and mount");
        }
        assert!(Command::new("mount").args(["-o", "remount,ro,bind"]).arg(dir).status().unwrap().success());
        let file = dir.join("store.db");
        let checked = std::panic::catch_unwind(|| untouched("read-only mount", &file, &[0, 1]));
        let _ = Command::new("umount").arg(dir).status();
        checked.unwrap();
    }
    drop(conn);
}

#[test]
fn after_ctrl_c_and_after_a_kill_no_copy_stays() {
    let (_dir, path) = store();
    let conn = make(&path, &preview(), "wal");
    conn.execute_batch(
        "pragma wal_autocheckpoint=0; begin; \
        insert into kv with recursive n(i) as (select 1 union all select i + 1 from n where i < 300000) \
        select 'plugin:0061:k' || i, hex(zeroblob(120)), 1, 1 from n; commit",
    )
    .unwrap();
    let (_crash, copy) = crashed(&path, &["-shm"]);
    drop(conn);
    let before = State::of(copy.parent().unwrap());
    let home = home();
    let cache = home.path().join(".cache/whoseenv/copies");
    for (signal, stays) in
        [(rustix::process::Signal::INT, false), (rustix::process::Signal::TERM, false), (rustix::process::Signal::KILL, true)]
    {
        let mut child = command(home.path(), &copy, &["kv", "--format", "ndjson"]).stdout(std::process::Stdio::piped()).spawn().unwrap();
        crate::world::look::wait_until("a private copy", || std::fs::read_dir(&cache).is_ok_and(|mut entries| entries.next().is_some()));
        let pid = rustix::process::Pid::from_child(&child);
        rustix::process::kill_process(pid, signal).unwrap();
        // The reader goes away too, as in a pipeline.
        drop(child.stdout.take());
        let status = child.wait().unwrap();
        use std::os::unix::process::ExitStatusExt;
        if signal != rustix::process::Signal::KILL {
            assert!(status.signal() == Some(signal.as_raw()) || status.code() == Some(0), "{status:?}");
        }
        assert_eq!(std::fs::read_dir(&cache).map_or(0, Iterator::count) > 0, stays, "{signal:?}");
    }
    // The next start sweeps, whatever it is asked: of no store at all.
    assert_eq!(ran(crate::run::whoseenv(&["schema", "ps"]).env("HOME", home.path())).code, 0);
    assert_clean(home.path());
    assert_eq!(State::of(copy.parent().unwrap()), before);
}

#[test]
fn a_gigabyte() {
    let (dir, path) = store();
    drop(filled(&path, "wal"));
    let conn = Connection::open(&path).unwrap();
    conn.execute_batch(
        "pragma journal_mode=off; pragma synchronous=off; create table big (a); \
        insert into big with recursive n(i) as (select 1 union all select i + 1 from n where i < 1060) select zeroblob(1000000) from n; \
        pragma journal_mode=wal;",
    )
    .unwrap();
    drop(conn);
    assert!(path.metadata().unwrap().len() > 1_000_000_000);
    let host = need!(Host::open(&path, "update session set title = 'live'"));
    let listed = |dir: &Path| {
        let mut names: Vec<_> = std::fs::read_dir(dir)
            .unwrap()
            .map(|entry| entry.unwrap())
            .map(|entry| {
                let meta = entry.metadata().unwrap();
                (entry.file_name(), meta.len(), meta.modified().unwrap())
            })
            .collect();
        names.sort();
        names
    };
    let before = (listed(dir.path()), super::state::State::of(dir.path()));
    let home = home();
    for arguments in [&["info", "--json"][..], &["sessions", "--json"], &["kv", "--json"], &["inbox", "--json"]] {
        let start = std::time::Instant::now();
        let ran = db(home.path(), &path, arguments);
        assert!([0, 1].contains(&ran.code), "{arguments:?}: {}", ran.stdout);
        assert!(start.elapsed() < std::time::Duration::from_secs(5), "{arguments:?}");
        assert_eq!(listed(dir.path()), before.0, "{arguments:?}");
    }
    assert_eq!(State::of(dir.path()), before.1);
    assert_eq!(read_as(home.path(), &path), "shared");
    drop(host);
}
