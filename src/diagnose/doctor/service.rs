//! PATH, needs, unit and lingering of a daemon, as findings.

use crate::agent::{Fix, note};
use crate::host::{Host, Unknown, Value};
use crate::origin::unit::{self, Manager};
use crate::origin::{Carrier, login};
use crate::redact::Redactor;
use crate::verdict::registry::{
    CLIPBOARD_UNRELIABLE, GUI_INCOMPLETE, LINGER_OFF, PATH_MISSING_DIRECTORY, PATH_RESOLVES_DIFFERENTLY, PATH_UNSET, UNIT_DIFFERS,
};
use crate::verdict::{Evidence, Finding, How, Outcome, State};

use super::super::portrait::equal;
use super::super::subject::Subject;
use super::super::values::Shown;
use super::needs::{Need, Purpose, Verdict};
use super::search::{self, Different, PathReport};
use super::trouble::{AUTHORITY, Carried};

/// PATH against the terminal's, and what is wrong with it.
pub fn path(
    host: &Host,
    daemon: &Subject,
    carrier: &Carrier<'_>,
    terminal: &Subject,
    terminal_carrier: &Carrier<'_>,
    redactor: &Redactor,
) -> (Option<PathReport>, Vec<Finding>) {
    let fix = || daemon.fix(host, &Fix::Restart);
    let report = match search::compare(carrier, terminal_carrier, redactor) {
        Ok(report) => report,
        Err(Unknown::Absent) if carrier.environ.get("PATH").is_none() => {
            let evidence = carrier.saw(&daemon.source, "no entry PATH");
            return (
                None,
                vec![Finding::new(&PATH_UNSET, Outcome::Confirmed, &daemon.label, "PATH is not set").evidence([evidence]).fix(fix())],
            );
        }
        Err(reason) => {
            let message = format!("which directories PATH names is not told: {reason}");
            let evidence = carrier.saw(&daemon.source, format!("PATH: {reason}"));
            return (None, vec![Finding::new(&PATH_MISSING_DIRECTORY, Outcome::Undetermined, &daemon.label, message).evidence([evidence])]);
        }
    };
    let mut findings = Vec::new();
    // What the terminal names in vain as well, no restart from it takes away.
    let missing: Vec<&String> = report.missing.iter().filter(|dir| !report.missing_here_too.contains(dir)).collect();
    if !missing.is_empty() {
        let names: Vec<&str> = missing.iter().map(|dir| dir.as_str()).collect();
        let message = format!("PATH names directories that are not there: {}", names.join(", "));
        let evidence = missing.iter().map(|dir| carrier.saw(dir.as_str(), "no such directory"));
        findings.push(Finding::new(&PATH_MISSING_DIRECTORY, Outcome::Confirmed, &daemon.label, message).evidence(evidence).fix(fix()));
    }
    if !report.unknown.is_empty() {
        let message = format!("directories of PATH could not be looked at: {}", report.unknown.join("; "));
        let evidence = report.unknown.iter().map(|line| carrier.saw("PATH", line));
        findings.push(Finding::new(&PATH_MISSING_DIRECTORY, Outcome::Undetermined, &daemon.label, message).evidence(evidence));
    }
    if !report.different.is_empty() && terminal.environ.is_ok() {
        let message = format!("programs are not those of {}: {}", terminal.label, counted(&report.different));
        let evidence = report.different.iter().map(|different| {
            let place = different.terminal.as_deref().or(different.daemon.as_deref()).unwrap_or("PATH");
            carrier.saw(place, sentence(different))
        });
        findings.push(Finding::new(&PATH_RESOLVES_DIFFERENTLY, Outcome::Confirmed, &daemon.label, message).evidence(evidence).fix(fix()));
    }
    (Some(report), findings)
}

/// How many names a line gives before it counts.
const NAMED: usize = 4;

fn names(programs: &[String]) -> String {
    let named = programs.iter().take(NAMED).cloned().collect::<Vec<_>>().join(", ");
    match programs.len().saturating_sub(NAMED) {
        0 => named,
        more => format!("{named} and {more} more"),
    }
}

/// `node, npm and 3 more are others; cargo is not found`.
fn counted(different: &[Different]) -> String {
    let all = |found: bool| {
        let programs: Vec<String> = different
            .iter()
            .filter(|different| different.daemon.is_some() == found)
            .flat_map(|different| &different.programs)
            .cloned()
            .collect();
        programs
    };
    let verb = |programs: &[String], one: &str, many: &str| if programs.len() == 1 { one.to_owned() } else { many.to_owned() };
    let mut parts = Vec::new();
    let (others, lost) = (all(true), all(false));
    if !others.is_empty() {
        parts.push(format!("{} {}", names(&others), verb(&others, "is another", "are others")));
    }
    if !lost.is_empty() {
        parts.push(format!("{} {} not found", names(&lost), verb(&lost, "is", "are")));
    }
    parts.join("; ")
}

