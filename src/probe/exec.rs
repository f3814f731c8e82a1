//! The same for any host that a person can describe in a few lines: recipes.
//!
//! A recipe's commands run with a fixed environment and none of the prober's, in a private directory. What the host's
//! shell had is read out of band; where no shell can call, in band: set or unset, length, and equality with what was
//! injected, never a value.

pub mod recipe;
mod steps;

use std::collections::HashMap;
use std::time::Duration;

use crate::host::listen::{self, Address};
use crate::host::{Host, interrupt};
use crate::report::Progress;
use crate::verdict::{How, Outcome};

use super::nest::Nest;
use super::readback::{Readback, Seen, Silence};
use super::trail::{Stop, Trail};
use super::{Channel, Cleanup, Data, Judged, Probed, listed, now, token};
use recipe::Recipe;
use steps::Steps;

use super::in_band::Telling;

/// What a shell adds by itself, beside what a recipe allows it.
const SHELLS: [&str; 4] = ["PWD", "SHLVL", "OLDPWD", "_"];

/// Runs a recipe, as often as it says.
pub fn probe(recipe: &Recipe, repeat: Option<u32>, patience: Duration, progress: &Progress) -> Data {
    let mut cleanup = Cleanup::default();
    let host = Probed { product: recipe.id.clone(), version: None, pid: None, spawned: true };
    let mut trail = Trail::default();
    let times = repeat.or(recipe.repeat).unwrap_or(1).max(1);
    let ended = match Nest::new() {
        Ok(nest) => {
            let ended = in_nest(recipe, &nest, times, patience, &mut trail, progress);
            nest.remove(&mut cleanup);
            ended
        }
        Err(error) => Err(Stop::Failed(format!("a private directory cannot be made: {error}"))),
    };
    let control = match recipe.control.is_empty() {
        false => "The same without the injection does not have what is expected.",
        true => "The host's shell calls back.",
    };
    let judged = trail.judged(ended, |outcome, asked, readback, evidence| Judged {
        id: recipe.id.clone(),
        statement: recipe.text.clone(),
        documented: recipe.documented.clone(),
        outcome,
        asked,
        experiment: format!("{times} × {}", recipe.run.join(" ")),
        control: control.to_owned(),
        readback,
        evidence,
    });
    Data { host: Some(host), claims: vec![judged], cleanup, plan: Vec::new() }
}

fn in_nest(recipe: &Recipe, nest: &Nest, times: u32, patience: Duration, trail: &mut Trail, progress: &Progress) -> Result<(), Stop> {
    let address = match recipe.abstract_socket {
        true => Address::Abstract(format!("whoseenv-{}", token()?)),
        false => Address::Path(nest.join("ear")),
    };
    let readback = Readback::open(address)?;
    let uid = rustix::process::geteuid().as_raw();
    let user = Host::live().user_name(uid).unwrap_or_else(|| uid.to_string());
    let words: HashMap<&'static str, String> = [
        ("dir", nest.dir().display().to_string()),
        ("name", format!("whoseenv-{}", &token()?[..8])),
        ("nonce", format!("nonce-{}", token()?)),
        ("canary", format!("canary-{}", token()?)),
        ("port", listen::free_port()?.to_string()),
        ("uid", uid.to_string()),
        ("user", user),
    ]
    .into();
    let mut steps = Steps::new(recipe, nest, words, patience)?;
    let done = runs(recipe, &readback, &mut steps, times, trail, progress);
    interrupt::ignoring(|| steps.stop(trail));
    done
}

fn runs(
    recipe: &Recipe,
    readback: &Readback,
    steps: &mut Steps<'_>,
    times: u32,
    trail: &mut Trail,
    progress: &Progress,
) -> Result<(), Stop> {
    for program in &recipe.needs {
        if !steps::in_path(program) {
            return Err(Stop::Unsupported(format!("{program} is not installed here")));
        }
    }
    steps.check()?;
    steps.prepare()?;
    if !recipe.control.is_empty() {
        let seen = once(readback, steps, &recipe.control, recipe)?;
        let fulfilled = expectations(recipe, steps, &seen).into_iter().filter(|(_, injected, _)| *injected).collect::<Vec<_>>();
        let told = fulfilled.is_empty() || fulfilled.iter().any(|(_, _, holds)| !holds);
        told_of(trail, "without the injection", &seen, "");
        trail.control(told, "what is expected is there without the injection too")?;
    }
    for number in 1..=times {
        progress.reached(u64::from(number));
        let seen = once(readback, steps, &recipe.run, recipe)?;
        let all = expectations(recipe, steps, &seen);
        let broken: Vec<_> = all.iter().filter(|(_, _, holds)| !holds).map(|(what, ..)| what.clone()).collect();
        let which = if times > 1 { format!("run {number} of {times}") } else { "the run".to_owned() };
        told_of(trail, &which, &seen, &format!("{} of {} expectations hold", all.len() - broken.len(), all.len()));
        trail.holds(broken.is_empty(), || format!("{which}: {}", broken.join("; ")));
    }
    Ok(())
}

