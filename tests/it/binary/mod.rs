//! Program files: the real ones, counted by grep and described by the hosts themselves, and made-up ones.

mod contracts;
mod counts;
mod doctor;
mod identity;
mod made;
mod sturdy;

use std::path::PathBuf;

use crate::world::need::Needed;
use crate::world::peers;

/// Every real program, by a short name.
pub fn real() -> Vec<(&'static str, Needed<PathBuf>)> {
    vec![
        ("1.18.34", peers::opencode_v1()),
        ("1.14.48", peers::opencode("1.14.48")),
        ("1.2.27", peers::opencode("1.2.27")),
        ("preview", peers::opencode_preview()),
        ("zeroclaw", peers::zeroclaw()),
    ]
}
