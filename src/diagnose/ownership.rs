//! `owner`: who is behind the display, socket, bus, tty or server that a value names.

use schemars::JsonSchema;
use serde::Serialize;

use crate::host::{Host, Unknown, Value};
use crate::origin::{self, Kind, Named, Owner};
use crate::redact::Redactor;
use crate::report::{Exit, Problem, Report, Rows};
use crate::verdict::{Evidence, Liveness, State};

use super::subject::{Subject, SubjectData};
use super::values::{Shown, judge, judge_typed, kind_of, typical_name};

/// The answer of `owner`.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Data {
    /// What was asked about.
    pub query: Query,
    /// What the value is.
    pub kind: Kind,
    /// Whether what it names is still there.
    pub liveness: Liveness,
    /// Who listens; absent where that could not be found out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner: Option<Owner>,
    /// The ssh connection that the carrier was born in: `client_ip client_port server_ip server_port`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub birth_connection: Option<String>,
    /// Whether it still belongs to that connection; null where that is not known or has no meaning.
    pub same_connection: Option<bool>,
    /// What was read.
    pub evidence: Vec<Evidence>,
    /// Whose environment the value was judged in.
    pub carrier: SubjectData,
}

impl Rows for Data {
    type Row = Data;
    const FIELD: Option<&'static str> = None;

    fn split(self) -> (Option<Self>, Vec<Data>) {
        (None, vec![self])
    }
}

/// What was asked about.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Query {
    /// The variable, when a name was given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Its value, or the value that was given.
    #[serde(flatten)]
    pub value: Shown,
}

/// Finds the owner of what `query` names: a variable that `subject` carries, or a value.
///
/// # Errors
/// The variable is not set (3), or the value is of no known form (2).
pub fn owner(host: &Host, redactor: &Redactor, query: &str, subject: &Subject, connect: bool) -> Result<Report<Data>, Problem> {
    let carrier = subject.carrier(host, connect);
    let (name, kind, shown, named) = if is_name(query) {
        let environ = match subject.known() {
            Ok(environ) => environ,
            Err(reason) => return Ok(unreadable(host, query, subject, &reason)),
        };
        let Some(value) = environ.get(query) else {
            return Err(Problem::new(Exit::NotFound, format!("{query} is not set in {}", subject.label))
                .hint(format!("See what is: whoseenv show {}", subject.reference)));
        };
        let kind = kind_of(query.as_bytes(), value.clear());
        let named = judge(&carrier, redactor, query.as_bytes(), value).unwrap_or_else(|| lives_not(query));
        (Some(query.to_owned()), kind, Shown::of(redactor, query.as_bytes(), value), named)
    } else if let Some(name) = query.split_once('=').map(|(name, _)| name).filter(|name| is_name(name)) {
        return Err(Problem::new(Exit::Usage, format!("{name}=… is a name and a value; give one of them"))
            .hint(format!("The value as {} carries it: whoseenv owner {name} {}", subject.label, subject.reference))
            .hint("Any value: what stands behind the `=`, alone"));
    } else {
        let kind = origin::kind_of_value(query.as_bytes()).ok_or_else(|| {
            Problem::new(Exit::Usage, format!("{query:?} is neither a variable's name nor a value of a known form"))
                .hint("A name such as DISPLAY, or a value such as localhost:10.0, :0, /run/user/1000/bus, unix:path=/run/user/1000/bus, /dev/pts/3")
        })?;
        let value = Value::Clear(query.into());
        let typical = typical_name(kind).as_bytes();
        let named = judge_typed(&carrier, redactor, typical, kind, query.as_bytes());
        let carried =
            subject.environ.as_ref().is_ok_and(|environ| environ.entries.iter().any(|entry| entry.value.as_ref() == Some(&value)));
        let shown = Shown::of(redactor, typical, &value);
        (None, kind, shown, if carried { named } else { origin::ssh::of_others(&carrier, named) })
    };
    let mut report = Report::new(
        "owner",
        Data {
            query: Query { name, value: shown },
            kind,
            liveness: named.liveness,
            owner: named.owner,
            birth_connection: subject.birth.ssh_connection.clone(),
            same_connection: named.same_connection,
            evidence: named.evidence,
            carrier: subject.data(host),
        },
    );
    report.notes = subject.notes.iter().cloned().chain(named.notes).collect();
    report.undetermined = report.data.liveness.state == State::Unknown;
    Ok(report)
}

fn is_name(query: &str) -> bool {
    let mut bytes = query.bytes();
    bytes.next().is_some_and(|first| first.is_ascii_alphabetic() || first == b'_')
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

fn lives_not(query: &str) -> Named {
    Named::new(State::None, format!("{query} names nothing that lives"))
}

fn unreadable(host: &Host, query: &str, subject: &Subject, reason: &Unknown) -> Report<Data> {
    let detail = format!("the environment of {} could not be read: {reason}", subject.label);
    let data = Data {
        query: Query { name: Some(query.to_owned()), value: Shown::default() },
        kind: kind_of(query.as_bytes(), None),
        liveness: Liveness::passive(State::Unknown, detail),
        owner: None,
        birth_connection: None,
        same_connection: None,
        evidence: Vec::new(),
        carrier: subject.data(host),
    };
    let mut report = Report::new("owner", data);
    report.not_permitted = *reason == Unknown::NotPermitted;
    report.undetermined = true;
    report
}