/// What one pair of directories does to the programs between them; the evidence names the terminal's directory.
fn sentence(different: &Different) -> String {
    let names = names(&different.programs);
    match &different.daemon {
        Some(daemon) => format!("{names}: the daemon finds them in {daemon} first"),
        None => format!("{names}: not on the daemon's PATH"),
    }
}

/// What tools of the daemon could do only by luck, or not at all though each variable alone is alive. `carried` is what
/// the other repairs of this daemon bring.
pub fn needs(daemon: &Subject, carrier: &Carrier<'_>, needs: &[Need], carried: &Carried<'_>) -> Vec<Finding> {
    let brings_cookie = carried.iter().any(|(name, _)| *name == AUTHORITY);
    let mut findings = Vec::new();
    for need in needs {
        let display_alive = need.parts.iter().any(|part| part.name == "DISPLAY" && part.liveness.state == State::Alive);
        let (kind, fix) = match (need.purpose, need.verdict) {
            (Purpose::Clipboard, Verdict::Unreliable) => {
                (&CLIPBOARD_UNRELIABLE, vec![note("install wl-clipboard, and put it before xclip and xsel on PATH")])
            }
            // A dead display is a finding of its own; here the display answers and its cookie is missing.
            (Purpose::Gui, Verdict::Broken) if display_alive => match brings_cookie {
                true => (&GUI_INCOMPLETE, daemon.fix(carrier.host, &Fix::Carry(carried))),
                false => (&GUI_INCOMPLETE, vec![note("log in again with X forwarding: sshd writes the cookie then")]),
            },
            _ => continue,
        };
        let message = format!("{}: {}", need.purpose.words(), need.detail);
        let evidence =
            need.parts.iter().map(|part| carrier.saw(&part.name, format!("{}: {}", part.liveness.state.word(), part.liveness.detail)));
        findings.push(Finding::new(kind, Outcome::Confirmed, &daemon.label, message).evidence(evidence).fix(fix));
    }
    findings
}

/// What the unit declares and the process does not have; a user service that ends with the last login.
pub fn unit_and_linger(host: &Host, redactor: &Redactor, daemon: &Subject) -> Vec<Finding> {
    let Some(stat) = &daemon.stat else { return Vec::new() };
    let home = daemon.environ.as_ref().ok().and_then(|environ| environ.filled("HOME"));
    let Some((unit, manager)) = unit::of_process(&host.process(stat.pid), home) else { return Vec::new() };
    let mut findings = Vec::new();
    let saw = |source: String, detail: String| Evidence { source, how: How::Passive, at: host.machine().taken_at(), detail };
    if let (Ok(environ), Ok(declared)) = (&daemon.environ, unit::declared(host, &unit, &manager)) {
        for name in declared.names() {
            let Some(name) = name.as_str() else { continue };
            let (live, Some(setting)) = (environ.get(name), declared.columns(name).declared) else { continue };
            if equal(&setting.value, live) != Some(false) {
                continue;
            }
            let shown = |value: &Value| Shown::of(redactor, name.as_bytes(), value).human();
            let live = live.map_or_else(|| "not set".to_owned(), shown);
            let message = format!("{name}: {} sets {}, the process has {live}", setting.source, shown(&setting.value));
            let evidence = [saw(setting.source.clone(), format!("sets {name}")), saw(daemon.source.clone(), format!("{name}: {live}"))];
            findings.push(
                Finding::new(&UNIT_DIFFERS, Outcome::Confirmed, &daemon.label, message)
                    .evidence(evidence)
                    .fix(daemon.restart_unit(host, &unit, &manager)),
            );
        }
    }
    if let (Manager::User { .. }, Some(user)) = (&manager, host.user_name(stat.euid))
        && let Ok(false) = login::lingers(host, &user)
    {
        let message = format!("it runs in the user manager of {user} as {unit}, and lingering is off: it ends with the last login");
        let evidence = saw(format!("/var/lib/systemd/linger/{user}"), "no such file".to_owned());
        findings.push(
            Finding::new(&LINGER_OFF, Outcome::Confirmed, &daemon.label, message)
                .evidence([evidence])
                .fix([format!("loginctl enable-linger {user}")]),
        );
    }
    findings
}
