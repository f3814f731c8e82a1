//! Stores with the columns of each generation: 1.18.34 and next-16350 as their programs make them, 2.0.x from the reference.

use std::path::Path;

use rusqlite::Connection;

const SESSION: &str = "id text PRIMARY KEY, project_id text NOT NULL, workspace_id text, parent_id text, slug text NOT NULL, directory text NOT NULL, \
    path text, title text NOT NULL, version text NOT NULL, share_url text, summary_additions integer, summary_deletions integer, \
    summary_files integer, summary_diffs text, metadata text, cost real DEFAULT 0 NOT NULL, tokens_input integer DEFAULT 0 NOT NULL, \
    tokens_output integer DEFAULT 0 NOT NULL, tokens_reasoning integer DEFAULT 0 NOT NULL, tokens_cache_read integer DEFAULT 0 NOT NULL, \
    tokens_cache_write integer DEFAULT 0 NOT NULL, revert text, permission text, agent text, model text, time_created integer NOT NULL, \
    time_updated integer NOT NULL, time_compacting integer, time_archived integer";

const SHARED: &str = "
    CREATE TABLE credential (id text PRIMARY KEY, integration_id text, label text NOT NULL, value text NOT NULL, connector_id text, method_id text,
        active integer, time_created integer NOT NULL, time_updated integer NOT NULL);
    CREATE TABLE session_share (session_id text PRIMARY KEY, id text NOT NULL, secret text NOT NULL, url text NOT NULL,
        time_created integer NOT NULL, time_updated integer NOT NULL);
    CREATE TABLE event_sequence (aggregate_id text PRIMARY KEY, seq integer NOT NULL, owner_id text);
    CREATE TABLE migration (id text PRIMARY KEY, time_completed integer NOT NULL);";

const KV: &str =
    "CREATE TABLE kv (key text PRIMARY KEY, value text NOT NULL, time_created integer NOT NULL, time_updated integer NOT NULL);";

/// OpenCode 1.x.
pub fn v1() -> String {
    format!(
        "{SHARED} CREATE TABLE session ({SESSION}); CREATE INDEX session_parent_idx ON session (parent_id);
         CREATE TABLE message (id text PRIMARY KEY, session_id text NOT NULL, data text);
         CREATE TABLE event (id text PRIMARY KEY, aggregate_id text NOT NULL, seq integer NOT NULL, type text NOT NULL, data text NOT NULL);
         CREATE UNIQUE INDEX event_aggregate_seq_idx ON event (aggregate_id, seq);
         CREATE TABLE session_input (id text PRIMARY KEY, session_id text NOT NULL, prompt text NOT NULL, delivery text NOT NULL,
            admitted_seq integer NOT NULL, promoted_seq integer, time_created integer NOT NULL);"
    )
}

/// OpenCode 2.0 preview.
pub fn preview() -> String {
    format!(
        "{SHARED} {KV} CREATE TABLE session ({SESSION}, fork_session_id text, fork_message_id text, fork_seq integer, time_suspended integer); CREATE INDEX session_parent_idx ON session (parent_id);
         CREATE TABLE event (id text PRIMARY KEY, aggregate_id text NOT NULL, seq integer NOT NULL, created integer NOT NULL, type text NOT NULL, data text NOT NULL);
         CREATE UNIQUE INDEX event_aggregate_seq_idx ON event (aggregate_id, seq);
         CREATE TABLE session_pending (id text PRIMARY KEY, session_id text NOT NULL, type text NOT NULL, data text NOT NULL, delivery text,
            admitted_seq integer NOT NULL, time_created integer NOT NULL);
         CREATE UNIQUE INDEX session_pending_session_admitted_seq_idx ON session_pending (session_id, admitted_seq);"
    )
}

