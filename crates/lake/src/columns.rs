//! Which columns of a trace a lake has, and what they are called there.

use crate::Result;
use arrow_schema::{DataType, Field, Schema};

/// The time of a row: since the trace's start there, since 1970 here.
const TRACE_TIME: &str = "ts_ns";
pub const TIME: &str = "start_ns";
/// Says how to print JSON lines again: a lake does not.
const LEFT_OUT: &str = "lines_inside";
/// Stacks are a table of their own.
const STACK: &str = "stack";
pub const STACK_ID: &str = "stack_id";
pub const RECORDING: &str = "recording";
/// What only the row of a span's end has.
const OF_THE_END: [&str; 4] = ["duration_ns", "status", "result", "outputs"];
/// The order of rows in a file.
pub const SORTED_BY: [&str; 3] = ["pid", "tid", TIME];

/// Where a trace's columns are.
pub struct Columns {
    pub time: usize,
    pub phase: usize,
    pub op: usize,
    pub stack: usize,
    /// Those that a lake has, in its order.
    pub kept: Vec<usize>,
    pub of_the_end: Vec<usize>,
}

impl Columns {
    pub fn of(trace: &Schema) -> Result<Self> {
        let mut of_the_end = Vec::new();
        for name in OF_THE_END {
            of_the_end.push(trace.index_of(name)?);
        }
        let kept = (0..trace.fields().len()).filter(|&at| trace.field(at).name() != LEFT_OUT);
        Ok(Columns {
            time: trace.index_of(TRACE_TIME)?,
            phase: trace.index_of("phase")?,
            op: trace.index_of("op_id")?,
            stack: trace.index_of(STACK)?,
            kept: kept.collect(),
            of_the_end,
        })
    }

    /// The lake's columns; the recording is the last.
    pub fn fields(&self, trace: &Schema) -> Vec<Field> {
        let kept = self.kept.iter().map(|&at| match trace.field(at).name() {
            name if name == TRACE_TIME => Field::new(TIME, DataType::Int64, false),
            name if name == STACK => Field::new(STACK_ID, DataType::UInt32, true),
            _ => trace.field(at).clone(),
        });
        let text = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
        kept.chain([Field::new(RECORDING, text, true)]).collect()
    }
}

/// Where the columns are by which rows are sorted.
pub fn sorted_by(schema: &Schema) -> Result<[usize; 3]> {
    let [pid, tid, start] = SORTED_BY;
    Ok([
        schema.index_of(pid)?,
        schema.index_of(tid)?,
        schema.index_of(start)?,
    ])
}
