//! From a trace's rows to a lake's: one row a span, absolute times.
//!
//! A trace has two rows for the few spans that cross from one batch to another; here they become one. Everything
//! else passes by columns.

use crate::{
    Result,
    columns::{Columns, RECORDING, STACK_ID, TIME},
    gather::{Piece, Segment, column, gather},
    stacks::Stacks,
};
use arrow_array::{
    Array, ArrayRef, DictionaryArray, Int8Array, Int32Array, Int64Array, RecordBatch, StringArray,
    cast::AsArray,
    types::{Int8Type, Int64Type, UInt64Type},
};
use arrow_schema::{Schema, SchemaRef};
use std::{collections::HashMap, sync::Arc};

/// Makes lake rows of a trace's batches, in their order.
pub struct Rows {
    /// The trace's columns.
    trace: SchemaRef,
    schema: SchemaRef,
    /// Added to times: when the trace began, in nanoseconds since 1970.
    base: i64,
    columns: Columns,
    recording: Arc<StringArray>,
    phases: Arc<StringArray>,
    pub stacks: Stacks,
    /// Spans that have begun and not ended yet, by their numbers.
    open: HashMap<u64, Begun, ahash::RandomState>,
}

/// Where the row of a span's beginning is.
enum Begun {
    /// In the batch at hand.
    Here(u32),
    /// In a batch of such rows.
    Before(Arc<RecordBatch>, u32),
}

/// A beginning and its end.
struct Pair {
    begun: (Arc<RecordBatch>, u32),
    ended: (Arc<RecordBatch>, u32),
}

impl Rows {
    /// For a trace with these columns that began at `base`, in nanoseconds since 1970.
    pub fn new(trace: &SchemaRef, base: i64, recording: &str) -> Result<Self> {
        let columns = Columns::of(trace)?;
        Ok(Rows {
            schema: Arc::new(Schema::new(columns.fields(trace))),
            trace: trace.clone(),
            base,
            columns,
            recording: Arc::new(StringArray::from_iter_values([recording])),
            phases: Arc::new(StringArray::from_iter_values(["B", "E", "X"])),
            stacks: Stacks::default(),
            open: HashMap::default(),
        })
    }

    pub fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    /// The lake's rows of a batch, in the order of the trace but for spans that began in an earlier one.
    pub fn take(&mut self, batch: RecordBatch) -> Result<Vec<Segment>> {
        let batch = Arc::new(batch);
        let Some((alone, pairs, twice)) = self.join(&batch)? else {
            let all = (0..batch.num_rows() as u32).collect();
            return Ok(vec![self.finish(&batch, all)?]);
        };
        let mut segments = vec![self.finish(&batch, alone)?];
        if !pairs.is_empty() {
            let whole = Arc::new(self.whole(&pairs)?);
            let all = (0..whole.num_rows() as u32).collect();
            segments.push(self.finish(&whole, all)?);
        }
        for (rows, row) in twice {
            segments.push(self.finish(&rows, vec![row])?);
        }
        Ok(segments)
    }

    /// Spans that never ended, as they are: without a duration.
    pub fn rest(&mut self) -> Result<Vec<Segment>> {
        let mut open: Vec<(u64, Begun)> = self.open.drain().collect();
        open.sort_by_key(|(op, _)| *op);
        let rows = open.into_iter().filter_map(|(_, begun)| match begun {
            Begun::Before(rows, row) => Some((rows, row)),
            Begun::Here(_) => None,
        });
        let rows: Vec<_> = rows.collect();
        rows.iter()
            .map(|(rows, row)| self.finish(rows, vec![*row]))
            .collect()
    }

    /// Takes beginnings out, and finds the ends that belong to earlier ones: the rows that are left as they are, the
    /// pairs, and beginnings that another one with the same number follows. None: there are none here.
    #[allow(clippy::type_complexity)]
    fn join(
        &mut self,
        batch: &Arc<RecordBatch>,
    ) -> Result<Option<(Vec<u32>, Vec<Pair>, Vec<(Arc<RecordBatch>, u32)>)>> {
        let phases = batch.column(self.columns.phase).as_dictionary::<Int8Type>();
        let words = phases.values().as_string::<i32>();
        let key_of = |word: &str| {
            let found =
                (0..words.len()).find(|&key| words.is_valid(key) && words.value(key) == word);
            found.map_or(-1, |key| key as i8)
        };
        let (begin, end) = (key_of("B"), key_of("E"));
        let keys = phases.keys();
        let values = keys.values();
        if !(values.iter()).any(|&key| key == begin || key == end) {
            return Ok(None);
        }
        let ids = batch.column(self.columns.op).as_primitive::<UInt64Type>();
        let (mut alone, mut pairs, mut twice) = (Vec::new(), Vec::new(), Vec::new());
        let mut begun_here = Vec::new();
        for (row, &key) in values.iter().enumerate() {
            let row = row as u32;
            let is = |wanted: i8| key == wanted && wanted >= 0 && keys.is_valid(row as usize);
            let op = || ids.value(row as usize);
            if is(begin) {
                begun_here.push(op());
                if let Some(old) = self.open.insert(op(), Begun::Here(row)) {
                    twice.push(place(old, batch));
                }
            } else if is(end)
                && let Some(begun) = self.open.remove(&op())
            {
                pairs.push(Pair {
                    begun: place(begun, batch),
                    ended: (batch.clone(), row),
                });
            } else {
                alone.push(row);
            }
        }
        self.keep(batch, &begun_here)?;
        Ok(Some((alone, pairs, twice)))
    }

