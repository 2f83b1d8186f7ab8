//! The lines of a trace without their texts: for reports that need times and names only. Which columns are unpacked
//! is decided here, and no record is made.
//!
//! Whatever is not as cutrace writes it is left to [`crate::Reader`], which knows what to say of it.

use super::{
    VERSION,
    batch::{self, Batch, Cells, OwnDictionaries, Values},
    columns::Column,
    lines::{self, Line},
    message::{Messages, Next},
    plan::Plan,
    row,
    units::{Unit, Units},
};
use crate::{
    Error, Result,
    fields::{Class, Fields, Word},
    pipeline::Cut,
};
use event::{Category, Kind, Layer, Meta, Name, Summary};
use std::{
    collections::HashMap,
    fs::File,
    io::BufReader,
    path::Path,
    sync::{Arc, mpsc},
    thread,
};

/// A trace whose spans are to be read.
pub struct Spans {
    meta: Meta,
    plan: Arc<Plan>,
    messages: Messages<BufReader<File>>,
}

/// What came of it.
pub enum SpansRead {
    /// All is read; its tail.
    Whole(Box<Summary>),
    /// Something is not as cutrace writes it. What was handed out is not all.
    Irregular,
}

/// A line: an event's, or the time of another.
#[derive(Debug, Clone, Copy)]
pub enum SpanLine {
    Begin(SpanEvent),
    End(SpanEvent, u64),
    Instant(SpanEvent),
    /// A kernel was launched: its place among the batch's kernels.
    Launch {
        ts: u64,
        kernel: u32,
    },
    Other {
        ts: u64,
    },
}

/// What the line of an event says.
#[derive(Debug, Clone, Copy)]
pub struct SpanEvent {
    pub id: u64,
    pub start: u64,
    pub pid: u32,
    pub tid: u32,
    pub parent: Option<u64>,
    pub depth: u32,
    pub kind: Kind,
    pub layer: Layer,
    pub category: Category,
    pub status: Option<i64>,
    /// Its place among the batch's names.
    pub name: u32,
    /// The status's name: its place among the batch's results.
    pub result: Option<u32>,
}

/// The lines of a batch, in the order of the trace.
#[derive(Default)]
pub struct SpanBatch {
    rows: Batch,
    lines: Vec<Line>,
    names: Arc<Vec<Name>>,
    results: Arc<Vec<Name>>,
    kernels: Arc<Vec<Name>>,
    summary: Option<Summary>,
}

/// What is unpacked; the details for the summary's sake.
const WANTED: [Column; 19] = [
    Column::Ts,
    Column::Pid,
    Column::Tid,
    Column::Kind,
    Column::Layer,
    Column::Name,
    Column::Category,
    Column::Phase,
    Column::OpId,
    Column::Depth,
    Column::Parent,
    Column::Duration,
    Column::LinesInside,
    Column::Status,
    Column::Result,
    Column::Op,
    Column::Kernel,
    Column::Details,
    Column::Count,
];

impl Spans {
    /// None if it is not a trace of this version's rows.
    pub fn open(path: impl AsRef<Path>) -> Result<Option<Self>> {
        let path = path.as_ref();
        let file = File::open(path).map_err(|source| Error::Open {
            path: path.into(),
            source,
        })?;
        if !file.metadata().is_ok_and(|found| found.is_file()) {
            return Ok(None);
        }
        let mut messages = Messages::new(BufReader::with_capacity(256 << 10, file));
        let (_, Next::Message) = messages.next()? else {
            return Ok(None);
        };
        let message = arrow_ipc::root_as_message(messages.header());
        let schema = message.ok().and_then(|message| message.header_as_schema());
        let Some(Ok(plan)) = schema.map(Plan::new) else {
            return Ok(None);
        };
        Ok((plan.version == VERSION).then(|| Spans {
            meta: plan.meta.clone(),
            plan: Arc::new(plan),
            messages,
        }))
    }

    pub fn meta(&self) -> &Meta {
        &self.meta
    }

