//! What lies at a path and beside it: sizes, times, and the first bytes. Nothing here is SQLite's doing.
//!
//! The formats are those of sqlite.org/fileformat2.html: the database header (100 bytes), the WAL header (32 bytes), the
//! rollback journal's (28 bytes). Offsets are theirs.

use std::ffi::OsString;
use std::fs::File;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::host::{Unknown, deadline};

use super::{Refusal, lock};

/// Tells one state of a file from another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stamp {
    /// Device and inode.
    pub inode: (u64, u64),
    /// Size in bytes.
    pub bytes: u64,
    /// Modified, nanoseconds since the epoch.
    pub modified_ns: i128,
    /// Status changed, nanoseconds since the epoch.
    pub changed_ns: i128,
}

/// The header of the database file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// Bytes of a page.
    pub page_size: u32,
    /// It was last used in WAL mode; else with a rollback journal (DELETE, TRUNCATE, PERSIST, MEMORY and OFF leave the same header).
    pub wal: bool,
    /// Vacuums itself: pages of deleted rows go back.
    pub auto_vacuum: bool,
    /// … but only when it is told to.
    pub incremental: bool,
    /// Counts the transactions of a rollback journal; times of a file may be too coarse to tell two of them apart.
    #[serde(default)]
    pub changes: u32,
}

/// The WAL, as far as its header tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wal {
    /// State of the file.
    pub stamp: Stamp,
    /// Changes whenever the WAL begins anew; none without a header.
    pub salts: Option<[u8; 8]>,
}

/// The rollback journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Journal {
    /// State of the file.
    pub stamp: Stamp,
    /// A transaction that was not finished: the database holds changes that were never committed.
    pub hot: bool,
    /// … and it spans several databases.
    pub many: bool,
    /// … and whoever makes it is alive and holds the lock of a writer; absent where that cannot be asked.
    #[serde(default)]
    pub under_way: Option<bool>,
}

/// What lies at the path of a store and beside it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Beside {
    /// State of the database file.
    pub stamp: Stamp,
    /// Owner.
    pub uid: u32,
    /// Its header; none for a file without one.
    pub header: Option<Header>,
    /// `-wal`.
    pub wal: Option<Wal>,
    /// `-shm` is there.
    pub shm: bool,
    /// `-journal`.
    pub journal: Option<Journal>,
    /// The kind of file system, as the kernel numbers it: `ext4`, `nfs`, …, or the number.
    pub file_system: String,
}

/// The real path of what the person or a host named: SQLite looks beside the file itself, not beside a link to it.
///
/// # Errors
/// When there is nothing, it may not be seen, or it is no regular file. A file system that does not answer is [`Unknown::Deadline`].
pub fn real(path: &Path) -> Result<PathBuf, Refusal> {
    let asked = path.to_owned();
    let found = deadline::ask(path, move || {
        let real = std::fs::canonicalize(&asked)?;
        let meta = std::fs::symlink_metadata(&real)?;
        Ok((real, meta.mode()))
    })?;
    let kind = rustix::fs::FileType::from_raw_mode(found.1);
    match kind {
        rustix::fs::FileType::RegularFile => Ok(found.0),
        rustix::fs::FileType::Directory => Err(Refusal::Kind("a directory")),
        rustix::fs::FileType::Fifo => Err(Refusal::Kind("a FIFO")),
        rustix::fs::FileType::Socket => Err(Refusal::Kind("a socket")),
        _ => Err(Refusal::Kind("a device")),
    }
}

/// The file beside a store: its path with `-wal`, `-shm` or `-journal`.
pub fn name(path: &Path, suffix: &str) -> PathBuf {
    let mut bytes = path.as_os_str().as_bytes().to_vec();
    bytes.extend_from_slice(suffix.as_bytes());
    PathBuf::from(OsString::from_vec(bytes))
}

