//! Lines that repair an environment: paste-ready, shell-quoted, one command a line.

use std::fmt::Write;

use super::{AgentProcess, Role};
use crate::host::Host;
use crate::verdict::{Evidence, Finding, How, Outcome, registry};

/// What shall change. Values are this terminal's, checked alive by whoever asks.
#[derive(Clone, Copy, Debug)]
pub enum Fix<'a> {
    /// The agent's tools shall see these values.
    Carry(&'a [(&'a str, &'a [u8])]),
    /// These variables shall not reach the agent's tools.
    Drop(&'a [&'a str]),
    /// The process shall be started anew: its program or its registration is out of date.
    Restart,
}

/// A word of a shell command: as it is where that is safe, else in single quotes, else with escapes for bytes that
/// no terminal should be sent.
pub fn quote(value: &[u8]) -> String {
    let safe = |byte: &u8| byte.is_ascii_alphanumeric() || b"%+,-./:=@_".contains(byte);
    match std::str::from_utf8(value) {
        Ok(text) if !value.is_empty() && value.iter().all(safe) => text.to_owned(),
        Ok(text) if !text.chars().any(|c| c.is_control() || is_invisible(c)) => format!("'{}'", text.replace('\'', r"'\''")),
        _ => {
            let mut quoted = String::from("$'");
            for byte in value {
                match byte {
                    b'\'' | b'\\' => quoted.extend(['\\', char::from(*byte)]),
                    0x20..=0x7e => quoted.push(char::from(*byte)),
                    other => drop(write!(quoted, "\\x{other:02x}")),
                }
            }
            quoted.push('\'');
            quoted
        }
    }
}

/// Characters that change how the text around them is shown.
fn is_invisible(c: char) -> bool {
    matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}

/// `NAME=value` words before a command.
pub(super) fn assignments(values: &[(&str, &[u8])]) -> String {
    values.iter().map(|(name, value)| format!("{name}={}", quote(value))).collect::<Vec<_>>().join(" ")
}

/// The program as a command: its path, unless the file is gone or its path is not known.
pub(super) fn program(process: &AgentProcess, name: &str) -> String {
    match &process.exe {
        Ok(exe) if !exe.deleted => quote(exe.path.as_bytes()),
        Ok(exe) => quote(exe.base()),
        Err(_) => name.to_owned(),
    }
}

/// Commands that only the process's owner should run: as root, or as anybody else, they would start another's agent.
pub(super) fn as_owner(host: &Host, process: &AgentProcess, commands: Vec<String>) -> Vec<String> {
    // Under sudo the commands are pasted into the terminal, not into the tool.
    let asker = host.terminal().map_or(host.machine().uid, |terminal| terminal.stat.euid);
    let owner = process.stat.euid;
    if asker == owner {
        return commands;
    }
    let name = host.user_name(owner).unwrap_or_else(|| format!("uid {owner}"));
    std::iter::once(format!("as {name}, from the terminal whose environment it shall have:")).chain(commands).collect()
}

/// The finding that the program file was removed or replaced.
pub(super) fn deleted_exe(host: &Host, process: &AgentProcess, restart: Vec<String>) -> Option<Finding> {
    let exe = process.exe.as_ref().ok().filter(|exe| exe.deleted)?;
    // A tool child that outlives an upgrade is no daemon that serves from old code.
    if !matches!(process.role, Role::Daemon | Role::Client | Role::Multiplexer) {
        return None;
    }
    let running = process.product_version.as_deref().map_or_else(String::new, |version| format!(" (version {version})"));
    let evidence = Evidence {
        source: format!("/proc/{}/exe", process.stat.pid),
        how: How::Passive,
        at: host.machine().taken_at(),
        detail: String::from_utf8_lossy(&exe.shown()).into_owned(),
    };
    let message = format!("the program it runs{running} was removed or replaced on disk since it started");
    Some(Finding::new(&registry::DAEMON_DELETED_EXE, Outcome::Confirmed, process.subject(), message).evidence([evidence]).fix(restart))
}

/// The lines for agents of which no more than the signature is known.
pub(super) fn catalogued(process: &AgentProcess, wanted: &Fix<'_>) -> Vec<String> {
    let values: &[(&str, &[u8])] = match wanted {
        Fix::Carry(values) => values,
        Fix::Drop(names) => {
            return match process.agent.as_str() {
                "tmux" => names.iter().map(|name| format!("tmux set-environment -gu {name}")).collect(),
                "screen" => names.iter().map(|name| format!("screen -X unsetenv {name}")).collect(),
                _ => vec![format!("unset {}", names.join(" ")), restart(process)],
            };
        }
        Fix::Restart => return vec![restart(process)],
    };
    match (process.agent.as_str(), process.role) {
        ("tmux", Role::Multiplexer) => {
            let server = tmux_server(process);
            let mut lines: Vec<String> =
                values.iter().map(|(name, value)| format!("{server} set-environment -g {name} {}", quote(value))).collect();
            lines.push("in a pane that is open already:".to_owned());
            lines.push(format!("eval \"$({server} show-environment -gs)\""));
            // Not among tmux's defaults, so it would be stale again after the next attach.
            if values.iter().any(|(name, _)| *name == "WAYLAND_DISPLAY") {
                lines.push(format!("{server} set-option -ga update-environment ' WAYLAND_DISPLAY'"));
            }
            lines
        }
        ("screen", Role::Multiplexer) => values.iter().map(|(name, value)| format!("screen -X setenv {name} {}", quote(value))).collect(),
        ("emacs", Role::Daemon) => values
            .iter()
            .map(|(name, value)| format!("emacsclient -e {}", quote(format!("(setenv {name:?} {})", lisp(value)).as_bytes())))
            .collect(),
        _ => vec![restart(process)],
    }
}

fn lisp(value: &[u8]) -> String {
    let text = String::from_utf8_lossy(value);
    format!("\"{}\"", text.replace('\\', r"\\").replace('"', "\\\""))
}

fn tmux_server(process: &AgentProcess) -> String {
    let socket = process.listeners.iter().flatten().find_map(|listener| match listener {
        super::Listener::Unix(path) => Some(path),
        super::Listener::Tcp(_) => None,
    });
    socket.map_or_else(|| "tmux".to_owned(), |path| format!("tmux -S {}", quote(path.as_bytes())))
}

fn restart(process: &AgentProcess) -> String {
    match process.role {
        Role::Tool | Role::Other => match process.parent {
            Some(parent) => format!("it has the environment it was started with: repair its agent (pid {parent}), then run it again"),
            None => format!("restart it (pid {}) from this terminal", process.stat.pid),
        },
        _ => format!("restart it (pid {}) from this terminal", process.stat.pid),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_survive_a_shell() {
        for value in [
            &b"localhost:11.0"[..],
            b"",
            b"a b",
            b"it's",
            b"$(reboot)",
            b"\xff\xfe",
            b"line\nline",
            b"\\'\x1b[31m",
            "\u{202e}abc".as_bytes(),
        ] {
            let command = format!("printf %s {}", quote(value));
            let output = std::process::Command::new("bash").arg("-c").arg(&command).env("LC_ALL", "C").output().unwrap();
            assert_eq!(output.stdout, value, "{command}");
            assert!(command.chars().all(|c| !c.is_control() && !is_invisible(c)), "{command:?}");
        }
        assert_eq!(quote(b"localhost:11.0"), "localhost:11.0");
        assert_eq!(quote(b"it's"), r"'it'\''s'");
    }
}
