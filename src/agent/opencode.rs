//! OpenCode: its programs, the modes it is started in, and what repairs its environment.
//!
//! The program is a Bun single-file executable. Its build compiles `--user-agent=opencode/1.18.34` in (next-16350:
//! `opencode2/0.0.0-next-16350`; 2.x: `opencode/<channel>/<version>/cli`), which tells the product and its version.
//! The generation comes from strings in its JavaScript, never from the version.

use std::io;

use memchr::memmem::Finder;

use super::fix::{self, Fix};
use super::{Agent, AgentProcess, Generation, Listener, Mode, Role};
use crate::binary::bun::Payload;
use crate::binary::read::{ReadAt, holds, pieces};
use crate::host::{Host, Raw};
use crate::verdict::Finding;

mod registration;
pub mod service_file;

pub use registration::{ListenerFact, PidFact, Registration, registrations};
pub use service_file::{Registered, Roots, ServiceConfig, service_configs};

/// OpenCode 1.x, the 2.0 preview and 2.x.
pub struct OpenCode;

/// Id in the catalogue.
pub(super) use crate::binary::product::OPENCODE as ID;

/// What a string in the JavaScript proves.
struct Marker {
    text: &'static [u8],
    proves: Generation,
}

/// In order: the first string found decides. Counted in the real programs: `session.environment`
/// stands in 2.0.24 and in neither 1.18.34 nor next-16350; `"--service"` stands in next-16350 and not in 1.18.34.
const LATER: [Marker; 2] =
    [Marker { text: b"session.environment", proves: Generation::V2 }, Marker { text: b"\"--service\"", proves: Generation::Preview }];

/// Stands in the entry module of 1.18.34 (it is laid on its tools) and nowhere in next-16350.
const FIRST: Marker = Marker { text: b"OPENCODE_PID", proves: Generation::V1 };

/// Which generation the program's JavaScript shows; none where no string decides, or there is too much to read.
///
/// 1.18.34 is decided by its entry module (200 KB); the preview has 17 MB of JavaScript, all of which is read.
pub(super) fn generation(file: &dyn ReadAt, payload: &Payload) -> io::Result<Option<Generation>> {
    const LIMIT: u64 = 96 << 20;
    let Some(entry) = payload.scripts.first() else { return Ok(None) };
    if holds(file, entry.clone(), FIRST.text)? {
        return Ok(Some(FIRST.proves));
    }
    if payload.scripts.iter().map(|script| script.end - script.start).sum::<u64>() > LIMIT {
        return Ok(None);
    }
    let finders = LATER.each_ref().map(|marker| Finder::new(marker.text));
    let overlap = LATER.iter().map(|marker| marker.text.len()).max().unwrap_or_default();
    let mut found = LATER.len();
    for script in &payload.scripts {
        pieces(file, script.clone(), overlap, |piece| {
            // A stronger string may still follow a weaker one, not the other way round.
            found = (0..found).find(|&index| finders[index].find(piece).is_some()).unwrap_or(found);
            found == 0
        })?;
        if found == 0 {
            break;
        }
    }
    Ok(LATER.get(found).map(|marker| marker.proves))
}

/// The mode that the arguments of a process known as OpenCode select.
pub(super) fn mode(argv: &[Raw]) -> Mode {
    /// Flags that take the next argument.
    const VALUED: &[&str] = &[
        "--log-level",
        "--port",
        "--hostname",
        "--mdns-domain",
        "--cors",
        "--model",
        "-m",
        "--session",
        "-s",
        "--prompt",
        "--agent",
        "--replay-limit",
        "--server",
    ];
    let has = |flag: &str| argv.iter().any(|arg| arg.as_bytes() == flag.as_bytes());
    let mut words = argv.iter().skip(1);
    let mut command = None;
    while let Some(arg) = words.next() {
        match arg.as_str() {
            Some(flag) if VALUED.contains(&flag) => drop(words.next()),
            Some(flag) if flag.starts_with('-') => {}
            word => {
                command = word;
                break;
            }
        }
    }
    match command {
        Some("serve") if has("--service") => Mode::Service,
        Some("serve") if has("--stdio") => Mode::Standalone,
        Some("serve") => Mode::Serve,
        Some("web") => Mode::Web,
        Some("run") => Mode::Run,
        Some("acp") => Mode::Acp,
        Some("attach") => Mode::Attach,
        Some("mini") => Mode::Mini,
        Some("api") => Mode::Api,
        Some(
            "agent" | "auth" | "completion" | "console" | "db" | "debug" | "export" | "github" | "import" | "mcp" | "migrate" | "models"
            | "pair" | "plug" | "plugin" | "pr" | "providers" | "service" | "session" | "stats" | "uninstall" | "upgrade",
        ) => Mode::Command,
        _ if has("--mini") => Mode::Mini,
        // No command, or the project's directory in its place.
        _ => Mode::Tui,
    }
}

