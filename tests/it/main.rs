//! Integration tests: one crate, one link.

mod cli;
mod run;
mod story;
#[macro_use]
mod world;