/// What one run showed.
enum Shown {
    /// Out of band.
    Shell(Box<Seen>),
    /// In band.
    Told(Telling),
}

impl Shown {
    fn is_set(&self, name: &str) -> bool {
        match self {
            Shown::Shell(seen) => seen.get(name).is_some(),
            Shown::Told(told) => told.is_set(name),
        }
    }

    fn equals(&self, name: &str, value: &str) -> bool {
        match self {
            Shown::Shell(seen) => seen.has(name, value),
            Shown::Told(told) => told.equals(name),
        }
    }
}

fn told_of(trail: &mut Trail, which: &str, shown: &Shown, what: &str) {
    let dash = if what.is_empty() { "" } else { ": " };
    match shown {
        Shown::Shell(seen) => trail.shell(seen, format!("{which}{dash}{what}")),
        Shown::Told(told) => trail.output("the command's output, in band", format!("{which}{dash}{what}; {}", told.words())),
    }
}

/// Every expectation: in words, whether it is about what was injected, whether it holds.
fn expectations(recipe: &Recipe, steps: &Steps<'_>, shown: &Shown) -> Vec<(String, bool, bool)> {
    let expect = &recipe.expect;
    let mut all = Vec::new();
    for (name, value) in &expect.set {
        all.push((format!("{name} is not what was injected"), true, shown.equals(name, &steps.filled(value))));
    }
    for name in &expect.present {
        all.push((format!("{name} is not set"), false, shown.is_set(name)));
    }
    for name in &expect.absent {
        all.push((format!("{name} is set"), false, !shown.is_set(name)));
    }
    if let (Some(only), Shown::Shell(seen)) = (&expect.only, shown) {
        let allowed = |name: &String| only.contains(name) || SHELLS.contains(&name.as_str());
        let beyond: Vec<String> = seen.names().into_iter().filter(|name| !allowed(name)).collect();
        all.push((format!("beyond what the policy allows: {}", listed(&beyond)), false, beyond.is_empty()));
    }
    if let Shown::Shell(seen) = shown {
        for name in &expect.added {
            all.push((format!("the shell itself does not add {name}"), true, seen.added.contains(name)));
        }
    }
    all
}

/// One run: out of band, or in band where the recipe says so or no shell called.
fn once(readback: &Readback, steps: &mut Steps<'_>, argv: &[String], recipe: &Recipe) -> Result<Shown, Stop> {
    if !recipe.in_band {
        let expected = readback.expect()?;
        let mut running = steps.run(argv, expected.command())?;
        let end = std::time::Instant::now() + steps.patience();
        let mut ended = None;
        loop {
            match expected.read(Duration::from_millis(10), None) {
                Ok(seen) => {
                    running.wait(steps.patience());
                    return Ok(Shown::Shell(Box::new(seen)));
                }
                Err(Silence::Broken(why)) => return Err(Stop::Failed(why)),
                Err(Silence::NotYet) => {}
            }
            if interrupt::came().is_some() {
                return Err(Stop::Failed("interrupted".to_owned()));
            }
            // A command that only hands over to a server ends before the server's shell has called.
            if ended.is_none() && running.ended() {
                ended = Some(std::time::Instant::now() + Duration::from_secs(3));
            }
            if ended.is_some_and(|end| std::time::Instant::now() > end) || std::time::Instant::now() > end {
                break;
            }
        }
    }
    steps.in_band(argv, recipe).map(Shown::Told)
}

impl Trail {
    /// The verdict of a recipe.
    fn judged(
        mut self,
        ended: Result<(), Stop>,
        make: impl FnOnce(Outcome, bool, Option<Channel>, Vec<crate::verdict::Evidence>) -> Judged,
    ) -> Judged {
        let (outcome, asked) = self.verdict(ended);
        let (readback, evidence) = self.taken();
        make(outcome, asked, readback, evidence)
    }
}

/// What a run of the recipe would do.
pub fn plan(recipe: &Recipe) -> Data {
    let mut plan = vec!["make a private directory below the directory for temporary files, mode 0700, and listen on a socket".to_owned()];
    plan.extend(recipe.files.keys().map(|path| format!("write DIR/{path}")));
    let mut commands: Vec<&Vec<String>> = [&recipe.check].into_iter().filter(|words| !words.is_empty()).collect();
    commands.extend(&recipe.prepare);
    commands.extend([&recipe.start, &recipe.control, &recipe.run].into_iter().filter(|words| !words.is_empty()));
    commands.extend(&recipe.stop);
    plan.extend(commands.into_iter().map(|words| format!("run {}", words.join(" "))));
    plan.extend(recipe.http.iter().map(|http| format!("{} {} {}", http.method, http.url, http.body)));
    plan.push("end what runs, remove the directory, look again".to_owned());
    Data { plan, ..Data::default() }
}

/// As evidence of a step that failed.
fn failed_step(what: &str, why: &str) -> Stop {
    Stop::Failed(format!("{what}: {why}"))
}

/// A step whose failing leaves something behind.
fn left(trail: &mut Trail, what: &str, why: &str) {
    trail.saw(what.to_owned(), How::RunsACommand, format!("{why} (at {})", now()));
}
