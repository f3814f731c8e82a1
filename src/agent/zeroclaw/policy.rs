//! What of a ZeroClaw daemon's environment its shells get: the config that the daemon reads, and the safe list.
//!
//! The shell's environment is cleared first. From the daemon's own block come the names of the safe list and those of
//! the risk profile's `shell_env_passthrough`; names that are no identifiers are skipped without a word (seen on
//! ZeroClaw 0.8.7). What a client brings with its session is laid on top, and is known to the daemon alone.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::super::{AgentProcess, HandedOn, Listener, Unread};
use crate::host::{Environ, Fact, Host, Raw, Unknown, Value, View};

/// What every shell gets of the daemon's, if the daemon has it.
const SAFE_LIST: [&str; 9] = ["PATH", "HOME", "TERM", "LANG", "LC_ALL", "LC_CTYPE", "USER", "SHELL", "TMPDIR"];

/// What a config file says of the names that reach the shell.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Policy {
    /// Risk profiles with the names that each lets through from the daemon's environment.
    pub passthrough: BTreeMap<String, Vec<String>>,
    /// The risk profile of each agent.
    pub agents: BTreeMap<String, String>,
}

impl Policy {
    /// The risk profiles that an agent has; where no agent names one, all there are.
    pub(super) fn in_use(&self) -> BTreeSet<&str> {
        let named: BTreeSet<&str> = self.agents.values().map(String::as_str).collect();
        if named.is_empty() { self.passthrough.keys().map(String::as_str).collect() } else { named }
    }

    /// The profiles in use that let a name through, and those that do not.
    fn split(&self, name: &str) -> (Vec<&str>, Vec<&str>) {
        let lists = |profile: &&str| self.passthrough.get(*profile).is_some_and(|names| names.iter().any(|listed| listed == name));
        self.in_use().into_iter().partition(lists)
    }
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
            .filter_map(|(agent, value)| Some((agent.clone(), value.get("risk_profile")?.as_str()?.trim().to_owned())))
            .collect(),
    })
}

/// The directory with the config that a daemon reads, and what says so.
pub(super) struct ConfigDir {
    pub path: Raw,
    pub said: Said,
}

/// What says where the config is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Said {
    /// This word of the arguments, or the end of it.
    Argument(usize),
    /// A variable of the daemon's environment, whose value may not be shown.
    Variable(&'static str),
    /// Where it listens, or its home.
    Place,
}

/// The `--config-dir` among the arguments, and the word in which it stands.
fn flag(argv: &[Value]) -> Option<(usize, Raw)> {
    const FLAG: &[u8] = b"--config-dir";
    let clear = |at: usize| argv.get(at).and_then(Value::clear);
    let at = argv.iter().position(|word| word.clear().is_some_and(|word| word.starts_with(FLAG)))?;
    match clear(at)?.strip_prefix(FLAG)? {
        b"" => Some((at + 1, clear(at + 1).map(Raw::from)?)),
        rest => Some((at, rest.strip_prefix(b"=").map(Raw::from)?)),
    }
}

/// The config's directory: the arguments say, else the environment, else where the daemon listens
/// (`<config>/data/daemon.sock`), else its home.
pub(super) fn config_dir(host: &Host, process: &AgentProcess) -> Option<ConfigDir> {
    let handle = host.process(process.stat.pid);
    let environ = handle.environ().unwrap_or_default();
    let filled = |name: &str| environ.bytes(name).map(<[u8]>::trim_ascii).filter(|value| !value.is_empty());
    // Relative to where it was started; a daemon stays there.
    let whole = |path: &[u8]| match (path, filled("HOME")) {
        ([b'~', b'/', rest @ ..], Some(home)) => Some(Raw([home, b"/", rest].concat())),
        ([b'/', ..], _) => Some(Raw::from(path)),
        _ => Some(Raw([handle.cwd().ok()?.as_bytes(), b"/", path].concat())),
    };
    if let Some((at, dir)) = flag(&handle.cmdline().unwrap_or_default()) {
        return Some(ConfigDir { path: whole(dir.as_bytes())?, said: Said::Argument(at) });
    }
    for name in ["ZEROCLAW_CONFIG_DIR", "ZEROCLAW_DATA_DIR", "ZEROCLAW_WORKSPACE"] {
        let Some(dir) = filled(name) else {
            // A snapshot keeps that it is set, and what stood in the file.
            if matches!(environ.get(name), Some(Value::Masked(_))) {
                return Some(ConfigDir { path: Raw::default(), said: Said::Variable(name) });
            }
            continue;
        };
        let dir = whole(dir)?;
        let path = if name == "ZEROCLAW_CONFIG_DIR" { dir } else { beside(host, handle.view().unwrap_or(View::OURS), &dir) };
        return Some(ConfigDir { path, said: Said::Variable(name) });
    }
    let listens = process.listeners.iter().flatten().find_map(|listener| match listener {
        Listener::Unix(path) => path.as_bytes().strip_suffix(b"/data/daemon.sock").map(Raw::from),
        Listener::Tcp(_) => None,
    });
    let path = listens.or_else(|| Some(Raw([filled("HOME")?, b"/.zeroclaw"].concat())))?;
    Some(ConfigDir { path, said: Said::Place })
}

