//! Plugin storage: the `kv` table of the preview and of 2.x.
//!
//! A plugin's row is called `plugin:<hex>:<key>`; hex is the plugin's id, four lower-case digits for each UTF-16 unit ("ab" is
//! `00610062`). The host's own are `migration.…` and `job.background/<id>`. No key carries a project, a directory or a session unless
//! the plugin put it there, and a row outlives its plugin (2.0.16, 2.0.26).

use rusqlite::Connection;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::armour::CELL;
use super::rows::{Row, each_block};
use super::text::Object;
use super::{Refusal, Tables, shape};
use crate::redact::{FingerprintKey, secret_shape};

/// Whose row it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// A plugin's.
    Plugin,
    /// The host's, about a migration of the store.
    Migration,
    /// The host's, about a background job.
    Job,
    /// Of no known form.
    Other,
}

impl Scope {
    /// The word used in JSON and on the screen.
    pub fn word(self) -> &'static str {
        match self {
            Scope::Plugin => "plugin",
            Scope::Migration => "migration",
            Scope::Job => "job",
            Scope::Other => "other",
        }
    }
}

/// A key, decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key<'k> {
    /// Whose row it is.
    pub scope: Scope,
    /// The plugin's id.
    pub plugin: Option<String>,
    /// What the plugin called it; the whole key where nothing is decoded.
    pub key: &'k [u8],
}

impl<'k> Key<'k> {
    /// Decodes a key.
    pub fn parse(raw: &'k [u8]) -> Key<'k> {
        if let Some(rest) = raw.strip_prefix(b"plugin:")
            && let Some(colon) = memchr::memchr(b':', rest)
            && let Some(plugin) = plugin_id(&rest[..colon])
        {
            return Key { scope: Scope::Plugin, plugin: Some(plugin), key: &rest[colon + 1..] };
        }
        let scope = match raw {
            _ if raw.starts_with(b"migration.") => Scope::Migration,
            _ if raw.starts_with(b"job.background/") => Scope::Job,
            _ => Scope::Other,
        };
        Key { scope, plugin: None, key: raw }
    }

    /// Whether the plugin put a session, a project or an absolute path into the key, so that two windows do not overwrite each other. A
    /// slash alone divides a name: `settings/theme` is one for all.
    pub fn is_scoped(&self) -> bool {
        let word = |byte: &u8| byte.is_ascii_alphanumeric() || b"._-~/".contains(byte);
        let before = |at: usize| at.checked_sub(1).and_then(|at| self.key.get(at)).is_some_and(word);
        let after = |at: usize| self.key.get(at).is_some_and(|byte| byte.is_ascii_alphanumeric() || b"._-~".contains(byte));
        let path = || memchr::memchr_iter(b'/', self.key).any(|at| !before(at) && after(at + 1));
        // A project's id is the hash of its repository's first commit (1.18.34).
        let hash =
            || self.key.split(|byte| !byte.is_ascii_alphanumeric()).any(|word| word.len() == 40 && word.iter().all(u8::is_ascii_hexdigit));
        [&b"ses_"[..], b"prj_", b"wrk_"].iter().any(|mark| memchr::memmem::find(self.key, mark).is_some()) || path() || hash()
    }
}

/// The id that hex digits stand for.
pub fn plugin_id(hex: &[u8]) -> Option<String> {
    if hex.is_empty() || !hex.len().is_multiple_of(4) || hex.len() > 4096 {
        return None;
    }
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(u16::from(byte - b'0')),
        b'a'..=b'f' => Some(u16::from(byte - b'a') + 10),
        _ => None,
    };
    let unit = |four: &[u8]| four.iter().try_fold(0u16, |unit, &byte| Some(unit << 4 | digit(byte)?));
    // Once for each of a million rows: nothing is kept in between.
    let sound = std::cell::Cell::new(true);
    let units = hex.chunks_exact(4).map(|four| {
        unit(four).unwrap_or_else(|| {
            sound.set(false);
            0
        })
    });
    let plugin = char::decode_utf16(units).collect::<Result<String, _>>().ok();
    plugin.filter(|_| sound.get())
}

/// The key under which the host keeps a plugin's value.
pub fn raw_key(plugin: &str, key: &str) -> String {
    let hex: String = plugin.encode_utf16().map(|unit| format!("{unit:04x}")).collect();
    format!("plugin:{hex}:{key}")
}

/// The form of a value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Shape {
    /// `object`, `array`, `string`, `number`, `boolean`, `null`, or `text` for what is no JSON.
    pub r#type: String,
    /// Members of an object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub members: Option<u64>,
}

/// A row of the table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Entry {
    /// The key as the host keeps it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub raw_key: Option<String>,
    /// The same in base64, where it is no UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub raw_key_b64: Option<String>,
    /// Whose row it is.
    pub scope: Scope,
    /// The plugin's id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plugin: Option<String>,
    /// What the plugin called it; the whole key where nothing is decoded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// The same in base64, where it is no UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key_b64: Option<String>,
    /// Whether the plugin is still configured: `yes`, `no`, `unknown`; absent for rows of no plugin.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub configured: Option<String>,
    /// Bytes of the value.
    pub bytes: u64,
    /// Its form; absent for a value over 16 MiB, which is not read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shape: Option<Shape>,
    /// Its keyed fingerprint; absent likewise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fingerprint: Option<String>,
    /// The value itself, where it was asked for (`--value`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// The same in base64, where it is no UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value_b64: Option<String>,
    /// When the row was made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_created: Option<String>,
    /// When it was last written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_updated: Option<String>,
    /// How long ago that was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub age_ms: Option<i64>,
}

