//! `doctor`: everything that is wrong between a terminal and the agent daemons of a machine, and the fix for each.

pub mod inheritance;
pub mod multiplexers;
pub mod needs;
pub mod points;
pub mod registration;
pub mod search;
pub mod service;
pub mod trouble;
pub mod usable;

use schemars::JsonSchema;
use serde::Serialize;

use crate::agent::{self, AgentProcess, Catalog, Mode, Role, opencode};
use crate::host::machine::rfc3339;
use crate::host::{Fact, Host, Pid, Unknown};
use crate::origin::{self, Birth, Kind};
use crate::redact::Redactor;
use crate::report::{Exit, Problem, Report};
use crate::verdict::registry::{DAEMON_UNREADABLE, HANDED_ON_UNKNOWN};
use crate::verdict::{Finding, Liveness, Outcome};

use crate::env::reference::Reference;

use super::binaries::older;
use super::contrast;
use super::subject::{Narrow, Subject, SubjectData};
use super::values::Shown;

/// The answer of `doctor`.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Data {
    /// What every daemon is compared with.
    pub terminal: SubjectData,
    /// What the terminal's own variables name.
    pub terminal_variables: Vec<Point>,
    /// What the terminal itself could do.
    pub terminal_needs: Vec<needs::Need>,
    /// Every daemon found, by pid.
    pub daemons: Vec<Daemon>,
    /// How many clients and tool children were seen beside them.
    pub others: Vec<Other>,
    /// What was looked for.
    pub looked_for: Vec<String>,
    /// Every program that was found, and the databases that they would open; with `--binaries` alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub programs: Option<older::Data>,
}

impl crate::report::Rows for Data {
    type Row = Daemon;
    const FIELD: Option<&'static str> = Some("daemons");

    fn split(mut self) -> (Option<Self>, Vec<Daemon>) {
        let rows = std::mem::take(&mut self.daemons);
        (Some(self), rows)
    }
}

/// One daemon against the terminal.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Daemon {
    /// Process id.
    pub pid: Pid,
    /// When it started, RFC 3339.
    pub start_time: String,
    /// The same in clock ticks since boot.
    pub start_ticks: u64,
    /// How long ago it started, in milliseconds.
    pub age_ms: u64,
    /// The kernel's name of it.
    pub comm: String,
    /// The agent it is.
    pub agent: String,
    /// How it runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<Mode>,
    /// Version of the product.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub product_version: Option<String>,
    /// Effective uid.
    pub uid: u32,
    /// Login name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Where it was born.
    pub birth: Birth,
    /// Whether the ssh connection of its birth is still established.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub birth_connection: Option<Liveness>,
    /// Why its environment could not be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unreadable: Option<String>,
    /// Variables that name something that lives, and those that differ from the terminal's.
    pub variables: Vec<contrast::Row>,
    /// What its tools could do.
    pub needs: Vec<needs::Need>,
    /// Variables that it has and that do not reach its tools' shells.
    pub dropped: Vec<Dropped>,
    /// Its PATH against the terminal's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<search::PathReport>,
    /// The file that clients find it by.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub registration: Option<registration::Data>,
    /// Processes below it, with the secrets that reach them.
    pub children: Vec<inheritance::Child>,
}

/// A variable that a daemon keeps from its tools.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Dropped {
    /// The variable.
    pub name: String,
    /// What drops it, such as `ZeroClaw's safe list`.
    pub by: String,
}

/// A variable of the terminal that names something that lives.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Point {
    /// The variable.
    pub name: String,
    /// Its value.
    #[serde(flatten)]
    pub value: Shown,
    /// Whether what it names is still there.
    pub liveness: Liveness,
}

impl Point {
    /// Whether no more can be told of this one than of the other: both are masked, and stand alike.
    pub fn is_like(&self, other: &Point) -> bool {
        self.value.masked.is_some() && other.value.masked.is_some() && self.liveness == other.liveness
    }
}

