//! From a trace's rows to a lake's: one row a span, absolute times.
//!
//! A trace has two rows for the few spans that cross from one batch to another; here they become one. Everything
//! else passes by columns: no row is looked at by itself.

use crate::Result;
use arrow_array::{
    Array, ArrayRef, Int64Array, RecordBatch, UInt32Array, UInt64Array,
    cast::AsArray,
    types::{Int8Type, Int64Type, UInt32Type, UInt64Type},
};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use arrow_select::{concat::concat_batches, filter::filter_record_batch, take::take_record_batch};
use std::{collections::HashMap, sync::Arc};

/// The trace's time column, and what it becomes.
const TIME: &str = "ts_ns";
const START: &str = "start_ns";
/// Says how to print JSON lines again: a lake does not.
const LEFT_OUT: &str = "lines_inside";
/// What only the row of a span's end has.
const OF_THE_END: [&str; 4] = ["duration_ns", "status", "result", "outputs"];

/// Makes lake rows of a trace's batches, in their order.
pub struct Rows {
    schema: SchemaRef,
    /// Added to times: when the trace began, in nanoseconds since 1970.
    base: i64,
    columns: Columns,
    /// Rows of spans that have begun and not ended yet, by their numbers.
    open: HashMap<u64, RecordBatch>,
}

/// Where a trace's columns are.
struct Columns {
    time: usize,
    phase: usize,
    op: usize,
    pid: usize,
    tid: usize,
    kept: Vec<usize>,
    of_the_end: Vec<usize>,
}

impl Columns {
    fn of(schema: &Schema) -> Result<Self> {
        let mut of_the_end = Vec::new();
        for name in OF_THE_END {
            of_the_end.push(schema.index_of(name)?);
        }
        let kept = (0..schema.fields().len()).filter(|&at| schema.field(at).name() != LEFT_OUT);
        Ok(Columns {
            time: schema.index_of(TIME)?,
            phase: schema.index_of("phase")?,
            op: schema.index_of("op_id")?,
            pid: schema.index_of("pid")?,
            tid: schema.index_of("tid")?,
            kept: kept.collect(),
            of_the_end,
        })
    }
}

impl Rows {
    /// For a trace with these columns that began at `base`, in nanoseconds since 1970.
    pub fn new(trace: &Schema, base: i64) -> Result<Self> {
        let columns = Columns::of(trace)?;
        let fields = columns.kept.iter().map(|&at| match at == columns.time {
            true => Field::new(START, DataType::Int64, false),
            false => trace.field(at).clone(),
        });
        Ok(Rows {
            schema: Arc::new(Schema::new(fields.collect::<Vec<_>>())),
            base,
            columns,
            open: HashMap::new(),
        })
    }

    pub fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    /// The lake's rows of a batch, sorted by process, thread and start.
    pub fn take(&mut self, batch: &RecordBatch) -> Result<RecordBatch> {
        let joined = self.join(batch)?;
        let whole = match joined {
            Some(joined) => joined,
            None => batch.clone(),
        };
        self.finish_rows(&whole)
    }

    /// Spans that never ended, as they are: without a duration.
    pub fn rest(&mut self) -> Result<Option<RecordBatch>> {
        let open: Vec<RecordBatch> = self.open.drain().map(|(_, row)| row).collect();
        let Some(first) = open.first() else {
            return Ok(None);
        };
        let rows = concat_batches(&first.schema(), &open)?;
        self.finish_rows(&rows).map(Some)
    }

