//! Names and values as the JSON of every command has them: text, base64, or what may be told of them.

use schemars::JsonSchema;
use serde::Serialize;

use crate::env::{Class, catalog};
use crate::host::environ::{Entry, Value};
use crate::host::fact::encode;
use crate::host::{Fact, Masked, Unknown};
use crate::origin::{self, Carrier, Kind, Named};
use crate::redact::Redactor;
use crate::verdict::Liveness;

/// A byte string: `value` when UTF-8, else `value_b64`; `masked` when it must not be shown.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Shown {
    /// The text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// The bytes, when they are not UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value_b64: Option<String>,
    /// What may be told of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub masked: Option<Masked>,
}

impl Shown {
    /// Bytes that may be shown.
    pub fn clear(bytes: &[u8]) -> Shown {
        match std::str::from_utf8(bytes) {
            Ok(text) => Shown { value: Some(text.to_owned()), ..Shown::default() },
            Err(_) => Shown { value_b64: Some(encode(bytes)), ..Shown::default() },
        }
    }

    /// What may be told of bytes that must not be shown.
    pub fn hidden(masked: Masked) -> Shown {
        Shown { masked: Some(masked), ..Shown::default() }
    }

    /// A value under the rules.
    pub fn of(redactor: &Redactor, name: &[u8], value: &Value) -> Shown {
        match value {
            Value::Masked(masked) => Shown { masked: Some(masked.clone()), ..Shown::default() },
            Value::Clear(raw) => match redactor.value(name, raw.as_bytes()) {
                Ok(()) => Shown::clear(raw.as_bytes()),
                Err(masked) => Shown { masked: Some(masked), ..Shown::default() },
            },
        }
    }

    /// A value that the rules have seen already.
    pub fn judged(value: &Value) -> Shown {
        match value {
            Value::Masked(masked) => Shown { masked: Some(masked.clone()), ..Shown::default() },
            Value::Clear(raw) => Shown::clear(raw.as_bytes()),
        }
    }

    /// For a person: the text, or `‹12 bytes, secret_name, 1a2b3c›`.
    pub fn human(&self) -> String {
        match (&self.value, &self.value_b64, &self.masked) {
            (Some(text), ..) => text.clone(),
            (_, Some(base64), _) => format!("base64:{base64}"),
            (.., Some(masked)) => format!("‹masked: {} bytes, {}, {}›", masked.len, masked.rule, masked.fingerprint),
            _ => String::new(),
        }
    }
}

/// A name: `name` when UTF-8, else `name_b64`.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
pub struct Name {
    /// The text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The bytes, when they are not UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name_b64: Option<String>,
}

impl Name {
    /// A name from bytes.
    pub fn of(bytes: &[u8]) -> Name {
        match std::str::from_utf8(bytes) {
            Ok(text) => Name { name: Some(text.to_owned()), name_b64: None },
            Err(_) => Name { name: None, name_b64: Some(encode(bytes)) },
        }
    }

    /// For a person.
    pub fn human(&self) -> String {
        self.name.clone().unwrap_or_else(|| format!("base64:{}", self.name_b64.as_deref().unwrap_or_default()))
    }
}

/// One entry of an environment block.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Variable {
    /// Its name; absent for an entry without `=`.
    #[serde(flatten)]
    pub name: Name,
    /// Its value.
    #[serde(flatten)]
    pub value: Shown,
    /// An entry without `=`, whole.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub raw: Option<Shown>,
    /// What it is about.
    pub class: Class,
    /// Whether what it names is still there; absent where it names nothing that lives.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub liveness: Option<Liveness>,
}

/// The kind of a variable: the catalogue's, or the one its value gives away.
pub fn kind_of(name: &[u8], value: Option<&[u8]>) -> Kind {
    let variable = catalog::lookup(name);
    value.map_or(variable.kind, |value| variable.kind_of(value))
}

/// Judges what an entry names. None where it names nothing that lives.
///
/// Of a value that a snapshot keeps masked, the verdict was kept beside it when the snapshot was taken.
pub fn judge(carrier: &Carrier<'_>, redactor: &Redactor, name: &[u8], value: &Value) -> Option<Named> {
    let kind = kind_of(name, value.clear());
    if matches!(kind, Kind::Plain | Kind::PathList) {
        return None;
    }
    match value {
        Value::Clear(raw) => {
            let Err(masked) = redactor.value(name, raw.as_bytes()) else {
                return Some(beside_masked(carrier, redactor, origin::examine(carrier, kind, raw.as_bytes())));
            };
            // What is read about a masked value names it: neither a snapshot nor a sentence may have that.
            let named = told_of_masked(carrier.host.unrecorded(|| origin::examine(carrier, kind, raw.as_bytes())));
            // Kept for a snapshot, which will not have the value to judge.
            let _ = kept(carrier, name, &masked, || Ok(named.clone()));
            Some(named)
        }
        Value::Masked(masked) => {
            let verdict = kept(carrier, name, masked, || Err(Unknown::NotCaptured));
            Some(verdict.unwrap_or_else(|reason| Named::unknown("the value is masked, and its verdict is lost", &reason)))
        }
    }
}

