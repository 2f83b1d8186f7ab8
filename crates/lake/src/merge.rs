//! Sorted Parquet files put together as one: rows stay sorted, memory is that of a batch of each file.

use crate::{
    Error, Result,
    columns::{RECORDING, sorted_by},
    files::FileWriter,
    gather::{Segment, gather},
    sorter::{Keys, Thread},
};
use arrow_array::{RecordBatch, cast::AsArray, types::Int32Type};
use arrow_schema::SchemaRef;
use std::{
    cmp::Reverse,
    collections::{BinaryHeap, HashSet},
    path::{Path, PathBuf},
    sync::Arc,
};
use trace::ParquetRows;

/// Rows of a file that are read at once.
const BATCH: usize = 8_192;

type RowKey = (Thread, i64);

/// One of the files.
struct Input {
    path: PathBuf,
    rows: ParquetRows,
    batch: Arc<RecordBatch>,
    /// Rows of the batch that are wanted, and which of them is next.
    wanted: Vec<u32>,
    next: usize,
}

/// The columns of a file.
pub fn schema_of(path: &Path) -> Result<SchemaRef> {
    let rows = ParquetRows::open(path, BATCH).map_err(Error::trace(path))?;
    Ok(rows.schema())
}

/// Writes the rows of these files, which are sorted, in one order. `without`: recordings to leave out.
pub fn merge(inputs: &[PathBuf], without: &HashSet<String>, out: &mut FileWriter) -> Result<()> {
    let columns = sorted_by(&out.schema)?;
    let group_rows = out.sizes.group_rows;
    let mut files = Vec::new();
    let mut heads: BinaryHeap<Reverse<(RowKey, usize)>> = BinaryHeap::new();
    for path in inputs {
        let mut input = Input::open(path, &out.schema)?;
        if let Some(key) = input.peek(columns, without)? {
            heads.push(Reverse((key, files.len())));
        }
        files.push(input);
    }
    let mut segments: Vec<Segment> = Vec::new();
    let (mut rows, mut first, mut group) = (0, None, 0);
    while let Some(Reverse((key, at))) = heads.pop() {
        let limit = heads.peek().map(|Reverse((key, _))| *key);
        first.get_or_insert(key.0);
        let input = &mut files[at];
        // All its rows up to the next file's first.
        let taken = input.take(columns, limit, group_rows - rows);
        rows += taken.rows.len();
        segments.push(taken);
        if let Some(key) = input.peek(columns, without)? {
            heads.push(Reverse((key, at)));
        }
        if rows >= group_rows {
            write(out, (first, group), &segments)?;
            segments.clear();
            (rows, first, group) = (0, None, group + 1);
            if out.is_large() {
                out.end_file(None)?;
            }
        }
    }
    if rows > 0 {
        write(out, (first, group), &segments)?;
    }
    out.end_file(None)
}

fn write(
    out: &mut FileWriter,
    (first, group): (Option<Thread>, u32),
    segments: &[Segment],
) -> Result<()> {
    let rows = gather(&out.schema, segments)?;
    out.write((first.unwrap_or_default(), group), rows)
}

impl Input {
    fn open(path: &Path, schema: &SchemaRef) -> Result<Self> {
        let rows = ParquetRows::open(path, BATCH).map_err(Error::trace(path))?;
        if rows.schema().fields() != schema.fields() {
            return Err(Error::Foreign(path.into(), "its columns are others".into()));
        }
        Ok(Input {
            path: path.into(),
            rows,
            batch: Arc::new(RecordBatch::new_empty(schema.clone())),
            wanted: Vec::new(),
            next: 0,
        })
    }

    /// The key of the next row that is wanted; None at the end.
    fn peek(&mut self, columns: [usize; 3], without: &HashSet<String>) -> Result<Option<RowKey>> {
        while self.next == self.wanted.len() {
            let next = self.rows.next_batch().map_err(Error::trace(&self.path))?;
            let Some(batch) = next else { return Ok(None) };
            self.wanted = wanted(&batch, without);
            self.next = 0;
            self.batch = Arc::new(batch);
        }
        let keys = Keys::of(&self.batch, columns);
        let row = self.wanted[self.next] as usize;
        Ok(Some((keys.thread(row), keys.start(row))))
    }

    /// Rows of the batch at hand whose keys are not above the limit: so many at most, one at least.
    fn take(&mut self, columns: [usize; 3], limit: Option<RowKey>, most: usize) -> Segment {
        let keys = Keys::of(&self.batch, columns);
        let rest = &self.wanted[self.next..];
        let rest = &rest[..rest.len().min(most.max(1))];
        let key = |row: u32| (keys.thread(row as usize), keys.start(row as usize));
        let count = match limit {
            None => rest.len(),
            Some(limit) => rest.partition_point(|&row| key(row) <= limit).max(1),
        };
        self.next += count;
        Segment {
            batch: self.batch.clone(),
            rows: rest[..count].to_vec(),
        }
    }
}

fn wanted(batch: &RecordBatch, without: &HashSet<String>) -> Vec<u32> {
    let all = 0..batch.num_rows() as u32;
    let column = batch.column_by_name(RECORDING);
    let column = column.and_then(|column| column.as_dictionary_opt::<Int32Type>());
    let Some(column) = column.filter(|_| !without.is_empty()) else {
        return all.collect();
    };
    let names = column.values().as_string::<i32>();
    let left_out: Vec<bool> = (names.iter())
        .map(|name| name.is_some_and(|name| without.contains(name)))
        .collect();
    let is_left_out = |row: &u32| {
        let key = column.key(*row as usize);
        key.is_some_and(|key| left_out.get(key).copied().unwrap_or(false))
    };
    all.filter(|row| !is_left_out(row)).collect()
}
