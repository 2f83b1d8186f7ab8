//! Probes inside kernels as a back end: their rings become events, their maps are kept for the end.

use super::{
    allocations::Allocations,
    backend::{Backend, Watched},
    outlet::Outlet,
};
use crate::commands::gpu::LivePins;
use crate::probes::{Access, Owner, Probes, Span, accesses};
use anyhow::Result;
use capture::{
    Sink, SinkError,
    clock::monotonic,
    gpu_probe::{
        DeviceClock, Host, MapDump, Notes, Raw, RingTotals, Rings, Session, Source, Taker, dumps,
    },
};
use event::{Arg, Category, ClockError, Event, Extent, Layer, Lost, Record, Value};
use std::{
    cmp::Reverse,
    collections::{BTreeMap, BinaryHeap},
    ffi::OsString,
    path::PathBuf,
    sync::{
        Arc, Mutex,
        mpsc::{Receiver, SyncSender, sync_channel},
    },
    thread::JoinHandle,
};

/// What there is to say when the program has ended.
pub struct Found {
    pub notes: Notes,
    pub dumps: Vec<MapDump>,
    pub rings: Vec<RingTotals>,
    /// What was printed, the first of it.
    pub lines: Vec<String>,
    /// Blocks that came and went, in the device's time, the first of them.
    pub spans: Vec<(u64, u64)>,
    /// What `gpu mem` counted, with the names of what was accessed.
    pub accesses: Vec<Access>,
}

impl Found {
    /// Says of accesses in whose memory they were, now that all of it is known; what there is to note of it.
    pub fn name_accesses(&mut self, allocations: &Allocations) -> Option<String> {
        self.accesses = accesses(&self.dumps, |pid, address| {
            let (found, offset) = allocations.find(pid, address)?;
            let owner = Owner {
                name: found.name.to_string(),
                number: found.number,
                bytes: found.bytes,
                op: found.op,
                times: found.times,
            };
            Some((owner, address - offset))
        });
        (allocations.forgotten > 0).then(|| {
            format!(
                "{} allocations were not remembered: what lies in them has no name",
                allocations.forgotten
            )
        })
    }

    /// Each of them as an event at the trace's end, with ids behind all others.
    pub fn write_accesses(&self, sink: &mut impl Sink, last_id: u64) -> Result<(), SinkError> {
        let now = monotonic();
        for (access, id) in self.accesses.iter().zip(last_id.saturating_add(1)..) {
            let mut event = Event::new(id, Layer::Device, Category::Memory, "access", now);
            event.pid = access.pid;
            event.tid = access.pid;
            event.context = Some(access.context.into());
            event.args = access.details();
            sink.write(&event.into())?;
        }
        Ok(())
    }
}

const MOST_LINES: usize = 50;
const MOST_SPANS: usize = 1 << 20;

/// Where the back end leaves what it found.
pub type Place = Arc<Mutex<Option<Found>>>;

/// Bytes of records that go to the decoding thread together, and how many such wait for it.
const CHUNK: usize = 1 << 20;
const CHUNKS: usize = 1024;
/// Records of one device may come this much out of order.
const DISORDER: u64 = 20_000_000;
const MOST_KEPT: usize = 1 << 20;

pub struct ProbesBackend {
    probes: Arc<Probes>,
    session: Session,
    rings: Rings<Queue>,
    decoder: JoinHandle<Decoder>,
    place: Place,
    /// Programs of the host, running.
    host: Option<Host>,
    pins: Option<LivePins>,
}

impl ProbesBackend {
    pub fn start(probes: Arc<Probes>, mut outlet: Outlet, place: Place) -> Result<ProbesBackend> {
        let session = Session::create(&probes.orders)?;
        let host = (probes.host.as_ref()).map(|part| Host::start(part, session.folder()));
        let host = host.transpose()?;
        let pins = (probes.pin.as_ref())
            .map(|folder| LivePins::start(folder, session.folder(), &probes.orders))
            .transpose()?;
        outlet
            .begin(event::Backend {
                name: "probes".into(),
                ..event::Backend::default()
            })
            .map_err(|why| anyhow::anyhow!(why))?;
        let (sender, receiver) = sync_channel(CHUNKS);
        let queue = Queue {
            sender,
            chunk: Chunk::default(),
        };
        let rings = Rings::start(session.folder(), &probes.orders, queue)?;
        let mut decoder = Decoder::new(probes.clone(), outlet, session.folder().to_owned());
        let decoder = std::thread::Builder::new()
            .name("cutrace-gpu-decode".into())
            .spawn(move || {
                decoder.run(&receiver);
                decoder
            })?;
        Ok(ProbesBackend {
            probes,
            session,
            rings,
            decoder,
            place,
            host,
            pins,
        })
    }
}

