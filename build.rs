//! Makes the table of the files of `doctor --demo`, so that the demo is a snapshot directory like any other.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

fn main() -> io::Result<()> {
    let dir = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default()).join("fixtures/demo");
    println!("cargo::rerun-if-changed={}", dir.display());
    let mut files = Vec::new();
    collect(&dir, &dir, &mut files)?;
    files.sort();
    let mut table = String::from("static FILES: &[(&str, &[u8])] = &[\n");
    for name in files {
        let path = dir.join(&name);
        writeln!(table, "    ({name:?}, include_bytes!({:?})),", path.display().to_string()).map_err(io::Error::other)?;
    }
    table.push_str("];\n");
    fs::write(PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default()).join("demo.rs"), table)
}

fn collect(top: &Path, dir: &Path, files: &mut Vec<String>) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        if path.is_dir() {
            collect(top, &path, files)?;
        } else if let Some(name) = path.strip_prefix(top).ok().and_then(Path::to_str) {
            files.push(name.to_owned());
        }
    }
    Ok(())
}
