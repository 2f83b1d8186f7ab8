//! Writing Parquet. The trace's head and tail are among the file's key-value pairs.
//!
//! Rows are gathered into groups; the columns of a group are packed by several threads while the next one is
//! gathered. [`Groups`] is that part, whatever the rows are.

use crate::{Error, Result, arrow::Rows, sink::WriteTrace};
use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use event::{Event, Meta, Record, Summary};
use parquet::{
    arrow::{
        ArrowWriter,
        arrow_writer::{
            ArrowColumnChunk, ArrowColumnWriter, ArrowRowGroupWriterFactory, compute_leaves,
        },
    },
    basic::{Compression, Encoding, ZstdLevel},
    file::{
        metadata::KeyValue,
        properties::{EnabledStatistics, WriterProperties, WriterPropertiesBuilder},
        writer::SerializedFileWriter,
    },
    schema::types::ColumnPath,
};
use std::{
    io::Write,
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
        mpsc::{SyncSender, sync_channel},
    },
    thread::{self, JoinHandle},
};

/// Rows of a group: what is in memory until it is written.
const GROUP_ROWS: usize = 8 * 32_768;
/// Threads that pack, at most.
const MOST_WORKERS: usize = 8;

/// Numbers that grow with time, or are small: packed as differences.
const DELTAS: [&str; 8] = [
    "ts_ns",
    "start_ns",
    "duration_ns",
    "op_id",
    "parent",
    "correlation",
    "lines_inside",
    "depth",
];
/// What is looked for by its value: whether a group has it can be told without reading the group.
const LOOKED_FOR: [&str; 5] = ["name", "kernel", "context", "stream", "ptr"];
/// JSON texts: no query compares them whole, so the least and the greatest of a group are not worth finding.
const WITHOUT_STATISTICS: [&str; 3] = ["details", "outputs", "decoded"];
/// Different values of such a column in a group, about.
const DIFFERENT: u64 = 2_048;

/// How columns are packed.
pub fn properties() -> WriterPropertiesBuilder {
    let zstd = ZstdLevel::try_new(1).map_or(Compression::LZ4_RAW, Compression::ZSTD);
    let mut properties = WriterProperties::builder()
        .set_compression(zstd)
        .set_max_row_group_row_count(Some(GROUP_ROWS));
    for name in DELTAS {
        let column = ColumnPath::from(name);
        properties = properties
            .set_column_dictionary_enabled(column.clone(), false)
            .set_column_encoding(column, Encoding::DELTA_BINARY_PACKED);
    }
    for name in LOOKED_FOR {
        let column = ColumnPath::from(name);
        properties = properties
            .set_column_bloom_filter_enabled(column.clone(), true)
            .set_column_bloom_filter_max_ndv(column, DIFFERENT);
    }
    for name in WITHOUT_STATISTICS {
        let column = ColumnPath::from(name);
        properties = properties.set_column_statistics_enabled(column, EnabledStatistics::None);
    }
    properties
}

/// Row groups that are being written, in a thread of their own.
pub struct Groups {
    batches: Vec<RecordBatch>,
    rows: usize,
    /// None once there is an error, or the end.
    input: Option<SyncSender<Order>>,
    thread: Option<JoinHandle<Result<()>>>,
}

/// What the thread is given.
enum Order {
    Group(Vec<RecordBatch>),
    Finish(Vec<KeyValue>),
}

impl Groups {
    pub fn new(
        out: impl Write + Send + 'static,
        schema: SchemaRef,
        pairs: Vec<KeyValue>,
    ) -> Result<Self> {
        let properties = properties().set_key_value_metadata(Some(pairs)).build();
        let mut packer = Packer::new(out, schema, properties)?;
        let (input, orders) = sync_channel(1);
        let thread = thread::Builder::new()
            .name("parquet".into())
            .spawn(move || {
                for order in orders {
                    match order {
                        Order::Group(batches) => packer.pack(&batches)?,
                        Order::Finish(pairs) => return packer.finish(pairs),
                    }
                }
                // Nobody has finished it: it has no index, and cannot be read.
                Ok(())
            })?;
        Ok(Groups {
            batches: Vec::new(),
            rows: 0,
            input: Some(input),
            thread: Some(thread),
        })
    }

    pub fn write(&mut self, batch: RecordBatch) -> Result<()> {
        self.rows += batch.num_rows();
        self.batches.push(batch);
        if self.rows >= GROUP_ROWS {
            self.end_group()?;
        }
        Ok(())
    }

    fn end_group(&mut self) -> Result<()> {
        self.rows = 0;
        let batches = std::mem::take(&mut self.batches);
        if batches.is_empty() {
            return Ok(());
        }
        self.order(Order::Group(batches))
    }

    fn order(&mut self, order: Order) -> Result<()> {
        let sent = self.input.as_ref().map(|input| input.send(order));
        match sent {
            Some(Ok(())) => Ok(()),
            // The thread has ended, and says why.
            _ => self.join(),
        }
    }

    fn join(&mut self) -> Result<()> {
        self.input = None;
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(ended)) => ended,
            _ => Err(Error::Io(std::io::Error::other(
                "the thread that writes Parquet has failed",
            ))),
        }
    }

    pub fn finish(&mut self, pairs: Vec<KeyValue>) -> Result<()> {
        if self.input.is_none() {
            return Ok(());
        }
        self.end_group()?;
        self.order(Order::Finish(pairs))?;
        self.join()
    }
}

impl Drop for Groups {
    fn drop(&mut self) {
        if self.input.is_some() {
            let _ = self.join();
        }
    }
}

