//! ZeroClaw and zerocode: their programs, modes, and what repairs the environment of their shells.
//!
//! Both are Rust programs. Every panic location in them names the crate's source path
//! (`zeroclaw-runtime-0.8.7/src/…`, 1,032 times in zeroclaw 0.8.7; `zerocode-0.8.7/src/…`, 45 times in zerocode
//! 0.8.7), from the first kilobytes of `.rodata` on, stripped or not. A single mention proves nothing: this very
//! program has one.

use std::io;
use std::ops::Range;

use memchr::memmem::Finder;
use serde::{Deserialize, Serialize};

use super::fix::{self, Fix};
use super::program::{ReadAt, pieces};
use super::recognise::ProgramFacts;
use super::{Agent, AgentProcess, Listener, Mode, Role};
use crate::host::{Host, Raw, View};
use crate::verdict::Finding;

/// ZeroClaw, with zerocode as its client.
pub struct ZeroClaw;

/// Id in the catalogue.
pub(super) const ID: &str = "zeroclaw";

/// How far into the constants a program without any other sign of ZeroClaw is searched: the eighth location stands
/// 17 KB into zeroclaw's and 39 KB into zerocode's.
pub(super) const GLANCE: u64 = 512 << 10;

/// As many source paths make a program the crate's own, rather than one that mentions it.
const ENOUGH: usize = 8;

/// Crates and whether a program made of them is the client. A version or nothing follows, then `/src/`.
const CRATES: [(&[u8], bool); 2] = [(b"zeroclaw-runtime", false), (b"zerocode", true)];

/// What the program is, if it is ZeroClaw's or zerocode's.
pub(super) fn program(file: &dyn ReadAt, constants: Range<u64>) -> io::Result<Option<ProgramFacts>> {
    /// Longest `zeroclaw-runtime-<version>/src/`.
    const OVERLAP: usize = 64;
    let finders = CRATES.map(|(name, client)| (Finder::new(name), name.len(), client));
    let mut seen = [(0usize, None::<String>), (0, None)];
    pieces(file, constants, OVERLAP, |piece| {
        for ((finder, length, _), (count, version)) in finders.iter().zip(&mut seen) {
            for at in finder.find_iter(piece) {
                let Some(found) = source_of(&piece[at + length..]) else { continue };
                *count += 1;
                if version.is_none() {
                    *version = found.map(str::to_owned);
                }
            }
        }
        seen.iter().any(|(count, _)| *count >= ENOUGH)
    })?;
    let decided = finders.iter().zip(seen).find(|(_, (count, _))| *count >= ENOUGH);
    Ok(decided.map(|((_, _, client), (_, version))| ProgramFacts { agent: ID.to_owned(), client: *client, version }))
}

/// The version in `-0.8.7/src/`; none in `/src/`, as a build from a checkout has it. Nothing where neither follows.
fn source_of(rest: &[u8]) -> Option<Option<&str>> {
    const SRC: &[u8] = b"/src/";
    if rest.starts_with(SRC) {
        return Some(None);
    }
    let rest = rest.strip_prefix(b"-")?;
    let end = rest.iter().take(40).position(|byte| *byte == b'/')?;
    let version = std::str::from_utf8(&rest[..end]).ok()?;
    (rest[end..].starts_with(SRC) && version.starts_with(|c: char| c.is_ascii_digit())).then_some(Some(version))
}

/// The mode that the arguments of a process known as ZeroClaw select.
pub(super) fn mode(client: bool, argv: &[Raw]) -> Mode {
    if client {
        return Mode::Tui;
    }
    let mut words = argv.iter().skip(1);
    let mut command = None;
    while let Some(arg) = words.next() {
        match arg.as_str() {
            Some("--config-dir" | "--log-level") => drop(words.next()),
            Some(flag) if flag.starts_with('-') => {}
            word => {
                command = word;
                break;
            }
        }
    }
    match command {
        Some("daemon") => Mode::Service,
        Some("gateway") => Mode::Serve,
        Some("acp") => Mode::Acp,
        Some("agent") => Mode::Run,
        _ => Mode::Command,
    }
}

/// The role of a process in this mode.
pub(super) fn role(mode: Mode, listens: bool) -> Role {
    if listens || matches!(mode, Mode::Service | Mode::Serve) { Role::Daemon } else { Role::Client }
}

/// The `--config-dir` among the arguments.
pub(super) fn config_dir(argv: &[Raw]) -> Option<Raw> {
    const FLAG: &[u8] = b"--config-dir";
    let at = argv.iter().position(|arg| arg.as_bytes().starts_with(FLAG))?;
    match argv[at].as_bytes().strip_prefix(FLAG)? {
        b"" => argv.get(at + 1).cloned(),
        rest => rest.strip_prefix(b"=").map(Raw::from),
    }
}

