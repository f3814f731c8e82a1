//! Every agent process of a machine.

use super::opencode::{self, Registration};
use super::recognise::{Look, Recogniser};
use super::relate::Seen;
use super::{AgentProcess, Generation, KnownBy, Role};
use crate::host::{Exe, Fact, Host, Stat, Unknown};
use crate::redact;
use crate::verdict::{Evidence, How};

/// Every agent process, in order of pid, with the catalogue that is part of the program.
///
/// # Errors
/// When the list of processes cannot be read. A process that cannot be looked into is no error: see [`super::KnownBy::Name`].
pub fn discover(host: &Host) -> Fact<Vec<AgentProcess>> {
    discover_with(&Recogniser::new(host))
}

/// Like [`discover`], with a recogniser that may know the user's catalogue.
///
/// # Errors
/// As [`discover`].
pub fn discover_with(recogniser: &Recogniser<'_>) -> Fact<Vec<AgentProcess>> {
    let host = recogniser.host();
    let found: Vec<(Stat, Fact<Exe>, Look)> = host.scan(|process| {
        let stat = process.stat().ok()?;
        let exe = process.exe();
        let look = recogniser.look(process, &stat, &exe);
        Some((stat, exe, look))
    })?;
    let mut exes = Vec::with_capacity(found.len());
    let looks: Vec<(Stat, Look)> = found
        .into_iter()
        .map(|(stat, exe, look)| {
            exes.push(exe);
            (stat, look)
        })
        .collect();
    let seen = recogniser.relate(&looks);
    let mut processes: Vec<AgentProcess> = looks
        .into_iter()
        .zip(exes)
        .zip(seen)
        .filter_map(|(((stat, look), exe), seen)| Some(assemble(recogniser, stat, exe, look, seen?)))
        .collect();
    for registration in opencode::registrations(host, &processes) {
        attach(&mut processes, registration);
    }
    Ok(processes)
}

/// Gives the registration to the process it names, if that is an OpenCode of the account whose file it is.
fn attach(processes: &mut [AgentProcess], registration: Registration) {
    let Some(pid) = registration.registered().map(|registered| registered.pid) else { return };
    let named = processes.iter_mut().find(|process| {
        let same_account = process.stat.euid == registration.roots.uid;
        process.agent == opencode::ID && process.stat.pid == pid && process.parent.is_none() && same_account
    });
    if let Some(process) = named {
        process.registration = Some(registration);
    }
}

fn assemble(recogniser: &Recogniser<'_>, stat: Stat, exe: Fact<Exe>, look: Look, seen: Seen) -> AgentProcess {
    let identity = look.identity.ok().flatten();
    let host = recogniser.host();
    let is_opencode = seen.agent == opencode::ID && seen.known_by == KnownBy::Program;
    let generation = is_opencode.then(|| recogniser.generation(&host.process(stat.pid)).ok().flatten()).flatten();
    let serves = matches!(seen.role, Role::Daemon | Role::Client | Role::Multiplexer);
    let asked = look.listeners.or_else(|| serves.then(|| recogniser.listeners(&host.process(stat.pid))));
    let listeners = asked.unwrap_or_else(|| Ok(Vec::new()));
    let product_version = identity.and_then(|identity| identity.version);
    let evidence = evidence(host, &stat, &exe, &seen, product_version.as_deref(), generation);
    AgentProcess {
        stat,
        agent: seen.agent,
        role: seen.role,
        mode: seen.mode,
        product_version,
        generation,
        exe,
        session_id: seen.session_id,
        parent: seen.parent,
        listeners,
        registration: None,
        known_by: seen.known_by,
        evidence,
    }
}

