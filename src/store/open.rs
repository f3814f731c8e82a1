//! The way in which a store is read follows from what lies beside it.
//!
//! | beside it | read as | why |
//! |---|---|---|
//! | `-wal` and `-shm` | shared: `mode=ro&readonly_shm=1` | sees what the host commits, and writes not even into `-shm` |
//! | `-wal` with frames, no `-shm` | a private copy of both | SQLite would have to make a `-shm` |
//! | a hot `-journal` | a private copy of both, recovered there | the database holds what was never committed |
//! | nothing, and nobody writes (its locks are asked) | immutable, and a second look afterwards | SQLite would make a `-wal` and a `-shm`, and leave them |
//!
//! Measured with SQLite 3.54.1: each other way changes bytes or names beside the store, or shows rows that never were.

use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rusqlite::{Connection, OpenFlags};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::host::quiet;
use crate::report::Progress;

use super::Refusal;
use super::armour::{self, Clock};
use super::beside::{self, Beside};
use super::copy::PrivateCopy;

/// How a store was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ReadAs {
    /// Together with its host, through the host's shared memory, which is only read.
    Shared,
    /// As a file that does not change; that it did not was looked at afterwards.
    Immutable,
    /// From a private copy, which is gone.
    PrivateCopy,
}

impl ReadAs {
    /// The word used in JSON and on the screen.
    pub fn word(self) -> &'static str {
        match self {
            ReadAs::Shared => "shared",
            ReadAs::Immutable => "immutable",
            ReadAs::PrivateCopy => "private_copy",
        }
    }
}

/// A store that is open for reading; what it shows is one moment.
#[derive(Debug)]
pub struct Opened {
    /// The connection; goes first.
    pub conn: Connection,
    /// How it is read.
    pub read_as: ReadAs,
    /// What lay beside it when it was opened.
    pub beside: Beside,
    /// Time limits of the connection.
    pub clock: Clock,
    path: PathBuf,
    /// What its host commits, where it is read together with one.
    beside_host: Option<Frames>,
    /// Its host may begin to wait for us: see [`MOMENT`].
    hurried: bool,
    /// Held until the connection is gone: closing any file of a database drops the process's locks on it.
    _guard: Option<File>,
    copy: Option<PrivateCopy>,
}

/// How often a store is asked again that changed while it was read.
pub const AGAIN: usize = 4;

/// How long a store is read together with a host that writes. As long as a transaction of ours lasts, the host's WAL cannot begin anew and
/// grows with everything that it commits; so after each moment it is looked at what came, and after more than [`CALM`] frames the question
/// is put to a private copy. An answer is of one moment either way.
const MOMENT: Duration = Duration::from_millis(500);

/// Frames that a host may commit while we read: by itself it begins its WAL anew after a thousand.
const CALM: u32 = 200;

/// How many frames a host committed since a store was opened together with it, by the head of `-shm` (WAL-index format).
#[derive(Clone, Debug)]
struct Frames {
    /// Opened before the connection and closed after it: to close it takes all of this process's locks on the file away.
    shm: Arc<File>,
    first: (u32, [u8; 8]),
}

impl Frames {
    fn of(shm: File) -> Option<Frames> {
        let shm = Arc::new(shm);
        Frames::now(&shm).map(|first| Frames { shm, first })
    }

    /// `mxFrame`, and the salts, which are others when the WAL began anew.
    fn now(shm: &File) -> Option<(u32, [u8; 8])> {
        const MX_FRAME: u64 = 16;
        const SALT: u64 = 32;
        let (mut frames, mut salt) = ([0; 4], [0; 8]);
        shm.read_exact_at(&mut frames, MX_FRAME).ok()?;
        shm.read_exact_at(&mut salt, SALT).ok()?;
        Some((u32::from_ne_bytes(frames), salt))
    }

