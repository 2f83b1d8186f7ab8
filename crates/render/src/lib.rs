//! What people see: text made from what `analyse` found, one output to a file.
#![forbid(unsafe_code)]

mod output;
mod summary;

pub use output::Output;
pub use summary::{RunSummary, summary_text};
