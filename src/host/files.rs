//! Files of the host: what stands at a path, what a directory lists, what a small file says.
//!
//! Every question has a deadline, is asked in the view of the process concerned, and opens only regular
//! files: a FIFO's writer must not be woken, a device not read.

use std::collections::HashMap;
use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::Host;
use super::deadline;
use super::fact::{Fact, Raw, Unknown, encode};
use super::process::View;
use super::snapshot::Mask;

/// What stands at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FileKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A Unix socket.
    Socket,
    /// A FIFO.
    Fifo,
    /// A character or block device.
    Device,
    /// A symbolic link whose target is gone.
    BrokenLink,
}

impl FileKind {
    /// As a message names it.
    pub fn word(self) -> &'static str {
        match self {
            FileKind::File => "a file",
            FileKind::Directory => "a directory",
            FileKind::Socket => "a socket",
            FileKind::Fifo => "a FIFO",
            FileKind::Device => "a device",
            FileKind::BrokenLink => "a broken symbolic link",
        }
    }
}

/// What `stat` says of a path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathFact {
    /// What it is, symbolic links followed.
    pub kind: FileKind,
    /// The path itself is a symbolic link, and points here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link: Option<Raw>,
    /// Permission bits.
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group; older snapshots do not have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gid: Option<u32>,
    /// Of a socket or directory: an access list says whom besides the mode's bits.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub acl: bool,
    /// Size in bytes.
    pub bytes: u64,
    /// Device and inode, which tell whether two paths are one file.
    pub inode: (u64, u64),
    /// Modified, milliseconds since the epoch.
    pub modified_ms: i64,
    /// Status changed, milliseconds since the epoch. For a socket: when it was bound or its mode set.
    pub changed_ms: i64,
}

/// A small file that was read and understood.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Document<T> {
    /// What `stat` says of it.
    pub stat: PathFact,
    /// What it says, or why it could not be understood.
    pub content: Result<T, String>,
}

/// The largest file that is read as text: registration files and unit files have a few hundred bytes.
const SMALL: usize = 1 << 20;

/// Where the directories on the way to an absolute path end.
pub fn steps(path: &[u8]) -> impl Iterator<Item = usize> {
    path.iter().enumerate().skip(1).filter(|(_, byte)| **byte == b'/').map(|(at, _)| at)
}

impl PathFact {
    /// Where `path`, of which this is said, leads as a symbolic link; none where it is none.
    pub fn aim(&self, path: &[u8]) -> Option<Vec<u8>> {
        let link = self.link.as_ref()?.as_bytes();
        let dir = if link.starts_with(b"/") { 0 } else { path.iter().rposition(|&byte| byte == b'/').map_or(0, |at| at + 1) };
        Some([&path[..dir], link].concat())
    }
}

impl Host {
    /// What stands at an absolute path, as `view` sees it.
    pub fn path(&self, view: View, path: &[u8]) -> Fact<PathFact> {
        self.memos.paths.once(view, path, || {
            let place = self.place(view, path);
            let held = self.fact(&file_of("paths", view), &key_of(path), || {
                let place = place?;
                deadline::ask(&place.shown(), move || place.stat())
            });
            if held == Err(Unknown::NotCaptured) { self.told_by_directories(view, path) } else { held }
        })
    }

    /// The names in a directory that are programs a user may start, sorted.
    pub fn programs(&self, view: View, dir: &[u8]) -> Fact<Arc<Vec<Raw>>> {
        self.memos.programs.once(view, dir, || {
            let place = self.place(view, dir);
            let listed = self.fact(&file_of("listings", view), &key_of(dir), || {
                let place = place?;
                deadline::ask_entries(&place.shown(), move || place.programs())
            });
            listed.map(Arc::new)
        })
    }

