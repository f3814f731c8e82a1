//! What is wrong with a store, as far as the store itself tells. Verdicts are made above, where processes and files come in.
//!
//! Bounded in memory: of whatever there may be many, a few are named and all are counted.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};

use rusqlite::Connection;

use super::armour::{CELL, SECRETS};
use super::events::{self, Aggregate};
use super::kv::Key;
use super::sessions::Family;
use super::turns::{Turn, Turns};
use super::{Generation, Opened, Refusal, Tables, wal};
use crate::report::Progress;

mod circles;
mod facts;

use circles::Circles;
pub use facts::{
    DIRECTORIES, Events, Facts, Integrity, LARGE, NAMED, Orphan, PLUGINS, Plugin, Some10, Suspended, WAITING_MS, Waiting, Waits,
};

/// Examines an opened store; two connections, two threads.
///
/// # Errors
/// When it cannot be read at all. What is damaged is no error.
pub fn examine(opened: &mut Opened, tables: &Tables, now_ms: i64, progress: &Progress) -> Result<Facts, Refusal> {
    tables.compute_nothing()?;
    opened.whole();
    let lost = wal::lost(opened.path())?;
    let checker = opened.second();
    let base = opened.base();
    let conn = &opened.conn;
    std::thread::scope(|scope| {
        let checking = scope.spawn(move || {
            let whole = check(checker);
            // What reads as one file needs no second look.
            (whole, base.map(check))
        });
        let facts = read(conn, tables, now_ms, progress);
        while !checking.is_finished() {
            progress.doing("quick_check");
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        let (whole, base) = checking.join().unwrap_or((Integrity::Unknown("the check ended".to_owned()), None));
        match facts {
            Ok(facts) => Ok(Facts { whole, base, lost, ..facts }),
            // Damage is what was asked about.
            Err(Refusal::Damaged(_)) if matches!(whole, Integrity::Damaged(_)) => Ok(Facts { whole, base, lost, ..Facts::nothing() }),
            Err(error) => Err(error),
        }
    })
}

fn check(opened: Result<Opened, Refusal>) -> Integrity {
    let mut complaints = Vec::new();
    let checked = opened.and_then(|opened| {
        opened.whole();
        let mut statement = opened.conn.prepare("pragma quick_check(10)")?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            // They name tables and indices of the file.
            complaints.push(lossy(row, 0));
        }
        Ok(())
    });
    match checked {
        Ok(()) if complaints.iter().all(|complaint| complaint == "ok") => Integrity::Whole,
        Err(error @ (Refusal::Damaged(_) | Refusal::NotADatabase)) => {
            complaints.push(error.to_string());
            Integrity::Damaged(complaints)
        }
        Ok(()) => Integrity::Damaged(complaints),
        Err(error) => Integrity::Unknown(error.to_string()),
    }
}

fn bytes<'r>(row: &'r rusqlite::Row<'_>, column: usize) -> &'r [u8] {
    row.get_ref(column).ok().and_then(|value| value.as_bytes_or_null().ok().flatten()).unwrap_or_default()
}

fn lossy(row: &rusqlite::Row<'_>, column: usize) -> String {
    super::text::told_text(bytes(row, column))
}

pub(super) fn int(row: &rusqlite::Row<'_>, column: usize) -> Option<i64> {
    row.get_ref(column).ok().and_then(|value| value.as_i64_or_null().ok().flatten())
}

fn pragma(conn: &Connection, name: &str) -> Result<u64, Refusal> {
    Ok(conn.query_row(&format!("pragma {name}"), [], |row| row.get::<_, i64>(0))?.unsigned_abs())
}

fn read(conn: &Connection, tables: &Tables, now_ms: i64, progress: &Progress) -> Result<Facts, Refusal> {
    let mut facts = Facts::nothing();
    facts.page_size = pragma(conn, "page_size")?;
    facts.pages = pragma(conn, "page_count")?;
    facts.free_pages = pragma(conn, "freelist_count")?;
    facts.auto_vacuum = pragma(conn, "auto_vacuum")? != 0;
    if tables.has("kv") {
        progress.doing("kv");
        kv(conn, &mut facts)?;
    }
    progress.doing("sessions");
    sessions(conn, tables, &mut facts)?;
    progress.doing("inbox");
    inbox(conn, tables, now_ms, &mut facts)?;
    if tables.has("event") {
        progress.doing("events");
        facts.events = Some(events(conn, tables, &facts)?);
    }
    for &(table, column) in SECRETS {
        if tables.column(table, column) {
            // Counted, never read: no column is named but the key of the row.
            facts.secrets.push((table, column, super::schema::count(conn, table)?));
        }
    }
    Ok(facts)
}

