//! What a store is made of: tables with their columns, rows and bytes, beside what its generation has.

use std::collections::BTreeMap;

use rusqlite::Connection;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::armour::SECRETS;
use super::text::told_text;
use super::{Generation, Refusal, Tables};

/// A table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Table {
    /// Its name.
    pub name: String,
    /// Its columns, in order.
    pub columns: Vec<String>,
    /// Its rows; absent where they could not be counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rows: Option<u64>,
    /// Bytes of its pages and of its indices'; absent with `--quick`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// Columns that hold secrets: never read.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub secret_columns: Vec<String>,
    /// Columns that its generation does not have.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub added_columns: Vec<String>,
    /// Columns that its generation has and it has not.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub missing_columns: Vec<String>,
}

/// What a store is made of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Schema {
    /// Which host wrote it.
    pub generation: Generation,
    /// The generation that it is compared with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compared_with: Option<String>,
    /// Its tables, by name.
    pub tables: Vec<Table>,
    /// Tables that its generation does not have.
    pub added_tables: Vec<String>,
    /// Tables that its generation has and it has not.
    pub missing_tables: Vec<String>,
    /// Views and virtual tables: not read.
    pub not_read: Vec<String>,
}

/// More tables than this are no host's.
const MOST: usize = 1000;

/// The tables and columns of each generation: `generation table column…` a line. 1.18.34 and next-16350 as the programs make them,
/// 2.0.x from its sources, ZeroClaw 0.8.7 as the program makes them.
const KNOWN: &str = include_str!("known.txt");

/// Table → columns of a generation; none where it is not known.
pub fn known(generation: Generation) -> Option<BTreeMap<&'static str, Vec<&'static str>>> {
    let lines = KNOWN.lines().filter(|line| !line.starts_with('#')).filter_map(|line| {
        let mut words = line.split_ascii_whitespace();
        (words.next()? == generation.word()).then(|| Some((words.next()?, words.collect())))?
    });
    let tables: BTreeMap<_, _> = lines.collect();
    (!tables.is_empty()).then_some(tables)
}

/// Reads it. `sizes`: bytes too, for which every page of the store is read.
///
/// # Errors
/// When it cannot be read, or has more tables than any host's.
pub fn read(conn: &Connection, tables: &Tables, sizes: bool, doing: &dyn Fn(&str)) -> Result<Schema, Refusal> {
    let generation = tables.generation();
    if tables.count > MOST as u64 {
        return Err(Refusal::Hostile(format!("it has {} tables", tables.count)));
    }
    let known = known(generation);
    let mut schema = Schema {
        generation,
        compared_with: known.as_ref().map(|_| generation.name().to_owned()),
        tables: Vec::new(),
        added_tables: Vec::new(),
        missing_tables: Vec::new(),
        not_read: Vec::new(),
    };
    let bytes = if sizes { by_table(conn)? } else { BTreeMap::new() };
    let mut list = conn.prepare("select name, type, rootpage from sqlite_schema where type in ('table','view') order by name")?;
    let mut rows = list.query([])?;
    while let Some(row) = rows.next()? {
        let name: String = String::from_utf8_lossy(row.get_ref(0)?.as_bytes_or_null().ok().flatten().unwrap_or_default()).into_owned();
        let real =
            row.get::<_, String>(1).is_ok_and(|kind| kind == "table") && row.get::<_, Option<i64>>(2).ok().flatten().unwrap_or(0) > 0;
        if !real {
            schema.not_read.push(told_text(name.as_bytes()));
        } else if !name.starts_with("sqlite_") {
            doing(&told_text(name.as_bytes()));
            schema.tables.push(table(conn, name, &bytes, known.as_ref())?);
        }
    }
    // Of 2.0.x the tables are not all known: only the columns of those that are can be compared.
    if let Some(known) = known.filter(|_| generation != Generation::V2) {
        let has = |name: &str| schema.tables.iter().any(|table| table.name == name);
        schema.missing_tables = known.keys().filter(|name| !has(name)).map(|name| (*name).to_owned()).collect();
        schema.added_tables =
            schema.tables.iter().filter(|table| !known.contains_key(table.name.as_str())).map(|table| table.name.clone()).collect();
    }
    // Compared as they are, told as names of the host's are.
    let told = |names: &mut Vec<String>| names.iter_mut().for_each(|name| *name = told_text(name.as_bytes()));
    told(&mut schema.added_tables);
    for table in &mut schema.tables {
        table.name = told_text(table.name.as_bytes());
        told(&mut table.columns);
        told(&mut table.added_columns);
    }
    Ok(schema)
}

/// Rows of a table, whose name is quoted where it has to be. `count(*)` would count them in one step, which nothing can end.
///
/// # Errors
/// When they cannot be read.
pub fn count(conn: &Connection, table: &str) -> Result<u64, Refusal> {
    Ok(conn.query_row(&format!("select coalesce(sum(1), 0) from {table}"), [], |row| row.get::<_, i64>(0))?.unsigned_abs())
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

fn table(
    conn: &Connection,
    name: String,
    bytes: &BTreeMap<String, u64>,
    known: Option<&BTreeMap<&str, Vec<&str>>>,
) -> Result<Table, Refusal> {
    let mut info = conn.prepare(&format!("pragma table_info({})", quoted(&name)))?;
    let columns: Vec<String> = info.query_map([], |row| row.get(1))?.collect::<Result<_, _>>()?;
    let rows = count(conn, &quoted(&name));
    let rows = match rows {
        Ok(rows) => Some(rows),
        // One table whose own schema forbids it is no reason to be silent about the others.
        Err(Refusal::Hostile(_)) => None,
        Err(error) => return Err(error),
    };
    let secret = |column: &&String| SECRETS.iter().any(|(t, c)| name.eq_ignore_ascii_case(t) && column.eq_ignore_ascii_case(c));
    let (mut added, mut missing) = (Vec::new(), Vec::new());
    if let Some(expected) = known.and_then(|known| known.get(name.as_str())) {
        added = columns.iter().filter(|column| !expected.contains(&column.as_str())).cloned().collect();
        missing = expected.iter().filter(|column| !columns.iter().any(|own| own == *column)).map(|column| (*column).to_owned()).collect();
    }
    Ok(Table {
        secret_columns: columns.iter().filter(secret).cloned().collect(),
        rows,
        bytes: bytes.get(&name).copied(),
        added_columns: added,
        missing_columns: missing,
        columns,
        name,
    })
}

/// Bytes of each table, its indices counted with it.
///
/// # Errors
/// When the pages cannot be read.
pub fn by_table(conn: &Connection) -> Result<BTreeMap<String, u64>, Refusal> {
    let mut owner = BTreeMap::new();
    let mut list = conn.prepare("select name, tbl_name from sqlite_schema where rootpage > 0")?;
    let mut rows = list.query([])?;
    while let Some(row) = rows.next()? {
        if let (Ok(name), Ok(table)) = (row.get::<_, String>(0), row.get::<_, String>(1)) {
            owner.insert(name, table);
        }
    }
    let mut bytes = BTreeMap::new();
    // Page by page: `aggregate = 1` would walk a whole tree in one step, which nothing can end.
    let mut pages = conn.prepare("select name, pgsize from dbstat")?;
    let mut rows = pages.query([])?;
    while let Some(row) = rows.next()? {
        let (name, size) = (row.get::<_, String>(0)?, row.get::<_, i64>(1)?.unsigned_abs());
        *bytes.entry(owner.get(&name).cloned().unwrap_or(name)).or_default() += size;
    }
    Ok(bytes)
}
