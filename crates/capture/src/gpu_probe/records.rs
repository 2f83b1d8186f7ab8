//! Records of probes' rings on their way to the trace: copied out of the rings as fast as they come, decoded
//! in a thread of their own, and brought into the order of time.

use super::{
    DeviceClock, MapDump, Notes, Raw, RecordHandler, RingOwner,
    programs::{Probes, Reading, Span, Stopped, ThreadSpan},
};
use crate::{Sink, SinkError, clock::monotonic, source::Outlet};
use event::{Arg, Category, Event, Extent, Layer, Lost, Name, Record, Reorder};
use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::{
        Arc,
        mpsc::{Receiver, RecvTimeoutError, SyncSender},
    },
    time::Duration,
};

/// Bytes of records that go to the decoding thread together, and how many such wait for it.
const CHUNK: usize = 1 << 20;
pub const CHUNKS: usize = 1024;
/// Records of one device may come this much out of order.
const DISORDER: u64 = 20_000_000;
/// After so long without records, all that have come are written.
const QUIET: Duration = Duration::from_millis(50);
const MOST_KEPT: usize = 1 << 20;
/// Printed lines and blocks that are kept for the end.
const MOST_LINES: usize = 50;
const MOST_SPANS: usize = 1 << 20;

#[derive(Default)]
pub struct Chunk {
    /// Records of one ring and one size, and how many follow each other.
    runs: Vec<(RingOwner, u32, u32)>,
    data: Vec<u8>,
}

/// Copies records out of the rings.
pub struct Queue {
    sender: SyncSender<Chunk>,
    chunk: Chunk,
}

impl Queue {
    pub fn new(sender: SyncSender<Chunk>) -> Queue {
        Queue {
            sender,
            chunk: Chunk::default(),
        }
    }
}

impl RecordHandler for Queue {
    fn take(&mut self, raw: Raw) {
        let bytes = raw.data.len() as u32;
        match self.chunk.runs.last_mut() {
            Some((source, size, count)) if *source == raw.source && *size == bytes => *count += 1,
            _ => self.chunk.runs.push((raw.source, bytes, 1)),
        }
        self.chunk.data.extend_from_slice(raw.data);
        if self.chunk.data.len() >= CHUNK {
            self.rest();
        }
    }

    fn rest(&mut self) {
        if !self.chunk.runs.is_empty() {
            let next = Chunk {
                runs: Vec::new(),
                data: Vec::with_capacity(CHUNK + CHUNK / 8),
            };
            let _ = self.sender.send(std::mem::replace(&mut self.chunk, next));
        }
    }
}

/// Turns records into events, in the order of time as far as the device keeps it.
pub struct Decoder {
    probes: Arc<Probes>,
    pub outlet: Outlet,
    folder: PathBuf,
    devices: BTreeMap<(u32, u32), Arc<Device>>,
    /// By ring and bytes of a record.
    readings: BTreeMap<(Option<usize>, u32), Arc<Reading>>,
    waiting: Reorder<Event>,
    next: u64,
    pub lines: Vec<String>,
    pub spans: Vec<(u64, u64)>,
    pub unwritten: u64,
    pub failure: Option<SinkError>,
}

/// Where a context's records come from.
#[derive(Default)]
struct Device {
    number: u32,
    clock: DeviceClock,
}

impl Decoder {
    pub fn new(probes: Arc<Probes>, outlet: Outlet, folder: PathBuf) -> Decoder {
        Decoder {
            probes,
            outlet,
            folder,
            devices: BTreeMap::new(),
            readings: BTreeMap::new(),
            waiting: Reorder::new(MOST_KEPT),
            next: 0,
            lines: Vec::new(),
            spans: Vec::new(),
            unwritten: 0,
            failure: None,
        }
    }

