//! JSON and ndjson.

use std::io::{self, Write};

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

/// The line that ends an ndjson stream early.
///
/// # Errors
/// Whatever the writer says.
pub fn broken_line(problem: &Problem, out: &mut dyn Write) -> io::Result<()> {
    line(&json!({ "error": problem }), None, out)
}
