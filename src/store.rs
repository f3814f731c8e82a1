//! The hosts' SQLite stores, read without a trace.
//!
//! | file | matter |
//! |---|---|
//! | `beside` | what lies at a path and beside it, from `stat` and the first bytes, before SQLite sees it |
//! | `open` | the way of reading that follows from it |
//! | `lock` | who is writing into it, asked without a lock |
//! | `wal` | frames of a WAL that SQLite cannot use |
//! | `copy` | private copies: made, judged, removed, swept |
//! | `armour` | what a connection may do at all |
//! | `refusal` | why there is no answer |
//! | `generation`, `schema`, `migrations` | which host wrote it, what is in it, which changes were made to it |
//! | `sessions`, `inbox`, `kv`, `events` | one question each, as rows |
//! | `rows`, `text`, `shape` | rows from SQLite to JSON: blocks, bytes, the form of a value |
//! | `turns` | whether a session is in the middle of a turn |
//! | `audit` | what is wrong with a store, from the store alone |
//!
//! This room opens the files it is given, since SQLite does; that is why it has doors of its own beside `host`. It
//! writes nowhere but into its own private copies. What a busy timeout is, it never says: that is a connection's own, and ours
//! is not the host's.

pub mod armour;
pub mod audit;
pub mod beside;
pub mod copy;
pub mod events;
pub mod generation;
pub mod inbox;
pub mod kv;
pub mod lock;
pub mod migrations;
pub mod open;
pub mod refusal;
pub mod rows;
pub mod schema;
pub mod sessions;
pub mod shape;
pub mod text;
mod turns;
pub mod wal;

pub use beside::Beside;
pub use generation::{Generation, Tables};
pub use open::{Opened, ReadAs};
pub use refusal::Refusal;
