//! `show`: one process with its parents, its birth and its environment.

use schemars::JsonSchema;
use serde::Serialize;

use crate::agent::Role;
use crate::host::machine::rfc3339;
use crate::host::{Environ, Host, Pid, Raw, Stat, Unknown, Value};
use crate::origin::Birth;
use crate::origin::unit::{self, Columns, Setting};
use crate::redact::Redactor;
use crate::report::{Report, Rows};
use crate::verdict::registry::{DAEMON_UNREADABLE, ENVIRON_OVERWRITTEN};
use crate::verdict::{Finding, Outcome};

use super::doctor::needs::{self, Need};
use super::subject::Subject;
use super::values::{Name, Shown, Variable, variable};

/// The answer of `show`.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Data {
    /// The process; absent for an environment that is not a process's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub process: Option<Process>,
    /// From the process up to pid 1.
    pub chain: Vec<Link>,
    /// Where it was born.
    pub birth: Birth,
    /// What it would take to start a GUI program, to use git over ssh, to copy.
    pub needs: Vec<Need>,
    /// Its environment in the block's own order, duplicates kept.
    pub environment: Vec<Variable>,
    /// What its systemd unit declares beside what it has.
    pub unit_environment: Vec<UnitRow>,
}

impl Rows for Data {
    type Row = Variable;
    const FIELD: Option<&'static str> = Some("environment");

    fn split(mut self) -> (Option<Self>, Vec<Variable>) {
        let rows = std::mem::take(&mut self.environment);
        (Some(self), rows)
    }
}

/// The process that was asked about.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Process {
    /// Process id.
    pub pid: Pid,
    /// When it started, RFC 3339.
    pub start_time: String,
    /// When it started, in clock ticks since boot.
    pub start_ticks: u64,
    /// How long ago it started, in milliseconds.
    pub age_ms: u64,
    /// The kernel's name of it.
    pub comm: String,
    /// The kernel's letter for its state; `Z` is a zombie.
    pub state: char,
    /// The agent it is; null where it is none.
    pub agent: Option<String>,
    /// What it is for.
    pub role: Role,
    /// Version of the product, from the program itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub product_version: Option<String>,
    /// The session of the agent that it works for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// Effective uid.
    pub uid: u32,
    /// Login name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// The program file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exe: Option<Shown>,
    /// The working directory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<Shown>,
    /// The controlling tty.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tty: Option<String>,
    /// Why its environment could not be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unreadable: Option<String>,
}

/// One process of the parent chain.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Link {
    /// Process id.
    pub pid: Pid,
    /// Parent.
    pub ppid: Pid,
    /// The kernel's name of it.
    pub comm: String,
    /// Its arguments, masked by the rules.
    pub argv: Vec<Shown>,
    /// Effective uid.
    pub uid: u32,
    /// Login name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// The session leader's pid.
    pub session: Pid,
    /// The controlling tty.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tty: Option<String>,
    /// When it started, RFC 3339.
    pub start_time: String,
    /// The same in clock ticks since boot.
    pub start_ticks: u64,
}

/// A variable that the unit's files speak of, beside what the process has: unit file, drop-in, live.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct UnitRow {
    /// The variable.
    #[serde(flatten)]
    pub name: Name,
    /// What the unit file alone sets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unit_file: Option<SettingData>,
    /// What the last drop-in that sets it sets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drop_in: Option<SettingData>,
    /// What all files together set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub declared: Option<SettingData>,
    /// The file that takes it away (UnsetEnvironment=).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unset_by: Option<String>,
    /// The file that hands on the manager's own (PassEnvironment=).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub passed_by: Option<String>,
    /// What the process has; absent where it has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub live: Option<Shown>,
    /// Whether the process has what the files set; null where they set nothing, or one could not be read.
    pub same: Option<bool>,
}

/// A value, and the file that gives it.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct SettingData {
    /// The file.
    pub source: String,
    /// The value.
    #[serde(flatten)]
    pub value: Shown,
}

