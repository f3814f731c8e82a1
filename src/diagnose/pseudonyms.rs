//! `--anonymize`: which names of a machine are a person's, for [`crate::redact::anonymize`].

use std::collections::HashSet;

use serde_json::Value;

use crate::host::machine::FIRST_PERSON;
use crate::host::{Environ, Host};
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
            hosts: [filled(&"HOSTNAME"), filled(&"DISPLAY").and_then(|display| display_host(&display))].into_iter().flatten().collect(),
        }
    }
}

/// The machine whose screen a DISPLAY names, where it is named.
fn display_host(display: &str) -> Option<String> {
    let host = display.rsplit_once(':')?.0.trim_end_matches(':').rsplit('/').next()?;
    let name = host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-".contains(&byte));
    (name && !matches!(host, "" | "unix" | "localhost")).then(|| host.to_owned())
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
        for display in [":0", "localhost:10.0", "unix:0", "/tmp/.X11-unix/X0"] {
            assert_eq!(display_host(display), None, "{display}");
        }
    }
}
