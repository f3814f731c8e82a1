//! Ctrl-C as a flag, for a command that made something which must be removed before the program ends.
//!
//! While a [`Watch`] lives the first signal is noted, and what was made is removed. Further ones that come with it are the same wish:
//! `timeout` signals a program and then its group, a terminal that closes does so twice, and fingers slip. A person who insists
//! later than that gets out at once, and is told what stays. While no watch lives a signal ends the program, as it does any program.

use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::iterator::Signals;

use super::child;
use super::process::status_bits;

/// Signals within this time of the first are one with it.
const ONE: Duration = Duration::from_secs(2);

/// A stderr that takes nothing does not keep a person in longer than this.
const LAST_WORD: Duration = Duration::from_secs(1);

static CAME: AtomicI32 = AtomicI32::new(0);

static STATE: Mutex<State> = Mutex::new(State { listens: false, watches: 0, first: None, stays: Vec::new(), number: 0 });

static INSISTED: OnceLock<fn(&[String])> = OnceLock::new();

struct State {
    listens: bool,
    watches: usize,
    first: Option<Instant>,
    /// What stays if the program ends now, by number.
    stays: Vec<(u64, String)>,
    number: u64,
}

fn state() -> MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// As long as one lives a signal is noted, and does not end the program.
#[derive(Debug)]
#[must_use = "signals are noted as long as it lives"]
pub struct Watch(());

impl Drop for Watch {
    fn drop(&mut self) {
        state().watches -= 1;
    }
}

/// From now on SIGINT, SIGTERM, SIGHUP and SIGQUIT are noted, but for those that the program was started to ignore (`nohup`).
///
/// # Errors
/// When the system refuses a handler or a thread.
pub fn watch() -> std::io::Result<Watch> {
    let mut state = state();
    if !state.listens {
        let ignored = ignored();
        let heard = [SIGINT, SIGTERM, SIGHUP, SIGQUIT].into_iter().filter(|signal| ignored >> (signal - 1) & 1 == 0);
        let signals = Signals::new(heard)?;
        std::thread::Builder::new().name("signals".to_owned()).spawn(move || listen(signals))?;
        state.listens = true;
    }
    state.watches += 1;
    Ok(Watch(()))
}

/// The signals that are ignored, one a bit.
fn ignored() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    status_bits(&status, "SigIgn").unwrap_or(0)
}

fn listen(mut signals: Signals) {
    for signal in signals.forever() {
        // Held to the end: nothing is made between the look and the end.
        let mut state = state();
        match state.first {
            None if state.watches > 0 => {
                state.first = Some(Instant::now());
                CAME.store(signal, Ordering::Relaxed);
            }
            Some(first) if first.elapsed() < ONE => {}
            _ => {
                child::end_all();
                let stays: Vec<String> = state.stays.iter().map(|(_, what)| what.clone()).collect();
                if let Some(say) = INSISTED.get().filter(|_| !stays.is_empty()) {
                    let (said, heard) = std::sync::mpsc::channel();
                    let saying = move || {
                        say(&stays);
                        let _ = said.send(());
                    };
                    let _ = std::thread::Builder::new().spawn(saying);
                    let _ = heard.recv_timeout(LAST_WORD);
                }
                let _ = signal_hook::low_level::emulate_default_handler(signal);
            }
        }
    }
}

/// What is said, and by whom, when a person insists and something stays.
pub fn when_insisted(say: fn(&[String])) {
    let _ = INSISTED.set(say);
}

/// Something that was made, as long as it is there.
#[derive(Debug)]
#[must_use = "it counts as gone when the value is"]
pub struct Stays(u64);

impl Drop for Stays {
    fn drop(&mut self) {
        state().stays.retain(|(number, _)| *number != self.0);
    }
}

/// Something is made that stays, if the program ends before the value goes.
pub fn stays(what: impl Into<String>) -> Stays {
    let mut state = state();
    state.number += 1;
    let number = state.number;
    state.stays.push((number, what.into()));
    Stays(number)
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
    Some(CAME.load(Ordering::Relaxed)).filter(|signal| *signal != 0)
}

/// Ends the program by the signal that came, so that a shell sees what it was; returns if none came.
pub fn end() {
    if let Some(signal) = came() {
        let _ = signal_hook::low_level::emulate_default_handler(signal);
    }
}
