//! A registration file against the process it names: every fact side by side, all shown when they disagree.

use schemars::JsonSchema;
use serde::Serialize;

use crate::agent::opencode::{ListenerFact, PidFact, Registration};

/// What the file says and what is so.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Data {
    /// The file.
    pub path: String,
    /// The pid in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// What that process is: `agent`, `gone`, `other`, `foreign` (another account's), `later`, `unknown`.
    pub pid_is: &'static str,
    /// The version in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The version that the running program carries.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub program_version: Option<String>,
    /// Whether the program file was removed or replaced since; null where not known.
    pub deleted_exe: Option<bool>,
    /// The address in it, without user and password.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Who listens there: `named`, `nobody`, `another`, `unknown`.
    pub listener: &'static str,
    /// A password is in it.
    pub has_password: bool,
}

impl Data {
    /// The facts of one registration.
    pub fn of(registration: &Registration) -> Data {
        let registered = registration.registered();
        Data {
            path: registration.path.lossy().into_owned(),
            pid: registered.map(|registered| registered.pid),
            pid_is: match registration.pid {
                PidFact::Agent => "agent",
                PidFact::Gone => "gone",
                PidFact::Other { .. } => "other",
                PidFact::Foreign { .. } => "foreign",
                PidFact::Later => "later",
                PidFact::Unknown(_) => "unknown",
            },
            version: registered.and_then(|registered| registered.version.clone()),
            program_version: registration.program_version.clone(),
            deleted_exe: registration.deleted_exe,
            url: registered.map(|registered| registered.url.clone()),
            listener: match registration.listener {
                ListenerFact::Named => "named",
                ListenerFact::Nobody => "nobody",
                ListenerFact::Another { .. } => "another",
                ListenerFact::Unknown(_) => "unknown",
            },
            has_password: registered.is_some_and(|registered| registered.has_password),
        }
    }
}
