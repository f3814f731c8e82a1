//! `whoseenv man`.

use std::path::{Path, PathBuf};

use anyhow::Context;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};

use super::Global;
use crate::redact::Rule;
use crate::report::{Exit, Page, Problem};
use crate::verdict::{State, registry};

/// Write the man pages into a directory
///
/// One page a command, and whoseenv(1) with exit codes and finding ids. What it prints is for a person, whatever --format says;
/// an error is JSON where that was asked for.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The directory; it is made if it is not there
    dir: PathBuf,
}

pub fn run(args: &Args, global: &Global) -> Exit {
    let printer = super::start::printer(global);
    match write(&args.dir) {
        Ok(pages) => {
            let mut page = Page::new();
            page.line(0, format!("{pages} man pages in {}. Read one: man -l {}/whoseenv.1", args.dir.display(), args.dir.display()));
            if global.quiet { Exit::Ok } else { printer.page(&page) }
        }
        Err(error) => printer.problem("man", None, &Problem::new(Exit::Io, format!("{error:#}"))),
    }
}

fn write(dir: &Path) -> anyhow::Result<usize> {
    std::fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
    let pages = pages()?;
    for (name, text) in &pages {
        let path = dir.join(name);
        std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(pages.len())
}

/// Every page: its file name and its text.
fn pages() -> std::io::Result<Vec<(String, Vec<u8>)>> {
    let mut command = super::command().disable_help_subcommand(true);
    command.build();
    let mut pages = vec![("whoseenv.1".to_owned(), main_page(&command)?)];
    for sub in command.get_subcommands() {
        let name = format!("whoseenv-{}", sub.get_name());
        let page = sub.clone().display_name(name.clone()).bin_name(format!("whoseenv {}", sub.get_name()));
        let mut text = Vec::new();
        let mut more = Roff::new();
        let common = [(Exit::Usage, Exit::Usage.text()), (Exit::Bug, Exit::Bug.text()), (Exit::Io, Exit::Io.text())];
        let mut codes: Vec<(Exit, &str)> = Exit::of_command(sub.get_name()).iter().copied().chain(common).collect();
        codes.sort_by_key(|(exit, _)| exit.code());
        terms(&mut more, "EXIT STATUS", codes.iter().map(|(exit, text)| (exit.code().to_string(), *text)));
        Man::new(page).title(name.to_uppercase()).section("1").manual("whoseenv").source(source()).render(&mut text)?;
        more.to_writer(&mut text)?;
        pages.push((format!("{name}.1"), text));
    }
    Ok(pages)
}

fn source() -> String {
    format!("whoseenv {}", env!("CARGO_PKG_VERSION"))
}

fn main_page(command: &clap::Command) -> std::io::Result<Vec<u8>> {
    let mut text = Vec::new();
    Man::new(command.clone()).title("WHOSEENV").section("1").manual("whoseenv").source(source()).render(&mut text)?;
    let mut more = Roff::new();
    let references = [
        (
            "self",
            "this terminal: the nearest ancestor on the controlling tty; sudo, su, runuser and their like are passed over, and the answer says whose environment was used",
        ),
        ("PID", "a process"),
        ("AGENT", "the daemon of an agent; an error when it fits several, which --user, --pid and --agent narrow"),
        ("file:PATH", "a file of NAME=value entries, separated by NUL or by newlines"),
        ("snapshot:DIR#PID", "a process in a snapshot"),
        (
            "tmux:SESSION, systemd-user, login-shell",
            "what tmux gives new panes, the user manager's, a fresh login shell's: these run a command",
        ),
    ];
    terms(&mut more, "ENVIRONMENT REFERENCES", references.iter().map(|(name, text)| ((*name).to_owned(), *text)));
    terms(&mut more, "STATES", State::ALL.iter().map(|state| (state.word().to_owned(), state.text())));
    terms(&mut more, "MASKING", Rule::ALL.iter().map(|rule| (rule.word().to_owned(), rule.text())));
    more.control("SH", ["NDJSON"]);
    more.text([roman(
        "With --format ndjson the first line is the document of --json without its rows, the last line has status, findings and notes, and each line in between is a row. Rows are, for",
    )]);
    for (command, field, row) in super::schema::ROWS {
        more.control("TP", []);
        more.text([bold(*command)]);
        more.text([roman(super::schema::rows_in_words(*field, row))]);
    }
    terms(&mut more, "EXIT STATUS", Exit::PRECEDENCE.iter().rev().map(|exit| (exit.code().to_string(), exit.text())));
    more.control("PP", []);
    let order = Exit::PRECEDENCE.map(|exit| exit.code().to_string()).join(", ");
    more.text([roman(format!("When several apply, the first of these is the exit code: {order}."))]);
    terms(&mut more, "FINDINGS", registry::all().iter().map(|kind| (format!("{} ({})", kind.id, kind.severity.word()), kind.text)));
    let environment = [
        ("NO_COLOR", "If set and not empty: no colour."),
        ("WHOSEENV_WIDTH", "Columns to wrap to, in place of the terminal's."),
        (
            "WHOSEENV_FINGERPRINT_KEY",
            "Key of the fingerprints of masked values. Without it every report has a key of its own, so that fingerprints of two reports tell nothing of each other.",
        ),
    ];
    terms(&mut more, "ENVIRONMENT", environment.iter().map(|(name, text)| ((*name).to_owned(), *text)));
    let files = [
        (
            "$XDG_CONFIG_HOME/whoseenv/variables.toml",
            "Variables of your own, merged by name into the built-in catalogue. Not read under --from.",
        ),
        ("$XDG_CONFIG_HOME/whoseenv/agents.toml", "Agents of your own, told by signature, merged by id. Not read under --from."),
    ];
    terms(&mut more, "FILES", files.iter().map(|(name, text)| ((*name).to_owned(), *text)));
    more.to_writer(&mut text)?;
    Ok(text)
}

/// A section of terms, each with what it means.
fn terms<'t>(roff: &mut Roff, heading: &str, terms: impl Iterator<Item = (String, &'t str)>) {
    roff.control("SH", [heading]);
    for (term, text) in terms {
        roff.control("TP", []);
        roff.text([bold(term)]);
        roff.text([roman(text)]);
    }
}
