//! JSON and ndjson.

use std::io::{self, Write};

use rayon::prelude::*;
use serde::Serialize;
use serde_json::Value;
use serde_json::ser::{CompactFormatter, Formatter, PrettyFormatter, Serializer};

use crate::redact::terminal::hides;

use super::Envelope;

/// Writes characters that a terminal would act on, or not show, as escapes, which mean the same in JSON: documents
/// are read on terminals too.
struct Visible<F>(F);

macro_rules! as_inside {
    ($($method:ident($($argument:ident: $type:ty),*);)*) => {
        $(fn $method<W: ?Sized + Write>(&mut self, writer: &mut W $(, $argument: $type)*) -> io::Result<()> {
            self.0.$method(writer $(, $argument)*)
        })*
    };
}

impl<F: Formatter> Formatter for Visible<F> {
    as_inside! {
        begin_array();
        end_array();
        begin_array_value(first: bool);
        end_array_value();
        begin_object();
        end_object();
        begin_object_key(first: bool);
        begin_object_value();
        end_object_value();
    }

    fn write_string_fragment<W: ?Sized + Write>(&mut self, writer: &mut W, fragment: &str) -> io::Result<()> {
        let shown = |char: char| !(char == '\x7f' || !char.is_ascii() && hides(char));
        if fragment.is_ascii() && !fragment.contains('\x7f') {
            return writer.write_all(fragment.as_bytes());
        }
        let mut rest = fragment;
        while let Some(at) = rest.find(|char| !shown(char)) {
            writer.write_all(&rest.as_bytes()[..at])?;
            let hidden = rest[at..].chars().next().unwrap_or_default();
            for unit in hidden.encode_utf16(&mut [0; 2]) {
                write!(writer, "\\u{unit:04x}")?;
            }
            rest = &rest[at + hidden.len_utf8()..];
        }
        writer.write_all(rest.as_bytes())
    }
}

fn pretty<T: Serialize>(value: &T, out: &mut dyn Write) -> io::Result<()> {
    Ok(value.serialize(&mut Serializer::with_formatter(out, Visible(PrettyFormatter::new())))?)
}

fn compact<T: Serialize>(value: &T, out: &mut dyn Write) -> io::Result<()> {
    Ok(value.serialize(&mut Serializer::with_formatter(out, Visible(CompactFormatter)))?)
}

/// One JSON document.
///
/// # Errors
/// Whatever the writer says.
pub fn document<T: Serialize>(envelope: &Envelope<'_, T>, rewrite: Option<&dyn Fn(&mut Value)>, out: &mut dyn Write) -> io::Result<()> {
    match rewrite {
        None => pretty(envelope, out)?,
        Some(rewrite) => {
            let mut value = serde_json::to_value(envelope)?;
            rewrite(&mut value);
            pretty(&value, out)?;
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
        None => compact(value, out)?,
        Some(rewrite) => {
            let mut value = serde_json::to_value(value)?;
            rewrite(&mut value);
            compact(&value, out)?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_would_act_on_is_escaped_and_means_the_same() {
        let text = "a\u{202e}b\u{9b}31m\u{7f}\u{e0041}\x1b Grüße 世界";
        let mut out = Vec::new();
        line(&text, None, &mut out).unwrap();
        let written = String::from_utf8(out).unwrap();
        assert_eq!(written, "\"a\\u202eb\\u009b31m\\u007f\\udb40\\udc41\\u001b Grüße 世界\"\n");
        assert_eq!(serde_json::from_str::<String>(&written).unwrap(), text);
    }
}
