//! Rows on their way out: one thread asks SQLite and fills blocks, the others make JSON of them, in order. Memory does not
//! depend on how many rows there are.

use std::sync::mpsc::sync_channel;

use rayon::prelude::*;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, ToSql};

use super::Refusal;

/// A value as SQLite lent it, kept in the block.
#[derive(Clone, Copy, Debug)]
enum Cell {
    Null,
    Int(i64),
    Real(f64),
    Bytes { from: u32, to: u32 },
}

/// Some thousand rows, with their texts in one piece of memory.
#[derive(Debug, Default)]
struct Block {
    arena: Vec<u8>,
    cells: Vec<Cell>,
    columns: usize,
}

/// A row of a block.
#[derive(Clone, Copy, Debug)]
pub struct Row<'b> {
    arena: &'b [u8],
    cells: &'b [Cell],
}

impl Row<'_> {
    /// Whether the row before had another value in the column of the group, which was named when the rows were asked for.
    pub fn begins_group(self) -> bool {
        matches!(self.cells.last(), Some(Cell::Int(1)))
    }
}

impl<'b> Row<'b> {
    /// The bytes of a text or blob; none for anything else.
    pub fn bytes(self, column: usize) -> Option<&'b [u8]> {
        match self.cells.get(column)? {
            Cell::Bytes { from, to } => self.arena.get(*from as usize..*to as usize),
            _ => None,
        }
    }

    /// A number; a real one without its fraction.
    pub fn int(self, column: usize) -> Option<i64> {
        match self.cells.get(column)? {
            Cell::Int(number) => Some(*number),
            Cell::Real(number) => Some(*number as i64),
            _ => None,
        }
    }

    /// A real number.
    pub fn real(self, column: usize) -> Option<f64> {
        match self.cells.get(column)? {
            Cell::Int(number) => Some(*number as f64),
            Cell::Real(number) => Some(*number),
            _ => None,
        }
    }
}

/// Rows of a block, or bytes of it, whichever come first.
const ROWS: usize = 4096;
const BYTES: usize = 2 << 20;
/// Rows that one thread makes JSON of at once.
const HANDFUL: usize = 512;

/// Runs a statement and hands the JSON of its rows, a line each, to `tell`, in order, as it is made. `write` makes the JSON of a
/// row, and may leave it out by writing nothing. `group`: the column whose value is compared with the row before
/// ([`Row::begins_group`]).
///
/// # Errors
/// What SQLite says, or `tell`, whichever is first.
pub fn each_block<E: From<Refusal>>(
    conn: &mut Connection,
    sql: &str,
    parameters: &[&(dyn ToSql + Sync)],
    group: Option<usize>,
    write: impl Fn(Row<'_>, &mut Vec<u8>) + Sync,
    mut tell: impl FnMut(&[u8]) -> Result<(), E>,
) -> Result<(), E> {
    std::thread::scope(|scope| {
        let (full, blocks) = sync_channel::<Block>(2);
        let (used, empty) = sync_channel::<Block>(4);
        let reading = scope.spawn(move || {
            read(conn, sql, parameters, group, |block| {
                // Nobody takes blocks any more: the output is gone.
                full.send(block).map_err(|_| ())?;
                Ok(empty.try_recv().unwrap_or_default())
            })
        });
        let mut told = Ok(());
        while let Ok(mut block) = blocks.recv() {
            let rows: Vec<&[Cell]> = block.cells.chunks_exact(block.columns.max(1)).collect();
            let texts: Vec<Vec<u8>> = rows
                .par_chunks(HANDFUL)
                .map(|rows| {
                    let mut text = Vec::with_capacity(rows.len() * 256);
                    for cells in rows {
                        let before = text.len();
                        write(Row { arena: &block.arena, cells }, &mut text);
                        if text.len() > before {
                            text.push(b'\n');
                        }
                    }
                    text
                })
                .collect();
            told = texts.iter().try_for_each(|text| tell(text));
            if told.is_err() {
                break;
            }
            block.arena.clear();
            block.cells.clear();
            let _ = used.try_send(block);
        }
        drop(blocks);
        let read = reading.join().unwrap_or_else(|_| Err(Refusal::Io("the reader of the store ended".to_owned())));
        told?;
        Ok(read?)
    })
}

/// The first `left` lines of some, which are counted off.
pub fn first_lines<'l>(lines: &'l [u8], left: &mut u64) -> &'l [u8] {
    let mut end = 0;
    for at in memchr::memchr_iter(b'\n', lines) {
        if *left == 0 {
            break;
        }
        *left -= 1;
        end = at + 1;
    }
    &lines[..end]
}

fn read(
    conn: &mut Connection,
    sql: &str,
    parameters: &[&(dyn ToSql + Sync)],
    group: Option<usize>,
    mut full: impl FnMut(Block) -> Result<Block, ()>,
) -> Result<(), Refusal> {
    // A row of a sound store stands in it once: what gives more than there is makes it up, from pages that stand in for one another.
    let size = |name: &str| conn.query_row(&format!("pragma {name}"), [], |row| row.get::<_, i64>(0)).map(i64::unsigned_abs);
    let most = size("page_count")?.saturating_mul(size("page_size")?).saturating_mul(2).saturating_add(1 << 24);
    let mut all = 0u64;
    let mut statement = conn.prepare(sql)?;
    let columns = statement.column_count();
    let parameters: Vec<&dyn ToSql> = parameters.iter().map(|parameter| *parameter as &dyn ToSql).collect();
    let mut rows = statement.query(parameters.as_slice())?;
    let width = columns + usize::from(group.is_some());
    let mut block = Block { columns: width, ..Block::default() };
    let mut count = 0;
    let mut last = None::<Vec<u8>>;
    while let Some(row) = rows.next()? {
        for column in 0..columns {
            let cell = match row.get_ref(column)? {
                ValueRef::Null => Cell::Null,
                ValueRef::Integer(number) => Cell::Int(number),
                ValueRef::Real(number) => Cell::Real(number),
                ValueRef::Text(bytes) | ValueRef::Blob(bytes) => {
                    let from = block.arena.len() as u32;
                    block.arena.extend_from_slice(bytes);
                    Cell::Bytes { from, to: block.arena.len() as u32 }
                }
            };
            block.cells.push(cell);
        }
        if let Some(column) = group {
            let value = row.get_ref(column)?.as_bytes_or_null().ok().flatten().unwrap_or_default();
            let begins = last.as_deref() != Some(value);
            if begins {
                last = Some(value.to_vec());
            }
            block.cells.push(Cell::Int(i64::from(begins)));
        }
        count += 1;
        if count == ROWS || block.arena.len() >= BYTES {
            all += block.arena.len() as u64;
            if all > most {
                return Err(Refusal::Hostile("its rows have more bytes than it has".to_owned()));
            }
            match full(block) {
                Ok(empty) => block = Block { columns: width, ..empty },
                Err(()) => return Ok(()),
            }
            count = 0;
        }
    }
    if count > 0 {
        let _ = full(block);
    }
    Ok(())
}