/// What a config file says of the names that reach the shell.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Policy {
    /// Risk profiles with the names that each lets through from the daemon's environment.
    pub passthrough: std::collections::BTreeMap<String, Vec<String>>,
    /// The risk profile of each agent.
    pub agents: std::collections::BTreeMap<String, String>,
}

/// Reads the part of `config.toml` that decides what the shell inherits. Nothing else of it is kept.
///
/// # Errors
/// When it is no TOML.
pub fn parse_policy(text: &[u8]) -> Result<Policy, String> {
    let text = std::str::from_utf8(text).map_err(|_| "it is not UTF-8".to_owned())?;
    // The parser's message quotes the line, and any line may hold a key.
    let config: toml::Table = toml::from_str(text).map_err(|_| "it is not TOML".to_owned())?;
    let tables = |name: &str| config.get(name).and_then(toml::Value::as_table).into_iter().flatten();
    let names = |value: &toml::Value| {
        let list = value.get("shell_env_passthrough").and_then(toml::Value::as_array).map(Vec::as_slice).unwrap_or_default();
        list.iter().filter_map(|name| name.as_str().map(str::to_owned)).collect()
    };
    Ok(Policy {
        passthrough: tables("risk_profiles").map(|(profile, value)| (profile.clone(), names(value))).collect(),
        agents: tables("agents")
            .filter_map(|(agent, value)| Some((agent.clone(), value.get("risk_profile")?.as_str()?.to_owned())))
            .collect(),
    })
}

/// The config directory: what the arguments say, else by where the daemon listens, `<config>/data/daemon.sock`.
fn config_of(host: &Host, process: &AgentProcess) -> Option<Raw> {
    let argv = host.process(process.stat.pid).cmdline().unwrap_or_default();
    let argv: Option<Vec<Raw>> = argv.iter().map(|arg| arg.clear().map(Raw::from)).collect();
    if let Some(dir) = argv.as_deref().and_then(config_dir).filter(|dir| dir.as_bytes().starts_with(b"/")) {
        return Some(dir);
    }
    process.listeners.iter().flatten().find_map(|listener| match listener {
        Listener::Unix(path) => path.as_bytes().strip_suffix(b"/data/daemon.sock").map(Raw::from),
        Listener::Tcp(_) => None,
    })
}

/// What the daemon's config file says; none where the file's place is not known or it cannot be read.
pub fn policy(host: &Host, process: &AgentProcess) -> Option<(Raw, Policy)> {
    let dir = config_of(host, process)?;
    let path = [dir.as_bytes(), b"/config.toml"].concat();
    let view = host.process(process.stat.pid).view().unwrap_or(View::OURS);
    let document = host.document(view, &path, parse_policy).ok()?;
    Some((dir, document.content.ok()?))
}

impl Agent for ZeroClaw {
    fn id(&self) -> &'static str {
        ID
    }

    fn findings(&self, host: &Host, process: &AgentProcess) -> Vec<Finding> {
        fix::deleted_exe(host, process, self.fix(host, process, &Fix::Restart)).into_iter().collect()
    }

    fn fix(&self, host: &Host, process: &AgentProcess, wanted: &Fix<'_>) -> Vec<String> {
        match (process.role, wanted) {
            (Role::Daemon, Fix::Carry(values)) => {
                let mut lines = vec![format!(
                    "open a new session from this terminal with {}: it sends the terminal's environment along; a session that is open keeps its own",
                    client(host, process)
                )];
                lines.push("or let the daemon's own values through, and restart it from this terminal:".to_owned());
                lines.extend(pass_through(host, process, values));
                lines.extend(restart(host, process));
                lines
            }
            (Role::Daemon, Fix::Drop(names)) => {
                std::iter::once(format!("unset {}", names.join(" "))).chain(restart(host, process)).collect()
            }
            (Role::Daemon, Fix::Restart) => restart(host, process),
            (Role::Tool, _) => {
                vec!["a shell has the environment of its session: open a new session from this terminal, then run it again".to_owned()]
            }
            _ => vec![format!("quit it (pid {}) and start it again from this terminal", process.stat.pid)],
        }
    }
}

fn client(host: &Host, process: &AgentProcess) -> String {
    match config_of(host, process) {
        Some(dir) => format!("`zerocode --config-dir {}`", fix::quote(dir.as_bytes())),
        None => "`zerocode`".to_owned(),
    }
}

