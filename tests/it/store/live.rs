//! Beside a host that writes, starts, or ends while it is looked at.

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::fixtures::{filled, make, preview, session};
use super::state::{Host, State, command, db, home};
use crate::small_disk::SmallDisk;

/// Writes 1,000 transactions a second until its stdin closes; each one adds the same number to two rows. Says at the end how many
/// there were, the first error, and how large the WAL ever was.
const WRITER: &str = r#"
import os, select, sqlite3, sys, time
path = sys.argv[1]
db = sqlite3.connect(path, isolation_level=None, timeout=0.5)
db.execute('pragma synchronous=normal')
wal, count, error, start = 0, 0, '', time.monotonic()
print('ready', flush=True)
while not select.select([sys.stdin], [], [], 0)[0]:
    try:
        db.execute('begin immediate')
        db.execute("update session set time_updated = time_updated + 1 where id in ('left', 'right')")
        db.execute("insert or replace into kv values ('plugin:0061:k' || ?, hex(randomblob(50)), 1, 1)", (count % 100,))
        db.execute('commit')
    except Exception as e:
        error = error or repr(e)
        if db.in_transaction:
            db.execute('rollback')
    count += 1
    if count % 50 == 0:
        wal = max(wal, os.stat(path + '-wal').st_size)
    late = start + count / 1000 - time.monotonic()
    if late > 0:
        time.sleep(late)
print(count, wal, time.monotonic() - start, error, sep='|', flush=True)
"#;

struct Writer {
    child: Child,
}

impl Writer {
    fn start(path: &Path) -> crate::world::Needed<Writer> {
        let python = crate::world::need::tool("python3", "python3")?;
        let mut child = Command::new(python).args(["-c", WRITER]).arg(path).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        use std::io::Read;
        let mut ready = [0; 6];
        child.stdout.as_mut().unwrap().read_exact(&mut ready).unwrap();
        Ok(Writer { child })
    }

    /// Transactions, largest WAL, seconds, first error.
    fn stop(mut self) -> (u64, u64, f64, String) {
        drop(self.child.stdin.take());
        let mut said = String::new();
        use std::io::Read;
        self.child.stdout.take().unwrap().read_to_string(&mut said).unwrap();
        self.child.wait().unwrap();
        let words: Vec<&str> = said.trim().split('|').collect();
        (words[0].parse().unwrap(), words[1].parse().unwrap(), words[2].parse().unwrap(), words[3].to_owned())
    }
}

fn written(dir: &Path) -> std::path::PathBuf {
    let path = dir.join("store.db");
    let conn = make(&path, &preview(), "wal");
    session(&conn, "session", "left", None, "/tmp", &[]);
    session(&conn, "session", "right", None, "/tmp", &[]);
    path
}

#[test]
fn a_thousand_commits_a_second_and_two_hundred_looks() {
    let dir = tempfile::tempdir().unwrap();
    let path = written(dir.path());
    let home = home();
    // Without us, and with a reader that holds its moment for long: what a WAL does then shows that the test would see it.
    let writer = need!(Writer::start(&path));
    std::thread::sleep(Duration::from_secs(4));
    let (_, alone, _, error) = writer.stop();
    assert_eq!(error, "");
    let writer = need!(Writer::start(&path));
    let mut slow = need!(Host::open(&path, "begin; select count(*) from session"));
    std::thread::sleep(Duration::from_secs(4));
    slow.run("commit");
    slow.close();
    let (_, held, _, _) = writer.stop();
    let writer = need!(Writer::start(&path));
    let commands: [&[&str]; 4] = [&["sessions", "--json"], &["kv", "--format", "ndjson"], &["inbox", "--json"], &["info", "--json"]];
    let mut shared = 0;
    for at in 0..200 {
        let ran = db(home.path(), &path, commands[at % commands.len()]);
        assert_eq!(ran.code, 0, "{at}: {} {}", ran.stdout, ran.stderr);
        if at % commands.len() == 0 {
            let document = ran.json();
            let updated: Vec<&str> =
                document["data"]["sessions"].as_array().unwrap().iter().map(|session| session["time_updated"].as_str().unwrap()).collect();
            assert_eq!(updated.len(), 2);
            assert_eq!(updated[0], updated[1], "one moment");
            shared += usize::from(document["data"]["read_as"] == "shared");
        }
    }
    let (count, with_us, seconds, error) = writer.stop();
    assert_eq!(error, "", "the host noticed us");
    assert_eq!(shared, 50);
    // On a loaded machine python does not come to a thousand; that it came to hundreds is what matters here.
    assert!(count as f64 / seconds > 300.0, "{count} transactions in {seconds} s");
    assert!(held > alone * 3 / 2, "a slow reader grows the WAL: {held} against {alone}");
    assert!(with_us < alone + (held - alone) / 2, "the WAL grew to {with_us}; without us to {alone}, with a slow reader to {held}");
    super::state::assert_clean(home.path());
}

