//! A snapshot directory: facts kept at their addresses, and a manifest that can tell when one was changed.
//!
//! ```text
//! manifest.json            schema, tool, and for every file: SHA-256, and the SHA-256 of every fact in it
//! machine.json             boot id, host name, kernel, time, privilege
//! terminal.json            `self`: the terminal the snapshot was taken from
//! processes/<pid>.json     stat, environ, cmdline, exe, cwd, cgroup, fds, view, …
//! net/ours.json            tcp, tcp6, unix; net/<pid>.json for a process in another network namespace
//! paths/…, listings/…      what stands at a path, which programs a directory holds, by path; names/…: all names in it
//! contents/ours.json       names in directories of which a question may come later, whole: what is not among them is absent
//! documents/…              small files as understood, by path: registration files, units, sessions of logind
//! hosts/…                  addresses that /etc/hosts gives the host names of values
//! connect.json             what a thing answered that was opened (--connect)
//! commands.json            what tmux, systemctl or a login shell printed, where one was named
//! stores.json, stores/…     the agents' databases, copied whole (--with-stores)
//! users.json, pids.json, holders.json, outlives.json, clients.json, named.json, proc.json
//!                          login names, how pids map, who has a socket, what outlives an ssh connection, which multiplexer a client's
//!                          arguments name, which arguments name a socket, what /proc hides
//! ```
//!
//! A file is a JSON object of facts; a fact is `{"value": …}` or `{"unknown": {"reason": …}}`. The directory is
//! 0700, its files 0600. Digests are per fact, so that one changed fact leaves the others usable.

use std::collections::{BTreeMap, HashMap};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::fs::{Mode, OFlags, ResolveFlags};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json, json};
use sha2::{Digest, Sha256};

use super::deadline;
use super::environ::{Environ, Value};
use super::fact::{Fact, Unknown};
use super::files::read_whole;
use super::machine::Machine;
use super::process::Pid;

/// Decides what a snapshot keeps of values and arguments.
pub trait Mask: Send + Sync {
    /// The block with values that must not be kept replaced by what may be told of them.
    fn environ(&self, environ: &Environ) -> Environ;
    /// The arguments, likewise.
    fn argv(&self, argv: &[Value]) -> Vec<Value>;
    /// Whether a path, or another text that was learned from a value, must not be kept.
    fn hides(&self, text: &[u8]) -> bool;
}

/// What a snapshot keeps in place of a text that must not be kept.
pub const HIDDEN: &str = "‹masked›";

/// The layout's version, in the manifest.
pub const SCHEMA: &str = "whoseenv.snapshot/1";

/// A file of a snapshot may not be larger: a block of 6 MiB, the largest that execve takes, is kept in twice that.
const FILE_LIMIT: usize = 64 << 20;

type File = Map<String, Json>;

/// Keeps what a recording host was asked.
pub struct Recorder {
    mask: Box<dyn Mask>,
    files: Mutex<BTreeMap<String, File>>,
    attached: Mutex<BTreeMap<String, PathBuf>>,
}

impl Recorder {
    pub(super) fn new(mask: Box<dyn Mask>) -> Recorder {
        Recorder { mask, files: Mutex::default(), attached: Mutex::default() }
    }

    pub(super) fn mask(&self) -> &dyn Mask {
        &*self.mask
    }

    /// Keeps the first answer: a snapshot is of one moment. A path with a secret in it is not kept, and a text inside an answer
    /// only as [`HIDDEN`].
    pub(super) fn keep<T: Serialize>(&self, file: &str, key: &str, fact: &Fact<T>) {
        self.keep_as_is(file, key, fact, |kept| self.hide(kept));
    }

    /// The same for an answer that was masked already: what the person asked to be shown stays in it.
    pub(super) fn keep_masked<T: Serialize>(&self, file: &str, key: &str, fact: &Fact<T>) {
        self.keep_as_is(file, key, fact, |_| ());
    }