    fn are_few(&self) -> bool {
        let (first, salt) = self.first;
        Frames::now(&self.shm).is_some_and(|(now, now_salt)| CALM >= if salt == now_salt { now.saturating_sub(first) } else { now })
    }
}

/// How often the way is chosen anew while hosts come and go.
const TRIES: usize = 8;

impl Opened {
    /// Opens the store at a real path (see [`beside::real`]).
    ///
    /// # Errors
    /// Why it cannot be read.
    pub fn open(path: &Path, progress: &Progress) -> Result<Opened, Refusal> {
        let mut last = Refusal::Moved;
        for attempt in 0..TRIES {
            match Opened::attempt(path, attempt, progress) {
                // Between the look and the first read a host came or went.
                Err(error @ (Refusal::Moved | Refusal::Io(_))) => last = error,
                // A transaction takes a moment; one that is left open takes for ever.
                Err(error @ Refusal::Busy(_)) if attempt < TRIES - 2 => last = error,
                done => return done,
            }
            std::thread::sleep(Duration::from_millis(10 << attempt.min(4)));
        }
        Err(last)
    }

    fn attempt(path: &Path, attempt: usize, progress: &Progress) -> Result<Opened, Refusal> {
        let seen = Beside::look(path)?;
        if seen.stamp.bytes == 0 && seen.wal.is_none_or(|wal| wal.stamp.bytes == 0) {
            return Err(Refusal::Empty);
        }
        if seen.header.is_none() && seen.stamp.bytes > 0 {
            return Err(Refusal::NotADatabase);
        }
        if seen.is_hot() {
            let (copy, seen) = PrivateCopy::with_journal(path, progress)?;
            return Opened::private(path, copy, seen);
        }
        // After some failures the store is in a state that only a copy can be read in, such as one that is held exclusively.
        if seen.frames() && (!seen.shm || attempt >= TRIES / 2) {
            let (copy, seen) = PrivateCopy::with_wal(path, progress)?;
            return Opened::private(path, copy, seen);
        }
        if seen.wal.is_some() && seen.shm {
            return Opened::shared(path, seen);
        }
        written_by_nobody(path, &seen)?;
        Opened::immutable(path, seen)
    }

    fn shared(path: &Path, seen: Beside) -> Result<Opened, Refusal> {
        // With a lock of ours on the database no host can be the last to close it, which would take -wal and -shm away and
        // let our connection make new ones. Readers and writers of a WAL take no lock that this one is in the way of.
        let guard = beside::open(path)?;
        match rustix::fs::fcntl_lock(&guard, rustix::fs::FlockOperation::NonBlockingLockShared) {
            Ok(()) => {}
            Err(_) => return Err(Refusal::Moved),
        }
        let still = |suffix: &str| beside::name(path, suffix).symlink_metadata().is_ok_and(|meta| meta.is_file());
        if !still("-wal") || !still("-shm") {
            return Err(Refusal::Moved);
        }
        let frames = Frames::of(beside::open(&beside::name(path, "-shm"))?).ok_or(Refusal::Moved)?;
        // As root SQLite would give the -shm to its owner once more, which moves its change time.
        quiet::not_as_root(seen.uid, || {
            let conn = connect(path, "mode=ro&readonly_shm=1", false)?;
            let opened = Opened::start(conn, ReadAs::Shared, path, seen, Some(guard), None)?;
            Ok(Opened { beside_host: Some(frames), hurried: true, ..opened })
        })
    }

    fn immutable(path: &Path, seen: Beside) -> Result<Opened, Refusal> {
        let conn = connect(path, "mode=ro&immutable=1", false)?;
        Opened::start(conn, ReadAs::Immutable, path, seen, None, None)
    }

    fn private(path: &Path, copy: PrivateCopy, seen: Beside) -> Result<Opened, Refusal> {
        let conn = connect(&copy.path(), "mode=rw", true)?;
        Opened::start(conn, ReadAs::PrivateCopy, path, seen, None, Some(copy))
    }

