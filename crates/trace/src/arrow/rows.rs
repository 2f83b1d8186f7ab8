//! Records → batches of rows, for every format that has columns.

use super::{
    cells::{self, AllCells},
    columns::{self, Column, Type},
    kept,
    lines::{self, Line},
};
use crate::{
    Error, Result,
    json::{
        MOST_NESTING,
        value::{TooDeep, write_args, write_stack},
    },
    jsonl::LONGEST_LINE,
    open_spans::OpenSpans,
    time,
};
use arrow_array::{RecordBatch, RecordBatchOptions};
use arrow_schema::SchemaRef;
use event::{
    Arg, Category, Event, Extent, Ioctl, Kind, Launch, Layer, Lost, Meaning, MemoryOp, Meta, Name,
    Record, Status, Summary, What,
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

const TEXTS: [Column; 4] = [
    Column::Details,
    Column::Outputs,
    Column::Decoded,
    Column::Stack,
];

/// Rows that are being gathered.
///
/// A span that begins and ends within a batch has one row, at the place of its beginning.
pub struct Rows {
    schema: SchemaRef,
    cells: Box<AllCells>,
    rows: usize,
    /// Lines that JSONL would have for them.
    lines: usize,
    /// Spans that began in this batch and have not ended.
    open: OpenSpans<Begun>,
    order: Order,
    start: u64,
    /// The name of every launch.
    launch: Name,
}

/// What the row of a span says, which its end must not contradict to be in the same row.
struct Begun {
    row: usize,
    line: usize,
    start: u64,
    kind: Kind,
    layer: Layer,
    category: Category,
    /// Its place in the dictionary.
    name: u64,
    pid: u32,
    tid: u32,
    cpu: Option<u32>,
    device: Option<u32>,
    context: Option<u64>,
    stream: Option<u64>,
    parent: Option<u64>,
    depth: u32,
    correlation: Option<u64>,
    /// It has a status, or is an ioctl: its end has a row of its own unless it says the same.
    ioctl: Option<Box<Ioctl>>,
    has_status: bool,
}

impl Begun {
    fn of(event: &Event, name: u64, row: usize, line: usize) -> Self {
        Begun {
            row,
            line,
            start: event.start,
            kind: event.kind,
            layer: event.layer,
            category: event.category,
            name,
            pid: event.pid,
            tid: event.tid,
            cpu: event.cpu,
            device: event.device,
            context: event.context,
            stream: event.stream,
            parent: event.parent,
            depth: event.depth,
            correlation: event.correlation,
            ioctl: event.ioctl.clone(),
            has_status: event.status.is_some(),
        }
    }

    /// Whether that end adds to the beginning, and changes nothing.
    fn is_continued_by(&self, end: &Event, name: u64) -> bool {
        self.start == end.start
            && self.kind == end.kind
            && self.layer == end.layer
            && self.category == end.category
            && self.pid == end.pid
            && self.tid == end.tid
            && self.cpu == end.cpu
            && self.device == end.device
            && self.context == end.context
            && self.stream == end.stream
            && self.parent == end.parent
            && self.depth == end.depth
            && self.correlation == end.correlation
            && !self.has_status
            && self.ioctl == end.ioctl
            && self.name == name
    }
}

/// Whether lines come in the order of time. Those of a batch are put in order before it is written.
struct Order {
    /// The latest line of the batches that were taken, and of all.
    taken: i64,
    latest: i64,
    is_disturbed: bool,
    /// Lines that belong into batches that were taken.
    late: u64,
}

impl Default for Order {
    fn default() -> Self {
        Order {
            taken: i64::MIN,
            latest: i64::MIN,
            is_disturbed: false,
            late: 0,
        }
    }
}

impl Order {
    fn come(&mut self, ts: i64) {
        if ts < self.latest {
            self.is_disturbed = true;
            self.late += u64::from(ts < self.taken);
        } else {
            self.latest = ts;
        }
    }
}

impl Rows {
    pub fn new(meta: &Meta) -> Result<Self> {
        Ok(Rows {
            schema: Arc::new(columns::schema(meta).map_err(std::io::Error::from)?),
            cells: cells::all(),
            rows: 0,
            lines: 0,
            open: OpenSpans::default(),
            order: Order::default(),
            start: meta.start_ns,
            launch: Launch::NAME.into(),
        })
    }

    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Add a record; after an error it is as if that had not been tried.
    pub fn add(&mut self, record: &Record) -> Result<()> {
        let added = match record {
            Record::Event(event) => match event.extent {
                Extent::Closed(duration) => self.end(event, duration),
                Extent::Open => self.begin(event),
                Extent::Instant => self.row(record),
            },
            _ => self.row(record),
        };
        let ts = added.inspect_err(|_| {
            // Half a row would be damage.
            for cells in self.cells.iter_mut() {
                cells.unset(self.rows);
            }
        })?;
        self.lines += 1;
        self.order.come(ts);
        Ok(())
    }

    /// Add both records of a span whose beginning was not added.
    pub fn add_whole(&mut self, event: &Event, duration: u64) -> Result<()> {
        let row = self.rows;
        let added = (self.time(event.start)).and_then(|start| {
            let end = time::since(self.start, event.start.saturating_add(duration))?;
            self.event_columns(event)?;
            self.begin_columns(event)?;
            self.end_columns(event, duration, row)?;
            Ok((start, end))
        });
        let (start, end) = added.inspect_err(|_| {
            self.cells.iter_mut().for_each(|cells| cells.unset(row));
        })?;
        self.order.come(start);
        self.order.come(end);
        self.set(Column::Phase, columns::WHOLE);
        self.set(Column::LinesInside, 0);
        self.rows += 1;
        self.lines += 2;
        Ok(())
    }

    /// The trace's tail as a row, with what was found in the trace.
    pub fn add_summary(&mut self, summary: &Summary, found: Option<&str>) -> Result<()> {
        let summary = serde_json::to_vec(summary).map_err(std::io::Error::from)?;
        let summary = kept::with_found(&summary, found);
        self.set_word(Column::Kind, "summary");
        self.set_written(Column::Details, |out| {
            out.extend_from_slice(&summary);
            Ok(())
        })?;
        self.rows += 1;
        self.lines += 1;
        Ok(())
    }

    /// Whether it is time to take the batch.
    pub fn is_full(&self) -> bool {
        let full = |column: Column| self.cells[column as usize].text_bytes() >= BATCH_TEXT;
        self.rows >= BATCH_ROWS || TEXTS.into_iter().any(full)
    }

    /// What the rows gathered take at most: numbers and keys of a row, and texts. Packed, they are far less.
    pub fn most_bytes(&self) -> u64 {
        let texts = TEXTS.map(|column| self.cells[column as usize].text_bytes() as u64);
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
        if std::mem::take(&mut self.order.is_disturbed) {
            self.put_in_order();
        }
        self.order.taken = self.order.latest;
        let rows = std::mem::take(&mut self.rows);
        self.lines = 0;
        // Their ends get rows of their own.
        self.open.clear();
        let columns: std::result::Result<Vec<_>, _> = self
            .cells
            .iter_mut()
            .map(|cells| cells.take(rows))
            .collect();
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let batch = RecordBatch::try_new_with_options(self.schema.clone(), columns?, &options)?;
        Ok(Some(batch))
    }

    /// Lines that were added behind later ones, and could not be put where they belong.
    pub fn late(&self) -> u64 {
        self.order.late
    }

    /// Sorts the lines by time, those of one moment as they came, and the rows by their first lines.
    fn put_in_order(&mut self) {
        let column = |column: Column| &self.cells[column as usize];
        let (ts, phase) = (column(Column::Ts), column(Column::Phase));
        let (duration, inside) = (column(Column::Duration), column(Column::LinesInside));
        let is_whole = |row: usize| phase.get(row) == Some(columns::WHOLE);
        let mut came = Vec::new();
        let lines_inside = |row: usize| is_whole(row).then(|| inside.get(row).unwrap_or(0));
        lines::order(self.rows, lines_inside, &mut came);
        let mut lines: Vec<(i64, u32, Line)> = (came.into_iter().zip(0..))
            .map(|(line, number)| {
                let start = ts.get(line.row()).unwrap_or(0) as i64;
                let length = if line.is_end() {
                    duration.get(line.row()).unwrap_or(0) as i64
                } else {
                    0
                };
                (start.saturating_add(length), number, line)
            })
            .collect();
        // The tail has no time, and stays behind.
        let tail = usize::from(ts.get(self.rows - 1).is_none());
        let last = lines.len() - tail;
        lines[..last].sort_unstable_by_key(|(time, number, _)| (*time, *number));
        let mut began = vec![0; self.rows];
        let mut order = Vec::with_capacity(self.rows);
        let mut insides = Vec::new();
        for (number, (_, _, line)) in lines.iter().enumerate() {
            if line.is_end() {
                insides.push((line.row(), (number - began[line.row()] - 1) as u64));
            } else {
                began[line.row()] = number;
                order.push(line.row());
            }
        }
        for (row, lines) in insides {
            self.cells[Column::LinesInside as usize].set(row, lines);
        }
        for cells in self.cells.iter_mut() {
            cells.reorder(&order);
        }
    }

    #[inline]
    fn set(&mut self, column: Column, value: u64) {
        self.cells[column as usize].set(self.rows, value);
    }

    #[inline]
    fn set_some(&mut self, column: Column, value: Option<impl Into<u64>>) {
        if let Some(value) = value {
            self.set(column, value.into());
        }
    }

    #[inline]
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

    fn set_written(
        &mut self,
        column: Column,
        write: impl FnOnce(&mut Vec<u8>) -> Result<()>,
    ) -> Result<()> {
        let key = self.cells[column as usize].written(write)?;
        self.set(column, key);
        Ok(())
    }

    /// The arguments, in the column's text. Nothing is set before it is known that they can be.
    fn set_args(&mut self, column: Column, args: &[Arg], id: u64, row: usize) -> Result<()> {
        let cells = &mut self.cells[column as usize];
        let key = cells.args(args, |out| write_bounded(out, args, id))?;
        cells.set(row, key);
        Ok(())
    }

    fn time(&mut self, time: u64) -> Result<i64> {
        let since = time::since(self.start, time)?;
        self.set(Column::Ts, since as u64);
        Ok(since)
    }

    /// The time of its line, as of the others.
    fn row(&mut self, record: &Record) -> Result<i64> {
        let ts = self.time(record.ts())?;
        match record {
            Record::Event(event) => {
                self.event_columns(event)?;
                self.begin_columns(event)?;
            }
            Record::Meaning(meaning) => self.meaning(meaning)?,
            Record::Lost(lost) => self.lost(lost),
        }
        self.rows += 1;
        Ok(ts)
    }

    fn begin(&mut self, event: &Event) -> Result<i64> {
        let ts = self.time(event.start)?;
        self.event_columns(event)?;
        self.begin_columns(event)?;
        self.set(Column::Phase, columns::BEGIN);
        let name = self.cells[Column::Name as usize].get(self.rows);
        let begun = Begun::of(event, name.unwrap_or(0), self.rows, self.lines);
        self.open.insert(event.id, begun);
        self.rows += 1;
        Ok(ts)
    }

    /// An end goes to the row of its beginning, or, if that is in another batch or says something else, to one of its own.
    fn end(&mut self, event: &Event, duration: u64) -> Result<i64> {
        // A name that is new now is another than the beginning's.
        let name = self.cells[Column::Name as usize].key_of(&event.name);
        let begun = self.open.get(event.id);
        if let Some(begun) = begun.filter(|begun| begun.is_continued_by(event, name)) {
            let (row, line) = (begun.row, begun.line);
            // What a file cannot say of a time, a row of its own cannot say either.
            let ts = time::since(self.start, event.start.saturating_add(duration))?;
            self.end_columns(event, duration, row)?;
            self.cells[Column::Phase as usize].set(row, columns::WHOLE);
            let inside = (self.lines - line - 1) as u64;
            self.cells[Column::LinesInside as usize].set(row, inside);
            self.open.remove(event.id);
            return Ok(ts);
        }
        let row = self.rows;
        let ts = self.time(event.start.saturating_add(duration))?;
        self.event_columns(event)?;
        self.end_columns(event, duration, row)?;
        self.set(Column::Phase, columns::END);
        self.open.remove(event.id);
        self.rows += 1;
        Ok(ts)
    }

    /// What only an end has. Nothing is set of what cannot be set whole.
    fn end_columns(&mut self, event: &Event, duration: u64, row: usize) -> Result<()> {
        let duration = time::since(0, duration)?;
        if !event.outputs.is_empty() {
            self.set_args(Column::Outputs, &event.outputs, event.id, row)?;
        }
        self.cells[Column::Duration as usize].set(row, duration as u64);
        if let Some(status) = &event.status {
            self.status(status, row);
        }
        Ok(())
    }

    fn status(&mut self, status: &Status, row: usize) {
        self.cells[Column::Status as usize].set(row, status.code as u64);
        if let Some(name) = &status.name {
            self.cells[Column::Result as usize].set_name(row, name);
        }
    }

    /// What only a beginning or an instant has; a status that it has already, too.
    fn begin_columns(&mut self, event: &Event) -> Result<()> {
        let row = self.rows;
        if !event.args.is_empty() {
            self.set_args(Column::Details, &event.args, event.id, row)?;
        }
        if !event.stack.is_empty() {
            let cells = &mut self.cells[Column::Stack as usize];
            let key = cells.stack(&event.stack, |out| {
                write_stack(out, &event.stack);
                Ok(())
            })?;
            cells.set(row, key);
        }
        if !matches!(event.extent, Extent::Closed(_))
            && let Some(status) = &event.status
        {
            self.status(status, row);
        }
        Ok(())
    }

    /// What every line of an event has.
    fn event_columns(&mut self, event: &Event) -> Result<()> {
        self.set(Column::Pid, event.pid.into());
        self.set(Column::Tid, event.tid.into());
        self.set(Column::Kind, event.kind as u64);
        self.set(Column::Layer, event.layer as u64);
        self.set_name(Column::Name, &event.name);
        self.set(Column::Category, event.category as u64);
        self.set(Column::OpId, event.id);
        self.set(Column::Depth, event.depth.into());
        self.set_some(Column::Parent, event.parent);
        self.set_some(Column::Cpu, event.cpu);
        self.set_some(Column::Device, event.device);
        self.set_some(Column::Context, event.context);
        self.set_some(Column::Stream, event.stream);
        self.set_some(Column::Correlation, event.correlation);
        if let Some(ioctl) = &event.ioctl {
            self.set(Column::Cmd, ioctl.cmd);
            if !ioctl.decoded.is_empty() {
                self.set_args(Column::Decoded, &ioctl.decoded, event.id, self.rows)?;
            }
        }
        Ok(())
    }

    fn meaning(&mut self, meaning: &Meaning) -> Result<()> {
        self.set(Column::Pid, meaning.pid.into());
        self.set(Column::Tid, meaning.tid.into());
        self.set(Column::Kind, columns::of_meaning(&meaning.what));
        self.set_some(Column::Layer, meaning.layer.map(|layer| layer as u64));
        self.set(Column::OpId, meaning.op);
        self.set_some(Column::Device, meaning.device);
        self.set_some(Column::Context, meaning.context);
        self.set_some(Column::Stream, meaning.stream);
        if let What::Launch(_) = meaning.what {
            self.cells[Column::Name as usize].set_name(self.rows, &self.launch);
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
                self.set(Column::Op, columns::LAUNCH);
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

/// As a JSON object that a line of JSONL could hold as well.
fn write_bounded(out: &mut Vec<u8>, args: &[Arg], id: u64) -> Result<()> {
    write_args(out, args).map_err(|TooDeep| Error::TooDeep {
        id,
        limit: MOST_NESTING,
    })?;
    if out.len() > LONGEST_LINE {
        return Err(Error::TooLong {
            id,
            size: out.len(),
            limit: LONGEST_LINE,
        });
    }
    Ok(())
}