    fn keep_as_is<T: Serialize>(&self, file: &str, key: &str, fact: &Fact<T>, hide: impl FnOnce(&mut Json)) {
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        let facts = files.entry(file.to_owned()).or_default();
        // Keys that name a path are paths; the other keys are words of this program.
        if facts.contains_key(key) || key.starts_with('/') && self.mask.hides(key.as_bytes()) {
            return;
        }
        let kept = match fact {
            Ok(value) => serde_json::to_value(value).map(|value| json!({ "value": value })),
            Err(unknown) => serde_json::to_value(unknown).map(|unknown| json!({ "unknown": unknown })),
        };
        let mut kept = kept.unwrap_or_else(|error| json!({ "unknown": { "reason": "malformed", "detail": error.to_string() } }));
        hide(&mut kept);
        facts.insert(key.to_owned(), kept);
    }

    /// A file that the snapshot holds as it is, under this name; it is copied when the snapshot is written.
    pub fn attach(&self, name: &str, file: PathBuf) {
        self.attached.lock().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned(), file);
    }

    /// Out of a list such a text is taken: lists of names are sorted.
    fn hide(&self, kept: &mut Json) {
        let hides = |text: &str| self.mask.hides(text.as_bytes());
        match kept {
            Json::String(text) if hides(text) => *text = HIDDEN.to_owned(),
            Json::Array(items) => {
                items.retain(|item| !item.as_str().is_some_and(hides));
                items.iter_mut().for_each(|item| self.hide(item));
            }
            Json::Object(object) => object.values_mut().for_each(|value| self.hide(value)),
            _ => {}
        }
    }

    /// Drops the processes of which nothing but the list of all processes spoke: those not in `wanted` whose
    /// environment nobody read and for whose open files nobody asked. That a bystander's environment was refused tells nothing; that
    /// the open files of one were is why an owner is not known.
    pub fn narrow(&self, wanted: impl Fn(Pid) -> bool) {
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        let read = |facts: &File, key: &str| facts.get(key).is_some_and(|fact| fact.get("value").is_some());
        files.retain(|name, facts| pid_of(name).is_none_or(|pid| wanted(pid) || facts.contains_key("fds") || read(facts, "environ")));
    }

    /// Writes everything kept so far into a new directory. `rewrite` sees every fact first (`--anonymize`).
    ///
    /// # Errors
    /// When the directory exists, cannot be made, or a file cannot be written whole. What was made is removed then.
    pub fn write(&self, dir: &Path, machine: &Machine, rewrite: impl Fn(&mut Json)) -> std::io::Result<Written> {
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner).clone();
        files.insert("machine.json".to_owned(), File::from_iter([("machine".to_owned(), json!({ "value": machine }))]));
        make_dir(dir)?;
        let attached = self.attached.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let written = write_files(dir, files, &attached, rewrite);
        if written.is_err() {
            // Half a snapshot would read as a machine on which little runs.
            let _ = std::fs::remove_dir_all(dir);
        }
        written
    }
}

/// What was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    /// Files, the manifest included.
    pub files: usize,
    /// Facts in them.
    pub facts: usize,
    /// Processes among the files.
    pub processes: usize,
}

#[derive(Serialize, Deserialize)]
struct Manifest {
    schema: String,
    tool: String,
    files: BTreeMap<String, Listed>,
    /// SHA-256 of files that are kept as they are.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    attached: BTreeMap<String, String>,
}

#[derive(Serialize, Deserialize)]
struct Listed {
    sha256: String,
    facts: BTreeMap<String, String>,
}

/// The process that a file is about.
fn pid_of(name: &str) -> Option<Pid> {
    name.strip_prefix("processes/")?.strip_suffix(".json")?.parse().ok()
}

fn make_dir(dir: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    std::fs::DirBuilder::new().mode(0o700).create(dir)
}

