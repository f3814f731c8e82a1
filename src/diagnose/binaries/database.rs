//! The changes that were made to a database's schema, read without a trace.
//!
//! With a `-wal` and a `-shm` beside it the database is read through these, and written to by nobody here
//! (`readonly_shm`); with nothing beside it, as a file that does not change. Anything else is left alone.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags};

use super::inventory::Database;

/// More rows than any host has made changes.
const ROWS: usize = 10_000;

/// Where hosts keep the names of the changes that they made: 1.18.34 and the preview, and 1.14.48 (all seen).
const TABLES: [(&str, &str); 2] = [("migration", "id"), ("__drizzle_migrations", "name")];

/// Reads the names of the changes; none where no table keeps them.
///
/// # Errors
/// Why they could not be read, in words.
pub fn read(path: &Path) -> Result<Database, String> {
    let name = path.display().to_string();
    let beside = |suffix: &str| {
        let mut name = path.as_os_str().to_owned();
        name.push(suffix);
        fs::symlink_metadata(PathBuf::from(name)).ok()
    };
    let stat = || fs::symlink_metadata(path).map_err(|error| format!("{name}: {error}"));
    let before = stat()?;
    if !before.is_file() {
        return Err(format!("{name}: it is no regular file"));
    }
    let mode = match (beside("-wal"), beside("-shm"), beside("-journal")) {
        (Some(_), Some(_), None) => "readonly_shm=1",
        (None, _, None) => "immutable=1",
        _ => return Err(format!("{name}: a journal lies beside it that only its host may use; whoseenv db reads a copy of it")),
    };
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let failed = |error: rusqlite::Error| format!("{name}: {error}");
    let connection = Connection::open_with_flags(uri(path, mode), flags).map_err(failed)?;
    connection.execute_batch("PRAGMA query_only=1; PRAGMA trusted_schema=0").map_err(failed)?;
    let mut migrations = std::collections::BTreeSet::new();
    for (table, column) in TABLES {
        let there = format!("SELECT count(*) FROM pragma_table_info('{table}') WHERE name = '{column}'");
        if connection.query_row(&there, [], |row| row.get::<_, i64>(0)).map_err(failed)? == 1 {
            let mut query = connection.prepare(&format!("SELECT {column} FROM {table} WHERE {column} IS NOT NULL")).map_err(failed)?;
            let rows = query.query_map([], |row| row.get::<_, String>(0)).map_err(failed)?;
            for name in rows.take(ROWS) {
                migrations.insert(name.map_err(failed)?);
            }
        }
    }
    let after = stat()?;
    use std::os::unix::fs::MetadataExt;
    if mode == "immutable=1" && ((before.len(), before.mtime_nsec()) != (after.len(), after.mtime_nsec()) || beside("-wal").is_some()) {
        return Err(format!("{name}: it was written to while it was read"));
    }
    Ok(Database { path: name, migrations: migrations.into_iter().collect() })
}

fn uri(path: &Path, mode: &str) -> String {
    use std::fmt::Write;
    let mut text = "file:".to_owned();
    for byte in path.as_os_str().as_bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'.' | b'-' | b'_' => text.push(char::from(*byte)),
            other => drop(write!(text, "%{other:02x}")),
        }
    }
    text + "?mode=ro&" + mode
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_no_part_of_the_query() {
        assert_eq!(uri(Path::new("/a b/x?mode=rwc#.db"), "immutable=1"), "file:/a%20b/x%3fmode%3drwc%23.db?mode=ro&immutable=1");
    }

    #[test]
    fn changes_are_read_and_nothing_is_left_behind() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("opencode.db");
        let host = Connection::open(&path).unwrap();
        host.execute_batch("CREATE TABLE migration (id TEXT, time_completed INTEGER); INSERT INTO migration VALUES ('2_b', 1), ('1_a', 1);
            CREATE TABLE __drizzle_migrations (id INTEGER, name TEXT); INSERT INTO __drizzle_migrations VALUES (1, '1_a'), (2, NULL), (3, '0_z')")
            .unwrap();
        drop(host);
        assert_eq!(read(&path).unwrap().migrations, ["0_z", "1_a", "2_b"]);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
        fs::write(dir.path().join("opencode.db-journal"), b"x").unwrap();
        assert!(read(&path).unwrap_err().contains("a journal lies beside it"));
        assert!(read(&dir.path().join("nothing")).is_err());
    }
}
