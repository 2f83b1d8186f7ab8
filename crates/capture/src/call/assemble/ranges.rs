//! NVTX's calls become ranges and marks. A range of a thread takes its place among the thread's
//! calls, which then lie inside it; a range of the process is on nobody's stack.
//!
//! A range begins when its push has returned and ends when its pop is called, so that what NVTX and
//! recording it cost is outside of it.

use super::super::origin::Origin;
use super::super::signature::Signature;
use super::super::state::Handle;
use super::super::value;
use super::{Assembler, Begin, OpenRange, taken};
use crate::Sink;
use cuda::nvtx::{self, NvtxStep, Room, Style, message_type, named};
use event::{Arg, Category, Event, Extent, Kind, Layer, Name, Record, Value};
use std::sync::Arc;

/// A call of NVTX that has not returned.
pub struct NvtxCall {
    sequence: u64,
    function: &'static nvtx::Function,
    signature: Arc<Signature>,
    args: [u64; 4],
    payload: Box<[u8]>,
}

/// How deep a thread's ranges are followed: programs that never pop have more.
const DEEPEST: usize = 4096;

impl<O: Origin, S: Sink> Assembler<O, S> {
    pub(super) fn range_begin(
        &mut self,
        ring: usize,
        function: &'static nvtx::Function,
        signature: Arc<Signature>,
        begin: &Begin<'_>,
    ) {
        self.totals.recorded += 1;
        match function.call {
            NvtxStep::Pop => self.pop(ring, begin.args[0], begin.time),
            NvtxStep::End => self.end_range(ring, begin.args[1], begin.time),
            _ => {}
        }
        self.rings[ring].told.push(NvtxCall {
            sequence: begin.sequence,
            function,
            signature,
            args: begin.args,
            payload: begin.payload.into(),
        });
    }

    /// Whether the call that has ended was NVTX's.
    pub(super) fn range_end(&mut self, ring: usize, time: u64, sequence: u64) -> bool {
        let thread = &mut self.rings[ring];
        let Some(place) = thread
            .told
            .iter()
            .rposition(|told| told.sequence == sequence)
        else {
            return false;
        };
        thread.short.remove(&sequence);
        let ended = taken(&mut thread.ended, sequence);
        thread.told.truncate(place + 1);
        let Some(mut told) = thread.told.pop() else {
            return false;
        };
        if let Some(payload) = ended {
            told.payload = payload;
        }
        let hidden = told.signature.hidden || self.limits.deadline.leaves_out(time);
        match told.function.call {
            NvtxStep::Pop | NvtxStep::End => {}
            NvtxStep::Name => self.name_handle(ring, &told),
            _ if hidden => {}
            NvtxStep::Mark => self.mark(ring, time, &told),
            NvtxStep::Push => self.push_range(ring, time, &told),
            NvtxStep::Start => self.start_range(ring, time, &told),
        }
        true
    }

    fn name_handle(&mut self, ring: usize, told: &NvtxCall) {
        let [domain, _, what, handle] = told.args;
        let handle = match what as u32 {
            named::STRING => Handle::String(handle),
            named::DOMAIN => Handle::Domain(handle),
            named::CATEGORY => Handle::Category(domain, handle as u32),
            _ => return,
        };
        let text = told.text();
        let process = self.rings[ring].process;
        self.states.all[process].ranges.name(handle, text);
    }

    fn mark(&mut self, ring: usize, time: u64, told: &NvtxCall) {
        let event = self.range_event(ring, time, Kind::Range, told);
        self.give(Record::Event(event));
    }

    fn push_range(&mut self, ring: usize, time: u64, told: &NvtxCall) {
        if self.rings[ring].open.len() >= DEEPEST {
            return;
        }
        let mut event = self.range_event(ring, time, Kind::Range, told);
        event.extent = Extent::Open;
        let mut record = Record::Event(event);
        self.write(&mut record);
        let domain = told.args[0];
        let range = (self.spare).range(told.signature.clone(), record, OpenRange::Nvtx { domain });
        self.rings[ring].open.push(range);
    }

    /// The domain's innermost range of this thread. Ranges of other domains may outlive it.
    fn pop(&mut self, ring: usize, domain: u64, time: u64) {
        let open = &mut self.rings[ring].open;
        let range = Some(OpenRange::Nvtx { domain });
        let Some(place) = open.iter().rposition(|call| call.range == range) else {
            return;
        };
        let mut range = open.remove(place);
        let event = range.event_mut();
        event.extent = Extent::Closed(time.saturating_sub(event.start));
        let record = range.take_record();
        self.give(record);
        self.spare.put_back(range);
    }

