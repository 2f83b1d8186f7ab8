//! Chrome's trace JSON: opens in chrome://tracing, in Perfetto and in Speedscope.
//!
//! A span is one `X` line: readers pair `B` and `E` by rules of their own, some by the arguments.
//! Of spans that begin at the same moment the outer one must come first, so what is inside a call
//! waits for the call's end. GPUs are processes whose threads are the streams; arrows go from the
//! call that submitted work to the work.

mod flows;

use crate::{
    Output,
    counters::{Counter, Counters, Of},
    processes,
    tracks::{Track, Tracks, label},
};
use ahash::HashMap;
use event::{Arg, Event, Extent, Kind, Meta, Record, Summary, Value};
use flows::{Arrow, Flows};
use std::io::{self, Write};

/// Processes of the host have smaller ids, and viewers take 32 bits.
const FIRST_GPU: u64 = 1_000_000_000;

/// Threads have smaller ids.
const FIRST_BESIDE: u64 = 2_000_000_000;

/// A call with more inside it than this is written before its end, its insides in their own order.
const MOST_WAITING: usize = 100_000;

pub struct Chrome<W: Write> {
    writer: W,
    /// One line before it is written or put by.
    line: Vec<u8>,
    begun: bool,
    meta: Meta,
    tracks: Tracks,
    /// The ids of the tracks that were named.
    named: HashMap<Track, (u64, u64)>,
    processes: HashMap<u64, ()>,
    /// How many streams each GPU has so far.
    streams: HashMap<u32, u64>,
    /// How many tracks there are that are neither threads nor streams.
    beside: u64,
    /// What is under way on each track.
    under_way: HashMap<Track, UnderWay>,
    counters: Counters,
    flows: Flows,
}

/// One line, or its beginning.
struct Line {
    start: u64,
    depth: usize,
    bytes: Vec<u8>,
}

/// The outermost call of a track, and all inside it.
#[derive(Default)]
struct UnderWay {
    /// Lines of spans that have not ended, outermost first.
    open: Vec<(u64, Line)>,
    done: Vec<Line>,
}

impl<W: Write> Chrome<W> {
    pub fn new(writer: W, meta: &Meta) -> Self {
        Chrome {
            writer,
            line: Vec::new(),
            begun: false,
            meta: meta.clone(),
            tracks: Tracks::default(),
            named: HashMap::default(),
            processes: HashMap::default(),
            streams: HashMap::default(),
            beside: 0,
            under_way: HashMap::default(),
            counters: Counters::default(),
            flows: Flows::default(),
        }
    }

    fn event(&mut self, event: &Event) -> io::Result<()> {
        if event.kind == Kind::Counter {
            self.counters.event(event);
            return self.counts();
        }
        let track = self.tracks.of(event);
        match event.extent {
            Extent::Open => self.begin_span(event, track)?,
            Extent::Closed(duration) => {
                let position = self.under_way.get(&track).and_then(|under_way| {
                    under_way.open.iter().rposition(|(id, _)| *id == event.id)
                });
                let position = match position {
                    Some(position) => position,
                    // Its beginning was not recorded.
                    None => {
                        self.begin_span(event, track)?;
                        let under_way = self.under_way.entry(track).or_default();
                        under_way.open.len() - 1
                    }
                };
                self.end_span(event, track, position, duration)?;
            }
            Extent::Instant => {
                let (pid, tid) = self.place(track)?;
                self.open("i", event.start, pid, tid);
                self.head(event);
                self.line.extend_from_slice(b",\"s\":\"t\",\"args\":{");
                self.inputs(event);
                self.outputs(event);
                self.end_arguments();
                self.line.push(b'}');
                // After the span that it belongs to, before those inside that.
                let open = self.under_way.get(&track).map_or(0, |it| it.open.len());
                self.put_by(track, event.start, (2 * open).saturating_sub(1));
                self.write_ended(track)?;
            }
        }
        self.counters.event(event);
        self.counts()
    }

    fn begin_span(&mut self, event: &Event, track: Track) -> io::Result<()> {
        let (pid, tid) = self.place(track)?;
        self.open("X", event.start, pid, tid);
        self.head(event);
        self.line.extend_from_slice(b",\"args\":{");
        self.inputs(event);
        let bytes = std::mem::take(&mut self.line);
        let under_way = self.under_way.entry(track).or_default();
        let line = Line {
            start: event.start,
            depth: 2 * under_way.open.len(),
            bytes,
        };
        under_way.open.push((event.id, line));
        self.flows.begin(event, track, (pid, tid));
        Ok(())
    }