    pub fn run(&mut self, chunks: &Receiver<Chunk>) {
        loop {
            let chunk = match chunks.recv_timeout(QUIET) {
                Ok(chunk) => chunk,
                // Nothing comes that would be older: what waits for it may go.
                Err(RecvTimeoutError::Timeout) => {
                    self.write_up_to(monotonic().saturating_sub(DISORDER));
                    continue;
                }
                Err(RecvTimeoutError::Disconnected) => break,
            };
            let arrived = monotonic();
            // Who writes events of the last chunk counts at its names.
            for reading in self.readings.values_mut() {
                *reading = Arc::new(reading.fresh());
            }
            let mut data = chunk.data.as_slice();
            for (source, bytes, count) in chunk.runs {
                let device = self.device(source);
                let reading = self.reading(source.map, bytes);
                for _ in 0..count {
                    let (record, rest) = data.split_at(bytes as usize);
                    data = rest;
                    self.record(source, &device, &reading, record, arrived);
                }
            }
            self.write_up_to(self.waiting.newest().saturating_sub(DISORDER));
        }
        self.write_up_to(u64::MAX);
    }

    fn device(&mut self, source: RingOwner) -> Arc<Device> {
        let key = (source.pid, source.context);
        let device = self.devices.entry(key).or_insert_with(|| {
            // Noted before the context's first kernel could run.
            let notes = Notes::read(&self.folder);
            Arc::new(Device {
                number: notes.contexts.get(&key).map_or(0, |found| found.0),
                clock: notes.clocks.get(&key).cloned().unwrap_or_default(),
            })
        });
        device.clone()
    }

    fn reading(&mut self, map: Option<usize>, bytes: u32) -> Arc<Reading> {
        let reading = self.readings.entry((map, bytes)).or_insert_with(|| {
            Arc::new(match map {
                Some(map) => self.probes.reading(map, bytes as usize),
                None => Reading::Bytes("printk".into()),
            })
        });
        reading.clone()
    }

    fn record(
        &mut self,
        source: RingOwner,
        device: &Device,
        reading: &Reading,
        data: &[u8],
        arrived: u64,
    ) {
        if source.map.is_none() {
            return self.line(source, device, reading, data, arrived);
        }
        match reading {
            Reading::Span => {
                if let Some(span) = Span::read(data) {
                    self.block(source, device, span, arrived);
                }
                return;
            }
            Reading::ThreadSpan => {
                if let Some(span) = ThreadSpan::read(data) {
                    self.thread(source, device, span, arrived);
                }
                return;
            }
            Reading::Struct(_) | Reading::Bytes(_) => {}
        }
        let decoded = self.probes.decode(reading, data);
        let start = (decoded.time)
            .and_then(|time| on_host(&device.clock, time, arrived))
            .unwrap_or(arrived);
        let mut event = self.event(source, device, decoded.name, start);
        event.args = decoded.fields;
        self.keep(start, event);
    }

    /// What was printed: the thread, the text's number, and its values.
    fn line(
        &mut self,
        source: RingOwner,
        device: &Device,
        reading: &Reading,
        data: &[u8],
        arrived: u64,
    ) {
        let words: Vec<u64> = data
            .chunks_exact(8)
            .map(|chunk| u64::from_le_bytes(chunk.try_into().unwrap_or_default()))
            .collect();
        let (Some(thread), Some(text), Reading::Bytes(name)) =
            (words.first(), words.get(1), reading)
        else {
            return;
        };
        let mut line = self.probes.line(*text, words.get(2..).unwrap_or(&[]));
        // It is a line anyway.
        line.truncate(line.trim_end_matches('\n').len());
        if self.lines.len() < MOST_LINES {
            self.lines.push(line.clone());
        }
        let mut event = self.event(source, device, name.clone(), arrived);
        event.args = vec![Arg::new("thread", *thread), Arg::new("text", line)];
        self.keep(arrived, event);
    }

    fn event(&mut self, source: RingOwner, device: &Device, name: Name, start: u64) -> Event {
        self.next += 1;
        let mut event = Event::new(self.next, Layer::Device, Category::Kernel, name, start);
        event.pid = source.pid;
        event.tid = source.pid;
        event.device = Some(device.number);
        event.context = Some(source.context.into());
        event
    }

    fn keep(&mut self, time: u64, event: Event) {
        self.waiting.push(time, event);
        if self.waiting.is_full() {
            self.write_out(0);
        }
    }

    /// A block: its beginning and its end.
    fn block(&mut self, source: RingOwner, device: &Device, span: Span, arrived: u64) {
        if self.spans.len() < MOST_SPANS {
            self.spans.push((span.start, span.end));
        }
        let fields = vec![
            Arg::new("block", span.block),
            Arg::new("sm", span.sm),
            Arg::new("warp", span.warp),
        ];
        let times = (span.start, span.end);
        self.span(source, device, ("block", span.sm, fields), times, arrived);
    }

