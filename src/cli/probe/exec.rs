//! `whoseenv probe exec`.

use std::path::PathBuf;
use std::time::Duration;

use super::super::start::user_file;
use super::super::{Global, Start};
use crate::diagnose::probing;
use crate::host::files;
use crate::probe::exec::{self, recipe};
use crate::report::{Exit, Page, Problem, Progress, Report, Style, Text};

/// Any host that a few lines describe: how to start it, inject, make it run a command, and what to expect
///
/// A recipe is a table of TOML: one of those that come with the program (list them with --list), of
/// $XDG_CONFIG_HOME/whoseenv/probes.toml, of --file, or made of the options --set, --absent and --only around a
/// command. In its commands {command} is what the host's shell must run; {nonce}, {canary}, {dir}, {name}, {port}, {user}
/// and {uid} are filled in. SENDS: what the recipe says. CREATES: a private directory below the directory for temporary
/// files, and what the recipe's commands make. REMOVED: the commands under stop are run, what still runs is ended, the
/// directory removed. Every command has a fixed environment, and nothing of yours. Your commands, addresses and bodies
/// are shown by the rules that show has for arguments: what may be a secret is masked, also in what they print.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The recipe, by its id
    #[arg(value_name = "RECIPE", required_unless_present_any = ["list", "run"])]
    recipe: Option<String>,
    /// Print the recipes, and run none
    #[arg(long)]
    list: bool,
    /// Recipes of this file, on top of the others
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Without a recipe: the host's environment, which its command must have
    #[arg(long, value_name = "NAME=VALUE", value_parser = assignment, conflicts_with = "recipe")]
    set: Vec<(String, String)>,
    /// Without a recipe: a canary of this name is in the host's environment, and its command must not have it
    #[arg(long, value_name = "NAME", conflicts_with = "recipe")]
    absent: Vec<String>,
    /// Without a recipe: its command must have nothing beside these names and what a shell adds
    #[arg(long, value_name = "NAME,…", value_delimiter = ',', conflicts_with = "recipe")]
    only: Option<Vec<String>>,
    /// Read in band, from what the command prints: set or unset, length, equality
    #[arg(long)]
    in_band: bool,
    /// So many runs, each judged: a policy may hold once
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    repeat: Option<u32>,
    /// Print every command that would be run, and run none
    #[arg(long)]
    dry_run: bool,
    /// Longest wait for one command
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=3600))]
    timeout: u64,
    /// Without a recipe: the command that makes the host run {command}
    #[arg(last = true, value_name = "COMMAND", conflicts_with = "recipe")]
    run: Vec<String>,
}

fn assignment(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').filter(|(name, _)| !name.is_empty()).ok_or("write NAME=VALUE")?;
    Ok((name.to_owned(), value.to_owned()))
}

pub fn run(args: Args, global: &Global) -> Exit {
    let start = match Start::live("probe", global) {
        Ok(start) => start,
        Err(exit) => return exit,
    };
    let known = match recipes(&args, global.quiet) {
        Ok(known) => known,
        Err(problem) => return start.problem("probe", &problem),
    };
    if args.list {
        let rows =
            known.iter().map(|recipe| recipe::Listed { id: recipe.id.clone(), text: recipe.text.clone(), needs: recipe.needs.clone() });
        let report = Report::new("probe-recipes", recipe::Recipes { recipes: rows.collect() });
        return start.answer(report, |report| list(&report.data.recipes));
    }
    let mut recipe = match wanted(&args, &known) {
        Ok(recipe) => recipe,
        Err(problem) => return start.problem("probe", &problem),
    };
    recipe.in_band |= args.in_band;
    if let Err(error) = recipe::sound(&recipe) {
        let hint = "Without --in-band the shell's whole environment is read.";
        return start.problem("probe", &Problem::new(Exit::Usage, error.to_string()).hint(hint));
    }
    if args.dry_run {
        return start.answer(probing::report("probe", exec::plan(&recipe, args.repeat, &start.redactor), &[]), |report| {
            super::page(report, start.verbose)
        });
    }
    let watch = match super::watched() {
        Ok(watch) => watch,
        Err(problem) => return start.problem("probe", &problem),
    };
    let progress = Progress::new(format!("probe {}", recipe.id), args.repeat.map(u64::from), global.quiet);
    let data = exec::probe(&recipe, args.repeat, Duration::from_secs(args.timeout), &start.redactor, &progress);
    drop((progress, watch));
    start.answer(probing::report("probe", data, &[]), |report| super::page(report, start.verbose))
}

