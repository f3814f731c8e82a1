//! Private copies of stores: made where nobody else looks, removed with the value, swept at the next start after a kill.
//!
//! A copy lies in a directory (0700) of its own in `$XDG_CACHE_HOME/whoseenv/copies`, with nothing but the copy in it. The maker
//! holds a lock (flock) on that directory as long as it lives; one that nobody holds belongs to a program that was killed.

use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::FlockOperation;

use crate::host::interrupt;
use crate::report::Progress;

use super::Refusal;
use super::beside::{self, Beside};

/// What has to stay free beside a copy.
const MARGIN: u64 = 16 << 20;

/// How often a copy is tried while the host writes.
const TRIES: usize = 6;

/// A directory with a private copy in it, both gone when the value is.
#[derive(Debug)]
pub struct PrivateCopy {
    dir: PathBuf,
    /// Directories above the place of copies that were made for it, the innermost first.
    made: Vec<PathBuf>,
    _held: File,
    _stays: interrupt::Stays,
    _watch: interrupt::Watch,
}

impl Drop for PrivateCopy {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.dir);
        // The directories above, if they are empty: the first look leaves nothing either.
        for dir in self.dir.ancestors().skip(1).take(2).chain(self.made.iter().map(PathBuf::as_path)) {
            if std::fs::remove_dir(dir).is_err() {
                break;
            }
        }
    }
}

/// Where copies lie: below the XDG cache; without a home, in a directory of this uid's in the temporary one.
pub fn root() -> PathBuf {
    let filled = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from).filter(|path| path.is_absolute());
    let cache = filled("XDG_CACHE_HOME").or_else(|| filled("HOME").filter(|home| home.is_dir()).map(|home| home.join(".cache")));
    let uid = rustix::process::geteuid().as_raw();
    cache.map_or_else(|| std::env::temp_dir().join(format!("whoseenv-{uid}")), |cache| cache.join("whoseenv")).join("copies")
}

/// Removes what a killed program left. Costs a look at one directory, and mostly there is none.
pub fn sweep() {
    let root = root();
    let Ok(gate) = ours(&root) else { return };
    // Somebody else is at it, or makes a copy.
    if rustix::fs::flock(&gate, FlockOperation::NonBlockingLockExclusive).is_err() {
        return;
    }
    for entry in std::fs::read_dir(&root).into_iter().flatten().flatten() {
        let path = entry.path();
        let Ok(dir) = ours(&path) else { continue };
        if rustix::fs::flock(&dir, FlockOperation::NonBlockingLockExclusive).is_ok() {
            let _ = std::fs::remove_dir_all(&path);
        }
    }
    for dir in [Some(root.as_path()), root.parent()].into_iter().flatten() {
        if std::fs::remove_dir(dir).is_err() {
            break;
        }
    }
}

/// A directory that is really ours: the name of the one in /tmp is known beforehand.
fn ours(path: &Path) -> std::io::Result<File> {
    let flags = rustix::fs::OFlags::DIRECTORY | rustix::fs::OFlags::NOFOLLOW;
    let dir = std::fs::OpenOptions::new().read(true).custom_flags(flags.bits() as i32).open(path)?;
    let meta = dir.metadata()?;
    if meta.uid() != rustix::process::geteuid().as_raw() || meta.mode() & 0o022 != 0 {
        return Err(std::io::Error::other(format!("{} is not this account's alone", path.display())));
    }
    Ok(dir)
}

fn make(root: &Path, watch: interrupt::Watch) -> std::io::Result<PrivateCopy> {
    static NUMBER: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true).mode(0o700);
    // `copies` and its parent are ours anyway.
    let made: Vec<PathBuf> = root.ancestors().skip(2).take_while(|dir| dir.symlink_metadata().is_err()).map(Path::to_owned).collect();
    // Another program's end may take the empty directory away between the two lines.
    for _ in 0..20 {
        builder.create(root)?;
        let Ok(gate) = ours(root) else {
            // Not ours, or gone again: the next round says which.
            if root.exists() {
                ours(root)?;
            }
            continue;
        };
        rustix::fs::flock(&gate, FlockOperation::LockExclusive)?;
        let number = NUMBER.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let dir = root.join(format!("{}-{number}", std::process::id()));
        let stays = interrupt::stays(format!("{} (whatever whoseenv is asked next removes it)", dir.display()));
        // One of this name is of a killed program with our pid.
        let _ = std::fs::remove_dir_all(&dir);
        match std::fs::DirBuilder::new().mode(0o700).create(&dir) {
            Ok(()) => {}
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        }
        let held = File::open(&dir)?;
        rustix::fs::flock(&held, FlockOperation::LockExclusive)?;
        return Ok(PrivateCopy { dir, made, _held: held, _stays: stays, _watch: watch });
    }
    Err(std::io::Error::other("its directory is taken away again and again"))
}

