//! Ctrl-C as a flag, for a command that made something which must be removed before the program ends.
//!
//! A command that made nothing does not call [`watch`]: the signal ends it at once, as it does any program.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

static CAME: OnceLock<Arc<AtomicUsize>> = OnceLock::new();

/// From now on SIGINT, SIGTERM and SIGHUP are noted and do not end the program; a second one of a kind does.
///
/// # Errors
/// When the system refuses a handler.
pub fn watch() -> std::io::Result<()> {
    if CAME.get().is_some() {
        return Ok(());
    }
    let came = CAME.get_or_init(Arc::default);
    for (number, signal) in [(SIGINT as usize, SIGINT), (SIGTERM as usize, SIGTERM), (SIGHUP as usize, SIGHUP)] {
        // In this order: the first signal finds the flag down and raises it, the second finds it up.
        let once = Arc::new(AtomicBool::new(false));
        signal_hook::flag::register_conditional_default(signal, Arc::clone(&once))?;
        signal_hook::flag::register(signal, once)?;
        signal_hook::flag::register_usize(signal, Arc::clone(came), number)?;
    }
    Ok(())
}

thread_local! {
    /// Set while what was made is removed.
    static IGNORED: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

/// Does something to its end although a signal came: removes what was made. On this thread [`came`] says no meanwhile.
pub fn ignoring<T>(what: impl FnOnce() -> T) -> T {
    let before = IGNORED.replace(true);
    let done = what();
    IGNORED.set(before);
    done
}

/// The signal that came since [`watch`], if one did.
pub fn came() -> Option<i32> {
    if IGNORED.get() {
        return None;
    }
    let signal = CAME.get()?.load(Ordering::Relaxed);
    (signal != 0).then(|| i32::try_from(signal).ok()).flatten()
}

/// Ends the program by the signal that came, so that a shell sees what it was; returns if none came.
pub fn end() {
    if let Some(signal) = came() {
        let _ = signal_hook::low_level::emulate_default_handler(signal);
    }
}
