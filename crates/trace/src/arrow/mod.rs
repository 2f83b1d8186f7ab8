//! Traces as an Arrow IPC stream: one row for each line that JSONL would have.
//!
//! Writing goes through the `arrow` crates. Reading uses their flatbuffers for the messages'
//! headers and decodes the flat columns itself: a damaged file must end in a warning, and arrow-ipc 60 aborts
//! the process where a column claims to unpack to 1 TiB. It is as fast (`benches/libraries.rs`, docs/BENCHMARKS.md).

mod batch;
mod cells;
mod columns;
mod decode;
mod message;
mod plan;
mod read;
mod row;
mod rows;
mod units;
mod write;

pub use message::{Messages, Next};
pub use read::open;
pub use rows::Rows;
pub use write::{ArrowWriter, tail};

/// The key of the trace's head in the schema's metadata.
const META_KEY: &str = "cutrace";