/// Makes so many events, and then writes as a host does.
fn with_events(count: &str) -> String {
    format!(
        "insert into event with recursive n(i) as (select 1 union all select i + 1 from n where i < {count}) \
         select 'evt_x' || i, 'ses_x' || (i % 50), i, 1, 'session.step.started.1', hex(zeroblob(20)) from n; pragma wal_checkpoint(truncate); \
         update session set title = 'live'"
    )
}

#[test]
fn a_long_question_beside_a_host_that_writes_is_put_to_a_copy() {
    let dir = tempfile::tempdir().unwrap();
    let (path, home) = (written(dir.path()), home());
    let host = need!(Host::open(&path, &with_events("2000000")));
    let way = |question: &str| db(home.path(), &path, &[question, "--json"]).json()["data"]["read_as"].clone();
    // Nobody waits for us as long as nothing is committed.
    assert_eq!(way("events"), "shared");
    let writer = need!(Writer::start(&path));
    let events = db(home.path(), &path, &["events", "--json"]).json();
    assert_eq!((&events["data"]["read_as"], &events["data"]["events"]["count"]), (&"private_copy".into(), &2_000_000.into()));
    assert_eq!(way("kv"), "shared");
    assert_eq!(writer.stop().3, "", "the host noticed us");
    host.close();
    super::state::assert_clean(home.path());
}

