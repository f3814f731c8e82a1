//! JSON and ndjson.

use std::io::{self, Write};

use rayon::prelude::*;
use serde::Serialize;
use serde_json::{Value, json};

use super::{Envelope, Problem};

/// One JSON document.
///
/// # Errors
/// Whatever the writer says.
pub fn document<T: Serialize>(envelope: &Envelope<'_, T>, rewrite: Option<&dyn Fn(&mut Value)>, out: &mut dyn Write) -> io::Result<()> {
    match rewrite {
        None => serde_json::to_writer_pretty(&mut *out, envelope)?,
        Some(rewrite) => {
            let mut value = serde_json::to_value(envelope)?;
            rewrite(&mut value);
            serde_json::to_writer_pretty(&mut *out, &value)?;
        }
    }
    writeln!(out)
}

/// One line of ndjson.
///
/// # Errors
/// Whatever the writer says.
pub fn line<T: Serialize>(value: &T, rewrite: Option<&dyn Fn(&mut Value)>, out: &mut dyn Write) -> io::Result<()> {
    match rewrite {
        None => serde_json::to_writer(&mut *out, value)?,
        Some(rewrite) => {
            let mut value = serde_json::to_value(value)?;
            rewrite(&mut value);
            serde_json::to_writer(&mut *out, &value)?;
        }
    }
    writeln!(out)
}

/// Lines of ndjson, a row each.
///
/// # Errors
/// Whatever the writer says.
pub fn lines<T: Serialize + Sync>(rows: &[T], rewrite: Option<&dyn Fn(&mut Value)>, out: &mut dyn Write) -> io::Result<()> {
    if rewrite.is_some() {
        return rows.iter().try_for_each(|row| line(row, rewrite, out));
    }
    // On all cores, some thousand at a time: what is written at once is held in memory at once.
    for rows in rows.chunks(4096) {
        let texts = rows.par_chunks(128).map(|rows| {
            let mut text = Vec::with_capacity(rows.len() * 512);
            rows.iter().try_for_each(|row| line(row, None, &mut text)).map(|()| text)
        });
        for text in texts.collect::<io::Result<Vec<_>>>()? {
            out.write_all(&text)?;
        }
    }
    Ok(())
}

/// The line that ends an ndjson stream early.
///
/// # Errors
/// Whatever the writer says.
pub fn broken_line(problem: &Problem, out: &mut dyn Write) -> io::Result<()> {
    line(&json!({ "error": problem }), None, out)
}