fn write_files(
    dir: &Path,
    files: BTreeMap<String, File>,
    attached: &BTreeMap<String, PathBuf>,
    rewrite: impl Fn(&mut Json),
) -> std::io::Result<Written> {
    let mut manifest = Manifest {
        schema: SCHEMA.to_owned(),
        tool: env!("CARGO_PKG_VERSION").to_owned(),
        files: BTreeMap::new(),
        attached: BTreeMap::new(),
    };
    let mut made = std::collections::HashSet::new();
    let mut written = Written { files: 1, facts: 0, processes: 0 };
    for (name, facts) in files {
        if let Some((folder, _)) = name.split_once('/')
            && made.insert(folder.to_owned())
        {
            make_dir(&dir.join(folder))?;
        }
        let mut facts = Json::Object(facts);
        rewrite(&mut facts);
        let Json::Object(mut facts) = facts else { continue };
        facts.sort_keys();
        let digests = facts.iter().map(|(key, fact)| (key.clone(), digest(fact.to_string().as_bytes()))).collect();
        let text = serde_json::to_vec_pretty(&facts)?;
        write_file(&dir.join(&name), &text)?;
        written.files += 1;
        written.facts += facts.len();
        written.processes += usize::from(name.starts_with("processes/"));
        manifest.files.insert(name, Listed { sha256: digest(&text), facts: digests });
    }
    for (name, source) in attached {
        if let Some((folder, _)) = name.split_once('/')
            && made.insert(folder.to_owned())
        {
            make_dir(&dir.join(folder))?;
        }
        let path = dir.join(name);
        write_file(&path, b"")?;
        std::io::copy(&mut std::fs::File::open(source)?, &mut std::fs::OpenOptions::new().write(true).open(&path)?)?;
        manifest.attached.insert(name.clone(), file_digest(std::fs::File::open(&path)?)?);
        written.files += 1;
    }
    write_file(&dir.join("manifest.json"), &serde_json::to_vec_pretty(&manifest)?)?;
    Ok(written)
}

fn write_file(path: &Path, text: &[u8]) -> std::io::Result<()> {
    use std::io::Write;
    use std::os::unix::fs::OpenOptionsExt;
    let mut file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(text)
}

fn file_digest(mut file: std::fs::File) -> std::io::Result<String> {
    use std::io::Read;
    let mut hasher = Sha256::new();
    let mut piece = vec![0; 1 << 20];
    loop {
        match file.read(&mut piece)? {
            0 => return Ok(super::hex(&hasher.finalize())),
            read => hasher.update(&piece[..read]),
        }
    }
}

fn digest(bytes: &[u8]) -> String {
    super::hex(&Sha256::digest(bytes))
}

/// Where the files of a snapshot are.
enum Store {
    Dir(OwnedFd),
    Embedded(&'static [(&'static str, &'static [u8])]),
}

/// A snapshot that is read.
pub struct Captured {
    store: Store,
    manifest: Manifest,
    machine: Machine,
    loaded: Mutex<HashMap<String, Arc<Loaded>>>,
    faults: Mutex<BTreeMap<(String, Option<String>), Unknown>>,
}

enum Loaded {
    Facts(File),
    Lost(Unknown),
}

/// Something wrong with a snapshot itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The file in it.
    pub file: String,
    /// The fact in the file; the whole file where there is none.
    pub key: Option<String>,
    /// What is wrong.
    pub reason: Unknown,
}

/// Why a directory is no snapshot that can be read.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    /// The directory cannot be opened.
    #[error("cannot open the snapshot directory: {0}")]
    Open(#[source] Unknown),
    /// There is no manifest, or it cannot be read.
    #[error("cannot read manifest.json: {0}; a snapshot is a directory written by `whoseenv snapshot DIR`")]
    Manifest(String),
    /// It was written by a later version.
    #[error("the snapshot has the layout {0:?}, this version reads {SCHEMA:?}")]
    Schema(String),
    /// The machine file is missing or changed.
    #[error("machine.json: {0}; without it no time in the snapshot means anything")]
    Machine(Unknown),
}

