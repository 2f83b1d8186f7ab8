//! Records → batches of rows, for every format that has columns.

use super::{
    cells::{self, Cells},
    columns::{self, Column, Type},
};
use crate::{
    Error, Result,
    json::{
        MOST_NESTING,
        value::{TooDeep, write_args, write_stack},
    },
    jsonl::LONGEST_LINE,
    time,
};
use arrow_array::{RecordBatch, RecordBatchOptions};
use arrow_schema::SchemaRef;
use event::{
    Arg, Event, Extent, Launch, Lost, Meaning, MemoryOp, Meta, Name, Record, Summary, What,
};
use std::sync::Arc;

/// Rows of a batch: what a crash may cost, and large enough to compress well.
const BATCH_ROWS: usize = 32_768;
/// Text of one column after which a batch is closed early.
const BATCH_TEXT: usize = 8 << 20;

/// Headers of a batch, its dictionaries and its columns.
const BATCH_HEADERS: u64 = 16 << 10;
/// A row's numbers and keys; most of its columns are empty.
const ROW_BYTES: u64 = 160;

/// Rows that are being gathered.
pub struct Rows {
    schema: SchemaRef,
    cells: Vec<Cells>,
    rows: usize,
    start: u64,
    /// The name of every launch.
    launch: Name,
}

impl Rows {
    pub fn new(meta: &Meta) -> Result<Self> {
        Ok(Rows {
            schema: Arc::new(columns::schema(meta).map_err(std::io::Error::from)?),
            cells: cells::all(),
            rows: 0,
            start: meta.start_ns,
            launch: Launch::NAME.into(),
        })
    }

    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Add a record; after an error it is as if that had not been tried.
    pub fn add(&mut self, record: &Record) -> Result<()> {
        if let Err(error) = self.row(record) {
            // Half a row would be damage.
            for cells in &mut self.cells {
                cells.unset(self.rows);
            }
            return Err(error);
        }
        self.rows += 1;
        Ok(())
    }

    /// The trace's tail as a row.
    pub fn add_summary(&mut self, summary: &Summary) -> Result<()> {
        let summary = serde_json::to_vec(summary).map_err(std::io::Error::from)?;
        self.set_word(Column::Kind, "summary");
        self.cells[Column::Details as usize].set_text(self.rows, |out| {
            out.extend_from_slice(&summary);
            Ok::<_, Error>(())
        })?;
        self.rows += 1;
        Ok(())
    }

    /// Whether it is time to take the batch.
    pub fn is_full(&self) -> bool {
        let texts = [Column::Details, Column::Decoded, Column::Stack];
        let full = |column: Column| self.cells[column as usize].text_bytes() >= BATCH_TEXT;
        self.rows >= BATCH_ROWS || texts.into_iter().any(full)
    }

    /// What the rows gathered take at most: numbers and keys of a row, and texts. Packed, they are far less.
    pub fn most_bytes(&self) -> u64 {
        let texts = [Column::Details, Column::Decoded, Column::Stack];
        let texts = texts.map(|column| self.cells[column as usize].text_bytes() as u64);
        match self.rows {
            0 => 0,
            rows => BATCH_HEADERS + rows as u64 * ROW_BYTES + texts.iter().sum::<u64>(),
        }
    }

    /// The rows gathered; None if there are none.
    pub fn take(&mut self) -> Result<Option<RecordBatch>> {
        if self.rows == 0 {
            return Ok(None);
        }
        let rows = std::mem::take(&mut self.rows);
        let columns: std::result::Result<Vec<_>, _> = self
            .cells
            .iter_mut()
            .map(|cells| cells.take(rows))
            .collect();
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let batch = RecordBatch::try_new_with_options(self.schema.clone(), columns?, &options)?;
        Ok(Some(batch))
    }

    fn set(&mut self, column: Column, value: u64) {
        self.cells[column as usize].set(self.rows, value);
    }

    fn set_some(&mut self, column: Column, value: Option<impl Into<u64>>) {
        if let Some(value) = value {
            self.set(column, value.into());
        }
    }

    fn set_name(&mut self, column: Column, name: &Name) {
        self.cells[column as usize].set_name(self.rows, name);
    }

    fn set_word(&mut self, column: Column, word: &str) {
        if let Type::Word(words) = column.holds()
            && let Some(key) = words.iter().position(|&known| known == word)
        {
            self.set(column, key as u64);
        }
    }

    fn set_args(&mut self, column: Column, args: &[Arg], id: u64) -> Result<()> {
        self.cells[column as usize].set_text(self.rows, |out| {
            let before = out.len();
            write_args(out, args).map_err(|TooDeep| Error::TooDeep {
                id,
                limit: MOST_NESTING,
            })?;
            let size = out.len() - before;
            if size > LONGEST_LINE {
                Err(Error::TooLong {
                    id,
                    size,
                    limit: LONGEST_LINE,
                })
            } else {
                Ok(())
            }
        })
    }

