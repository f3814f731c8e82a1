//! The real programs, each fetched once.
//!
//! - **Cache**: `$WHOSEENV_TEST_PEERS`, else `${XDG_CACHE_HOME:-~/.cache}/whoseenv/test-peers`; one directory a
//!   program and version. A lock file there makes parallel tests fetch once; a fetch is built beside its place and
//!   renamed into it, so what is there is whole.
//! - **Running copy**: root's cache is closed to ordinary accounts, so what runs is a hard link (a copy on another
//!   file system) in `/var/tmp/whoseenv-peers-<uid>/<program-version>/`, world-readable, writable by its owner alone.
//!
//! Both stay: delete them when you like, the next run makes them again.

use super::need::{Missing, Needed, tool};
use std::fs::{self, File, Permissions};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// OpenCode 1.x.
pub const OPENCODE_V1: &str = "1.18.34";
/// OpenCode's 2.0 preview.
pub const OPENCODE_PREVIEW: &str = "0.0.0-next-16350";
/// ZeroClaw and zerocode.
pub const ZEROCLAW: &str = "0.8.7";

/// OpenCode 1.18.34, ready for any account to run.
pub fn opencode_v1() -> Needed<PathBuf> {
    let place = format!("opencode-{OPENCODE_V1}");
    let cached = fetched(&place, "opencode", |dir| npm(dir, "opencode-linux-x64", OPENCODE_V1, "opencode"))?;
    Ok(for_everyone(&place, &cached))
}

/// Another version of OpenCode 1.x, ready for any account to run.
pub fn opencode(version: &str) -> Needed<PathBuf> {
    let place = format!("opencode-{version}");
    let cached = fetched(&place, "opencode", |dir| npm(dir, "opencode-linux-x64", version, "opencode"))?;
    Ok(for_everyone(&place, &cached))
}

/// OpenCode 2.0 preview, ready for any account to run.
pub fn opencode_preview() -> Needed<PathBuf> {
    let place = format!("opencode2-{OPENCODE_PREVIEW}");
    let package = "@opencode-ai/cli-linux-x64-baseline";
    let cached = fetched(&place, "opencode2", |dir| npm(dir, package, OPENCODE_PREVIEW, "opencode2"))?;
    Ok(for_everyone(&place, &cached))
}

/// The ZeroClaw daemon.
pub fn zeroclaw() -> Needed<PathBuf> {
    zero("zeroclaw")
}

/// ZeroClaw's terminal client.
pub fn zerocode() -> Needed<PathBuf> {
    zero("zerocode")
}

fn zero(program: &str) -> Needed<PathBuf> {
    let place = format!("zeroclaw-{ZEROCLAW}");
    let cached = fetched(&place, &format!("bin/{program}"), |dir| {
        // One build directory for both: they share most of what they are made of.
        cargo_install(dir, "zeroclaw", &["--no-default-features", "--features", "agent-runtime"])?;
        cargo_install(dir, "zerocode", &[])?;
        let _ = fs::remove_dir_all(dir.join("target"));
        Ok(())
    })?;
    Ok(for_everyone(&place, &cached))
}

/// The program under test, in a directory where every account can run it.
pub fn whoseenv_into(dir: &Path) -> PathBuf {
    let copy = dir.join("whoseenv");
    place(Path::new(env!("CARGO_BIN_EXE_whoseenv")), &copy);
    copy
}

/// Where fetched programs stay, outside of the checkout.
pub fn cache() -> Needed<PathBuf> {
    let set = |name| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    if let Some(dir) = set("WHOSEENV_TEST_PEERS") {
        return Ok(dir);
    }
    match set("XDG_CACHE_HOME").or_else(|| set("HOME").map(|home| home.join(".cache"))) {
        Some(dir) => Ok(dir.join("whoseenv/test-peers")),
        None => Missing::new("no place for the real programs: neither WHOSEENV_TEST_PEERS nor HOME is set"),
    }
}

/// World-readable, and nobody else's to write: what ordinary accounts run lies here.
pub fn public_dir() -> PathBuf {
    let uid = rustix::process::geteuid().as_raw();
    let dir = PathBuf::from(format!("/var/tmp/whoseenv-peers-{uid}"));
    match fs::create_dir(&dir) {
        Ok(()) => fs::set_permissions(&dir, Permissions::from_mode(0o755)).expect("its mode can be set"),
        Err(e) => assert!(e.kind() == std::io::ErrorKind::AlreadyExists, "{}: {e}", dir.display()),
    }
    // The name is known beforehand and /var/tmp is everybody's: trust only a directory that is really ours.
    let meta = fs::symlink_metadata(&dir).expect("it is there");
    assert!(meta.is_dir() && meta.uid() == uid && meta.mode() & 0o022 == 0, "{} is not ours alone", dir.display());
    dir
}

