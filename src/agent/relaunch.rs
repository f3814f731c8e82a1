//! A process ended and started again as it was started: the same program, words, directory and places, with the
//! environment of the terminal that the lines are pasted into.
//!
//! What may not be shown stands in no line: the shell reads it from the process before that is ended.

use super::{AgentProcess, fix};
use crate::env::{Class, catalog};
use crate::host::snapshot::HIDDEN;
use crate::host::{Environ, Host, Value};
use crate::redact::{self, FingerprintKey, Redactor, ShowPolicy};

/// Variables by which a program finds its files, whichever program it is.
const ROOTS: [&str; 5] = ["HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME"];

/// The part of a command that makes it the process's own, and what has to be read before.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Own {
    /// Lines that read what may not be shown, to be run while the process is still there.
    pub before: Vec<String>,
    /// What stands before the program, with a space at its end: `B=C env -u A `.
    pub prefix: String,
}

/// Where the process keeps its files and how it is set up, as far as that differs from this terminal: else a command
/// would reach, or start, another daemon of the same user. Settings are the variables that begin with `settings`.
pub(super) fn own(host: &Host, process: &AgentProcess, settings: &str) -> Own {
    let pid = process.stat.pid;
    let (Ok(environ), Ok(terminal)) = (host.process(pid).environ(), host.terminal()) else { return Own::default() };
    if environ.overwritten {
        return Own::default();
    }
    // Another account's daemon is started from a terminal that is not this one: whatever is set has to be set there.
    let others = terminal.stat.euid != process.stat.euid;
    let here = if others { Ok(&NOTHING) } else { terminal.environ.as_ref() };
    let Ok(here) = here else { return Own::default() };
    let mut own = Own::default();
    let (mut unset, mut set) = (String::new(), String::new());
    for name in names(&environ, here, settings) {
        if others && name == "HOME" {
            continue;
        }
        // A mark is of the process that carries it, and of no other.
        let theirs = if is_mark(&name) { None } else { filled(&environ, &name) };
        let ours = filled(here, &name);
        match (theirs, ours) {
            (theirs, ours) if theirs == ours => {}
            (Some(value), _) => match value.clear().filter(|clear| may_be_shown(name.as_bytes(), clear)) {
                Some(clear) => set.push_str(&format!("{name}={} ", fix::quote(clear))),
                None => {
                    own.before.push(format!("{name}_KEPT=\"$(sed -zn 's/^{name}=//p' /proc/{pid}/environ | tr -d '\\0')\""));
                    set.push_str(&format!("{name}=\"${name}_KEPT\" "));
                }
            },
            // Without a home it keeps its files where the system says, as any client does.
            (None, _) if name == "HOME" => {}
            (None, _) => unset.push_str(&format!("-u {name} ")),
        }
    }
    // Assignments are the shell's own: as words of `env` they would stand in the process table.
    own.prefix = if unset.is_empty() { set } else { format!("{set}env {unset}") };
    own
}

static NOTHING: Environ = Environ { entries: Vec::new(), overwritten: false };

/// The roots, and the settings of either side; not the marks that an agent leaves on its children, unless the
/// terminal would pass them on.
fn names(theirs: &Environ, ours: &Environ, settings: &str) -> Vec<String> {
    let mut names: Vec<String> = ROOTS.map(str::to_owned).to_vec();
    let mut add = |environ: &Environ, marks: bool| {
        for name in environ.entries.iter().filter_map(|entry| entry.name.as_str()) {
            let plain = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
            let concerns = name.starts_with(settings) || name == settings.trim_end_matches('_');
            if plain && concerns && (marks || !is_mark(name)) && !names.iter().any(|known| known == name) {
                names.push(name.to_owned());
            }
        }
    };
    add(theirs, false);
    add(ours, true);
    names
}

fn is_mark(name: &str) -> bool {
    catalog::lookup(name.as_bytes()).class == Class::AgentMarker
}

fn filled<'e>(environ: &'e Environ, name: &str) -> Option<&'e Value> {
    environ.get(name).filter(|value| value.clear() != Some(b""))
}

/// What the rules of masking let through whoever asks: a command is copied further than a screen.
fn rules() -> Redactor {
    catalog::redactor(FingerprintKey::from_text(b""), ShowPolicy::default())
}

fn may_be_shown(name: &[u8], value: &[u8]) -> bool {
    rules().value(name, value).is_ok()
}

