//! The event buffers of the machine's GPUs, and the thread that reads them.

use super::record::{BYTES, Switch, SwitchPhase, decode};
use super::rm::{Client, Gpu, Mapped, RmError};
use crate::clock::monotonic;
use crate::ordered_writer::OrderedWriter;
use crate::{Deadline, Sink, SinkError};
use event::{
    Arg, Backend, Category, ClockError, ClockMap, ClockPair, ClockRules, Event, Extent, Kind,
    Layer, Lost, Record,
};
use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// Records of a buffer.
const RECORDS: u32 = 8192;
/// How often buffers are read.
const ROUND: Duration = Duration::from_millis(20);
/// How long a record waits for earlier ones: the driver hands them on now and then.
const HELD: u64 = 500_000_000;
/// Rounds after the command's end: its last records are on their way.
const AFTERWARDS: u32 = 10;
/// Contexts that have a GPU at a time, at most.
const MOST_OPEN: usize = 4096;

const EVENT_BUFFER: u32 = 0x90cd;
const ENABLE_EVENTS: u32 = 0x90cd_0101;
const UPDATE_GET: u32 = 0x90cd_0102;
const BIND: u32 = 0x2080_1238;
/// Full buffers keep what they have: what is dropped then is counted.
const KEEP_OLDEST: u32 = 1;

/// Watches the GPUs' context switches.
pub struct FecsWatch<S> {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<(S, FecsReport)>,
}

/// What came of it.
#[derive(Debug, Default)]
pub struct FecsReport {
    pub gpus: usize,
    pub events: u64,
    pub lost: u64,
    /// What the driver refused.
    pub refused: Option<RmError>,
    pub clocks: Vec<ClockError>,
    pub unwritten: u64,
    pub failure: Option<SinkError>,
}

/// Whether there is a driver that may offer it.
pub fn available() -> Result<(), RmError> {
    Buffers::open(Client::open()?).map(drop)
}

