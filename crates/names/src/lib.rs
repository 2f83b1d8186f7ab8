//! Names of kernels and functions as people read them.
//!
//! [`demangled`] is the only place that demangles, within bounds: names come from traced programs
//! and may be made to cost much. [`short_name`] folds what a template library writes into a kernel's
//! name down to what tells it from others; [`distinct`] makes the names of one list differ at a
//! given width; [`nearest`] ranks names by how like a misspelt one they are. All are pure functions of the text.

mod demangle;
mod distinct;
mod near;
mod parse;
mod plain;
mod rules;
mod short;
mod xla;

pub use demangle::demangled;
pub use distinct::distinct;
pub use near::{Likeness, misspelt, nearest};
pub use short::{base_name, short_name};
pub use xla::xla_operator;
