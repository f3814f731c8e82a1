//! Files and directories that a value names.

use crate::host::files::FileKind;
use crate::verdict::State;

use super::socket::described;
use super::{Carrier, Named};

/// What must stand at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// A directory.
    Directory,
    /// Anything that can be opened.
    File,
}

/// A variable that holds a path of a file or directory.
pub(super) fn examine(carrier: &Carrier<'_>, value: &[u8], wanted: Wanted) -> Named {
    let shown = String::from_utf8_lossy(value).into_owned();
    if !value.starts_with(b"/") {
        return Named::new(State::Unknown, "a relative path: it means another place in every directory");
    }
    match carrier.host.path(carrier.view, value) {
        Ok(fact) => {
            let seen = carrier.saw(shown, described(&fact));
            let named = match (wanted, fact.kind) {
                (_, FileKind::BrokenLink) => Named::new(State::Dangling, "a symbolic link whose target is gone"),
                (Wanted::Directory, FileKind::Directory) => Named::new(State::Alive, "the directory is there"),
                (Wanted::Directory, other) => Named::new(State::Dangling, format!("it is {}, not a directory", other.word())),
                (Wanted::File, FileKind::Directory) => Named::new(State::Dangling, "it is a directory, not a file"),
                (Wanted::File, _) => Named::new(State::Alive, "the file is there"),
            };
            named.with([seen])
        }
        Err(unknown) if unknown.is_absence() => {
            let what = if wanted == Wanted::Directory { "the directory is gone" } else { "the file is gone" };
            Named::new(State::Dangling, what).with([carrier.saw(shown, "no such file")])
        }
        Err(unknown) => Named::unknown(&shown, &unknown).with([carrier.saw(&shown, unknown.to_string())]),
    }
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
