//! Environments that a command tells: a tmux session's, the user manager's, a login shell's.

use std::ffi::OsString;

use crate::env::reference::Reference;
use crate::host::command::Layer;
use crate::host::environ::Environ;
use crate::host::{Host, Unknown, Value};
use crate::origin::tmux;
use crate::report::{Exit, Problem};

use super::Subject;

pub(super) fn of_command(host: &Host, reference: &Reference) -> Result<Subject, Problem> {
    let terminal = host.terminal().ok();
    let environ = terminal.and_then(|terminal| terminal.environ.as_ref().ok());
    let layer = match reference {
        Reference::Tmux(session) => {
            let around = environ.and_then(|environ| tmux::Place::parse(environ.bytes("TMUX")?)).map(|place| place.socket);
            let socket = around.or_else(|| tmux::socket_of(&[], environ, host.machine().uid)).unwrap_or_default();
            tmux::session_layer(host, &socket, session)
        }
        Reference::SystemdUser => host.layer(&["systemctl", "--user", "show-environment"].map(OsString::from), manager_layer),
        _ => host.layer(&login_shell(environ), |output| Layer { environ: Environ::parse(output), removed: Vec::new() }),
    };
    match layer {
        Ok(layer) => {
            let mut subject = Subject::of_text(reference.clone(), reference.to_string(), layer.environ, true);
            if !layer.removed.is_empty() {
                let names = layer.removed.iter().map(|name| name.lossy().into_owned()).collect::<Vec<_>>().join(", ");
                subject.notes.push(format!("{reference} takes away: {names}"));
            }
            Ok(subject)
        }
        Err(Unknown::NotCaptured) => Err(Problem::new(Exit::Undetermined, format!("the snapshot does not hold {reference}"))
            .hint("It is kept when the snapshot is taken with --connect from inside tmux.")),
        Err(Unknown::Absent) => Err(Problem::new(Exit::NotFound, format!("{reference}: its program is not installed"))),
        Err(reason) => Err(Problem::new(Exit::NotFound, format!("{reference}: {reason}"))),
    }
}

/// What `systemctl show-environment` prints: an assignment a line, quoted for a shell where it must be.
fn manager_layer(output: &[u8]) -> Layer {
    let mut environ = Environ::parse_file(output);
    for entry in &mut environ.entries {
        if let Some(Value::Clear(value)) = &mut entry.value {
            value.0 = unquoted(&value.0);
        }
    }
    Layer { environ, removed: Vec::new() }
}

/// Takes `$'…'` off, with the escapes that systemd writes inside.
fn unquoted(value: &[u8]) -> Vec<u8> {
    let Some(inner) = value.strip_prefix(b"$'").and_then(|rest| rest.strip_suffix(b"'")) else { return value.to_vec() };
    let mut plain = Vec::with_capacity(inner.len());
    let mut bytes = inner.iter().copied();
    while let Some(byte) = bytes.next() {
        let escaped = (byte == b'\\').then(|| bytes.next()).flatten();
        plain.push(match escaped {
            Some(b'n') => b'\n',
            Some(b't') => b'\t',
            Some(other) => other,
            None => byte,
        });
    }
    plain
}

/// A login shell that starts with nothing but who the user is, and prints what it has then.
fn login_shell(environ: Option<&Environ>) -> Vec<OsString> {
    let kept = ["HOME", "USER", "LOGNAME", "SHELL", "TERM", "LANG"];
    let kept = kept.iter().filter_map(|name| Some(OsString::from(format!("{name}={}", environ?.filled(name)?))));
    let shell = environ.and_then(|environ| environ.filled("SHELL")).unwrap_or("/bin/sh");
    let words = ["env", "-i"].map(OsString::from).into_iter().chain(kept);
    words.chain([shell, "-l", "-c", "env -0"].map(OsString::from)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_manager_quotes_is_unquoted() {
        let layer = manager_layer(b"A=plain\nB=$'two\\nlines and \\'quotes\\''\n");
        assert_eq!((layer.environ.text("A"), layer.environ.text("B")), (Some("plain"), Some("two\nlines and 'quotes'")));
    }
}
