//! What repairs the environment of OpenCode's tools: other lines for each generation and way of running.

use super::super::{Agent, AgentProcess, Generation, Listener, Mode, Role, fix, fix::Fix, relaunch};
use super::{ID, OpenCode, Registered, Registration, unregistered};
use crate::host::{Host, Raw, Value, View};
use crate::redact;
use crate::verdict::Finding;

impl Agent for OpenCode {
    fn id(&self) -> &'static str {
        ID
    }

    fn findings(&self, host: &Host, process: &AgentProcess) -> Vec<Finding> {
        let restart = self.fix(host, process, &Fix::Restart);
        let mut findings: Vec<Finding> = fix::deleted_exe(host, process, restart.clone()).into_iter().collect();
        findings.extend(process.registration.iter().flat_map(|registration| registration.findings(host)));
        findings.extend(unregistered::finding(host, process).map(|finding| finding.fix(restart)));
        findings
    }

    fn fix(&self, host: &Host, process: &AgentProcess, wanted: &Fix<'_>) -> Vec<String> {
        let program = Program::of(host, process);
        match (process.generation, wanted) {
            (_, Fix::Carry(values)) if process.role == Role::Tool => tool(process, values),
            (Some(Generation::V2), Fix::Carry(values)) if process.role == Role::Daemon => {
                let mut lines = self.beside(host, process, wanted);
                if process.mode == Some(Mode::Service) {
                    let client = program.client();
                    let set = values.iter().map(|(name, value)| set_env(&client, name, value));
                    lines.extend(fix::as_owner(host, process, set.chain([format!("{client} service restart")]).collect()));
                } else {
                    lines.extend(restart(host, process, &program, values));
                }
                relaunch::once(lines)
            }
            (_, Fix::Drop(names)) => {
                let unset = format!("unset {}", names.join(" "));
                std::iter::once(unset).chain(restart(host, process, &program, &[])).collect()
            }
            (_, Fix::Carry(values)) => restart(host, process, &program, values),
            (_, Fix::Restart) => restart(host, process, &program, &[]),
        }
    }

    fn beside(&self, host: &Host, process: &AgentProcess, wanted: &Fix<'_>) -> Vec<String> {
        match (process.generation, process.role, wanted) {
            (Some(Generation::V2), Role::Daemon, Fix::Carry(_)) => {
                let program = Program::of(host, process);
                let client = program.client();
                let ways = [
                    fix::note("reopen the session from this terminal: OpenCode uploads the terminal's environment with it"),
                    fix::note("a session opened through the API or with --server uploads nothing; put the whole environment yourself:"),
                    put(process, &client),
                    fix::note("or, for every session without an environment of its own:"),
                ];
                program.own.before.into_iter().chain(ways).collect()
            }
            _ => Vec::new(),
        }
    }
}

/// The process's program as a command, and what has to stand before it.
struct Program {
    name: String,
    own: relaunch::Own,
}

impl Program {
    fn of(host: &Host, process: &AgentProcess) -> Program {
        let name = if process.stat.comm.as_bytes() == b"opencode2" { "opencode2" } else { "opencode" };
        Program { name: fix::program(host, process, name), own: relaunch::own(host, process, "OPENCODE_") }
    }

    /// As a client of the daemon: it finds the daemon's own files.
    fn client(&self) -> String {
        format!("{}{}", self.own.prefix, self.name)
    }
}

fn tool(process: &AgentProcess, values: &[(&str, &[u8])]) -> Vec<String> {
    let parent = process.parent.map_or_else(|| "its agent".to_owned(), |pid| format!("pid {pid}"));
    vec![fix::note(format!(
        "a tool has the environment it was started with: repair {parent}, then run it again with {}",
        fix::assignments(values)
    ))]
}

/// `service set env` of 2.x stops the service and writes its config; the next start has the value.
fn set_env(program: &str, name: &str, value: &[u8]) -> String {
    // A value that begins with a dash would be read as a flag.
    let end = if value.starts_with(b"-") { "-- " } else { "" };
    format!("{program} service set env {name} {end}{}", fix::quote(value))
}

/// The upload replaces the session's whole environment, so it has to carry all of it.
fn put(process: &AgentProcess, program: &str) -> String {
    let server = match (&process.mode, process.listeners.as_deref()) {
        (Some(Mode::Service), _) => String::new(),
        (_, Ok([Listener::Tcp(address), ..])) => format!(" --server http://{address}"),
        _ => String::new(),
    };
    format!("{program} api{server} put /api/session/SESSION_ID/environment --data \"$(jq -n '{{variables: env}}')\"")
}