    /// Takes beginnings out, and gives ends what their beginnings said. None: there are none here.
    fn join(&mut self, batch: &RecordBatch) -> Result<Option<RecordBatch>> {
        let phases = batch.column(self.columns.phase).as_dictionary::<Int8Type>();
        let words = phases.values().as_string::<i32>();
        let key_of = |word: &str| {
            (0..words.len()).find(|&key| words.is_valid(key) && words.value(key) == word)
        };
        let (begins, ends) = (key_of("B"), key_of("E"));
        if begins.is_none() && ends.is_none() {
            return Ok(None);
        }
        let keys = phases.keys();
        let of = |row: usize, wanted: Option<usize>| {
            keys.is_valid(row)
                && wanted.is_some_and(|wanted| usize::try_from(keys.value(row)) == Ok(wanted))
        };
        let ids = batch.column(self.columns.op).as_primitive::<UInt64Type>();
        let mut pieces = Vec::new();
        let mut kept = vec![true; batch.num_rows()];
        for (row, kept) in kept.iter_mut().enumerate() {
            if of(row, begins) {
                *kept = false;
                self.open.insert(ids.value(row), batch.slice(row, 1));
            } else if of(row, ends)
                && let Some(begun) = self.open.remove(&ids.value(row))
            {
                *kept = false;
                pieces.push(self.whole(&begun, &batch.slice(row, 1))?);
            }
        }
        if kept.iter().all(|kept| *kept) {
            return Ok(None);
        }
        pieces.insert(0, filter_record_batch(batch, &kept.into())?);
        Ok(Some(concat_batches(&batch.schema(), &pieces)?))
    }

    /// A span of its two rows.
    fn whole(&self, begun: &RecordBatch, ended: &RecordBatch) -> Result<RecordBatch> {
        let columns = (begun.columns().iter().zip(ended.columns()).enumerate())
            .map(|(at, (begun, ended))| {
                let from_end = self.columns.of_the_end.contains(&at)
                    || (begun.is_null(0) && at != self.columns.phase);
                if from_end {
                    ended.clone()
                } else {
                    begun.clone()
                }
            })
            .collect();
        Ok(RecordBatch::try_new(begun.schema(), columns)?)
    }

    /// Absolute times, the lake's columns, in order.
    fn finish_rows(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        let columns = &self.columns;
        let times = batch.column(columns.time).as_primitive::<Int64Type>();
        let phases = batch.column(columns.phase).as_dictionary::<Int8Type>();
        let words = phases.values().as_string::<i32>();
        let durations = batch
            .column(columns.of_the_end[0])
            .as_primitive::<UInt64Type>();
        // An end whose beginning was never seen is placed by its duration.
        let start = |row: usize| {
            let is_end = phases.key(row).is_some_and(|key| words.value(key) == "E");
            let length = match is_end && durations.is_valid(row) {
                true => durations.value(row).cast_signed(),
                false => 0,
            };
            self.base
                .saturating_add(times.value(row))
                .saturating_sub(length)
        };
        let starts = Int64Array::from_iter_values((0..batch.num_rows()).map(start));
        let order = order(
            batch.column(columns.pid).as_primitive::<UInt32Type>(),
            batch.column(columns.tid).as_primitive::<UInt32Type>(),
            &starts,
        );
        let starts: ArrayRef = Arc::new(starts);
        let kept = columns.kept.iter().map(|&at| match at == columns.time {
            true => starts.clone(),
            false => batch.column(at).clone(),
        });
        let rows = RecordBatch::try_new(self.schema.clone(), kept.collect())?;
        Ok(match order {
            Some(order) => take_record_batch(&rows, &order)?,
            None => rows,
        })
    }
}

/// The order by process, thread and start; None if the rows are in it.
fn order(pids: &UInt32Array, tids: &UInt32Array, starts: &Int64Array) -> Option<UInt64Array> {
    let key = |row: u64| {
        let row = row as usize;
        let number = |array: &UInt32Array| {
            if array.is_valid(row) {
                array.value(row)
            } else {
                0
            }
        };
        (number(pids), number(tids), starts.value(row))
    };
    let rows = starts.len() as u64;
    if (1..rows).all(|row| key(row - 1) <= key(row)) {
        return None;
    }
    let mut order: Vec<u64> = (0..rows).collect();
    order.sort_by_cached_key(|row| key(*row));
    Some(order.into())
}