    fn end_span(
        &mut self,
        event: &Event,
        track: Track,
        position: usize,
        duration: u64,
    ) -> io::Result<()> {
        let under_way = self.under_way.entry(track).or_default();
        let (_, mut line) = under_way.open.remove(position);
        self.line = std::mem::take(&mut line.bytes);
        self.outputs(event);
        self.end_arguments();
        let _ = write!(
            self.line,
            ",\"dur\":{}.{:03}}}",
            duration / 1_000,
            duration % 1_000
        );
        line.bytes = std::mem::take(&mut self.line);
        let depth = line.depth + 1;
        self.under_way.entry(track).or_default().done.push(line);
        if let Some(arrow) = self.flows.end(event, duration) {
            self.arrow(arrow, track, depth)?;
        }
        self.write_ended(track)
    }

    /// What is in `line` waits for the call around it.
    fn put_by(&mut self, track: Track, start: u64, depth: usize) {
        let under_way = self.under_way.entry(track).or_default();
        under_way.done.push(Line {
            start,
            depth,
            bytes: std::mem::take(&mut self.line),
        });
    }

    /// Writes what the outermost call held, once it has ended.
    fn write_ended(&mut self, track: Track) -> io::Result<()> {
        let Some(under_way) = self.under_way.get_mut(&track) else {
            return Ok(());
        };
        if !under_way.open.is_empty() && under_way.done.len() < MOST_WAITING {
            return Ok(());
        }
        let mut done = std::mem::take(&mut under_way.done);
        done.sort_by_key(|line| (line.start, line.depth));
        for line in done {
            self.line = line.bytes;
            self.write()?;
        }
        Ok(())
    }

    /// Both ends of the arrow from a call to its work, which is on this track; `depth` is where in that the
    /// arrow's end goes.
    fn arrow(&mut self, arrow: Arrow, track: Track, depth: usize) -> io::Result<()> {
        let (pid, tid) = self.place(track)?;
        self.open("f", arrow.end, pid, tid);
        // Without it readers bind the end to the span that begins next.
        self.line.extend_from_slice(b",\"bp\":\"e\"");
        self.end_of_arrow(arrow.id);
        self.put_by(track, arrow.end, depth);

        let call = arrow.call;
        self.open("s", call.start, call.pid, call.tid);
        self.end_of_arrow(arrow.id);
        let place = self.under_way.get(&call.track).and_then(|under_way| {
            let mut open = under_way.open.iter();
            open.position(|(id, _)| *id == call.op)
        });
        match place {
            Some(place) => {
                self.put_by(call.track, call.start, 2 * place + 1);
                Ok(())
            }
            None => self.write(),
        }
    }

    fn end_of_arrow(&mut self, id: u64) {
        self.text(",\"name\":", "submit");
        self.text(",\"cat\":", "submit");
        let _ = write!(self.line, ",\"id\":{id}}}");
    }

    fn head(&mut self, event: &Event) {
        self.text(",\"name\":", label(event));
        self.text(",\"cat\":", event.category.as_str());
    }

    /// What is known when an event begins.
    fn inputs(&mut self, event: &Event) {
        let _ = write!(self.line, "\"op_id\":{},", event.id);
        self.member("layer", event.layer.as_str());
        if let Some(stream) = event.stream {
            let _ = write!(self.line, "\"stream\":\"{stream:#x}\",");
        }
        if let Some(device) = event.device {
            let _ = write!(self.line, "\"device\":{device},");
        }
        self.values(&event.args);
    }

    /// What is known when it has ended.
    fn outputs(&mut self, event: &Event) {
        if let Some(status) = &event.status {
            match &status.name {
                Some(name) => self.member("result", name),
                None => {
                    let _ = write!(self.line, "\"status\":{},", status.code);
                }
            }
        }
        self.values(&event.outputs);
    }

    /// `op_id` is always there, so there is a comma to take away.
    fn end_arguments(&mut self) {
        self.line.pop();
        self.line.push(b'}');
    }

    fn values(&mut self, values: &[Arg]) {
        for arg in values {
            string(&mut self.line, &arg.name);
            self.line.push(b':');
            value(&mut self.line, &arg.value);
            self.line.push(b',');
        }
    }

    fn member(&mut self, name: &str, text: &str) {
        string(&mut self.line, name);
        self.line.push(b':');
        string(&mut self.line, text);
        self.line.push(b',');
    }

