//! Perfetto's own format, with all there is: processes and threads, streams of each GPU, which
//! call submitted which work, memory and copies as counters.
//!
//! Calls are track events; GPU work is `GpuRenderStageEvent`s, so that Perfetto knows it as GPU
//! slices. A call and its work share the correlation id (`gpu_correlation`).

mod interning;
mod schema;

use crate::{
    Output,
    counters::{Counter, Counters, Of},
    processes,
    tracks::{Track, Tracks, label, submits},
};
use ahash::{HashMap, HashSet};
use event::{Arg, Event, Extent, Kind, Layer, Meta, Name, ProcessName, Record, Summary, Value};
use interning::Interning;
use prost::{Message, encoding::encode_varint};
use schema::{
    Annotated, CUDA, Clock, ClockSnapshot, CounterDescriptor, DebugAnnotation, ExtraData, Gpu,
    GpuCorrelation, GpuInfo, GpuRenderStageEvent, ProcessDescriptor, ThreadDescriptor, TracePacket,
    TracePacketDefaults, TrackDescriptor, TrackEvent,
};
use std::io::{self, Write};

/// Packets of one sequence share their interned strings: there is one writer, and one sequence.
const SEQUENCE: u32 = 1;
/// Set in the ids of counters' tracks; processes' and threads' are made of their ids.
const COUNTERS: u64 = 1 << 63;
/// Set in the ids of tracks that are neither threads nor streams.
const BESIDE: u64 = 1 << 61;

pub struct Perfetto<W: Write> {
    writer: W,
    bytes: Vec<u8>,
    meta: Meta,
    begun: bool,
    tracks: Tracks,
    described: HashSet<u64>,
    /// Tracks of processes, whose names are known at the end.
    processes: Vec<(u64, u32)>,
    counter_tracks: HashMap<(Of, String), u64>,
    beside_tracks: HashMap<Track, u64>,
    /// Spans on those that have begun.
    begun_beside: HashSet<u64>,
    interning: Interning,
    counters: Counters,
    /// GPU work that has begun: what never ends is drawn to the trace's end.
    unfinished: HashMap<u64, (Event, Track)>,
    /// Names of our own annotations.
    own: OwnNames,
}

struct OwnNames {
    op_id: Name,
    layer: Name,
    stream: Name,
    device: Name,
    result: Name,
    status: Name,
    count: Name,
    lost: Name,
}

impl<W: Write> Perfetto<W> {
    pub fn new(writer: W, meta: &Meta) -> Self {
        Perfetto {
            writer,
            bytes: Vec::new(),
            meta: meta.clone(),
            begun: false,
            tracks: Tracks::default(),
            described: HashSet::default(),
            processes: Vec::new(),
            counter_tracks: HashMap::default(),
            beside_tracks: HashMap::default(),
            begun_beside: HashSet::default(),
            interning: Interning::default(),
            counters: Counters::default(),
            unfinished: HashMap::default(),
            own: OwnNames {
                op_id: "op_id".into(),
                layer: "layer".into(),
                stream: "stream".into(),
                device: "device".into(),
                result: "result".into(),
                status: "status".into(),
                count: "count".into(),
                lost: "events lost".into(),
            },
        }
    }

    fn event(&mut self, event: &Event) -> io::Result<()> {
        if event.kind == Kind::Counter {
            self.counters.event(event);
            return self.counts();
        }
        let track = self.tracks.of(event);
        match track {
            Track::Thread { pid, tid } => {
                let track = self.thread(pid, tid)?;
                self.call(event, track)?;
            }
            Track::Beside { .. } => self.beside(event, track)?,
            Track::Stream { .. } => match event.extent {
                Extent::Open => {
                    self.unfinished.insert(event.id, (event.clone(), track));
                }
                Extent::Closed(duration) => {
                    self.unfinished.remove(&event.id);
                    self.work(event, track, duration)?;
                }
                Extent::Instant => self.work(event, track, 0)?,
            },
        }
        self.counters.event(event);
        self.counts()
    }