    /// The names in a directory, sorted.
    pub fn listing(&self, view: View, dir: &[u8]) -> Fact<Vec<Raw>> {
        let place = self.place(view, dir);
        self.fact(&file_of("names", view), &key_of(dir), || {
            let place = place?;
            deadline::ask_entries(&place.shown(), move || place.names())
        })
    }

    /// A small file, read and parsed. Only what `parse` returns is kept in a snapshot, so it must leave secrets out.
    pub fn document<T>(&self, view: View, path: &[u8], parse: fn(&[u8]) -> Result<T, String>) -> Fact<Document<T>>
    where
        T: Serialize + DeserializeOwned + Send + 'static,
    {
        let place = self.place(view, path);
        self.fact(&file_of("documents", view), &key_of(path), || read_document(place?, parse))
    }

    /// Like [`Host::document`], for a file with values of variables: `keep` is what a snapshot holds of what was parsed.
    pub fn document_masked<T>(
        &self,
        view: View,
        path: &[u8],
        parse: fn(&[u8]) -> Result<T, String>,
        keep: fn(&dyn Mask, &T) -> T,
    ) -> Fact<Document<T>>
    where
        T: Serialize + DeserializeOwned + Send + 'static,
    {
        let place = self.place(view, path);
        let keep = |mask: &dyn Mask, document: &Document<T>| Document {
            stat: document.stat.clone(),
            content: document.content.as_ref().map(|content| keep(mask, content)).map_err(Clone::clone),
        };
        self.masked_fact(&file_of("documents", view), &key_of(path), || read_document(place?, parse), keep)
    }

    /// A handle on what stands at a path, that opens nothing (O_PATH). Live machines only.
    pub(super) fn handle(&self, view: View, path: &[u8]) -> Fact<OwnedFd> {
        let place = self.place(view, path)?;
        deadline::ask(&place.shown(), move || place.open(OFlags::PATH))
    }

    /// The bytes of a small regular file. Live machines only; nothing of it is kept.
    pub(super) fn small_file(&self, view: View, path: &[u8]) -> Fact<Vec<u8>> {
        let document = read_document(self.place(view, path)?, |bytes| Ok(bytes.to_vec()))?;
        document.content.map_err(Unknown::Malformed)
    }

    /// Hands the program file of a process to `read`, which has until the deadline as well: pages of a program on a
    /// dead mount do not come. Live machines only: rooms above keep what they derive from it with [`Host::fact`].
    pub fn read_program<T: Send + 'static>(
        &self,
        pid: super::Pid,
        read: impl FnOnce(std::fs::File) -> Fact<T> + Send + 'static,
    ) -> Fact<T> {
        let root = self.live_root().ok_or(Unknown::NotCaptured)?.to_owned();
        let path = root.join(format!("proc/{pid}/exe"));
        let shown = path.clone();
        deadline::ask(&shown, move || {
            let probe = rustix::fs::open(&path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
            let stat = rustix::fs::fstat(&probe)?;
            if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
                return Err(Unknown::Malformed("the program is no regular file".to_owned()));
            }
            read(rustix::fs::open(&path, OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK, Mode::empty())?.into())
        })
    }

    pub(super) fn place(&self, view: View, path: &[u8]) -> Fact<Place> {
        let root = self.live_root().ok_or(Unknown::NotCaptured)?;
        let path = path.to_vec();
        Ok(match view.mount {
            Some(pid) => Place { root: Some(root.join(format!("proc/{pid}/root"))), path },
            None if root != Path::new("/") => Place { root: Some(root.to_owned()), path },
            None => Place { root: None, path },
        })
    }
}

fn read_document<T: Send + 'static>(place: Place, parse: fn(&[u8]) -> Result<T, String>) -> Fact<Document<T>> {
    deadline::ask(&place.shown(), move || {
        let stat = place.stat()?;
        if stat.kind != FileKind::File {
            return Ok(Document { content: Err(format!("it is {}, not a regular file", stat.kind.word())), stat });
        }
        if stat.bytes > SMALL as u64 {
            return Ok(Document { content: Err(format!("it has {} bytes; such a file has a few hundred", stat.bytes)), stat });
        }
        let file = place.open(OFlags::RDONLY | OFlags::NONBLOCK)?;
        let mut bytes = Vec::new();
        let length = read_whole(&file, &mut bytes, SMALL)?;
        Ok(Document { content: parse(&bytes[..length]), stat })
    })
}

