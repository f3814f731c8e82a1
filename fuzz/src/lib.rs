//! What the targets share: a machine made of files that hold the fuzzer's bytes.

use std::path::Path;
use std::sync::OnceLock;

use whoseenv::host::Host;

/// A directory that stands in for `/`, with `bytes` at each of these paths.
pub fn machine(files: &[(&str, &[u8])]) -> Host {
    static ROOT: OnceLock<tempfile::TempDir> = OnceLock::new();
    let root = ROOT.get_or_init(|| tempfile::tempdir().expect("a directory can be made")).path();
    for (path, bytes) in files {
        write(&root.join(path.trim_start_matches('/')), bytes);
    }
    Host::at_root(root)
}

/// Writes a file and the directories above it.
pub fn write(path: &Path, bytes: &[u8]) {
    if std::fs::write(path, bytes).is_err() {
        std::fs::create_dir_all(path.parent().expect("below a root")).expect("directories can be made");
        std::fs::write(path, bytes).expect("a file can be written");
    }
}
