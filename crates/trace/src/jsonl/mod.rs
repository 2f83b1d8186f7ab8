//! Traces as JSON lines, made for jq.

mod key;
mod line;
mod lines;
mod read;
mod write;

pub use read::JsonlReader;
pub use write::JsonlWriter;

/// The longest line that is written or read. What is longer is damage.
pub const LONGEST_LINE: usize = 16 << 20;
