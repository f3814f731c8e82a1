//! Where a process was born: what its environment, its control group and its terminal still tell.
//!
//! The control group names the login of birth even after that login has ended. `ps --all` asks this of
//! thousands of processes, so there is a way over the raw block that copies only what it keeps.

use crate::host::{Environ, Host, Proc, Stat};
use crate::redact;

use super::Birth;
use super::container;
use super::ssh::Connection;

/// What a control group says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Group<'a> {
    /// The login session of logind: the `3` of `session-3.scope`.
    pub login_session: Option<&'a str>,
    /// The innermost unit.
    pub unit: Option<&'a str>,
    /// The uid whose manager runs the unit; none for the system's.
    pub manager: Option<u32>,
    /// Runtime and name of the container.
    pub container: Option<(&'a str, &'a str)>,
}

impl<'a> Group<'a> {
    /// Parses `/proc/<pid>/cgroup`: lines of `hierarchy:controllers:path`, one for version 2, many for version 1.
    pub fn parse(text: &'a [u8]) -> Group<'a> {
        let mut group = Group::default();
        for line in text.split(|&byte| byte == b'\n') {
            let mut fields = line.splitn(3, |&byte| byte == b':');
            let (Some(_), Some(controllers), Some(path)) = (fields.next(), fields.next(), fields.next()) else { continue };
            let Ok(path) = std::str::from_utf8(path) else { continue };
            group.container = group.container.or_else(|| container::of_path(path));
            // In version 1 only systemd's own hierarchy is laid out by units.
            if (controllers.is_empty() || controllers == b"name=systemd") && group.login_session.is_none() && group.unit.is_none() {
                group.place(path);
            }
        }
        group
    }

    fn place(&mut self, path: &'a str) {
        let mut manager = None;
        for part in path.split('/') {
            if let Some(id) = part.strip_prefix("session-").and_then(|rest| rest.strip_suffix(".scope")) {
                self.login_session = Some(id);
                continue;
            }
            if part == "init.scope" || container::of_path(part).is_some() || !(part.ends_with(".service") || part.ends_with(".scope")) {
                continue;
            }
            // systemd puts an underscore before a name that the kernel would take for a file of its own.
            self.unit = Some(part.strip_prefix('_').unwrap_or(part));
            self.manager = manager;
            if let Some(uid) = part.strip_prefix("user@").and_then(|rest| rest.strip_suffix(".service")) {
                manager = uid.parse().ok();
            }
        }
    }
}

/// The variables that tell of birth, as the block has them.
#[derive(Clone, Copy, Default)]
struct Told<'a> {
    connection: Option<&'a [u8]>,
    tty: Option<&'a [u8]>,
    tmux: Option<&'a [u8]>,
    /// It was started inside a multiplexer: the tty that sshd gave is its client's, or was an earlier one's.
    inside: bool,
}

impl Told<'_> {
    fn connection(&self) -> Option<String> {
        let value = self.connection.filter(|value| Connection::parse(value).is_some())?;
        sound("SSH_CONNECTION", value)
    }

    fn tty(&self) -> Option<String> {
        let name = self.tty.filter(|_| !self.inside)?;
        let name = name.strip_prefix(b"/dev/").unwrap_or(name);
        let usual = name.len() <= 16 && name.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'/');
        if usual { sound("SSH_TTY", name) } else { None }
    }

    fn tmux(&self) -> Option<String> {
        sound("TMUX", self.tmux?)
    }
}

/// A value that tells of birth, unless it is masked as a value: then nothing that follows from it is told either.
fn sound(name: &str, value: &[u8]) -> Option<String> {
    let shown = !value.is_empty() && redact::secret(name.as_bytes(), value, false).is_none();
    shown.then(|| String::from_utf8_lossy(value).into_owned())
}

/// What every process below a tmux, screen or zellij is given.
const MULTIPLEXERS: [&str; 3] = ["TMUX", "STY", "ZELLIJ"];

/// Where a process was born. `environ` is none where it may not be read.
pub fn birth(_host: &Host, process: &Proc<'_>, stat: &Stat, environ: Option<&Environ>) -> Birth {
    let told = environ.map(told_by).unwrap_or_default();
    match process.cgroup() {
        Ok(text) => assemble(told, Group::parse(text.as_bytes()), stat),
        Err(_) => assemble(told, Group::default(), stat),
    }
}