/// What decides how rows are told.
pub struct Telling<'t> {
    /// Key of the fingerprints.
    pub key: &'t FingerprintKey,
    /// The moment from which ages count, milliseconds since the epoch.
    pub now_ms: i64,
    /// Whether a plugin is still configured, in a word.
    pub configured: &'t (dyn Fn(&str) -> &'static str + Sync),
}

fn sql(one: bool, limit: Option<u64>) -> String {
    let limit = limit.map(|limit| format!(" limit {limit}")).unwrap_or_default();
    let one = if one { " where key = ?1" } else { "" };
    format!(
        "select key, octet_length(value), case when octet_length(value) <= {CELL} then value end, time_created, time_updated \
         from kv{one} order by key{limit}"
    )
}

/// Hands the rows over as lines of JSON, in order of the key; `one`: that of this key alone, with its value.
///
/// # Errors
/// When there is no such table, or it cannot be read.
pub fn each<E: From<Refusal>>(
    conn: &mut Connection,
    tables: &Tables,
    telling: &Telling<'_>,
    one: Option<&str>,
    limit: Option<u64>,
    tell: impl FnMut(&[u8]) -> Result<(), E>,
) -> Result<(), E> {
    tables.need(&["kv"], "table kv: its plugins keep nothing there")?;
    let parameters: Vec<&(dyn rusqlite::ToSql + Sync)> = one.iter().map(|key| key as &(dyn rusqlite::ToSql + Sync)).collect();
    each_block(conn, &sql(one.is_some(), limit), &parameters, None, |row, out| write(row, telling, one.is_some(), out), tell)
}

fn write(row: Row<'_>, telling: &Telling<'_>, with_value: bool, out: &mut Vec<u8>) {
    let raw = row.bytes(0).unwrap_or_default();
    let key = Key::parse(raw);
    let mut object = Object::begin(out);
    match &key.plugin {
        // In hexadecimal it would still be there.
        Some(plugin) if secret_shape(plugin.as_bytes()) => object.bytes("raw_key", plugin.as_bytes()),
        _ => object.bytes("raw_key", raw),
    }
    object.word("scope", key.scope.word());
    if let Some(plugin) = &key.plugin {
        object.bytes("plugin", plugin.as_bytes());
    }
    object.bytes("key", key.key);
    if let Some(plugin) = &key.plugin {
        object.word("configured", (telling.configured)(plugin));
    }
    object.number("bytes", row.int(1).unwrap_or(0));
    if let Some(value) = row.bytes(2) {
        let kind = shape::kind(value);
        let mut form = object.object("shape");
        form.word("type", kind.word());
        if kind == shape::Type::Object {
            let mut members = 0;
            shape::members(value, |_, _| members += 1);
            form.number("members", members);
        }
        form.end();
        object.ascii_word("fingerprint", &telling.key.digits(value));
        if with_value {
            object.content("value", value);
        }
    }
    let times = [("time_created", row.int(3)), ("time_updated", row.int(4))];
    for (name, time) in times {
        if let Some(time) = time {
            object.time(name, time);
        }
    }
    if let Some(time) = row.int(4) {
        object.number("age_ms", telling.now_ms.saturating_sub(time));
    }
    object.end();
}

/// The value of one row.
///
/// # Errors
/// When there is no such row (none), or the table cannot be read.
pub fn value(conn: &Connection, tables: &Tables, raw_key: &str) -> Result<Option<Vec<u8>>, Refusal> {
    tables.need(&["kv"], "table kv: its plugins keep nothing there")?;
    let mut statement = conn.prepare("select value from kv where key = ?1")?;
    let mut rows = statement.query([raw_key])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    Ok(Some(row.get_ref(0)?.as_bytes_or_null().ok().flatten().unwrap_or_default().to_vec()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn keys_as_the_hosts_write_them() {
        let key = Key::parse(b"plugin:00610062:notes:a");
        assert_eq!((key.scope, key.plugin.as_deref(), key.key), (Scope::Plugin, Some("ab"), &b"notes:a"[..]));
        assert!(!key.is_scoped() && Key::parse(b"plugin:00610062:ses_1/x").is_scoped());
        assert_eq!(Key::parse(b"migration.v1-v2").scope, Scope::Migration);
        assert_eq!(Key::parse(b"job.background/job_1").scope, Scope::Job);
        for odd in ["plugin:0061006:x", "plugin:006A:x", "plugin::x", "plugin:0061", "plugin:d800:x", ""] {
            assert_eq!(Key::parse(odd.as_bytes()), Key { scope: Scope::Other, plugin: None, key: odd.as_bytes() }, "{odd}");
        }
    }

    proptest! {
        #[test]
        fn any_plugin_id_comes_back(plugin in "\\PC{1,20}", key in "\\PC{0,20}") {
            let raw = raw_key(&plugin, &key);
            let parsed = Key::parse(raw.as_bytes());
            prop_assert_eq!((parsed.plugin.as_deref(), parsed.key), (Some(plugin.as_str()), key.as_bytes()));
        }

        #[test]
        fn no_bytes_panic(raw in proptest::collection::vec(any::<u8>(), 0..80)) {
            let _ = Key::parse(&raw).is_scoped();
            let _ = Key::parse(&[b"plugin:", &raw[..]].concat());
        }
    }
}