    /// Hands out all batches. They are unpacked ahead, in threads of their own.
    pub fn each(self, mut take: impl FnMut(&SpanBatch, &mut Lines)) -> Result<SpansRead> {
        let Spans {
            meta,
            plan,
            messages,
        } = self;
        thread::scope(|scope| {
            let (output, batches) = mpsc::sync_channel::<Option<SpanBatch>>(2);
            let (back, spare) = mpsc::channel::<SpanBatch>();
            let mut units = Units::new(messages, plan.clone());
            let reading = scope.spawn(move || -> Result<()> {
                let mut dictionaries = OwnDictionaries::default();
                let mut unit = Unit::default();
                loop {
                    let Some(next) = units.next(unit)? else {
                        return Ok(());
                    };
                    unit = next;
                    let mut batch = spare.try_recv().unwrap_or_default();
                    let decoded =
                        unit.warning.is_none() && batch.decode(&unit, &plan, &mut dictionaries);
                    if output.send(decoded.then_some(batch)).is_err() || !decoded {
                        return Ok(());
                    }
                }
            });
            let mut state = Lines {
                start: meta.start_ns,
                latest: 0,
                open: HashMap::default(),
                irregular: false,
            };
            let mut summary = None;
            for batch in batches {
                let Some(mut batch) = batch.filter(|_| !state.irregular && summary.is_none())
                else {
                    return Ok(SpansRead::Irregular);
                };
                take(&batch, &mut state);
                summary = batch.summary.take();
                let _ = back.send(batch);
            }
            if let Ok(read) = reading.join() {
                read?;
            }
            Ok(match summary {
                Some(summary) if !state.irregular => SpansRead::Whole(Box::new(summary)),
                _ => SpansRead::Irregular,
            })
        })
    }
}

/// What is known between batches.
pub struct Lines {
    start: u64,
    latest: u64,
    /// Spans whose ends have rows of their own: when they began.
    open: HashMap<u64, u64, ahash::RandomState>,
    irregular: bool,
}

/// A column, with what is asked of it most.
#[derive(Clone, Copy)]
struct View<'a> {
    cells: Option<&'a Cells>,
    values: &'a [u64],
}

impl<'a> View<'a> {
    #[inline]
    fn get(&self, row: usize) -> Option<u64> {
        let cells = self.cells?;
        cells.has(row).then(|| self.values[row])
    }
}

impl SpanBatch {
    /// False: not as cutrace writes it.
    fn decode(&mut self, unit: &Unit, plan: &Plan, own: &mut OwnDictionaries) -> bool {
        let Ok(message) = arrow_ipc::root_as_message(&unit.header) else {
            return false;
        };
        let Some(header) = message.header_as_record_batch() else {
            return false;
        };
        own.follow(&unit.dictionaries);
        let wanted = |column: Column, batch: &Batch| match column {
            Column::Details => batch::may_have_summary(batch),
            column => WANTED.contains(&column),
        };
        if batch::decode(header, &unit.body, plan, &wanted, own, &mut self.rows).is_err() {
            return false;
        }
        lines::order(
            self.rows.rows,
            row::lines_inside(&self.rows),
            &mut self.lines,
        );
        let details = self.rows.column(Column::Details);
        let last = details.filter(|cells| self.rows.rows > 0 && cells.has(self.rows.rows - 1));
        let last = last.and_then(|cells| row::text(cells, self.rows.rows - 1).ok());
        self.summary = last.and_then(|text| serde_json::from_str(text).ok());
        let names = |column| match self.rows.column(column).map(|cells| &cells.values) {
            Some(Values::Names { names, .. }) => Arc::clone(names),
            _ => Arc::default(),
        };
        (self.names, self.results, self.kernels) = (
            names(Column::Name),
            names(Column::Result),
            names(Column::Kernel),
        );
        true
    }

    pub fn names(&self) -> &Arc<Vec<Name>> {
        &self.names
    }

    pub fn results(&self) -> &[Name] {
        &self.results
    }

    pub fn kernels(&self) -> &Arc<Vec<Name>> {
        &self.kernels
    }

