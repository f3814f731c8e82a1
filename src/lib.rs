//! The map of the house. Arrows point down only.
//!
//! | room | matter |
//! |---|---|
//! | `main.rs` | parse, dispatch, exit code |
//! | [`cli`] | one file a command: its arguments, and collect → report → print |
//! | [`diagnose`] | facts joined into verdicts |
//! | [`probe`] | experiments: claim, inject, run, read back, control, clean up |
//! | [`agent`] | what each host is and does with environments |
//! | [`env`](mod@env) | what variables mean |
//! | [`origin`] | whose it is: display, wayland, ssh, agent socket, tmux, bus, login, unit, container |
//! | [`store`] | the hosts' SQLite stores, read without a trace |
//! | [`binary`] | what a program file really contains |
//! | [`report`] | the envelope and its faces |
//! | [`verdict`] | outcomes, findings, evidence, liveness, and the registry of finding ids |
//! | [`redact`] | what may be shown, and how |
//! | [`host`] | facts and nothing else: live or snapshot |
#[cfg(not(target_os = "linux"))]
compile_error!("whoseenv reads the /proc of Linux: there is nothing it could tell on another system");

pub mod agent;
pub mod binary;
pub mod cli;
pub mod diagnose;
pub mod env;
pub mod host;
pub mod origin;
pub mod probe;
pub mod redact;
pub mod report;
pub mod store;
pub mod verdict;