    fn row(&mut self, record: &Record) -> Result<()> {
        self.set(Column::Ts, time::since(self.start, record.ts())? as u64);
        match record {
            Record::Event(event) => self.event(event),
            Record::Meaning(meaning) => self.meaning(meaning),
            Record::Lost(lost) => {
                self.lost(lost);
                Ok(())
            }
        }
    }

    fn event(&mut self, event: &Event) -> Result<()> {
        self.set(Column::Pid, event.pid.into());
        self.set(Column::Tid, event.tid.into());
        self.set(Column::Kind, event.kind as u64);
        self.set(Column::Layer, event.layer as u64);
        self.set_name(Column::Name, &event.name);
        self.set(Column::Category, event.category as u64);
        match event.extent {
            Extent::Instant => {}
            Extent::Open => self.set(Column::Phase, 0),
            Extent::Closed(duration) => {
                self.set(Column::Phase, 1);
                self.set(Column::Duration, time::since(0, duration)? as u64);
            }
        }
        self.set(Column::OpId, event.id);
        self.set(Column::Depth, event.depth.into());
        self.set_some(Column::Parent, event.parent);
        self.set_some(Column::Cpu, event.cpu);
        self.set_some(Column::Device, event.device);
        self.set_some(Column::Context, event.context);
        self.set_some(Column::Stream, event.stream);
        self.set_some(Column::Correlation, event.correlation);
        if let Some(status) = &event.status {
            self.set(Column::Status, status.code as u64);
            if let Some(name) = &status.name {
                self.set_name(Column::Result, name);
            }
        }
        if let Some(ioctl) = &event.ioctl {
            self.set(Column::Cmd, ioctl.cmd);
            if !ioctl.decoded.is_empty() {
                self.set_args(Column::Decoded, &ioctl.decoded, event.id)?;
            }
        }
        let closed = matches!(event.extent, Extent::Closed(_));
        let details = if closed { &event.outputs } else { &event.args };
        if !details.is_empty() {
            self.set_args(Column::Details, details, event.id)?;
        }
        if !closed && !event.stack.is_empty() {
            self.cells[Column::Stack as usize].set_text(self.rows, |out| {
                write_stack(out, &event.stack);
                Ok::<_, Error>(())
            })?;
        }
        Ok(())
    }

    fn meaning(&mut self, meaning: &Meaning) -> Result<()> {
        self.set(Column::Pid, meaning.pid.into());
        self.set(Column::Tid, meaning.tid.into());
        self.set_word(Column::Kind, meaning.what.type_name());
        self.set_some(Column::Layer, meaning.layer.map(|layer| layer as u64));
        self.set(Column::OpId, meaning.op);
        self.set_some(Column::Device, meaning.device);
        self.set_some(Column::Context, meaning.context);
        self.set_some(Column::Stream, meaning.stream);
        if let What::Launch(_) = meaning.what {
            let name = self.launch.clone();
            self.set_name(Column::Name, &name);
            self.set_name(Column::Call, &meaning.name);
        } else {
            self.set_name(Column::Name, &meaning.name);
        }
        match &meaning.what {
            What::Memory(memory) => {
                self.set_word(Column::Op, memory.op.as_str());
                let size = if memory.op == MemoryOp::Free {
                    Column::Freed
                } else {
                    Column::Size
                };
                self.set_some(size, memory.size);
                self.set(Column::Ptr, memory.ptr);
                self.set_some(Column::Space, memory.space.map(|space| space as u64));
            }
            What::Transfer(transfer) => {
                self.set(Column::Direction, transfer.direction as u64);
                self.set(Column::Size, transfer.size);
                self.set_some(Column::Src, transfer.src);
                self.set_some(Column::Dst, transfer.dst);
                if let Some(duration) = transfer.duration {
                    self.set(Column::Duration, time::since(0, duration)? as u64);
                }
            }
            What::Launch(launch) => {
                self.set_word(Column::Op, "launch");
                self.set_name(Column::Kernel, &launch.kernel);
                let columns = [Column::GridX, Column::GridY, Column::GridZ];
                for (column, size) in columns.into_iter().zip(launch.grid) {
                    self.set(column, size.into());
                }
                let columns = [Column::BlockX, Column::BlockY, Column::BlockZ];
                for (column, size) in columns.into_iter().zip(launch.block) {
                    self.set(column, size.into());
                }
                self.set(Column::Shared, launch.shared);
            }
        }
        Ok(())
    }

    fn lost(&mut self, lost: &Lost) {
        self.set_word(Column::Kind, "lost");
        self.set_some(Column::Pid, lost.pid);
        self.set_some(Column::Tid, lost.tid);
        self.set_some(Column::Layer, lost.layer.map(|layer| layer as u64));
        self.set(Column::Count, lost.count);
        if let Some(source) = &lost.source {
            self.set_name(Column::Source, source);
        }
    }
}