    /// The ids of a track, which is named when it is first used.
    fn place(&mut self, track: Track) -> io::Result<(u64, u64)> {
        if let Some(&ids) = self.named.get(&track) {
            return Ok(ids);
        }
        let ids = match track {
            Track::Thread { pid, tid } => {
                self.process(pid.into())?;
                let ids = (u64::from(pid), u64::from(tid));
                let name = if pid == tid { "main" } else { "thread" };
                self.name("thread_name", ids, &format!("{name} {tid}"))?;
                ids
            }
            Track::Stream {
                device,
                stream,
                lane,
                ..
            } => {
                let pid = FIRST_GPU + u64::from(device);
                self.process(pid)?;
                let streams = self.streams.entry(device).or_default();
                *streams += 1;
                let ids = (pid, *streams);
                self.name("thread_name", ids, &Track::stream_name(stream, lane))?;
                ids
            }
            Track::Beside { pid, what, lane } => {
                self.process(pid.into())?;
                self.beside += 1;
                let ids = (u64::from(pid), FIRST_BESIDE + self.beside);
                self.name("thread_name", ids, &what.name(lane))?;
                ids
            }
        };
        self.named.insert(track, ids);
        Ok(ids)
    }

    fn process(&mut self, pid: u64) -> io::Result<()> {
        if self.processes.insert(pid, ()).is_some() {
            return Ok(());
        }
        let name = match pid.checked_sub(FIRST_GPU) {
            Some(device) => gpu_name(&self.meta, device as u32),
            // What a process is called is known at the end.
            None => return Ok(()),
        };
        self.name("process_name", (pid, 0), &name)
    }

    /// Names of the host's processes.
    fn name_processes(&mut self, summary: Option<&Summary>) -> io::Result<()> {
        let mut pids: Vec<u64> = self.processes.keys().copied().collect();
        pids.sort_unstable();
        for pid in pids.into_iter().filter(|pid| *pid < FIRST_GPU) {
            let known = processes::find(&self.meta, summary, pid as u32);
            let name = known.map_or_else(|| format!("process {pid}"), |it| processes::title(&it));
            self.name("process_name", (pid, 0), &name)?;
        }
        Ok(())
    }

    fn name(&mut self, what: &str, (pid, tid): (u64, u64), name: &str) -> io::Result<()> {
        // The line of the event that needs the name may be half made.
        let line = std::mem::take(&mut self.line);
        let _ = write!(
            self.line,
            "{{\"ph\":\"M\",\"pid\":{pid},\"tid\":{tid},\"name\":\"{what}\",\"args\":{{\"name\":"
        );
        string(&mut self.line, name);
        self.line.push(b'}');
        self.close()?;
        self.line = line;
        Ok(())
    }

    fn counts(&mut self) -> io::Result<()> {
        while let Some(Counter {
            ts,
            of,
            name,
            unit,
            value,
        }) = self.counters.next()
        {
            let pid = match of {
                Of::Process(pid) => pid.into(),
                Of::Gpu(device) => FIRST_GPU + u64::from(device),
            };
            self.process(pid)?;
            self.open("C", ts, pid, 0);
            self.text(",\"name\":", &name);
            let _ = write!(self.line, ",\"args\":{{\"{unit}\":{value}}}");
            self.close()?;
        }
        Ok(())
    }

    fn open(&mut self, phase: &str, ts: u64, pid: u64, tid: u64) {
        let _ = write!(self.line, "{{\"ph\":\"{phase}\",\"ts\":");
        self.microseconds(ts);
        let _ = write!(self.line, ",\"pid\":{pid},\"tid\":{tid}");
    }

    /// Relative to the start: as doubles, which readers take them for, they stay exact.
    fn microseconds(&mut self, ts: u64) {
        let (sign, ns) = match ts.checked_sub(self.meta.start_ns) {
            Some(ns) => ("", ns),
            None => ("-", self.meta.start_ns - ts),
        };
        let _ = write!(self.line, "{sign}{}.{:03}", ns / 1_000, ns % 1_000);
    }

    fn text(&mut self, before: &str, text: &str) {
        self.line.extend_from_slice(before.as_bytes());
        string(&mut self.line, text);
    }

    /// Ends the object in `line` and writes it.
    fn close(&mut self) -> io::Result<()> {
        self.line.push(b'}');
        self.write()
    }

    fn write(&mut self) -> io::Result<()> {
        self.begin()?;
        self.writer.write_all(&self.line)?;
        self.line.clear();
        Ok(())
    }

