//! `whoseenv schema`.

use schemars::{JsonSchema, Schema, schema_for};

use super::Global;
use crate::diagnose;
use crate::report::{Envelope, Exit, Problem};

/// Print the JSON Schema of a command's output
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
    ("binary-scan", of::<diagnose::binaries::strings::Data>),
    ("binary-ops", of::<diagnose::binaries::operations::Data>),
    ("binary-identify", of::<diagnose::binaries::identity::Data>),
    ("binary-diff", of::<diagnose::binaries::comparison::Data>),
    ("snapshot", of::<diagnose::capture::Data>),
];

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