/// Those of the program, the user's, and the file's, merged by id.
fn recipes(args: &Args, quiet: bool) -> Result<Vec<recipe::Recipe>, Problem> {
    let unusable = |path: &std::path::Path, error: String| {
        Problem::new(Exit::Usage, format!("{}: {error}", path.display()))
            .hint("The keys of a recipe are in the man page whoseenv-probe-exec(1).")
    };
    let mut known = recipe::built_in();
    if let Some((path, text)) = user_file("probes.toml", quiet)? {
        known = recipe::merged(known, recipe::parse(&text).map_err(|error| unusable(&path, error.to_string()))?);
    }
    if let Some(path) = &args.file {
        let bytes = files::read_named(path).map_err(|reason| {
            let exit = if reason.is_absence() { Exit::NotFound } else { Exit::Io };
            Problem::new(exit, format!("{}: {reason}", path.display()))
        })?;
        let text = String::from_utf8(bytes).map_err(|_| unusable(path, "it is no text".to_owned()))?;
        known = recipe::merged(known, recipe::parse(&text).map_err(|error| unusable(path, error.to_string()))?);
    }
    Ok(known)
}

fn wanted(args: &Args, known: &[recipe::Recipe]) -> Result<recipe::Recipe, Problem> {
    if let Some(id) = &args.recipe {
        let ids = known.iter().map(|recipe| recipe.id.as_str()).collect::<Vec<_>>().join(", ");
        let found = known.iter().find(|recipe| recipe.id == *id).cloned();
        return found.ok_or_else(|| Problem::new(Exit::NotFound, format!("there is no recipe {id:?}")).hint(format!("One of: {ids}")));
    }
    let names: Vec<&String> = args.set.iter().map(|(name, _)| name).chain(&args.absent).collect();
    if let Some((_, name)) = names.iter().enumerate().find(|(at, name)| names[..*at].contains(name)) {
        return Err(Problem::new(Exit::Usage, format!("{name} is given twice")).hint("Name it once: in one --set, or in one --absent."));
    }
    let canaries = args.absent.iter().map(|name| (name.clone(), "{canary}".to_owned()));
    let recipe = recipe::Recipe {
        id: "command".to_owned(),
        text: match args.in_band {
            // An assignment before it counts there, and not in the block that the shell was given.
            true => "The command that the host's shell runs has the environment that is expected.".to_owned(),
            false => "The host's shell is given the environment that is expected.".to_owned(),
        },
        run_env: args.set.iter().cloned().chain(canaries).collect(),
        run: args.run.clone(),
        expect: recipe::Expect {
            set: args.set.iter().cloned().collect(),
            absent: args.absent.clone(),
            only: args.only.clone(),
            ..recipe::Expect::default()
        },
        ..recipe::Recipe::default()
    };
    recipe::sound(&recipe).map_err(|error| {
        Problem::new(Exit::Usage, error.to_string()).hint("Such as: whoseenv probe exec --set A=1 --absent B -- env -u B sh -c '{command}'")
    })?;
    Ok(recipe)
}

fn list(known: &[recipe::Listed]) -> Page {
    let mut page = Page::new();
    let rows = known.iter().map(|recipe| vec![Text::styled(Style::Strong, &recipe.id), Text::plain(&recipe.text)]).collect();
    page.table(0, vec!["RECIPE", "CLAIMS"], rows);
    page
}