    /// Its beginning may be told only with its end.
    fn beside(&mut self, event: &Event, track: Track) -> io::Result<()> {
        let Track::Beside { pid, what, lane } = track else {
            return Ok(());
        };
        let process = self.process(pid)?;
        let next = BESIDE | self.beside_tracks.len() as u64;
        let uuid = *self.beside_tracks.entry(track).or_insert(next);
        if self.described.insert(uuid) {
            self.describe(TrackDescriptor {
                uuid: Some(uuid),
                parent_uuid: Some(process),
                name: Some(what.name(lane)),
                ..TrackDescriptor::default()
            })?;
        }
        match event.extent {
            Extent::Open => {
                self.begun_beside.insert(event.id);
            }
            Extent::Closed(_) if !self.begun_beside.remove(&event.id) => {
                let mut begin = event.clone();
                begin.extent = Extent::Open;
                self.call(&begin, uuid)?;
            }
            Extent::Closed(_) | Extent::Instant => {}
        }
        self.call(event, uuid)
    }

    fn call(&mut self, event: &Event, track: u64) -> io::Result<()> {
        let (kind, moment) = match event.extent {
            Extent::Open => (schema::SLICE_BEGIN, event.start),
            Extent::Closed(_) => (schema::SLICE_END, event.end().unwrap_or(event.start)),
            Extent::Instant => (schema::INSTANT, event.start),
        };
        let begins = kind != schema::SLICE_END;
        let mut slice = TrackEvent {
            kind: Some(kind),
            track_uuid: Some(track),
            ..TrackEvent::default()
        };
        if begins {
            slice.name_iid = Some(self.interning.name(label(event)));
            let category = self.interning.category(event.category.as_str());
            slice.category_iids = vec![category];
            if matches!(event.layer, Layer::Runtime | Layer::Driver) {
                slice.gpu_api = Some(CUDA);
                slice.gpu_correlation = submitted(event);
            }
        }
        slice.debug_annotations = self.annotations(event, begins);
        self.packet(moment, |packet| packet.track_event = Some(slice))
    }

    /// Work is one packet, made when it ends.
    fn work(&mut self, event: &Event, track: Track, duration: u64) -> io::Result<()> {
        let Track::Stream {
            device,
            pid,
            context,
            stream,
            lane,
        } = track
        else {
            return Ok(());
        };
        let queue = self
            .interning
            .queue(track, || Track::stream_name(stream, lane));
        let stage = self.interning.stage(&event.name, event.category.as_str());
        let context = self.interning.context(pid, context);
        let extra = event.args.iter().chain(&event.outputs);
        let work = GpuRenderStageEvent {
            event_id: Some(event.correlation.unwrap_or(event.id)),
            duration: Some(duration),
            hw_queue_iid: Some(queue),
            stage_iid: Some(stage),
            gpu_id: Some(device as i32),
            context: Some(context),
            name: Some(event.name.to_string()),
            extra_data: extra
                .map(|arg| ExtraData {
                    name: Some(arg.name.to_string()),
                    value: Some(text(&arg.value)),
                })
                .collect(),
        };
        self.packet(event.start, |packet| {
            packet.gpu_render_stage_event = Some(work);
        })
    }