    /// Opens it for a question that took too long beside a host that writes: from a private copy. That is made while nobody is held up,
    /// and made good while a transaction of ours keeps the WAL from beginning anew. Where there is no room for one, together with its
    /// host after all: an answer is worth more than the size of a WAL.
    ///
    /// # Errors
    /// As [`Opened::open`].
    pub fn open_long(path: &Path, progress: &Progress) -> Result<Opened, Refusal> {
        let draft = PrivateCopy::draft(path, progress);
        let mut opened = Opened::open(path, progress)?;
        opened.hurried = false;
        let Some(guard) = opened._guard.as_ref().filter(|_| opened.read_as == ReadAs::Shared) else { return Ok(opened) };
        match draft.and_then(|draft| draft.of_held(guard, path)) {
            Ok(copy) => {
                let seen = opened.beside.clone();
                drop(opened);
                Opened::private(path, copy, seen)
            }
            Err(Refusal::NoSpace { .. } | Refusal::Copy(_) | Refusal::Moved) => Ok(opened),
            Err(error) => Err(error),
        }
    }

    /// Whether an answer that did not come in time has to be asked for with [`Opened::open_long`].
    pub fn is_hurried(&self) -> bool {
        self.hurried
    }

    /// Opens it so that its base can be judged alone: from a private copy, where its WAL has anything in it.
    ///
    /// # Errors
    /// As [`Opened::open`].
    pub fn open_apart(path: &Path, progress: &Progress) -> Result<Opened, Refusal> {
        let seen = Beside::look(path)?;
        if seen.frames() && seen.shm && !seen.is_hot() {
            let opened = Opened::open_long(path, progress)?;
            if opened.read_as != ReadAs::Shared {
                return Ok(opened);
            }
        }
        if seen.frames() && !seen.is_hot() && seen.header.is_some() {
            let (copy, seen) = PrivateCopy::with_wal(path, progress)?;
            return Opened::private(path, copy, seen);
        }
        Opened::open(path, progress)
    }

    /// A second connection to the same, for a second thread.
    ///
    /// # Errors
    /// As [`Opened::open`].
    pub fn second(&self) -> Result<Opened, Refusal> {
        match (self.read_as, &self.copy) {
            (ReadAs::PrivateCopy, Some(copy)) => {
                let conn = connect(&copy.path(), "mode=rw", true)?;
                Opened::start(conn, ReadAs::PrivateCopy, &self.path, self.beside.clone(), None, None)
            }
            (ReadAs::Shared, _) => quiet::not_as_root(self.beside.uid, || {
                let conn = connect(&self.path, "mode=ro&readonly_shm=1", false)?;
                let opened = Opened::start(conn, ReadAs::Shared, &self.path, self.beside.clone(), None, None)?;
                Ok(Opened { beside_host: self.beside_host.clone(), hurried: self.hurried, ..opened })
            }),
            _ => Opened::immutable(&self.path, self.beside.clone()),
        }
    }

    /// A file of ours that nobody changes: a snapshot's.
    ///
    /// # Errors
    /// As [`Opened::open`].
    pub fn kept(path: &Path) -> Result<Opened, Refusal> {
        Opened::immutable(path, Beside::look(path)?)
    }

    /// The base of a private copy alone, without its WAL.
    ///
    /// None where this is no private copy of a WAL.
    pub fn base(&self) -> Option<Result<Opened, Refusal>> {
        let copy = self.copy.as_ref().filter(|_| self.beside.frames() && !self.beside.is_hot())?;
        Some(Opened::immutable(&copy.path(), self.beside.clone()))
    }

