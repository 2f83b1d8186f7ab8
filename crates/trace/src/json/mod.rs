//! The JSON of trace lines, written and read by hand: generic JSON values cost more than the
//! tracing itself. The mapping from values to JSON is documented in docs/TRACE-FORMAT.md.

pub mod number;
pub mod parse;
pub mod value;
pub mod write;

/// How deep arguments may be nested, in both directions.
pub const MOST_NESTING: usize = 32;
