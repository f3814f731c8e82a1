//! What a program file really contains: its own bytes decide, and nothing is run.
//!
//! | file | matter |
//! |---|---|
//! | `read` | parts of a file, with `pread` |
//! | `elf`, `bun` | ELF headers and sections; the payload of a Bun program |
//! | `product` | which product it is, and the version that it carries |
//! | `scan` | fixed strings, counted as grep counts them, and SHA-256 |

pub mod bun;
pub mod elf;
pub mod product;
pub mod read;
pub mod scan;