/// Answers of one host, each asked for once: many variables name one path, and every PATH the same directories.
#[derive(Default)]
pub(super) struct Memos {
    paths: Memo<PathFact>,
    programs: Memo<Arc<Vec<Raw>>>,
}

/// Answers by view and path.
struct Memo<T>(Mutex<HashMap<Key, Fact<T>>>);

type Key = (View, Vec<u8>);

impl<T> Default for Memo<T> {
    fn default() -> Memo<T> {
        Memo(Mutex::default())
    }
}

impl<T: Clone> Memo<T> {
    fn once(&self, view: View, path: &[u8], ask: impl FnOnce() -> Fact<T>) -> Fact<T> {
        let key = (view, path.to_vec());
        // What was read unrecorded must be read again by a question that is recorded.
        if super::UNRECORDED.get() {
            return ask();
        }
        if let Some(known) = self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&key) {
            return known.clone();
        }
        // Not asked under the lock: one path that hangs must not keep the others waiting.
        let fact = ask();
        self.0.lock().unwrap_or_else(PoisonError::into_inner).entry(key).or_insert(fact).clone()
    }
}

/// What stands at a path that the person named, on the machine that the program runs on.
pub fn stat_named(path: &Path) -> Fact<PathFact> {
    let place = Place { root: None, path: std::path::absolute(path)?.into_os_string().into_vec() };
    deadline::ask(&place.shown(), move || place.stat())
}

/// A regular file that the person named, or keeps for this program: of the machine that the program runs on.
///
/// # Errors
/// [`Unknown::Malformed`] where it is no regular file (opening a FIFO would wait for a writer) or too large.
pub fn read_named(path: &Path) -> Fact<Vec<u8>> {
    const LIMIT: u64 = 64 << 20;
    let place = Place { root: None, path: std::path::absolute(path)?.into_os_string().into_vec() };
    deadline::ask(&place.shown(), move || {
        let stat = place.stat()?;
        match stat.kind {
            FileKind::File if stat.bytes <= LIMIT => {}
            FileKind::File => return Err(Unknown::Malformed(format!("it has {} bytes; at most {LIMIT} are read", stat.bytes))),
            FileKind::BrokenLink => return Err(Unknown::Absent),
            other => return Err(Unknown::Malformed(format!("it is {}, not a regular file", other.word()))),
        }
        let file = place.open(OFlags::RDONLY | OFlags::NONBLOCK)?;
        let mut bytes = Vec::new();
        let length = read_whole(&file, &mut bytes, LIMIT as usize)?;
        bytes.truncate(length);
        Ok(bytes)
    })
}

/// A path, and the root it is looked up below when that is not ours.
pub(super) struct Place {
    root: Option<PathBuf>,
    path: Vec<u8>,
}

impl Place {
    /// The place that [`Place::shown`] shows: below the root of another process, or ours.
    pub(super) fn at(shown: &Path) -> Place {
        let (root, path) = deadline::split(shown);
        Place { root, path: path.into_os_string().into_vec() }
    }

    pub(super) fn shown(&self) -> PathBuf {
        deadline::joined(self.root.as_deref(), Path::new(std::ffi::OsStr::from_bytes(&self.path)))
    }

