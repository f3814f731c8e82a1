//! Integration tests: one crate, one link.

mod cli;
mod run;
