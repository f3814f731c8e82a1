//! An OpenCode of our own: a private home, a fixed environment, a model on loopback.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use serde_json::json;

use super::api::{self, Condition, Health};
use super::bed::Bed;
use super::{experiments, unknown};
use crate::host::child::{Child, Recipe};
use crate::host::http::{Http, NoAnswer, Password};
use crate::host::interrupt;
use crate::host::listen::{self, Address};
use crate::probe::nest::Nest;
use crate::probe::readback::Readback;
use crate::probe::stub_model::StubModel;
use crate::probe::{Cleanup, Data, Probed, Stop};
use crate::redact::Redactor;
use crate::report::Progress;

/// While it starts, 1.18.34 takes a connection and never answers what comes over it: it is asked again soon.
const FIRST: Duration = Duration::from_millis(400);

/// Starts the program, makes every experiment, and removes everything.
pub fn probe(program: &Path, patience: Duration, redactor: &Redactor, progress: &Progress) -> Data {
    let mut cleanup = Cleanup::default();
    let failed = |why: String, cleanup: Cleanup| Data { host: None, claims: unknown(&why), cleanup, plan: Vec::new() };
    let nest = match Nest::new() {
        Ok(nest) => nest,
        Err(error) => return failed(format!("a private home cannot be made: {error}"), cleanup),
    };
    let done = in_nest(&nest, (program, redactor), patience, progress);
    nest.remove(&mut cleanup);
    match done {
        Ok((host, claims)) => Data { host: Some(host), claims, cleanup, plan: Vec::new() },
        Err(stop) => failed(stop.why().to_owned(), cleanup),
    }
}

fn in_nest(
    nest: &Nest,
    program: (&Path, &Redactor),
    patience: Duration,
    progress: &Progress,
) -> Result<(Probed, Vec<crate::probe::Judged>), Stop> {
    let model = StubModel::start()?;
    configure(nest, &model)?;
    let readback = Readback::open(Address::Path(nest.join("ear")))?;
    progress.doing("starting the host");
    let mut host = Running::start(nest, program, patience)?;
    let probed =
        Probed { product: "opencode".to_owned(), version: Some(host.health.version.clone()), pid: Some(host.child.pid()), spawned: true };
    let mut bed =
        Bed::new(host.http.clone(), host.health.clone(), host.child.pid(), readback, (nest.join("work"), nest.dir().to_owned()), patience)?;
    bed.model = Some(model);
    let mut restart = |bed: &mut Bed| -> Result<(), Stop> {
        host.child.end();
        host = Running::start(nest, program, patience)?;
        bed.moved(host.http.clone(), host.child.pid())
    };
    let places = [nest.dir().to_owned()];
    let claims = experiments(&mut bed, Some(&mut restart), &places, progress);
    drop(bed);
    host.child.end();
    Ok((probed, claims))
}

/// A model on loopback, nothing fetched, nothing asked for permission. 1.18.34 and next-16350 both take this.
fn configure(nest: &Nest, model: &StubModel) -> std::io::Result<()> {
    let config = json!({"model": "stub/stub", "permission": "allow", "autoupdate": false, "share": "disabled", "provider": {"stub": {
        "npm": "@ai-sdk/openai-compatible", "options": {"baseURL": model.url(), "apiKey": "none"}, "models": {"stub": {"name": "stub"}}}}});
    nest.write("config/opencode/opencode.json", &config.to_string())?;
    // A list of models that never grows old, and a registry of packages that refuses: nobody off this machine is asked.
    let models = nest.write("cache/opencode/models.json", "{}")?;
    let later = SystemTime::now() + Duration::from_secs(10 * 365 * 24 * 3600);
    std::fs::File::options().write(true).open(models)?.set_modified(later)?;
    nest.write("home/.npmrc", "registry=http://127.0.0.1:9/\nfetch-retries=0\n")?;
    Ok(())
}

/// A host that answers.
struct Running {
    child: Child,
    http: Http,
    health: Health,
}

impl Running {
    fn start(nest: &Nest, (program, redactor): (&Path, &Redactor), patience: Duration) -> Result<Running, Stop> {
        let port = listen::free_port()?;
        let url = format!("http://127.0.0.1:{port}");
        let argv = vec![absolute(program)?.into_os_string(), "serve".into(), "--port".into(), port.to_string().into()];
        let mut child = Child::start(&Recipe { argv, env: nest.environment(), cwd: nest.join("work"), leaves: false })?;
        let end = Instant::now() + patience;
        loop {
            if let Some(status) = child.ended() {
                return Err(Stop::Failed(format!(
                    "{} ended ({status}) before it answered{}",
                    program.display(),
                    complaint(&child, redactor)
                )));
            }
            if interrupt::came().is_some() {
                return Err(Stop::Failed("interrupted".to_owned()));
            }
            // The preview and 2.x make a password up and print it; 1.x has none unless told.
            let password = child.printed().lines().find_map(|line| line.trim().strip_prefix("server password ").map(Password::new));
            let http = Http::new(&url, password.as_ref(), None)?;
            let last = match api::health(&http, FIRST) {
                Ok(Condition::Well(health)) => return Ok(Running { child, http, health }),
                Ok(Condition::Unwell(said)) => said,
                Err(no @ NoAnswer::Failed(_)) if no.to_string().contains("no OpenCode") => return Err(no.into()),
                Err(no) => no.to_string(),
            };
            if Instant::now() > end {
                return Err(Stop::Failed(format!("{} is not ready within {} s: {last}", program.display(), patience.as_secs())));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

fn absolute(program: &Path) -> std::io::Result<PathBuf> {
    std::path::absolute(program)
}

/// The last line of what it printed, for a message; nothing that looks like a secret.
fn complaint(child: &Child, redactor: &Redactor) -> String {
    // The preview prints the password that it made up.
    let line = child.last_line(|line| !line.contains("password"));
    if line.is_empty() { String::new() } else { format!(": {}", redactor.foreign(&line)) }
}
