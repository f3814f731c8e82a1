//! `--anonymize`: which names of a machine are a person's, for [`crate::redact::anonymize`].

use std::collections::HashSet;

use serde_json::Value;

use crate::env::{Class, catalog};
use crate::host::machine::FIRST_PERSON;
use crate::host::{Entry, Environ, Host};
use crate::origin::Kind;
use crate::redact::anonymize::Anonymizer;

/// `nobody`, the same everywhere.
const NOBODY: u32 = 65_534;

/// A rewriter for JSON values, with the names of this machine learned.
pub fn rewriter(host: &Host) -> Box<dyn Fn(&mut Value)> {
    let anonymizer = learn(host);
    Box::new(move |value| anonymizer.json(value))
}

fn is_person(uid: u32) -> bool {
    uid >= FIRST_PERSON && uid != NOBODY
}

fn learn(host: &Host) -> Anonymizer {
    let mut anonymizer = Anonymizer::new();
    anonymizer.learn_host(&host.machine().hostname);
    for (_, name) in host.users().into_iter().filter(|(uid, _)| is_person(*uid)) {
        anonymizer.learn_user(&name);
    }
    for home in host.homes() {
        anonymizer.learn_home(&home);
    }
    // An account of a directory service stands in no list of this machine; what runs as it tells its name and home.
    let told = host.scan(|process| {
        let stat = process.stat().ok().filter(|stat| !stat.kernel_thread)?;
        Some(Told::of(&process.environ().ok()?, is_person(stat.euid)))
    });
    let terminal = host.terminal().ok().and_then(|terminal| Some(Told::of(terminal.environ.as_ref().ok()?, true)));
    for told in told.unwrap_or_default().into_iter().chain(terminal).collect::<HashSet<_>>() {
        told.users.iter().for_each(|name| anonymizer.learn_user(name));
        told.homes.iter().for_each(|home| anonymizer.learn_home(home));
        told.hosts.iter().for_each(|name| anonymizer.learn_host(name));
    }
    anonymizer
}

/// What an environment tells of who and where somebody is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Told {
    users: Vec<String>,
    homes: Vec<String>,
    hosts: Vec<String>,
}

impl Told {
    fn of(environ: &Environ, person: bool) -> Told {
        let filled = |name: &&str| environ.filled(name).map(str::to_owned);
        // A login name is a word. What else stands under these names would tear other texts apart.
        let word = |name: &String| name.len() > 1 && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte));
        let persons = |names: &[&str]| if person { names.iter().filter_map(filled).collect() } else { Vec::new() };
        Told {
            users: persons(&["USER", "LOGNAME"]).into_iter().chain(filled(&"SUDO_USER")).filter(word).collect(),
            homes: persons(&["HOME"]),
            hosts: environ.entries.iter().flat_map(|entry| hosts(entry).unwrap_or_default()).collect(),
        }
    }
}

/// The hosts that a variable names, by what the catalogue says of it.
fn hosts(entry: &Entry) -> Option<Vec<String>> {
    let name = entry.name.as_str()?;
    let value = std::str::from_utf8(entry.value.as_ref()?.clear()?).ok()?;
    let row = catalog::lookup(name.as_bytes());
    let found: Vec<&str> = match (name, row.kind_of(value.as_bytes()), row.class) {
        ("HOSTNAME" | "HOST", ..) => vec![value],
        // `local/HOST:@/tmp/.ICE-unix/7,unix/HOST:/tmp/.ICE-unix/7`
        ("SESSION_MANAGER", ..) => value.split(',').filter_map(|one| Some(one.split_once('/')?.1.split_once(':')?.0)).collect(),
        // A suffix (`.example.org`) is no host, and a single word in this list is often a domain (`local`).
        ("NO_PROXY" | "no_proxy", ..) => {
            value.split([',', ' ']).map(authority).filter(|one| !one.starts_with('.') && one.contains('.')).collect()
        }
        (_, Kind::Display, _) => display_host(value).into_iter().collect(),
        // `pid.tty.host`
        (_, Kind::Screen, _) => value.splitn(3, '.').nth(2).into_iter().collect(),
        (_, Kind::BusAddress, _) => value.split([';', ',', ':']).filter_map(|key| key.strip_prefix("host=")).collect(),
        (_, Kind::SocketAddress, _) => vec![authority(value)],
        (_, Kind::PulseServer, _) | (_, _, Class::Proxy) => value.split([',', ' ']).map(authority).collect(),
        (_, _, Class::Containers) if value.contains("://") => vec![authority(value)],
        _ => Vec::new(),
    };
    Some(found.into_iter().filter(|name| is_host(name)).map(str::to_owned).collect())
}