    pub(super) fn open(&self, flags: OFlags) -> Fact<OwnedFd> {
        // openat2 refuses flags that O_PATH would make meaningless.
        let flags = if flags.contains(OFlags::PATH) { flags | OFlags::CLOEXEC } else { flags | OFlags::CLOEXEC | OFlags::NOCTTY };
        match &self.root {
            None => Ok(rustix::fs::open(self.path.as_slice(), flags, Mode::empty())?),
            Some(root) => {
                let top = rustix::fs::open(root, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
                // Absolute links inside must not lead back to our own files.
                Ok(rustix::fs::openat2(top, self.path.as_slice(), flags, Mode::empty(), ResolveFlags::IN_ROOT)?)
            }
        }
    }

    pub(super) fn stat(&self) -> Fact<PathFact> {
        let itself = self.open(OFlags::PATH | OFlags::NOFOLLOW)?;
        let own = rustix::fs::fstat(&itself)?;
        let link = (FileType::from_raw_mode(own.st_mode) == FileType::Symlink)
            .then(|| rustix::fs::readlinkat(&itself, "", Vec::new()).map(|target| Raw(target.into_bytes())))
            .transpose()?;
        let (stat, kind, file) = match &link {
            None => (own, None, itself),
            Some(_) => match self.open(OFlags::PATH) {
                Ok(target) => (rustix::fs::fstat(&target)?, None, target),
                Err(Unknown::Absent | Unknown::Malformed(_)) => (own, Some(FileKind::BrokenLink), itself),
                Err(other) => return Err(other),
            },
        };
        let kind = kind.unwrap_or(match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => FileKind::Directory,
            FileType::Socket => FileKind::Socket,
            FileType::Fifo => FileKind::Fifo,
            FileType::CharacterDevice | FileType::BlockDevice => FileKind::Device,
            _ => FileKind::File,
        });
        Ok(PathFact {
            kind,
            link,
            mode: stat.st_mode & 0o7777,
            uid: stat.st_uid,
            gid: Some(stat.st_gid),
            acl: matches!(kind, FileKind::Socket | FileKind::Directory) && has_list(&file, stat.st_mode),
            bytes: stat.st_size as u64,
            inode: (stat.st_dev, stat.st_ino),
            modified_ms: stat.st_mtime * 1000 + stat.st_mtime_nsec as i64 / 1_000_000,
            changed_ms: stat.st_ctime * 1000 + stat.st_ctime_nsec as i64 / 1_000_000,
        })
    }

    pub(super) fn names(&self) -> Fact<Vec<Raw>> {
        let fd = self.open(OFlags::RDONLY | OFlags::DIRECTORY)?;
        let mut names = names_of(fd)?.into_iter().map(|name| Raw(name.into_vec())).collect::<Vec<_>>();
        names.sort();
        Ok(names)
    }

    pub(super) fn programs(&self) -> Fact<Vec<Raw>> {
        let fd = self.open(OFlags::RDONLY | OFlags::DIRECTORY)?;
        let at = rustix::fs::openat(&fd, ".", OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
        let mut programs = Vec::new();
        for name in names_of(fd)? {
            let Ok(stat) = rustix::fs::statat(&at, &name, AtFlags::empty()) else { continue };
            if FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile && stat.st_mode & 0o111 != 0 {
                programs.push(Raw(name.into_vec()));
            }
        }
        programs.sort();
        Ok(programs)
    }
}

/// Whether an access list is there, where one would show: its mask stands in the group's bits.
fn has_list(file: &OwnedFd, mode: u32) -> bool {
    use std::os::fd::AsRawFd;
    let grants_the_group = mode >> 3 & 0o7 & !mode != 0;
    // An O_PATH handle has no attributes of its own; the file that it leads to has.
    let path = || format!("/proc/self/fd/{}", file.as_raw_fd());
    grants_the_group && rustix::fs::getxattr_query(path(), "system.posix_acl_access").is_ok_and(|length| length > 0)
}

pub(super) fn file_of(kind: &str, view: View) -> String {
    match view.mount {
        None => format!("{kind}/ours.json"),
        Some(pid) => format!("{kind}/{pid}.json"),
    }
}

/// The key under which a snapshot keeps a fact about a path.
pub(super) fn key_of(path: &[u8]) -> String {
    match std::str::from_utf8(path) {
        Ok(text) => text.to_owned(),
        Err(_) => format!("b64:{}", encode(path)),
    }
}

fn names_of(fd: OwnedFd) -> Fact<Vec<OsString>> {
    let mut names = Vec::new();
    for entry in rustix::fs::Dir::new(fd)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if name != b"." && name != b".." {
            names.push(OsString::from_vec(name.to_vec()));
        }
    }
    Ok(names)
}