/// What an environment alone tells, where it is no process's.
pub fn of_environ(environ: &Environ) -> Birth {
    let told = told_by(environ);
    Birth { ssh_connection: told.connection(), tty: told.tty(), tmux: told.tmux(), ..Birth::default() }
}

fn told_by(environ: &Environ) -> Told<'_> {
    let bytes = |name| environ.bytes(name);
    // A snapshot that masked one of them still says that it is set.
    let inside = MULTIPLEXERS.iter().any(|name| environ.get(name).is_some_and(|value| value.clear() != Some(b"")));
    Told { connection: bytes("SSH_CONNECTION"), tty: bytes("SSH_TTY"), tmux: bytes("TMUX"), inside }
}

/// The same from the raw block and the raw control groups, in one pass over each.
pub fn from_raw(block: &[u8], cgroup: &[u8], stat: &Stat) -> Birth {
    assemble(told(block), Group::parse(cgroup), stat)
}

fn told(block: &[u8]) -> Told<'_> {
    let mut told = Told::default();
    let mut start = 0;
    // What stands behind the last NUL is an entry too when the block was cut off.
    for end in memchr::memchr_iter(0, block).chain(std::iter::once(block.len())) {
        let part = &block[start..end];
        start = end + 1;
        match part.first() {
            Some(b'S') => {
                if let Some(value) = part.strip_prefix(b"SSH_CONNECTION=") {
                    told.connection.get_or_insert(value);
                } else if let Some(value) = part.strip_prefix(b"SSH_TTY=") {
                    told.tty.get_or_insert(value);
                } else if part.starts_with(b"STY=") {
                    told.inside |= part.len() > 4;
                }
            }
            Some(b'T') => {
                if let Some(value) = part.strip_prefix(b"TMUX=") {
                    told.inside |= !value.is_empty();
                    told.tmux.get_or_insert(value);
                }
            }
            Some(b'Z') => told.inside |= part.starts_with(b"ZELLIJ=") && part.len() > 7,
            _ => {}
        }
    }
    told
}