/// Starts the service of a registration anew: with the program that it ran, and for the files that it is one of.
pub(super) fn of_registration(host: &Host, registration: &Registration, registered: &Registered) -> Vec<String> {
    // The preview's program is called `opencode2`; 2.x took the name `opencode`.
    let preview = registered.version.as_deref().is_some_and(|version| version.starts_with("0.0.0-"));
    let name = if preview { "opencode2" } else { "opencode" };
    let known = registration.program.clone().or_else(|| on_path(host, name));
    let program = known.map_or_else(|| name.to_owned(), |path| fix::quote(path.as_bytes()));
    let own = &registration.own;
    let commands = own.before.iter().cloned().chain([format!("{}{program} service restart", own.prefix)]);
    fix::as_user(host, registration.roots.uid, commands.collect())
}

/// Where this terminal finds a program.
fn on_path(host: &Host, name: &str) -> Option<Raw> {
    let terminal = host.terminal().ok()?;
    let path = terminal.environ.as_ref().ok()?.bytes("PATH").filter(|path| redact::secret(b"PATH", path, false).is_none())?;
    let has = |dir: &&[u8]| {
        let programs = host.programs(View::OURS, dir);
        programs.is_ok_and(|programs| programs.iter().any(|program| program.as_bytes() == name.as_bytes()))
    };
    let dir = path.split(|byte| *byte == b':').filter(|dir| dir.starts_with(b"/")).find(has)?;
    Some(Raw([dir, b"/", name.as_bytes()].concat()))
}