pub struct Packer<W: Write + Send> {
    file: SerializedFileWriter<W>,
    factory: ArrowRowGroupWriterFactory,
    schema: SchemaRef,
    group: usize,
}

type Slot<T> = Mutex<Option<T>>;

impl<W: Write + Send> Packer<W> {
    pub fn new(out: W, schema: SchemaRef, properties: WriterProperties) -> Result<Self> {
        let writer = ArrowWriter::try_new(out, schema.clone(), Some(properties))?;
        let (file, factory) = writer.into_serialized_writer()?;
        Ok(Packer {
            file,
            factory,
            schema,
            group: 0,
        })
    }

    fn pack(&mut self, batches: &[RecordBatch]) -> Result<()> {
        let columns = self.columns(batches)?;
        self.append(columns)
    }

    /// Packs the columns of a group, each in a thread that is free.
    pub fn columns(&mut self, batches: &[RecordBatch]) -> Result<Vec<ArrowColumnChunk>> {
        let columns = self.factory.create_column_writers(self.group)?;
        self.group += 1;
        let count = columns.len();
        let writers: Vec<Slot<ArrowColumnWriter>> = (columns.into_iter())
            .map(|writer| Mutex::new(Some(writer)))
            .collect();
        let packed: Vec<Slot<Result<ArrowColumnChunk>>> =
            (0..count).map(|_| Mutex::default()).collect();
        let next = AtomicUsize::new(0);
        let work = || {
            loop {
                let column = next.fetch_add(1, Ordering::Relaxed);
                let Some(writer) = writers.get(column).and_then(take) else {
                    return;
                };
                let chunk = pack_column(writer, &self.schema, batches, column);
                if let Ok(mut slot) = packed[column].lock() {
                    *slot = Some(chunk);
                }
            }
        };
        let cores = thread::available_parallelism().map_or(1, usize::from);
        thread::scope(|scope| {
            for _ in 1..cores.min(MOST_WORKERS) {
                scope.spawn(work);
            }
            work();
        });
        let chunk = |slot: &Slot<Result<ArrowColumnChunk>>| {
            let failed = || Error::Io(std::io::Error::other("a column could not be packed"));
            take(slot).ok_or_else(failed)?
        };
        packed.iter().map(chunk).collect()
    }

    /// Writes a group that was packed.
    pub fn append(&mut self, columns: Vec<ArrowColumnChunk>) -> Result<()> {
        let mut group = self.file.next_row_group()?;
        for chunk in columns {
            chunk.append_to_row_group(&mut group)?;
        }
        group.close()?;
        Ok(())
    }

    pub fn finish(mut self, pairs: Vec<KeyValue>) -> Result<()> {
        for pair in pairs {
            self.file.append_key_value_metadata(pair);
        }
        self.file.close()?;
        Ok(())
    }
}

fn take<T>(slot: &Slot<T>) -> Option<T> {
    slot.lock().ok()?.take()
}

/// The columns are flat: each is one leaf.
fn pack_column(
    mut writer: ArrowColumnWriter,
    schema: &SchemaRef,
    batches: &[RecordBatch],
    column: usize,
) -> Result<ArrowColumnChunk> {
    for batch in batches {
        for leaf in compute_leaves(schema.field(column), batch.column(column))? {
            writer.write(&leaf)?;
        }
    }
    Ok(writer.close()?)
}

/// The file's pairs for a trace's head and tail.
pub fn head(meta: &Meta) -> Result<KeyValue> {
    let head = serde_json::to_string(meta).map_err(std::io::Error::from)?;
    Ok(KeyValue::new("cutrace".to_owned(), head))
}

pub fn tail(summary: &Summary) -> Result<KeyValue> {
    let tail = serde_json::to_string(summary).map_err(std::io::Error::from)?;
    Ok(KeyValue::new("cutrace_summary".to_owned(), tail))
}

pub struct ParquetWriter {
    out: Groups,
    rows: Rows,
}

impl ParquetWriter {
    pub fn new(out: impl Write + Send + 'static, meta: &Meta) -> Result<Self> {
        let rows = Rows::new(meta)?;
        Ok(ParquetWriter {
            out: Groups::new(out, rows.schema().clone(), vec![head(meta)?])?,
            rows,
        })
    }

    fn write_batch(&mut self) -> Result<()> {
        match self.rows.take()? {
            Some(batch) => self.out.write(batch),
            None => Ok(()),
        }
    }
}

impl WriteTrace for ParquetWriter {
    fn write(&mut self, record: &Record) -> Result<()> {
        self.rows.add(record)?;
        if self.rows.is_full() {
            self.write_batch()?;
        }
        Ok(())
    }

    fn write_whole(&mut self, _: &Record, event: &Event, duration: u64) -> Result<()> {
        self.rows.add_whole(event, duration)?;
        if self.rows.is_full() {
            self.write_batch()?;
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        self.write_batch()
    }

    fn finish(&mut self, summary: &Summary) -> Result<()> {
        self.write_batch()?;
        self.out.finish(vec![tail(summary)?])
    }
}

impl From<parquet::errors::ParquetError> for Error {
    fn from(error: parquet::errors::ParquetError) -> Self {
        match error {
            // A broken pipe must still be seen as one.
            parquet::errors::ParquetError::External(source) => {
                match source.downcast::<std::io::Error>() {
                    Ok(source) => Error::Io(*source),
                    Err(source) => Error::Io(std::io::Error::other(source)),
                }
            }
            other => Error::Io(std::io::Error::other(other)),
        }
    }
}