fn kv(conn: &Connection, facts: &mut Facts) -> Result<(), Refusal> {
    let mut statement = conn.prepare("select key, octet_length(value), time_updated from kv")?;
    let mut rows = statement.query([])?;
    // Rows of one plugin stand together in the key's order, and mostly in the table's.
    let mut last: (Vec<u8>, Option<String>) = (Vec::new(), None);
    while let Some(row) = rows.next()? {
        let raw = bytes(row, 0);
        let Some(colon) = raw.strip_prefix(b"plugin:").and_then(|rest| memchr::memchr(b':', rest)).map(|at| at + 7) else { continue };
        if last.0 != raw[..colon] {
            last = (raw[..colon].to_vec(), Key::parse(raw).plugin);
        }
        let Some(name) = &last.1 else { continue };
        let key = Key { scope: super::kv::Scope::Plugin, plugin: None, key: &raw[colon + 1..] };
        let size = int(row, 1).unwrap_or(0).unsigned_abs();
        if !facts.kv.contains_key(name) && facts.kv.len() >= PLUGINS {
            facts.kv_left_out += 1;
            continue;
        }
        let plugin = match facts.kv.get_mut(name) {
            Some(plugin) => plugin,
            None => facts.kv.entry(name.clone()).or_default(),
        };
        plugin.entries += 1;
        plugin.unscoped += u64::from(!key.is_scoped());
        plugin.bytes += size;
        plugin.large += u64::from(size > LARGE);
        if size > plugin.largest.1 {
            plugin.largest = (super::text::told_text(key.key), size);
        }
        plugin.updated_ms = plugin.updated_ms.max(int(row, 2).unwrap_or(0));
    }
    Ok(())
}

fn sessions(conn: &Connection, tables: &Tables, facts: &mut Facts) -> Result<(), Refusal> {
    let family = Family::read(conn, tables)?;
    facts.dangling = family.dangling();
    let mut circles = Circles::default();
    // A migrated store has those of before too.
    for table in super::sessions::TABLES.into_iter().filter(|table| tables.has(table)) {
        if facts.session_table.is_empty() {
            facts.session_table = table;
        }
        sessions_of(conn, tables, table, &family, &mut circles, facts)?;
    }
    let members = circles.members();
    if !members.is_empty() {
        for table in ["session_v2", "session"].into_iter().filter(|table| tables.has(table)) {
            let once = super::sessions::once(tables, table)?.map(|condition| format!(" where {condition}")).unwrap_or_default();
            let mut statement = conn.prepare(&format!("select id from {table}{once}"))?;
            let mut rows = statement.query([])?;
            while let Some(row) = rows.next()? {
                if circles.is_member(&members, bytes(row, 0)) {
                    facts.circles.push(|| lossy(row, 0));
                }
            }
        }
    }
    Ok(())
}

fn sessions_of(
    conn: &Connection,
    tables: &Tables,
    table: &'static str,
    family: &Family,
    circles: &mut Circles,
    facts: &mut Facts,
) -> Result<(), Refusal> {
    let (id, directory) = match table {
        "acp_sessions" => ("session_uuid", "workspace_dir"),
        "session_metadata" => ("session_key", "null"),
        _ => ("id", tables.or_null(table, "directory")),
    };
    let suspended = if table == "session_metadata" && tables.column(table, "state") {
        "case when state = 'running' then coalesce(turn_started_at, '') end"
    } else {
        tables.or_null(table, "time_suspended")
    };
    let parent = tables.or_null(table, "parent_id");
    let once = super::sessions::once(tables, table)?.map(|condition| format!(" where {condition}")).unwrap_or_default();
    let mut statement = conn.prepare(&format!("select {id}, {parent}, {directory}, {suspended} from {table}{once}"))?;
    let mut rows = statement.query([])?;
    let mut turns = Turns::of(conn, tables, table)?;
    while let Some(row) = rows.next()? {
        facts.sessions += 1;
        let (id, parent) = (bytes(row, 0), bytes(row, 1));
        if !parent.is_empty() {
            if family.has(parent) {
                circles.child(id, parent);
            } else {
                facts.orphans.push(|| Orphan { table, id: lossy(row, 0), parent: lossy(row, 1) });
            }
        }
        match turns.of_session(id, !matches!(row.get_ref(3)?, rusqlite::types::ValueRef::Null))? {
            Turn::None => {}
            Turn::Began { seq } => {
                let since_ms = match seq {
                    Some(seq) if facts.suspended.named.len() < NAMED => turns.since_ms(id, seq)?,
                    Some(_) => None,
                    None => int(row, 3),
                };
                facts.suspended.push(|| Suspended { table, id: lossy(row, 0), since_ms, seq });
            }
            Turn::Untold => facts.suspended_untold += 1,
        }
        if let Ok(directory) = std::str::from_utf8(bytes(row, 2))
            && directory.starts_with('/')
        {
            if let Some(count) = facts.directories.get_mut(directory) {
                *count += 1;
            } else if facts.directories.len() < DIRECTORIES {
                facts.directories.insert(directory.to_owned(), 1);
            } else {
                facts.directories_left_out += 1;
            }
        }
    }
    Ok(())
}

fn inbox(conn: &Connection, tables: &Tables, now_ms: i64, facts: &mut Facts) -> Result<(), Refusal> {
    let queues = match super::inbox::queues(tables) {
        Err(Refusal::NoTable(_)) => Vec::new(),
        queues => queues?,
    };
    for queue in queues {
        if facts.queue_table.is_empty() {
            facts.queue_table = queue.table;
        }
        inbox_of(conn, tables, queue, now_ms, facts)?;
    }
    Ok(())
}

