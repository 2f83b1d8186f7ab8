//! What people see: text made from what `analyse` found, one output to a file.
#![forbid(unsafe_code)]

mod html;
mod output;
mod style;
mod summary;
mod table;
pub mod tables;
pub mod units;

pub use html::Html;
pub use output::Output;
pub use style::{Paint, Style, columns, printable};
pub use summary::{RunSummary, summary_text};
pub use table::{Align, Cell, Table};
