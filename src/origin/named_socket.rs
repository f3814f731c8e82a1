//! Sockets that a variable names by less than their path: PipeWire's and Hyprland's.

use crate::verdict::State;

use super::socket::{at_abstract, at_path, examine_path, hint_of};
use super::{Carrier, Named};

/// `PIPEWIRE_REMOTE`: an absolute path, or a name in `PIPEWIRE_RUNTIME_DIR`, else in `XDG_RUNTIME_DIR`. A list in
/// brackets is tried in its order, so the first that lives decides (PipeWire 1.x, module-protocol-native).
pub(super) fn examine_pipewire(carrier: &Carrier<'_>, value: &[u8]) -> Named {
    let Ok(text) = std::str::from_utf8(value) else { return examine_path(carrier, value) };
    let list = text.trim().strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    let names = list.unwrap_or(text).split(|c: char| list.is_some() && (c == ',' || c.is_whitespace()));
    let mut first = None;
    for name in names.map(|name| if list.is_some() { name.trim_matches('"') } else { name }).filter(|name| !name.is_empty()) {
        let named = remote(carrier, name);
        if named.liveness.state == State::Alive {
            return named;
        }
        first.get_or_insert(named);
    }
    first.unwrap_or_else(|| Named::new(State::None, "it names no server"))
}

fn remote(carrier: &Carrier<'_>, name: &str) -> Named {
    if name.starts_with('/') {
        return examine_path(carrier, name.as_bytes());
    }
    if let Some(name) = name.strip_prefix('@') {
        return at_abstract(carrier, name.as_bytes(), &hint_of(b"pipewire"));
    }
    if name == "internal" {
        return Named::new(State::None, "a server of the process itself");
    }
    let dirs = ["PIPEWIRE_RUNTIME_DIR", "XDG_RUNTIME_DIR"];
    match dirs.iter().find_map(|dir| carrier.environ.filled(dir)).filter(|dir| dir.starts_with('/')) {
        Some(dir) => examine_path(carrier, format!("{dir}/{name}").as_bytes()),
        None => nowhere(carrier, "a name below PIPEWIRE_RUNTIME_DIR or XDG_RUNTIME_DIR, neither of which is set to a directory"),
    }
}

/// `HYPRLAND_INSTANCE_SIGNATURE`: its command socket is `$XDG_RUNTIME_DIR/hypr/SIGNATURE/.socket.sock`; before Hyprland
/// 0.40 it was below `/tmp/hypr`.
pub(super) fn examine_hyprland(carrier: &Carrier<'_>, value: &[u8]) -> Named {
    if memchr::memchr(b'/', value).is_some() {
        return Named::new(State::Unknown, "a signature has no slash in it, so no socket can be looked up");
    }
    let below = |dir: &[u8]| [dir, b"/hypr/", value, b"/.socket.sock"].concat();
    let older = below(b"/tmp");
    let is_older = || at_path(carrier, &older, &hint_of(&older)).named.liveness.state != State::Dangling;
    match carrier.environ.bytes("XDG_RUNTIME_DIR").filter(|dir| dir.starts_with(b"/")).map(below) {
        Some(path) => {
            let named = examine_path(carrier, &path);
            if named.liveness.state == State::Dangling && is_older() { examine_path(carrier, &older) } else { named }
        }
        None if is_older() => examine_path(carrier, &older),
        None => nowhere(carrier, "a name below XDG_RUNTIME_DIR, which is not set to a directory"),
    }
}

fn nowhere(carrier: &Carrier<'_>, why: &str) -> Named {
    Named::new(State::Dangling, format!("{why}: it leads nowhere")).with([carrier.saw("environ", why)])
}