/// The role of a process in this mode. OpenCode 1.x serves from within the interface when it was given a port.
pub(super) fn role(mode: Mode, listens: bool) -> Role {
    match mode {
        Mode::Service | Mode::Serve | Mode::Web | Mode::Standalone => Role::Daemon,
        _ if listens => Role::Daemon,
        _ => Role::Client,
    }
}

impl Agent for OpenCode {
    fn id(&self) -> &'static str {
        ID
    }

    fn findings(&self, host: &Host, process: &AgentProcess) -> Vec<Finding> {
        let restart = self.fix(host, process, &Fix::Restart);
        let mut findings: Vec<Finding> = fix::deleted_exe(host, process, restart).into_iter().collect();
        findings.extend(process.registration.iter().flat_map(|registration| registration.findings(host)));
        findings
    }

    fn fix(&self, host: &Host, process: &AgentProcess, wanted: &Fix<'_>) -> Vec<String> {
        let name = if process.stat.comm.as_bytes() == b"opencode2" { "opencode2" } else { "opencode" };
        let program = format!("{}{}", own_places(host, process), fix::program(process, name));
        let service = process.mode == Some(Mode::Service);
        match (process.generation, wanted) {
            (_, Fix::Carry(values)) if process.role == Role::Tool => self.tool(process, values),
            (Some(Generation::V2), Fix::Carry(values)) if process.role == Role::Daemon => {
                let mut lines =
                    vec!["reopen the session from this terminal: OpenCode uploads the terminal's environment with it".to_owned()];
                if service {
                    lines.extend(values.iter().map(|(name, value)| set_env(&program, name, value)));
                    lines.push(format!("{program} service restart"));
                } else {
                    lines.extend(restart(host, process, &program, values));
                }
                lines.push(
                    "a session opened through the API or with --server uploads nothing; put the whole environment yourself:".to_owned(),
                );
                lines.push(put(process, &program));
                lines
            }
            (_, Fix::Drop(names)) => {
                let unset = format!("unset {}", names.join(" "));
                std::iter::once(unset).chain(restart(host, process, &program, &[])).collect()
            }
            (_, Fix::Carry(values)) => restart(host, process, &program, values),
            (_, Fix::Restart) => restart(host, process, &program, &[]),
        }
    }
}