    fn annotations(&mut self, event: &Event, begins: bool) -> Vec<DebugAnnotation> {
        let mut all = Vec::new();
        let ended = event.extent != Extent::Open;
        if begins {
            let (op_id, layer) = (self.own.op_id.clone(), self.own.layer.clone());
            all.push(self.annotation(&op_id, &Value::Uint(event.id)));
            all.push(self.annotation(&layer, &Value::from(event.layer.as_str())));
            if let Some(stream) = event.stream {
                let name = self.own.stream.clone();
                all.push(self.annotation(&name, &Value::Pointer(stream)));
            }
            if let Some(device) = event.device {
                let name = self.own.device.clone();
                all.push(self.annotation(&name, &Value::from(device)));
            }
            all.extend(event.args.iter().map(|arg| self.argument(arg)));
        }
        if ended {
            if let Some(status) = &event.status {
                let (name, value) = match &status.name {
                    Some(result) => (self.own.result.clone(), Value::Str(result.clone())),
                    None => (self.own.status.clone(), Value::from(status.code)),
                };
                all.push(self.annotation(&name, &value));
            }
            all.extend(event.outputs.iter().map(|arg| self.argument(arg)));
        }
        all
    }

    fn argument(&mut self, arg: &Arg) -> DebugAnnotation {
        self.annotation(&arg.name, &arg.value)
    }

    fn annotation(&mut self, name: &Name, value: &Value) -> DebugAnnotation {
        let mut annotation = annotated(value);
        annotation.name_iid = Some(self.interning.annotation(name));
        annotation
    }

    /// The track of a thread; it and its process are described when first seen.
    fn thread(&mut self, pid: u32, tid: u32) -> io::Result<u64> {
        let process = self.process(pid)?;
        let uuid = process | u64::from(tid);
        // A thread without an id is drawn as its process.
        if self.described.insert(uuid) {
            let name = if pid == tid { "main" } else { "thread" };
            self.describe(TrackDescriptor {
                uuid: Some(uuid),
                parent_uuid: Some(process),
                thread: Some(ThreadDescriptor {
                    pid: Some(pid as i32),
                    tid: Some(tid as i32),
                    thread_name: Some(name.to_owned()),
                }),
                ..TrackDescriptor::default()
            })?;
        }
        Ok(uuid)
    }

    fn process(&mut self, pid: u32) -> io::Result<u64> {
        // Never zero, which is the default track.
        let uuid = 1 << 62 | u64::from(pid) << 32;
        if self.described.insert(uuid) {
            // Perfetto keeps the first name that it hears, and that comes at the end.
            self.describe_process(uuid, pid, None)?;
            self.processes.push((uuid, pid));
        }
        Ok(uuid)
    }

    fn describe_process(
        &mut self,
        uuid: u64,
        pid: u32,
        name: Option<ProcessName>,
    ) -> io::Result<()> {
        self.describe(TrackDescriptor {
            uuid: Some(uuid),
            process: Some(ProcessDescriptor {
                pid: Some(pid as i32),
                process_name: (name.as_ref()).map(|name| processes::origin(name) + &name.name),
                cmdline: name.map_or_else(Vec::new, |name| name.command),
            }),
            ..TrackDescriptor::default()
        })
    }

    fn name_processes(&mut self, summary: Option<&Summary>) -> io::Result<()> {
        for (uuid, pid) in std::mem::take(&mut self.processes) {
            let unknown = || ProcessName {
                name: format!("process {pid}"),
                ..ProcessName::default()
            };
            let name = processes::find(&self.meta, summary, pid).unwrap_or_else(unknown);
            self.describe_process(uuid, pid, Some(name))?;
        }
        Ok(())
    }

    fn counts(&mut self) -> io::Result<()> {
        while let Some(step) = self.counters.next() {
            let track = self.counter_track(&step)?;
            let value = TrackEvent {
                kind: Some(schema::COUNTER),
                track_uuid: Some(track),
                counter_value: Some(i64::try_from(step.value).unwrap_or(i64::MAX)),
                ..TrackEvent::default()
            };
            self.packet(step.ts, |packet| packet.track_event = Some(value))?;
        }
        Ok(())
    }

