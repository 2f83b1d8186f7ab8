//! Pure functions over events: nothing here reads, writes or prints.
#![forbid(unsafe_code)]

mod counts;

pub use counts::{Counts, counts};
