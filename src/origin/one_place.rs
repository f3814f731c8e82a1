//! Whether two values, written differently perhaps, lead to one thing: `:93` and `:93.0`, a name below the runtime directory
//! and its whole path, a bus with and without its guid.

use crate::host::View;
use crate::verdict::registry::Topic;

use super::address::{self, Reached, Where};
use super::bus::Address;
use super::display::{Display, Way};
use super::owner::SSHD;
use super::{Carrier, Named, wayland};

/// Where a client would knock.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Door {
    /// A path.
    Path(Vec<u8>),
    /// A name in a network namespace.
    Abstract(View, Vec<u8>),
    /// A port of this machine, in a network namespace.
    Port(View, Where, u16),
}

/// Programs of which one process serves many: sshd a display and an agent for each session, systemd whatever a unit names.
fn serves_many(comm: &str) -> bool {
    SSHD.contains(&comm) || comm == "systemd"
}

/// Whether one process serves both, and serves nothing else of the kind.
pub fn is_one_server(a: &Named, b: &Named) -> bool {
    let server = |named: &Named| {
        let owner = named.owner.as_ref().filter(|owner| !serves_many(&owner.comm))?;
        Some((owner.pid, owner.start_ticks?))
    };
    server(a).is_some_and(|one| server(b) == Some(one))
}

/// Whether both values, each in its carrier's own view, lead to one socket, port or directory.
pub fn is_one(topic: Topic, (a, first): (&Carrier<'_>, &[u8]), (b, second): (&Carrier<'_>, &[u8])) -> bool {
    let (theirs, own) = (doors(a, topic, first), doors(b, topic, second));
    theirs.iter().any(|one| own.iter().any(|other| leads_to(a, one, b, other)))
}

/// What a program takes where a variable is not set, in the carrier's environment.
fn default_of(name: &str, carrier: &Carrier<'_>) -> Option<Vec<u8>> {
    let below = |variable: &str, path: &str| {
        let dir = carrier.environ.bytes(variable).filter(|dir| dir.starts_with(b"/"))?;
        Some([dir, path.as_bytes()].concat())
    };
    match name {
        "DBUS_SESSION_BUS_ADDRESS" => Some([&b"unix:path="[..], &below("XDG_RUNTIME_DIR", "/bus")?].concat()),
        "PULSE_SERVER" => below("XDG_RUNTIME_DIR", "/pulse/native"),
        "DOCKER_HOST" => Some(b"/var/run/docker.sock".to_vec()),
        "GNUPGHOME" => below("HOME", "/.gnupg"),
        _ => None,
    }
}

/// Whether a program without the variable reaches the same as one in whose environment it has this value.
pub fn is_default(name: &str, topic: Topic, without: &Carrier<'_>, with: (&Carrier<'_>, &[u8])) -> bool {
    default_of(name, without).is_some_and(|value| is_one(topic, (without, &value), with))
}

fn leads_to(a: &Carrier<'_>, one: &Door, b: &Carrier<'_>, other: &Door) -> bool {
    match (one, other) {
        (Door::Path(one), Door::Path(other)) => {
            let facts = a.host.path(a.view, one).ok().zip(b.host.path(b.view, other).ok());
            facts.map_or(one == other && a.view.mount == b.view.mount, |(one, other)| one.inode == other.inode)
        }
        // However the host is written, it is one where one listener answers.
        (Door::Port(net, ..), Door::Port(others, ..)) if net == others => {
            one == other || listener(a, one).is_some_and(|row| listener(b, other) == Some(row))
        }
        (one, other) => one == other,
    }
}

/// The inode of the listener behind a port.
fn listener(carrier: &Carrier<'_>, door: &Door) -> Option<u64> {
    let Door::Port(net, place, port) = door else { return None };
    match address::tcp_listener(&carrier.host.net(*net), place, *port) {
        Ok(Reached::Listener(row)) => Some(row.inode),
        _ => None,
    }
}

fn doors(carrier: &Carrier<'_>, topic: Topic, value: &[u8]) -> Vec<Door> {
    let port = |host: &str, port: u16| match address::locate(carrier, host) {
        Where::Elsewhere => None,
        place => Some(Door::Port(net(carrier), place, port)),
    };
    match topic {
        Topic::Display => {
            let Some(display) = Display::parse(value) else { return Vec::new() };
            match &display.way {
                Way::Local => vec![Door::Path(format!("/tmp/.X11-unix/X{}", display.number).into_bytes())],
                Way::Path(path) => vec![Door::Path(path.clone())],
                Way::Tcp(host) => display.port().and_then(|number| port(host, number)).into_iter().collect(),
            }
        }
        Topic::Wayland => wayland::path_of(value, carrier.environ.bytes("XDG_RUNTIME_DIR")).map(Door::Path).into_iter().collect(),
        Topic::Bus => {
            let door = |address: &Address| match (address.get("path"), address.get("abstract")) {
                (Some(path), _) => Some(Door::Path(path.to_vec())),
                (_, Some(name)) => Some(Door::Abstract(net(carrier), name.to_vec())),
                _ => {
                    let text = |key| std::str::from_utf8(address.get(key)?).ok();
                    port(text("host").unwrap_or("localhost"), text("port")?.parse().ok()?)
                }
            };
            Address::parse_all(value).iter().filter_map(door).collect()
        }
        _ => {
            let bare = [&b"unix://"[..], b"unix:"].iter().find_map(|prefix| value.strip_prefix(*prefix));
            vec![Door::Path(bare.unwrap_or(value).to_vec())]
        }
    }
}

/// The view as far as networks go.
fn net(carrier: &Carrier<'_>) -> View {
    View { mount: None, pids: None, ..carrier.view }
}