impl Stamp {
    /// Of what `stat` says.
    pub fn of(meta: &std::fs::Metadata) -> Stamp {
        let ns = |s: i64, ns: i64| i128::from(s) * 1_000_000_000 + i128::from(ns);
        Stamp {
            inode: (meta.dev(), meta.ino()),
            bytes: meta.len(),
            modified_ns: ns(meta.mtime(), meta.mtime_nsec()),
            changed_ns: ns(meta.ctime(), meta.ctime_nsec()),
        }
    }
}

/// A regular file for reading, its access time left alone where the owner asks (O_NOATIME), never waiting for a FIFO's writer.
pub(super) fn open(path: &Path) -> std::io::Result<File> {
    let flags = |more| (rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::NOCTTY | more).bits() as i32;
    let mut options = std::fs::OpenOptions::new();
    match options.read(true).custom_flags(flags(rustix::fs::OFlags::NOATIME)).open(path) {
        // Only the owner and root may ask for that.
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
            options.custom_flags(flags(rustix::fs::OFlags::empty())).open(path)
        }
        opened => opened,
    }
}

fn first(file: &File, length: usize) -> std::io::Result<Vec<u8>> {
    let mut bytes = vec![0; length];
    let filled = fill(file, &mut bytes, 0)?;
    bytes.truncate(filled);
    Ok(bytes)
}

/// Reads from there on until the piece is full or the file ends; how much came.
pub(super) fn fill(file: &File, piece: &mut [u8], at: u64) -> std::io::Result<usize> {
    let mut filled = 0;
    while filled < piece.len() {
        match file.read_at(&mut piece[filled..], at + filled as u64)? {
            0 => break,
            read => filled += read,
        }
    }
    Ok(filled)
}

/// The header of a database file.
pub fn header(bytes: &[u8]) -> Option<Header> {
    let at = |offset: usize| bytes.get(offset..offset + 4).map(|word| u32::from_be_bytes([word[0], word[1], word[2], word[3]]));
    if !bytes.starts_with(b"SQLite format 3\0") || bytes.len() < 100 {
        return None;
    }
    let page_size = match u16::from_be_bytes([bytes[16], bytes[17]]) {
        1 => 65_536,
        size => u32::from(size),
    };
    Some(Header { page_size, wal: bytes[18] == 2, auto_vacuum: at(52)? != 0, incremental: at(64)? != 0, changes: at(24)? })
}

/// The salts of a WAL, if its header is one.
pub fn salts(bytes: &[u8]) -> Option<[u8; 8]> {
    let magic = u32::from_be_bytes(bytes.get(..4)?.try_into().ok()?);
    (magic & !1 == 0x377f_0682 && bytes.len() >= 32).then(|| bytes[16..24].try_into().ok()).flatten()
}

/// Whether a rollback journal holds a transaction to be undone: a header with the magic.
pub fn hot(bytes: &[u8]) -> bool {
    bytes.starts_with(&MAGIC)
}

/// What a journal's header, and the end of one that spans several databases, carry.
const MAGIC: [u8; 8] = [0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7];

impl Beside {
    /// Looks at a real path.
    ///
    /// # Errors
    /// When the database file is gone, may not be read, or is no regular file.
    pub fn look(path: &Path) -> Result<Beside, Refusal> {
        let path = path.to_owned();
        let shown = path.clone();
        Ok(deadline::ask(&shown, move || {
            let file = open(&path)?;
            let meta = file.metadata()?;
            if !meta.is_file() {
                return Err(Unknown::Malformed("it is no regular file".to_owned()));
            }
            let file_system = rustix::fs::fstatfs(&file).map(|stat| file_system(stat.f_type as u64)).unwrap_or_default();
            Ok(Beside {
                stamp: Stamp::of(&meta),
                uid: meta.uid(),
                header: header(&first(&file, 100)?),
                wal: wal(&name(&path, "-wal"))?,
                shm: regular(&name(&path, "-shm"))?.is_some(),
                journal: journal(&name(&path, "-journal"))?
                    .map(|journal| Journal { under_way: if journal.hot { lock::under_way(&file) } else { None }, ..journal }),
                file_system,
            })
        })?)
    }

