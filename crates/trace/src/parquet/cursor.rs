//! A stretch of a Parquet file's rows, read in the order of time: the rows of one thread, or those of several that are few.

use super::cells::{KnownTexts, StackTexts, cells, is_wanted};
use crate::{Parts, Result, arrow::batch::Batch, arrow::row::Parsed, error::RowsError};
use arrow_array::{
    Array, RecordBatch,
    cast::AsArray,
    types::{Int32Type, Int64Type, UInt32Type},
};
use parquet::arrow::{
    ProjectionMask,
    arrow_reader::{
        ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader,
        ParquetRecordBatchReaderBuilder, RowSelection,
    },
};
use std::{
    fs::File,
    ops::Range,
    path::{Path, PathBuf},
    sync::Arc,
};

/// Rows that are read at once.
const BATCH: usize = 4_096;
/// Threads with so few rows together are read whole.
const FEW: usize = 65_536;

/// A stretch of rows, not read yet.
pub struct Stretch {
    path: PathBuf,
    metadata: ArrowReaderMetadata,
    rows: Range<usize>,
    /// The rows are of one thread, which are in order.
    is_sorted: bool,
    /// None of them begins earlier.
    pub earliest: i64,
}

/// The stretches of a file.
pub fn stretches(path: &Path) -> Result<Vec<Stretch>> {
    let file = File::open(path)?;
    let metadata = ArrowReaderMetadata::load(&file, ArrowReaderOptions::new())?;
    let stretch = |rows: Range<usize>, is_sorted| Stretch {
        path: path.into(),
        earliest: earliest(&metadata, &rows),
        metadata: metadata.clone(),
        rows,
        is_sorted,
    };
    // What `export` writes is in the order of time.
    if metadata.schema().index_of("start_ns").is_err() {
        let rows = metadata.metadata().file_metadata().num_rows();
        return Ok(vec![stretch(0..usize::try_from(rows).unwrap_or(0), true)]);
    }
    let mut found: Vec<Stretch> = Vec::new();
    for rows in threads(&file, &metadata)? {
        match found.last_mut() {
            Some(last) if rows.end - last.rows.start <= FEW => {
                last.rows.end = rows.end;
                last.is_sorted = false;
                last.earliest = last.earliest.min(earliest(&metadata, &rows));
            }
            _ => found.push(stretch(rows, true)),
        }
    }
    Ok(found)
}

/// The rows of each thread.
fn threads(file: &File, metadata: &ArrowReaderMetadata) -> Result<Vec<Range<usize>>> {
    let keys = ProjectionMask::columns(metadata.parquet_schema(), ["pid", "tid"]);
    let reader =
        ParquetRecordBatchReaderBuilder::new_with_metadata(file.try_clone()?, metadata.clone())
            .with_projection(keys)
            .with_batch_size(FEW)
            .build()?;
    let mut ranges: Vec<Range<usize>> = Vec::new();
    let mut last = None;
    let mut row = 0;
    for batch in reader {
        let batch = batch.map_err(std::io::Error::other)?;
        let [pids, tids] = ["pid", "tid"].map(|name| {
            let column = batch.column_by_name(name);
            column.and_then(|column| column.as_primitive_opt::<UInt32Type>())
        });
        for at in 0..batch.num_rows() {
            let number = |column: Option<&arrow_array::UInt32Array>| {
                let column = column.filter(|column| column.is_valid(at))?;
                Some(column.value(at))
            };
            let thread = (number(pids), number(tids));
            match ranges.last_mut() {
                Some(range) if last == Some(thread) => range.end = row + 1,
                _ => ranges.push(row..row + 1),
            }
            last = Some(thread);
            row += 1;
        }
    }
    Ok(ranges)
}

/// By the statistics of the row groups that they are in.
fn earliest(metadata: &ArrowReaderMetadata, rows: &Range<usize>) -> i64 {
    let Ok(column) = metadata.schema().index_of("start_ns") else {
        return i64::MIN;
    };
    let mut first = 0;
    let mut earliest = i64::MAX;
    for group in metadata.metadata().row_groups() {
        let end = first + usize::try_from(group.num_rows()).unwrap_or(0);
        if first < rows.end && rows.start < end {
            let statistics = group
                .columns()
                .get(column)
                .and_then(|chunk| chunk.statistics());
            let least = match statistics {
                Some(parquet::file::statistics::Statistics::Int64(values)) => {
                    values.min_opt().copied()
                }
                _ => None,
            };
            earliest = earliest.min(least.unwrap_or(i64::MIN));
        }
        first = end;
    }
    earliest
}

/// Rows that were read, as cells.
pub struct Chunk {
    pub cells: Batch,
    /// When each begins, as the file has it.
    pub starts: Vec<i64>,
    /// Times count from 1970: these are the rows of a lake.
    pub is_absolute: bool,
    /// The rows that are wanted, in the order of time.
    order: Vec<u32>,
}