/// Waits until nobody else has the lock file; it is free again when the value is dropped.
pub fn lock(file: &Path) -> File {
    let file = File::options().create(true).truncate(false).write(true).open(file).expect("a lock file can be made");
    rustix::fs::flock(&file, rustix::fs::FlockOperation::LockExclusive).expect("it can be locked");
    file
}

fn fetched(place: &str, program: &str, fetch: impl FnOnce(&Path) -> Needed<()>) -> Needed<PathBuf> {
    let cache = cache()?;
    let there = cache.join(place);
    if !there.join(program).is_file() {
        if let Err(e) = fs::create_dir_all(&cache) {
            return Missing::new(format!("{}: {e}", cache.display()));
        }
        let _one = lock(&cache.join(format!("{place}.lock")));
        if !there.join(program).is_file() {
            let fresh = tempfile::Builder::new().prefix(&format!("{place}.")).tempdir_in(&cache).expect("a directory can be made");
            fetch(fresh.path())?;
            assert!(fresh.path().join(program).is_file(), "{place} came without {program}");
            let _ = fs::remove_dir_all(&there);
            fs::rename(fresh.keep(), &there).expect("what was fetched moves into its place");
        }
    }
    Ok(there.join(program))
}

fn npm(dir: &Path, package: &str, version: &str, program: &str) -> Needed<()> {
    tell(&format!("fetching {package}@{version} from npm, once"));
    let npm = tool("npm", "npm")?;
    let pack = Command::new(npm)
        .args(["pack", "--silent", "--pack-destination", "."])
        .arg(format!("{package}@{version}"))
        .current_dir(dir)
        .stdin(Stdio::null())
        .output()
        .expect("npm runs");
    if !pack.status.success() {
        return Missing::new(format!("npm pack {package}@{version}: {}", last_line(&pack.stderr)));
    }
    let archive = fs::read_dir(dir)
        .expect("the directory is there")
        .flatten()
        .map(|e| e.path())
        .find(|p| p.extension().is_some_and(|x| x == "tgz"))
        .expect("npm pack leaves an archive");
    // The program alone: the source maps beside it are as large again.
    super::accounts::run(
        Command::new(tool("tar", "tar")?)
            .args(["-xz", "--no-same-owner", "--strip-components=2", "-f"])
            .arg(&archive)
            .arg(format!("package/bin/{program}"))
            .current_dir(dir),
    );
    fs::remove_file(archive).expect("the archive can go");
    Ok(())
}

fn cargo_install(dir: &Path, name: &str, features: &[&str]) -> Needed<()> {
    tell(&format!("building {name} {ZEROCLAW}, once (minutes)"));
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut build = Command::new(tool("nice", "coreutils")?);
    build.arg(cargo).args(["install", name, "--version", ZEROCLAW, "--locked", "--debug", "--ignore-rust-version"]);
    build.args(features).arg("--root").arg(dir);
    // A build of its own: what cargo told this test run is not meant for it.
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("CARGO_") && text != "CARGO_HOME" || text.starts_with("RUSTFLAGS") || text == "RUSTC_WRAPPER" {
            build.env_remove(&name);
        }
    }
    build.env("CARGO_TARGET_DIR", dir.join("target")).env("CARGO_PROFILE_DEV_DEBUG", "0").env("CARGO_INCREMENTAL", "0");
    let output = build.current_dir(dir).stdin(Stdio::null()).output().expect("nice runs");
    if !output.status.success() {
        return Missing::new(format!("cargo install {name}: {}", last_line(&output.stderr)));
    }
    Ok(())
}

/// The same file where any account can read and run it.
fn for_everyone(name: &str, program: &Path) -> PathBuf {
    let root = public_dir();
    let dir = root.join(name);
    let copy = dir.join(program.file_name().expect("a file"));
    if !copy.is_file() {
        let _one = lock(&root.join(".lock"));
        if !copy.is_file() {
            fs::create_dir_all(&dir).expect("a directory can be made");
            fs::set_permissions(&dir, Permissions::from_mode(0o755)).expect("its mode can be set");
            let fresh = dir.join(".fresh");
            let _ = fs::remove_file(&fresh);
            place(program, &fresh);
            fs::rename(&fresh, &copy).expect("it moves into its place");
        }
    }
    copy
}

fn place(program: &Path, copy: &Path) {
    if fs::hard_link(program, copy).is_err() {
        fs::copy(program, copy).expect("the program can be copied");
    }
    fs::set_permissions(copy, Permissions::from_mode(0o755)).expect("its mode can be set");
}

fn last_line(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    text.lines().rfind(|l| !l.trim().is_empty()).unwrap_or("it failed and said nothing").trim().to_owned()
}

fn tell(what: &str) {
    let _ = writeln!(std::io::stderr(), "whoseenv tests: {what}");
}
