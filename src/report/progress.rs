//! How far a long look is: a line on stderr, on a terminal alone, and only once a second has passed.

use std::io::IsTerminal;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// What takes less is over before it is read.
const PATIENCE: Duration = Duration::from_secs(1);

/// How far a long look is. Goes away without a trace when it is dropped.
pub struct Progress {
    label: String,
    total: Option<u64>,
    since: Instant,
    shown: bool,
    bar: OnceLock<ProgressBar>,
}

impl Progress {
    /// One that counts to `total`, if that is known. `quiet` never shows it.
    pub fn new(label: impl Into<String>, total: Option<u64>, quiet: bool) -> Progress {
        let shown = !quiet && std::io::stderr().is_terminal();
        Progress { label: label.into(), total, since: Instant::now(), shown, bar: OnceLock::new() }
    }

    /// One that is never shown.
    pub fn hidden() -> Progress {
        Progress::new("", None, true)
    }

    /// So much of the total is done. Cheap: may be called for every row.
    pub fn reached(&self, position: u64) {
        if !self.shown || self.bar.get().is_none() && self.since.elapsed() < PATIENCE {
            return;
        }
        self.bar.get_or_init(|| self.line()).set_position(position);
    }

    /// What is being done now.
    pub fn doing(&self, what: &str) {
        if !self.shown || self.bar.get().is_none() && self.since.elapsed() < PATIENCE {
            return;
        }
        self.bar.get_or_init(|| self.line()).set_message(crate::redact::terminal::clean(what));
    }

    fn line(&self) -> ProgressBar {
        let bar = ProgressBar::with_draw_target(self.total, ProgressDrawTarget::stderr());
        let template = if self.total.is_some() { "{prefix} {wide_bar} {percent} % {msg}" } else { "{spinner} {prefix} {pos} {msg}" };
        bar.set_style(ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar()));
        bar.set_prefix(self.label.clone());
        bar
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = self.bar.get() {
            bar.finish_and_clear();
        }
    }
}
