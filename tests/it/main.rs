//! Integration tests.

mod world;
