//! `SSH_AUTH_SOCK`: an agent forwarded by sshd, which ends with its login, or one that stays.
//!
//! | path | made by |
//! |---|---|
//! | `/tmp/ssh-XXXXXXXXXX/agent.<pid>` | sshd up to OpenSSH 10.0: the pid is that of the sshd serving the login |
//! | the same | ssh-agent up to 10.0: the pid is its starter's, its own is one of the next |
//! | `~/.ssh/agent/s.<hash>.sshd.<random>` | sshd since 10.1 |
//! | `~/.ssh/agent/s.<hash>.agent.<random>` | ssh-agent since 10.1; some builds of sshd too |
//! | `/tmp/auth-agent<random>/listener.sock` | Tailscale SSH |

use crate::host::Pid;
use crate::host::connect::Target;
use crate::host::files::PathFact;
use crate::verdict::State;

use super::owner::{self, Hint};
use super::socket;
use super::ssh::{self, Connection, Standing};
use super::{Carrier, Named, Owner};

/// Programs that serve agent sockets.
const SERVERS: &[&str] = &[
    "ssh-agent",
    "gpg-agent",
    "gnome-keyring-d",
    "gcr-ssh-agent",
    "sshd",
    "keepassxc",
    "1password",
    "ssh-tpm-agent",
    "yubikey-agent",
    "secretive",
    "bw",
    "goldwarden",
    "pageant",
    "systemd",
];

/// Who made a socket, as far as its path tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// `/tmp/ssh-XXXX/agent.<pid>`: sshd or ssh-agent.
    Numbered(Pid),
    /// A path that only a forwarding server makes.
    Forwarded,
    /// `s.<hash>.agent.<random>`: ssh-agent, or sshd.
    Hashed,
    /// A path that stays the same when its server is started anew.
    Stable,
}

impl Scheme {
    /// What the path tells.
    pub fn of(path: &[u8]) -> Scheme {
        let text = String::from_utf8_lossy(path);
        let mut parts = text.rsplit('/');
        let (base, dir) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        if let Some(pid) = base.strip_prefix("agent.").and_then(|pid| pid.parse().ok())
            && dir.starts_with("ssh-")
        {
            return Scheme::Numbered(pid);
        }
        if base == "listener.sock" && dir.starts_with("auth-agent") {
            return Scheme::Forwarded;
        }
        match base.split('.').collect::<Vec<_>>()[..] {
            ["s", _, "sshd", _] if dir == "agent" => Scheme::Forwarded,
            ["s", _, "agent", _] if dir == "agent" => Scheme::Hashed,
            _ => Scheme::Stable,
        }
    }
}

/// `SSH_AUTH_SOCK`.
pub(super) fn examine(carrier: &Carrier<'_>, value: &[u8]) -> Named {
    let hint = Hint { names: SERVERS, pids: pids_of(Scheme::of(value)), argument: Some(value), datagrams: false };
    let found = socket::at_path(carrier, value, &hint);
    let mut named = found.named;
    let by_link = found.target != value;
    let scheme = Scheme::of(&found.target);
    if named.liveness.state == State::Alive {
        if named.owner.is_none() {
            let by_path = owner_by_path(carrier, scheme);
            if let Some((owner, seen)) = by_path {
                named.evidence.push(carrier.saw(String::from_utf8_lossy(&found.target), seen));
                named.owner = Some(owner);
            }
        }
        let by_sshd = named.owner.as_ref().map(|owner| owner::SSHD.contains(&owner.comm.as_str()));
        let forwarded = by_sshd.unwrap_or(scheme == Scheme::Forwarded || matches!(scheme, Scheme::Numbered(_)));
        named = match (forwarded, by_link) {
            (true, false) => forwarded_agent(carrier, named, (value, found.fact.as_ref())),
            (true, true) => linked(named, &found.target),
            (false, _) => {
                let named = socket::note_age(carrier, named, found.fact.as_ref());
                if by_link { linked(named, &found.target) } else { named }
            }
        };
    }
    if carrier.connect && named.may_answer() {
        let target = Target::Unix { view: carrier.view, path: value.to_vec() };
        let answer = carrier.host.call_agent(&target);
        named = named.answered(carrier, target.to_string(), answer);
    }
    named
}

fn pids_of(scheme: Scheme) -> Vec<Pid> {
    match scheme {
        Scheme::Numbered(pid) => vec![pid, pid.saturating_add(1), pid.saturating_add(2)],
        _ => Vec::new(),
    }
}

