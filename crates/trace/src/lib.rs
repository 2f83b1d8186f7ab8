//! Traces on disk: reading, writing, converting and merging them.
//!
//! A trace is a head ([`event::Meta`]), a stream of [`event::Record`]s in time order, and a tail
//! ([`event::Summary`]). Two formats hold the same: JSON lines (`.jsonl`) and Arrow IPC streams
//! (`.arrows`); docs/TRACE-FORMAT.md describes both.
#![forbid(unsafe_code)]

mod arrow;
mod batch;
mod convert;
mod error;
mod fields;
pub mod index;
mod join;
mod json;
mod jsonl;
mod merge;
mod names;
mod open_spans;
mod order;
mod parquet;
mod parts;
mod pipeline;
pub mod ranks;
mod shape;
mod sink;
mod source;
mod table;
mod tail;
mod time;

pub use arrow::found;
pub use arrow::{Lines, SpanBatch, SpanEvent, SpanLine, Spans, SpansRead, Tables};
pub use convert::{ConvertReport, convert, convert_to, convert_with, print_lines, print_recording};
pub use error::{Error, FilePosition, Result, Warning, Warnings};
pub use json::stack_of as parse_stack;
pub use merge::Merge;
pub use order::put_in_order;
pub use parquet::{ParquetRows, is_recording};
pub use parts::Parts;
pub use sink::{Format, Writer, create};
pub use source::{Reader, open, open_with};
pub use table::{Groups, SortedGroups, head as parquet_head, tail as parquet_tail};
pub use tail::{append_tail, cut_to_whole, summary, tail_size};