/// Where the config is of a daemon that was told its data directory, in ZeroClaw 0.8.7's order.
fn beside(host: &Host, view: View, data: &Raw) -> Raw {
    let is_there = |dir: &[u8]| host.path(view, &[dir, b"/config.toml"].concat()).is_ok();
    let path = data.as_bytes();
    let at = memchr::memrchr(b'/', path).unwrap_or_default();
    let older = [&path[..at], b"/.zeroclaw"].concat();
    let called_so = matches!(&path[at..], b"/data" | b"/workspace");
    if !is_there(path) && (is_there(&older) || called_so) { Raw(older) } else { data.clone() }
}

/// What the daemon's config file says.
///
/// # Errors
/// The file, or what names it, and why it could not be read.
pub fn policy(host: &Host, process: &AgentProcess) -> Result<Policy, Unread> {
    let kept = host.process(process.stat.pid).fact("zeroclaw policy", || Ok(read(host, process)));
    kept.unwrap_or_else(|unknown| Err(Unread { source: "the config".to_owned(), reason: unknown.to_string() }))
}

fn read(host: &Host, process: &AgentProcess) -> Result<Policy, Unread> {
    let Some(dir) = config_dir(host, process) else {
        return Err(Unread {
            source: format!("/proc/{}", process.stat.pid),
            reason: "where its config is, could not be found out".to_owned(),
        });
    };
    let path = [dir.path.as_bytes(), b"/config.toml"].concat();
    let source = match dir.said {
        Said::Place => String::from_utf8_lossy(&path).into_owned(),
        Said::Variable(name) => format!("the config.toml that its {name} leads to"),
        Said::Argument(_) => "the config.toml in its --config-dir".to_owned(),
    };
    let view = host.process(process.stat.pid).view().unwrap_or(View::OURS);
    let document: Fact<_> = host.document(view, &path, parse_policy);
    match document {
        // It runs without one, with what is built in: nothing is let through.
        Err(Unknown::Absent) => Ok(Policy::default()),
        Err(unknown) => Err(Unread { source, reason: unknown.to_string() }),
        Ok(document) => document.content.map_err(|reason| Unread { source, reason }),
    }
}

/// What of this block the daemon's shells get when no client brings an environment.
pub(super) fn hands_on(host: &Host, process: &AgentProcess, environ: &Environ) -> HandedOn {
    let read = policy(host, process);
    let mut handed = HandedOn { unread: read.as_ref().err().cloned(), ..HandedOn::default() };
    for entry in &environ.entries {
        let Some(name) = entry.name.as_str() else { continue };
        if SAFE_LIST.contains(&name) {
            handed.environ.entries.push(entry.clone());
            continue;
        }
        let (lets, keeps) = match &read {
            Ok(policy) => policy.split(name),
            Err(unread) => {
                handed.unknown.insert(name.to_owned(), format!("{}: {}", unread.source, unread.reason));
                continue;
            }
        };
        if lets.is_empty() || !is_identifier(name) {
            handed.dropped.insert(name.to_owned(), "ZeroClaw's safe list".to_owned());
        } else if keeps.is_empty() {
            handed.environ.entries.push(entry.clone());
        } else {
            let why = format!("risk profile {} lets it through, {} does not", lets.join(", "), keeps.join(", "));
            handed.unknown.insert(name.to_owned(), why);
        }
    }
    handed
}