/// Looks at one subject from all sides.
pub fn portrait(host: &Host, redactor: &Redactor, subject: &Subject, connect: bool) -> Report<Data> {
    let carrier = subject.carrier(host, connect);
    let there = carrier.host;
    let environment = carrier.environ.entries.iter().map(|entry| variable(&carrier, redactor, entry)).collect();
    let chain = subject.stat.as_ref().map(|stat| there.chain(stat.pid)).unwrap_or_default();
    let data = Data {
        process: subject.stat.as_ref().map(|stat| process(there, redactor, subject, stat)),
        chain: chain.iter().map(|stat| link(there, redactor, stat)).collect(),
        birth: subject.birth.clone(),
        needs: if subject.known().is_ok() { needs::of(&carrier, redactor, needs::handed_on(host, subject).as_ref()) } else { Vec::new() },
        environment,
        unit_environment: unit_rows(there, redactor, subject),
    };
    let mut report = Report::new("show", data);
    report.notes = subject.notes.clone();
    match &subject.environ {
        Err(reason) => {
            report.not_permitted = *reason == Unknown::NotPermitted;
            let message = format!("the environment of {} could not be read: {reason}", subject.label);
            let fix = format!("ask as its user or as root: sudo whoseenv show {}", subject.reference);
            let finding = Finding::new(&DAEMON_UNREADABLE, Outcome::Undetermined, &subject.label, message)
                .evidence([carrier.saw(&subject.source, reason.to_string())]);
            report.findings.push(if report.not_permitted { finding.fix([fix]) } else { finding });
        }
        Ok(environ) if environ.overwritten => {
            report.undetermined = true;
            let message = "it wrote over its environment block; what it was started with can no longer be read";
            let evidence = carrier.saw(&subject.source, "the block holds no environment");
            report.findings.push(Finding::new(&ENVIRON_OVERWRITTEN, Outcome::Confirmed, &subject.label, message).evidence([evidence]));
        }
        Ok(environ) if environ.entries.is_empty() => report.notes.push(match subject.known() {
            Err(why) => why.to_string(),
            Ok(_) => "the environment is empty".to_owned(),
        }),
        Ok(_) => {}
    }
    report
}

fn process(host: &Host, redactor: &Redactor, subject: &Subject, stat: &Stat) -> Process {
    let machine = host.machine();
    let process = host.process(stat.pid);
    Process {
        pid: stat.pid,
        start_time: rfc3339(machine.started_ms(stat.start_ticks)),
        start_ticks: stat.start_ticks,
        age_ms: machine.age_ms(stat.start_ticks),
        comm: stat.comm.lossy().into_owned(),
        state: stat.state,
        agent: subject.agent.as_ref().map(|agent| agent.agent.clone()),
        role: subject.agent.as_ref().map_or(Role::Other, |agent| agent.role),
        product_version: subject.agent.as_ref().and_then(|agent| agent.product_version.clone()),
        session_id: subject.agent.as_ref().and_then(|agent| agent.session_id.clone()),
        uid: stat.euid,
        user: host.user_name(stat.euid),
        exe: process.exe().ok().map(|exe| Shown::clear(redactor.place(&exe.shown()))),
        cwd: process.cwd().ok().map(|cwd| Shown::clear(redactor.place(cwd.as_bytes()))),
        tty: stat.tty(),
        unreadable: subject.environ.as_ref().err().map(ToString::to_string),
    }
}

fn link(host: &Host, redactor: &Redactor, stat: &Stat) -> Link {
    let argv = host.process(stat.pid).cmdline().unwrap_or_default();
    Link {
        pid: stat.pid,
        ppid: stat.ppid,
        comm: stat.comm.lossy().into_owned(),
        argv: redactor.arguments(&argv).iter().map(Shown::judged).collect(),
        uid: stat.euid,
        user: host.user_name(stat.euid),
        session: stat.session,
        tty: stat.tty(),
        start_time: rfc3339(host.machine().started_ms(stat.start_ticks)),
        start_ticks: stat.start_ticks,
    }
}

fn unit_rows(host: &Host, redactor: &Redactor, subject: &Subject) -> Vec<UnitRow> {
    let (Some(stat), Ok(environ)) = (&subject.stat, &subject.environ) else { return Vec::new() };
    let Some((name, manager)) = unit::of_process(&host.process(stat.pid), environ.filled("HOME")) else { return Vec::new() };
    let Ok(declared) = unit::declared(host, &name, &manager) else { return Vec::new() };
    declared
        .names()
        .iter()
        .filter(|name| redactor.name(name.as_bytes()).is_ok())
        .filter_map(|name| Some(unit_row(redactor, environ, name, declared.columns(name.as_str()?))))
        .collect()
}

fn unit_row(redactor: &Redactor, environ: &Environ, name: &Raw, columns: Columns) -> UnitRow {
    let name = name.as_bytes();
    let live = std::str::from_utf8(name).ok().and_then(|name| environ.get(name));
    let data = |setting: &Setting| SettingData { source: setting.source.clone(), value: Shown::of(redactor, name, &setting.value) };
    UnitRow {
        name: Name::of(name),
        same: columns.declared.as_ref().and_then(|declared| equal(&declared.value, live)),
        unit_file: columns.unit_file.as_ref().map(data),
        drop_in: columns.drop_in.as_ref().map(data),
        declared: columns.declared.as_ref().map(data),
        unset_by: columns.unset_by,
        passed_by: columns.passed_by,
        live: live.map(|value| Shown::of(redactor, name, value)),
    }
}

/// Whether a declared value is the live one, where both are known.
pub fn equal(declared: &Value, live: Option<&Value>) -> Option<bool> {
    match (declared, live) {
        (_, None) => Some(false),
        (Value::Masked(declared), Some(Value::Masked(live))) => Some(declared.fingerprint == live.fingerprint),
        (declared, Some(live)) => Some(declared.clear()? == live.clear()?),
    }
}
