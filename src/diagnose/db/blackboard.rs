//! Blackboards: files that a team of agents leaves for its members, below a project's `.git`.
//!
//! `<repo>/.git/opencode-team/<session>/<task>/NN-<role>-<topic>[-rN].md`, at most 40 tasks with 200 files each; outside of git
//! `<tmp>/opencode-team/w-<hash>/…`. Nothing but the plugin's own sweeper removes them, five days after they were written.

use crate::host::{Host, Raw, View};

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
}

/// Looks at the blackboards of these directories, and at those in `/tmp`.
pub fn stale<'d>(host: &Host, directories: impl Iterator<Item = &'d str>) -> Stale {
    let mut boards = std::collections::BTreeSet::from([Raw::from("/tmp/opencode-team")]);
    for directory in directories.take(200) {
        // The repository may lie above the session's directory.
        for dir in std::path::Path::new(directory).ancestors().take(8) {
            let board = Raw::from(format!("{}/.git/opencode-team", dir.display().to_string().trim_end_matches('/')).as_bytes());
            if boards.contains(&board) || host.path(View::OURS, board.as_bytes()).is_ok() {
                boards.insert(board);
                break;
            }
        }
    }
    let mut stale = Stale { oldest_ms: i64::MAX, ..Stale::default() };
    for board in boards {
        let before = stale.count;
        walk(host, &board, 3, &mut stale);
        if stale.count > before {
            stale.boards.push(board.lossy().into_owned());
        }
    }
    stale
}

fn walk(host: &Host, dir: &Raw, depth: usize, stale: &mut Stale) {
    const MANY: usize = 400;
    for name in host.listing(View::OURS, dir.as_bytes()).unwrap_or_default().iter().take(MANY) {
        let path = Raw([dir.as_bytes(), b"/", name.as_bytes()].concat());
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
