//! What came with the environment and should not have: markers of other agents, leftovers, secrets in children.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use crate::agent::{AgentProcess, Fix, Role};
use crate::env::diff::{self, State};
use crate::env::{Class, catalog};
use crate::host::{Environ, Host, Masked, Pid, Value};
use crate::origin::{Carrier, one_place};
use crate::redact::{self, Redactor, Rule};
use crate::verdict::registry::{ENVIRON_DIFFERS, ENVIRON_INHERITED_ONLY, ENVIRON_LEAKED_MARKER, SECRET_INHERITED, Topic};
use crate::verdict::{Evidence, Finding, How, Outcome};

use super::super::subject::Subject;
use super::super::values::Name;

/// A process below a daemon.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Child {
    /// Process id.
    pub pid: Pid,
    /// When it started, in clock ticks since boot.
    pub start_ticks: u64,
    /// The kernel's name of it.
    pub comm: String,
    /// `tool` where the agent started it for a session; `other` where it did not: an MCP server, say.
    pub role: Role,
    /// Variables in it that are secrets by name or by shape: no values.
    pub secrets: Vec<Secret>,
    /// Why its environment could not be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unreadable: Option<String>,
}

/// A variable that is a secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Secret {
    /// The variable.
    #[serde(flatten)]
    pub name: Name,
    /// What may be told of its value.
    pub masked: Masked,
    /// The daemon has the same value: that is where it comes from.
    pub from_daemon: bool,
}

