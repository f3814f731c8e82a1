//! ndjson: an answer line by line.
//!
//! | line | what it is |
//! |---|---|
//! | first | the envelope; `data` is the answer without its rows, and is left out where nothing else is in it |
//! | one for each row | an item of the field of `data` that [`Rows::FIELD`] names; where it names none, the one row is `data` whole |
//! | last | the envelope without host and privilege, with `status`, `findings` and `notes`; after a failure in mid-stream with `error` |
//!
//! A command that fails before its first row prints the envelope with `error`, one line.

use serde::Serialize;
use serde_json::{Map, Value};

/// An answer that ndjson prints row by row.
pub trait Rows: Serialize + Sized {
    /// A row.
    type Row: Serialize + Sync;
    /// The field of the answer whose items the rows are; none where the whole answer is the one row.
    const FIELD: Option<&'static str>;
    /// The answer without its rows, where anything else is in it, and the rows.
    fn split(self) -> (Option<Self>, Vec<Self::Row>);

    /// What stands in the first line's `data`, and the rows.
    fn head_and_rows(self) -> (Option<Value>, Vec<Self::Row>) {
        let (rest, rows) = self.split();
        let without = |mut fields: Map<String, Value>| {
            Self::FIELD.map(|field| fields.shift_remove(field));
            (!fields.is_empty()).then_some(Value::Object(fields))
        };
        let head = rest.and_then(|rest| match serde_json::to_value(rest) {
            Ok(Value::Object(fields)) => without(fields),
            _ => None,
        });
        (head, rows)
    }
}