/// The host of an address: `scheme://user@HOST:port/path`, `tcp:HOST:port`, `HOST:port`, with or without a machine's id in braces before it.
fn authority(address: &str) -> &str {
    let address = address.strip_prefix('{').and_then(|rest| rest.split_once('}')).map_or(address, |(_, rest)| rest);
    if ["/", "unix:", "fd:", "local:"].iter().any(|start| address.starts_with(start)) {
        return "";
    }
    let rest = match address.split_once("://") {
        Some((_, rest)) => rest,
        // The scheme of an address without slashes is followed by a host and a port; `HOST:port` has one colon.
        None => ["tcp:", "tcp4:", "tcp6:", "udp:"].iter().find_map(|scheme| address.strip_prefix(scheme)).unwrap_or(address),
    };
    let place = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host = place.rsplit_once('@').map_or(place, |(_, host)| host);
    host.split(':').next().unwrap_or_default()
}

/// The machine whose screen a DISPLAY names, where it is named.
fn display_host(display: &str) -> Option<&str> {
    let host = display.rsplit_once(':')?.0.trim_end_matches(':').rsplit('/').next()?;
    (host != "unix").then_some(host)
}

/// A name that may be a host's. Without a letter in it, it is an address or none.
fn is_host(name: &str) -> bool {
    let letters = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
    name.bytes().all(letters) && name.bytes().any(|byte| byte.is_ascii_alphabetic()) && name != "localhost"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_environment_tells_who_and_where() {
        let environ = Environ::parse(b"USER=carol\0HOME=/srv/people/carol\0SUDO_USER=dave\0DISPLAY=carols-laptop:0\0LOGNAME=a b\0");
        let told = Told::of(&environ, true);
        assert_eq!((told.users, told.homes), (vec!["carol".to_owned(), "dave".to_owned()], vec!["/srv/people/carol".to_owned()]));
        assert_eq!(told.hosts, ["carols-laptop"]);
        assert_eq!(Told::of(&environ, false).users, ["dave"]);
    }

    #[test]
    fn every_variable_that_holds_an_address_tells_its_host() {
        for (variable, host) in [
            ("DISPLAY=carols-laptop:0", Some("carols-laptop")),
            ("DISPLAY=tcp/carols-laptop:0.1", Some("carols-laptop")),
            ("HOSTNAME=Cube", Some("Cube")),
            ("DOCKER_HOST=tcp://build.example.org:2375", Some("build.example.org")),
            ("DOCKER_HOST=ssh://carol@build.example.org", Some("build.example.org")),
            ("CONTAINER_HOST=ssh://core@build:22/run/podman/podman.sock", Some("build")),
            ("PULSE_SERVER=tcp:hifi:4713", Some("hifi")),
            ("PULSE_SERVER={0123abcd}tcp:hifi.example.org", Some("hifi.example.org")),
            ("PULSE_SERVER=hifi", Some("hifi")),
            ("https_proxy=http://carol:secret@proxy.example.org:3128/", Some("proxy.example.org")),
            ("ALL_PROXY=socks5h://proxy:1080", Some("proxy")),
            ("RSYNC_PROXY=proxy:8080", Some("proxy")),
            ("NO_PROXY=localhost,.example.org,db.example.org,local", Some("db.example.org")),
            ("DBUS_SESSION_BUS_ADDRESS=tcp:host=bus.example.org,port=9", Some("bus.example.org")),
            ("SESSION_MANAGER=local/cube:@/tmp/.ICE-unix/9", Some("cube")),
            ("STY=4711.pts-0.cube", Some("cube")),
            ("KUBERNETES_PORT=tcp://api.example.org:443", Some("api.example.org")),
            ("NVIM_LISTEN_ADDRESS=/run/user/1000/nvim.0", None),
            ("DISPLAY=:0", None),
            ("DISPLAY=localhost:10.0", None),
            ("DISPLAY=unix:0", None),
            ("DISPLAY=/tmp/.X11-unix/X0", None),
            ("DOCKER_HOST=unix:///run/docker.sock", None),
            ("DOCKER_HOST=tcp://192.0.2.9:2375", None),
            ("PULSE_SERVER=unix:/run/user/1000/pulse/native", None),
            ("DBUS_SESSION_BUS_ADDRESS=unix:path=/run/user/1000/bus", None),
            ("PAGER=less", None),
        ] {
            let told = Told::of(&Environ::parse(variable.as_bytes()), false);
            assert_eq!(told.hosts, host.map(str::to_owned).into_iter().collect::<Vec<_>>(), "{variable}");
        }
    }
}
