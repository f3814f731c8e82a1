//! A store as a busy host would have it after years.

use std::path::PathBuf;

use rusqlite::Connection;
use serde::Deserialize;

/// How many rows of each kind.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Load {
    pub kv: u64,
    pub sessions: u64,
    pub inbox: u64,
    pub events: u64,
}

/// The store, made once; another load makes another file.
pub fn made(load: &Load) -> Result<PathBuf, String> {
    let dir = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/target/bench-store"));
    let path = dir.join(format!("{}-{}-{}-{}.db", load.kv, load.sessions, load.inbox, load.events));
    if path.exists() {
        return Ok(path);
    }
    std::fs::create_dir_all(&dir).map_err(|error| format!("{}: {error}", dir.display()))?;
    let fresh = dir.join("fresh.db");
    let _ = std::fs::remove_file(&fresh);
    println!("making {}, once", path.display());
    make(&fresh, load).map_err(|error| error.to_string())?;
    std::fs::rename(&fresh, &path).map_err(|error| error.to_string())?;
    Ok(path)
}

fn make(path: &std::path::Path, load: &Load) -> rusqlite::Result<()> {
    let conn = Connection::open(path)?;
    let count = |n: u64| format!("with recursive n(i) as (select 0 union all select i + 1 from n where i + 1 < {n})");
    conn.execute_batch(&format!(
        "pragma journal_mode=off; pragma synchronous=off; pragma cache_size=-200000;
         create table session_v2 (id text primary key, project_id text not null, workspace_id text, parent_id text, slug text not null,
            directory text not null, path text, title text not null, version text not null, summary_diffs text, metadata text, cost real,
            tokens_input integer, agent text, model text, time_created integer not null, time_updated integer not null, time_idle integer,
            time_viewed integer, idle_outcome text, time_compacting integer, time_archived integer, time_suspended integer, resume_attempts integer);
         create index session_parent_idx on session_v2 (parent_id);
         create table session_inbox (id text primary key, session_id text not null, type text not null, payload text not null, delivery text not null,
            enqueued_seq integer not null, time_created integer not null, unique (session_id, enqueued_seq));
         create table kv (key text primary key, value text not null, time_created integer not null, time_updated integer not null);
         create table event_sequence (aggregate_id text primary key, seq integer not null, owner_id text);
         create table event (id text primary key, aggregate_id text not null, seq integer not null, created integer, type text not null, data text not null);
         create unique index event_aggregate_seq_idx on event (aggregate_id, seq);
         begin;
         {} insert into session_v2 select printf('ses_%026d', i), 'prj_' || (i % 50), null, iif(i % 4 = 0, null, printf('ses_%026d', i / 4 * 4)), 'slug-' || i,
            '/home/user/projects/p' || (i % 300), 'p', 'A title of session ' || i, '2.0.26', null, null, 0.5, 1000, 'build',
            '{{\"providerID\":\"anthropic\",\"modelID\":\"model\"}}', 1793491200000 + i * 977, 1793491200000 + (i * 7919 % 1000003) * 100, 1793491200000 + i,
            null, 'succeeded', null, null, iif(i % 1000 = 0, 1793491200000, null), 0 from n;
         {} insert into session_inbox select printf('msg_%026d', i), printf('ses_%026d', i % 5000), iif(i % 3, 'synthetic', 'user'),
            '{{\"text\":\"' || hex(randomblob(60)) || '\",\"files\":[],\"agents\":[]}}', iif(i % 5, 'queue', 'steer'), i, 1793491200000 + i from n;
         {} insert into kv select 'plugin:007400650061006d:ses_' || printf('%08d', i) || '/state', '{{\"step\":' || i || ',\"note\":\"' || hex(randomblob(60)) || '\",\"done\":false}}',
            1793491200000 + i, 1793491200000 + i from n;
         {} insert into event select printf('evt_%022d', i), printf('ses_%026d', i / 25), i % 25, 1793491200000 + i, 'session.message.part.updated.1',
            '{{\"part\":\"' || hex(randomblob(20)) || '\"}}' from n;
         insert into event_sequence select aggregate_id, max(seq), null from event group by aggregate_id;
         commit; pragma journal_mode=wal;",
        count(load.sessions),
        count(load.inbox),
        count(load.kv),
        count(load.events)
    ))
}