    /// A thread, likewise.
    fn thread(&mut self, source: RingOwner, device: &Device, span: ThreadSpan, arrived: u64) {
        let mut fields = Vec::with_capacity(9);
        for (names, place) in [
            (["block_x", "block_y", "block_z"], span.block),
            (["thread_x", "thread_y", "thread_z"], span.thread),
        ] {
            fields.extend(
                names
                    .into_iter()
                    .zip(place)
                    .map(|(name, at)| Arg::new(name, at)),
            );
        }
        fields.push(Arg::new("sm", span.sm));
        fields.push(Arg::new("warp", span.warp));
        fields.push(Arg::new("lane", span.lane));
        let times = (span.start, span.end);
        self.span(source, device, ("thread", span.sm, fields), times, arrived);
    }

    /// What ran on a multiprocessor: its beginning and its end.
    fn span(
        &mut self,
        source: RingOwner,
        device: &Device,
        (name, sm, fields): (&str, u32, Vec<Arg>),
        (start, end): (u64, u64),
        arrived: u64,
    ) {
        let (Some(start), Some(end)) = (
            on_host(&device.clock, start, arrived),
            on_host(&device.clock, end, arrived),
        ) else {
            return;
        };
        let mut event = self.event(source, device, name.into(), start);
        event.cpu = Some(sm);
        event.args = fields;
        event.extent = Extent::Open;
        self.keep(start, event.clone());
        event.extent = Extent::Closed(end.saturating_sub(start));
        self.keep(end.max(start), event);
    }

    fn write_up_to(&mut self, time: u64) {
        self.write_out(time);
        self.outlet.until(time.min(self.waiting.newest()));
    }

    fn write_out(&mut self, time: u64) {
        while let Some((_, event)) = self.waiting.next(time) {
            write(
                &mut self.outlet,
                event.into(),
                &mut self.failure,
                &mut self.unwritten,
            );
        }
    }

    /// Programs that used up their budget, each as an event at the end.
    pub fn stopped(&mut self, stopped: &[Stopped]) {
        for one in stopped {
            self.next += 1;
            let now = monotonic();
            let mut event = Event::new(self.next, Layer::Device, Category::Kernel, "stopped", now);
            event.pid = one.pid;
            event.tid = one.pid;
            event.context = Some(one.context.into());
            event.args = vec![
                Arg::new("program", one.program.as_str()),
                Arg::new("threads", one.threads),
                Arg::new("budget", one.rounds),
            ];
            write(
                &mut self.outlet,
                event.into(),
                &mut self.failure,
                &mut self.unwritten,
            );
        }
    }

    /// What rings had no room for is in the trace too.
    pub fn lost(&mut self, dumps: &[MapDump]) {
        for dump in dumps {
            let lost = dump.ring().map_or(0, |ring| ring.lost);
            if lost > 0 {
                let name = dump.map.map_or("printk", |map| self.probes.map_name(map));
                let record = Lost {
                    ts: monotonic(),
                    count: lost,
                    source: Some(format!("gpu ring {name}").into()),
                    layer: Some(Layer::Device),
                    pid: Some(dump.pid),
                    tid: None,
                };
                write(
                    &mut self.outlet,
                    record.into(),
                    &mut self.failure,
                    &mut self.unwritten,
                );
            }
        }
    }
}

fn write(
    outlet: &mut Outlet,
    record: Record,
    failure: &mut Option<SinkError>,
    unwritten: &mut u64,
) {
    if failure.is_some() {
        *unwritten += 1;
    } else if let Err(why) = outlet.give(record) {
        *failure = Some(why);
        *unwritten += 1;
    }
}

/// A device's time, or one of the host already.
fn on_host(clock: &DeviceClock, time: u64, now: u64) -> Option<u64> {
    const NEAR: u64 = 3_600_000_000_000;
    let mapped = clock.host(time).filter(|host| host.abs_diff(now) < NEAR);
    mapped.or_else(|| (time.abs_diff(now) < NEAR).then_some(time))
}
