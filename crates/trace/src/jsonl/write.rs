//! Writing JSON lines.

use super::LONGEST_LINE;
use crate::{
    Error, Result,
    json::{
        number::write_fixed,
        value::{TooDeep, write_args, write_stack},
        write,
    },
    sink::WriteTrace,
};
use event::{Event, Extent, Launch, Lost, Meaning, MemoryOp, Meta, Record, Summary, What};
use serde::Serialize;
use std::io::Write;

/// Lines are gathered up to this many bytes before they are written out.
const BUFFER: usize = 256 << 10;

pub struct JsonlWriter<W: Write> {
    out: W,
    buffer: Vec<u8>,
    start: u64,
    lines: u64,
}

impl<W: Write + Send> JsonlWriter<W> {
    pub fn new(out: W, meta: &Meta) -> Result<Self> {
        let mut writer = JsonlWriter {
            out,
            buffer: Vec::with_capacity(BUFFER + (64 << 10)),
            start: meta.start_ns,
            lines: 0,
        };
        writer.tagged("meta", meta)?;
        writer.flush()?;
        Ok(writer)
    }

    fn tagged(&mut self, kind: &'static str, contents: &impl Serialize) -> Result<()> {
        tagged(&mut self.buffer, kind, contents)
    }

    fn write_out(&mut self) -> Result<()> {
        let written = self.out.write_all(&self.buffer);
        // Also after an error: a part may be on disk, and must not be written twice.
        self.buffer.clear();
        Ok(written?)
    }

    /// The line that `write` makes, whole or not at all.
    fn add(
        &mut self,
        id: u64,
        write: impl FnOnce(&mut Vec<u8>, u64, u64) -> Result<()>,
    ) -> Result<()> {
        let before = self.buffer.len();
        let written = write(&mut self.buffer, self.lines + 1, self.start).and_then(|()| {
            let size = self.buffer.len() - before;
            if size > LONGEST_LINE {
                Err(Error::TooLong {
                    id,
                    size,
                    limit: LONGEST_LINE,
                })
            } else {
                Ok(())
            }
        });
        if let Err(error) = written {
            // Half a line would be damage.
            self.buffer.truncate(before);
            return Err(error);
        }
        self.lines += 1;
        Ok(())
    }

    fn write_much(&mut self) -> Result<()> {
        if self.buffer.len() >= BUFFER {
            self.write_out()?;
        }
        Ok(())
    }
}

/// A head or tail: `type` first, then the rest.
fn tagged(out: &mut Vec<u8>, kind: &'static str, contents: &impl Serialize) -> Result<()> {
    let contents = serde_json::to_string(contents).map_err(std::io::Error::from)?;
    out.extend_from_slice(b"{\"type\":\"");
    out.extend_from_slice(kind.as_bytes());
    out.extend_from_slice(b"\",");
    out.extend_from_slice(&contents.as_bytes()[1..]);
    out.push(b'\n');
    Ok(())
}

/// A trace's last line.
pub fn tail(summary: &Summary) -> Result<Vec<u8>> {
    let mut line = Vec::new();
    tagged(&mut line, "summary", summary)?;
    Ok(line)
}

fn line(out: &mut Vec<u8>, record: &Record, number: u64, start: u64) -> Result<()> {
    out.extend_from_slice(b"{\"event_id\":");
    write::uint(out, number);
    out.extend_from_slice(b",\"ts\":");
    write_fixed::<6>(out, crate::time::since(start, record.ts())?);
    match record {
        Record::Event(event) => event_members(out, event, event.extent)?,
        Record::Meaning(meaning) => meaning_members(out, meaning)?,
        Record::Lost(lost) => lost_members(out, lost),
    }
    out.extend_from_slice(b"}\n");
    Ok(())
}

