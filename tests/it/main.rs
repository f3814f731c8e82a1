//! Integration tests: one crate, one link.

#[macro_use]
mod world;

mod bad_input;
mod binary;
mod canary;
mod capture;
mod cases;
mod cli;
mod golden;
mod held;
mod made_up;
mod one_mind;
mod one_thing;
mod other_eyes;
mod pasted;
mod probe;
mod puppet;
mod reports;
mod run;
mod small_disk;
mod snapshots;
mod store;
mod story;
mod truths;