/// OpenCode 2.0.x. `inbox` = false: the tree of August, which still had `session_pending`.
pub fn v2(inbox: bool) -> String {
    let queue = if inbox {
        "CREATE TABLE session_inbox (id text PRIMARY KEY, session_id text NOT NULL, type text NOT NULL, payload text NOT NULL, delivery text NOT NULL,
            enqueued_seq integer NOT NULL, time_created integer NOT NULL, UNIQUE (session_id, enqueued_seq));"
    } else {
        "CREATE TABLE session_pending (id text PRIMARY KEY, session_id text NOT NULL, type text NOT NULL, data text NOT NULL, delivery text,
            admitted_seq integer NOT NULL, time_created integer NOT NULL);"
    };
    format!(
        "{KV} {queue} CREATE TABLE session_v2 ({SESSION}, fork_session_id text, fork_boundary text, time_idle integer, time_viewed integer, idle_outcome text,
            time_suspended integer, resume_attempts integer);
         CREATE TABLE worktree (project_id text, directory text, strategy text, time_created integer);
         CREATE TABLE IF NOT EXISTS event (id text PRIMARY KEY, aggregate_id text NOT NULL, seq integer NOT NULL, created integer, type text NOT NULL, data text NOT NULL);
         CREATE TABLE IF NOT EXISTS event_sequence (aggregate_id text PRIMARY KEY, seq integer NOT NULL, owner_id text);
         CREATE TABLE IF NOT EXISTS credential (id text PRIMARY KEY, label text, value text NOT NULL);
         CREATE TABLE IF NOT EXISTS migration (id text PRIMARY KEY, time_completed integer NOT NULL);"
    )
}

/// A moment: 2026-11-01T00:00:00Z.
pub const THEN: i64 = 1_793_491_200_000;

/// The key of a plugin's row, written as the reference says.
pub fn plugin_key(plugin: &str, key: &str) -> String {
    let hex: String = plugin.encode_utf16().map(|unit| format!("{unit:04x}")).collect();
    format!("plugin:{hex}:{key}")
}

/// A connection that makes a store in this journal mode.
pub fn make(path: &Path, schema: &str, mode: &str) -> Connection {
    let conn = Connection::open(path).expect("a database can be made");
    conn.execute_batch(&format!("pragma journal_mode={mode}; pragma synchronous=normal; {schema}")).expect("a schema");
    conn
}

/// A session in `table`.
pub fn session(conn: &Connection, table: &str, id: &str, parent: Option<&str>, directory: &str, more: &[(&str, &str)]) {
    let (names, values): (Vec<&str>, Vec<&str>) = more.iter().copied().unzip();
    let comma = if more.is_empty() { "" } else { ", " };
    conn.execute(
        &format!(
            "insert into {table} (id, project_id, parent_id, slug, directory, title, version, time_created, time_updated{comma}{}) \
             values (?1, 'prj', ?2, 's', ?3, 'a title', '0', {THEN}, {THEN}{comma}{})",
            names.join(", "),
            values.join(", ")
        ),
        (id, parent, directory),
    )
    .expect("a session");
}

/// A row of plugin storage.
pub fn kv(conn: &Connection, key: &str, value: &str) {
    conn.execute("insert into kv values (?1, ?2, ?3, ?3)", (key, value, THEN)).expect("a row");
}

/// A row that waits, in `session_inbox` or `session_pending`.
pub fn waits(conn: &Connection, table: &str, id: &str, session: &str, delivery: &str, seq: i64, payload: &str) {
    let (payload_column, seq_column) = if table == "session_inbox" { ("payload", "enqueued_seq") } else { ("data", "admitted_seq") };
    conn.execute(
        &format!("insert into {table} (id, session_id, type, {payload_column}, delivery, {seq_column}, time_created) values (?1, ?2, 'synthetic', ?3, ?4, ?5, {THEN})"),
        (id, session, payload, delivery, seq),
    )
    .expect("a row");
}

/// A preview store with a little of everything.
pub fn filled(path: &Path, mode: &str) -> Connection {
    let conn = make(path, &preview(), mode);
    for at in 0..20 {
        let parent = (at > 10).then(|| format!("ses_{}", at - 10));
        session(&conn, "session", &format!("ses_{at}"), parent.as_deref(), "/tmp", &[]);
        kv(&conn, &plugin_key("team", &format!("k{at}")), "{\"a\":1}");
        waits(
            &conn,
            "session_pending",
            &format!("msg_{at}"),
            &format!("ses_{}", at % 3),
            if at % 2 == 0 { "queue" } else { "steer" },
            at,
            "{\"text\":\"hello\"}",
        );
        conn.execute("insert into event values (?1, ?2, ?3, ?4, 'session.created.1', '{}')", (format!("evt_{at}"), "ses_1", at, THEN))
            .expect("an event");
    }
    conn
}
