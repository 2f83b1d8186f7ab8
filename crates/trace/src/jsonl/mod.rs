//! Traces as JSON lines, made for jq.

mod chunks;
mod decode;
mod key;
mod line;
mod read;
mod write;

pub use decode::OneByOne;
pub use read::open;
pub use write::{JsonlWriter, encode, tail};

/// The longest line that is written or read. What is longer is damage.
pub const LONGEST_LINE: usize = 16 << 20;
