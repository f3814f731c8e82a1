//! What can be asked of every OpenCode: whose child a command is, the daemon's environment, the overlay, PTYs, requests.

use serde_json::{Value, json};

use super::Support;
use super::api::Dialect;
use super::bed::{Bed, OVERLAY, Way};
use crate::host::Host;
use crate::probe::in_band::Shown;
use crate::probe::readback::Seen;
use crate::probe::{Stop, Trail, listed, map, nonce};
use crate::verdict::How;

/// O1: whose child it is.
pub fn child_of_daemon(bed: &Bed, plain: &Result<Seen, Stop>, trail: &mut Trail) -> Result<(), Stop> {
    bed.not_in_band("it cannot be told whose child a command is")?;
    let seen = plain.as_ref().map_err(Clone::clone)?;
    trail.shell(seen, format!("its parent is {} ({}); the daemon is {}", seen.parent_name, seen.parent, bed.daemon));
    trail.holds(seen.parent == bed.daemon, || format!("the parent is {}, not the daemon {}", seen.parent, bed.daemon));
    Ok(())
}

/// O2: without an upload the daemon's environment.
pub fn daemons_environment(bed: &mut Bed, plain: &Result<Seen, Stop>, trail: &mut Trail) -> Result<(), Stop> {
    let own = Host::live().process(std::process::id()).environ().map_err(|reason| Stop::Failed(reason.to_string()))?;
    let differ = own.entries.iter().filter(|entry| entry.value.as_ref() != bed.block.get(&entry.name.lossy())).count();
    let lacks = bed.block.entries.iter().filter(|entry| own.get(&entry.name.lossy()).is_none()).count();
    trail.control(differ + lacks > 0, "the one who asks has the daemon's own environment")?;
    let count = bed.block.entries.len();
    trail.saw(format!("/proc/{}/environ", bed.daemon), How::Passive, format!("the daemon was started with {count} variables"));
    let seen = match plain {
        Ok(seen) => Shown::Shell(Box::new(seen.clone())),
        Err(Stop::Silent(why)) => {
            trail.saw("out of band", How::RunsACommand, format!("{why}; read in band instead"));
            let session = bed.session()?;
            Shown::Told(bed.tell(&session, &[])?)
        }
        Err(stop) => return Err(stop.clone()),
    };
    let deviations = bed.deviations(&seen);
    match &seen {
        Shown::Shell(seen) => {
            let extra = bed.extra(seen);
            let also = if extra.is_empty() { String::new() } else { format!("; also there: {}", listed(&extra)) };
            trail.shell(seen, format!("{} of the daemon's values are not there as they are{also}", deviations.len()));
            let asker = extra.iter().filter(|name| own.get(name).is_some() && own.get(name) == seen.block.get(name));
            let asker: Vec<_> = asker.cloned().collect();
            trail.holds(asker.is_empty(), || format!("of the one who asks: {}", listed(&asker)));
        }
        Shown::Told(told) => {
            let (names, values) = told.count();
            trail.shown(
                &seen,
                format!("of {names} of the daemon's names whether they are set, of {values} whether the value is the daemon's"),
            );
        }
    }
    trail.holds(deviations.is_empty(), || format!("not the daemon's: {}", deviations.join(", ")));
    Ok(())
}

/// What a host lays over: the name and the value; no value where any will do.
type Overlay = &'static [(&'static str, Option<&'static str>)];

/// Laid over the session's shell and the model's tool, by version (seen on 1.18.34 and next-16350; 2.0.x as the preview).
fn overlay_of_commands(dialect: Dialect) -> Overlay {
    match dialect {
        Dialect::V1 => &[("TERM", Some("dumb")), ("AGENT", Some("1")), ("OPENCODE", Some("1")), ("OPENCODE_PID", None)],
        Dialect::V2 => &[("TERM", Some("xterm-256color")), ("OPENCODE_TERMINAL", Some("1"))],
    }
}

/// Laid over the model's tool. 1.18.34 leaves it the daemon's TERM: seen with a daemon whose TERM was `vt220`.
fn overlay_of_tools(dialect: Dialect) -> Overlay {
    match dialect {
        Dialect::V1 => &[("AGENT", Some("1")), ("OPENCODE", Some("1")), ("OPENCODE_PID", None)],
        Dialect::V2 => overlay_of_commands(dialect),
    }
}

