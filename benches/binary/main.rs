//! Speed and memory on a real program of 225 MB, beside the programs that people use today.
//!
//! ```text
//! cargo bench --bench binary
//! ```
//!
//! The commands run in turn, round after round; what is judged are ratios of medians, by `[binary]` in `benches/targets.toml`.
//! The program is the 2.0 preview's, from the tests' cache. Exits 1 when a target is missed.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program of its own, with nothing to say but this")]

#[path = "../speed/measure.rs"]
mod measure;
#[path = "../speed/table.rs"]
#[allow(dead_code, reason = "shared with the other bench")]
mod table;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use measure::{Job, peak_kib, rounds};
use serde::Deserialize;
use table::{Row, Table};

const ROUNDS: usize = 21;
const PATIENCE: Duration = Duration::from_secs(60);

#[derive(Deserialize)]
struct Targets {
    binary: Binary,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Binary {
    strings: Vec<String>,
    ratio: Vec<Ratio>,
    memory: Vec<Memory>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Ratio {
    command: Vec<String>,
    than: Vec<String>,
    at_most: f64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Memory {
    command: Vec<String>,
    at_most_mib: f64,
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().collect();
    let program = arguments.iter().position(|argument| argument == "--program").and_then(|at| arguments.get(at + 1)).map(PathBuf::from);
    match run(&program.unwrap_or_else(|| PathBuf::from(env!("CARGO_BIN_EXE_whoseenv")))) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("binary: {error}");
            ExitCode::from(2)
        }
    }
}

fn run(whoseenv: &Path) -> Result<bool, String> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/targets.toml");
    let text = std::fs::read_to_string(path).map_err(|error| format!("{path}: {error}"))?;
    let targets = toml::from_str::<Targets>(&text).map_err(|error| format!("{path}: {error}"))?.binary;
    let file = the_preview()?;
    // Into the page cache, once.
    let bytes = std::io::copy(&mut std::fs::File::open(&file).map_err(|error| error.to_string())?, &mut std::io::sink());
    println!("{}, {} bytes in the page cache", file.display(), bytes.map_err(|error| error.to_string())?);

    let words = |command: &[String]| -> Vec<String> {
        let word = |word: &String| match word.as_str() {
            "FILE" => vec![file.display().to_string()],
            "STRINGS" => targets.strings.iter().flat_map(|string| ["-e".to_owned(), string.clone()]).collect(),
            _ => vec![word.clone()],
        };
        command.iter().flat_map(word).collect()
    };
    let ours = |command: &[String]| Job::new(whoseenv, &words(command));
    let theirs = |command: &[String]| match command[0].as_str() {
        "whoseenv" => ours(&command[1..]),
        program => Job::new(Path::new(program), &words(&command[1..])),
    };
    let mut jobs: Vec<Job> = Vec::new();
    for row in &targets.ratio {
        for job in [ours(&row.command), theirs(&row.than)] {
            if !jobs.contains(&job) {
                jobs.push(job);
            }
        }
    }
    let times = rounds(&jobs, ROUNDS, PATIENCE)?;
    println!("{} rounds", times.rounds);
    let mut table = Table::default();
    let title = |command: &[String]| format!("whoseenv {}", command.join(" "));
    for row in &targets.ratio {
        let (this, that) = (times.median(&ours(&row.command)), times.median(&theirs(&row.than)));
        table.push(Row::times(title(&row.command), this, row.than.join(" "), that, row.at_most));
    }
    for row in &targets.memory {
        let peak = peak_kib(&ours(&row.command)).map(|kib| kib as f64 / 1024.0);
        table.push(Row::size(title(&row.command), "peak memory", peak, row.at_most_mib));
    }
    println!("\n{table}");
    println!("{} of {} targets met", table.len() - table.missed(), table.len());
    Ok(table.missed() == 0)
}

fn the_preview() -> Result<PathBuf, String> {
    let set = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let cache = set("WHOSEENV_TEST_PEERS").or_else(|| {
        let cache = set("XDG_CACHE_HOME").or_else(|| set("HOME").map(|home| home.join(".cache")));
        cache.map(|dir| dir.join("whoseenv/test-peers"))
    });
    let place = cache.unwrap_or_default().join("opencode2-0.0.0-next-16350/opencode2");
    let missing = || format!("{}: the test suite fetches it; see CONTRIBUTING.md", place.display());
    place.is_file().then(|| place.clone()).ok_or_else(missing)
}
