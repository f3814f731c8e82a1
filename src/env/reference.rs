//! Environment references: how a command line names an environment. Parsing only; what they lead to is found elsewhere.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use crate::host::Pid;

/// What a person named.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Reference {
    /// `self`: this terminal.
    Terminal,
    /// A process.
    Pid(Pid),
    /// An agent by name.
    Agent(String),
    /// `file:PATH`: a file of assignments.
    File(PathBuf),
    /// `snapshot:DIR#PID`: a process in a snapshot.
    Snapshot {
        /// The snapshot's directory.
        dir: PathBuf,
        /// The process in it.
        pid: Pid,
    },
    /// `tmux:SESSION`: what tmux gives new panes of a session. Runs tmux.
    Tmux(String),
    /// `systemd-user`: the user manager's environment. Runs systemctl.
    SystemdUser,
    /// `login-shell`: what a fresh login shell has. Runs the shell.
    LoginShell,
}

impl Reference {
    /// Whether reading it runs a command, which is done only when it was named.
    pub fn runs_a_command(&self) -> bool {
        matches!(self, Reference::Tmux(_) | Reference::SystemdUser | Reference::LoginShell)
    }
}

/// Why a text is no environment reference: a usage error.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReferenceError {
    /// Nothing was given.
    #[error("an environment reference is empty; {FORMS}")]
    Empty,
    /// A number that is no pid.
    #[error("{0:?} is no process id: process ids are 1 to 4194304")]
    Pid(String),
    /// `file:` without a path.
    #[error("`file:` needs a path, as in `file:/tmp/environment`")]
    File,
    /// `snapshot:` without a directory or a process.
    #[error("{0:?} is no snapshot reference: write `snapshot:DIR#PID`")]
    Snapshot(String),
    /// `tmux:` without a session.
    #[error("`tmux:` needs a session, as in `tmux:work`")]
    Tmux,
    /// Something else before a colon.
    #[error("{0:?} is no kind of environment reference; {FORMS}")]
    Scheme(String),
    /// No name that an agent could have.
    #[error("{0:?} is no environment reference; {FORMS}")]
    Form(String),
}

const FORMS: &str = "use `self`, a pid, an agent's name, `file:PATH`, `snapshot:DIR#PID`, `tmux:SESSION`, `systemd-user` or `login-shell`";

/// The kernel's largest process id.
const PID_MAX: Pid = 4_194_304;

fn pid(text: &str) -> Option<Pid> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|pid| digits && (1..=PID_MAX).contains(pid))
}

impl FromStr for Reference {
    type Err = ReferenceError;

    fn from_str(text: &str) -> Result<Reference, ReferenceError> {
        match text {
            "" => return Err(ReferenceError::Empty),
            "self" => return Ok(Reference::Terminal),
            "systemd-user" => return Ok(Reference::SystemdUser),
            "login-shell" => return Ok(Reference::LoginShell),
            _ => {}
        }
        if let Some((scheme, rest)) = text.split_once(':') {
            return match scheme {
                "file" if rest.is_empty() => Err(ReferenceError::File),
                "file" => Ok(Reference::File(rest.into())),
                // A directory may have a `#` in its name, a pid has none.
                "snapshot" => match rest.rsplit_once('#').and_then(|(dir, number)| Some((dir, pid(number)?))) {
                    Some((dir, pid)) if !dir.is_empty() => Ok(Reference::Snapshot { dir: dir.into(), pid }),
                    _ => Err(ReferenceError::Snapshot(text.to_owned())),
                },
                "tmux" if rest.is_empty() => Err(ReferenceError::Tmux),
                "tmux" => Ok(Reference::Tmux(rest.to_owned())),
                _ => Err(ReferenceError::Scheme(scheme.to_owned())),
            };
        }
        if text.bytes().all(|byte| byte.is_ascii_digit()) {
            return pid(text).map(Reference::Pid).ok_or_else(|| ReferenceError::Pid(text.to_owned()));
        }
        let first = text.bytes().next().is_some_and(|byte| byte.is_ascii_alphabetic());
        if first && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte)) {
            return Ok(Reference::Agent(text.to_owned()));
        }
        Err(ReferenceError::Form(text.to_owned()))
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reference::Terminal => f.write_str("self"),
            Reference::Pid(pid) => write!(f, "{pid}"),
            Reference::Agent(name) => f.write_str(name),
            Reference::File(path) => write!(f, "file:{}", path.display()),
            Reference::Snapshot { dir, pid } => write!(f, "snapshot:{}#{pid}", dir.display()),
            Reference::Tmux(session) => write!(f, "tmux:{session}"),
            Reference::SystemdUser => f.write_str("systemd-user"),
            Reference::LoginShell => f.write_str("login-shell"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_is_understood_and_written_the_same() {
        let forms = [
            ("self", Reference::Terminal),
            ("4242", Reference::Pid(4242)),
            ("opencode", Reference::Agent("opencode".to_owned())),
            ("claude-code", Reference::Agent("claude-code".to_owned())),
            ("file:/tmp/a:b", Reference::File("/tmp/a:b".into())),
            ("snapshot:/tmp/s#1#7", Reference::Snapshot { dir: "/tmp/s#1".into(), pid: 7 }),
            ("tmux:work", Reference::Tmux("work".to_owned())),
            ("systemd-user", Reference::SystemdUser),
            ("login-shell", Reference::LoginShell),
        ];
        for (text, reference) in forms {
            assert_eq!(text.parse::<Reference>().as_ref(), Ok(&reference));
            assert_eq!(reference.to_string(), text);
            assert_eq!(reference.runs_a_command(), ["tmux:work", "systemd-user", "login-shell"].contains(&text), "{text}");
        }
    }

    #[test]
    fn what_is_none_is_refused_with_the_reason() {
        let error = |text: &str| text.parse::<Reference>().unwrap_err().to_string();
        assert_eq!(error("0"), "\"0\" is no process id: process ids are 1 to 4194304");
        assert_eq!(error("99999999999"), "\"99999999999\" is no process id: process ids are 1 to 4194304");
        assert_eq!(error("file:"), "`file:` needs a path, as in `file:/tmp/environment`");
        assert_eq!(error("tmux:"), "`tmux:` needs a session, as in `tmux:work`");
        for text in ["snapshot:", "snapshot:/d", "snapshot:#1", "snapshot:/d#", "snapshot:/d#x", "snapshot:/d#+1"] {
            assert_eq!(error(text), format!("{text:?} is no snapshot reference: write `snapshot:DIR#PID`"));
        }
        let forms = "use `self`, a pid, an agent's name, `file:PATH`, `snapshot:DIR#PID`, `tmux:SESSION`, `systemd-user` or `login-shell`";
        assert_eq!(error(""), format!("an environment reference is empty; {forms}"));
        assert_eq!(error("http://x"), format!("\"http\" is no kind of environment reference; {forms}"));
        assert_eq!(error("/tmp/x"), format!("\"/tmp/x\" is no environment reference; {forms}"));
        assert_eq!(error("-1"), format!("\"-1\" is no environment reference; {forms}"));
    }
}
