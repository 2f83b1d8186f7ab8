//! What people see: text made from what `analyse` found, one output to a file.
#![forbid(unsafe_code)]

mod summary;

pub use summary::{RunSummary, summary_text};
