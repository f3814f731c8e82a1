//! `whoseenv completions`.

use super::Global;
use crate::report::{Exit, Printer};

/// Print a shell's completion script
///
/// For bash: whoseenv completions bash > ~/.local/share/bash-completion/completions/whoseenv
///
/// The script is printed as it is, whatever --format says.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The shell
    #[arg(value_enum)]
    shell: clap_complete::Shell,
}

pub fn run(args: &Args, global: &Global) -> Exit {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut super::command(), "whoseenv", &mut script);
    Printer::new(global.format(), global.colour(), global.quiet, global.fail_on()).text(&script)
}
