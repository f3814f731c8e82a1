//! The world a test runs in: real logins over a private sshd, a real screen, real daemons, as ordinary accounts.
//!
//! Nothing in here shares code with `src/`: what a test expects must come from outside of what it tests.
//!
//! ```text
//! world.rs       World and Story: everything below, wired together, one test at a time on a machine
//! sshd.rs        a private sshd and the people who log in to it
//! display.rs     Xvfb: the screen on the user's desk          wayland.rs   weston, headless
//! parts.rs       D-Bus, ssh-agent and tmux servers
//! daemons.rs     OpenCode v1 and 2.0 preview, ZeroClaw and zerocode; each with a tool child
//! stub_model.rs  the model that those daemons talk to, on loopback
//! accounts.rs    the two ordinary accounts                    peers.rs     where the real programs come from
//! guard.rs       processes that end when their owner ends     look.rs      what /proc says, read a second way
//! need.rs        "cannot run here": a line and a return on a desk, a failure in CI
//! ```
//!
//! A test begins with `let world = need!(World::new());` and needs no clean-up: every part ends, and is waited
//! for, when its value is dropped, also when the test panics. What a killed test run leaves behind is ended by
//! the next `World::new()`.
#![allow(dead_code)]

#[macro_use]
pub mod need;
pub mod accounts;
pub mod daemons;
pub mod display;
pub mod guard;
pub mod http;
pub mod look;
pub mod parts;
pub mod peers;
pub mod sshd;
pub mod stub_model;
pub mod wayland;
#[allow(clippy::module_inception)]
pub mod world;

mod selftest;

#[allow(unused_imports)]
pub use need::{Missing, Needed};
pub use world::{Story, World};