    /// The WAL has something in it.
    pub fn frames(&self) -> bool {
        self.wal.is_some_and(|wal| wal.salts.is_some() && wal.stamp.bytes > 32)
    }

    /// The journal has something to undo.
    pub fn is_hot(&self) -> bool {
        self.journal.is_some_and(|journal| journal.hot)
    }
}

fn there(path: &Path) -> std::io::Result<Option<std::fs::Metadata>> {
    match std::fs::symlink_metadata(path) {
        Ok(meta) => Ok(Some(meta)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// What is beside a store is a file, or SQLite must not come near it: it would wait for a FIFO's other end.
fn regular(path: &Path) -> std::io::Result<Option<std::fs::Metadata>> {
    match there(path)? {
        Some(meta) if !meta.is_file() => Err(std::io::Error::other(format!("{} is no regular file", path.display()))),
        found => Ok(found),
    }
}

fn beside(path: &Path) -> std::io::Result<Option<(File, Stamp)>> {
    if regular(path)?.is_none() {
        return Ok(None);
    }
    match open(path) {
        Ok(file) => {
            let stamp = Stamp::of(&file.metadata()?);
            Ok(Some((file, stamp)))
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

pub(super) fn wal(path: &Path) -> std::io::Result<Option<Wal>> {
    let Some((file, stamp)) = beside(path)? else { return Ok(None) };
    Ok(Some(Wal { stamp, salts: salts(&first(&file, 32)?) }))
}

fn journal(path: &Path) -> std::io::Result<Option<Journal>> {
    let Some((file, stamp)) = beside(path)? else { return Ok(None) };
    let hot = hot(&first(&file, 28)?);
    let mut end = [0; 8];
    let many = hot && stamp.bytes > 36 && file.read_exact_at(&mut end, stamp.bytes - 8).is_ok() && end == MAGIC;
    Ok(Some(Journal { stamp, hot, many, under_way: None }))
}

/// The numbers of statfs(2) that matter here.
fn file_system(number: u64) -> String {
    let name = match number as u32 {
        0xef53 => "ext4",
        0x9123_683e => "btrfs",
        0x5846_5342 => "xfs",
        0x0102_1994 => "tmpfs",
        0x794c_7630 => "overlay",
        0x2fc1_2fc1 => "zfs",
        0xf2f5_2010 => "f2fs",
        0x6969 => "nfs",
        0xff53_4d42 => "cifs",
        0xfe53_4d42 => "smb2",
        0x6573_5546 => "fuse",
        0x0102_1997 => "9p",
        0x00c3_6400 => "ceph",
        other => return format!("{other:#x}"),
    };
    name.to_owned()
}

/// Whether SQLite's locks and shared memory do not hold on this kind of file system.
pub fn is_network(file_system: &str) -> bool {
    matches!(file_system, "nfs" | "cifs" | "smb2" | "fuse" | "9p" | "ceph")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_of_a_real_database() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.db");
        let conn = rusqlite::Connection::open(&path).unwrap();
        conn.execute_batch(
            "pragma page_size=8192; pragma auto_vacuum=incremental; pragma journal_mode=wal; create table t(a); insert into t values(1)",
        )
        .unwrap();
        let seen = Beside::look(&path).unwrap();
        let header = seen.header.unwrap();
        assert_eq!((header.page_size, header.wal, header.auto_vacuum, header.incremental), (8192, true, true, true));
        assert!(seen.frames() && seen.shm && !seen.is_hot());
        drop(conn);
        let seen = Beside::look(&path).unwrap();
        assert!(!seen.frames() && !seen.shm);
    }

    proptest::proptest! {
        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..200)) {
            let _ = (header(&bytes), salts(&bytes), hot(&bytes));
            let mut real = b"SQLite format 3\0".to_vec();
            real.extend_from_slice(&bytes);
            let _ = header(&real);
        }
    }
}
