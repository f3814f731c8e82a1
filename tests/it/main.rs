//! Integration tests: one crate, one link.

#[macro_use]
mod world;

mod cli;
mod run;
mod story;