/// A stretch that is being read.
pub struct Cursor {
    reader: ParquetRecordBatchReader,
    is_sorted: bool,
    base: i64,
    recording: Option<String>,
    stacks: StackTexts,
    known: KnownTexts,
    pub parsed: Parsed,
    chunk: Option<Arc<Chunk>>,
    next: usize,
}

impl Cursor {
    pub fn open(
        stretch: &Stretch,
        parts: Parts,
        base: i64,
        recording: Option<&str>,
        stacks: &StackTexts,
    ) -> Result<Self> {
        let metadata = stretch.metadata.clone();
        let wanted = (metadata.schema().fields().iter().enumerate())
            .filter(|(_, field)| is_wanted(field.name(), parts))
            .map(|(at, _)| at);
        let columns = ProjectionMask::roots(metadata.parquet_schema(), wanted.collect::<Vec<_>>());
        let (mut groups, mut first, mut skipped) = (Vec::new(), 0, None);
        for (at, group) in metadata.metadata().row_groups().iter().enumerate() {
            let end = first + usize::try_from(group.num_rows()).unwrap_or(0);
            if first < stretch.rows.end && stretch.rows.start < end {
                skipped.get_or_insert(first);
                groups.push(at);
            }
            first = end;
        }
        let skipped = skipped.unwrap_or(0);
        let rows = stretch.rows.start - skipped..stretch.rows.end - skipped;
        let total = rows.end;
        let selection = RowSelection::from_consecutive_ranges([rows].into_iter(), total);
        let batch = match stretch.is_sorted {
            true => BATCH,
            false => stretch.rows.len().max(1),
        };
        let reader = ParquetRecordBatchReaderBuilder::new_with_metadata(
            File::open(&stretch.path)?,
            metadata,
        )
        .with_projection(columns)
        .with_row_groups(groups)
        .with_row_selection(selection)
        .with_batch_size(batch)
        .build()?;
        Ok(Cursor {
            reader,
            is_sorted: stretch.is_sorted,
            base,
            recording: recording.map(str::to_owned),
            stacks: stacks.clone(),
            known: KnownTexts::default(),
            parsed: Parsed::default(),
            chunk: None,
            next: 0,
        })
    }

    /// The next row and when it begins; None at the end.
    pub fn peek(&mut self) -> std::result::Result<Option<(i64, Arc<Chunk>, usize)>, RowsError> {
        loop {
            if let Some(chunk) = &self.chunk
                && let Some(&row) = chunk.order.get(self.next)
            {
                let row = row as usize;
                return Ok(Some((chunk.starts[row], chunk.clone(), row)));
            }
            let Some(rows) = self.reader.next() else {
                self.chunk = None;
                return Ok(None);
            };
            let rows = rows?;
            self.chunk = Some(Arc::new(self.chunk_of(&rows)?));
            self.next = 0;
        }
    }

    pub fn advance(&mut self) {
        self.next += 1;
    }

    fn chunk_of(&mut self, rows: &RecordBatch) -> std::result::Result<Chunk, RowsError> {
        let time = rows.column_by_name("start_ns");
        let is_absolute = time.is_some();
        let time = time.or_else(|| rows.column_by_name("ts_ns"));
        let starts = time.and_then(|column| column.as_primitive_opt::<Int64Type>());
        let starts = starts.ok_or(RowsError::NoTimes)?.values().to_vec();
        let mut order: Vec<u32> = match &self.recording {
            None => (0..rows.num_rows() as u32).collect(),
            Some(wanted) => of_recording(rows, wanted),
        };
        if !self.is_sorted {
            order.sort_by_key(|&row| starts[row as usize]);
        }
        let cells = cells(rows, self.base, &self.stacks, &mut self.known)?;
        Ok(Chunk {
            cells,
            starts,
            is_absolute,
            order,
        })
    }
}

/// Rows of this recording.
fn of_recording(rows: &RecordBatch, wanted: &str) -> Vec<u32> {
    let all = 0..rows.num_rows() as u32;
    let column = rows.column_by_name("recording");
    let Some(column) = column.and_then(|column| column.as_dictionary_opt::<Int32Type>()) else {
        return all.collect();
    };
    let names = column.values().as_string::<i32>();
    let keys = column.keys();
    let is_wanted: Vec<bool> = names.iter().map(|name| name == Some(wanted)).collect();
    all.filter(|&row| {
        let key = usize::try_from(keys.value(row as usize)).unwrap_or(usize::MAX);
        keys.is_valid(row as usize) && is_wanted.get(key).copied().unwrap_or(false)
    })
    .collect()
}