    fn start(
        mut conn: Connection,
        read_as: ReadAs,
        path: &Path,
        seen: Beside,
        guard: Option<File>,
        copy: Option<PrivateCopy>,
    ) -> Result<Opened, Refusal> {
        let clock = armour::put_on(&mut conn)?;
        // One transaction: whatever is asked is of one moment. The first read also undoes a journal, in a copy.
        conn.execute_batch("begin")?;
        conn.prepare("select 1 from sqlite_schema limit 1")?.query([])?.next()?;
        armour::close_up(&mut conn)?;
        Ok(Opened { conn, read_as, beside: seen, clock, path: path.to_owned(), beside_host: None, hurried: false, _guard: guard, copy })
    }

    /// Lets it take what reading all of the store takes, and no more; beside a host that writes no more than a moment (half a second).
    pub fn whole(&self) {
        self.clock.allow(self.bytes());
        if let Some(frames) = self.beside_host.clone().filter(|_| self.hurried) {
            self.clock.hurry(MOMENT, move || frames.are_few());
        }
    }

    /// Bytes of the store, its WAL and its journal.
    pub fn bytes(&self) -> u64 {
        let beside = [self.beside.wal.map(|wal| wal.stamp.bytes), self.beside.journal.map(|journal| journal.stamp.bytes)];
        beside.into_iter().flatten().fold(self.beside.stamp.bytes, u64::saturating_add)
    }

    /// The store's own path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether what was read is what is there: a store read as immutable must not have changed, nor be about to.
    ///
    /// # Errors
    /// [`Refusal::Moved`] when it did, [`Refusal::Busy`] when somebody writes into it.
    pub fn still(&self) -> Result<(), Refusal> {
        if self.read_as != ReadAs::Immutable {
            return Ok(());
        }
        let now = Beside::look(&self.path)?;
        if now.stamp != self.beside.stamp || now.header != self.beside.header || now.frames() || now.is_hot() {
            return Err(Refusal::Moved);
        }
        written_by_nobody(&self.path, &now)
    }
}

/// A store with a WAL changes in a checkpoint alone, which its frames and its times tell; its host may keep everybody out all the time.
fn written_by_nobody(path: &Path, seen: &Beside) -> Result<(), Refusal> {
    if seen.header.is_some_and(|header| header.wal) { Ok(()) } else { super::lock::free(path) }
}

/// Asks a store, and asks again when it changed meanwhile, a few times. `ask` must not have told anybody anything yet.
///
/// # Errors
/// Why there is no answer.
pub fn ask<T>(path: &Path, progress: &Progress, mut question: impl FnMut(&mut Opened) -> Result<T, Refusal>) -> Result<T, Refusal> {
    let mut last = Refusal::Moved;
    let mut long = false;
    for _ in 0..=AGAIN {
        let mut opened = if long { Opened::open_long(path, progress)? } else { Opened::open(path, progress)? };
        let answer = question(&mut opened);
        match (opened.still(), answer) {
            (Ok(()), Err(Refusal::Endless)) if opened.is_hurried() => long = true,
            (Ok(()), answer) => return answer,
            // What a changing file says of itself, good or bad, is worth nothing.
            (Err(error @ (Refusal::Moved | Refusal::Busy(_))), _) => last = error,
            (Err(error), _) => return Err(error),
        }
    }
    Err(last)
}

fn connect(path: &Path, parameters: &str, writable: bool) -> Result<Connection, Refusal> {
    let access = if writable { OpenFlags::SQLITE_OPEN_READ_WRITE } else { OpenFlags::SQLITE_OPEN_READ_ONLY };
    let flags = access | OpenFlags::SQLITE_OPEN_URI | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    Ok(Connection::open_with_flags(uri(path, parameters), flags)?)
}

/// A path of any bytes as SQLite's URI.
fn uri(path: &Path, parameters: &str) -> String {
    use std::fmt::Write;
    let mut uri = String::from("file://");
    for &byte in path.as_os_str().as_bytes() {
        if byte.is_ascii_alphanumeric() || b"/-._~".contains(&byte) {
            uri.push(char::from(byte));
        } else {
            let _ = write!(uri, "%{byte:02x}");
        }
    }
    uri.push('?');
    uri.push_str(parameters);
    uri
}
