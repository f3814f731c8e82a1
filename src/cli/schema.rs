//! `whoseenv schema`.

use schemars::{JsonSchema, Schema, schema_for};

use super::Global;
use crate::diagnose;
use crate::report::{Envelope, Exit, Problem, Rows};

/// Print the JSON Schema of a command's output
///
/// Of the output under --json; "usage" is that of arguments that do not parse. The schema itself is printed as it is, whatever
/// --format says.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The command, such as doctor, or binary scan
    #[arg(value_name = "COMMAND", required = true)]
    command: Vec<String>,
}

type Maker = fn() -> Schema;

/// Every command that prints JSON, with the type of its answer.
pub const OUTPUTS: &[(&str, Maker)] = &[
    ("doctor", of::<diagnose::doctor::Data>),
    ("ps", of::<diagnose::roster::Data>),
    ("show", of::<diagnose::portrait::Data>),
    ("diff", of::<diagnose::contrast::Data>),
    ("owner", of::<diagnose::ownership::Data>),
    ("probe", of::<crate::probe::Data>),
    ("probe-recipes", of::<crate::probe::exec::recipe::Recipes>),
    ("verify", of::<diagnose::verify::Data>),
    ("binary-scan", of::<diagnose::binaries::strings::Data>),
    ("binary-ops", of::<diagnose::binaries::operations::Data>),
    ("binary-identify", of::<diagnose::binaries::identity::Data>),
    ("binary-diff", of::<diagnose::binaries::comparison::Data>),
    ("db-info", of::<diagnose::db::info::Data>),
    ("db-sessions", of::<diagnose::db::rows::Sessions>),
    ("db-inbox", of::<diagnose::db::rows::Inbox>),
    ("db-kv", of::<diagnose::db::rows::Kv>),
    ("db-events", of::<diagnose::db::look::Events>),
    ("db-schema", of::<diagnose::db::look::Made>),
    ("db-audit", of::<diagnose::db::audit::Data>),
    ("snapshot", of::<diagnose::capture::Data>),
];

/// What prints no answer as JSON, and its errors all the same: arguments that do not parse, and commands whose answer is text by
/// nature (pages, a script, a schema).
pub const ERRORS: [&str; 4] = ["usage", "man", "completions", "schema"];

/// What a line of ndjson between the first and the last is: for every command that prints row by row, the field of `data` whose
/// items the rows are (none: the row is `data` whole), and what a row is.
pub const ROWS: &[(&str, Option<&str>, &str)] = &[
    ("doctor", <diagnose::doctor::Data as Rows>::FIELD, "a daemon, with its variables"),
    ("ps", <diagnose::roster::Data as Rows>::FIELD, "a process"),
    ("show", <diagnose::portrait::Data as Rows>::FIELD, "an entry of the environment block"),
    ("diff", <diagnose::contrast::Data as Rows>::FIELD, "a variable"),
    ("owner", <diagnose::ownership::Data as Rows>::FIELD, "the answer"),
    ("probe", <crate::probe::Data as Rows>::FIELD, "a claim"),
    ("probe-recipes", <crate::probe::exec::recipe::Recipes as Rows>::FIELD, "a recipe"),
    ("verify", <diagnose::verify::Data as Rows>::FIELD, "a line of evidence"),
    ("binary-scan", <diagnose::binaries::strings::Data as Rows>::FIELD, "a string in one encoding"),
    ("binary-ops", <diagnose::binaries::operations::Data as Rows>::FIELD, "an operation"),
    ("binary-identify", <diagnose::binaries::identity::Data as Rows>::FIELD, "a feature"),
    ("binary-diff", <diagnose::binaries::comparison::Data as Rows>::FIELD, "the answer"),
    ("db-info", <diagnose::db::info::Data as Rows>::FIELD, "a store"),
    ("db-sessions", <diagnose::db::rows::Sessions as Rows>::FIELD, "a session"),
    ("db-inbox", <diagnose::db::rows::Inbox as Rows>::FIELD, "a row of the queue"),
    ("db-kv", <diagnose::db::rows::Kv as Rows>::FIELD, "a row of the table"),
    ("db-events", <diagnose::db::look::Events as Rows>::FIELD, "the answer"),
    ("db-schema", <diagnose::db::look::Made as Rows>::FIELD, "the answer"),
    ("db-audit", <diagnose::db::audit::Data as Rows>::FIELD, "the answer"),
    ("snapshot", <diagnose::capture::Data as Rows>::FIELD, "the answer"),
];

/// Of a command's row in [`ROWS`]: as a sentence.
pub fn rows_in_words(field: Option<&str>, row: &str) -> String {
    match field {
        Some(field) => format!("{row}: an item of data.{field}, which the first line's data has not"),
        None => format!("{row}: data as one line"),
    }
}

fn of<T: JsonSchema + 'static>() -> Schema {
    schema_for!(Envelope<'static, T>)
}

pub fn run(args: &Args, global: &Global) -> Exit {
    let printer = super::start::printer(global);
    let command = args.command.join("-");
    match OUTPUTS.iter().find(|(name, _)| *name == command) {
        Some((name, make)) => {
            let mut schema = make();
            schema.insert("title".to_owned(), format!("whoseenv.{name}/1").into());
            if let Some((_, field, row)) = ROWS.iter().find(|(command, ..)| command == name) {
                let words = rows_in_words(*field, row);
                let text = format!(
                    "The document of --json. With --format ndjson the first and the last line have this form; each line in between is {words}."
                );
                schema.insert("description".to_owned(), text.into());
            }
            let text = serde_json::to_string_pretty(&schema).unwrap_or_default() + "\n";
            printer.text(text.as_bytes())
        }
        None if let Some(name) = ERRORS.iter().find(|name| **name == command) => {
            let mut schema = of::<()>();
            schema.insert("title".to_owned(), format!("whoseenv.{name}/1").into());
            let text =
                "The document of an error under --json, and its one line under --format ndjson. There is no other: `data` is absent.";
            schema.insert("description".to_owned(), text.into());
            let text = serde_json::to_string_pretty(&schema).unwrap_or_default() + "\n";
            printer.text(text.as_bytes())
        }
        None => {
            let names: Vec<_> = OUTPUTS.iter().map(|(name, _)| *name).chain(ERRORS).collect();
            let problem = Problem::new(Exit::Usage, format!("no schema for {command:?}")).hint(format!("One of: {}", names.join(", ")));
            printer.problem("schema", None, &problem)
        }
    }
}