/// Findings about what is in the daemon's block besides what names something.
pub fn findings(
    host: &Host,
    carrier: &Carrier<'_>,
    daemon: &Subject,
    environ: &Environ,
    (terminal, here): (&Subject, &Carrier<'_>),
) -> Vec<Finding> {
    let mut findings = Vec::new();
    let saw = |detail: String| carrier.saw(&daemon.source, detail);
    findings.extend(leaked(host, daemon, environ, &saw));
    if let Ok(theirs) = &terminal.environ {
        findings.extend(leftovers((host, daemon), (carrier, environ), (here, theirs), &saw));
    }
    findings
}

fn leaked(host: &Host, daemon: &Subject, environ: &Environ, saw: &dyn Fn(String) -> Evidence) -> Vec<Finding> {
    let mut by_agent = BTreeMap::<&str, Vec<&str>>::new();
    for entry in &environ.entries {
        let variable = catalog::lookup(entry.name.as_bytes());
        if let (true, Some(agent), Some(name)) = (variable.instance, variable.agent.as_deref(), entry.name.as_str()) {
            by_agent.entry(agent).or_default().push(name);
        }
    }
    let by_agent = by_agent.into_iter();
    by_agent
        .map(|(agent, names)| {
            let message = format!("it was started from inside {agent} and carries that instance's identity: {}", names.join(", "));
            let fix = daemon.fix(host, &Fix::Drop(&names));
            Finding::new(&ENVIRON_LEAKED_MARKER, Outcome::Confirmed, &daemon.label, message)
                .evidence([saw(format!("has {}", names.join(", ")))])
                .fix(fix)
        })
        .collect()
}

/// Variables that steer programs and stand in one environment alone, or differ.
fn leftovers(
    (host, daemon): (&Host, &Subject),
    (carrier, ours): (&Carrier<'_>, &Environ),
    (here, theirs): (&Carrier<'_>, &Environ),
    saw: &dyn Fn(String) -> Evidence,
) -> Vec<Finding> {
    let steers = |class: Class| matches!(class, Class::Git | Class::Proxy | Class::VersionManager | Class::Containers);
    let (mut only, mut differing) = (Vec::new(), Vec::new());
    for difference in diff::diff(ours, theirs, true) {
        let Some(name) = difference.name.as_str() else { continue };
        let variable = catalog::lookup(name.as_bytes());
        let telling = steers(variable.class) || variable.class == Class::AgentConfig;
        match difference.state {
            State::OnlyA if telling => only.push(name.to_owned()),
            State::Differs if telling && !is_one(name, carrier, here) => differing.push(name.to_owned()),
            _ => {}
        }
    }
    let mut findings = Vec::new();
    if !only.is_empty() {
        let message = format!("present only by inheritance from whoever started it: {}", only.join(", "));
        findings.push(
            Finding::new(&ENVIRON_INHERITED_ONLY, Outcome::Confirmed, &daemon.label, message)
                .evidence([saw(format!("has {}", only.join(", ")))])
                .fix(daemon.fix(host, &Fix::Restart)),
        );
    }
    if !differing.is_empty() {
        let message = format!("not as in this terminal: {}", differing.join(", "));
        let fix = daemon.fix(host, &Fix::Restart);
        findings.push(
            Finding::new(&ENVIRON_DIFFERS, Outcome::Confirmed, &daemon.label, message)
                .evidence([saw(format!("differs in {}", differing.join(", ")))])
                .fix(fix),
        );
    }
    findings
}

/// Whether two values are one written in two ways: a socket through a link, a proxy with and without the `/` at its end.
fn is_one(name: &str, carrier: &Carrier<'_>, here: &Carrier<'_>) -> bool {
    let Some((ours, theirs)) = carrier.environ.bytes(name).zip(here.environ.bytes(name)) else { return false };
    let bare = |value: &[u8]| value.strip_suffix(b"/").unwrap_or(value).to_vec();
    match catalog::lookup(name.as_bytes()).topic {
        Some(Topic::Proxy) => bare(ours) == bare(theirs),
        Some(topic @ (Topic::Containers | Topic::Audio)) => one_place::is_one(topic, (carrier, ours), (here, theirs)),
        _ => false,
    }
}

/// The processes below a daemon, each with the secrets that it can read.
pub fn children(host: &Host, redactor: &Redactor, daemon: &Subject, agents: &[AgentProcess]) -> (Vec<Child>, Vec<Finding>) {
    let (Some(stat), Ok(table)) = (&daemon.stat, host.table()) else { return (Vec::new(), Vec::new()) };
    let mut below: Vec<_> = table.values().filter(|child| child.pid != stat.pid && is_below(table, child.ppid, stat.pid)).collect();
    below.sort_by_key(|child| child.pid);
    let mut children = Vec::new();
    let mut findings = Vec::new();
    for child in below {
        let process = host.process(child.pid);
        let role = agents.iter().find(|agent| agent.stat.pid == child.pid).map_or(Role::Other, |agent| agent.role);
        let (secrets, unreadable) = match process.environ() {
            Ok(environ) => (secrets(redactor, &environ, daemon.environ.as_ref().ok()), None),
            Err(reason) => (Vec::new(), Some(reason.to_string())),
        };
        let comm = child.comm.lossy().into_owned();
        if role == Role::Other && !secrets.is_empty() {
            let names: Vec<String> = secrets.iter().map(|secret| secret.name.human()).collect();
            let message = format!("its child {comm} (pid {}) can read {} secrets: {}", child.pid, names.len(), names.join(", "));
            let evidence = Evidence {
                source: format!("/proc/{}/environ", child.pid),
                how: How::Passive,
                at: host.machine().taken_at(),
                detail: format!("has {}", names.join(", ")),
            };
            findings.push(Finding::new(&SECRET_INHERITED, Outcome::Confirmed, &daemon.label, message).evidence([evidence]));
        }
        children.push(Child { pid: child.pid, start_ticks: child.start_ticks, comm, role, secrets, unreadable });
    }
    (children, findings)
}

fn is_below(table: &std::collections::HashMap<Pid, crate::host::Stat>, mut pid: Pid, top: Pid) -> bool {
    // A parent chain is never longer than the table; a torn table must not make it endless.
    for _ in 0..table.len() {
        if pid == top {
            return true;
        }
        match table.get(&pid) {
            Some(stat) if pid > 1 => pid = stat.ppid,
            _ => return false,
        }
    }
    false
}

fn secrets(redactor: &Redactor, environ: &Environ, daemon: Option<&Environ>) -> Vec<Secret> {
    let mut secrets = Vec::new();
    for entry in &environ.entries {
        let (Some(value), name) = (&entry.value, entry.name.as_bytes()) else { continue };
        let masked = match value {
            Value::Clear(raw) => {
                redact::secret(name, raw.as_bytes(), catalog::lookup(name).id).map(|rule| redactor.masked(raw.as_bytes(), rule))
            }
            Value::Masked(masked) => Rule::is_secret(&masked.rule).then(|| masked.clone()),
        };
        let Some(masked) = masked.filter(|_| redactor.name(name).is_ok()) else { continue };
        let theirs = daemon.and_then(|daemon| entry.name.as_str().and_then(|name| daemon.get(name)));
        secrets.push(Secret { name: Name::of(name), masked, from_daemon: theirs == Some(value) });
    }
    secrets
}
