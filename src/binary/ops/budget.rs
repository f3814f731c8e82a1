//! How much may be read to understand one bundle: a text made to be slow must not be.

use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes looked at one by one. Enough for next-16350 and 1.18.34, whose operations are all found.
const WHOLE: u64 = 256 << 20;

/// What is left of it.
#[derive(Debug)]
pub(super) struct Budget(AtomicU64);

impl Budget {
    pub(super) fn new() -> Budget {
        Budget(AtomicU64::new(WHOLE))
    }

    /// Takes so many bytes from it; whether they were there.
    pub(super) fn spend(&self, bytes: usize) -> bool {
        let take = |left: u64| Some(left.saturating_sub(bytes as u64));
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok_and(|left| left > bytes as u64)
    }

    /// Nothing is left: what was not understood by then stays so.
    pub(super) fn is_spent(&self) -> bool {
        self.0.load(Ordering::Relaxed) == 0
    }
}
