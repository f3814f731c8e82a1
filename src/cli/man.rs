//! `whoseenv man`.

use std::path::{Path, PathBuf};

use anyhow::Context;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};

use super::Global;
use crate::probe::claims::{Claim, OPENCODE, ZEROCLAW};
use crate::probe::exec::recipe;
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
        below(sub, &[], &mut pages)?;
    }
    Ok(pages)
}

/// The page of a command, and those of its own commands.
fn below(command: &clap::Command, above: &[&str], pages: &mut Vec<(String, Vec<u8>)>) -> std::io::Result<()> {
    let words: Vec<&str> = above.iter().copied().chain([command.get_name()]).collect();
    let name = format!("whoseenv-{}", words.join("-"));
    let page = command.clone().display_name(name.clone()).bin_name(format!("whoseenv {}", words.join(" ")));
    let mut text = Vec::new();
    let mut more = Roff::new();
    let dashed = words.join("-");
    match dashed.as_str() {
        "probe-opencode" => claims(&mut more, OPENCODE),
        "probe-zeroclaw" => claims(&mut more, ZEROCLAW),
        "probe-exec" => {
            terms(&mut more, "RECIPES", recipe::built_in().iter().map(|recipe| (recipe.id.clone(), recipe.text.as_str())));
            terms(&mut more, "KEYS OF A RECIPE", recipe::KEYS.iter().map(|(key, text)| ((*key).to_owned(), *text)));
        }
        "db" => terms(&mut more, "WAYS OF READING", WAYS.iter().map(|(name, text)| ((*name).to_owned(), *text))),
        _ => {}
    }
    Man::new(page).title(name.to_uppercase()).section("1").manual("whoseenv").source(source()).render(&mut text)?;
    if !command.has_subcommands() {
        let common = [(Exit::Usage, Exit::Usage.text()), (Exit::Bug, Exit::Bug.text()), (Exit::Io, Exit::Io.text())];
        let mut codes: Vec<(Exit, &str)> = Exit::of_command(&dashed).iter().copied().chain(common).collect();
        codes.sort_by_key(|(exit, _)| exit.code());
        terms(&mut more, "EXIT STATUS", codes.iter().map(|(exit, text)| (exit.code().to_string(), *text)));
    }
    more.to_writer(&mut text)?;
    pages.push((format!("{name}.1"), text));
    command.get_subcommands().filter(|sub| sub.get_name() != "help").try_for_each(|sub| below(sub, &words, pages))
}

/// Every claim: what is done, and what shows that it can tell.
fn claims(roff: &mut Roff, claims: &[&Claim]) {
    let texts: Vec<(String, String)> = claims
        .iter()
        .map(|claim| (claim.id.to_owned(), format!("{} Experiment: {} Control: {}", claim.statement, claim.experiment, claim.control)))
        .collect();
    terms(roff, "CLAIMS", texts.iter().map(|(id, text)| (id.clone(), text.as_str())));
}

/// How a store is read, by what lies beside it; for each way, which bytes it may touch and why.
const WAYS: [(&str, &str); 8] = [
    (
        "shared (-wal and -shm are there)",
        "SQLite with mode=ro&readonly_shm=1. It touches no byte: the database and -wal are opened for reading, -shm is mapped for reading, where mode=ro alone would write its read marks into it. Kernel locks are taken, which leave nothing: one on the database, so that no host can be the last to close it and take -wal away while we read, after which SQLite would make a new one. Rows are read as fast as SQLite gives them, and the store is let go, so that a slow reader of our output keeps no checkpoint of the host's waiting: what is over 8 MiB of them waits in a file without a name below $TMPDIR. As long as a transaction of ours lasts, the host's WAL cannot begin anew, and grows with what it commits; so after each half second it is looked at what came, and after more than 200 frames the question is put again to a private copy, which is made while nobody is held up, and then made good, in as long as comparing both takes, while such a transaction holds the WAL where it is. Answers are of one moment either way. Where there is no room for a copy, none is made.",
    ),
    (
        "private_copy (-wal holds frames, and there is no -shm)",
        "A host was killed, or holds the store exclusively. Any connection would have to make a -shm, and a writable one would move the WAL into the database and remove it. So the database and then -wal are copied into a private directory, and the copy is read. The copy counts only if the WAL's salts are the same before and after, for then every page that a checkpoint wrote meanwhile is in the copied WAL too. It touches bytes below $XDG_CACHE_HOME/whoseenv/copies alone, which are gone when the command ends, or at the next start of any command after a kill.",
    ),
    (
        "private_copy (a -journal holds an unfinished transaction)",
        "The database holds rows that were never committed, and an immutable connection would show them. Both files are copied as above, if neither changes meanwhile, and the transaction is undone in the copy. A journal that names other databases is not undone: that would touch them.",
    ),
    (
        "immutable (nothing is beside it, or nothing that counts)",
        "SQLite with mode=ro&immutable=1: no lock, no -wal, no -shm. mode=ro alone would make both files and leave them behind. It touches no byte. Since SQLite then believes that nothing changes, the files are looked at again afterwards: if they changed, the question is put again, and after some times the answer is undetermined (5). A host that keeps its journal in memory leaves no sign beside the store while it writes, so the kernel is asked before and after, without a lock of our own, whether somebody holds the locks of a writer (F_GETLK): then the answer waits for half a second, and is undetermined, with the pid.",
    ),
    (
        "Memory, time and temporary files",
        "What SQLite may take follows from the size of the file: steps of its machine and time in proportion to it, 96 MiB at most. Pages that stand in for one another, which make a small file endless, end in: not read to its end (5). What SQLite sorts and has no room for lies in a file without a name in SQLITE_TMPDIR, TMPDIR, /var/tmp or /tmp, the first that there is; it is gone with the command, however that ends.",
    ),
    (
        "db audit",
        "Where -wal holds frames, always from a private copy: the database is judged once alone and once with its WAL, and neither judgement may touch the host's files.",
    ),
    (
        "--from a snapshot that was taken --with-stores",
        "The copy in the snapshot, immutable; nothing of this machine. It holds base and -wal as one, with the columns of secrets blank; what was said of each alone, who held it and how it was read are kept beside it. It cannot be taken with --anonymize: what was said in sessions names accounts, machines and paths in ways that no rule finds. The answers of db can: whoseenv db sessions --anonymize --json.",
    ),
    (
        "Never",
        "A store is not written to, checkpointed, vacuumed, recovered or locked against its host; views, triggers, virtual tables and functions of its schema are not run; columns that hold secrets are not read. Only regular files are opened. Access times may change, as they do for any reader who does not own the file.",
    ),
];

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
        ("WHOSEENV_SERVER_PASSWORD", "Password of the server that binary ops --against URL asks."),
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
        (
            "$XDG_CONFIG_HOME/whoseenv/fingerprints.toml",
            "What strings in a program prove: products, generations and features of your own, merged by id. Not read under --from.",
        ),
        ("$XDG_CONFIG_HOME/whoseenv/agents.toml", "Agents of your own, told by signature, merged by id. Not read under --from."),
        ("$XDG_CONFIG_HOME/whoseenv/probes.toml", "Recipes of your own for probe exec, merged by id."),
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
