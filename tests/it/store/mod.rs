//! `whoseenv db`: stores of every generation and in every state, read without a trace.
//!
//! What a store must answer comes from the sqlite3 shell on a copy, from the hosts' own answers, or from what a test wrote into it.
//!
//! ```text
//! fixtures.rs   stores as the hosts make them, from their own columns       state.rs   what lies in a directory, byte by byte
//! traceless.rs  every state × every command: nothing changes                live.rs    beside a host that writes
//! answers.rs    the same answers as the sqlite3 shell                       hostile.rs databases that are out to harm
//! findings.rs   each finding, made to appear and to be absent              reports.rs field reports
//! real.rs       stores that the real programs made                          kept.rs    snapshots with stores
//! locks.rs      hosts that only their locks tell of, files that are none    migrated.rs 1.x and 2.x side by side
//! told.rs       exit codes, words, secrets in names, terminals              events.rs  events that are missing
//! mounted.rs    stores on file systems in user space                      turns.rs    turns that run, parents in a circle
//! ```

mod answers;
mod endless;
mod events;
mod findings;
mod fixtures;
mod hostile;
mod kept;
mod live;
mod locks;
mod migrated;
mod mounted;
mod real;
mod reports;
mod state;
mod told;
mod traceless;
mod turns;
mod unseen;