impl PrivateCopy {
    /// An empty private directory; from now on Ctrl-C is noted, so that it can be removed.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn empty() -> Result<PrivateCopy, Refusal> {
        let watch = interrupt::watch()?;
        let root = root();
        make(&root, watch).map_err(|error| Refusal::Copy(format!("{}: {error}", root.display())))
    }

    /// The copied database.
    pub fn path(&self) -> PathBuf {
        self.dir.join("store.db")
    }

    /// A copy of a store and its `-wal`: first the one, then the other, good only if the WAL did not begin anew
    /// meanwhile: then every page that a checkpoint wrote into the database while it was copied stands in the WAL's copy too.
    ///
    /// # Errors
    /// When there is no room, or the WAL begins anew every time.
    pub fn with_wal(path: &Path, progress: &Progress) -> Result<(PrivateCopy, Beside), Refusal> {
        for _ in 0..TRIES {
            let before = Beside::look(path)?;
            let copy = PrivateCopy::of(&before, before.wal.map_or(0, |wal| wal.stamp.bytes))?;
            copy_file(path, &copy.path(), progress)?;
            let wal = beside::name(path, "-wal");
            match copy_file(&wal, &beside::name(&copy.path(), "-wal"), progress) {
                Ok(()) => {}
                Err(Refusal::Unknown(unknown)) if unknown.is_absence() => continue,
                Err(error) => return Err(error),
            }
            let after = beside::wal(&wal)?;
            let salts = |wal: Option<beside::Wal>| wal.and_then(|wal| wal.salts);
            if salts(after).is_some() && salts(after) == salts(before.wal) {
                return Ok((copy, before));
            }
        }
        Err(Refusal::Moved)
    }

    /// A first copy of the database alone, with nobody's writing held up: torn, to be made good by [`PrivateCopy::of_held`].
    ///
    /// # Errors
    /// When there is no room.
    pub fn draft(path: &Path, progress: &Progress) -> Result<PrivateCopy, Refusal> {
        let seen = Beside::look(path)?;
        let copy = PrivateCopy::of(&seen, seen.wal.map_or(0, |wal| wal.stamp.bytes))?;
        copy_file(path, &copy.path(), progress)?;
        Ok(copy)
    }

    /// Makes a draft good, and copies the WAL, while a connection of ours reads the store and keeps the WAL from beginning anew: only what
    /// changed since is written, so that this takes as long as reading both. `store` is that connection's guard, for closing any other
    /// handle of the database would drop the locks.
    ///
    /// # Errors
    /// As [`PrivateCopy::with_wal`].
    pub fn of_held(self, store: &File, path: &Path) -> Result<PrivateCopy, Refusal> {
        let (wal, copied) = (beside::name(path, "-wal"), beside::name(&self.path(), "-wal"));
        let salts = || -> Result<Option<[u8; 8]>, Refusal> { Ok(beside::wal(&wal)?.and_then(|wal| wal.salts)) };
        for _ in 0..TRIES {
            let before = salts()?;
            make_good(store, &self.path())?;
            let _ = std::fs::remove_file(&copied);
            copy_file(&wal, &copied, &Progress::hidden())?;
            if salts()? == before {
                return Ok(self);
            }
        }
        Err(Refusal::Moved)
    }

    /// A copy of a store and its hot `-journal`, good only if neither changed meanwhile.
    ///
    /// # Errors
    /// As [`PrivateCopy::with_wal`]; and when undoing the journal would touch other databases.
    pub fn with_journal(path: &Path, progress: &Progress) -> Result<(PrivateCopy, Beside), Refusal> {
        for _ in 0..TRIES {
            let before = Beside::look(path)?;
            let Some(journal) = before.journal.filter(|journal| journal.hot) else { return Err(Refusal::Moved) };
            if journal.many {
                return Err(Refusal::ManyJournals);
            }
            let copy = PrivateCopy::of(&before, journal.stamp.bytes)?;
            copy_file(path, &copy.path(), progress)?;
            match copy_file(&beside::name(path, "-journal"), &beside::name(&copy.path(), "-journal"), progress) {
                Ok(()) => {}
                Err(Refusal::Unknown(unknown)) if unknown.is_absence() => continue,
                Err(error) => return Err(error),
            }
            if Beside::look(path)? == before {
                return Ok((copy, before));
            }
        }
        Err(Refusal::Moved)
    }

    fn of(store: &Beside, more: u64) -> Result<PrivateCopy, Refusal> {
        let copy = PrivateCopy::empty()?;
        let needed = store.stamp.bytes + more;
        let stat = rustix::fs::statvfs(&copy.dir).map_err(|errno| Refusal::Copy(errno.to_string()))?;
        let free = stat.f_bavail.saturating_mul(stat.f_frsize);
        if free < needed + MARGIN {
            return Err(Refusal::NoSpace { needed, free, dir: root() });
        }
        Ok(copy)
    }
}

/// Copies a file, by reference where the file system can.
fn copy_file(from: &Path, to: &Path, progress: &Progress) -> Result<(), Refusal> {
    let mut source = beside::open(from)?;
    let failed = |error: std::io::Error| Refusal::Copy(error.to_string());
    let mut target = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(to).map_err(failed)?;
    if rustix::fs::ioctl_ficlone(&target, &source).is_ok() {
        return Ok(());
    }
    progress.doing("private copy");
    let mut piece = vec![0; 1 << 20];
    loop {
        if interrupt::came().is_some() {
            return Err(Refusal::Interrupted);
        }
        match source.read(&mut piece)? {
            0 => return Ok(()),
            read => target.write_all(&piece[..read]).map_err(failed)?,
        }
    }
}

/// Writes into a copy whatever of it differs from its source.
fn make_good(source: &File, to: &Path) -> Result<(), Refusal> {
    use std::os::unix::fs::FileExt;
    let failed = |error: std::io::Error| Refusal::Copy(error.to_string());
    let target = std::fs::OpenOptions::new().read(true).write(true).open(to).map_err(failed)?;
    let (mut ours, mut theirs, mut at) = (vec![0; 1 << 20], vec![0; 1 << 20], 0);
    loop {
        if interrupt::came().is_some() {
            return Err(Refusal::Interrupted);
        }
        let there = beside::fill(source, &mut theirs, at)?;
        let here = beside::fill(&target, &mut ours, at).map_err(failed)?;
        if ours[..here] != theirs[..there] {
            target.write_all_at(&theirs[..there], at).map_err(failed)?;
        }
        at += there as u64;
        if there < theirs.len() {
            return target.set_len(at).map_err(failed);
        }
    }
}