    fn counter_track(&mut self, step: &Counter) -> io::Result<u64> {
        let key = (step.of, step.name.clone());
        if let Some(&uuid) = self.counter_tracks.get(&key) {
            return Ok(uuid);
        }
        let uuid = COUNTERS | self.counter_tracks.len() as u64;
        // A GPU has no process: its number is in the name.
        let (parent_uuid, name) = match step.of {
            Of::Process(pid) => (Some(self.process(pid)?), step.name.clone()),
            Of::Gpu(device) => (None, format!("GPU {device} {}", step.name)),
        };
        let bytes = step.unit == "bytes";
        self.describe(TrackDescriptor {
            uuid: Some(uuid),
            parent_uuid,
            name: Some(name),
            counter: Some(CounterDescriptor {
                unit: bytes.then_some(schema::UNIT_BYTES),
                unit_name: (!bytes).then(|| step.unit.to_owned()),
            }),
            ..TrackDescriptor::default()
        })?;
        self.counter_tracks.insert(key, uuid);
        Ok(uuid)
    }

    fn describe(&mut self, descriptor: TrackDescriptor) -> io::Result<()> {
        self.begin()?;
        self.write(&TracePacket {
            trusted_packet_sequence_id: Some(SEQUENCE),
            track_descriptor: Some(descriptor),
            ..TracePacket::default()
        })
    }

    fn packet(&mut self, ts: u64, fill: impl FnOnce(&mut TracePacket)) -> io::Result<()> {
        self.begin()?;
        let mut packet = TracePacket {
            timestamp: Some(ts),
            trusted_packet_sequence_id: Some(SEQUENCE),
            sequence_flags: Some(schema::NEEDS_STATE),
            interned_data: self.interning.take_fresh(),
            ..TracePacket::default()
        };
        fill(&mut packet);
        self.write(&packet)
    }

    /// What stands before everything: the clock, and the GPUs.
    fn begin(&mut self) -> io::Result<()> {
        if std::mem::replace(&mut self.begun, true) {
            return Ok(());
        }
        let clock = |clock_id, timestamp| Clock {
            clock_id: Some(clock_id),
            timestamp: Some(timestamp),
        };
        let mut clocks = vec![clock(schema::MONOTONIC, self.meta.start_ns)];
        if let Some(unix) = self.meta.start_unix_ns {
            clocks.push(clock(schema::REALTIME, unix));
        }
        self.write(&TracePacket {
            trusted_packet_sequence_id: Some(SEQUENCE),
            clock_snapshot: Some(ClockSnapshot {
                clocks,
                primary_trace_clock: Some(schema::MONOTONIC),
            }),
            ..TracePacket::default()
        })?;
        self.write(&TracePacket {
            trusted_packet_sequence_id: Some(SEQUENCE),
            sequence_flags: Some(schema::STATE_CLEARED),
            trace_packet_defaults: Some(TracePacketDefaults {
                timestamp_clock_id: Some(schema::MONOTONIC),
            }),
            ..TracePacket::default()
        })?;
        if self.meta.gpus.is_empty() {
            return Ok(());
        }
        let gpus = (self.meta.gpus.iter())
            .map(|gpu| Gpu {
                name: Some(match processes::gpu_host(&self.meta, gpu.index) {
                    Some(host) => format!("{}, {host}", gpu.name),
                    None => gpu.name.clone(),
                }),
                vendor: (!gpu.simulated).then(|| "NVIDIA".to_owned()),
            })
            .collect();
        self.write(&TracePacket {
            trusted_packet_sequence_id: Some(SEQUENCE),
            timestamp: Some(self.meta.start_ns),
            timestamp_clock_id: Some(schema::MONOTONIC),
            gpu_info: Some(GpuInfo { gpus }),
            ..TracePacket::default()
        })
    }

    /// One `packet` field of the message that the file is.
    fn write(&mut self, packet: &TracePacket) -> io::Result<()> {
        const PACKET: u8 = 1 << 3 | 2;
        self.bytes.clear();
        self.bytes.push(PACKET);
        encode_varint(packet.encoded_len() as u64, &mut self.bytes);
        packet.encode_raw(&mut self.bytes);
        self.writer.write_all(&self.bytes)
    }
}

