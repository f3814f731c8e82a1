//! The command line: one file a command, each with its arguments and collect → report → print. No logic.
//!
//! To add a command: a file here with `Args`, `run` and `page`, a row in [`Command`], and a row in
//! [`schema::OUTPUTS`] if it prints JSON.

mod binary;
mod completions;
mod db;
mod diff;
mod doctor;
mod help;
mod man;
mod owner;
mod probe;
mod ps;
mod readback;
mod schema;
mod show;
mod snapshot;
mod start;
mod verify;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand, ValueEnum};

use crate::host::{child, interrupt};
use crate::report::printer::{Colour, complain};
use crate::report::{Exit, Format, Problem};
use crate::store::copy;
use crate::verdict::{Severity, registry};

pub use start::Start;

/// Tells whose environment an AI-agent daemon runs in, where each value came from, and whether what it
/// points to is still alive.
///
/// Without a command: doctor.
#[derive(Debug, Parser)]
#[command(name = "whoseenv", version, propagate_version = false, subcommand_required = false, after_help = help::AFTER)]
pub struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    global: Global,
}

#[derive(Debug, Subcommand)]
enum Command {
    Doctor(doctor::Args),
    Ps(ps::Args),
    Show(show::Args),
    Diff(diff::Args),
    Owner(owner::Args),
    Probe(probe::Args),
    Verify(verify::Args),
    #[command(subcommand)]
    Binary(binary::Binary),
    Db(db::Args),
    Snapshot(snapshot::Args),
    Man(man::Args),
    Completions(completions::Args),
    Schema(schema::Args),
}