/// A word of the process's own as a command has it, after its line in `before` where it may not be shown.
pub(super) fn word(pid: u32, argv: &[Value], at: usize, before: &mut Vec<String>) -> String {
    match rules().arguments(argv).get(at).and_then(Value::clear) {
        Some(word) => fix::quote(word),
        None => {
            before.push(format!("WORD_{at}=\"$(sed -zn {}p /proc/{pid}/cmdline | tr -d '\\0')\"", at + 1));
            format!("\"$WORD_{at}\"")
        }
    }
}

/// The lines, each once: what is read for one command is there for the next.
pub(super) fn once(lines: impl IntoIterator<Item = String>) -> Vec<String> {
    let mut seen = std::collections::HashSet::new();
    lines.into_iter().filter(|line| seen.insert(line.clone())).collect()
}

/// Waits for a process to end before the next line starts another in its place.
pub(super) fn end(pid: u32) -> String {
    format!("kill {pid} && timeout 10 tail --pid={pid} -f /dev/null")
}

/// The lines. `program` is quoted already; `values` are the terminal's; `more` gives the words to add to the
/// process's own.
pub(super) fn lines(
    host: &Host,
    process: &AgentProcess,
    (own, program): (&Own, &str),
    values: &[(&str, &[u8])],
    more: impl Fn(&[Value]) -> String,
) -> Vec<String> {
    let pid = process.stat.pid;
    let mut lines = own.before.clone();
    let argv = host.process(pid).cmdline().unwrap_or_default();
    let cwd = host.process(pid).cwd().ok().map(|dir| redact::place(dir.as_bytes()).to_vec());
    let cwd = cwd.filter(|dir| dir == HIDDEN.as_bytes() || dir.starts_with(b"/") && !dir.ends_with(b" (deleted)"));
    // One that may not be shown is read while the process still runs.
    let hidden = cwd.as_deref() == Some(HIDDEN.as_bytes());
    if hidden {
        lines.push(format!("CWD_KEPT=\"$(readlink /proc/{pid}/cwd)\""));
    }
    let words: String = (1..argv.len()).map(|at| format!(" {}", word(pid, &argv, at, &mut lines))).collect();
    lines.push(end(pid));
    let values = if values.is_empty() { String::new() } else { format!("{} ", fix::assignments(values)) };
    let start = format!("{values}{}{program}{words}{}", own.prefix, more(&argv));
    lines.push(match cwd {
        Some(_) if hidden => format!("(cd \"$CWD_KEPT\" && {start})"),
        Some(dir) => format!("(cd {} && {start})", fix::quote(&dir)),
        None => start,
    });
    lines
}

#[cfg(test)]
mod tests {
    use super::super::discover;
    use super::super::made::{Made, Process, opencode_v1};
    use super::*;
    use std::os::unix::process::CommandExt;

    #[test]
    fn what_the_terminal_has_and_the_daemon_had_not_is_taken_away() {
        let made = Made::new();
        made.program("/opt/opencode", &opencode_v1());
        made.environ(900, &["HOME=/home/u", "XDG_DATA_HOME=/srv/mine", "OPENCODE=1", "OPENCODE_PID=7", "LANG=C"]);
        let environ: &[&str] = &["HOME=/home/u", "XDG_STATE_HOME=/srv/it s", "OPENCODE_PID=20", "LANG=de_DE.UTF-8"];
        Process { exe: "/opt/opencode", argv: &["opencode", "serve"], environ, ..made.process(20, 1) }.write();
        let host = made.host();
        let processes = discover(&host).unwrap();
        let own = own(&host, &processes[0], "OPENCODE_");
        assert_eq!(own.before, [""; 0]);
        assert_eq!(own.prefix, "XDG_STATE_HOME='/srv/it s' env -u XDG_DATA_HOME -u OPENCODE -u OPENCODE_PID ");
    }

    #[test]
    fn what_is_read_from_the_kernel_is_what_was_there() {
        let mut sleeper = std::process::Command::new("sleep")
            .arg0("a \n'b")
            .arg("60")
            .env_clear()
            .env("KEPT", "canary with ' and \n inside")
            .spawn()
            .unwrap();
        let mut before = Vec::new();
        let argv = ["sleep", "canary/60 %"].map(|word| Value::Clear(word.into()));
        assert_eq!(word(sleeper.id(), &argv, 1, &mut before), "\"$WORD_1\"");
        let script = format!("{}; printf %s \"$WORD_1\"", before[0]);
        // The child has to have become what it will be.
        let answer = (0..200).find_map(|_| {
            std::thread::sleep(std::time::Duration::from_millis(5));
            let output = std::process::Command::new("sh").arg("-c").arg(&script).output().unwrap();
            (output.stdout == b"60").then_some(())
        });
        let _ = sleeper.kill();
        let _ = sleeper.wait();
        assert_eq!(answer, Some(()));
    }
}
