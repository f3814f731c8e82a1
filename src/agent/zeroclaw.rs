//! ZeroClaw and zerocode: the modes they are started in, and what repairs the environment of their shells.

use super::fix::{self, Fix};
use super::{Agent, AgentProcess, HandedOn, Mode, Role, relaunch};
use crate::host::{Environ, Host, Raw, Value};
use crate::verdict::Finding;

mod policy;

use policy::Said;
pub use policy::{Policy, parse_policy, policy};

/// ZeroClaw, with zerocode as its client.
pub struct ZeroClaw;

/// Id in the catalogue.
pub(super) use crate::binary::product::ZEROCLAW as ID;

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

/// Where a daemon's config is; none where that cannot be found out.
pub(super) fn config_path(host: &Host, process: &AgentProcess) -> Option<Raw> {
    policy::config_dir(host, process).map(|dir| dir.path).filter(|path| path.as_bytes().starts_with(b"/"))
}

impl Agent for ZeroClaw {
    fn id(&self) -> &'static str {
        ID
    }

    fn findings(&self, host: &Host, process: &AgentProcess) -> Vec<Finding> {
        fix::deleted_exe(host, process, self.fix(host, process, &Fix::Restart)).into_iter().collect()
    }

    fn fix(&self, host: &Host, process: &AgentProcess, wanted: &Fix<'_>) -> Vec<String> {
        let program = match process.role {
            Role::Daemon => fix::program(host, process, ID),
            _ => Some(ID.to_owned()),
        };
        let Some(program) = program else { return fix::install_first(host, process, ID) };
        match (process.role, wanted) {
            (Role::Daemon, Fix::Carry(values)) => {
                let Ways { before, session, pass_through } = Ways::of(host, process, &program, values);
                let commands = before.into_iter().chain(pass_through).chain(restart(host, process, &program, values));
                let or = fix::note("or let the daemon's own values through, and restart it from this terminal:");
                [session, or].into_iter().chain(fix::as_owner(host, process, relaunch::once(commands))).collect()
            }
            (Role::Daemon, Fix::Drop(names)) => {
                let unset = format!("unset {}", names.join(" "));
                std::iter::once(unset).chain(fix::as_owner(host, process, restart(host, process, &program, &[]))).collect()
            }
            (Role::Daemon, Fix::Restart) => fix::as_owner(host, process, restart(host, process, &program, &[])),
            (Role::Tool, _) => {
                vec![fix::note("a shell has the environment of its session: open a new session from this terminal, then run it again")]
            }
            _ => vec![fix::note(format!("quit it (pid {}) and start it again from this terminal", process.stat.pid))],
        }
    }

    fn beside(&self, host: &Host, process: &AgentProcess, wanted: &Fix<'_>) -> Vec<String> {
        match (process.role, wanted) {
            (Role::Daemon, Fix::Carry(values)) => {
                let Some(program) = fix::program(host, process, ID) else { return fix::install_first(host, process, ID) };
                let Ways { before, session, pass_through } = Ways::of(host, process, &program, values);
                let commands = before.into_iter().chain(pass_through);
                let or = fix::note("or let the daemon's own values through:");
                [session, or].into_iter().chain(fix::as_owner(host, process, commands.collect())).collect()
            }
            _ => Vec::new(),
        }
    }

    fn hands_on(&self, host: &Host, process: &AgentProcess, environ: &Environ) -> Option<HandedOn> {
        (process.role == Role::Daemon).then(|| policy::hands_on(host, process, environ))
    }
}

/// What there is to do beside a restart.
struct Ways {
    /// Lines that read what may not be shown.
    before: Vec<String>,
    /// A client sends its terminal's environment along.
    session: String,
    /// The daemon hands on more of its own. Its config is read again only when it starts.
    pass_through: Vec<String>,
}