fn evidence(
    host: &Host,
    stat: &Stat,
    exe: &Fact<Exe>,
    seen: &Seen,
    version: Option<&str>,
    generation: Option<Generation>,
) -> Vec<Evidence> {
    let pid = stat.pid;
    let at = host.machine().taken_at();
    let saw = |source: String, detail: String| Evidence { source, how: How::Passive, at: at.clone(), detail };
    let path = exe.as_ref().map_or_else(Unknown::to_string, |exe| String::from_utf8_lossy(redact::place(&exe.shown())).into_owned());
    match &seen.known_by {
        KnownBy::Program => {
            let version = version.unwrap_or("of no stated version");
            let line = generation.map(Generation::word).map_or_else(String::new, |line| format!(", {line}"));
            vec![saw(format!("/proc/{pid}/exe"), format!("{path}: its payload is {} {version}{line}", seen.agent))]
        }
        KnownBy::Files => vec![saw(format!("/proc/{pid}/fd"), "it has daemon.sock.lock and acp-sessions.db open".to_owned())],
        KnownBy::Signature => vec![saw(format!("/proc/{pid}/exe"), format!("{path}: where {} is installed", seen.agent))],
        KnownBy::Parents => {
            let parent = seen.parent.unwrap_or(stat.ppid);
            let descends = saw(format!("/proc/{pid}/stat"), format!("it descends from {} (pid {parent})", seen.agent));
            let marked =
                (seen.role == Role::Tool).then(|| saw(format!("/proc/{pid}/environ"), "it carries that agent's markers".to_owned()));
            std::iter::once(descends).chain(marked).collect()
        }
        KnownBy::Name(unknown) => {
            vec![saw(format!("/proc/{pid}/stat"), format!("it is called {}; its program: {unknown}", stat.comm.lossy()))]
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::made::{Made, Process, opencode_preview, opencode_v1, opencode_v2, zeroclaw};
    use super::super::{Listener, Mode};
    use super::*;
    use crate::host::Pid;

    fn found(made: &Made) -> Vec<(Pid, String, Role, Option<Mode>)> {
        let processes = discover(&made.host()).unwrap();
        processes.into_iter().map(|process| (process.stat.pid, process.agent, process.role, process.mode)).collect()
    }

    fn is(pid: Pid, agent: &str, role: Role, mode: Mode) -> (Pid, String, Role, Option<Mode>) {
        (pid, agent.to_owned(), role, Some(mode))
    }

    #[test]
    fn a_decoy_is_no_agent_and_a_renamed_or_deleted_binary_is() {
        let mut made = Made::new();
        made.tcp(4096, 500);
        made.program("/opt/notes", &opencode_v1());
        made.program("/opt/opencode2 (deleted)", &opencode_preview());
        let argv: &[&str] = &["opencode", "serve", "--service"];
        Process { comm: "opencode", exe: "/bin/sleep", argv, ..made.process(20, 1) }.write();
        Process { comm: "opencode", argv, ..made.process(21, 1) }.write();
        Process { comm: "notes", exe: "/opt/notes", argv: &["notes", "serve"], fds: &["socket:[500]"], ..made.process(22, 1) }.write();
        Process { comm: "opencode2", exe: "/opt/opencode2 (deleted)", argv, ..made.process(23, 1) }.write();
        assert_eq!(found(&made), [is(22, "opencode", Role::Daemon, Mode::Serve), is(23, "opencode", Role::Daemon, Mode::Service)]);
        let host = made.host();
        let processes = discover(&host).unwrap();
        assert_eq!(processes[0].listeners, Ok(vec![Listener::Tcp("127.0.0.1:4096".parse().unwrap())]));
        assert_eq!((processes[0].product_version.as_deref(), processes[0].generation), (Some("1.18.34"), Some(Generation::V1)));
        assert_eq!(
            (processes[1].product_version.as_deref(), processes[1].generation),
            (Some("0.0.0-next-16350"), Some(Generation::Preview))
        );
        let ids: Vec<_> = super::super::agent("opencode").findings(&host, &processes[1]).into_iter().map(|finding| finding.id).collect();
        assert_eq!(ids, ["daemon.deleted_exe"]);
    }

    #[test]
    fn the_interface_of_1_x_serves_only_with_a_port() {
        let mut made = Made::new();
        made.tcp(4096, 500);
        made.program("/opt/opencode", &opencode_v1());
        Process { exe: "/opt/opencode", argv: &["opencode"], ..made.process(20, 900) }.write();
        Process { exe: "/opt/opencode", argv: &["opencode", "--port", "4096"], fds: &["socket:[500]"], ..made.process(21, 900) }.write();
        assert_eq!(found(&made), [is(20, "opencode", Role::Client, Mode::Tui), is(21, "opencode", Role::Daemon, Mode::Tui)]);
    }

    #[test]
    fn tools_need_a_marker_and_an_ancestor() {
        let made = Made::new();
        made.program("/opt/opencode", &opencode_v2());
        // A daemon started from inside an agent carries that agent's markers.
        let leaked: &[&str] = &["HOME=/home/u", "OPENCODE_TERMINAL=1", "CLAUDECODE=1"];
        Process { exe: "/opt/opencode", argv: &["opencode", "serve", "--service"], environ: leaked, ..made.process(20, 1) }.write();
        let marked: &[&str] = &["OPENCODE_TERMINAL=1", "OPENCODE_SESSION_ID=ses_1"];
        Process { environ: marked, start: 1_001, ..made.process(30, 20) }.write();
        Process { environ: marked, start: 1_002, session: 30, exe: "/bin/sleep", comm: "sleep", ..made.process(31, 30) }.write();
        // An MCP server: in the daemon's session, with no more markers than the daemon itself.
        Process { environ: leaked, start: 1_001, session: 20, comm: "mcp", ..made.process(32, 20) }.write();
        // Started from a tool's shell and left behind: the marker leaked.
        Process { environ: marked, start: 1_003, ..made.process(40, 1) }.write();
        assert_eq!(
            found(&made),
            [
                is(20, "opencode", Role::Daemon, Mode::Service),
                is(30, "opencode", Role::Tool, Mode::Shell),
                is(31, "opencode", Role::Tool, Mode::Shell),
                is(32, "opencode", Role::Other, Mode::Helper),
            ]
        );
        let processes = discover(&made.host()).unwrap();
        assert_eq!((processes[2].session_id.as_deref(), processes[2].parent), (Some("ses_1"), Some(20)));
    }

    #[test]
    fn the_pid_among_the_markers_of_1_x_names_the_daemon() {
        let made = Made::new();
        made.program("/opt/opencode", &opencode_v1());
        Process { exe: "/opt/opencode", argv: &["opencode", "serve"], environ: &["OPENCODE_PID=7"], ..made.process(20, 1) }.write();
        Process { environ: &["OPENCODE_PID=20", "OPENCODE=1"], start: 1_001, ..made.process(30, 20) }.write();
        Process { environ: &["OPENCODE_PID=7"], start: 1_001, ..made.process(31, 20) }.write();
        // An MCP server: 1.x has its markers in its own environment, and so hands them on to whatever it starts.
        Process { environ: &["OPENCODE_PID=20", "OPENCODE=1"], start: 1_001, session: 20, ..made.process(32, 20) }.write();
        let expected = [
            is(20, "opencode", Role::Daemon, Mode::Serve),
            is(30, "opencode", Role::Tool, Mode::Shell),
            is(31, "opencode", Role::Other, Mode::Helper),
            is(32, "opencode", Role::Other, Mode::Helper),
        ];
        assert_eq!(found(&made), expected);
    }

    #[test]
    fn a_parent_younger_than_its_child_is_another_process() {
        let made = Made::new();
        made.program("/opt/opencode", &opencode_v1());
        Process { exe: "/opt/opencode", argv: &["opencode", "serve"], start: 5_000, ..made.process(20, 1) }.write();
        Process { environ: &["OPENCODE=1"], start: 1_001, ..made.process(30, 20) }.write();
        assert_eq!(found(&made), [is(20, "opencode", Role::Daemon, Mode::Serve)]);
    }

    #[test]
    fn zeroclaw_its_client_and_its_shells() {
        let mut made = Made::new();
        made.unix("/home/u/.zeroclaw/data/daemon.sock", 600);
        made.program("/opt/zc", &zeroclaw("zeroclaw-runtime"));
        made.program("/opt/zerocode", &zeroclaw("zerocode"));
        Process { exe: "/opt/zc", comm: "zc", argv: &["/opt/zc", "daemon"], fds: &["socket:[600]"], ..made.process(20, 1) }.write();
        Process { exe: "/opt/zerocode", comm: "zerocode", argv: &["zerocode"], ..made.process(21, 900) }.write();
        Process { environ: &["ZEROCLAW_SESSION_ID=s-1"], start: 1_001, ..made.process(30, 20) }.write();
        assert_eq!(
            found(&made),
            [
                is(20, "zeroclaw", Role::Daemon, Mode::Service),
                is(21, "zeroclaw", Role::Client, Mode::Tui),
                is(30, "zeroclaw", Role::Tool, Mode::Shell)
            ]
        );
        let processes = discover(&made.host()).unwrap();
        assert_eq!(processes[0].product_version.as_deref(), Some("0.8.7"));
        assert_eq!(processes[2].session_id.as_deref(), Some("s-1"));
    }

    #[test]
    fn a_large_program_that_owns_the_socket_and_the_databases_is_zeroclaw() {
        let mut made = Made::new();
        made.unix("/home/u/.zeroclaw/data/daemon.sock", 600);
        made.program("/opt/x", &zeroclaw("trimmed"));
        let data: &[&str] = &["socket:[600]", "/d/daemon.sock.lock", "/d/sessions/acp-sessions.db"];
        Process { exe: "/opt/x", comm: "x", argv: &["x", "daemon"], fds: data, ..made.process(20, 1) }.write();
        Process { exe: "/opt/x", comm: "x", argv: &["x", "daemon"], ..made.process(21, 1) }.write();
        assert_eq!(found(&made), [is(20, "zeroclaw", Role::Daemon, Mode::Service)]);
    }

    #[test]
    fn a_program_that_may_not_be_looked_into_is_known_by_name_and_says_so() {
        let made = Made::new();
        Process { comm: "opencode2", argv: &["/opt/opencode2", "serve", "--service"], ..made.process(20, 1) }.write();
        let host = made.host();
        let process = host.process(20);
        let look = Recogniser::new(&host).look(&process, &process.stat().unwrap(), &Err(Unknown::NotPermitted));
        let identity = look.identity.unwrap().unwrap();
        assert_eq!((identity.role, identity.mode), (Role::Daemon, Some(Mode::Service)));
        assert_eq!(identity.known_by, KnownBy::Name(Unknown::NotPermitted));
        let other = host.process(900);
        let look = Recogniser::new(&host).look(&other, &other.stat().unwrap(), &Err(Unknown::NotPermitted));
        assert_eq!(look.identity, Err(Unknown::NotPermitted), "unknown is not the same as no agent");
    }

    #[test]
    fn a_package_behind_a_link_on_path_is_found() {
        let made = Made::new();
        made.program("/usr/bin/node", &crate::binary::elf::made_elf(&[(".rodata", b"node")]));
        std::fs::create_dir_all(made.at("/usr/local/bin")).unwrap();
        std::os::unix::fs::symlink("../lib/node_modules/@google/gemini-cli/bundle/gemini.js", made.at("/usr/local/bin/gemini")).unwrap();
        made.file("/usr/local/lib/node_modules/@google/gemini-cli/bundle/gemini.js", b"");
        Process { comm: "node", exe: "/usr/bin/node", argv: &["node", "/usr/local/bin/gemini"], ..made.process(20, 900) }.write();
        let processes = discover(&made.host()).unwrap();
        assert_eq!(
            (processes[0].agent.as_str(), processes[0].role, &processes[0].known_by),
            ("gemini-cli", Role::Client, &KnownBy::Signature)
        );
    }
}
