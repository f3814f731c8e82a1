//! `whoseenv schema`.

use schemars::{JsonSchema, Schema, schema_for};

use super::Global;
use crate::diagnose;
use crate::report::{Envelope, Exit, Problem};

/// Print the JSON Schema of a command's output
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The command, with its subcommand: doctor, db info
    #[arg(value_name = "COMMAND", required = true, num_args = 1..=2)]
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
    ("db.info", of::<diagnose::db::info::Data>),
    ("db.sessions", of::<diagnose::db::rows::Sessions>),
    ("db.inbox", of::<diagnose::db::rows::Inbox>),
    ("db.kv", of::<diagnose::db::rows::Kv>),
    ("db.events", of::<diagnose::db::look::Events>),
    ("db.schema", of::<diagnose::db::look::Made>),
    ("db.audit", of::<diagnose::db::audit::Data>),
    ("snapshot", of::<diagnose::capture::Data>),
];

fn of<T: JsonSchema + 'static>() -> Schema {
    schema_for!(Envelope<'static, T>)
}

pub fn run(args: &Args, global: &Global) -> Exit {
    let printer = super::start::printer(global);
    let command = args.command.join(".");
    match OUTPUTS.iter().find(|(name, _)| *name == command) {
        Some((name, make)) => {
            let mut schema = make();
            schema.insert("title".to_owned(), format!("whoseenv.{name}/1").into());
            let text = serde_json::to_string_pretty(&schema).unwrap_or_default() + "\n";
            printer.text(text.as_bytes())
        }
        None => {
            let names: Vec<_> = OUTPUTS.iter().map(|(name, _)| *name).collect();
            let problem = Problem::new(Exit::Usage, format!("no schema for {command:?}")).hint(format!("One of: {}", names.join(", ")));
            printer.problem("schema", None, &problem)
        }
    }
}