impl Backend for ProbesBackend {
    fn environment(&mut self) -> Result<Vec<(OsString, OsString)>> {
        Ok(vec![self.session.environment()])
    }

    fn finish(self: Box<Self>) -> Option<Watched> {
        if let Some(pins) = self.pins {
            pins.finish();
        }
        let (queue, rings) = self.rings.finish();
        drop(queue);
        let decoder = self.decoder.join();
        let mut decoder = decoder.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        let mut notes = Notes::read(self.session.folder());
        let mut dumps = dumps(
            self.session.folder(),
            &self.probes.orders,
            |pid, context| {
                notes
                    .contexts
                    .get(&(pid, context))
                    .map_or(1, |found| found.1)
            },
        );
        if let Some(found) = self.host.map(Host::finish) {
            dumps.extend(found.maps);
            notes.words.extend(found.notes);
        }
        decoder.lost(&dumps);
        let clocks = (notes.clocks.values())
            .map(|clock| ClockError {
                source: "globaltimer".into(),
                error_ns: clock.error(),
                pairs: clock.pairs() as u32,
            })
            .collect();
        let (lines, spans) = (
            std::mem::take(&mut decoder.lines),
            std::mem::take(&mut decoder.spans),
        );
        let watched = Watched {
            clocks,
            notes: super::super::gpu::notes(&self.probes, &notes, &dumps, &rings),
            unwritten: decoder.unwritten,
            failure: decoder.failure,
            ..Watched::new(decoder.outlet)
        };
        let found = Found {
            notes,
            dumps,
            rings,
            lines,
            spans,
            accesses: Vec::new(),
        };
        *self
            .place
            .lock()
            .unwrap_or_else(|broken| broken.into_inner()) = Some(found);
        Some(watched)
    }
}

#[derive(Default)]
struct Chunk {
    /// Records of one ring and one size, and how many follow each other.
    runs: Vec<(Source, u32, u32)>,
    data: Vec<u8>,
}

/// Copies records out of the rings as fast as they come.
struct Queue {
    sender: SyncSender<Chunk>,
    chunk: Chunk,
}

impl Taker for Queue {
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
struct Decoder {
    probes: Arc<Probes>,
    outlet: Outlet,
    folder: PathBuf,
    clocks: BTreeMap<(u32, u32), DeviceClock>,
    devices: BTreeMap<(u32, u32), u32>,
    waiting: BinaryHeap<Reverse<Waiting>>,
    newest: u64,
    /// Of records, so that those of one moment stay in order.
    count: u64,
    next: u64,
    lines: Vec<String>,
    spans: Vec<(u64, u64)>,
    unwritten: u64,
    failure: Option<SinkError>,
}

/// The event is elsewhere: what is ordered is moved often.
struct Waiting(u64, u64, Box<Event>);

impl PartialEq for Waiting {
    fn eq(&self, other: &Self) -> bool {
        (self.0, self.1) == (other.0, other.1)
    }
}
impl Eq for Waiting {}
impl PartialOrd for Waiting {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Waiting {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.0, self.1).cmp(&(other.0, other.1))
    }
}

impl Decoder {
    fn new(probes: Arc<Probes>, outlet: Outlet, folder: PathBuf) -> Decoder {
        Decoder {
            probes,
            outlet,
            folder,
            clocks: BTreeMap::new(),
            devices: BTreeMap::new(),
            waiting: BinaryHeap::new(),
            newest: 0,
            count: 0,
            next: 0,
            lines: Vec::new(),
            spans: Vec::new(),
            unwritten: 0,
            failure: None,
        }
    }

    fn run(&mut self, chunks: &Receiver<Chunk>) {
        for chunk in chunks {
            let arrived = monotonic();
            let mut data = chunk.data.as_slice();
            for (source, bytes, count) in chunk.runs {
                for _ in 0..count {
                    let (record, rest) = data.split_at(bytes as usize);
                    data = rest;
                    self.record(source, record, arrived);
                }
            }
            self.write_up_to(self.newest.saturating_sub(DISORDER));
        }
        self.write_up_to(u64::MAX);
    }