/// The beginning of a span that has ended.
fn beginning(out: &mut Vec<u8>, event: &Event, number: u64, start: u64) -> Result<()> {
    out.extend_from_slice(b"{\"event_id\":");
    write::uint(out, number);
    out.extend_from_slice(b",\"ts\":");
    write_fixed::<6>(out, crate::time::since(start, event.start)?);
    event_members(out, event, Extent::Open)?;
    out.extend_from_slice(b"}\n");
    Ok(())
}

/// A record's line by itself, of a trace that starts at this moment.
pub fn encode(record: &Record, start: u64, out: &mut Vec<u8>) -> Result<()> {
    line(out, record, 0, start)
}

impl<W: Write + Send> WriteTrace for JsonlWriter<W> {
    fn write(&mut self, record: &Record) -> Result<()> {
        let id = crate::sink::id_of(record);
        self.add(id, |out, number, start| line(out, record, number, start))?;
        self.write_much()
    }

    fn write_whole(&mut self, record: &Record, event: &Event, _duration: u64) -> Result<()> {
        let (length, lines) = (self.buffer.len(), self.lines);
        self.add(event.id, |out, number, start| {
            beginning(out, event, number, start)
        })?;
        let ended = self.add(event.id, |out, number, start| {
            line(out, record, number, start)
        });
        if let Err(error) = ended {
            // A beginning without its end would be a span that never ended.
            self.buffer.truncate(length);
            self.lines = lines;
            return Err(error);
        }
        self.write_much()
    }

    fn flush(&mut self) -> Result<()> {
        self.write_out()?;
        Ok(self.out.flush()?)
    }

    fn finish(&mut self, summary: &Summary) -> Result<()> {
        self.tagged("summary", summary)?;
        self.flush()
    }

    fn pending(&self) -> u64 {
        self.buffer.len() as u64
    }
}

impl<W: Write> Drop for JsonlWriter<W> {
    /// A writer that was not finished still leaves every event it was given.
    fn drop(&mut self) {
        let _ = self.out.write_all(&self.buffer);
        let _ = self.out.flush();
    }
}

fn key(out: &mut Vec<u8>, key: &'static str) {
    out.extend_from_slice(b",\"");
    out.extend_from_slice(key.as_bytes());
    out.extend_from_slice(b"\":");
}

/// A member whose text needs no escaping.
fn plain(out: &mut Vec<u8>, name: &'static str, text: &'static str) {
    key(out, name);
    out.push(b'"');
    out.extend_from_slice(text.as_bytes());
    out.push(b'"');
}

fn uint(out: &mut Vec<u8>, name: &'static str, number: impl Into<u64>) {
    key(out, name);
    write::uint(out, number.into());
}

fn optional_uint(out: &mut Vec<u8>, name: &'static str, number: Option<impl Into<u64>>) {
    if let Some(number) = number {
        uint(out, name, number);
    }
}

fn optional_hex(out: &mut Vec<u8>, name: &'static str, number: Option<u64>) {
    if let Some(number) = number {
        key(out, name);
        write::hex(out, number);
    }
}

fn text(out: &mut Vec<u8>, name: &'static str, text: &str) {
    key(out, name);
    write::string(out, text);
}

fn micros(out: &mut Vec<u8>, name: &'static str, duration: u64) -> Result<()> {
    key(out, name);
    write_fixed::<3>(out, crate::time::since(0, duration)?);
    Ok(())
}