impl Captured {
    /// Opens a snapshot directory.
    ///
    /// # Errors
    /// When it is no snapshot, or one of a later layout. Damage to single facts is no error here: see [`Captured::faults`].
    pub fn open(dir: &Path) -> Result<Captured, SnapshotError> {
        let path = std::path::absolute(dir).map_err(|error| SnapshotError::Open(error.into()))?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let shown = path.clone();
        let fd = deadline::ask(&shown, move || match rustix::fs::open(path, flags, Mode::empty()) {
            Err(rustix::io::Errno::NOTDIR) => Err(Unknown::Malformed("it is not a directory".to_owned())),
            opened => Ok(opened?),
        })
        .map_err(SnapshotError::Open)?;
        Captured::load(Store::Dir(fd))
    }

    /// A snapshot that is part of the program.
    ///
    /// # Errors
    /// As [`Captured::open`].
    pub fn embedded(files: &'static [(&'static str, &'static [u8])]) -> Result<Captured, SnapshotError> {
        Captured::load(Store::Embedded(files))
    }

    fn load(store: Store) -> Result<Captured, SnapshotError> {
        let text = store.read("manifest.json").map_err(|unknown| SnapshotError::Manifest(unknown.to_string()))?;
        let manifest: Manifest = serde_json::from_slice(&text).map_err(|error| SnapshotError::Manifest(error.to_string()))?;
        if manifest.schema != SCHEMA {
            return Err(SnapshotError::Schema(manifest.schema));
        }
        let mut captured = Captured { store, manifest, machine: Machine::default(), loaded: Mutex::default(), faults: Mutex::default() };
        captured.machine = captured.get("machine.json", "machine").map_err(SnapshotError::Machine)?;
        Ok(captured)
    }

    pub(super) fn machine(&self) -> Machine {
        self.machine.clone()
    }

    /// Every process that was captured, whether or not its file is still whole.
    pub(super) fn pids(&self) -> Vec<Pid> {
        let mut pids: Vec<Pid> = self.manifest.files.keys().filter_map(|name| pid_of(name)).collect();
        pids.sort_unstable();
        pids
    }

    /// Whether the manifest lists this fact, even where it is lost.
    pub(super) fn lists(&self, file: &str, key: &str) -> bool {
        self.manifest.files.get(file).is_some_and(|listed| listed.facts.contains_key(key))
    }

    /// The keys of a file, as the manifest lists them.
    pub(super) fn keys(&self, file: &str) -> Vec<String> {
        self.manifest.files.get(file).map(|listed| listed.facts.keys().cloned().collect()).unwrap_or_default()
    }

    pub(super) fn get<T: DeserializeOwned>(&self, file: &str, key: &str) -> Fact<T> {
        let Some(listed) = self.manifest.files.get(file) else { return Err(Unknown::NotCaptured) };
        let Some(expected) = listed.facts.get(key) else { return Err(Unknown::NotCaptured) };
        let loaded = self.file(file);
        let facts = match &*loaded {
            Loaded::Facts(facts) => facts,
            Loaded::Lost(unknown) => return Err(unknown.clone()),
        };
        let Some(fact) = facts.get(key) else { return Err(self.fault(file, Some(key), Unknown::NotCaptured)) };
        if digest(fact.to_string().as_bytes()) != *expected {
            return Err(self.fault(file, Some(key), Unknown::Altered));
        }
        if let Some(unknown) = fact.get("unknown") {
            return Err(serde_json::from_value(unknown.clone()).unwrap_or_else(|error| Unknown::Malformed(error.to_string())));
        }
        let value = fact.get("value").ok_or_else(|| Unknown::Malformed("a fact without a value".to_owned()))?;
        T::deserialize(value).map_err(|error| self.fault(file, Some(key), Unknown::Malformed(error.to_string())))
    }

    fn file(&self, name: &str) -> Arc<Loaded> {
        let mut loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(file) = loaded.get(name) {
            return file.clone();
        }
        let file = Arc::new(match self.read(name) {
            Ok(facts) => Loaded::Facts(facts),
            Err(unknown) => Loaded::Lost(self.fault(name, None, unknown)),
        });
        loaded.insert(name.to_owned(), file.clone());
        file
    }

