//! `WAYLAND_DISPLAY`: a name below the runtime directory, or an absolute path.

use crate::host::connect::Target;
use crate::verdict::State;

use super::owner::Hint;
use super::socket;
use super::ssh::Connection;
use super::{Carrier, Named};

/// Programs that serve Wayland sockets.
const SERVERS: &[&str] = &[
    "weston",
    "gnome-shell",
    "mutter",
    "kwin_wayland",
    "sway",
    "Hyprland",
    "labwc",
    "niri",
    "cage",
    "wayfire",
    "river",
    "cosmic-comp",
    "waypipe",
    "Xwayland",
    "xfwl4",
];

/// The socket that a value names beside this runtime directory.
pub fn path_of(value: &[u8], runtime_dir: Option<&[u8]>) -> Option<Vec<u8>> {
    if value.starts_with(b"/") {
        return Some(value.to_vec());
    }
    let dir = runtime_dir.filter(|dir| dir.starts_with(b"/"))?;
    Some([dir, b"/", value].concat())
}

/// `WAYLAND_DISPLAY`.
pub(super) fn examine(carrier: &Carrier<'_>, value: &[u8]) -> Named {
    let Some(path) = path_of(value, carrier.environ.bytes("XDG_RUNTIME_DIR")) else {
        let detail = "a name below XDG_RUNTIME_DIR, which is not set to a directory: it leads nowhere";
        let is = match carrier.environ.get("XDG_RUNTIME_DIR") {
            None => "not set",
            Some(_) => "no absolute path",
        };
        return Named::new(State::Dangling, detail).with([carrier.saw("environ", format!("XDG_RUNTIME_DIR is {is}"))]);
    };
    let found = socket::at_path(carrier, &path, &Hint::names(SERVERS));
    let mut named = socket::note_age(carrier, found.named, found.fact.as_ref());
    if named.owner.as_ref().is_some_and(|owner| owner.comm.starts_with("waypipe")) {
        named = forwarded(carrier, named);
    }
    if carrier.connect && named.may_answer() {
        let target = Target::Unix { view: carrier.view, path };
        let answer = carrier.host.call_wayland(&target);
        named = named.answered(carrier, target.to_string(), answer);
    }
    named
}

/// waypipe serves one ssh connection, which its own environment names.
fn forwarded(carrier: &Carrier<'_>, mut named: Named) -> Named {
    let Some(owner) = &mut named.owner else { return named };
    let environ = carrier.host.process(owner.pid).environ();
    let Some(serves) = environ.ok().and_then(|environ| Connection::parse(environ.bytes("SSH_CONNECTION")?)) else { return named };
    owner.connection = Some(serves.to_string());
    let seen = carrier.saw(format!("/proc/{}/environ", owner.pid), format!("waypipe serves the connection {serves}"));
    named.evidence.push(seen);
    if let Some(birth) = Connection::of_birth(carrier) {
        named.same_connection = Some(birth == serves);
        if birth != serves && named.liveness.state == State::Alive {
            named.liveness.state = State::Reused;
            named.liveness.detail =
                format!("forwarded by the login from {} now; this process was born in the one from {}", serves.client, birth.client);
        }
    }
    named
}
