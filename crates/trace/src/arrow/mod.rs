//! Traces as an Arrow IPC stream: a row for each line that JSONL would have, but one for both lines of a span
//! that began and ended within a batch.
//!
//! Writing goes through the `arrow` crates. Reading uses their flatbuffers for the messages'
//! headers and decodes the flat columns itself: a damaged file must end in a warning, and arrow-ipc 60 aborts
//! the process where a column claims to unpack to 1 TiB. It is as fast (`benches/libraries.rs`, docs/BENCHMARKS.md).

pub(crate) mod batch;
mod cells;
pub(crate) mod columns;
pub(crate) mod decode;
mod dictionary;
mod kept;
mod lines;
mod message;
mod output;
mod plan;
mod read;
pub(crate) mod row;
mod rows;
mod spans;
mod tables;
mod units;
mod write;

pub use kept::{found, summary};
pub use message::{Messages, Next};
pub use read::open;
pub use rows::Rows;
pub use spans::{Lines, SpanBatch, SpanEvent, SpanLine, Spans, SpansRead};
pub use tables::Tables;
pub use write::{ArrowWriter, tail};

/// The key of the trace's head in the schema's metadata.
const META_KEY: &str = "cutrace";
/// The version of the rows: 2 has whole spans in one row, and outputs beside arguments. Version 1 had the
/// lines of JSONL.
pub const VERSION: u32 = 2;