fn assemble(told: Told<'_>, group: Group<'_>, stat: &Stat) -> Birth {
    Birth {
        ssh_connection: told.connection(),
        tty: stat.tty().or_else(|| told.tty()),
        login_session: group.login_session.map(str::to_owned),
        tmux: told.tmux(),
        unit: group.unit.map(str::to_owned),
        container: group.container.map(|(runtime, name)| container::shown(runtime, name)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stat() -> Stat {
        Stat::parse(b"42 (opencode) S 1 42 42 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 987654", 1000).unwrap()
    }

    fn group(text: &str) -> Birth {
        from_raw(b"", text.as_bytes(), &stat())
    }

    #[test]
    fn the_block_and_the_parsed_environ_tell_the_same() {
        let block =
            b"A=1\0SSH_TTY=/dev/pts/3\0TMUX=/tmp/tmux-1000/default,9,0\0SSH_CONNECTION=127.0.0.2 5 127.0.0.1 22\0SSH_TTY=/dev/pts/4\0";
        let cgroup = b"0::/user.slice/user-1000.slice/session-3.scope\n";
        let fast = from_raw(block, cgroup, &stat());
        assert_eq!(fast.ssh_connection.as_deref(), Some("127.0.0.2 5 127.0.0.1 22"));
        assert_eq!(fast.tty, None, "a pane has another tty than the login");
        assert_eq!(fast.tmux.as_deref(), Some("/tmp/tmux-1000/default,9,0"));
        assert_eq!((fast.login_session.as_deref(), fast.unit), (Some("3"), None));
        let tree = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(tree.path().join("proc/42")).unwrap();
        std::fs::write(tree.path().join("proc/42/cgroup"), cgroup).unwrap();
        let host = Host::at_root(tree.path());
        let slow = birth(&host, &host.process(42), &stat(), Some(&Environ::parse(block)));
        assert_eq!(slow, from_raw(block, cgroup, &stat()));
    }

    #[test]
    fn the_login_s_tty_unless_it_was_inside_a_multiplexer_and_nothing_that_is_masked() {
        let tty = |block: &str| {
            let fast = from_raw(block.replace(' ', "\0").as_bytes(), b"", &stat()).tty;
            assert_eq!(fast, of_environ(&Environ::parse(block.replace(' ', "\0").as_bytes())).tty, "{block}");
            fast
        };
        assert_eq!(tty("SSH_TTY=/dev/pts/37").as_deref(), Some("pts/37"));
        assert_eq!(tty("SSH_TTY=/dev/pts/37 TMUX= STY= ZELLIJ=").as_deref(), Some("pts/37"));
        for inside in
            ["TMUX=/tmp/tmux-1003/default,9,0", "STY=77.pts-0.host", "ZELLIJ=0", "TMUX=/tmp/ghp_0123456789abcdefghijABCDEFGHIJ012345,9,0"]
        {
            assert_eq!(tty(&format!("SSH_TTY=/dev/pts/37 {inside}")), None, "{inside}");
        }
        assert_eq!(tty("SSH_TTY=/dev/pts/sk-ant-api03-0123456789abcdef"), None);
        let connection = |value: &str| of_environ(&Environ::parse(format!("SSH_CONNECTION={value}").as_bytes())).ssh_connection;
        assert_eq!(connection("2001:db8::2 50001 2001:db8::1 22").as_deref(), Some("2001:db8::2 50001 2001:db8::1 22"));
        assert_eq!(connection("fe80::1%ghp_0123456789abcdefghijABCDEFGHIJ012345 50001 fe80::2 22"), None);
        assert_eq!(connection("Zk3vQ9xW1pL7rT5yB2nM8qHH 50001 127.0.0.1 22"), None);
    }

    #[test]
    fn units_of_the_system_and_of_the_user_manager() {
        let unit = |text: &str| {
            let group = Group::parse(text.as_bytes());
            (group.unit.map(str::to_owned), group.manager)
        };
        assert_eq!(unit("0::/system.slice/ssh.service\n"), (Some("ssh.service".to_owned()), None));
        let user = "0::/user.slice/user-1000.slice/user@1000.service/app.slice/opencode.service\n";
        assert_eq!(unit(user), (Some("opencode.service".to_owned()), Some(1000)));
        let pane = "0::/user.slice/user-1000.slice/user@1000.service/tmux-spawn-1f.scope\n";
        assert_eq!(unit(pane), (Some("tmux-spawn-1f.scope".to_owned()), Some(1000)));
        let manager = "0::/user.slice/user-1000.slice/user@1000.service/init.scope\n";
        assert_eq!(unit(manager), (Some("user@1000.service".to_owned()), None));
        assert_eq!(unit("0::/\n"), (None, None));
    }

    #[test]
    fn version_one_has_a_line_for_each_controller() {
        let text = "12:memory:/user.slice\n1:name=systemd:/user.slice/user-1000.slice/session-c2.scope\n0::/user.slice/x.service\n";
        assert_eq!(group(text).login_session.as_deref(), Some("c2"));
    }

    #[test]
    fn containers_by_their_runtime() {
        let id = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
        let container = |path: &str| group(&format!("0::{path}\n")).container;
        assert_eq!(container(&format!("/system.slice/docker-{id}.scope")).as_deref(), Some("docker:0123456789ab"));
        assert_eq!(container(&format!("/docker/{id}")).as_deref(), Some("docker:0123456789ab"));
        assert_eq!(container(&format!("/machine.slice/libpod-{id}.scope/container")).as_deref(), Some("podman:0123456789ab"));
        assert_eq!(container(&format!("/machine.slice/libpod-conmon-{id}.scope")), None);
        let pod = format!("/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod1.slice/cri-containerd-{id}.scope");
        assert_eq!(container(&pod).as_deref(), Some("containerd:0123456789ab"));
        assert_eq!(container(&format!("/kubepods/besteffort/pod1/{id}")).as_deref(), Some("kubernetes:0123456789ab"));
        assert_eq!(container("/lxc.payload.web/system.slice/x.service").as_deref(), Some("lxc:web"));
        assert_eq!(container("/lxc/web").as_deref(), Some("lxc:web"));
        assert_eq!(container("/lxc.monitor.web"), None);
        assert_eq!(container("/machine.slice/machine-deb\\x2d12.scope").as_deref(), Some("machine:deb-12"));
        assert_eq!(container("/machine.slice/systemd-nspawn@deb.service").as_deref(), Some("machine:deb"));
        assert_eq!(container("/system.slice/docker.service"), None);
        assert_eq!(group(&format!("0::/system.slice/docker-{id}.scope\n")).unit, None);
    }

    proptest::proptest! {
        #[test]
        fn no_bytes_panic(block in proptest::collection::vec(proptest::num::u8::ANY, 0..200), lines in "[a-z0-9:/@._\\\\\n-]{0,120}") {
            let _ = from_raw(&block, lines.as_bytes(), &stat());
            let _ = from_raw(lines.as_bytes(), &block, &stat());
        }
    }
}