impl OpenCode {
    fn tool(&self, process: &AgentProcess, values: &[(&str, &[u8])]) -> Vec<String> {
        let parent = process.parent.map_or_else(|| "its agent".to_owned(), |pid| format!("pid {pid}"));
        vec![format!(
            "a tool has the environment it was started with: repair {parent}, then run it again with {}",
            fix::assignments(values)
        )]
    }
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

/// Where the process keeps its files, if that is elsewhere than for this terminal: else a command of its client would
/// reach another daemon of the same user.
fn own_places(host: &Host, process: &AgentProcess) -> String {
    const PLACES: [&str; 4] = ["HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME"];
    let (Ok(environ), Ok(terminal)) = (host.process(process.stat.pid).environ(), host.terminal()) else { return String::new() };
    let Ok(here) = &terminal.environ else { return String::new() };
    if terminal.stat.euid != process.stat.euid {
        return String::new();
    }
    let (mut unset, mut set) = (String::new(), String::new());
    for name in PLACES {
        match (environ.filled(name), here.filled(name)) {
            (own, other) if own == other => {}
            (Some(own), _) => set.push_str(&format!("{name}={} ", fix::quote(own.as_bytes()))),
            // Without a home it keeps its files where the system says, as any client does.
            (None, _) if name == "HOME" => {}
            (None, _) => unset.push_str(&format!("-u {name} ")),
        }
    }
    match (unset.is_empty(), set.is_empty()) {
        (true, true) => String::new(),
        (true, false) => set,
        (false, _) => format!("env {unset}{set}"),
    }
}

/// The variable that makes a server of 1.x ask for a password.
const SERVER_PASSWORD: &str = "OPENCODE_SERVER_PASSWORD";

/// How this process is ended and started again from the terminal at hand. It gets that terminal's environment; the
/// values stand in the command so that it is right in whichever terminal it is pasted.
fn restart(host: &Host, process: &AgentProcess, program: &str, values: &[(&str, &[u8])]) -> Vec<String> {
    let pid = process.stat.pid;
    let command = if values.is_empty() { program.to_owned() } else { format!("{} {program}", fix::assignments(values)) };
    let address = || match process.listeners.as_deref() {
        Ok([Listener::Tcp(address), ..]) => format!(" --hostname {} --port {}", address.ip(), address.port()),
        _ => String::new(),
    };
    let again = |commands| fix::as_owner(host, process, commands);
    match process.mode {
        // The service of the preview and of 2.x is started by whoever asks for it, with the asker's environment.
        Some(Mode::Service) => again(vec![format!("{command} service restart")]),
        Some(mode @ (Mode::Serve | Mode::Web)) => {
            let mut lines = vec![format!("kill {pid}"), format!("{command} {}{}", mode.word(), address())];
            if host.process(pid).environ().is_ok_and(|environ| environ.get(SERVER_PASSWORD).is_some()) {
                lines.insert(1, format!("set {SERVER_PASSWORD} in this terminal before: without it the server asks nobody for a password"));
            }
            again(lines)
        }
        Some(Mode::Standalone) => {
            vec![format!("quit the client that it belongs to (pid {}) and start it again from this terminal", process.stat.ppid)]
        }
        _ => vec![format!("quit it (pid {pid}) and start it again from this terminal")],
    }
}

#[cfg(test)]
mod tests {
    use super::super::discover;
    use super::super::made::{Made, Process, opencode_preview, opencode_v1, opencode_v2};
    use super::*;
    use crate::binary::bun::{made_payload, payload};
    use crate::binary::elf::{made_elf, sections};
    use crate::binary::product;

    fn argv(words: &[&str]) -> Vec<Raw> {
        words.iter().map(|word| Raw::from(*word)).collect()
    }

    #[test]
    fn modes_are_those_of_the_real_command_lines() {
        for (words, expected) in [
            (&["/x/opencode2", "serve", "--service"][..], Mode::Service),
            (&["/x/opencode2", "serve", "--stdio", "--port", "0"], Mode::Standalone),
            (&["opencode2", "serve"], Mode::Serve),
            (&["opencode", "--print-logs", "--log-level", "DEBUG", "serve", "--port", "4096"], Mode::Serve),
            (&["opencode", "web"], Mode::Web),
            (&["opencode"], Mode::Tui),
            (&["opencode2", "--standalone"], Mode::Tui),
            (&["opencode", "/home/u/project"], Mode::Tui),
            (&["opencode", "--port", "4096"], Mode::Tui),
            (&["opencode", "--prompt", "serve"], Mode::Tui),
            (&["opencode", "run", "hello"], Mode::Run),
            (&["opencode2", "acp"], Mode::Acp),
            (&["opencode2", "mini"], Mode::Mini),
            (&["opencode", "--mini"], Mode::Mini),
            (&["opencode2", "service", "restart"], Mode::Command),
            (&["opencode2", "api", "get", "/api/health"], Mode::Api),
            (&[], Mode::Tui),
        ] {
            assert_eq!(mode(&argv(words)), expected, "{words:?}");
        }
    }

    #[test]
    fn a_listener_makes_the_interface_of_1_x_a_daemon() {
        assert_eq!(role(Mode::Tui, false), Role::Client);
        assert_eq!(role(Mode::Tui, true), Role::Daemon);
        assert_eq!(role(Mode::Standalone, false), Role::Daemon);
    }

    fn facts(arguments: &str, sources: &[&str]) -> Option<(Option<String>, Option<Generation>)> {
        let mut file = made_elf(&[]);
        file.extend_from_slice(&made_payload(arguments, sources));
        let payload = payload(&file, &sections(&file).unwrap().unwrap()).unwrap().unwrap();
        let facts = product::opencode(&file, &payload).unwrap()?;
        Some((facts.version, generation(&file, &payload).unwrap()))
    }