fn inbox_of(conn: &Connection, tables: &Tables, queue: &super::inbox::Queue, now_ms: i64, facts: &mut Facts) -> Result<(), Refusal> {
    let super::inbox::Queue { table, payload, seq, .. } = queue;
    let pending = queue.waits(tables);
    let sessions = if tables.has("session_v2") { "session_v2" } else { "session" };
    let suspended = if tables.column(sessions, "time_suspended") {
        tables.need_key(sessions)?;
        format!("(select s.time_suspended is not null from {sessions} s where s.id = {table}.session_id)")
    } else {
        "0".to_owned()
    };
    let kind = if tables.column(table, "type") { "type" } else { "'user'" };
    let mut statement = conn.prepare(&format!(
        "select session_id, {kind}, delivery, time_created, case when octet_length({payload}) <= {CELL} then {payload} end, {suspended} \
         from {table} where {pending} order by session_id, delivery desc, {seq}"
    ))?;
    let mut rows = statement.query([])?;
    let mut of_session = Vec::new();
    let hasher = RandomState::new();
    let mut seen: HashMap<u64, u64> = HashMap::new();
    let mut turns = Turns::of(conn, tables, sessions)?;
    let mut current: Option<(Waiting, Turn)> = None;
    let finish = |facts: &mut Facts, waiting: Option<(Waiting, Turn)>, seen: &mut HashMap<u64, u64>| {
        if let Some((waiting, turn)) = waiting {
            let twice: u64 = seen.values().filter(|count| **count > 1).sum();
            if twice > 0 {
                facts.twice.push(|| (waiting.session.clone(), twice));
            }
            if waiting.rows > 0 {
                let waits = match turn {
                    Turn::None => &mut facts.waiting,
                    Turn::Began { .. } => &mut facts.waiting_in_turn,
                    Turn::Untold => &mut facts.waiting_untold,
                };
                waits.rows += waiting.rows;
                waits.sessions.push(|| waiting);
            }
        }
        seen.clear();
    };
    while let Some(row) = rows.next()? {
        facts.pending += 1;
        let session = bytes(row, 0);
        if current.is_none() || of_session != session {
            of_session = session.to_vec();
            finish(facts, current.take(), &mut seen);
            let delivery = if bytes(row, 2).is_empty() { "no delivery".to_owned() } else { lossy(row, 2) };
            let first = format!("{}, {delivery}", lossy(row, 1));
            current = Some((Waiting { session: lossy(row, 0), rows: 0, oldest_ms: i64::MAX, first }, turns.of_session(session, false)?));
        }
        let Some((waiting, _)) = current.as_mut() else { continue };
        let created = int(row, 3).unwrap_or(now_ms);
        // A turn in flight will take it.
        if int(row, 5) != Some(1) && now_ms.saturating_sub(created) >= WAITING_MS {
            waiting.rows += 1;
            waiting.oldest_ms = waiting.oldest_ms.min(created);
        }
        // A payload that is too large to be read is like no other.
        if seen.len() < 100_000 && !matches!(row.get_ref(4)?, rusqlite::types::ValueRef::Null) {
            *seen.entry(hasher.hash_one((bytes(row, 1), bytes(row, 4)))).or_default() += 1;
        }
    }
    finish(facts, current, &mut seen);
    Ok(())
}

fn events(conn: &Connection, tables: &Tables, facts: &Facts) -> Result<Events, Refusal> {
    /// Below this size every page of the store is counted.
    const SMALL: u64 = 64 << 20;
    let mut found = Events::default();
    let generation = tables.generation();
    let emptied = events::each_aggregate(conn, tables, |aggregate| {
        found.count += aggregate.count;
        if aggregate.lost(generation) > 0 {
            found.gaps.push(|| aggregate.clone());
        }
        let least = found.most.last().map_or(0, |least: &Aggregate| least.count);
        if found.most.len() < 3 || aggregate.count > least {
            found.most.push(aggregate);
            found.most.sort_by_key(|aggregate| std::cmp::Reverse(aggregate.count));
            found.most.truncate(3);
        }
    })?;
    // 2.0.x counts what it does not keep.
    found.emptied = if matches!(generation, Generation::V1 | Generation::Preview) { emptied } else { 0 };
    if facts.pages * facts.page_size <= SMALL {
        found.bytes = super::schema::by_table(conn)?.get("event").copied().unwrap_or(0);
    } else {
        let sample = "select sum(octet_length(data) + octet_length(id) + 3 * octet_length(aggregate_id) + 2 * octet_length(type) + 24), count(*) \
                      from (select * from event limit 5000)";
        let (bytes, rows) = conn.query_row(sample, [], |row| Ok((row.get::<_, Option<i64>>(0)?.unwrap_or(0), row.get::<_, i64>(1)?)))?;
        found.bytes = bytes.unsigned_abs() * found.count / rows.unsigned_abs().max(1);
        found.estimated = true;
    }
    Ok(found)
}