/// Laid over a PTY.
fn overlay_of_ptys(dialect: Dialect) -> Overlay {
    match dialect {
        Dialect::V1 => &[("TERM", Some("xterm-256color")), ("OPENCODE_TERMINAL", Some("1")), ("OPENCODE", None), ("OPENCODE_PID", None)],
        Dialect::V2 => &[("TERM", Some("xterm-256color")), ("OPENCODE_TERMINAL", Some("1"))],
    }
}

/// O7: what is laid over everything else.
pub fn overlay(bed: &mut Bed, support: &Support, plain: &Result<Seen, Stop>, trail: &mut Trail) -> Result<(), Stop> {
    bed.not_in_band("nothing can be told of values that were not injected")?;
    let dialect = bed.dialect();
    let expected = overlay_of_commands(dialect);
    for (name, value) in expected {
        let own = bed.block.text(name);
        trail.control(own.is_none() || value.is_some() && own != *value, format!("the daemon itself has {name}, as the overlay has it"))?;
    }
    let shell = match support {
        Support::Yes(_) => {
            let mark = nonce("overlay")?;
            // A terminal that no overlay names, and a mark that shows that the upload took effect.
            let session = bed.uploaded(&map(&[("WHOSEENV_MARK", &mark), ("TERM", "whoseenv-uploaded")]))?;
            let seen = bed.run(Way::Session(&session))?;
            trail.control(seen.has("WHOSEENV_MARK", &mark), "the upload took no effect")?;
            seen
        }
        _ => plain.clone()?,
    };
    laid(trail, "the session's shell", &shell, expected);
    let tool = match bed.model {
        Some(_) => {
            let session = bed.session()?;
            let seen = bed.run(Way::Tool(&session))?;
            laid(trail, "the model's tool", &seen, overlay_of_tools(dialect));
            Some(seen)
        }
        None => {
            trail.saw("the model's tool", How::Connects, "not asked: a live host has a model of its own");
            None
        }
    };
    let pty = bed.run(Way::Pty)?;
    laid(trail, "a PTY", &pty, overlay_of_ptys(dialect));
    // A plugin's overlay, which is whatever is left: what the shell has, the tool must have too.
    if let (Some(tool), Ok(plain)) = (&tool, plain) {
        let lost: Vec<_> = bed.plugins.iter().filter(|name| tool.block.get(name) != plain.block.get(name)).cloned().collect();
        trail.holds(lost.is_empty(), || {
            format!("laid over the session's shell by a plugin, and not over the model's tool: {}", listed(&lost))
        });
    }
    Ok(())
}

fn laid(trail: &mut Trail, what: &str, seen: &Seen, overlay: Overlay) {
    let shown = |name: &str| seen.block.text(name).map_or(format!("{name} is not set"), |value| format!("{name}={value}"));
    // What OpenCode itself lays over names nothing of anybody's.
    let texts: Vec<_> = overlay.iter().map(|(name, value)| if value.is_some() { shown(name) } else { (*name).to_owned() }).collect();
    let more = OVERLAY.iter().filter(|name| overlay.iter().all(|(known, _)| known != *name) && seen.get(name).is_some());
    let more: Vec<_> = more.filter(|name| name.starts_with("OPENCODE") || name.contains("AGENT")).copied().collect();
    let more = if more.is_empty() { String::new() } else { format!(", also {}", more.join(" ")) };
    trail.shell(seen, format!("{what}: {}{more}", texts.join(" ")));
    for (name, value) in overlay {
        let found = seen.block.text(name);
        trail.holds(found.is_some() && (value.is_none() || found == *value), || format!("{what}: {}", shown(name)));
    }
}

/// O10: a PTY, and a command that names no session.
pub fn without_session(bed: &mut Bed, support: &Support, trail: &mut Trail) -> Result<(), Stop> {
    bed.not_in_band("nothing can be told of a PTY, whose output no answer holds")?;
    let mark = nonce("pty")?;
    let session = match support {
        Support::Yes(_) => bed.uploaded(&map(&[("WHOSEENV_MARK", &mark)]))?,
        _ => bed.session()?,
    };
    if let Support::Yes(_) = support {
        let own = bed.run(Way::Session(&session))?;
        trail.control(own.has("WHOSEENV_MARK", &mark), "the session's own shell does not see its upload")?;
        let fresh = bed.session()?;
        let plain = bed.look(&fresh, &[])?;
        trail.control(bed.deviations(&plain).is_empty(), "a session without an upload has not the daemon's environment")?;
    }
    let mut ways = vec![("a PTY", Way::Pty)];
    match bed.dialect() {
        Dialect::V2 => ways.push(("/api/shell without a session", Way::Bare(None))),
        Dialect::V1 => trail.saw("/api/shell", How::Connects, "1.x has no such path; a PTY alone was asked"),
    }
    for (what, way) in ways {
        let seen = Shown::Shell(Box::new(bed.run(way)?));
        let deviations = bed.deviations(&seen);
        trail.shown(&seen, format!("{what}: {} of the daemon's values are not there as they are", deviations.len()));
        trail.holds(!seen.equals("WHOSEENV_MARK", &mark), || format!("{what} has the session's upload"));
        trail.holds(deviations.is_empty(), || format!("{what}: {}", deviations.join(", ")));
    }
    Ok(())
}