    #[test]
    fn product_version_and_generation_are_read_apart() {
        let version = |text: &str| Some(text.to_owned());
        assert_eq!(
            facts("--user-agent=opencode/1.18.34 --use-system-ca --", &["OPENCODE_PID", ""]),
            Some((version("1.18.34"), Some(Generation::V1)))
        );
        assert_eq!(
            facts("--user-agent=opencode2/0.0.0-next-16350 --use-system-ca --", &["x", "[\"serve\",\"--service\"]"]),
            Some((version("0.0.0-next-16350"), Some(Generation::Preview)))
        );
        assert_eq!(
            facts("--user-agent=opencode/latest/2.0.24/cli --", &["\"--service\"", "x", "session.environment"]),
            Some((version("2.0.24"), Some(Generation::V2)))
        );
        assert_eq!(facts("--user-agent=opencode/9.9.9 --", &["x"]), Some((version("9.9.9"), None)), "a version proves no generation");
        assert_eq!(facts("--user-agent=opencode-grok/1.0.0 --", &["OPENCODE_PID"]), None, "a fork is another product");
        assert_eq!(facts("--", &["process.env.OPENCODE_PID"]), Some((None, Some(Generation::V1))));
        assert_eq!(facts("--", &["another program"]), None);
    }

    /// The lines for a process of this program, started so.
    fn lines(program: Vec<u8>, argv: &'static [&'static str], wanted: &Fix<'_>) -> Vec<String> {
        let mut made = Made::new();
        made.tcp(4096, 500);
        made.program("/opt/opencode", &program);
        Process { exe: "/opt/opencode", argv, fds: &["socket:[500]"], ..made.process(20, 1) }.write();
        let host = made.host();
        let processes = discover(&host).unwrap();
        let root = made.at("/").display().to_string();
        OpenCode.fix(&host, &processes[0], wanted).into_iter().map(|line| line.replace(&root, "/")).collect()
    }

    const DISPLAY: Fix<'_> = Fix::Carry(&[("DISPLAY", b"localhost:11.0")]);

    #[test]
    fn each_generation_has_the_remedy_that_its_commands_allow() {
        assert_eq!(
            lines(opencode_v1(), &["opencode", "serve"], &DISPLAY),
            ["kill 20", "DISPLAY=localhost:11.0 /opt/opencode serve --hostname 127.0.0.1 --port 4096"]
        );
        // The preview knows no `service set env`.
        assert_eq!(
            lines(opencode_preview(), &["opencode2", "serve", "--service"], &DISPLAY),
            ["DISPLAY=localhost:11.0 /opt/opencode service restart"]
        );
        assert_eq!(
            lines(opencode_v2(), &["opencode", "serve", "--service"], &DISPLAY),
            [
                "reopen the session from this terminal: OpenCode uploads the terminal's environment with it",
                "/opt/opencode service set env DISPLAY localhost:11.0",
                "/opt/opencode service restart",
                "a session opened through the API or with --server uploads nothing; put the whole environment yourself:",
                "/opt/opencode api put /api/session/SESSION_ID/environment --data \"$(jq -n '{variables: env}')\"",
            ]
        );
        assert_eq!(
            lines(opencode_v1(), &["opencode", "web"], &Fix::Drop(&["CLAUDECODE"])),
            ["unset CLAUDECODE", "kill 20", "/opt/opencode web --hostname 127.0.0.1 --port 4096"]
        );
    }

    #[test]
    fn values_are_quoted_and_dashes_are_no_flags() {
        assert_eq!(set_env("opencode", "DISPLAY", b"localhost:11.0"), "opencode service set env DISPLAY localhost:11.0");
        assert_eq!(set_env("opencode", "X", b"-a b"), "opencode service set env X -- '-a b'");
    }

    proptest::proptest! {
        #[test]
        fn no_arguments_panic(words in proptest::collection::vec(proptest::collection::vec(proptest::num::u8::ANY, 0..20), 0..8)) {
            let _ = mode(&words.into_iter().map(Raw).collect::<Vec<_>>());
        }
    }
}
