//! The commands of a recipe, with their words filled in, each in the fixed environment.

use std::collections::HashMap;
use std::ffi::OsString;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use super::failed_step;
use super::recipe::Recipe;
use super::veil::Veil;
use crate::host::child::{self, Child};
use crate::host::files::stat_named;
use crate::host::http::{Http, NoAnswer, Question};
use crate::host::interrupt;
use crate::probe::in_band::{InBand, Telling};
use crate::probe::nest::Nest;
use crate::probe::trail::Stop;

/// The commands of a recipe.
pub struct Steps<'r> {
    recipe: &'r Recipe,
    veil: &'r Veil<'r>,
    nest: &'r Nest,
    words: HashMap<&'static str, String>,
    patience: Duration,
    server: Option<Child>,
    /// With what the recipe injects; the control is without.
    injecting: bool,
    /// Something was done that `stop` undoes.
    began: Vec<interrupt::Stays>,
}

/// Why a command did not do what it is for.
enum Failure {
    /// It ended, and said so.
    Exit(String),
    /// It could not be started, did not end, or was killed.
    Other(String),
}

impl Failure {
    fn why(&self) -> &str {
        match self {
            Failure::Exit(why) | Failure::Other(why) => why,
        }
    }
}

/// A command that runs.
pub struct Running(Child);

