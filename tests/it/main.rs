//! Integration tests: one crate, one link.

#[macro_use]
mod world;

mod bad_input;
mod canary;
mod capture;
mod cli;
mod golden;
mod puppet;
mod run;
mod snapshots;
mod story;
