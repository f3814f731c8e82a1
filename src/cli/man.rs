//! `whoseenv man`.

use std::path::{Path, PathBuf};

use clap_mangen::Man;
use clap_mangen::roff::{Roff, roman};

use super::Global;
use crate::report::{Exit, Page, Problem};
use crate::verdict::registry;

/// Write the man pages into a directory
///
/// One page a command, and whoseenv(1) with exit codes and finding ids.
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
            printer.page(&page)
        }
        Err(error) => printer.problem("man", None, &Problem::new(Exit::Io, format!("{}: {error}", args.dir.display()))),
    }
}

fn write(dir: &Path) -> std::io::Result<usize> {
    std::fs::create_dir_all(dir)?;
    let pages = pages()?;
    for (name, text) in &pages {
        std::fs::write(dir.join(name), text)?;
    }
    Ok(pages.len())
}

/// Every page: its file name and its text.
pub fn pages() -> std::io::Result<Vec<(String, Vec<u8>)>> {
    let mut command = super::command().disable_help_subcommand(true);
    command.build();
    let mut pages = vec![("whoseenv.1".to_owned(), main_page(&command)?)];
    for sub in command.get_subcommands() {
        let name = format!("whoseenv-{}", sub.get_name());
        let sub = sub.clone().display_name(name.clone()).bin_name(format!("whoseenv {}", sub.get_name()));
        let mut text = Vec::new();
        Man::new(sub).title(name.to_uppercase()).section("1").manual("whoseenv").source(source()).render(&mut text)?;
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
    more.control("SH", ["EXIT STATUS"]);
    for exit in Exit::PRECEDENCE.iter().rev() {
        more.control("TP", []);
        more.text([roman(exit.code().to_string())]);
        more.text([roman(exit.text())]);
    }
    more.control("PP", []);
    let order = Exit::PRECEDENCE.map(|exit| exit.code().to_string()).join(", ");
    more.text([roman(format!("When several apply, the first of these is the exit code: {order}."))]);
    more.control("SH", ["FINDINGS"]);
    for kind in registry::all() {
        more.control("TP", []);
        more.text([roman(format!("{} ({})", kind.id, kind.severity.word()))]);
        more.text([roman(kind.text)]);
    }
    more.control("SH", ["ENVIRONMENT"]);
    for (name, meaning) in [
        ("NO_COLOR", "If set and not empty: no colour."),
        ("WHOSEENV_WIDTH", "Columns to wrap to, in place of the terminal's."),
        (
            "WHOSEENV_FINGERPRINT_KEY",
            "Key of the fingerprints of masked values. Without it every report has a key of its own, so that fingerprints of two reports tell nothing of each other.",
        ),
    ] {
        more.control("TP", []);
        more.text([roman(name)]);
        more.text([roman(meaning)]);
    }
    more.to_writer(&mut text)?;
    Ok(text)
}
