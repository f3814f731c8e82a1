//! The same for any host that a person can describe in a few lines: recipes.
//!
//! A recipe's commands run with a fixed environment and none of the prober's, in a private directory. What the host's
//! shell had is read out of band; where no shell can call, in band: set or unset, length, and equality with what was
//! injected, never a value.

pub mod recipe;
mod steps;
mod veil;

use std::collections::HashMap;
use std::time::Duration;

use crate::agent::quote;
use crate::host::listen::{self, Address};
use crate::host::{Host, interrupt};
use crate::redact::Redactor;
use crate::report::Progress;
use crate::verdict::{How, Outcome};

use super::nest::Nest;
use super::readback::{Readback, Silence};
use super::trail::{Stop, Trail};
use super::{Channel, Cleanup, Data, Judged, Probed, listed, token};
use recipe::Recipe;
use steps::Steps;
use veil::Veil;

use super::in_band::Shown;

/// What a shell adds by itself, beside what a recipe allows it.
const SHELLS: [&str; 4] = ["PWD", "SHLVL", "OLDPWD", "_"];

/// Runs a recipe, as often as it says.
pub fn probe(recipe: &Recipe, repeat: Option<u32>, patience: Duration, redactor: &Redactor, progress: &Progress) -> Data {
    let veil = Veil::of(redactor, recipe);
    let mut cleanup = Cleanup::default();
    let host = Probed { product: recipe.id.clone(), version: None, pid: None, spawned: true };
    let mut trail = Trail::default();
    let times = repeat.or(recipe.repeat).unwrap_or(1).max(1);
    let ended = both(recipe, &veil, (times, patience), &mut trail, &mut cleanup, progress);
    let control = match recipe.controlled().is_some() {
        true => "The same without the injection does not have what is expected.",
        false => "The host's shell calls back.",
    };
    let judged = trail.judged(ended, |outcome, asked, readback, evidence| Judged {
        id: recipe.id.clone(),
        statement: veil.said(&recipe.text),
        documented: recipe.documented.as_deref().map(|text| veil.said(text)),
        outcome,
        asked,
        experiment: format!("{times} × {}", veil.argv(&recipe.run)),
        control: control.to_owned(),
        readback,
        evidence,
    });
    Data { host: Some(host), claims: vec![judged], cleanup, plan: Vec::new() }
}

/// The runs, and then the control: each in a private directory of its own, so that nothing of the one is in the other.
fn both(
    recipe: &Recipe,
    veil: &Veil<'_>,
    (times, patience): (u32, Duration),
    trail: &mut Trail,
    cleanup: &mut Cleanup,
    progress: &Progress,
) -> Result<(), Stop> {
    let injected = [("nonce", format!("nonce-{}", token()?)), ("canary", format!("canary-{}", token()?))];
    let mut homes = 0;
    let mut ended = Ok(());
    for injecting in [true, false] {
        if ended.is_err() || !injecting && recipe.controlled().is_none() {
            break;
        }
        let nest = Nest::new().map_err(|error| Stop::Failed(format!("a private directory cannot be made: {error}")))?;
        ended = in_nest((recipe, veil), &nest, &injected, (patience, injecting), cleanup, |readback, steps| match recipe.controlled() {
            Some(words) if !injecting => control(recipe, words, readback, steps, trail),
            _ => runs(recipe, readback, steps, times, trail, progress),
        });
        let mut removed = Cleanup::default();
        nest.remove(&mut removed);
        homes += removed.removed.len();
        removed.removed.clear();
        cleanup.join(removed);
    }
    cleanup.removed(homes, "private home", "private homes");
    ended
}