/// Options that every command takes.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Options for every command")]
pub struct Global {
    /// Print one JSON document: --format json
    #[arg(long, global = true, conflicts_with = "format")]
    json: bool,
    /// How to print: for a person, as one JSON document, or as one JSON value a line
    #[arg(long, global = true, value_enum, value_name = "FORMAT")]
    format: Option<FormatArg>,
    /// Answer from a snapshot directory instead of this machine
    #[arg(long, global = true, value_name = "DIR")]
    from: Option<PathBuf>,
    /// When to use colour
    #[arg(long, global = true, value_enum, default_value_t, value_name = "WHEN")]
    color: ColourArg,
    /// Print nothing; the exit code is the answer
    #[arg(short, long, global = true)]
    quiet: bool,
    /// Say more: evidence under every line
    #[arg(short, long, global = true)]
    verbose: bool,
    /// Show the values of these variables, secrets included
    #[arg(long, global = true, value_name = "NAME,…", value_delimiter = ',')]
    show: Vec<String>,
    /// Show all values, secrets included
    #[arg(long, global = true)]
    show_all: bool,
    /// Replace addresses, users, hosts and home directories by made-up ones, equal ones by equal ones
    #[arg(long, global = true)]
    anonymize: bool,
    /// Leave out findings with this id
    #[arg(long, global = true, value_name = "ID", value_parser = finding_id)]
    ignore: Vec<String>,
    /// The least severity that makes the exit code 1
    #[arg(long, global = true, value_enum, default_value = "warning", value_name = "SEVERITY")]
    fail_on: SeverityArg,
    /// Open the things that values name (X display with its cookie, agent, Wayland, bus) and see whether they answer
    #[arg(long, global = true)]
    connect: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum FormatArg {
    /// For a person
    Human,
    /// One JSON document
    Json,
    /// One JSON value a line
    Ndjson,
}

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum ColourArg {
    /// On a terminal, unless NO_COLOR is set
    #[default]
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum SeverityArg {
    /// Errors alone
    Error,
    /// Errors and warnings
    Warning,
    /// Anything
    Info,
}

impl Global {
    fn format(&self) -> Format {
        match (self.json, self.format) {
            (true, _) | (_, Some(FormatArg::Json)) => Format::Json,
            (_, Some(FormatArg::Ndjson)) => Format::Ndjson,
            (_, Some(FormatArg::Human) | None) => Format::Human,
        }
    }

    fn colour(&self) -> Colour {
        match self.color {
            ColourArg::Auto => Colour::Auto,
            ColourArg::Always => Colour::Always,
            ColourArg::Never => Colour::Never,
        }
    }

    fn fail_on(&self) -> Severity {
        match self.fail_on {
            SeverityArg::Error => Severity::Error,
            SeverityArg::Warning => Severity::Warning,
            SeverityArg::Info => Severity::Info,
        }
    }
}

/// A typing error in an id must not pass for a finding that is ignored.
fn finding_id(text: &str) -> Result<String, String> {
    if registry::all().iter().any(|kind| kind.id == text) {
        return Ok(text.to_owned());
    }
    Err("no finding has this id; the ids are in the man page whoseenv(1), under FINDINGS".to_owned())
}

/// What narrows a name that fits several processes.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct NarrowArgs {
    /// Only processes of this user (name or uid)
    #[arg(long, value_name = "USER")]
    user: Option<String>,
    /// Only this process
    #[arg(long, value_name = "PID")]
    pid: Option<u32>,
    /// Only processes of this agent
    #[arg(long, value_name = "AGENT")]
    agent: Option<String>,
}

/// The program: arguments in, exit code out.
pub fn main() -> ExitCode {
    if let Some(arguments) = readback::arguments() {
        return readback::run(&arguments);
    }
    end_at_a_panic();
    interrupt::when_insisted(insisted);
    let exit = dispatch();
    interrupt::end();
    ExitCode::from(exit.code())
}

/// A panic says where the bug is, without a backtrace, which helps nobody who runs a tool, and ends the program, on whichever thread
/// it happens: nothing is unwound. What was started ends here; files of ours are what a killed run leaves, and the next one removes.
fn end_at_a_panic() {
    std::panic::set_hook(Box::new(|panic| {
        let place = panic.location().map(ToString::to_string).unwrap_or_default();
        let exit = complain(&Problem::new(Exit::Bug, format!("bug at {place}")).hint("Please report it with the command that you ran."));
        child::end_all();
        std::process::exit(exit.code().into());
    }));
}

/// A person does not wait for the clean-up.
fn insisted(stays: &[String]) {
    let said = Problem::new(Exit::Io, "ended before what was made was removed; what stays:");
    complain(&stays.iter().fold(said, Problem::hint));
}

fn dispatch() -> Exit {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return help::unparsed(&error),
    };
    // What a killed program of ours left goes first, whatever is asked.
    copy::sweep();
    let command = cli.command.unwrap_or_else(|| Command::Doctor(doctor::Args::default()));
    let global = cli.global;
    match command {
        Command::Doctor(args) => doctor::run(args, &global),
        Command::Ps(args) => ps::run(args, &global),
        Command::Show(args) => show::run(args, &global),
        Command::Diff(args) => diff::run(args, &global),
        Command::Owner(args) => owner::run(args, &global),
        Command::Probe(args) => probe::run(args, &global),
        Command::Verify(args) => verify::run(args, &global),
        Command::Binary(which) => binary::run(which, &global),
        Command::Db(args) => db::run(args, &global),
        Command::Snapshot(args) => snapshot::run(args, &global),
        Command::Man(args) => man::run(&args, &global),
        Command::Completions(args) => completions::run(&args, &global),
        Command::Schema(args) => schema::run(&args, &global),
    }
}

/// The command line as data, for help, man pages and completions.
fn command() -> clap::Command {
    Cli::command()
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    /// This test once more, in a program of its own, which panics on a thread as a part of a command does.
    const PANICS: &str = "WHOSEENV_TEST_PANICS";

    #[test]
    fn a_panic_says_where_and_no_more_and_ends_with_70() {
        if std::env::var_os(PANICS).is_some() {
            super::end_at_a_panic();
            let _ = std::thread::spawn(|| panic!("about somebody's value")).join();
            return;
        }
        let mut again = Command::new(std::env::current_exe().unwrap());
        again.args(["--exact", "--nocapture", "cli::tests::a_panic_says_where_and_no_more_and_ends_with_70"]);
        let ran = again.env(PANICS, "1").env("RUST_BACKTRACE", "1").output().unwrap();
        let said = String::from_utf8(ran.stderr).unwrap();
        assert_eq!(ran.status.code(), Some(70), "{said}");
        let (first, rest) = said.split_once('\n').unwrap();
        assert!(first.starts_with("whoseenv: bug at src/cli.rs:"), "{said}");
        assert_eq!(rest, "\n  Please report it with the command that you ran.\n");
    }
}