/// The verdict on a value that may be shown, where another one that may not be was read beside it, such as the runtime directory
/// of a Wayland socket: then its words may tell that one.
fn beside_masked(carrier: &Carrier<'_>, redactor: &Redactor, named: Named) -> Named {
    let texts = || {
        let evidence = named.evidence.iter().flat_map(|piece| [&piece.source, &piece.detail]);
        evidence.chain(&named.notes).chain([&named.liveness.detail])
    };
    let told = origin::READ_BESIDE.iter().any(|name| {
        let value = carrier.environ.filled(name).filter(|value| value.len() > 3);
        value.is_some_and(|value| redactor.rule(name.as_bytes(), value.as_bytes()).is_some() && texts().any(|text| text.contains(value)))
    });
    if told {
        let detail = format!("(a value beside it is masked) {}", named.liveness.state.text());
        return Named { liveness: Liveness { detail, ..named.liveness }, evidence: Vec::new(), notes: Vec::new(), ..named };
    }
    named
}

/// What may be told of the verdict on a typed value, which is of no variable.
pub fn judge_typed(carrier: &Carrier<'_>, redactor: &Redactor, name: &[u8], kind: Kind, value: &[u8]) -> Named {
    match redactor.value(name, value) {
        Ok(()) => origin::examine(carrier, kind, value),
        Err(_) => told_of_masked(carrier.host.unrecorded(|| origin::examine(carrier, kind, value))),
    }
}

/// A value typed by the person is judged for showing as the variable that usually carries it.
pub fn typical_name(kind: Kind) -> &'static str {
    match kind {
        Kind::BusAddress => "DBUS_SESSION_BUS_ADDRESS",
        Kind::SshConnection => "SSH_CONNECTION",
        Kind::Tmux => "TMUX",
        Kind::WaylandDisplay => "WAYLAND_DISPLAY",
        _ => "DISPLAY",
    }
}

/// What may be told of the verdict on a masked value: the state, and what that means.
fn told_of_masked(named: Named) -> Named {
    let liveness = Liveness { detail: format!("(its value is masked) {}", named.liveness.state.text()), ..named.liveness };
    Named { liveness, evidence: Vec::new(), notes: Vec::new(), ..named }
}

/// The verdict on a masked value has its address by name and fingerprint: one process can be seen with two environments.
fn kept(carrier: &Carrier<'_>, name: &[u8], masked: &Masked, read: impl FnOnce() -> Fact<Named>) -> Fact<Named> {
    let file = carrier.process.map_or_else(|| "terminal.json".to_owned(), |stat| format!("processes/{}.json", stat.pid));
    let name = Name::of(name).human();
    carrier.host.fact(&file, &format!("verdict {name} {}", masked.fingerprint), read)
}

/// An entry with its verdict, as JSON has it.
pub fn variable(carrier: &Carrier<'_>, redactor: &Redactor, entry: &Entry) -> Variable {
    let name = entry.name.as_bytes();
    let whole = |raw| Variable { name: Name::default(), value: Shown::default(), raw: Some(raw), class: Class::Other, liveness: None };
    match &entry.value {
        None => whole(redactor.raw(name).map_or_else(Shown::hidden, |()| Shown::clear(name))),
        // A snapshot keeps an entry without a name that can be shown under an empty one.
        Some(Value::Masked(masked)) if name.is_empty() => whole(Shown::hidden(masked.clone())),
        Some(Value::Clear(value)) if redactor.name(name).is_err() => {
            whole(redactor.raw(&[name, b"=", value.as_bytes()].concat()).map_or_else(Shown::hidden, |()| Shown::clear(name)))
        }
        Some(value) => Variable {
            name: Name::of(name),
            value: Shown::of(redactor, name, value),
            raw: None,
            class: catalog::lookup(name).class,
            liveness: judge(carrier, redactor, name, value).map(|named| named.liveness),
        },
    }
}