fn pass_through(host: &Host, process: &AgentProcess, values: &[(&str, &[u8])]) -> Vec<String> {
    let program = fix::program(process, "zeroclaw");
    let set = |dir: &str, profile: &str, before: &[String]| {
        let mut names = before.to_vec();
        names.extend(values.iter().map(|(name, _)| (*name).to_owned()).filter(|name| !before.contains(name)));
        // The command replaces the list, so it carries what is in it already.
        let list = serde_json::Value::from(names).to_string();
        format!(
            "{program}{dir} config set {} {}",
            fix::quote(format!("risk_profiles.{profile}.shell_env_passthrough").as_bytes()),
            fix::quote(list.as_bytes())
        )
    };
    match policy(host, process) {
        Some((dir, policy)) if !policy.passthrough.is_empty() => {
            let dir = format!(" --config-dir {}", fix::quote(dir.as_bytes()));
            let used = |profile: &&String| policy.agents.is_empty() || policy.agents.values().any(|used| used == *profile);
            policy.passthrough.iter().filter(|(profile, _)| used(profile)).map(|(profile, before)| set(&dir, profile, before)).collect()
        }
        _ => vec![set("", "PROFILE", &[])],
    }
}

fn restart(host: &Host, process: &AgentProcess) -> Vec<String> {
    let program = fix::program(process, "zeroclaw");
    let dir = config_of(host, process).map_or_else(String::new, |dir| format!(" --config-dir {}", fix::quote(dir.as_bytes())));
    fix::as_owner(host, process, vec![format!("kill {}", process.stat.pid), format!("{program} daemon{dir}")])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn argv(words: &[&str]) -> Vec<Raw> {
        words.iter().map(|word| Raw::from(*word)).collect()
    }

    fn facts(text: &str) -> Option<(bool, Option<String>)> {
        let file = text.as_bytes().to_vec();
        program(&file, 0..file.length()).unwrap().map(|facts| (facts.client, facts.version))
    }

    #[test]
    fn a_program_is_known_by_the_source_paths_of_its_panics() {
        let location = "/root/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f/zeroclaw-runtime-0.8.7/src/rpc/tui_identity.rs\0";
        assert_eq!(facts(&location.repeat(8)), Some((false, Some("0.8.7".to_owned()))));
        assert_eq!(facts(&"/root/.cargo/registry/src/x/zerocode-0.8.7/src/wire.rs".repeat(9)), Some((true, Some("0.8.7".to_owned()))));
        assert_eq!(facts(&"/home/u/zeroclaw/crates/zeroclaw-runtime/src/lib.rs".repeat(8)), Some((false, None)));
    }

    #[test]
    fn a_program_that_mentions_it_is_another_one() {
        assert_eq!(facts("zeroclaw-runtime-0.8.7/src/ zeroclaw-runtime/src/ zerocode zeroclaw"), None);
        assert_eq!(facts(&"zeroclaw-runtime is a crate, zerocode a program; ".repeat(100)), None);
        assert_eq!(facts(""), None);
    }

    #[test]
    fn modes_and_roles() {
        assert_eq!(mode(false, &argv(&["/x/zeroclaw", "daemon"])), Mode::Service);
        assert_eq!(mode(false, &argv(&["zeroclaw", "--config-dir", "agent", "daemon", "--ephemeral"])), Mode::Service);
        assert_eq!(mode(false, &argv(&["zeroclaw", "config", "list"])), Mode::Command);
        assert_eq!(mode(true, &argv(&["zerocode", "--agent", "daemon"])), Mode::Tui);
        assert_eq!(role(Mode::Command, true), Role::Daemon, "a listener serves, whatever its arguments say");
        assert_eq!(role(Mode::Tui, false), Role::Client);
        assert_eq!(config_dir(&argv(&["zeroclaw", "--config-dir=/x", "daemon"])), Some(Raw::from("/x")));
        assert_eq!(config_dir(&argv(&["zeroclaw", "daemon", "--config-dir", "/y"])), Some(Raw::from("/y")));
        assert_eq!(config_dir(&argv(&["zeroclaw", "daemon", "--config-dir"])), None);
    }

    #[test]
    fn only_the_part_that_concerns_the_shell_is_kept() {
        let text = b"schema_version = 3\n[providers.models.custom.x]\napi_key = \"sk-canary\"\n[risk_profiles.open]\nlevel = \"full\"\nshell_env_passthrough = [\"DISPLAY\"]\n[agents.main]\nrisk_profile = \"open\"\n";
        let policy = parse_policy(text).unwrap();
        assert_eq!(policy.passthrough["open"], ["DISPLAY"]);
        assert_eq!(policy.agents["main"], "open");
        assert!(!format!("{policy:?}").contains("canary"));
        assert_eq!(parse_policy(b"api_key = sk-canary"), Err("it is not TOML".to_owned()));
    }

    proptest::proptest! {
        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..300)) {
            let _ = parse_policy(&bytes);
            let _ = source_of(&bytes);
            let _ = program(&bytes, 0..bytes.len() as u64);
        }
    }
}