fn is_identifier(name: &str) -> bool {
    name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') && !name.starts_with(|first: char| first.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::super::super::discover;
    use super::super::super::made::{Made, Process, zeroclaw};
    use super::*;

    const CONFIG: &str = "schema_version = 3\n[providers.models.custom.x]\napi_key = \"sk-canary\"\n[risk_profiles.open]\nlevel = \"full\"\nshell_env_passthrough = [\"DISPLAY\"]\n[agents.main]\nrisk_profile = \"open\"\n";

    #[test]
    fn only_the_part_that_concerns_the_shell_is_kept() {
        let policy = parse_policy(CONFIG.as_bytes()).unwrap();
        assert_eq!(policy.passthrough["open"], ["DISPLAY"]);
        assert_eq!(policy.agents["main"], "open");
        assert!(!format!("{policy:?}").contains("canary"));
        assert_eq!(parse_policy(b"api_key = sk-canary"), Err("it is not TOML".to_owned()));
    }

    const ENVIRON: &[&str] = &["PATH=/usr/bin", "HOME=/home/u", "DISPLAY=:0", "SSH_AUTH_SOCK=/run/agent", "LC_CTYPE=C.UTF-8", "LC_TIME=C"];

    /// What a daemon with these arguments and this environment hands on, with this text in its config.
    fn handed(argv: &'static [&'static str], environ: &'static [&'static str], config: Option<(&str, &str)>) -> HandedOn {
        let made = Made::new();
        made.program("/opt/zeroclaw", &zeroclaw("zeroclaw-runtime"));
        if let Some((path, text)) = config {
            made.file(path, text.as_bytes());
        }
        Process { comm: "zeroclaw", exe: "/opt/zeroclaw", argv, environ, ..made.process(20, 1) }.write();
        let host = made.host();
        let processes = discover(&host).unwrap();
        hands_on(&host, &processes[0], &host.process(20).environ().unwrap())
    }

    fn names(handed: &HandedOn) -> Vec<&str> {
        handed.environ.entries.iter().filter_map(|entry| entry.name.as_str()).collect()
    }

    #[test]
    fn the_safe_list_and_the_passthrough_reach_the_shell_and_nothing_else() {
        let config = Some(("/home/u/.zeroclaw/config.toml", CONFIG));
        let handed = handed(&["/opt/zeroclaw", "daemon"], ENVIRON, config);
        assert_eq!(names(&handed), ["PATH", "HOME", "DISPLAY", "LC_CTYPE"]);
        assert_eq!(handed.dropped.keys().collect::<Vec<_>>(), ["LC_TIME", "SSH_AUTH_SOCK"]);
        assert_eq!((handed.unknown.len(), handed.unread), (0, None));
    }

    #[test]
    fn the_config_is_the_one_that_this_daemon_reads() {
        let argv: &[&str] = &["/opt/zeroclaw", "daemon", "--config-dir", "/srv/claw"];
        assert_eq!(names(&handed(argv, ENVIRON, Some(("/srv/claw/config.toml", CONFIG)))), ["PATH", "HOME", "DISPLAY", "LC_CTYPE"]);
        let elsewhere = handed(argv, ENVIRON, Some(("/home/u/.zeroclaw/config.toml", CONFIG)));
        assert_eq!(names(&elsewhere), ["PATH", "HOME", "LC_CTYPE"], "another config's passthrough is not this daemon's");
        let environ: &[&str] = &["HOME=/home/u", "DISPLAY=:0", "ZEROCLAW_CONFIG_DIR=/srv/env"];
        let by_environ = handed(&["/opt/zeroclaw", "daemon"], environ, Some(("/srv/env/config.toml", CONFIG)));
        assert_eq!(names(&by_environ), ["HOME", "DISPLAY"]);
        let environ: &[&str] = &["HOME=/home/u", "DISPLAY=:0", "ZEROCLAW_DATA_DIR=/srv/data"];
        let by_data = handed(&["/opt/zeroclaw", "daemon"], environ, Some(("/srv/.zeroclaw/config.toml", CONFIG)));
        assert_eq!(names(&by_data), ["HOME", "DISPLAY"]);
    }

    #[test]
    fn a_config_that_cannot_be_read_leaves_it_open() {
        let broken = handed(&["/opt/zeroclaw", "daemon"], ENVIRON, Some(("/home/u/.zeroclaw/config.toml", "api_key = sk-canary")));
        assert_eq!(names(&broken), ["PATH", "HOME", "LC_CTYPE"], "the safe list holds whatever the config says");
        assert_eq!(broken.unknown.keys().collect::<Vec<_>>(), ["DISPLAY", "LC_TIME", "SSH_AUTH_SOCK"]);
        assert_eq!(broken.unread.unwrap().reason, "it is not TOML");
        assert!(broken.dropped.is_empty());
    }

    #[test]
    fn agents_with_different_profiles_get_different_things() {
        let two = format!("{CONFIG}[risk_profiles.shut]\n[agents.other]\nrisk_profile = \"shut\"\n");
        let handed = handed(&["/opt/zeroclaw", "daemon"], ENVIRON, Some(("/home/u/.zeroclaw/config.toml", &two)));
        assert_eq!(handed.unknown["DISPLAY"], "risk profile open lets it through, shut does not");
    }

    proptest::proptest! {
        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..300)) {
            let _ = parse_policy(&bytes);
        }
    }
}
