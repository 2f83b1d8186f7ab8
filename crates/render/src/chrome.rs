//! Chrome's trace JSON: opens in chrome://tracing, in Perfetto and in Speedscope.
//!
//! A span is a `B` and an `E` line, in the order of the trace: a span that never ended has no `E`,
//! and spans that begin at the same moment keep their nesting. GPUs are processes whose threads
//! are the streams; arrows go from the call that submitted work to the work.

use crate::{
    Output,
    counters::{Counter, Counters},
    tracks::{Track, Tracks, label},
};
use ahash::HashMap;
use event::{Arg, Category, Event, Extent, Layer, Meta, Record, Summary, Value};
use std::io::{self, Write};

/// Processes of the host have smaller ids, and viewers take 32 bits.
const FIRST_GPU: u64 = 1_000_000_000;

pub struct Chrome<W: Write> {
    writer: W,
    /// One line before it is written.
    line: Vec<u8>,
    begun: bool,
    meta: Meta,
    tracks: Tracks,
    /// The ids of the tracks that were named.
    named: HashMap<Track, (u64, u64)>,
    processes: HashMap<u64, ()>,
    /// How many streams each GPU has so far.
    streams: HashMap<u32, u64>,
    counters: Counters,
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
            counters: Counters::default(),
        }
    }

    fn event(&mut self, event: &Event) -> io::Result<()> {
        let track = self.tracks.of(event);
        let (pid, tid) = self.place(track)?;
        let end = matches!(event.extent, Extent::Closed(_));
        let moment = event.end().unwrap_or(event.start);
        let phase = match event.extent {
            Extent::Open => "B",
            Extent::Closed(_) => "E",
            Extent::Instant => "i",
        };
        self.open(phase, moment, pid, tid);
        if !end {
            self.text(",\"name\":", label(event));
            self.text(",\"cat\":", event.category.as_str());
            if event.extent == Extent::Instant {
                self.line.extend_from_slice(b",\"s\":\"t\"");
            }
        }
        self.arguments(event, end);
        self.close()?;
        if let (Extent::Open, Some(correlation)) = (event.extent, event.correlation) {
            self.flow(event, correlation, pid, tid)?;
        }
        self.counters.event(event);
        self.counts()
    }

    /// One end of the arrow from a call to its work.
    fn flow(&mut self, event: &Event, correlation: u64, pid: u64, tid: u64) -> io::Result<()> {
        let submits = matches!(
            event.category,
            Category::Kernel | Category::Transfer | Category::Memory | Category::Graph
        );
        let phase = match event.layer {
            Layer::Gpu => "f",
            Layer::Runtime | Layer::Driver if submits => "s",
            _ => return Ok(()),
        };
        self.open(phase, event.start, pid, tid);
        self.text(",\"name\":", "submit");
        self.text(",\"cat\":", "submit");
        let _ = write!(self.line, ",\"id\":{correlation}");
        if phase == "f" {
            self.line.extend_from_slice(b",\"bp\":\"e\"");
        }
        self.close()
    }

    fn arguments(&mut self, event: &Event, end: bool) {
        const BEFORE: &[u8] = b",\"args\":{";
        self.line.extend_from_slice(BEFORE);
        let from = self.line.len();
        if !end {
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
        if let (true, Some(status)) = (end || event.extent == Extent::Instant, &event.status) {
            match &status.name {
                Some(name) => self.member("result", name),
                None => {
                    let _ = write!(self.line, "\"status\":{},", status.code);
                }
            }
        }
        if end || event.extent == Extent::Instant {
            self.values(&event.outputs);
        }
        if self.line.len() > from {
            self.line.pop();
            self.line.push(b'}');
        } else {
            self.line.truncate(from - BEFORE.len());
        }
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
            None if self.meta.pid.map(u64::from) == Some(pid) => self.meta.command.join(" "),
            None => format!("process {pid}"),
        };
        self.name("process_name", (pid, 0), &name)
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
            pid,
            name,
            unit,
            value,
        }) = self.counters.next()
        {
            self.process(pid.into())?;
            self.open("C", ts, pid.into(), 0);
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
        self.begin()?;
        self.writer.write_all(&self.line)?;
        self.line.clear();
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

/// `GPU 0: NVIDIA H200`; a software device says so.
fn gpu_name(meta: &Meta, device: u32) -> String {
    match meta.gpus.iter().find(|gpu| gpu.index == device) {
        Some(gpu) if gpu.simulated && !gpu.name.contains("softgpu") => {
            format!("GPU {device}: {} (softgpu)", gpu.name)
        }
        Some(gpu) => format!("GPU {device}: {}", gpu.name),
        None => format!("GPU {device}"),
    }
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
