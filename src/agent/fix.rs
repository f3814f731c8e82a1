//! Lines that repair an environment: paste-ready, shell-quoted, one command a line.

use std::fmt::Write;

use super::{AgentProcess, Role};
use crate::host::{Host, Raw, View};
use crate::redact;
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

/// A line that is no command: a shell that it is pasted into passes over it.
pub fn note(text: impl std::fmt::Display) -> String {
    format!("# {text}")
}

/// The process's program as a command: its path where a file is there, else what this terminal finds as `name`; none
/// where there is neither, and nothing could be started in the place of what is ended.
pub(super) fn program(host: &Host, process: &AgentProcess, name: &str) -> Option<String> {
    let there = |path: &[u8]| host.path(host.process(process.stat.pid).view().unwrap_or(View::OURS), path).is_ok();
    match &process.exe {
        // An update leaves another program in the old one's place.
        Ok(exe) if !exe.deleted || there(exe.path.as_bytes()) => Some(quote(exe.path.as_bytes())),
        Ok(_) => on_path(host, name).map(|path| quote(path.as_bytes())),
        Err(_) => Some(name.to_owned()),
    }
}

/// Instead of lines that would end a process and start nothing.
pub(super) fn install_first(host: &Host, process: &AgentProcess, name: &str) -> Vec<String> {
    let exe =
        process.exe.as_ref().map_or_else(|_| "its program".to_owned(), |exe| String::from_utf8_lossy(exe.path.as_bytes()).into_owned());
    let line = format!(
        "install {name} first: {exe} is gone, and there is no {name} on PATH to start in its place. Then ask again: whoseenv doctor"
    );
    as_owner(host, process, vec![note(line)])
}

/// What a service would start its program from, where nothing stands there any more: then it ends and does not start again.
pub fn gone(host: &Host, process: &AgentProcess) -> Option<String> {
    let exe = process.exe.as_ref().ok().filter(|exe| exe.deleted)?;
    let handle = host.process(process.stat.pid);
    let view = handle.view().unwrap_or(View::OURS);
    let argv = handle.cmdline().unwrap_or_default();
    // A manager gives the path that the unit names, which may lead to another release by now.
    let named = argv.first().and_then(|first| first.clear()).filter(|first| first.starts_with(b"/"));
    let stands = |path: &[u8]| !host.path(view, path).is_err_and(|unknown| unknown.is_absence());
    if stands(exe.path.as_bytes()) || named.is_some_and(stands) {
        return None;
    }
    Some(String::from_utf8_lossy(redact::place(exe.path.as_bytes())).into_owned())
}

/// Where this terminal finds a program.
pub(super) fn on_path(host: &Host, name: &str) -> Option<Raw> {
    let terminal = host.terminal().ok()?;
    let path = terminal.environ.as_ref().ok()?.bytes("PATH").filter(|path| redact::secret(b"PATH", path, false).is_none())?;
    let has = |dir: &&[u8]| {
        let programs = host.programs(View::OURS, dir);
        programs.is_ok_and(|programs| programs.iter().any(|program| program.as_bytes() == name.as_bytes()))
    };
    let dir = path.split(|byte| *byte == b':').filter(|dir| dir.starts_with(b"/")).find(has)?;
    Some(Raw([dir, b"/", name.as_bytes()].concat()))
}

/// The account whose terminal the lines are pasted into: under sudo the person's, not the tool's.
pub(super) fn asker(host: &Host) -> u32 {
    host.terminal().map_or(host.machine().uid, |terminal| terminal.stat.euid)
}

/// Commands that only the process's owner should run: as root, or as anybody else, they would start another's agent.
pub(super) fn as_owner(host: &Host, process: &AgentProcess, commands: Vec<String>) -> Vec<String> {
    as_user(host, process.stat.euid, commands)
}

/// The same for whatever belongs to this account.
pub(super) fn as_user(host: &Host, owner: u32, commands: Vec<String>) -> Vec<String> {
    if asker(host) == owner {
        return commands;
    }
    let name = host.user_name(owner).unwrap_or_else(|| format!("uid {owner}"));
    std::iter::once(note(format!("as {name}, from the terminal whose environment it shall have:"))).chain(commands).collect()
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
        detail: String::from_utf8_lossy(redact::place(&exe.shown())).into_owned(),
    };
    let message = format!("the program it runs{running} was removed or replaced on disk since it started");
    Some(Finding::new(&registry::DAEMON_DELETED_EXE, Outcome::Confirmed, process.subject(), message).evidence([evidence]).fix(restart))
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
