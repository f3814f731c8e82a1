//! Blackboards: files that a team of agents leaves for its members, below a project's `.git`.
//!
//! `<repo>/.git/opencode-team/<session>/<task>/NN-<role>-<topic>[-rN].md`, at most 40 tasks with 200 files each; outside of git
//! `<tmp>/opencode-team/w-<hash>/…`. Nothing but the plugin's own sweeper removes them, five days after they were written.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use sha2::{Digest, Sha256};

use crate::host::files::FileKind;
use crate::host::{Host, Raw, View, hex};
use crate::store::text::told_text;

/// How long a file may stay, in milliseconds.
const TTL_MS: i64 = 5 * 24 * 3600 * 1000;

/// Files past their time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stale {
    /// How many.
    pub count: u64,
    /// The blackboards that they are on.
    pub boards: Vec<String>,
    /// When the oldest was written.
    pub oldest_ms: i64,
    /// Directories that could not be looked into, and why.
    pub unseen: Vec<String>,
}

/// Looks at the blackboards of these directories: in the repository of each, and in `/tmp`.
pub fn stale<'d>(host: &Host, directories: impl Iterator<Item = &'d str>) -> Stale {
    let mut boards = std::collections::BTreeSet::new();
    let outside: Vec<Raw> = host.listing(View::OURS, OUTSIDE.as_bytes()).unwrap_or_default();
    let mut stale = Stale { oldest_ms: i64::MAX, ..Stale::default() };
    let mut looked: std::collections::HashMap<&Path, Option<Raw>> = std::collections::HashMap::new();
    for directory in directories {
        // The repository may lie above the session's directory.
        for dir in Path::new(directory).ancestors() {
            let board = looked.entry(dir).or_insert_with(|| {
                boards.extend(outside.iter().filter(|name| is_of(name, dir)).map(|name| join(OUTSIDE.as_bytes(), name.as_bytes())));
                in_repository(host, dir)
            });
            if let Some(board) = board {
                boards.insert(board.clone());
                break;
            }
        }
    }
    for board in boards {
        let before = stale.count;
        walk(host, &board, 3, &mut stale);
        if stale.count > before {
            stale.boards.push(told_text(board.as_bytes()));
        }
    }
    stale
}

/// Blackboards of projects that are in no repository.
const OUTSIDE: &str = "/tmp/opencode-team";

/// Whether `w-<hash>` is a directory's: the hash is SHA-256 of its path, or the beginning of that.
fn is_of(name: &Raw, dir: &Path) -> bool {
    const LEAST: usize = 8;
    let Some(hash) = name.as_bytes().strip_prefix(b"w-").filter(|hash| hash.len() >= LEAST) else { return false };
    let whole = hex(&Sha256::digest(dir.as_os_str().as_bytes()));
    whole.as_bytes().starts_with(hash)
}

/// The blackboard of the repository whose top a directory is. In a linked worktree `.git` is a file, and what all worktrees share lies
/// where the repository is.
fn in_repository(host: &Host, dir: &Path) -> Option<Raw> {
    let git = join(dir.as_os_str().as_bytes(), b".git");
    let there = |git: &[u8]| Some(join(git, b"opencode-team")).filter(|board| host.path(View::OURS, board.as_bytes()).is_ok());
    if host.path(View::OURS, git.as_bytes()).ok()?.kind == FileKind::Directory {
        return there(git.as_bytes());
    }
    let named = host.document(View::OURS, git.as_bytes(), gitdir).ok()?.content.ok()?;
    let named = dir.join(named.as_path());
    let parent = named.parent()?;
    let shared = if parent.file_name().is_some_and(|name| name == "worktrees") { parent.parent()? } else { &named };
    there(shared.as_os_str().as_bytes())
}

/// `gitdir: <path>`, as git writes it (gitrepository-layout(5)).
fn gitdir(bytes: &[u8]) -> Result<Raw, String> {
    bytes.strip_prefix(b"gitdir:").map(|path| Raw::from(path.trim_ascii())).ok_or_else(|| "it names no git directory".to_owned())
}

fn join(dir: &[u8], name: &[u8]) -> Raw {
    let dir = dir.strip_suffix(b"/").unwrap_or(dir);
    Raw([dir, b"/", name].concat())
}

fn walk(host: &Host, dir: &Raw, depth: usize, stale: &mut Stale) {
    let names = match host.listing(View::OURS, dir.as_bytes()) {
        Ok(names) => names,
        Err(reason) if reason.is_absence() => return,
        Err(reason) => {
            stale.unseen.push(format!("{} ({reason})", told_text(dir.as_bytes())));
            return;
        }
    };
    for name in &names {
        let path = join(dir.as_bytes(), name.as_bytes());
        if name.as_bytes().ends_with(b".md") {
            let Ok(stat) = host.path(View::OURS, path.as_bytes()) else { continue };
            if stat.modified_ms < host.machine().taken_ms - TTL_MS {
                stale.count += 1;
                stale.oldest_ms = stale.oldest_ms.min(stat.modified_ms);
            }
        } else if depth > 0 {
            walk(host, &path, depth - 1, stale);
        }
    }
}
