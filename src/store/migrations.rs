//! The changes that hosts made to a store's schema, by the names that they keep of them.

use std::collections::BTreeSet;

use rusqlite::Connection;

use super::{Refusal, Tables};
use crate::binary::migrations::named_by_time;

/// More rows than any host has made changes.
const MOST: usize = 10_000;

/// Where hosts keep the names: 1.18.34 and the preview, and 1.14.48 (all seen).
const KEPT: [(&str, &str); 2] = [("migration", "id"), ("__drizzle_migrations", "name")];

/// A change that a host made, and when: milliseconds of Unix time.
pub type Made = (String, Option<i64>);

/// The names of all changes, whichever table keeps them; none where no table does.
///
/// OpenCode 1.2.1 keeps times alone, in `__drizzle_migrations.created_at` (milliseconds): such a change is named by its time.
///
/// # Errors
/// When a table cannot be read.
pub fn names(conn: &Connection, tables: &Tables) -> Result<BTreeSet<String>, Refusal> {
    let mut names = BTreeSet::new();
    for (table, column) in KEPT.into_iter().filter(|(table, column)| tables.column(table, column)) {
        let mut statement = conn.prepare(&format!("select {column} from {table} where {column} is not null limit {MOST}"))?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            names.insert(name(row)?);
        }
    }
    const UNNAMED: &str = "__drizzle_migrations";
    if tables.column(UNNAMED, "created_at") {
        let unnamed = if tables.column(UNNAMED, "name") { "where name is null" } else { "" };
        let mut statement = conn.prepare(&format!("select created_at from {UNNAMED} {unnamed} limit {MOST}"))?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            names.extend(row.get::<_, Option<i64>>(0).ok().flatten().and_then(named_by_time));
        }
    }
    Ok(names)
}

/// The last changes, the last first; none where the host keeps no time of them.
///
/// # Errors
/// When the table cannot be read.
pub fn last(conn: &Connection, tables: &Tables, count: usize) -> Result<Vec<Made>, Refusal> {
    if !tables.column("migration", "id") || !tables.column("migration", "time_completed") {
        return Ok(Vec::new());
    }
    let query = format!("select id, time_completed from migration order by time_completed desc, rowid desc limit {count}");
    let mut statement = conn.prepare(&query)?;
    let mut rows = statement.query([])?;
    let mut made = Vec::new();
    while let Some(row) = rows.next()? {
        made.push((name(row)?, row.get::<_, Option<i64>>(1).ok().flatten()));
    }
    Ok(made)
}

/// The names are kept in the journal of old versions of 1.x alone.
pub fn is_legacy(tables: &Tables) -> bool {
    tables.has("__drizzle_migrations") && !tables.has("migration")
}

fn name(row: &rusqlite::Row<'_>) -> Result<String, Refusal> {
    Ok(super::text::told_text(row.get_ref(0)?.as_bytes_or_null().ok().flatten().unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Progress;
    use crate::store::open;
    use std::path::Path;

    const MADE: &str = "CREATE TABLE migration (id TEXT, time_completed INTEGER); INSERT INTO migration VALUES ('2_b', 7), ('1_a', 5);
        CREATE TABLE __drizzle_migrations (id INTEGER, name TEXT); INSERT INTO __drizzle_migrations VALUES (1, '1_a'), (2, NULL), (3, '0_z')";

    fn read(path: &Path) -> Result<(Vec<String>, Vec<Made>), Refusal> {
        open::ask(path, &Progress::hidden(), |opened| {
            let tables = Tables::read(&opened.conn)?;
            Ok((names(&opened.conn, &tables)?.into_iter().collect(), last(&opened.conn, &tables, 1)?))
        })
    }

    #[test]
    fn changes_are_read_and_nothing_is_left_behind() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a b?mode=rwc#.db");
        let host = Connection::open(&path).unwrap();
        host.execute_batch(MADE).unwrap();
        drop(host);
        let (names, last) = read(&path).unwrap();
        assert_eq!(names, ["0_z", "1_a", "2_b"]);
        assert_eq!(last, [("2_b".to_owned(), Some(7))]);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
        // Not a journal of SQLite's: nothing to undo, and it stays.
        let journal = dir.path().join("a b?mode=rwc#.db-journal");
        std::fs::write(&journal, b"x").unwrap();
        assert_eq!(read(&path).unwrap().0, names);
        assert_eq!(std::fs::read(&journal).unwrap(), b"x");
        assert!(read(&dir.path().join("nothing")).is_err());
    }

    #[test]
    fn changes_that_only_the_wal_holds_are_read_from_a_private_copy() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("opencode.db");
        let host = Connection::open(&path).unwrap();
        host.execute_batch(&format!("PRAGMA journal_mode=wal; PRAGMA wal_autocheckpoint=0; {MADE}")).unwrap();
        // What a host that crashed leaves where its shared memory went with the machine.
        let crashed = dir.path().join("crashed");
        std::fs::create_dir(&crashed).unwrap();
        for suffix in ["", "-wal"] {
            let name = format!("opencode.db{suffix}");
            std::fs::copy(dir.path().join(&name), crashed.join(&name)).unwrap();
        }
        assert_eq!(read(&crashed.join("opencode.db")).unwrap().0, ["0_z", "1_a", "2_b"]);
        assert_eq!(std::fs::read_dir(&crashed).unwrap().count(), 2);
        assert_eq!(read(&path).unwrap().0, ["0_z", "1_a", "2_b"], "together with its host");
    }

    /// The table that 1.2.1 makes, with its first row.
    #[test]
    fn changes_that_were_kept_without_a_name_are_named_by_their_time() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("opencode.db");
        let table = "CREATE TABLE __drizzle_migrations (id SERIAL PRIMARY KEY, hash text NOT NULL, created_at numeric);
            INSERT INTO __drizzle_migrations VALUES (NULL, '', 1769552633000), (NULL, '', NULL)";
        Connection::open(&path).unwrap().execute_batch(table).unwrap();
        assert_eq!(read(&path).unwrap().0, ["20260127222353"]);
    }
}