    fn record(&mut self, source: Source, data: &[u8], arrived: u64) {
        let key = (source.pid, source.context);
        if !self.clocks.contains_key(&key) {
            // Noted before the context's first kernel could run.
            let notes = Notes::read(&self.folder);
            self.clocks
                .insert(key, notes.clocks.get(&key).cloned().unwrap_or_default());
            let device = notes.contexts.get(&key).map_or(0, |found| found.0);
            self.devices.insert(key, device);
        }
        if let Some(span) = self.probes.span(data) {
            return self.span(source, span, arrived);
        }
        let (name, fields) = match source.map {
            Some(map) => {
                let decoded = self.probes.decode(map, data);
                (decoded.name, decoded.fields)
            }
            None => {
                let words: Vec<u64> = data
                    .chunks_exact(8)
                    .map(|chunk| u64::from_le_bytes(chunk.try_into().unwrap_or_default()))
                    .collect();
                let (Some(thread), Some(text)) = (words.first(), words.get(1)) else {
                    return;
                };
                let line = self.probes.line(*text, words.get(2..).unwrap_or(&[]));
                if self.lines.len() < MOST_LINES {
                    self.lines.push(line.clone());
                }
                (
                    "printk".into(),
                    vec![Arg::new("thread", *thread), Arg::new("text", line)],
                )
            }
        };
        let clock = &self.clocks[&key];
        let start = time_of(&fields)
            .and_then(|time| on_host(clock, time, arrived))
            .unwrap_or(arrived);
        self.next += 1;
        let mut event = Event::new(self.next, Layer::Device, Category::Kernel, name, start);
        event.pid = source.pid;
        event.tid = source.pid;
        event.device = self.devices.get(&key).copied();
        event.context = Some(source.context.into());
        event.args = fields;
        self.keep(start, event);
    }

    fn keep(&mut self, time: u64, event: Event) {
        self.newest = self.newest.max(time);
        self.count += 1;
        self.waiting
            .push(Reverse(Waiting(time, self.count, Box::new(event))));
        if self.waiting.len() > MOST_KEPT {
            self.write_one();
        }
    }

    /// A block: its beginning and its end.
    fn span(&mut self, source: Source, span: Span, arrived: u64) {
        let key = (source.pid, source.context);
        let clock = &self.clocks[&key];
        let (Some(start), Some(end)) = (
            on_host(clock, span.start, arrived),
            on_host(clock, span.end, arrived),
        ) else {
            return;
        };
        if self.spans.len() < MOST_SPANS {
            self.spans.push((span.start, span.end));
        }
        self.next += 1;
        let mut event = Event::new(self.next, Layer::Device, Category::Kernel, "block", start);
        event.pid = source.pid;
        event.tid = source.pid;
        event.cpu = Some(span.sm);
        event.device = self.devices.get(&key).copied();
        event.context = Some(source.context.into());
        event.args = vec![
            Arg::new("block", span.block),
            Arg::new("sm", span.sm),
            Arg::new("warp", span.warp),
        ];
        event.extent = Extent::Open;
        self.keep(start, event.clone());
        event.extent = Extent::Closed(end.saturating_sub(start));
        self.keep(end.max(start), event);
    }

    fn write_up_to(&mut self, time: u64) {
        while self.waiting.peek().is_some_and(|first| first.0.0 <= time) {
            self.write_one();
        }
        self.outlet.until(time.min(self.newest));
    }

    fn write_one(&mut self) {
        if let Some(Reverse(Waiting(_, _, event))) = self.waiting.pop() {
            self.write((*event).into());
        }
    }

    fn write(&mut self, record: Record) {
        if self.failure.is_some() {
            self.unwritten += 1;
        } else if let Err(why) = self.outlet.write(&record) {
            self.failure = Some(why);
            self.unwritten += 1;
        }
    }

    /// What rings had no room for is in the trace too.
    fn lost(&mut self, dumps: &[MapDump]) {
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
                self.write(record.into());
            }
        }
    }
}

/// The field that says when: the first whole number that is called so.
fn time_of(fields: &[Arg]) -> Option<u64> {
    let is_time = |name: &str| {
        let has = |word: &str| {
            let mut places = name.as_bytes().windows(word.len());
            places.any(|place| place.eq_ignore_ascii_case(word.as_bytes()))
        };
        let ends =
            name.len() >= 3 && name.as_bytes()[name.len() - 3..].eq_ignore_ascii_case(b"_ns");
        name.eq_ignore_ascii_case("ts") || has("time") || ends || has("clock")
    };
    let mut times = fields.iter().filter(|field| is_time(&field.name));
    times.find_map(|field| match field.value {
        Value::Uint(number) if number > 0 => Some(number),
        _ => None,
    })
}

/// A device's time, or one of the host already.
fn on_host(clock: &DeviceClock, time: u64, now: u64) -> Option<u64> {
    const NEAR: u64 = 3_600_000_000_000;
    let mapped = clock.host(time).filter(|host| host.abs_diff(now) < NEAR);
    mapped.or_else(|| (time.abs_diff(now) < NEAR).then_some(time))
}