/// A process of an agent that is no daemon.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Other {
    /// Process id.
    pub pid: Pid,
    /// When it started, in clock ticks since boot.
    pub start_ticks: u64,
    /// The agent.
    pub agent: String,
    /// What it is for.
    pub role: Role,
}

/// Why a process that was asked for is none of the daemons examined: it is none, or whether it is may not be looked at.
pub fn no_daemon(host: &Host, pid: Pid) -> Problem {
    if host.process(pid).exe().err() == Some(Unknown::NotPermitted) {
        return Problem::new(
            Exit::NotPermitted,
            format!("whether pid {pid} is an agent daemon is not known: its program may not be read from here"),
        )
        .hint("Ask as its owner, or as root.");
    }
    Problem::new(Exit::NotFound, format!("no agent daemon has pid {pid}"))
        .hint("See which run: whoseenv ps")
        .hint(format!("Look at any process: whoseenv show {pid}"))
}

/// Examines every daemon that `narrow` admits against `terminal`.
///
/// # Errors
/// When the processes of the machine cannot be listed.
pub fn examine(host: &Host, redactor: &Redactor, terminal: &Subject, narrow: &Narrow, connect: bool) -> Fact<Report<Data>> {
    let agents = agent::discover(host)?;
    let terminal_carrier = terminal.carrier(host, connect);
    let points = points::of(&terminal_carrier, redactor);
    let mut findings = points::terminal_findings(host, redactor, terminal, &points, connect);
    // A registration that names no process of the agent belongs to no daemon below.
    let orphans = opencode::registrations(host, &agents).into_iter().filter(|registration| {
        narrow.admits_file(host, registration.roots.uid, crate::binary::product::OPENCODE)
            && agents.iter().all(|agent| agent.registration.as_ref().is_none_or(|attached| attached.path != registration.path))
    });
    findings.extend(orphans.flat_map(|registration| registration.findings(host)));
    let (mut daemons, mut others) = (Vec::new(), Vec::new());
    let mut not_permitted = false;
    for agent in &agents {
        if !narrow.admits(host, &agent.stat, &agent.agent) {
            continue;
        }
        if agent.role != Role::Daemon {
            findings.extend(multiplexers::finding(host, redactor, agent, (terminal, &points), connect));
            others.push(Other { pid: agent.stat.pid, start_ticks: agent.stat.start_ticks, agent: agent.agent.clone(), role: agent.role });
            continue;
        }
        let subject = Subject::process(host, Reference::Pid(agent.stat.pid), agent.stat.clone(), Some(agent.clone()));
        not_permitted |= subject.environ.as_ref().err() == Some(&Unknown::NotPermitted);
        let (mut daemon, found) = daemon(host, redactor, agent, &subject, terminal, &points, connect);
        findings.extend(found);
        let (children, found) = inheritance::children(host, redactor, &subject, &agents);
        daemon.children = children;
        findings.extend(found);
        daemons.push(daemon);
    }
    let data = Data {
        terminal: terminal.data(host),
        terminal_variables: points.iter().map(|point| point.data(redactor)).collect(),
        terminal_needs: if terminal.environ.is_ok() { needs::of(&terminal_carrier, redactor, None) } else { Vec::new() },
        daemons,
        others,
        looked_for: Catalog::in_force().agents().iter().map(|agent| agent.id.clone()).collect(),
        programs: None,
    };
    let mut report = Report::new("doctor", data);
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    report.findings = findings;
    report.not_permitted = not_permitted;
    report.undetermined = terminal.environ.is_err();
    report.notes = terminal.notes.clone();
    report.notes.extend(super::hidden(host));
    if let Err(reason) = &terminal.environ {
        report.notes.push(format!("the environment of {} could not be read: {reason}", terminal.label));
    }
    Ok(report)
}

/// Adds every program that is found here, and the ones that are older than the database they would open.
///
/// # Errors
/// When the processes of the machine cannot be listed.
pub fn add_programs(host: &Host, report: &mut Report<Data>) -> Fact<()> {
    let examined = older::examine(host)?;
    report.data.programs = Some(examined.data);
    report.findings.extend(examined.findings);
    report.findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    report.notes.extend(examined.notes);
    report.undetermined |= examined.undetermined;
    Ok(())
}