impl<S: Sink> FecsWatch<S> {
    pub fn start(sink: S, deadline: Deadline) -> io::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let thread = std::thread::Builder::new()
            .name("cutrace-fecs".into())
            .spawn(move || {
                crate::launch::block_signals();
                Watching::new(OrderedWriter::new(sink, deadline)).run(&stopped)
            })?;
        Ok(FecsWatch { stop, thread })
    }

    pub fn finish(self) -> (S, FecsReport) {
        self.stop.store(true, Ordering::Release);
        self.thread
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

/// A buffer for each GPU.
struct Buffers {
    client: Client,
    list: Vec<Buffer>,
}

struct Buffer {
    gpu: Gpu,
    handle: u32,
    header: Mapped,
    records: Mapped,
    get: u32,
    dropped: u64,
    clock: ClockMap,
}

impl Buffers {
    fn open(client: Client) -> Result<Buffers, RmError> {
        let mut list = Vec::new();
        for gpu in client.gpus()? {
            list.push(Buffer::open(&client, gpu)?);
        }
        Ok(Buffers { client, list })
    }
}

impl Buffer {
    fn open(client: &Client, gpu: Gpu) -> Result<Buffer, RmError> {
        let (header_handle, header) = client.memory(gpu, 4096)?;
        let (records_handle, records) = client.memory(gpu, RECORDS as usize * BYTES)?;
        let mut params = [0u8; 72];
        for (place, value) in [
            (16, BYTES as u32),
            (20, RECORDS),
            (36, RECORDS / 2),
            (52, gpu.subdevice),
            (60, header_handle),
            (64, records_handle),
        ] {
            params[place..place + 4].copy_from_slice(&value.to_le_bytes());
        }
        let what = "creating an event buffer";
        let handle = client.allocate(client.root(), EVENT_BUFFER, &mut params, what)?;
        let bind = |everybody: u8| {
            let mut params = [0u8; 24];
            params[..4].copy_from_slice(&handle.to_le_bytes());
            params[4..8].copy_from_slice(&(BYTES as u32).to_le_bytes());
            params[16] = everybody;
            client.control(gpu.subdevice, BIND, &mut params, "context switches")
        };
        // Other users' too, if we may.
        bind(1).or_else(|_| bind(0))?;
        let mut params = [1, 0, 0, 0, 0, 0, 0, 0];
        params[4..].copy_from_slice(&KEEP_OLDEST.to_le_bytes());
        client.control(
            handle,
            ENABLE_EVENTS,
            &mut params,
            "enabling the event buffer",
        )?;
        Ok(Buffer {
            gpu,
            handle,
            header,
            records,
            get: 0,
            dropped: 0,
            clock: ClockMap::new(ClockRules::NOISY),
        })
    }

    /// One more reading of the GPU's clock, the tightest of a few.
    fn pair(&mut self, client: &Client) -> Result<(), RmError> {
        let mut readings = Vec::new();
        for _ in 0..3 {
            let before = monotonic();
            let time = client.gpu_time(self.gpu)?;
            readings.extend(ClockPair::around(before, time, monotonic()));
        }
        if let Some(best) = ClockPair::tightest(readings) {
            self.clock.add(best);
        }
        Ok(())
    }

    /// Takes what the driver has put in.
    fn drain(&mut self, client: &Client) -> Vec<Switch> {
        let put = self.header.word(4) % RECORDS;
        let mut found = Vec::new();
        let mut bytes = [0u8; BYTES];
        while self.get != put {
            self.records.copy(self.get as usize * BYTES, &mut bytes);
            found.extend(decode(&bytes));
            self.get = (self.get + 1) % RECORDS;
        }
        if !found.is_empty() {
            let mut params = [0u8; 8];
            params[..4].copy_from_slice(&self.get.to_le_bytes());
            // Refused, the buffer fills up, and what is dropped is counted.
            let _ = client.control(self.handle, UPDATE_GET, &mut params, "reading");
        }
        found
    }

    fn newly_dropped(&mut self) -> u64 {
        let all = self.header.long(16);
        let new = all.wrapping_sub(self.dropped);
        self.dropped = all;
        new
    }
}

struct Watching<S> {
    held: OrderedWriter<S>,
    /// When a context got a GPU, by the GPU's clock.
    open: HashMap<(u32, u32, u32), u64>,
    next_id: u64,
    report: FecsReport,
}

impl<S: Sink> Watching<S> {
    fn new(held: OrderedWriter<S>) -> Self {
        Watching {
            held,
            open: HashMap::new(),
            next_id: 1,
            report: FecsReport::default(),
        }
    }

    fn run(mut self, stop: &AtomicBool) -> (S, FecsReport) {
        let backend = Backend {
            name: "fecs".into(),
            ..Backend::default()
        };
        if let Err(why) = self.held.sink.begin(backend) {
            self.held.failure = Some(why);
        }
        match Client::open().and_then(Buffers::open) {
            Ok(mut buffers) => self.watch(&mut buffers, stop),
            Err(why) => self.report.refused = Some(why),
        }
        self.held.release(u64::MAX);
        self.report.events = self.held.events;
        self.report.unwritten = self.held.unwritten;
        self.report.failure = self.held.failure;
        (self.held.sink, self.report)
    }

    fn watch(&mut self, buffers: &mut Buffers, stop: &AtomicBool) {
        self.report.gpus = buffers.list.len();
        let mut afterwards = 0;
        while afterwards < AFTERWARDS {
            afterwards += u32::from(stop.load(Ordering::Acquire));
            for buffer in &mut buffers.list {
                if let Err(why) = buffer.pair(&buffers.client) {
                    self.report.refused.get_or_insert(why);
                }
                let switches = buffer.drain(&buffers.client);
                let mut dropped = buffer.newly_dropped();
                if buffer.clock.is_known() {
                    let (gpu, clock) = (buffer.gpu.index, &buffer.clock);
                    switches.iter().for_each(|one| self.switch(gpu, one, clock));
                } else {
                    // Without the GPU's clock nobody knows when.
                    dropped += switches.len() as u64;
                }
                if dropped > 0 {
                    self.report.lost += dropped;
                    self.held.push(Record::Lost(Lost {
                        ts: monotonic(),
                        count: dropped,
                        source: Some("fecs".into()),
                        layer: Some(Layer::Gpu),
                        pid: None,
                        tid: None,
                    }));
                }
            }
            self.held.release(monotonic().saturating_sub(HELD));
            std::thread::sleep(ROUND);
        }
        for buffer in &buffers.list {
            if buffer.clock.is_known() {
                self.report.clocks.push(ClockError {
                    source: format!("GPU {}", buffer.gpu.index).into(),
                    error_ns: buffer.clock.error(),
                    pairs: buffer.clock.pairs(),
                });
            }
        }
    }

    fn switch(&mut self, gpu: u32, switch: &Switch, clock: &ClockMap) {
        let key = (gpu, switch.context, switch.pid);
        match switch.step {
            SwitchPhase::Begin if self.open.len() < MOST_OPEN => {
                self.open.insert(key, switch.time);
            }
            SwitchPhase::Begin | SwitchPhase::Other(_) => {}
            SwitchPhase::End => {
                let began = self.open.remove(&key);
                let (Some(start), Some(end)) = (
                    began.and_then(|began| clock.to_host(began)),
                    clock.to_host(switch.time),
                ) else {
                    return;
                };
                let name = "context on the GPU";
                let mut event =
                    Event::new(self.next_id, Layer::Gpu, Category::Context, name, start);
                event.kind = Kind::GpuContext;
                event.extent = Extent::Closed(end.saturating_sub(start));
                event.device = Some(gpu);
                // The driver's own have none.
                event.pid = if switch.pid == u32::MAX {
                    0
                } else {
                    switch.pid
                };
                event.outputs = vec![Arg::new("tsg", u64::from(switch.context))];
                self.next_id += 1;
                self.held.push_whole(event);
            }
        }
    }
}