/// How this process is ended and started again from the terminal at hand. It gets that terminal's environment; the
/// values stand in the command so that it is right in whichever terminal it is pasted.
fn restart(host: &Host, process: &AgentProcess, program: &Program, values: &[(&str, &[u8])]) -> Vec<String> {
    let pid = process.stat.pid;
    match process.mode {
        // The service of the preview and of 2.x is started by whoever asks for it, with the asker's environment.
        Some(Mode::Service) => {
            let values = if values.is_empty() { String::new() } else { format!("{} ", fix::assignments(values)) };
            let mut lines = program.own.before.clone();
            lines.push(format!("{values}{} service restart", program.client()));
            fix::as_owner(host, process, lines)
        }
        Some(Mode::Serve | Mode::Web) => {
            // It may have been given any free port, and its clients know that one.
            let port = |words: &[Value]| {
                let flags = words.iter().filter_map(Value::clear);
                let given = flags.into_iter().any(|word| word == b"--port" || word.starts_with(b"--port="));
                match process.listeners.as_deref() {
                    Ok([Listener::Tcp(address), ..]) if !given => format!(" --port {}", address.port()),
                    _ => String::new(),
                }
            };
            fix::as_owner(host, process, relaunch::lines(host, process, (&program.own, &program.name), values, port))
        }
        Some(Mode::Standalone) => {
            vec![fix::note(format!("quit the client that it belongs to (pid {}) and start it again from this terminal", process.stat.ppid))]
        }
        _ => vec![fix::note(format!("quit it (pid {pid}) and start it again from this terminal"))],
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::discover;
    use super::super::super::made::{Made, Process, opencode_preview, opencode_v1, opencode_v2};
    use super::*;

    const HERE: &[&str] = &["HOME=/home/u"];

    /// The lines for a process of this program, started so, in `/srv/work`, with this environment.
    fn with(program: Vec<u8>, argv: &'static [&'static str], environ: &'static [&'static str], wanted: &Fix<'_>) -> Vec<String> {
        let mut made = Made::new();
        made.tcp(4096, 500);
        made.program("/opt/opencode", &program);
        made.environ(900, HERE);
        Process { exe: "/opt/opencode", argv, environ, cwd: "/srv/work", fds: &["socket:[500]"], ..made.process(20, 1) }.write();
        let host = made.host();
        let processes = discover(&host).unwrap();
        let root = made.at("/").display().to_string();
        OpenCode.fix(&host, &processes[0], wanted).into_iter().map(|line| line.replace(&root, "/")).collect()
    }

    fn lines(program: Vec<u8>, argv: &'static [&'static str], wanted: &Fix<'_>) -> Vec<String> {
        with(program, argv, HERE, wanted)
    }

    const DISPLAY: Fix<'_> = Fix::Carry(&[("DISPLAY", b"localhost:11.0")]);
    const END: &str = "kill 20 && timeout 10 tail --pid=20 -f /dev/null";

    #[test]
    fn each_generation_has_the_remedy_that_its_commands_allow() {
        assert_eq!(
            lines(opencode_v1(), &["opencode", "serve"], &DISPLAY),
            [END, "(cd /srv/work && DISPLAY=localhost:11.0 /opt/opencode serve --port 4096)"]
        );
        // The preview knows no `service set env`.
        assert_eq!(
            lines(opencode_preview(), &["opencode2", "serve", "--service"], &DISPLAY),
            ["DISPLAY=localhost:11.0 /opt/opencode service restart"]
        );
        assert_eq!(
            lines(opencode_preview(), &["opencode2", "serve", "--port", "4096"], &DISPLAY),
            [END, "(cd /srv/work && DISPLAY=localhost:11.0 /opt/opencode serve --port 4096)"]
        );
        assert_eq!(
            lines(opencode_v2(), &["opencode", "serve", "--service"], &DISPLAY),
            [
                "# reopen the session from this terminal: OpenCode uploads the terminal's environment with it",
                "# a session opened through the API or with --server uploads nothing; put the whole environment yourself:",
                "/opt/opencode api put /api/session/SESSION_ID/environment --data \"$(jq -n '{variables: env}')\"",
                "# or, for every session without an environment of its own:",
                "/opt/opencode service set env DISPLAY localhost:11.0",
                "/opt/opencode service restart",
            ]
        );
        assert_eq!(
            lines(opencode_v2(), &["opencode", "serve"], &DISPLAY)[2..],
            [
                "/opt/opencode api --server http://127.0.0.1:4096 put /api/session/SESSION_ID/environment --data \"$(jq -n '{variables: env}')\"",
                "# or, for every session without an environment of its own:",
                END,
                "(cd /srv/work && DISPLAY=localhost:11.0 /opt/opencode serve --port 4096)",
            ]
        );
        assert_eq!(
            lines(opencode_v1(), &["opencode", "web"], &Fix::Drop(&["CLAUDECODE"])),
            ["unset CLAUDECODE", END, "(cd /srv/work && /opt/opencode web --port 4096)"]
        );
    }

    #[test]
    fn a_server_keeps_its_own_words() {
        assert_eq!(
            lines(
                opencode_v1(),
                &["opencode", "--print-logs", "serve", "--hostname", "0.0.0.0", "--mdns", "--cors", "http://localhost:5173"],
                &Fix::Restart
            ),
            [END, "(cd /srv/work && /opt/opencode --print-logs serve --hostname 0.0.0.0 --mdns --cors http://localhost:5173 --port 4096)"]
        );
    }

    #[test]
    fn what_may_not_be_shown_is_kept_and_stands_in_no_line() {
        let canary = with(
            opencode_v1(),
            &["opencode", "serve", "--port", "4096", "--cors", "https://u:canary-word@198.51.100.7"],
            &["HOME=/home/u", "OPENCODE_SERVER_PASSWORD=canary-password"],
            &DISPLAY,
        );
        assert_eq!(
            canary,
            [
                "OPENCODE_SERVER_PASSWORD_KEPT=\"$(sed -zn 's/^OPENCODE_SERVER_PASSWORD=//p' /proc/20/environ | tr -d '\\0')\"",
                "WORD_5=\"$(sed -zn 6p /proc/20/cmdline | tr -d '\\0')\"",
                END,
                "(cd /srv/work && DISPLAY=localhost:11.0 OPENCODE_SERVER_PASSWORD=\"$OPENCODE_SERVER_PASSWORD_KEPT\" /opt/opencode serve --port 4096 --cors \"$WORD_5\")",
            ]
        );
    }

    #[test]
    fn the_lines_reach_the_daemon_whose_places_these_are() {
        let environ: &[&str] = &["HOME=/home/u", "XDG_STATE_HOME=/srv/state", "OPENCODE_CONFIG_DIR=/srv/config", "OPENCODE_PID=20"];
        let kept = "OPENCODE_CONFIG_DIR_KEPT=\"$(sed -zn 's/^OPENCODE_CONFIG_DIR=//p' /proc/20/environ | tr -d '\\0')\"";
        let places = "XDG_STATE_HOME=/srv/state OPENCODE_CONFIG_DIR=\"$OPENCODE_CONFIG_DIR_KEPT\"";
        assert_eq!(
            with(opencode_preview(), &["opencode2", "serve", "--service"], environ, &DISPLAY),
            [kept, &format!("DISPLAY=localhost:11.0 {places} /opt/opencode service restart")]
        );
        assert_eq!(
            with(opencode_v2(), &["opencode", "serve", "--service"], environ, &DISPLAY),
            [
                kept,
                "# reopen the session from this terminal: OpenCode uploads the terminal's environment with it",
                "# a session opened through the API or with --server uploads nothing; put the whole environment yourself:",
                &format!("{places} /opt/opencode api put /api/session/SESSION_ID/environment --data \"$(jq -n '{{variables: env}}')\""),
                "# or, for every session without an environment of its own:",
                &format!("{places} /opt/opencode service set env DISPLAY localhost:11.0"),
                &format!("{places} /opt/opencode service restart"),
            ]
        );
    }

    #[test]
    fn values_are_quoted_and_dashes_are_no_flags() {
        assert_eq!(set_env("opencode", "DISPLAY", b"localhost:11.0"), "opencode service set env DISPLAY localhost:11.0");
        assert_eq!(set_env("opencode", "X", b"-a b"), "opencode service set env X -- '-a b'");
    }
}