impl Ways {
    fn of(host: &Host, process: &AgentProcess, program: &str, values: &[(&str, &[u8])]) -> Ways {
        let pid = process.stat.pid;
        let relaunch::Own { mut before, prefix } = relaunch::own(host, process, "ZEROCLAW_");
        // What leads a command to the config of this daemon; where a variable does, it is part of the prefix.
        let dir = policy::config_dir(host, process);
        let argv = host.process(pid).cmdline().unwrap_or_default();
        let words = match dir.map(|dir| (dir.said, dir.path)) {
            Some((Said::Argument(at), path)) => match relaunch::word(pid, &argv, at, &mut before) {
                shown if !shown.starts_with("\"$") => format!(" --config-dir {}", fix::quote(path.as_bytes())),
                kept if argv.get(at).and_then(Value::clear).is_some_and(|word| word.starts_with(b"-")) => format!(" {kept}"),
                kept => format!(" --config-dir {kept}"),
            },
            Some((Said::Place, path)) => format!(" --config-dir {}", fix::quote(path.as_bytes())),
            _ => String::new(),
        };
        let session = fix::note(format!(
            "open a new session from this terminal with `{prefix}zerocode{words}`: it sends the terminal's environment along; a session that is open keeps its own"
        ));
        let program = format!("{prefix}{program}{words}");
        Ways { before, session, pass_through: pass_through(host, process, &program, values) }
    }
}

/// `config set` replaces the list, so the command carries what is in it already.
fn pass_through(host: &Host, process: &AgentProcess, program: &str, values: &[(&str, &[u8])]) -> Vec<String> {
    let read = policy::policy(host, process).unwrap_or_default();
    let listed = |profile: &str| read.passthrough.get(profile).map(Vec::as_slice).unwrap_or_default();
    let set = |profile: &str| {
        let mut names = listed(profile).to_vec();
        names.extend(values.iter().map(|(name, _)| (*name).to_owned()).filter(|name| !listed(profile).contains(name)));
        let path = format!("risk_profiles.{profile}.shell_env_passthrough");
        let list = serde_json::Value::from(names).to_string();
        format!("{program} config set {} {}", fix::quote(path.as_bytes()), fix::quote(list.as_bytes()))
    };
    let lacks = |profile: &&str| values.iter().any(|(name, _)| !listed(profile).iter().any(|known| known == name));
    let profiles = read.in_use();
    if profiles.is_empty() {
        return vec![
            fix::note("PROFILE is the risk profile of the agent; what is in its list already has to be repeated:"),
            set("PROFILE"),
        ];
    }
    profiles.into_iter().filter(lacks).map(set).collect()
}

