//! What variables mean.

pub mod catalog;
pub mod class;

pub use catalog::{Catalog, Variable, all, lookup, redactor};
pub use class::Class;
