//! The lines for agents of which no more than the signature is known: terminal multiplexers and Emacs take new values
//! while they run, everything else is started again.
//!
//! Where several servers of one user run, each line names the one it is for: by its socket, or by its pid.

use super::{AgentProcess, Fix, Listener, Role, fix, fix::quote};
use crate::host::Host;

/// Values that are set, and names that are taken away.
type Change<'a> = (&'a [(&'a str, &'a [u8])], &'a [&'a str]);

pub(super) fn lines(host: &Host, process: &AgentProcess, wanted: &Fix<'_>) -> Vec<String> {
    let (values, names): Change<'_> = match wanted {
        Fix::Carry(values) => (values, &[]),
        Fix::Drop(names) => (&[], names),
        Fix::Restart => return vec![restart(process)],
    };
    let commands = match (process.agent.as_str(), process.role) {
        ("tmux", Role::Multiplexer) => tmux(process, values, names),
        ("screen", Role::Multiplexer) => screen(process, values, names),
        ("emacs", Role::Daemon) => emacs(process, values, names),
        _ if names.is_empty() => return vec![restart(process)],
        _ => return vec![format!("unset {}", names.join(" ")), restart(process)],
    };
    fix::as_owner(host, process, commands)
}

/// The path of the Unix socket that the process listens on.
fn socket(process: &AgentProcess) -> Option<&[u8]> {
    process.listeners.iter().flatten().find_map(|listener| match listener {
        Listener::Unix(path) => Some(path.as_bytes()),
        Listener::Tcp(_) => None,
    })
}

fn tmux(process: &AgentProcess, values: &[(&str, &[u8])], names: &[&str]) -> Vec<String> {
    let server = socket(process).map_or_else(|| "tmux".to_owned(), |path| format!("tmux -S {}", quote(path)));
    // A session's own layer wins over the global one, and has what its first client brought.
    let each =
        |change: String| format!("{server} list-sessions -F '#{{session_id}}' | xargs -rI{{}} {server} set-environment -t {{}} {change}");
    let set = values.iter().map(|(name, value)| (format!("-g {name} {}", quote(value)), format!("{name} {}", quote(value))));
    let unset = names.iter().map(|name| (format!("-gu {name}"), format!("-u {name}")));
    let changes = set.chain(unset).flat_map(|(global, session)| [format!("{server} set-environment {global}"), each(session)]);
    let mut lines: Vec<String> = changes.collect();
    if !values.is_empty() {
        // Not for the terminal at hand, which may be no pane of this server.
        lines.push(fix::note(format!("in a pane that is open already: export {}", fix::assignments(values))));
    }
    // Not among tmux's defaults, so it would be stale again after the next attach.
    if values.iter().any(|(name, _)| *name == "WAYLAND_DISPLAY") {
        lines.push(format!("{server} set-option -ga update-environment ' WAYLAND_DISPLAY'"));
    }
    lines
}

/// `-S` takes the session's name with its pid, as the socket is called, or the pid alone.
fn screen(process: &AgentProcess, values: &[(&str, &[u8])], names: &[&str]) -> Vec<String> {
    let base = socket(process).and_then(|path| path.rsplit(|byte| *byte == b'/').next());
    let session = base.map_or_else(|| process.stat.pid.to_string(), quote);
    let set = values.iter().map(|(name, value)| format!("screen -S {session} -X setenv {name} {}", quote(value)));
    set.chain(names.iter().map(|name| format!("screen -S {session} -X unsetenv {name}"))).collect()
}

fn emacs(process: &AgentProcess, values: &[(&str, &[u8])], names: &[&str]) -> Vec<String> {
    let server = socket(process).map_or_else(String::new, |path| format!(" --socket-name={}", quote(path)));
    let eval = |expression: String| format!("emacsclient{server} -e {}", quote(expression.as_bytes()));
    let set = values.iter().map(|(name, value)| eval(format!("(setenv {name:?} {})", lisp(value))));
    set.chain(names.iter().map(|name| eval(format!("(setenv {name:?})")))).collect()
}

