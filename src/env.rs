//! What variables mean: the catalogue, two environments compared, and how an environment is named.

pub mod catalog;
pub mod class;
pub mod diff;
pub mod path_list;
pub mod reference;

pub use catalog::{Catalog, Variable, all, lookup, redactor};
pub use class::Class;
pub use diff::{Difference, diff};
pub use reference::Reference;