/// Of an event as far as `extent` goes: of its beginning, if it is open.
fn event_members(out: &mut Vec<u8>, event: &Event, extent: Extent) -> Result<()> {
    let deep = |TooDeep| Error::TooDeep {
        id: event.id,
        limit: crate::json::MOST_NESTING,
    };
    uint(out, "pid", event.pid);
    uint(out, "tid", event.tid);
    plain(out, "type", event.kind.as_str());
    plain(out, "layer", event.layer.as_str());
    text(out, "name", &event.name);
    plain(out, "category", event.category.as_str());
    match extent {
        Extent::Instant => {}
        Extent::Open => plain(out, "phase", "B"),
        Extent::Closed(_) => plain(out, "phase", "E"),
    }
    uint(out, "op_id", event.id);
    uint(out, "depth", event.depth);
    optional_uint(out, "parent", event.parent);
    optional_uint(out, "cpu", event.cpu);
    optional_uint(out, "device", event.device);
    optional_hex(out, "context", event.context);
    optional_hex(out, "stream", event.stream);
    optional_uint(out, "correlation", event.correlation);
    if let Extent::Closed(duration) = extent {
        micros(out, "duration_us", duration)?;
    }
    let is_told = extent == event.extent;
    if let Some(status) = event.status.as_ref().filter(|_| is_told) {
        key(out, "status");
        write::int(out, status.code);
        if let Some(name) = &status.name {
            text(out, "result", name);
        }
    }
    if let Some(ioctl) = &event.ioctl {
        uint(out, "cmd", ioctl.cmd);
        if !ioctl.decoded.is_empty() {
            key(out, "decoded");
            write_args(out, &ioctl.decoded).map_err(deep)?;
        }
    }
    // A closed span's arguments and stack stand in the line of its beginning.
    let closed = matches!(extent, Extent::Closed(_));
    let details = if closed { &event.outputs } else { &event.args };
    if !details.is_empty() {
        key(out, "details");
        write_args(out, details).map_err(deep)?;
    }
    if !closed && !event.stack.is_empty() {
        key(out, "stack");
        write_stack(out, &event.stack);
    }
    Ok(())
}

fn meaning_members(out: &mut Vec<u8>, meaning: &Meaning) -> Result<()> {
    uint(out, "pid", meaning.pid);
    uint(out, "tid", meaning.tid);
    plain(out, "type", meaning.what.type_name());
    if let Some(layer) = meaning.layer {
        plain(out, "layer", layer.as_str());
    }
    match &meaning.what {
        What::Memory(memory) => {
            plain(out, "op", memory.op.as_str());
            // Only allocations have a "size": so `map(.size)|add` is what was allocated.
            let size = if memory.op == MemoryOp::Free {
                "freed"
            } else {
                "size"
            };
            optional_uint(out, size, memory.size);
            optional_hex(out, "ptr", Some(memory.ptr));
            if let Some(space) = memory.space {
                plain(out, "space", space.as_str());
            }
        }
        What::Transfer(transfer) => {
            plain(out, "direction", transfer.direction.as_str());
            uint(out, "size", transfer.size);
            optional_hex(out, "src", transfer.src);
            optional_hex(out, "dst", transfer.dst);
            if let Some(duration) = transfer.duration {
                micros(out, "duration_us", duration)?;
            }
        }
        What::Launch(launch) => {
            plain(out, "op", "launch");
            text(out, "kernel", &launch.kernel);
            for (name, [x, y, z]) in [("grid", launch.grid), ("block", launch.block)] {
                key(out, name);
                let mut separator = b'[';
                for size in [x, y, z] {
                    out.push(separator);
                    separator = b',';
                    write::uint(out, size.into());
                }
                out.push(b']');
            }
            uint(out, "shared", launch.shared);
            uint(out, "threads", launch.threads());
        }
    }
    match &meaning.what {
        What::Launch(_) => {
            plain(out, "name", Launch::NAME);
            text(out, "call", &meaning.name);
        }
        What::Memory(_) | What::Transfer(_) => text(out, "name", &meaning.name),
    }
    uint(out, "op_id", meaning.op);
    optional_uint(out, "device", meaning.device);
    optional_hex(out, "context", meaning.context);
    optional_hex(out, "stream", meaning.stream);
    Ok(())
}

fn lost_members(out: &mut Vec<u8>, lost: &Lost) {
    optional_uint(out, "pid", lost.pid);
    optional_uint(out, "tid", lost.tid);
    plain(out, "type", "lost");
    if let Some(layer) = lost.layer {
        plain(out, "layer", layer.as_str());
    }
    uint(out, "count", lost.count);
    if let Some(source) = &lost.source {
        text(out, "source", source);
    }
}
