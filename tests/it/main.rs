//! Integration tests: one crate, one link.

#[macro_use]
mod world;

mod capture;
mod cases;
mod cli;
mod golden;
mod made_up;
mod reports;
mod run;
mod story;
