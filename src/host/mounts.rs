//! Mounts of a type that hangs when its server does, and the paths that lead to them.

use std::collections::HashMap;
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use super::deadline::{joined, split};

/// File systems that ask another machine or a process, and wait: `nfs4`, `fuse.sshfs` and `fuseblk` by their beginnings.
const SLOW: [&str; 15] =
    ["fuse", "nfs", "cifs", "smb", "9p", "virtiofs", "ceph", "afs", "autofs", "lustre", "ocfs2", "gfs2", "gpfs", "orangefs", "coda"];

/// How many links are followed; the kernel takes 40.
const LINKS: u8 = 40;

/// Mount points in `mountinfo`, as they are: the kernel writes blanks and backslashes as octal numbers.
pub(super) fn points(table: &str) -> impl Iterator<Item = PathBuf> {
    table.lines().filter_map(|line| line.split(' ').nth(4).map(point))
}

fn point(text: &str) -> PathBuf {
    PathBuf::from(text.replace("\\040", " ").replace("\\011", "\t").replace("\\012", "\n").replace("\\134", "\\"))
}

/// The table of the view in which a path below this root is looked up.
pub(super) fn table(root: Option<&Path>) -> PathBuf {
    root.and_then(Path::parent).unwrap_or(Path::new("/proc/self")).join("mountinfo")
}

/// Mount points of slow file systems. What holds the root holds the program itself: it is waited for like any other.
fn slow_points(table: &str) -> Vec<PathBuf> {
    let row = |line: &str| {
        let (front, behind) = line.split_once(" - ")?;
        let kind = behind.split(' ').next()?;
        SLOW.iter().any(|slow| kind.starts_with(slow)).then(|| front.split(' ').nth(4).map(point)).flatten()
    };
    table.lines().filter_map(row).filter(|mount| mount != Path::new("/")).collect()
}

/// The mount points of slow file systems in the view that a path is looked up in. Read once a view.
pub(super) fn slow(path: &Path) -> Arc<Vec<PathBuf>> {
    type Tables = HashMap<Option<PathBuf>, Arc<Vec<PathBuf>>>;
    static KNOWN: LazyLock<Mutex<Tables>> = LazyLock::new(Mutex::default);
    let (root, _) = split(path);
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let read = || {
        let table = std::fs::read(table(root.as_deref())).unwrap_or_default();
        Arc::new(slow_points(&String::from_utf8_lossy(&table)))
    };
    Arc::clone(known.entry(root.clone()).or_insert_with(read))
}

/// The slow mount that a path leads to, if it does: by its own words or through a link. Nothing on such a mount is asked.
pub(super) fn leads_to_slow(path: &Path) -> Option<PathBuf> {
    let slow = slow(path);
    let (root, inside) = split(path);
    let real = |place: &Path| joined(root.as_deref(), place);
    let mut ahead: Vec<PathBuf> = vec![inside];
    let (mut at, mut links) = (PathBuf::from("/"), 0);
    while let Some(rest) = ahead.pop() {
        let mut parts = rest.components();
        let Some(part) = parts.next() else { continue };
        let behind = parts.as_path().to_owned();
        if !behind.as_os_str().is_empty() {
            ahead.push(behind);
        }
        match part {
            Component::RootDir | Component::Prefix(_) => at = PathBuf::from("/"),
            Component::CurDir => {}
            Component::ParentDir => drop(at.pop()),
            Component::Normal(name) => {
                at.push(name);
                if let Some(mount) = slow.iter().find(|mount| at.starts_with(mount)) {
                    return Some(real(mount));
                }
                if let Ok(link) = std::fs::read_link(real(&at)) {
                    links += 1;
                    if links > LINKS {
                        return None;
                    }
                    at.pop();
                    ahead.push(link);
                }
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mount_points_may_hold_spaces() {
        let table = "21 1 0:5 / /mnt/my\\040disk rw - nfs x rw\n22 1 0:6 / / rw - ext4 x rw\n";
        assert_eq!(points(table).collect::<Vec<_>>(), [PathBuf::from("/mnt/my disk"), PathBuf::from("/")]);
        assert_eq!(slow_points(table), [PathBuf::from("/mnt/my disk")]);
    }

    /// Lines of a desktop, of a machine with network mounts, and of a container on fuse-overlayfs.
    #[test]
    fn types_that_wait_for_somebody_else() {
        let table = "36 35 98:0 / / rw,noatime shared:1 - fuse.fuse-overlayfs fuse-overlayfs rw\n\
                     62 28 0:55 / /run/user/1000/gvfs rw shared:9 - fuse.gvfsd-fuse gvfsd-fuse rw\n\
                     63 28 0:56 / /srv rw shared:9 master:2 - nfs4 server:/srv rw\n\
                     64 28 0:57 / /tmp rw - tmpfs tmpfs rw\n\
                     65 28 0:58 / /win rw - fuseblk /dev/sda1 rw\n";
        assert_eq!(slow_points(table), ["/run/user/1000/gvfs", "/srv", "/win"].map(PathBuf::from));
    }

    proptest::proptest! {
        #[test]
        fn no_table_panics(table in "[ -~\\n]{0,200}") {
            let _ = (slow_points(&table), points(&table).count());
        }
    }
}
