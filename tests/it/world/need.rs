//! "Cannot run here" is a line and a return on a desk, and a failure where `CI=true`.

use std::io::Write;

/// Why a part of the world cannot be had on this machine.
#[derive(Debug)]
pub struct Missing(pub String);

/// A part of the world, or why it cannot be had here.
pub type Needed<T> = Result<T, Missing>;

impl Missing {
    /// `what` is not here, and how to get it.
    pub fn new<T>(why: impl Into<String>) -> Needed<T> {
        Err(Missing(why.into()))
    }
}

/// Prints the line, past the test runner's capture; panics in CI, where nothing may be skipped.
pub fn skipped(why: &str) {
    let test = std::thread::current().name().unwrap_or("a test").to_owned();
    if std::env::var_os("CI").is_some_and(|v| v == "true" || v == "1") {
        panic!("{test} may not be skipped in CI: {why}");
    }
    let _ = writeln!(std::io::stderr(), "skipped {test}: {why}");
}

/// Leaves the test with a line that says why.
macro_rules! skip {
    ($($why:tt)+) => {{
        $crate::world::need::skipped(&format!($($why)+));
        return;
    }};
}

/// The value, or leave the test with a line that says what is missing.
macro_rules! need {
    ($wanted:expr) => {
        match $wanted {
            Ok(value) => value,
            Err($crate::world::need::Missing(why)) => skip!("{why}"),
        }
    };
}

/// The full path of a program, looked for in the test's PATH and where system daemons live.
pub fn tool(name: &str, package: &str) -> Needed<std::path::PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(["/usr/sbin", "/sbin", "/usr/bin", "/bin"].map(Into::into))
        .map(|dir| dir.join(name))
        .find(|file| file.is_file())
        .ok_or_else(|| Missing(format!("{name} is not installed (package {package})")))
}