impl Running {
    /// How it ended, if it did.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.0.ended()
    }

    /// Waits for its end, so long and no longer.
    pub fn wait(&mut self, patience: Duration) {
        let end = Instant::now() + patience;
        while self.ended().is_none() && Instant::now() < end && interrupt::came().is_none() {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// Whether a program is in the fixed PATH, or is a path itself.
pub fn in_path(program: &str) -> bool {
    let there = |path: String| !stat_named(path.as_ref()).is_err_and(|unknown| unknown.is_absence());
    if program.contains('/') {
        return there(program.to_owned());
    }
    ["/usr/local/bin", "/usr/bin", "/bin", "/usr/sbin", "/sbin"].iter().any(|dir| there(format!("{dir}/{program}")))
}

impl<'r> Steps<'r> {
    /// Writes the recipe's files.
    ///
    /// # Errors
    /// When one cannot be written.
    pub fn new(
        (recipe, veil): (&'r Recipe, &'r Veil<'r>),
        nest: &'r Nest,
        words: HashMap<&'static str, String>,
        patience: Duration,
        injecting: bool,
    ) -> Result<Steps<'r>, Stop> {
        let steps = Steps { recipe, veil, nest, words, patience, server: None, injecting, began: Vec::new() };
        for (path, text) in &recipe.files {
            let text = if injecting { text.clone() } else { recipe.without_injection(text) };
            nest.write(path, &steps.filled(&text)).map_err(|error| failed_step(path, &error.to_string()))?;
        }
        Ok(steps)
    }

    /// Longest wait for one command.
    pub fn patience(&self) -> Duration {
        self.patience
    }

    /// A text with its words filled in.
    pub fn filled(&self, text: &str) -> String {
        self.words.iter().fold(text.to_owned(), |text, (word, value)| text.replace(&format!("{{{word}}}"), value))
    }

    fn environment(&self, more: bool) -> Vec<(OsString, OsString)> {
        let mut env = self.nest.environment();
        let run_env = (more && self.injecting).then_some(&self.recipe.run_env).into_iter().flatten();
        for (name, value) in self.recipe.env.iter().chain(run_env) {
            env.retain(|(known, _)| known != name.as_str());
            env.push((name.into(), self.filled(value).into()));
        }
        env
    }

    fn start(&self, argv: &[String], command: Option<&str>, more: bool) -> Result<Child, Stop> {
        let what = self.veil.argv(argv.get(..1).unwrap_or_default());
        let fill = |word: &String| match command {
            Some(command) => self.filled(word).replace("{command}", command),
            None => self.filled(word),
        };
        let argv: Vec<OsString> = argv.iter().map(|word| fill(word).into()).collect();
        let env = self.environment(more);
        let stdin = self.recipe.stdin.as_ref().filter(|_| more);
        let stdin = stdin.map(|text| if self.injecting { text.clone() } else { self.recipe.without_injection(text) });
        let stdin = stdin.as_ref().map(fill).map(String::into_bytes);
        let recipe = child::Recipe { argv, env, cwd: self.nest.join("work"), leaves: true };
        Child::start_with(&recipe, stdin).map_err(|error| failed_step(&what, &error.to_string()))
    }

    /// Runs a command to its end; what it printed.
    fn through(&self, argv: &[String]) -> Result<String, Failure> {
        let other = |why: &str| Failure::Other(why.to_owned());
        let mut running = Running(self.start(argv, None, false).map_err(|stop| other(stop.why()))?);
        let end = Instant::now() + self.patience;
        loop {
            match running.0.ended() {
                Some(status) if status.success() => return Ok(running.0.printed()),
                Some(status) => {
                    let why = self.how(&mut running).unwrap_or_default();
                    return Err(if status.code().is_some() { Failure::Exit(why) } else { Failure::Other(why) });
                }
                None if interrupt::came().is_some() => return Err(other("interrupted")),
                None if Instant::now() > end => return Err(other(&format!("it did not end within {} s", self.patience.as_secs()))),
                None => std::thread::sleep(Duration::from_millis(5)),
            }
        }
    }

    /// The recipe's own check of whether it can be run here.
    ///
    /// # Errors
    /// When it cannot.
    pub fn check(&self) -> Result<(), Stop> {
        if self.recipe.check.is_empty() {
            return Ok(());
        }
        self.through(&self.recipe.check).map(drop).map_err(|failure| {
            let said = format!("{}: {}", self.veil.argv(&self.recipe.check), failure.why());
            match failure {
                Failure::Exit(_) => Stop::Unsupported(said),
                // One that could not be asked has not said no.
                Failure::Other(_) => Stop::Failed(said),
            }
        })
    }

    /// What comes before the run.
    ///
    /// # Errors
    /// When a step fails.
    pub fn prepare(&mut self) -> Result<(), Stop> {
        let undone = |argv: &Vec<String>| interrupt::stays(format!("what this would have removed: {}", self.veil.argv(argv)));
        self.began = self.recipe.stop.iter().map(undone).collect();
        for argv in &self.recipe.prepare {
            self.through(argv).map_err(|failure| failed_step(&self.veil.argv(argv), failure.why()))?;
        }
        if !self.recipe.start.is_empty() {
            self.server = Some(self.start(&self.recipe.start, None, false)?);
        }
        if !self.injecting {
            return Ok(());
        }
        for argv in &self.recipe.inject {
            self.through(argv).map_err(|failure| failed_step(&self.veil.argv(argv), failure.why()))?;
        }
        if let Some(injection) = &self.recipe.http {
            let url = self.filled(&injection.url);
            let split = url.match_indices('/').nth(2).map_or(url.len(), |(at, _)| at);
            let path = if split == url.len() { "/" } else { &url[split..] };
            let what = format!("{} {}", injection.method, self.veil.url(&injection.url));
            // Its words have the address in them.
            let failed = |no: NoAnswer| {
                let words = no.to_string().replace(&url[..split], "ADDRESS");
                let words = if path.len() > 1 { words.replace(path, "PATH") } else { words };
                failed_step(&what, &self.veil.said(&words))
            };
            let http = Http::new(&url[..split], None, None).map_err(failed)?;
            let body = serde_json::from_str(&self.filled(&injection.body)).map_err(|error| failed_step("http.body", &error.to_string()))?;
            let question = Question { method: &injection.method, path, headers: &[], body: Some(&body) };
            // The server that was just started may not listen yet.
            let end = Instant::now() + self.patience;
            let reply = loop {
                match http.ask(&question, self.patience).wait() {
                    Ok(reply) => break reply,
                    Err(no) if Instant::now() > end || interrupt::came().is_some() => return Err(failed(no)),
                    Err(_) => std::thread::sleep(Duration::from_millis(50)),
                }
            };
            if !(200..300).contains(&reply.status) {
                return Err(failed_step(&what, &reply.shape()));
            }
        }
        Ok(())
    }

    /// That the program of a command is there: it is named before anything is made.
    ///
    /// # Errors
    /// When it is not.
    pub fn runnable(&self, argv: &[String]) -> Result<(), Stop> {
        let program = argv.first().map(|word| self.filled(word)).unwrap_or_default();
        let path = self.environment(true).into_iter().find(|(name, _)| name == "PATH").map(|(_, path)| path).unwrap_or_default();
        let there = |dir: std::path::PathBuf| !stat_named(&dir.join(&program)).is_err_and(|unknown| unknown.is_absence());
        // A path may be of a file that is yet to be made, or relative.
        if program.contains('/') || std::env::split_paths(&path).any(there) {
            return Ok(());
        }
        let name = self.veil.argv(argv.get(..1).unwrap_or_default());
        Err(Stop::Failed(format!("{name}: there is no such program in {}", path.to_string_lossy())))
    }

    /// How a command ended, if it did, and the last line that it printed.
    pub fn how(&self, running: &mut Running) -> Option<String> {
        let status = running.0.ended()?;
        let line = self.veil.printed(&running.0.last_line(|_| true));
        Some(if line.is_empty() { format!("the command ended ({status})") } else { format!("the command ended ({status}): {line}") })
    }

    /// Starts the run with a command for the host's shell.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn run(&self, argv: &[String], command: &str) -> Result<Running, Stop> {
        Ok(Running(self.start(argv, Some(command), true)?))
    }

    /// A run that tells in band: set or unset, length, equality. What it prints holds no value.
    ///
    /// # Errors
    /// When nothing comes.
    pub fn in_band(&self, argv: &[String], recipe: &Recipe) -> Result<Telling, Stop> {
        let expect = &recipe.expect;
        let injected = expect.set.iter().map(|(name, value)| (name.clone(), Some(self.filled(value))));
        let others = expect.present.iter().chain(&expect.absent).map(|name| (name.clone(), None));
        let asking = InBand::about(&injected.chain(others).collect::<Vec<_>>(), self.nest.dir())?;
        let mut running = self.run(argv, asking.command())?;
        running.wait(self.patience);
        // What it printed last may still be on its way.
        let failed = running.ended().is_some_and(|status| !status.success());
        let end = Instant::now() + if failed { Duration::from_millis(300) } else { Duration::from_secs(2) };
        loop {
            match asking.told(&running.0.printed()) {
                Err(_) if Instant::now() < end && interrupt::came().is_none() => std::thread::sleep(Duration::from_millis(5)),
                told => return told,
            }
        }
    }

    /// Runs the recipe's last commands, if anything was begun, and ends what runs; the commands that failed, and why.
    pub fn stop(&mut self) -> Vec<(String, String)> {
        let stop = self.recipe.stop.iter().filter(|_| !self.began.is_empty());
        let undone = stop.filter_map(|argv| Some((self.veil.argv(argv), self.through(argv).err()?.why().to_owned()))).collect();
        self.server = None;
        self.began.clear();
        child::sweep();
        undone
    }
}