/// Both sshd and ssh-agent are closed to an ordinary account; a path with a pid in it still tells.
fn owner_by_path(carrier: &Carrier<'_>, scheme: Scheme) -> Option<(Owner, String)> {
    if !carrier.shares_pids() {
        return None;
    }
    let Scheme::Numbered(pid) = scheme else { return None };
    let stat = |pid: Pid| owner::process(carrier.host, pid).ok().filter(|stat| !stat.is_zombie());
    if let Some(sshd) = stat(pid).filter(owner::is_sshd) {
        return Some((owner::describe(carrier.host, &sshd), format!("the path names pid {pid}: {}", owner::named(carrier.host, &sshd))));
    }
    let agent = pids_of(scheme).into_iter().skip(1).filter_map(stat).find(|stat| stat.comm.as_bytes() == b"ssh-agent")?;
    let seen = format!("the path names pid {pid}, the starter of {}", owner::named(carrier.host, &agent));
    Some((owner::describe(carrier.host, &agent), seen))
}

/// Whether the socket was there before the carrier began. Its path is one that is made for a single login, so then it is the one that
/// the carrier was started with, whichever login it says it is of.
fn is_older(carrier: &Carrier<'_>, named: &Named, socket: Option<&PathFact>) -> bool {
    let server = named.owner.as_ref().and_then(|owner| owner.start_ticks).zip(carrier.process);
    server.is_some_and(|(ticks, process)| ticks <= process.start_ticks)
        || socket.zip(carrier.started_ms()).is_some_and(|(socket, started)| socket.changed_ms <= started)
}

fn forwarded_agent(carrier: &Carrier<'_>, mut named: Named, (value, socket): (&[u8], Option<&PathFact>)) -> Named {
    let owned_by = named.owner.as_ref().and_then(|owner| Connection::parse(owner.connection.as_ref()?.as_bytes()));
    let Some(birth) = Connection::of_birth(carrier) else {
        named.liveness.detail = "sshd forwards an agent, and the process does not say in which login it was born".to_owned();
        return named;
    };
    let (standing, seen) = ssh::standing(carrier, &birth);
    named.evidence.push(seen);
    let since = carrier.environ.bytes("SSH_AUTH_SOCK") == Some(value) && carrier.got_since("SSH_AUTH_SOCK");
    let older = since || is_older(carrier, &named, socket);
    let when = if since { "and this process was not started with it" } else { "since before this process began" };
    let (state, same, detail) = match (owned_by, standing) {
        (Some(other), _) if other == birth => {
            (State::Alive, Some(true), format!("the agent is forwarded by the connection of birth, from {}", birth.client))
        }
        (Some(other), Standing::Ended | Standing::Established) if older => {
            let detail = format!("the agent is the login's from {}, {when}", other.client);
            (State::Alive, Some(false), detail)
        }
        (None, Standing::Ended) if older => {
            let detail = format!("something listens, {when}; the login from {} has ended", birth.client);
            (State::Alive, Some(false), detail)
        }
        (Some(other), Standing::Ended | Standing::Established) => {
            let detail = format!("the agent is the login's from {}; this process was born in the one from {}", other.client, birth.client);
            (State::Reused, Some(false), detail)
        }
        (None, Standing::Ended) => {
            let detail = format!("the login from {} has ended, and something else listens on the path now", birth.client);
            (State::Reused, Some(false), detail)
        }
        (None, Standing::Established) => (State::Alive, None, "something listens, and the connection of birth is established".to_owned()),
        (_, Standing::ByDesign(program)) => {
            (State::Alive, None, format!("something listens; below {program} there is no connection to compare it with"))
        }
        (_, Standing::Unknown(unknown)) => (State::Unknown, None, format!("the TCP table: {unknown}")),
    };
    named.liveness.state = state;
    named.liveness.detail = detail;
    named.same_connection = same;
    named
}

fn linked(mut named: Named, target: &[u8]) -> Named {
    let target = String::from_utf8_lossy(target).into_owned();
    let whose = named.owner.as_ref().and_then(|owner| owner.connection.as_ref()).and_then(|text| Connection::parse(text.as_bytes()));
    let of = whose.map(|connection| format!("the agent of the login from {}", connection.client));
    let through = of.clone().unwrap_or_else(|| target.clone());
    named.liveness.detail = format!("{}, through a link to {through}", named.liveness.detail);
    named.note(format!("A stable link: it leads to {target} now{}.", of.map(|of| format!(", {of}")).unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_naming_schemes_of_openssh_are_known() {
        assert_eq!(Scheme::of(b"/tmp/ssh-AbCdEf1234/agent.4711"), Scheme::Numbered(4711));
        assert_eq!(Scheme::of(b"/home/u/.ssh/agent/s.Zk3hQ1xYt9.sshd.Ab12Cd34Ef"), Scheme::Forwarded);
        assert_eq!(Scheme::of(b"/home/u/.ssh/agent/s.Zk3hQ1xYt9.agent.Ab12Cd34Ef"), Scheme::Hashed);
        assert_eq!(Scheme::of(b"/tmp/auth-agent123/listener.sock"), Scheme::Forwarded);
        for stable in ["/run/user/1000/keyring/ssh", "/run/user/1000/gnupg/S.gpg-agent.ssh", "/home/u/.ssh/agent.sock", "/tmp/x/agent.12"] {
            assert_eq!(Scheme::of(stable.as_bytes()), Scheme::Stable, "{stable}");
        }
    }
}