    /// Copies the rows of spans that are still open: the batch is large, and they are few.
    fn keep(&mut self, batch: &Arc<RecordBatch>, begun: &[u64]) -> Result<()> {
        let mut rows: Vec<(u64, u32)> = (begun.iter())
            .filter_map(|op| match self.open.get(op) {
                Some(Begun::Here(row)) => Some((*op, *row)),
                _ => None,
            })
            .collect();
        rows.sort_unstable();
        rows.dedup();
        if rows.is_empty() {
            return Ok(());
        }
        let segment = Segment {
            batch: batch.clone(),
            rows: rows.iter().map(|(_, row)| *row).collect(),
        };
        let kept = Arc::new(gather(&self.trace, &[segment])?);
        for (at, (op, _)) in (0..).zip(rows) {
            self.open.insert(op, Begun::Before(kept.clone(), at));
        }
        Ok(())
    }

    /// Spans of their two rows.
    fn whole(&self, pairs: &[Pair]) -> Result<RecordBatch> {
        let columns = (self.trace.fields().iter().enumerate()).map(|(at, field)| {
            if at == self.columns.phase {
                return self.phase(pairs.len());
            }
            let of_the_end = self.columns.of_the_end.contains(&at);
            let places: Vec<(&ArrayRef, u32)> = (pairs.iter())
                .map(|pair| {
                    let begun = (pair.begun.0.column(at), pair.begun.1);
                    let ended = (pair.ended.0.column(at), pair.ended.1);
                    match of_the_end || begun.0.is_null(begun.1 as usize) {
                        true => ended,
                        false => begun,
                    }
                })
                .collect();
            let pieces = places.iter().map(|(array, row)| Piece {
                array,
                rows: std::slice::from_ref(row),
            });
            column(field.data_type(), &pieces.collect::<Vec<_>>())
        });
        Ok(RecordBatch::try_new(
            self.trace.clone(),
            columns.collect::<Result<Vec<_>>>()?,
        )?)
    }

    /// Whole spans.
    fn phase(&self, rows: usize) -> Result<ArrayRef> {
        let keys = Int8Array::from(vec![2; rows]);
        let phases = DictionaryArray::try_new(keys, self.phases.clone())?;
        Ok(Arc::new(phases))
    }

    /// Absolute times, the lake's columns.
    fn finish(&mut self, batch: &Arc<RecordBatch>, rows: Vec<u32>) -> Result<Segment> {
        let columns = &self.columns;
        let starts = self.starts(batch);
        let stacks = self.stacks.ids(batch.column(columns.stack))?;
        let kept = (self.schema.fields().iter())
            .zip(&columns.kept)
            .map(|(field, &at)| match field.name().as_str() {
                TIME => starts.clone(),
                STACK_ID => stacks.clone(),
                _ => batch.column(at).clone(),
            });
        let mut kept: Vec<ArrayRef> = kept.collect();
        debug_assert_eq!(
            self.schema
                .fields()
                .last()
                .map(|field| field.name().as_str()),
            Some(RECORDING)
        );
        let keys = Int32Array::from(vec![0; batch.num_rows()]);
        kept.push(Arc::new(DictionaryArray::try_new(
            keys,
            self.recording.clone(),
        )?));
        Ok(Segment {
            batch: Arc::new(RecordBatch::try_new(self.schema.clone(), kept)?),
            rows,
        })
    }

    fn starts(&self, batch: &RecordBatch) -> ArrayRef {
        let columns = &self.columns;
        let times = batch.column(columns.time).as_primitive::<Int64Type>();
        let mut starts: Vec<i64> = (times.values().iter())
            .map(|time| self.base.saturating_add(*time))
            .collect();
        // An end whose beginning was never seen is placed by its duration.
        let phases = batch.column(columns.phase).as_dictionary::<Int8Type>();
        let words = phases.values().as_string::<i32>();
        let end = (0..words.len()).find(|&key| words.is_valid(key) && words.value(key) == "E");
        if let Some(end) = end.map(|key| key as i8)
            && phases.keys().values().contains(&end)
        {
            let durations = (batch.column(columns.of_the_end[0])).as_primitive::<UInt64Type>();
            for (row, start) in starts.iter_mut().enumerate() {
                if phases.is_valid(row)
                    && phases.keys().value(row) == end
                    && durations.is_valid(row)
                {
                    *start = start.saturating_sub_unsigned(durations.value(row));
                }
            }
        }
        Arc::new(Int64Array::from(starts))
    }
}

fn place(begun: Begun, batch: &Arc<RecordBatch>) -> (Arc<RecordBatch>, u32) {
    match begun {
        Begun::Here(row) => (batch.clone(), row),
        Begun::Before(rows, row) => (rows, row),
    }
}
