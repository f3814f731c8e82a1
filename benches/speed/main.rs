//! Speed and size of the release binary, beside the programs that people use today.
//!
//! ```text
//! cargo bench --bench speed               everything, under four minutes
//! cargo bench --bench speed -- --quick    fewer rounds, and no 10,000 processes
//! ```
//!
//! The commands run in turn, round after round, so that whatever else the machine does falls on all of them;
//! what is judged are ratios of medians, by `benches/targets.toml`. Exits 1 when a target is missed.
//!
//! ```text
//! load.rs       the processes to look at            measure.rs   rounds, medians, peak memory
//! targets.rs    benches/targets.toml                table.rs     what is printed
//! ```
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program of its own, with nothing to say but this")]

mod load;
mod measure;
mod table;
mod targets;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use load::Load;
use measure::{Job, peak_kib, rounds};
use table::{Row, Table, mib};
use targets::Targets;

/// Rounds go on until one of these is reached.
struct Effort {
    rounds: usize,
    starts: usize,
    patience: Duration,
    grow: bool,
}

const FULL: Effort = Effort { rounds: 15, starts: 200, patience: Duration::from_secs(60), grow: true };
const QUICK: Effort = Effort { rounds: 5, starts: 50, patience: Duration::from_secs(20), grow: false };

struct Options {
    effort: Effort,
    program: PathBuf,
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.first().map(String::as_str) {
        Some("--keeper") => return load::keep(),
        Some("--holder") => return load::hold(arguments.get(1).and_then(|count| count.parse().ok()).unwrap_or(0)),
        _ => {}
    }
    match options(&arguments).and_then(|options| run(&options)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("speed: {error}");
            ExitCode::from(2)
        }
    }
}

fn options(arguments: &[String]) -> Result<Options, String> {
    let mut options = Options { effort: FULL, program: PathBuf::from(env!("CARGO_BIN_EXE_whoseenv")) };
    let mut arguments = arguments.iter();
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--quick" => options.effort = QUICK,
            "--program" => options.program = arguments.next().ok_or("--program takes a path")?.into(),
            // cargo adds it.
            "--bench" => {}
            other => return Err(format!("{other:?} is no option; there are --quick and --program PATH")),
        }
    }
    Ok(options)
}

fn run(options: &Options) -> Result<bool, String> {
    let start = Instant::now();
    let targets = Targets::read()?;
    let effort = &options.effort;
    let ours = |command: &[String]| Job::new(&options.program, command);
    let theirs = |command: &[String]| Job::new(std::path::Path::new(&command[0]), &command[1..]);
    let mut table = Table::default();

    println!("{}", machine());
    let mut load = Load::start()?;
    load.grow_to(targets.load.processes, targets.load.holders, targets.load.descriptors)?;
    let daemons = load.add_daemons()?;
    println!(
        "{} processes, {} of them ours: {} with {} open files each; agent daemons: {}",
        load::running(),
        targets.load.processes,
        targets.load.holders,
        targets.load.descriptors,
        if daemons.is_empty() { "none (the test suite fetches them; see CONTRIBUTING.md)".to_owned() } else { daemons.join(", ") }
    );
    std::thread::sleep(Duration::from_secs(2));

    // Each command once a round, however many rows ask for it.
    let mut jobs: Vec<Job> = Vec::new();
    for row in &targets.ratio {
        for job in [ours(&row.command), theirs(&row.than)] {
            if !jobs.contains(&job) {
                jobs.push(job);
            }
        }
    }
    for row in &targets.growth {
        let job = ours(&row.command);
        if !jobs.contains(&job) {
            jobs.push(job);
        }
    }
    let times = rounds(&jobs, effort.rounds, effort.patience)?;
    let processes = load::running();
    println!("{} rounds", times.rounds);
    for row in &targets.ratio {
        let (this, that) = (times.median(&ours(&row.command)), times.median(&theirs(&row.than)));
        table.push(Row::times(title(&row.command), this, row.than.join(" "), that, row.at_most));
    }

    for row in &targets.start {
        let pair = [ours(&row.command), theirs(&row.than)];
        let times = rounds(&pair, effort.starts, effort.patience)?;
        let [this, that] = pair.map(|job| times.median(&job));
        table.push(Row::times(title(&row.command), this, row.than.join(" "), that, row.at_most));
    }

    for row in &targets.memory {
        let peak = peak_kib(&ours(&row.command)).map(|kib| kib as f64 / 1024.0);
        table.push(Row::size(title(&row.command), "peak memory", peak, row.at_most_mib));
    }

    if effort.grow {
        load.grow_to(targets.load.grown, targets.load.holders, targets.load.descriptors)?;
        std::thread::sleep(Duration::from_secs(2));
        let jobs: Vec<Job> = targets.growth.iter().map(|row| ours(&row.command)).collect();
        let grown = rounds(&jobs, effort.rounds, effort.patience)?;
        let more = load::running();
        for row in &targets.growth {
            let job = ours(&row.command);
            let (few, many) = ((times.median(&job), processes), (grown.median(&job), more));
            table.push(Row::growth(&title(&row.command), many, few, row.at_most));
        }
    }
    drop(load);

    let (whole, demo) = (file_bytes(&options.program)?, demo_bytes());
    let mebi = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    let which = format!("binary, {} of demo left out", mib(mebi(demo)));
    table.push(Row::size("whoseenv".to_owned(), &which, Ok(mebi(whole.saturating_sub(demo))), targets.size.at_most_mib));

    println!("\n{table}");
    if !effort.grow {
        println!("not measured: {} processes (--quick)", targets.load.grown);
    }
    let missed = table.missed();
    println!(
        "{} of {} targets met{}, {:.0} s",
        table.len() - missed,
        table.len(),
        if missed > 0 { format!(", {missed} MISSED") } else { String::new() },
        start.elapsed().as_secs_f64()
    );
    Ok(missed == 0)
}

fn title(command: &[String]) -> String {
    format!("whoseenv {}", command.join(" "))
}

/// What a reader needs to judge the figures, and what else runs on the machine.
fn machine() -> String {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let load = read("/proc/loadavg");
    let busy = load.split(' ').next().and_then(|load| load.parse::<f64>().ok()).unwrap_or(0.0);
    let note = if busy > 0.5 * cores as f64 {
        ": the machine is busy, the figures are worth little (as root, `chrt -r 5 cargo bench …` goes first)"
    } else {
        ""
    };
    format!("Linux {}, {cores} cores, load {busy}{note}", read("/proc/sys/kernel/osrelease").trim())
}

fn file_bytes(path: &std::path::Path) -> Result<u64, String> {
    std::fs::metadata(path).map(|meta| meta.len()).map_err(|error| format!("{}: {error}", path.display()))
}

/// The files of the demo's machine, which the program carries as they are.
fn demo_bytes() -> u64 {
    fn below(dir: PathBuf) -> u64 {
        let Ok(entries) = std::fs::read_dir(dir) else { return 0 };
        let bytes = |entry: std::fs::DirEntry| match entry.metadata() {
            Ok(meta) if meta.is_dir() => below(entry.path()),
            Ok(meta) => meta.len(),
            Err(_) => 0,
        };
        entries.flatten().map(bytes).sum()
    }
    below(PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/demo")))
}
