//! Small files whose pages stand in for one another, so that a table of them has no end: each command ends, and says why.

use std::path::Path;
use std::time::{Duration, Instant};

use rusqlite::Connection;

use super::fixtures::{THEN, kv, make, plugin_key, session, v2, waits};
use super::hostile::{bounded, commands, gnu_time};
use super::state::home;
use crate::run::{ran, whoseenv};

const PAGE: usize = 4096;

/// Makes the tree of a table endless, after the format (sqlite.org/fileformat2.html, 1.6): its root becomes an interior page whose cells all
/// point to the same next page, and so on, down to what the root was: 500^6 times its rows.
fn endless(path: &Path, table: &str) {
    const LEVELS: usize = 6;
    let conn = Connection::open(path).unwrap();
    conn.execute_batch("pragma wal_checkpoint(truncate); pragma journal_mode=delete").unwrap();
    let root: u32 = conn.query_row("select rootpage from sqlite_schema where name = ?1", [table], |row| row.get(0)).unwrap();
    let size: u32 = conn.query_row("pragma page_size", [], |row| row.get(0)).unwrap();
    let root = root as usize;
    assert_eq!(size as usize, PAGE);
    drop(conn);
    let mut bytes = std::fs::read(path).unwrap();
    let leaf = bytes[(root - 1) * PAGE..root * PAGE].to_vec();
    assert_eq!(leaf[0], 13, "the root is a leaf with rows");
    let mut page = root;
    for level in 0..LEVELS {
        let next = bytes.len() / PAGE + 1;
        let mut interior = vec![0; PAGE];
        interior[0] = 5;
        let cells = 500;
        interior[3..5].copy_from_slice(&(cells as u16).to_be_bytes());
        interior[5..7].copy_from_slice(&((PAGE - 5 * cells) as u16).to_be_bytes());
        interior[8..12].copy_from_slice(&(next as u32).to_be_bytes());
        for cell in 0..cells {
            let at = PAGE - 5 * (cell + 1);
            interior[at..at + 4].copy_from_slice(&(next as u32).to_be_bytes());
            interior[at + 4] = 1;
            interior[12 + 2 * cell..14 + 2 * cell].copy_from_slice(&(at as u16).to_be_bytes());
        }
        bytes[(page - 1) * PAGE..page * PAGE].copy_from_slice(&interior);
        bytes.extend_from_slice(if level + 1 == LEVELS { &leaf } else { &[0; PAGE] });
        page = next;
    }
    let pages = (bytes.len() / PAGE) as u32;
    bytes[28..32].copy_from_slice(&pages.to_be_bytes());
    std::fs::write(path, bytes).unwrap();
}

/// A store of 2.0.x with a row in each table.
fn with_rows(path: &Path) {
    let schema =
        v2(true).replace("key text PRIMARY KEY, value text", "key text, value text").replace(", UNIQUE (session_id, enqueued_seq)", "");
    let conn = make(path, &schema, "delete");
    session(&conn, "session_v2", "ses_1", None, "/tmp", &[]);
    kv(&conn, &plugin_key("team", "k"), "1");
    waits(&conn, "session_inbox", "m", "ses_1", "queue", 1, "{\"text\":\"x\"}");
    conn.execute("insert into event values ('e', 'ses_1', 0, ?1, 'session.created.1', '{}')", [THEN]).unwrap();
    conn.execute_batch("insert into credential values ('c', 'l', 'a value')").unwrap();
}

#[test]
fn a_table_without_an_end_is_not_read_to_it() {
    need!(gnu_time());
    // Which subcommands read the table.
    let readers: [(&str, &[&str]); 5] = [
        ("session_v2", &["sessions", "audit"]),
        ("event", &["events", "schema", "audit"]),
        ("session_inbox", &["inbox", "schema", "audit"]),
        ("kv", &["kv", "schema", "audit"]),
        ("credential", &["schema", "audit"]),
    ];
    for (table, readers) in readers {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("store.db");
        with_rows(&path);
        endless(&path, table);
        assert!(path.metadata().unwrap().len() < 200_000);
        for (ran, arguments) in bounded(table, &path).iter().zip(commands()) {
            // By a key they need not be read; and an index that has an end is enough to count them.
            if readers.contains(&arguments[0]) && !["ses_1", "--value", "--quick"].iter().any(|part| arguments.contains(part)) {
                let said = format!("{}{}", ran.stdout, ran.stderr);
                assert!(ran.code == 5 && said.contains("not read to its end"), "{table} {arguments:?}: {} {said}", ran.code);
            }
        }
    }
}

#[test]
fn a_snapshot_with_such_a_store_ends() {
    for table in ["session_v2", "credential"] {
        let (dir, home) = (tempfile::tempdir().unwrap(), home());
        let data = home.path().join(".local/share/opencode");
        std::fs::create_dir_all(&data).unwrap();
        let path = data.join("opencode.db");
        with_rows(&path);
        endless(&path, table);
        let start = Instant::now();
        let own = std::process::id().to_string();
        let to = dir.path().join("snapshot");
        let taken = ran(whoseenv(&["snapshot", to.to_str().unwrap(), "--with-stores", "--pid", &own, "--json"]).env("HOME", home.path()));
        assert!(start.elapsed() < Duration::from_secs(30), "{:?}", start.elapsed());
        assert!(taken.code == 0 || taken.code == 5, "{} {}", taken.stdout, taken.stderr);
        // Without the blank in the place of each secret there is no copy of it.
        assert_eq!(taken.stdout.contains("the snapshot does not hold it"), table == "credential", "{}", taken.stdout);
        super::state::assert_clean(home.path());
    }
}