fn daemon(
    host: &Host,
    redactor: &Redactor,
    agent: &AgentProcess,
    subject: &Subject,
    terminal: &Subject,
    points: &[points::Judged],
    connect: bool,
) -> (Daemon, Vec<Finding>) {
    let stat = &agent.stat;
    let carrier = subject.carrier(host, connect);
    let terminal_carrier = terminal.carrier(host, connect);
    let mut findings = agent::agent(&agent.agent).findings(host, agent);
    let mut daemon = Daemon {
        pid: stat.pid,
        start_time: rfc3339(host.machine().started_ms(stat.start_ticks)),
        start_ticks: stat.start_ticks,
        age_ms: host.machine().age_ms(stat.start_ticks),
        comm: stat.comm.lossy().into_owned(),
        agent: agent.agent.clone(),
        mode: agent.mode,
        product_version: agent.product_version.clone(),
        uid: stat.euid,
        user: host.user_name(stat.euid),
        birth: subject.birth.clone(),
        birth_connection: None,
        unreadable: None,
        variables: Vec::new(),
        needs: Vec::new(),
        dropped: Vec::new(),
        path: None,
        registration: agent.registration.as_ref().map(registration::Data::of),
        children: Vec::new(),
    };
    match subject.known() {
        Err(reason) => {
            daemon.unreadable = Some(reason.to_string());
            let by_name = if agent.is_certain() { "" } else { "; what it is, is known by its name alone" };
            let message = format!("its environment could not be read: {reason}. Nothing is known of it, neither dead nor fine{by_name}");
            let finding = Finding::new(&DAEMON_UNREADABLE, Outcome::Undetermined, &subject.label, message)
                .evidence([carrier.saw(&subject.source, reason.to_string())]);
            findings.push(match reason {
                Unknown::NotPermitted => finding.fix([super::ask_as(host, "doctor --pid", stat)]),
                _ => finding,
            });
        }
        Ok(environ) => {
            daemon.birth_connection = subject
                .birth
                .ssh_connection
                .as_ref()
                .map(|connection| origin::examine(&carrier, Kind::SshConnection, connection.as_bytes()).liveness);
            daemon.variables = contrast::rows(host, redactor, subject, terminal, connect).into_iter().filter(points::is_telling).collect();
            let handed = needs::handed_on(host, subject);
            daemon.needs = needs::of(&carrier, redactor, handed.as_ref());
            let dropped = handed.iter().flat_map(|handed| &handed.dropped).filter(|(name, _)| redactor.name(name.as_bytes()).is_ok());
            daemon.dropped = dropped.map(|(name, by)| Dropped { name: name.clone(), by: by.clone() }).collect();
            let here = (terminal, &terminal_carrier, points);
            let theirs = points::of(&carrier, redactor);
            let files = trouble::cookie_files(&carrier, &terminal_carrier);
            let (found, carried) = trouble::daemon_findings(subject, &carrier, &theirs, here, handed.as_ref(), &files);
            findings.extend(found);
            findings.extend(service::needs(subject, &carrier, &daemon.needs, &carried));
            findings.extend(handed.and_then(|handed| handed.unread).map(|unread| {
                let message = format!("which of its variables its shells get could not be found out: {}: {}", unread.source, unread.reason);
                Finding::new(&HANDED_ON_UNKNOWN, Outcome::Undetermined, &subject.label, message)
                    .evidence([carrier.saw(unread.source, unread.reason)])
            }));
            findings.extend(inheritance::findings(host, &carrier, subject, environ, (terminal, &terminal_carrier)));
            let (path, found) = service::path(host, subject, &carrier, terminal, &terminal_carrier, redactor);
            daemon.path = path;
            findings.extend(found);
        }
    }
    findings.extend(service::unit_and_linger(host, redactor, subject));
    (daemon, findings)
}
