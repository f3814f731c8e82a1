//! Containers, as control groups name them.

use crate::host::{Fact, Host, View};

/// Length of an id as the runtimes' own lists show it.
const SHOWN: usize = 12;

/// Beginnings of a scope's or directory's name before the id of a container, and the runtime.
const PREFIXES: [(&str, &str); 7] = [
    ("docker-", "docker"),
    ("libpod-", "podman"),
    ("crio-", "cri-o"),
    ("cri-containerd-", "containerd"),
    ("containerd-", "containerd"),
    ("nerdctl-", "containerd"),
    ("buildkit-", "buildkit"),
];

/// Runtime and id or name of the innermost container that a control group's path names.
pub(super) fn of_path(path: &str) -> Option<(&str, &str)> {
    // Most paths of most machines hold none of this.
    let mut found = None;
    let mut before = "";
    let mut in_pod = false;
    for part in path.split('/') {
        in_pod |= part.starts_with("kubepods");
        found = of_part(before, part, in_pod).or(found);
        before = part;
    }
    found
}

fn of_part<'a>(before: &str, part: &'a str, in_pod: bool) -> Option<(&'a str, &'a str)> {
    let bare = part.strip_suffix(".scope").unwrap_or(part);
    for (prefix, runtime) in PREFIXES {
        if let Some(id) = bare.strip_prefix(prefix).filter(|id| is_id(id)) {
            return Some((runtime, id));
        }
    }
    if is_id(part) {
        return match before {
            "docker" => Some(("docker", part)),
            _ if in_pod => Some(("kubernetes", part)),
            _ => None,
        };
    }
    if let Some(name) = part.strip_prefix("lxc.payload.") {
        return Some(("lxc", name));
    }
    if before == "lxc" && !part.is_empty() {
        return Some(("lxc", part));
    }
    let nspawn = part.strip_prefix("systemd-nspawn@").and_then(|rest| rest.strip_suffix(".service"));
    let machine = || if part.ends_with(".scope") { bare.strip_prefix("machine-") } else { None };
    nspawn.or_else(machine).filter(|name| !name.is_empty()).map(|name| ("machine", name))
}

fn is_id(text: &str) -> bool {
    text.len() >= 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// `runtime:id`, the id as short as the runtime's own lists have it.
pub(super) fn shown(runtime: &str, name: &str) -> String {
    if is_id(name) { format!("{runtime}:{}", &name[..SHOWN]) } else { format!("{runtime}:{}", super::unit::unescape_name(name)) }
}

/// The kind of container that the tool itself runs in, as the files say that container runtimes leave; none outside.
///
/// # Errors
/// When the files cannot be looked at.
pub fn around(host: &Host) -> Fact<Option<&'static str>> {
    for (path, kind) in [("/.dockerenv", "docker"), ("/run/.containerenv", "podman")] {
        match host.path(View::OURS, path.as_bytes()) {
            Ok(_) => return Ok(Some(kind)),
            Err(unknown) if unknown.is_absence() => {}
            Err(unknown) => return Err(unknown),
        }
    }
    Ok(None)
}
