//! A private home for a host: its own HOME, XDG directories, temporary files and a fixed environment.
//!
//! Everything that the host writes is below one directory, mode 0700, which goes when the value does. A prober that was
//! killed leaves it; the next one sweeps what nobody holds.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use crate::host::{child, interrupt};

use super::cleanup::Cleanup;
use super::token;

/// What the name of every private directory begins with.
const PREFIX: &str = "whoseenv-probe-";

/// Held open and locked while the directory is in use.
const LOCK: &str = "lock";

/// A private home.
pub struct Nest {
    dir: PathBuf,
    /// A nonce that only a host started here has in its environment, as `WHOSEENV_FROZEN`.
    pub frozen: String,
    /// Keeps the directory from being swept.
    _lock: File,
    removed: bool,
    _stays: interrupt::Stays,
}

impl Nest {
    /// Makes one, in the directory for temporary files.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn new() -> io::Result<Nest> {
        let base = std::env::temp_dir();
        sweep(&base);
        let dir = base.join(format!("{PREFIX}{}", &token()?[..12]));
        let private = |path: &Path| std::fs::DirBuilder::new().mode(0o700).create(path);
        let stays = interrupt::stays(format!("{} (the next probe removes it)", dir.display()));
        private(&dir)?;
        let path = dir.clone();
        let made = move || -> io::Result<Nest> {
            let lock = File::create(dir.join(LOCK))?;
            rustix::fs::flock(&lock, rustix::fs::FlockOperation::NonBlockingLockExclusive)?;
            for name in ["home", "config", "data", "state", "cache", "run", "tmp", "work"] {
                private(&dir.join(name))?;
            }
            Ok(Nest { dir, frozen: format!("frozen-{}", token()?), _lock: lock, removed: false, _stays: stays })
        };
        made().inspect_err(|_| drop(std::fs::remove_dir_all(&path)))
    }

    /// The directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Something below it.
    pub fn join(&self, path: &str) -> PathBuf {
        self.dir.join(path)
    }

    /// Writes a file, with its directories.
    ///
    /// # Errors
    /// Whatever the system says.
    pub fn write(&self, path: &str, text: &str) -> io::Result<PathBuf> {
        let path = self.join(path);
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent)?;
        }
        std::fs::write(&path, text)?;
        Ok(path)
    }

    /// The environment that every host is started with here: fixed, and none of the prober's.
    pub fn environment(&self) -> Vec<(OsString, OsString)> {
        let below = |name: &str| self.join(name).into_os_string();
        let user: OsString = rustix_user().into();
        vec![
            ("PATH".into(), "/usr/local/bin:/usr/bin:/bin".into()),
            ("HOME".into(), below("home")),
            ("USER".into(), user.clone()),
            ("LOGNAME".into(), user),
            ("SHELL".into(), "/bin/bash".into()),
            ("LANG".into(), "C.UTF-8".into()),
            ("LC_ALL".into(), "C.UTF-8".into()),
            ("LC_CTYPE".into(), "C.UTF-8".into()),
            // None of the values that hosts lay over it.
            ("TERM".into(), "vt220".into()),
            ("TMPDIR".into(), below("tmp")),
            // A display that nobody has: port 6000 + 64000 is no port.
            ("DISPLAY".into(), ":64000".into()),
            ("XDG_CONFIG_HOME".into(), below("config")),
            ("XDG_DATA_HOME".into(), below("data")),
            ("XDG_STATE_HOME".into(), below("state")),
            ("XDG_CACHE_HOME".into(), below("cache")),
            ("XDG_RUNTIME_DIR".into(), below("run")),
            ("WHOSEENV_FROZEN".into(), self.frozen.clone().into()),
        ]
    }

    /// Removes it, looks again, and says what is left.
    pub fn remove(mut self, cleanup: &mut Cleanup) {
        self.removed = true;
        let result = std::fs::remove_dir_all(&self.dir);
        match std::fs::symlink_metadata(&self.dir) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => cleanup.removed(1, "private home", "private homes"),
            _ => cleanup
                .failed(self.dir.display().to_string(), result.err().map_or("it is still there".to_owned(), |error| error.to_string())),
        }
        for pid in child::orphans() {
            cleanup.failed(format!("process {pid}"), "the host started it, and it did not end");
        }
        cleanup.looked_again = true;
    }
}

impl Drop for Nest {
    fn drop(&mut self) {
        if !self.removed {
            let _ = std::fs::remove_dir_all(&self.dir);
        }
    }
}

/// Removes private homes of this account that no prober holds any more.
fn sweep(base: &Path) {
    let own = rustix::process::geteuid().as_raw();
    for entry in std::fs::read_dir(base).into_iter().flatten().flatten() {
        let path = entry.path();
        let is_one = entry.file_name().to_string_lossy().starts_with(PREFIX);
        if !is_one || !entry.metadata().is_ok_and(|stat| stat.is_dir() && stat.uid() == own) {
            continue;
        }
        let Ok(lock) = File::open(path.join(LOCK)) else { continue };
        if rustix::fs::flock(&lock, rustix::fs::FlockOperation::NonBlockingLockExclusive).is_ok() {
            let _ = std::fs::remove_dir_all(&path);
        }
    }
}

fn rustix_user() -> String {
    let uid = rustix::process::geteuid().as_raw();
    crate::host::Host::live().user_name(uid).unwrap_or_else(|| uid.to_string())
}
