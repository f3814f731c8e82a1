//! Integration tests: one crate, one link.

#[macro_use]
mod world;

mod capture;
mod cli;
mod golden;
mod run;
mod story;