/// Tells the names in a directory of the kernel's own, one by one.
pub(super) fn each_name(path: &Path, mut tell: impl FnMut(&[u8])) -> Fact<()> {
    let fd = rustix::fs::openat(CWD, path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    for entry in rustix::fs::Dir::new(fd)? {
        tell(entry?.file_name().to_bytes());
    }
    Ok(())
}

/// The target of a link of the kernel's own.
pub(super) fn link(path: &Path) -> Fact<Vec<u8>> {
    Ok(rustix::fs::readlink(path, Vec::new())?.into_bytes())
}

/// A file of the kernel's own.
pub(super) fn read_small(path: &Path, limit: usize) -> Fact<Vec<u8>> {
    let file = rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    let mut bytes = Vec::new();
    let length = read_whole(&file, &mut bytes, limit)?;
    bytes.truncate(length);
    Ok(bytes)
}

/// Reads to the end, or to `limit`, into a buffer that only grows; returns how much of it is filled.
pub(super) fn read_whole(file: &OwnedFd, buffer: &mut Vec<u8>, limit: usize) -> Fact<usize> {
    read_until(file, buffer, limit, |read, _| read == 0)
}

/// The same for a file that the kernel gives in one piece, as it does with those of a process: a read that leaves
/// room was the last, and the one that would say so is saved.
pub(super) fn read_block(file: &OwnedFd, buffer: &mut Vec<u8>, limit: usize) -> Fact<usize> {
    read_until(file, buffer, limit, |read, room| read < room)
}

fn read_until(file: &OwnedFd, buffer: &mut Vec<u8>, limit: usize, last: impl Fn(usize, usize) -> bool) -> Fact<usize> {
    let mut filled = 0;
    loop {
        if buffer.len() - filled < 4096 {
            buffer.resize((buffer.len() * 2).max(16 << 10), 0);
        }
        match rustix::io::read(file, &mut buffer[filled..]) {
            Ok(read) => {
                let room = buffer.len() - filled;
                filled += read;
                if last(read, room) {
                    return Ok(filled.min(limit));
                }
            }
            Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        if filled >= limit {
            return Ok(limit);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absolute_links_stay_inside_another_root() {
        let tree = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(tree.path().join("etc")).unwrap();
        std::fs::write(tree.path().join("etc/inner"), "inner").unwrap();
        std::os::unix::fs::symlink("/etc/inner", tree.path().join("link")).unwrap();
        std::os::unix::fs::symlink("/etc/passwd", tree.path().join("escape")).unwrap();
        let host = Host::at_root(tree.path());
        let fact = host.path(View::OURS, b"/link").unwrap();
        assert_eq!((fact.kind, fact.bytes), (FileKind::File, 5));
        assert_eq!(fact.link, Some(Raw::from("/etc/inner")));
        assert_eq!(host.path(View::OURS, b"/escape").unwrap().kind, FileKind::BrokenLink);
        assert_eq!(host.path(View::OURS, b"/nothing"), Err(Unknown::Absent));
    }

    #[test]
    fn a_fifo_is_told_and_not_opened() {
        let tree = tempfile::tempdir().unwrap();
        rustix::fs::mknodat(CWD, tree.path().join("fifo"), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        let host = Host::at_root(tree.path());
        let document = host.document(View::OURS, b"/fifo", |bytes| Ok(bytes.len())).unwrap();
        assert_eq!(document.content, Err("it is a FIFO, not a regular file".to_owned()));
    }
}