impl<W: Write> Output for Perfetto<W> {
    fn record(&mut self, record: &Record) -> io::Result<()> {
        match record {
            Record::Event(event) => self.event(event),
            Record::Meaning(meaning) => {
                self.counters.meaning(meaning);
                self.counts()
            }
            Record::Lost(lost) => {
                let pid = lost.pid.or(self.meta.pid).unwrap_or(0);
                let track = match lost.tid {
                    Some(tid) => self.thread(pid, tid)?,
                    None => self.process(pid)?,
                };
                let (name, count) = (self.own.lost.clone(), self.own.count.clone());
                let instant = TrackEvent {
                    kind: Some(schema::INSTANT),
                    track_uuid: Some(track),
                    name_iid: Some(self.interning.name(&name)),
                    category_iids: vec![self.interning.category("lost")],
                    debug_annotations: vec![self.annotation(&count, &Value::Uint(lost.count))],
                    ..TrackEvent::default()
                };
                self.packet(lost.ts, |packet| packet.track_event = Some(instant))
            }
        }
    }

    fn finish(&mut self, summary: Option<&Summary>) -> io::Result<()> {
        self.begin()?;
        self.name_processes(summary)?;
        let mut unfinished: Vec<_> = self.unfinished.drain().map(|(_, work)| work).collect();
        unfinished.sort_by_key(|(event, _)| event.id);
        for (mut event, track) in unfinished {
            let end = summary.map_or(event.start, |summary| summary.end_ns);
            event.outputs.push(Arg::new("unfinished", true));
            let duration = end.saturating_sub(event.start);
            self.work(&event, track, duration)?;
        }
        self.writer.flush()
    }
}

/// The ids of the work this call submits, for the calls that submit any.
fn submitted(event: &Event) -> Option<GpuCorrelation> {
    let correlation = event.correlation.filter(|_| submits(event))?;
    Some(GpuCorrelation {
        render_stage_submission_event_ids: vec![correlation],
    })
}

fn annotated(value: &Value) -> DebugAnnotation {
    let mut annotation = DebugAnnotation::default();
    annotation.value = match value {
        Value::Null => Some(Annotated::Text("null".to_owned())),
        Value::Bool(flag) => Some(Annotated::Bool(*flag)),
        Value::Int(number) => Some(Annotated::Int(*number)),
        Value::Uint(number) => Some(Annotated::Uint(*number)),
        Value::Float(number) => Some(Annotated::Double(*number)),
        Value::Pointer(address) => Some(Annotated::Pointer(*address)),
        Value::Str(text) => Some(Annotated::Text(text.to_string())),
        Value::List(items) => {
            annotation.array_values = items.iter().map(annotated).collect();
            None
        }
        Value::Map(members) => {
            annotation.dict_entries = (members.iter())
                .map(|member| {
                    let mut entry = annotated(&member.value);
                    entry.name = Some(member.name.to_string());
                    entry
                })
                .collect();
            None
        }
    };
    annotation
}

/// A value in words, where the schema has room for words only.
fn text(value: &Value) -> String {
    match value {
        Value::Str(text) => text.to_string(),
        Value::Uint(number) => number.to_string(),
        Value::Int(number) => number.to_string(),
        Value::Float(number) => number.to_string(),
        Value::Bool(flag) => flag.to_string(),
        Value::Pointer(address) => format!("{address:#x}"),
        Value::Null => "null".to_owned(),
        Value::List(items) => {
            let items: Vec<String> = items.iter().map(text).collect();
            format!("[{}]", items.join(", "))
        }
        Value::Map(members) => {
            let members: Vec<String> = (members.iter())
                .map(|member| format!("{}: {}", member.name, text(&member.value)))
                .collect();
            format!("{{{}}}", members.join(", "))
        }
    }
}