    /// Lines of it.
    pub fn len(&self) -> usize {
        self.lines.len()
    }

    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    fn view(&self, column: Column) -> View<'_> {
        let cells = self.rows.column(column);
        let values = cells.map_or(&[][..], |cells| match &cells.values {
            Values::Ints { values, .. } => values,
            Values::Names { keys, .. } => keys,
            Values::Texts { .. } => &[],
        });
        View {
            cells: cells.filter(|_| !values.is_empty()),
            values,
        }
    }

    /// The members of an enumeration by their keys in a column's dictionary; None if some are unknown.
    fn words<T>(&self, column: Column, of: impl Fn(&str) -> Option<T>) -> Option<Vec<T>> {
        match self.rows.column(column).map(|cells| &cells.values) {
            None => Some(Vec::new()),
            Some(Values::Names { names, .. }) => names.iter().map(|name| of(name)).collect(),
            Some(_) => None,
        }
    }

    /// Hands out the lines. What is not as it should be ends it, and is remembered.
    pub fn each(&self, state: &mut Lines, take: &mut impl FnMut(SpanLine)) {
        if self.lines_of(state, take).is_none() {
            state.irregular = true;
        }
    }

    fn lines_of(&self, state: &mut Lines, take: &mut impl FnMut(SpanLine)) -> Option<()> {
        let kinds = self.words(Column::Kind, |word| {
            let fields = Fields {
                kind: Some(Word::Text(word.into())),
                ..Fields::default()
            };
            fields.class().ok()
        })?;
        let layers = self.words(Column::Layer, |word| word.parse::<Layer>().ok())?;
        let categories = self.words(Column::Category, |word| word.parse::<Category>().ok())?;
        let phases = self.words(Column::Phase, |word| {
            Some(word.bytes().next().unwrap_or_default())
        })?;
        let launches = self.words(Column::Op, |word| Some(word == "launch"))?;
        let [ts, pid, tid, kind, layer, name, category, phase, id, depth] = [
            Column::Ts,
            Column::Pid,
            Column::Tid,
            Column::Kind,
            Column::Layer,
            Column::Name,
            Column::Category,
            Column::Phase,
            Column::OpId,
            Column::Depth,
        ]
        .map(|column| self.view(column));
        let [parent, duration, status, result, op, kernel] = [
            Column::Parent,
            Column::Duration,
            Column::Status,
            Column::Result,
            Column::Op,
            Column::Kernel,
        ]
        .map(|column| self.view(column));
        let small = |value: Option<u64>| u32::try_from(value.unwrap_or(0)).ok();
        for &line in &self.lines {
            let row = line.row();
            let class = *kinds.get(kind.get(row)? as usize)?;
            if class == Class::Summary {
                // Nothing comes behind it.
                if self.summary.is_none() || row + 1 != self.rows.rows {
                    return None;
                }
                continue;
            }
            let start = state.start.checked_add_signed(ts.get(row)? as i64)?;
            let what = match class {
                Class::Event(kind) => kind,
                Class::Memory | Class::Transfer | Class::Lost => {
                    state.come(start)?;
                    take(SpanLine::Other { ts: start });
                    continue;
                }
                Class::Launch | Class::Meta | Class::Summary => return None,
            };
            let is_launch = what == Kind::KernelFunction
                && (op.get(row)).is_some_and(|key| launches.get(key as usize) == Some(&true));
            if is_launch {
                state.come(start)?;
                let kernel = kernel.get(row)? as u32;
                self.kernels.get(kernel as usize)?;
                take(SpanLine::Launch { ts: start, kernel });
                continue;
            }
            let mut event = SpanEvent {
                id: id.get(row)?,
                start,
                pid: small(pid.get(row))?,
                tid: small(tid.get(row))?,
                parent: parent.get(row),
                depth: small(depth.get(row))?,
                kind: what,
                layer: match layer.get(row) {
                    Some(key) => *layers.get(key as usize)?,
                    None => what.usual_layer(),
                },
                category: match category.get(row) {
                    Some(key) => *categories.get(key as usize)?,
                    None => Category::Other,
                },
                status: None,
                name: name.get(row)? as u32,
                result: None,
            };
            self.names.get(event.name as usize)?;
            let phase = match phase.get(row) {
                Some(key) => Some(*phases.get(key as usize)?),
                None => None,
            };
            if line.is_end() || matches!(phase, Some(b'E') | None) {
                event.status = status.get(row).map(|code| code as i64);
                event.result = result.get(row).map(|key| key as u32);
            }
            match phase {
                None => {
                    state.come(start)?;
                    take(SpanLine::Instant(event));
                }
                Some(b'X') if !line.is_end() => {
                    state.come(start)?;
                    take(SpanLine::Begin(event));
                }
                Some(b'X') => {
                    let duration = duration.get(row)?;
                    state.come(start.checked_add(duration)?)?;
                    take(SpanLine::End(event, duration));
                }
                Some(b'B') => {
                    state.come(start)?;
                    // A beginning with a status would pass it on to its end.
                    if status.get(row).is_some() || state.open.insert(event.id, start).is_some() {
                        return None;
                    }
                    take(SpanLine::Begin(event));
                }
                Some(b'E') => {
                    state.come(start)?;
                    event.start = state.open.remove(&event.id)?;
                    take(SpanLine::End(event, duration.get(row)?));
                }
                Some(_) => return None,
            }
        }
        Some(())
    }
}

impl Lines {
    /// None: not in the order of time.
    #[inline]
    fn come(&mut self, ts: u64) -> Option<()> {
        if ts < self.latest {
            return None;
        }
        self.latest = ts;
        Some(())
    }
}