fn lisp(value: &[u8]) -> String {
    let text = String::from_utf8_lossy(value);
    format!("\"{}\"", text.replace('\\', r"\\").replace('"', "\\\""))
}

fn restart(process: &AgentProcess) -> String {
    let pid = process.stat.pid;
    fix::note(match (process.role, process.parent) {
        (Role::Tool | Role::Other, Some(parent)) => {
            format!("it has the environment it was started with: repair its agent (pid {parent}), then run it again")
        }
        _ => format!("restart it (pid {pid}) from this terminal"),
    })
}

#[cfg(test)]
mod tests {
    use super::super::made::{Made, Process};
    use super::super::{agent, discover};
    use super::*;
    use crate::binary::elf::made_elf;

    /// The lines for a server with this program, name, arguments and socket.
    fn of(exe: &'static str, comm: &'static str, argv: &'static [&'static str], socket: Option<&str>, wanted: &Fix<'_>) -> Vec<String> {
        let mut made = Made::new();
        if let Some(path) = socket {
            made.unix(path, 500);
        }
        made.program(exe, &made_elf(&[]));
        Process { exe, comm, argv, fds: &["socket:[500]"], ..made.process(20, 1) }.write();
        let host = made.host();
        let processes = discover(&host).unwrap();
        agent(&processes[0].agent).fix(&host, &processes[0], wanted)
    }

    const DISPLAY: Fix<'_> = Fix::Carry(&[("DISPLAY", b"localhost:11.0")]);
    const GONE: Fix<'_> = Fix::Drop(&["DISPLAY"]);

    #[test]
    fn every_line_names_the_server_it_is_for() {
        let tmux = |socket, wanted: &Fix<'_>| of("/usr/bin/tmux", "tmux: server", &["tmux", "-L", "work", "new", "-d"], socket, wanted);
        assert_eq!(
            tmux(Some("/tmp/tmux-1000/work"), &DISPLAY),
            [
                "tmux -S /tmp/tmux-1000/work set-environment -g DISPLAY localhost:11.0",
                "tmux -S /tmp/tmux-1000/work list-sessions -F '#{session_id}' | xargs -rI{} tmux -S /tmp/tmux-1000/work set-environment -t {} DISPLAY localhost:11.0",
                "# in a pane that is open already: export DISPLAY=localhost:11.0",
            ]
        );
        assert_eq!(
            tmux(Some("/tmp/tmux-1000/work"), &GONE),
            [
                "tmux -S /tmp/tmux-1000/work set-environment -gu DISPLAY",
                "tmux -S /tmp/tmux-1000/work list-sessions -F '#{session_id}' | xargs -rI{} tmux -S /tmp/tmux-1000/work set-environment -t {} -u DISPLAY",
            ]
        );
        let screen = |socket, wanted: &Fix<'_>| of("/usr/bin/screen", "screen", &["SCREEN", "-dmS", "x"], socket, wanted);
        assert_eq!(screen(Some("/run/screen/S-u/20.x"), &DISPLAY), ["screen -S 20.x -X setenv DISPLAY localhost:11.0"]);
        assert_eq!(screen(None, &GONE), ["screen -S 20 -X unsetenv DISPLAY"]);
        let emacs = |socket, wanted: &Fix<'_>| of("/usr/bin/emacs-nox", "emacs", &["emacs", "--daemon=x"], socket, wanted);
        let socket = Some("/run/user/1000/emacs/x");
        assert_eq!(
            emacs(socket, &DISPLAY),
            [r#"emacsclient --socket-name=/run/user/1000/emacs/x -e '(setenv "DISPLAY" "localhost:11.0")'"#]
        );
        assert_eq!(emacs(socket, &GONE), [r#"emacsclient --socket-name=/run/user/1000/emacs/x -e '(setenv "DISPLAY")'"#]);
    }

    #[test]
    fn what_takes_no_new_values_is_started_again() {
        let zellij = of("/usr/bin/zellij", "zellij", &["/usr/bin/zellij", "--server", "/run/x"], Some("/run/x"), &DISPLAY);
        assert_eq!(zellij, ["# restart it (pid 20) from this terminal"]);
    }
}