fn in_nest(
    (recipe, veil): (&Recipe, &Veil<'_>),
    nest: &Nest,
    injected: &[(&'static str, String)],
    (patience, injecting): (Duration, bool),
    cleanup: &mut Cleanup,
    what: impl FnOnce(&Readback, &mut Steps<'_>) -> Result<(), Stop>,
) -> Result<(), Stop> {
    let address = match recipe.abstract_socket {
        true => Address::Abstract(format!("whoseenv-{}", token()?)),
        false => Address::Path(nest.join("ear")),
    };
    let readback = Readback::open(address)?;
    let uid = rustix::process::geteuid().as_raw();
    let user = Host::live().user_name(uid).unwrap_or_else(|| uid.to_string());
    let mut words: HashMap<&'static str, String> = [
        ("dir", nest.dir().display().to_string()),
        ("name", format!("whoseenv-{}", &token()?[..8])),
        ("port", listen::free_port()?.to_string()),
        ("uid", uid.to_string()),
        ("user", user),
    ]
    .into();
    words.extend(injected.iter().cloned());
    let mut steps = Steps::new((recipe, veil), nest, words, patience, injecting)?;
    let done = what(&readback, &mut steps);
    for (what, why) in interrupt::ignoring(|| steps.stop()) {
        cleanup.failed(what, why);
    }
    done
}

/// The run without the injection.
fn control(recipe: &Recipe, words: &[String], readback: &Readback, steps: &mut Steps<'_>, trail: &mut Trail) -> Result<(), Stop> {
    steps.prepare()?;
    let seen = once(readback, steps, words, recipe)?;
    let injected = expectations(recipe, steps, &seen).into_iter().filter(|(_, injected, _)| *injected).collect::<Vec<_>>();
    let told = injected.is_empty() || injected.iter().any(|(_, _, holds)| !holds);
    trail.shown(&seen, "without the injection");
    trail.control(told, "what is expected is there without the injection too")
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
    steps.runnable(&recipe.run)?;
    steps.prepare()?;
    for number in 1..=times {
        progress.reached(u64::from(number));
        let before = readback.again();
        let seen = once(readback, steps, &recipe.run, recipe)?;
        let again = readback.again() - before;
        let all = expectations(recipe, steps, &seen);
        let broken: Vec<_> = all.iter().filter(|(_, _, holds)| !holds).map(|(what, ..)| what.clone()).collect();
        let which = if times > 1 { format!("run {number} of {times}") } else { "the run".to_owned() };
        trail.shown(&seen, format!("{which}: {} of {} expectations hold", all.len() - broken.len(), all.len()));
        if again > 0 {
            trail.saw(
                "{command}",
                How::RunsACommand,
                format!("{which}: it was run {} times, and the first time alone is judged", again + 1),
            );
        }
        trail.holds(broken.is_empty(), || format!("{which}: {}", broken.join("; ")));
    }
    Ok(())
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
    let mut how = None;
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
            // A command that only hands over to a server ends before the server's shell has called; one that failed hands nothing over.
            if ended.is_none()
                && let Some(status) = running.ended()
            {
                let grace = if status.success() { Duration::from_secs(3) } else { Duration::from_millis(500) };
                ended = Some(std::time::Instant::now() + grace);
            }
            if ended.is_some_and(|end| std::time::Instant::now() > end) || std::time::Instant::now() > end {
                break;
            }
        }
        how = steps.how(&mut running);
    }
    let told = match recipe.needs_whole_block() {
        true => Err(Stop::Failed("the host's shell did not call, and in band nothing can be told of only and added".to_owned())),
        false => steps.in_band(argv, recipe),
    };
    told.map(Shown::Told).map_err(|stop| match how {
        Some(how) => Stop::Failed(format!("{}: {how}", stop.why())),
        None => stop,
    })
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
pub fn plan(recipe: &Recipe, repeat: Option<u32>, redactor: &Redactor) -> Data {
    let (mut plan, veil) = (Vec::new(), Veil::of(redactor, recipe));
    let times = repeat.or(recipe.repeat).unwrap_or(1).max(1);
    round((recipe, &veil), &recipe.run, times, true, &mut plan);
    if let Some(words) = recipe.controlled() {
        plan.push("the control, without the injection:".to_owned());
        round((recipe, &veil), words, 1, false, &mut plan);
    }
    Data { plan, ..Data::default() }
}

fn round((recipe, veil): (&Recipe, &Veil<'_>), run: &[String], times: u32, injecting: bool, plan: &mut Vec<String>) {
    let names = |of: &std::collections::BTreeMap<String, String>| of.keys().cloned().collect::<Vec<_>>().join(", ");
    let words = |words: &[String]| veil.argv(words);
    let also = if recipe.env.is_empty() { String::new() } else { format!("; with {}", names(&recipe.env)) };
    plan.push(
        "make a private directory below the directory for temporary files, mode 0700, and listen on a socket; each command has a fixed environment".to_owned() + &also,
    );
    let lines = |text: &str| {
        let whole = injecting || recipe.without_injection(text) == text;
        if whole { "" } else { ", without the lines that inject" }
    };
    plan.extend(recipe.files.iter().map(|(path, text)| format!("write DIR/{path}{}", lines(text))));
    let check = [&recipe.check].into_iter().filter(|words| injecting && !words.is_empty());
    plan.extend(check.chain(&recipe.prepare).map(|argv| format!("run {}", words(argv))));
    if !recipe.start.is_empty() {
        plan.push(format!("start {}", words(&recipe.start)));
    }
    if injecting {
        plan.extend(recipe.inject.iter().map(|argv| format!("run {}", words(argv))));
        plan.extend(recipe.http.iter().map(|http| format!("send {} {} {}", http.method, veil.url(&http.url), veil.body(&http.body))));
    }
    let with = if recipe.run_env.is_empty() || !injecting { String::new() } else { format!("; with {}", names(&recipe.run_env)) };
    let reads = recipe.stdin.as_ref().map(|text| format!("; it reads {} bytes{}", text.len(), lines(text))).unwrap_or_default();
    let times = if times > 1 { format!("{times} times: ") } else { String::new() };
    let (command, again) = match recipe.in_band {
        true => ("{command} prints set or unset, length and equality", ""),
        false if recipe.needs_whole_block() => ("{command} is WHOSEENV readback call SOCKET TOKEN; :", ""),
        false => ("{command} is WHOSEENV readback call SOCKET TOKEN; :", "; and once more, in band, if no shell calls"),
    };
    plan.push(format!("{times}run {}{with}{reads}; {command}{again}", words(run)));
    plan.extend(recipe.stop.iter().map(|argv| format!("run {}", words(argv))));
    plan.push("end what runs, remove the directory, look again".to_owned());
}

/// A word as a shell would be given it; {words} stand as they are.
fn plain(word: &str) -> String {
    match word.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')) {
        Some(inner) if !inner.is_empty() && inner.bytes().all(|byte| byte.is_ascii_lowercase()) => word.to_owned(),
        _ => quote(word.as_bytes()),
    }
}

/// As evidence of a step that failed.
fn failed_step(what: &str, why: &str) -> Stop {
    Stop::Failed(format!("{what}: {why}"))
}
