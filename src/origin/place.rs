//! Files, directories and programs that a value names.

use crate::host::files::FileKind;
use crate::verdict::State;

use super::access;
use super::socket::described;
use super::{Carrier, Named};

/// What must stand at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// A directory, that can be entered.
    Directory,
    /// Anything that can be opened.
    File,
    /// A file that can be run.
    Program,
}

/// A variable that holds a path of a file or directory.
pub(super) fn examine(carrier: &Carrier<'_>, value: &[u8], wanted: Wanted) -> Named {
    let shown = carrier.seen_at(value);
    if !value.starts_with(b"/") {
        return Named::new(State::Unknown, "a relative path: it means another place in every directory");
    }
    let (bit, may_not) = match wanted {
        Wanted::Directory => (access::SEARCH, "may not enter it"),
        Wanted::File => (access::READ, "may not read it"),
        Wanted::Program => (access::SEARCH, "may not run it"),
    };
    let shut = || {
        let barrier = match access::kept_out(carrier, value, bit) {
            Ok(barrier) => barrier?,
            Err(unknown) => return Some(Named::unknown("whether this process may use it", &unknown)),
        };
        let seen = carrier.saw(carrier.seen_at(&barrier.0), described(&barrier.1));
        Some(Named::new(State::Rejected, access::in_words(carrier, value, &barrier, may_not)).with([seen]))
    };
    match carrier.host.path(carrier.view, value) {
        Ok(fact) => {
            let seen = carrier.saw(shown, described(&fact));
            let named = match (wanted, fact.kind) {
                (_, FileKind::BrokenLink) => Named::new(State::Dangling, "a symbolic link whose target is gone"),
                (Wanted::Directory, FileKind::Directory) => shut().unwrap_or_else(|| Named::new(State::Alive, "the directory is there")),
                (Wanted::Directory, other) => Named::new(State::Dangling, format!("it is {}, not a directory", other.word())),
                (Wanted::File | Wanted::Program, FileKind::Directory) => Named::new(State::Dangling, "it is a directory, not a file"),
                (Wanted::Program, FileKind::File) if fact.mode & 0o111 == 0 => {
                    Named::new(State::Rejected, "the file is there, and is no program that can be run")
                }
                (Wanted::File | Wanted::Program, _) => shut().unwrap_or_else(|| Named::new(State::Alive, "the file is there")),
            };
            if named.evidence.is_empty() { named.with([seen]) } else { named }
        }
        Err(unknown) if unknown.is_absence() => {
            let what = if wanted == Wanted::Directory { "the directory is gone" } else { "the file is gone" };
            Named::new(State::Dangling, what).with([carrier.saw(shown, "no such file")])
        }
        Err(unknown) => {
            let named = shut().unwrap_or_else(|| Named::unknown(&shown, &unknown));
            named.with([carrier.saw(&shown, unknown.to_string())])
        }
    }
}

/// A program: a path, or a name without a slash, which is searched on PATH as execvp(3) does.
pub(super) fn examine_program(carrier: &Carrier<'_>, value: &[u8]) -> Named {
    if memchr::memchr(b'/', value).is_some() {
        return examine(carrier, value, Wanted::Program);
    }
    let Some(path) = carrier.environ.get("PATH") else {
        return Named::new(State::Unknown, "a name that is searched on PATH, which is not set");
    };
    let Some(path) = path.clear() else { return Named::new(State::Unknown, "a name that is searched on PATH, which is masked") };
    let mut unread = None;
    for dir in path.split(|&byte| byte == b':') {
        if !dir.starts_with(b"/") {
            unread.get_or_insert_with(|| "a name that is searched on PATH, which begins with a relative directory".to_owned());
            continue;
        }
        let at = [dir, b"/", value].concat();
        match carrier.host.path(carrier.view, &at) {
            Ok(fact) if fact.kind == FileKind::File && fact.mode & 0o111 != 0 => {
                let seen = carrier.saw(carrier.seen_at(&at), described(&fact));
                return Named::new(State::Alive, format!("PATH leads to {}", String::from_utf8_lossy(&at))).with([seen]);
            }
            Ok(_) => {}
            Err(unknown) if unknown.is_absence() => {}
            Err(unknown) => drop(unread.get_or_insert_with(|| format!("{}: {unknown}", carrier.seen_at(dir)))),
        }
    }
    match unread {
        Some(why) => Named::new(State::Unknown, why),
        None => Named::new(State::Dangling, "no directory of PATH has a program of this name")
            .with([carrier.saw("environ", "PATH was searched")]),
    }
}

/// A list of files separated by colons: kubectl takes together those that are there, and passes over the others.
pub(super) fn examine_list(carrier: &Carrier<'_>, value: &[u8]) -> Named {
    let mut judged = value.split(|&byte| byte == b':').filter(|file| !file.is_empty()).map(|file| examine(carrier, file, Wanted::File));
    let Some(first) = judged.next() else { return Named::new(State::None, "it names no file") };
    let rest: Vec<Named> = judged.collect();
    if rest.is_empty() {
        return first;
    }
    let all: Vec<Named> = [vec![first], rest].concat();
    let of = |state: State| all.iter().filter(|named| named.liveness.state == state).count();
    let (state, detail) = match (of(State::Alive), of(State::Unknown)) {
        (0, 0) => {
            let worst = all.iter().find(|named| named.liveness.state == State::Rejected).or(all.first());
            worst.map_or((State::None, String::new()), |named| {
                (named.liveness.state, format!("none of {} files: {}", all.len(), named.liveness.detail))
            })
        }
        (0, _) => (State::Unknown, format!("which of {} files are there is not known", all.len())),
        (there, _) => (State::Alive, format!("{there} of {} files are there", all.len())),
    };
    Named::new(state, detail).with(all.into_iter().flat_map(|named| named.evidence))
}

/// `XDG_RUNTIME_DIR`: a directory of the user's own that nobody else may enter.
pub(super) fn examine_runtime_dir(carrier: &Carrier<'_>, value: &[u8]) -> Named {
    let named = examine(carrier, value, Wanted::Directory);
    let fact = carrier.host.path(carrier.view, value);
    let (Ok(fact), Some(process)) = (fact, carrier.process) else { return named };
    if named.liveness.state != State::Alive {
        return named;
    }
    if fact.uid != process.euid {
        return named.note(format!("It belongs to uid {}; this process is of uid {}.", fact.uid, process.euid));
    }
    if fact.mode & 0o077 != 0 { named.note(format!("Its mode is {:o}; others may enter it.", fact.mode)) } else { named }
}