    /// What never ended is drawn to the trace's end.
    fn unfinished(&mut self, summary: Option<&Summary>) -> io::Result<()> {
        let mut tracks: Vec<Track> = self.under_way.keys().copied().collect();
        tracks.sort();
        for track in tracks {
            let under_way = self.under_way.entry(track).or_default();
            for (_, mut line) in under_way.open.drain(..).rev() {
                let end = summary.map_or(line.start, |summary| summary.end_ns);
                let duration = end.saturating_sub(line.start);
                let _ = write!(
                    line.bytes,
                    "\"unfinished\":true}},\"dur\":{}.{:03}}}",
                    duration / 1_000,
                    duration % 1_000
                );
                under_way.done.push(line);
            }
            self.write_ended(track)?;
        }
        Ok(())
    }

    fn begin(&mut self) -> io::Result<()> {
        if self.begun {
            return self.writer.write_all(b",\n");
        }
        self.begun = true;
        self.writer.write_all(b"{\"traceEvents\":[\n")
    }
}

impl<W: Write> Output for Chrome<W> {
    fn record(&mut self, record: &Record) -> io::Result<()> {
        match record {
            Record::Event(event) => self.event(event),
            Record::Meaning(meaning) => {
                self.counters.meaning(meaning);
                self.counts()
            }
            Record::Lost(lost) => {
                let pid = lost.pid.or(self.meta.pid).unwrap_or(0).into();
                self.open("i", lost.ts, pid, lost.tid.unwrap_or(0).into());
                self.text(",\"name\":", "events lost");
                self.text(",\"cat\":", "lost");
                let _ = write!(
                    self.line,
                    ",\"s\":\"p\",\"args\":{{\"count\":{}}}",
                    lost.count
                );
                self.close()
            }
        }
    }

    fn finish(&mut self, summary: Option<&Summary>) -> io::Result<()> {
        self.unfinished(summary)?;
        self.name_processes(summary)?;
        if !self.begun {
            self.begun = true;
            self.writer.write_all(b"{\"traceEvents\":[")?;
        }
        self.writer
            .write_all(b"\n],\"displayTimeUnit\":\"ns\",\"otherData\":{")?;
        self.member("tool", &format!("cutrace {}", self.meta.cutrace));
        let command = self.meta.command.join(" ");
        self.member("command", &command);
        for gpu in 0..self.meta.gpus.len() {
            let index = self.meta.gpus[gpu].index;
            let name = gpu_name(&self.meta, index);
            self.member(&format!("gpu {index}"), &name);
        }
        if let Some(summary) = summary {
            let _ = write!(
                self.line,
                "\"events\":\"{}\",\"lost\":\"{}\",",
                summary.events, summary.lost
            );
        }
        self.line.pop();
        self.line.extend_from_slice(b"}}\n");
        self.writer.write_all(&self.line)?;
        self.line.clear();
        self.writer.flush()
    }
}

/// `GPU 0: NVIDIA H200`; a software device says so, and one of several hosts says where it is.
fn gpu_name(meta: &Meta, device: u32) -> String {
    let host = processes::gpu_host(meta, device);
    let name = match meta.gpus.iter().find(|gpu| gpu.index == device) {
        Some(gpu) if gpu.simulated && !gpu.name.contains("softgpu") => {
            format!("GPU {device}: {} (softgpu)", gpu.name)
        }
        Some(gpu) => format!("GPU {device}: {}", gpu.name),
        None => format!("GPU {device}"),
    };
    host.map_or(name.clone(), |host| format!("{name}, {host}"))
}

fn string(line: &mut Vec<u8>, text: &str) {
    // Writing to memory cannot fail, and a string is always JSON.
    let _ = serde_json::to_writer(line, text);
}

fn value(line: &mut Vec<u8>, value_of: &Value) {
    match value_of {
        Value::Null => line.extend_from_slice(b"null"),
        Value::Bool(flag) => line.extend_from_slice(if *flag { b"true" } else { b"false" }),
        Value::Int(number) => drop(write!(line, "{number}")),
        Value::Uint(number) => drop(write!(line, "{number}")),
        Value::Float(number) if number.is_finite() => drop(write!(line, "{number}")),
        Value::Float(number) => drop(write!(line, "\"{number}\"")),
        Value::Pointer(address) => drop(write!(line, "\"{address:#x}\"")),
        Value::Str(text) => string(line, text),
        Value::List(list) => {
            line.push(b'[');
            for (index, item) in list.iter().enumerate() {
                if index > 0 {
                    line.push(b',');
                }
                value(line, item);
            }
            line.push(b']');
        }
        Value::Map(members) => {
            line.push(b'{');
            for (index, member) in members.iter().enumerate() {
                if index > 0 {
                    line.push(b',');
                }
                string(line, &member.name);
                line.push(b':');
                value(line, &member.value);
            }
            line.push(b'}');
        }
    }
}
