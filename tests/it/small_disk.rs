//! A disk on which there is hardly any room.

use std::path::{Path, PathBuf};
use std::process::Command;

/// A tmpfs in a directory of its own; gone with the value.
pub struct SmallDisk(PathBuf);

impl SmallDisk {
    /// Mounts one below `dir`; none where that is not allowed.
    pub fn mounted(dir: &Path, size: &str) -> Option<SmallDisk> {
        let place = dir.join("small");
        std::fs::create_dir(&place).unwrap();
        let options = format!("size={size},mode=1777");
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", &options, "tmpfs"]).arg(&place).status();
        if !mounted.is_ok_and(|status| status.success()) {
            std::fs::remove_dir(&place).unwrap();
            return None;
        }
        Some(SmallDisk(place))
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    /// How much lies on it.
    pub fn entries(&self) -> usize {
        std::fs::read_dir(&self.0).unwrap().count()
    }

    /// Takes it away; nobody may use it any more.
    pub fn end(self) {
        assert!(self.unmounted(), "{} is in use", self.0.display());
    }

    fn unmounted(&self) -> bool {
        Command::new("umount").arg(&self.0).status().is_ok_and(|status| status.success()) && std::fs::remove_dir(&self.0).is_ok()
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        if self.0.exists() {
            self.unmounted();
        }
    }
}