    fn read(&self, name: &str) -> Fact<File> {
        let text = match self.store.read(name) {
            Err(Unknown::Absent) => return Err(Unknown::NotCaptured),
            other => other?,
        };
        serde_json::from_slice(&text).map_err(|error| Unknown::Malformed(error.to_string()))
    }

    /// The path of a file that is kept as it is, whole and unchanged: it has to be opened by path.
    pub(super) fn attached(&self, name: &str) -> Fact<PathBuf> {
        use std::os::unix::ffi::OsStringExt;
        let expected = self.manifest.attached.get(name).ok_or(Unknown::NotCaptured)?;
        let Store::Dir(dir) = &self.store else { return Err(Unknown::NotCaptured) };
        let found = self.store.open(dir, name).and_then(|file| Ok(file_digest(file.into())?));
        match found {
            Ok(digest) if digest == *expected => {}
            Ok(_) => return Err(self.fault(name, None, Unknown::Altered)),
            Err(Unknown::Absent) => return Err(self.fault(name, None, Unknown::NotCaptured)),
            Err(unknown) => return Err(self.fault(name, None, unknown)),
        }
        let place = rustix::fs::readlink(format!("/proc/self/fd/{}", dir.as_raw_fd()), Vec::new())?;
        Ok(PathBuf::from(std::ffi::OsString::from_vec(place.into_bytes())).join(name))
    }

    fn fault(&self, file: &str, key: Option<&str>, reason: Unknown) -> Unknown {
        let mut faults = self.faults.lock().unwrap_or_else(PoisonError::into_inner);
        faults.insert((file.to_owned(), key.map(str::to_owned)), reason.clone());
        reason
    }

    /// What is wrong with the snapshot itself. Every file of the manifest is checked, also those no question touched.
    pub(super) fn faults(&self) -> Vec<Fault> {
        for (name, listed) in &self.manifest.files {
            if let Loaded::Facts(facts) = &*self.file(name) {
                for (key, expected) in &listed.facts {
                    match facts.get(key) {
                        None => drop(self.fault(name, Some(key), Unknown::NotCaptured)),
                        Some(fact) if digest(fact.to_string().as_bytes()) != *expected => {
                            drop(self.fault(name, Some(key), Unknown::Altered))
                        }
                        Some(_) => {}
                    }
                }
            }
        }
        let faults = self.faults.lock().unwrap_or_else(PoisonError::into_inner);
        faults.iter().map(|((file, key), reason)| Fault { file: file.clone(), key: key.clone(), reason: reason.clone() }).collect()
    }
}

impl Store {
    fn read(&self, name: &str) -> Fact<Vec<u8>> {
        match self {
            Store::Embedded(files) => files.iter().find(|(file, _)| *file == name).map(|(_, bytes)| bytes.to_vec()).ok_or(Unknown::Absent),
            Store::Dir(dir) => {
                let file = self.open(dir, name)?;
                let stat = rustix::fs::fstat(&file)?;
                if stat.st_size as u64 > FILE_LIMIT as u64 {
                    return Err(Unknown::Malformed(format!("it has {} bytes; no snapshot has such a file", stat.st_size)));
                }
                let mut bytes = Vec::new();
                let length = read_whole(&file, &mut bytes, FILE_LIMIT)?;
                bytes.truncate(length);
                Ok(bytes)
            }
        }
    }

    fn open(&self, dir: &OwnedFd, name: &str) -> Fact<OwnedFd> {
        // A manifest is foreign input: no name in it may lead out of the directory.
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        let file = rustix::fs::openat2(dir.as_fd(), name, flags, Mode::empty(), resolve).map_err(|errno| match errno {
            rustix::io::Errno::LOOP | rustix::io::Errno::XDEV => Unknown::Malformed("it leads out of the snapshot directory".to_owned()),
            other => other.into(),
        })?;
        let stat = rustix::fs::fstat(&file)?;
        if rustix::fs::FileType::from_raw_mode(stat.st_mode) != rustix::fs::FileType::RegularFile {
            return Err(Unknown::Malformed("it is not a regular file".to_owned()));
        }
        Ok(file)
    }
}

#[cfg(test)]
mod tests;