/// Ends the daemon and starts it with its own words. What it listens on goes with it.
fn restart(host: &Host, process: &AgentProcess, program: &str, values: &[(&str, &[u8])]) -> Vec<String> {
    let own = relaunch::own(host, process, "ZEROCLAW_");
    relaunch::lines(host, process, (&own, program), values, |_| String::new())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn argv(words: &[&str]) -> Vec<Raw> {
        words.iter().map(|word| Raw::from(*word)).collect()
    }

    const CONFIG: &str = "[risk_profiles.open]\nshell_env_passthrough = [\"EDITOR\"]\n[agents.main]\nrisk_profile = \"open\"\n";
    const END: &str = "kill 20 && timeout 10 tail --pid=20 -f /dev/null";

    /// The lines for a daemon with these arguments and this environment, beside a config in `/srv/my claw`.
    fn lines(argv: &'static [&'static str], environ: &'static [&'static str], wanted: &Fix<'_>) -> Vec<String> {
        use super::super::discover;
        use super::super::made::{Made, Process, zeroclaw};
        let made = Made::new();
        made.program("/opt/zeroclaw", &zeroclaw("zeroclaw-runtime"));
        made.file("/srv/my claw/config.toml", CONFIG.as_bytes());
        made.environ(900, &["HOME=/home/u"]);
        Process { comm: "zeroclaw", exe: "/opt/zeroclaw", argv, environ, cwd: "/srv/work", ..made.process(20, 1) }.write();
        let host = made.host();
        let processes = discover(&host).unwrap();
        let root = made.at("/").display().to_string();
        ZeroClaw.fix(&host, &processes[0], wanted).into_iter().map(|line| line.replace(&root, "/")).collect()
    }

    #[test]
    fn every_line_is_for_this_daemon_and_its_config() {
        let argv: &[&str] =
            &["/opt/zeroclaw", "daemon", "--ephemeral", "--config-dir", "/srv/my claw", "--host", "127.0.0.1", "--port", "9090"];
        let session = "# open a new session from this terminal with `zerocode --config-dir '/srv/my claw'`: it sends the terminal's environment along; a session that is open keeps its own";
        let again = "/opt/zeroclaw daemon --ephemeral --config-dir '/srv/my claw' --host 127.0.0.1 --port 9090)";
        assert_eq!(
            lines(argv, &["HOME=/home/u"], &Fix::Carry(&[("DISPLAY", b"localhost:11.0")])),
            [
                session,
                "# or let the daemon's own values through, and restart it from this terminal:",
                r#"/opt/zeroclaw --config-dir '/srv/my claw' config set risk_profiles.open.shell_env_passthrough '["EDITOR","DISPLAY"]'"#,
                END,
                &format!("(cd /srv/work && DISPLAY=localhost:11.0 {again}"),
            ]
        );
        assert_eq!(lines(argv, &["HOME=/home/u"], &Fix::Restart), [END, &format!("(cd /srv/work && {again}")]);
        // Told by its environment, it has to be told so again; and what may not be shown is not.
        let environ: &[&str] = &["HOME=/home/u", "ZEROCLAW_CONFIG_DIR=/srv/my claw", "ZEROCLAW_SOCKET=/run/claw.sock"];
        let places = "ZEROCLAW_CONFIG_DIR=\"$ZEROCLAW_CONFIG_DIR_KEPT\" ZEROCLAW_SOCKET=/run/claw.sock";
        assert_eq!(
            lines(&["/opt/zeroclaw", "daemon"], environ, &Fix::Carry(&[("DISPLAY", b":0")])),
            [
                &format!(
                    "# open a new session from this terminal with `{places} zerocode`: it sends the terminal's environment along; a session that is open keeps its own"
                ),
                "# or let the daemon's own values through, and restart it from this terminal:",
                "ZEROCLAW_CONFIG_DIR_KEPT=\"$(sed -zn 's/^ZEROCLAW_CONFIG_DIR=//p' /proc/20/environ | tr -d '\\0')\"",
                &format!(r#"{places} /opt/zeroclaw config set risk_profiles.open.shell_env_passthrough '["EDITOR","DISPLAY"]'"#),
                END,
                &format!("(cd /srv/work && DISPLAY=:0 {places} /opt/zeroclaw daemon)"),
            ]
        );
    }

    #[test]
    fn a_config_that_cannot_be_read_is_named_all_the_same() {
        let argv: &[&str] = &["/opt/zeroclaw", "--config-dir=/srv/none", "daemon"];
        let lines = lines(argv, &["HOME=/home/u"], &Fix::Carry(&[("DISPLAY", b":0")]));
        assert_eq!(lines[2], "# PROFILE is the risk profile of the agent; what is in its list already has to be repeated:");
        assert_eq!(
            lines[3],
            r#"/opt/zeroclaw --config-dir /srv/none config set risk_profiles.PROFILE.shell_env_passthrough '["DISPLAY"]'"#
        );
    }

    #[test]
    fn modes_and_roles() {
        assert_eq!(mode(false, &argv(&["/x/zeroclaw", "daemon"])), Mode::Service);
        assert_eq!(mode(false, &argv(&["zeroclaw", "--config-dir", "agent", "daemon", "--ephemeral"])), Mode::Service);
        assert_eq!(mode(false, &argv(&["zeroclaw", "config", "list"])), Mode::Command);
        assert_eq!(mode(true, &argv(&["zerocode", "--agent", "daemon"])), Mode::Tui);
        assert_eq!(role(Mode::Command, true), Role::Daemon, "a listener serves, whatever its arguments say");
        assert_eq!(role(Mode::Tui, false), Role::Client);
    }

    proptest::proptest! {
        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..300)) {
            let _ = parse_policy(&bytes);
        }
    }
}