/// What is added to a request that runs a command.
pub struct Addition {
    /// In words.
    pub what: &'static str,
    /// Headers.
    pub headers: Vec<(&'static str, String)>,
    /// The query, encoded.
    pub query: String,
    /// Fields of the body.
    pub fields: Value,
}

/// Everything that might be taken for an environment, with this value in it.
pub fn additions(mark: &str) -> [Addition; 3] {
    let variables = json!({"WHOSEENV_REQUEST": mark, "DISPLAY": mark});
    let (text, one, mark) = (variables.to_string(), format!("WHOSEENV_REQUEST={mark}"), mark.to_owned());
    let headers = vec![
        ("x-opencode-environment", text.clone()),
        ("x-opencode-env", text.clone()),
        ("x-opencode-variables", text.clone()),
        ("x-opencode-session-environment", text.clone()),
        ("x-environment", text.clone()),
        ("x-env", one.clone()),
        ("env", one),
        ("environment", text),
        ("display", mark.clone()),
        ("x-display", mark.clone()),
        ("x-opencode-display", mark.clone()),
        ("whoseenv-request", mark.clone()),
    ];
    let names = ["env%5BWHOSEENV_REQUEST%5D", "environment%5BWHOSEENV_REQUEST%5D", "variables%5BWHOSEENV_REQUEST%5D", "WHOSEENV_REQUEST"];
    let query = names.map(|name| format!("{name}={mark}")).join("&");
    let fields = json!({"env": variables, "environment": variables, "variables": variables, "metadata": {"env": variables}});
    [
        ("twelve headers", (headers, String::new(), Value::Null)),
        ("four query fields", (Vec::new(), query, Value::Null)),
        ("four body fields", (Vec::new(), String::new(), fields)),
    ]
    .map(|(what, (headers, query, fields))| Addition { what, headers, query, fields })
}

/// O13: fields of a request that might be taken for an environment.
pub fn requests(bed: &mut Bed, trail: &mut Trail) -> Result<(), Stop> {
    let session = bed.session()?;
    let mark = nonce("request")?;
    let asked = [("WHOSEENV_REQUEST", mark.as_str())];
    let plain = bed.look(&session, &asked)?;
    trail.control(bed.deviations(&plain).is_empty(), "a run without these fields has not the daemon's environment")?;
    for addition in additions(&mark) {
        let what = addition.what;
        let seen = match &plain {
            Shown::Shell(_) => {
                bed.start_with(&session, &addition).and_then(|running| bed.finish(running)).map(|seen| Shown::Shell(Box::new(seen)))
            }
            Shown::Told(_) => {
                bed.ask_in_band(&session, &asked, Some(&addition)).and_then(|asking| bed.hear(&session, &asking)).map(Shown::Told)
            }
        };
        match seen {
            Ok(seen) => {
                let changed = differing(&plain, &seen);
                trail.shown(&seen, format!("with {what}: {} values differ from the run without them", changed.len()));
                trail.holds(changed.is_empty(), || format!("{what} changed {}", listed(&changed)));
            }
            // A request that is refused changes nothing.
            Err(Stop::Answered(400 | 422, why)) => {
                trail.saw(what, How::Connects, format!("refused as a whole: {why}"));
            }
            Err(stop) => return Err(stop),
        }
    }
    Ok(())
}

/// Names whose value, or whose being there, is not the same in both.
fn differing(a: &Shown, b: &Shown) -> Vec<String> {
    match (a, b) {
        (Shown::Told(a), Shown::Told(b)) => a.differing(b),
        (Shown::Shell(a), Shown::Shell(b)) => {
            let mut names: Vec<String> =
                a.names().into_iter().chain(b.names()).filter(|name| a.block.get(name) != b.block.get(name)).collect();
            names.sort();
            names.dedup();
            names
        }
        // Both are read in the same way.
        _ => Vec::new(),
    }
}
