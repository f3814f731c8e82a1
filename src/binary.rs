//! What a program file really contains: its own bytes decide, and nothing is run.
//!
//! | file | matter |
//! |---|---|
//! | `read`, `regions` | parts of a file, with `pread`; the parts that are code |
//! | `elf`, `bun`, `payload` | headers and sections; the payload of a Bun program; what else a program may carry |
//! | `product` | which product it is, and the version that it carries |
//! | `pattern`, `scan` | fixed strings, counted as grep counts them, and SHA-256 |
//! | `fingerprints`, `identify` | the table of what strings prove, and the verdict by it |
//! | `lists` | lists of names that a compiled program carries |
//! | `ops` | the REST operations that a bundle registers, and an OpenAPI document against them |
//! | `delta` | what came and went between two programs |
//! | `migrations` | the changes of a database schema that it knows |
//!
//! To add a fingerprint: a row in `fingerprints.toml`, counted on the real programs.

pub mod bun;
pub mod delta;
pub mod elf;
pub mod fingerprints;
pub mod identify;
pub mod lists;
pub mod migrations;
pub mod ops;
pub mod pattern;
pub mod payload;
pub mod product;
pub mod read;
pub mod regions;
pub mod scan;
