//! Login sessions of logind, and whether a user's services outlive the last of them.

use serde::{Deserialize, Serialize};

use crate::host::files::FileKind;
use crate::host::{Fact, Host, Pid, Unknown, View};

/// What `/run/systemd/sessions/<id>` says.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Session {
    /// Login name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Uid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<u32>,
    /// `active`, `online` or `closing`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// `user`, `greeter`, `manager`, …
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<String>,
    /// `tty`, `x11`, `wayland`, …
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// The service that made it, such as `sshd`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<String>,
    /// Address or name of the machine logged in from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remote_host: Option<String>,
    /// `pts/3`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tty: Option<String>,
    /// X display.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub display: Option<String>,
    /// The process that opened it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leader: Option<Pid>,
    /// When it was opened, microseconds since the epoch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub opened_us: Option<u64>,
}

/// The login session with this id.
///
/// # Errors
/// [`Unknown::Absent`] when it has ended, or there is no logind: see [`has_logind`].
pub fn session(host: &Host, id: &str) -> Fact<Session> {
    if id.is_empty() || !id.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        return Err(Unknown::Malformed("not an id of a session".to_owned()));
    }
    let document = host.document(View::OURS, format!("/run/systemd/sessions/{id}").as_bytes(), parse)?;
    document.content.map_err(Unknown::Malformed)
}

/// Whether logind keeps sessions on this machine.
pub fn has_logind(host: &Host) -> Fact<bool> {
    exists(host, "/run/systemd/sessions", FileKind::Directory).and_then(|there| Ok(there && manages(host)?))
}

/// Whether systemd is the machine's init: its own test is that this directory exists.
fn manages(host: &Host) -> Fact<bool> {
    exists(host, "/run/systemd/system", FileKind::Directory)
}

/// Whether a user's manager goes on after her last logout.
///
/// # Errors
/// [`Unknown::Absent`] where systemd manages no users at all.
pub fn lingers(host: &Host, user: &str) -> Fact<bool> {
    if user.is_empty() || user.contains('/') || user.starts_with('.') {
        return Err(Unknown::Malformed("not a login name".to_owned()));
    }
    if !manages(host)? {
        return Err(Unknown::Absent);
    }
    exists(host, &format!("/var/lib/systemd/linger/{user}"), FileKind::File)
}

fn exists(host: &Host, path: &str, kind: FileKind) -> Fact<bool> {
    match host.path(View::OURS, path.as_bytes()) {
        Ok(fact) => Ok(fact.kind == kind),
        Err(unknown) if unknown.is_absence() => Ok(false),
        Err(unknown) => Err(unknown),
    }
}

fn parse(bytes: &[u8]) -> Result<Session, String> {
    let text = std::str::from_utf8(bytes).map_err(|_| "it is not text".to_owned())?;
    let mut session = Session::default();
    for line in text.lines() {
        let Some((key, value)) = line.split_once('=') else { continue };
        let value = value.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or(value);
        if value.is_empty() {
            continue;
        }
        let text = || Some(value.to_owned());
        match key {
            "USER" => session.user = text(),
            "UID" => session.uid = value.parse().ok(),
            "STATE" => session.state = text(),
            "CLASS" => session.class = text(),
            "TYPE" => session.kind = text(),
            "SERVICE" => session.service = text(),
            "REMOTE_HOST" => session.remote_host = text(),
            "TTY" => session.tty = text(),
            "DISPLAY" => session.display = text(),
            "LEADER" => session.leader = value.parse().ok(),
            "REALTIME" => session.opened_us = value.parse().ok(),
            _ => {}
        }
    }
    // Older versions of logind wrote no name; one of the two is always there.
    if session.uid.is_none() && session.user.is_none() {
        return Err("it names no user".to_owned());
    }
    Ok(session)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "# This is private data. Do not parse.\nUID=1000\nUSER=ann\nACTIVE=1\nIS_DISPLAY=0\nSTATE=active\nREMOTE=1\nTYPE=tty\nCLASS=user\nSCOPE=session-3.scope\nREMOTE_HOST=192.0.2.7\nSERVICE=sshd\nTTY=pts/3\nLEADER=4711\nREALTIME=1700000000000000\n";

    fn tree(files: &[(&str, &str)]) -> (tempfile::TempDir, Host) {
        let tree = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = tree.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let host = Host::at_root(tree.path());
        (tree, host)
    }

    #[test]
    fn r03_the_login_of_birth_has_a_name() {
        let (_tree, host) = tree(&[("run/systemd/sessions/3", FILE), ("run/systemd/system/x", "")]);
        let session = session(&host, "3").unwrap();
        assert_eq!((session.user.as_deref(), session.uid, session.leader), (Some("ann"), Some(1000), Some(4711)));
        assert_eq!((session.remote_host.as_deref(), session.tty.as_deref()), (Some("192.0.2.7"), Some("pts/3")));
        assert_eq!(session.state.as_deref(), Some("active"));
        assert_eq!(super::session(&host, "4"), Err(Unknown::Absent));
        assert!(matches!(super::session(&host, "../3"), Err(Unknown::Malformed(_))));
        assert_eq!(has_logind(&host), Ok(true));
    }

    #[test]
    fn a_machine_without_systemd_is_not_one_that_does_not_linger() {
        let (_tree, host) = tree(&[("run/systemd/sessions/.keep", "")]);
        assert_eq!(lingers(&host, "ann"), Err(Unknown::Absent));
        assert_eq!(has_logind(&host), Ok(false));
        let (_tree, host) = tree(&[("run/systemd/system/x", ""), ("var/lib/systemd/linger/ann", "")]);
        assert_eq!((lingers(&host, "ann"), lingers(&host, "bob")), (Ok(true), Ok(false)));
        assert!(matches!(lingers(&host, "../ann"), Err(Unknown::Malformed(_))));
    }

    proptest::proptest! {
        #[test]
        fn no_file_panics(file in proptest::collection::vec(proptest::num::u8::ANY, 0..200)) {
            let _ = parse(&file);
        }
    }
}