    fn start_range(&mut self, ring: usize, time: u64, told: &NvtxCall) {
        let mut event = self.range_event(ring, time, Kind::ProcessRange, told);
        event.extent = Extent::Open;
        let mut record = Record::Event(event);
        self.write(&mut record);
        let process = self.rings[ring].process;
        if let (Record::Event(event), Some(number)) = (record, told.word(5)) {
            self.states.all[process].ranges.start(number, event);
        }
    }

    fn end_range(&mut self, ring: usize, number: u64, time: u64) {
        let thread = &self.rings[ring];
        let Some(mut event) = self.states.all[thread.process].ranges.end(number) else {
            return;
        };
        event.extent = Extent::Closed(time.saturating_sub(event.start));
        if event.tid != thread.tid {
            event
                .outputs
                .push(Arg::new("ended_by", u64::from(thread.tid)));
        }
        self.give(Record::Event(event));
    }

    /// A range or a mark, as an instant.
    fn range_event(&mut self, ring: usize, time: u64, kind: Kind, told: &NvtxCall) -> Event {
        let [domain, message, what, style] = told.args;
        let thread = &self.rings[ring];
        let text = |handle| {
            let own = self.states.all[thread.process].ranges.text(handle);
            // A forked child has what its parent had.
            own.or_else(|| {
                let parent = self.origin.parent(thread.image?)?;
                self.states.get(parent)?.ranges.text(handle)
            })
            .cloned()
        };
        let name = match what as u32 {
            message_type::TEXT => told.text(),
            message_type::REGISTERED => text(Handle::String(message))
                .unwrap_or_else(|| format!("string {message:#x}").into()),
            _ => "(no message)".into(),
        };
        let mut args = Vec::new();
        if domain != 0 {
            let name = text(Handle::Domain(domain));
            args.push(Arg::new(
                "domain",
                name.map_or(Value::Pointer(domain), Value::Str),
            ));
        }
        let category = (what >> 32) as u32;
        if category != 0 {
            let name = text(Handle::Category(domain, category));
            args.push(Arg::new(
                "category",
                name.map_or(Value::Uint(category.into()), Value::Str),
            ));
        }
        let style = Style::of_word(style);
        if let Some(color) = style.color {
            args.push(Arg::new("color", format!("#{color:08x}")));
        }
        let payload = told
            .word(4)
            .and_then(|raw| payload(style.payload_type, raw));
        args.extend(payload.map(|value| Arg::new("payload", value)));
        let mut event = Event::new(self.next_id, Layer::Library, Category::Other, name, time);
        event.kind = kind;
        (event.pid, event.tid) = (thread.pid, thread.tid);
        event.args = args;
        self.next_id += 1;
        event
    }
}

impl NvtxCall {
    /// A word beyond the fourth.
    fn word(&self, index: usize) -> Option<u64> {
        let bytes = self.payload.get(8 * index.checked_sub(4)?..)?;
        value::little_endian(bytes, 8)
    }

    fn text(&self) -> Name {
        let kept = match self.function.room {
            Room::None => 0,
            Room::Short => nvtx::SHORT_TEXT,
            Room::Long => nvtx::LONG_TEXT,
        };
        let bytes = self.payload.get(16..).unwrap_or_default();
        let bytes = &bytes[..bytes.len().min(kept.into())];
        let end = bytes.iter().position(|byte| *byte == 0);
        let text = String::from_utf8_lossy(&bytes[..end.unwrap_or(bytes.len())]);
        // Its room was too small for it.
        let more = if end.is_none() && !bytes.is_empty() {
            "…"
        } else {
            ""
        };
        format!("{}{more}", text.trim_end_matches('\u{fffd}')).into()
    }
}

/// `nvtxPayloadType_t`
fn payload(kind: u8, raw: u64) -> Option<Value> {
    Some(match kind {
        1 => Value::Uint(raw),
        2 => Value::Int(raw.cast_signed()),
        3 => Value::Float(f64::from_bits(raw)),
        4 => Value::Uint(raw & u64::from(u32::MAX)),
        5 => Value::Int((raw as u32).cast_signed().into()),
        6 => Value::Float(f32::from_bits(raw as u32).into()),
        _ => return None,
    })
}