/// Where there is no room for a copy the question is answered beside the host after all: then the lock on `-shm` that keeps the WAL
/// where it is has to be there to the end. `/proc/locks` tells.
#[test]
fn without_room_for_a_copy_the_moment_is_held_to_the_end() {
    let dir = tempfile::tempdir().unwrap();
    let Some(small) = SmallDisk::mounted(dir.path(), "64k") else { skip!("a small file system takes root and mount") };
    let (path, home) = (written(dir.path()), home());
    let host = need!(Host::open(&path, &with_events("1500000")));
    let writer = need!(Writer::start(&path));
    let inode = std::fs::metadata(dir.path().join("store.db-shm")).unwrap().ino();
    let mut asking = command(home.path(), &path, &["events", "--json"]);
    let mut asked = asking.env("XDG_CACHE_HOME", small.path()).stdout(Stdio::piped()).spawn().unwrap();
    let begin = Instant::now();
    let (mut held, mut looked) = (Duration::ZERO, Duration::ZERO);
    while asked.try_wait().unwrap().is_none() {
        let locks = std::fs::read_to_string("/proc/locks").unwrap();
        looked = begin.elapsed();
        if locks.lines().any(|line| line.contains(&format!(" {} ", asked.id())) && line.contains(&format!(":{inode} "))) {
            held = looked;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let answer: serde_json::Value = serde_json::from_reader(asked.stdout.take().unwrap()).unwrap();
    assert_eq!((&answer["data"]["read_as"], &answer["data"]["events"]["count"]), (&"shared".into(), &1_500_000.into()));
    assert!(looked > Duration::from_millis(700), "no long question: {looked:?}");
    assert!(looked - held < Duration::from_millis(200), "the lock was gone after {held:?} of {looked:?}");
    assert_eq!(writer.stop().3, "", "the host noticed us");
    host.close();
}

#[test]
fn a_reader_of_our_output_that_sleeps_holds_nobody_up() {
    let dir = tempfile::tempdir().unwrap();
    let path = written(dir.path());
    let mut host = need!(Host::open(
        &path,
        "insert into kv with recursive n(i) as (select 1 union all select i + 1 from n where i < 60000) select 'plugin:0062:' || i, hex(zeroblob(100)), 1, 1 from n"
    ));
    host.run("pragma wal_checkpoint(truncate); insert into kv values ('x', 'y', 1, 1)");
    let home = home();
    let mut child = super::state::command(home.path(), &path, &["kv", "--format", "ndjson"]).stdout(Stdio::piped()).spawn().unwrap();
    // Its first line is there, and nobody reads the rest.
    use std::io::Read;
    child.stdout.as_mut().unwrap().read_exact(&mut [0; 10]).unwrap();
    let start = Instant::now();
    loop {
        host.run("create table if not exists done (busy, log, moved); delete from done; insert into done values (1, 2, 3)");
        host.run("pragma wal_checkpoint(truncate)");
        // Truncated: nobody holds an old moment.
        if std::fs::metadata(format!("{}-wal", path.display())).unwrap().len() == 0 {
            break;
        }
        assert!(start.elapsed() < Duration::from_secs(20), "the checkpoint never came to its end");
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(child.try_wait().unwrap().is_none(), "it still waits for its reader");
    let mut rest = String::new();
    child.stdout.take().unwrap().read_to_string(&mut rest).unwrap();
    assert!(child.wait().unwrap().success());
    assert_eq!(rest.lines().count(), 60_001 + 2);
}

#[test]
fn a_host_that_starts_while_rows_are_told_ends_the_answer_as_undetermined() {
    let dir = tempfile::tempdir().unwrap();
    let path = written(dir.path());
    let bulk = "insert into kv with recursive n(i) as (select 1 union all select i + 1 from n where i < 60000) select 'plugin:0062:' || i, hex(zeroblob(100)), 1, 1 from n";
    need!(Host::open(&path, bulk)).close();
    let home = home();
    let mut child = super::state::command(home.path(), &path, &["kv", "--format", "ndjson"]).stdout(Stdio::piped()).spawn().unwrap();
    use std::io::Read;
    child.stdout.as_mut().unwrap().read_exact(&mut [0; 10]).unwrap();
    // The pipe is full: it reads as a file that does not change, and one that does.
    let mut host = Host::open(&path, "delete from kv where rowid % 2 = 0").expect("it was there a moment ago");
    host.run("pragma wal_checkpoint(truncate)");
    let mut rest = String::new();
    child.stdout.take().unwrap().read_to_string(&mut rest).unwrap();
    let code = child.wait().unwrap().code();
    let last: serde_json::Value = serde_json::from_str(rest.lines().last().unwrap()).unwrap();
    assert_eq!((code, &last["status"]), (Some(5), &"undetermined".into()), "{last}");
    assert!(last["error"]["message"].as_str().unwrap().ends_with("it changed while it was read"), "{last}");
    // A question that has told nobody anything yet is put again.
    assert_eq!(db(home.path(), &path, &["sessions", "--json"]).json()["data"]["read_as"], "shared");
}

#[test]
fn hosts_that_come_and_go() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store.db");
    drop(filled(&path, "wal"));
    let home = home();
    let (mut ways, start) = (std::collections::BTreeSet::new(), Instant::now());
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                let Ok(host) = Host::open(&path, "update session set title = title || 'x'") else { return };
                std::thread::sleep(Duration::from_millis(20));
                // The last one to close takes -wal and -shm away.
                host.close();
                std::thread::sleep(Duration::from_millis(20));
            }
        });
        for _ in 0..60 {
            let ran = db(home.path(), &path, &["sessions", "--json"]);
            assert!([0, 5].contains(&ran.code), "{} {}", ran.stdout, ran.stderr);
            if ran.code == 0 {
                let document = ran.json();
                assert_eq!(document["data"]["sessions"].as_array().unwrap().len(), 20);
                ways.insert(document["data"]["read_as"].as_str().unwrap().to_owned());
            }
            assert!(start.elapsed() < Duration::from_secs(120));
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    assert!(ways.contains("shared") || ways.contains("immutable"), "{ways:?}");
    // Nothing of ours is left. Where we kept a host from being the last to close, its files lie there; the next one, which has to read
    // the store for that, takes them away.
    let host = need!(Host::open(&path, "select count(*) from session"));
    host.close();
    let names: Vec<_> = std::fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["store.db"]);
    let before = State::of(dir.path());
    assert_eq!(db(home.path(), &path, &["audit", "--json"]).json()["data"]["integrity"], "whole");
    assert_eq!(State::of(dir.path()), before);
}
