//! Speed of `whoseenv db`, beside the sqlite3 shell with the same question on the same file.
//!
//! ```text
//! cargo bench --bench store               makes a store of a gigabyte in target/, once; some minutes
//! cargo bench --bench store -- --quick    fewer rounds
//! ```
//!
//! The commands run in turn, round after round; what is judged are ratios of medians, by `[store]` in `benches/targets.toml`.
//! Exits 1 when a target is missed.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program of its own, with nothing to say but this")]

mod load;
#[path = "../speed/measure.rs"]
mod measure;
#[path = "../speed/table.rs"]
mod table;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use measure::{Job, peak_kib, rounds};
use serde::Deserialize;
use table::{Row, Table};

#[derive(Deserialize)]
struct Targets {
    store: Store,
}

/// `[store]` of `benches/targets.toml`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Store {
    load: load::Load,
    ratio: Vec<Ratio>,
    memory: Vec<Memory>,
    wall: Vec<Wall>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Ratio {
    command: Vec<String>,
    /// What the sqlite3 shell is asked.
    sql: String,
    at_most: f64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Memory {
    command: Vec<String>,
    at_most_mib: f64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Wall {
    command: Vec<String>,
    at_most_ms: f64,
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let quick = arguments.iter().any(|argument| argument == "--quick");
    let program = arguments.iter().position(|argument| argument == "--program").and_then(|at| arguments.get(at + 1)).map(PathBuf::from);
    let program = program.unwrap_or_else(|| PathBuf::from(env!("CARGO_BIN_EXE_whoseenv")));
    match run(&program, quick) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("store: {error}");
            ExitCode::from(2)
        }
    }
}

fn run(program: &Path, quick: bool) -> Result<bool, String> {
    let start = Instant::now();
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/targets.toml");
    let text = std::fs::read_to_string(path).map_err(|error| format!("{path}: {error}"))?;
    let Targets { store: targets } = toml::from_str(&text).map_err(|error| format!("{path}: {error}"))?;
    let file = load::made(&targets.load)?;
    let file = file.to_str().ok_or("a path that can be read")?;
    println!(
        "{} kv rows, {} sessions, {} inbox rows, {} events: {} MiB; load {}",
        targets.load.kv,
        targets.load.sessions,
        targets.load.inbox,
        targets.load.events,
        std::fs::metadata(file).map_or(0, |meta| meta.len() >> 20),
        std::fs::read_to_string("/proc/loadavg").unwrap_or_default().split(' ').next().unwrap_or_default(),
    );
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    let ours = |command: &[String]| {
        let mut all = command.to_vec();
        all.extend(words(&["--db", file]));
        Job::new(program, &all)
    };
    let theirs = |sql: &str| Job::new(Path::new("sqlite3"), &words(&["-readonly", "-json", file, sql]));
    let (most, patience) = if quick { (3, Duration::from_secs(20)) } else { (7, Duration::from_secs(90)) };
    let mut table = Table::default();
    for row in &targets.ratio {
        let pair = [ours(&row.command), theirs(&row.sql)];
        let times = rounds(&pair, most, patience)?;
        let [this, that] = pair.map(|job| times.median(&job));
        let what = if row.sql.starts_with("pragma") { row.sql.clone() } else { "sqlite3 -json, the same rows".to_owned() };
        table.push(Row::times(title(&row.command), this, what, that, row.at_most));
    }
    for row in &targets.wall {
        let job = ours(&row.command);
        let times = rounds(std::slice::from_ref(&job), 3 * most, patience)?;
        table.push(Row::wall(title(&row.command), times.median(&job), row.at_most_ms));
    }
    for row in &targets.memory {
        let peak = peak_kib(&ours(&row.command)).map(|kib| kib as f64 / 1024.0);
        table.push(Row::size(title(&row.command), "peak memory", peak, row.at_most_mib));
    }
    println!("\n{table}");
    let missed = table.missed();
    let note = if missed > 0 { format!(", {missed} MISSED") } else { String::new() };
    println!("{} of {} targets met{note}, {:.0} s", table.len() - missed, table.len(), start.elapsed().as_secs_f64());
    Ok(missed == 0)
}

fn title(command: &[String]) -> String {
    format!("whoseenv {}", command.join(" "))
}
