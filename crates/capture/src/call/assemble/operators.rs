//! A framework's operators become spans, on the thread that ran them: the calls that an operator makes are inside it.
//!
//! Like a range, an operator begins when the call that tells of it has returned, and ends when the other one is made: what
//! recording costs is outside of it.

use super::super::origin::Origin;
use super::super::signature::Signature;
use super::super::value;
use super::{Assembler, Begin, OpenCall, OpenRange, taken};
use crate::Sink;
use cuda::operators::{self, NameRoom, OVERLOAD_TEXT, OperatorStep, memory, scope};
use event::{Arg, Category, Event, Extent, Layer, Name, Record, Stack, Value};
use std::sync::Arc;

/// A call that tells of an operator and has not returned.
pub struct OperatorCall {
    sequence: u64,
    function: &'static operators::Function,
    signature: Arc<Signature>,
    args: [u64; 4],
    payload: Box<[u8]>,
    /// Where it comes from, if it says so.
    stack: Stack,
}

/// How deep a thread's operators are followed.
const DEEPEST: usize = 4096;

impl<O: Origin, S: Sink> Assembler<O, S> {
    pub(super) fn operator_begin(
        &mut self,
        ring: usize,
        function: &'static operators::Function,
        signature: Arc<Signature>,
        begin: Begin<'_>,
    ) {
        self.totals.recorded += 1;
        if function.step == OperatorStep::End {
            self.end_operator(ring, begin.args[0], begin.time);
        }
        self.rings[ring].operators.push(OperatorCall {
            sequence: begin.sequence,
            function,
            signature,
            args: begin.args,
            payload: begin.payload.into(),
            stack: begin.stack,
        });
    }

    /// Whether the call that has ended told of an operator.
    pub(super) fn operator_end(&mut self, ring: usize, time: u64, sequence: u64) -> bool {
        let thread = &mut self.rings[ring];
        let calls = &mut thread.operators;
        let Some(place) = calls.iter().rposition(|call| call.sequence == sequence) else {
            return false;
        };
        thread.short.remove(&sequence);
        let ended = taken(&mut thread.ended, sequence);
        calls.truncate(place + 1);
        let Some(mut call) = calls.pop() else {
            return false;
        };
        if let Some(payload) = ended {
            call.payload = payload;
        }
        let hidden = call.signature.hidden || self.limits.deadline.leaves_out(time);
        match call.function.step {
            _ if hidden => {}
            OperatorStep::Begin => self.begin_operator(ring, time, call),
            OperatorStep::Memory => self.tensor_memory(ring, time, call),
            OperatorStep::End => {}
        }
        true
    }

    /// An allocator of PyTorch's gave memory of the GPU to a tensor, got it back, or had none.
    fn tensor_memory(&mut self, ring: usize, time: u64, call: OperatorCall) {
        let [address, size, allocated, word] = call.args;
        let size = size.cast_signed();
        let name = match (address, size) {
            (0, _) => "out of memory",
            (_, ..0) => "free",
            _ => "allocate",
        };
        let name = self.kept_name(name);
        let mut event = Event::new(self.next_id, Layer::Framework, Category::Memory, name, time);
        self.next_id += 1;
        event.extent = Extent::Instant;
        let thread = &self.rings[ring];
        (event.pid, event.tid) = (thread.pid, thread.tid);
        event.device = Some((word >> memory::DEVICE_SHIFT) as u32);
        let reserved = word & ((1 << memory::DEVICE_SHIFT) - 1);
        event.args.push(Arg::new("bytes", size.unsigned_abs()));
        if address != 0 {
            event.args.push(Arg::new("ptr", Value::Pointer(address)));
        }
        event.args.push(Arg::new("allocated", allocated));
        event.args.push(Arg::new("reserved", reserved));
        event.stack = call.stack;
        self.give(Record::Event(event));
    }

    fn begin_operator(&mut self, ring: usize, time: u64, mut call: OperatorCall) {
        if self.rings[ring].open.len() >= DEEPEST {
            return;
        }
        let (layer, name) = (Layer::Framework, self.operator_name(&call));
        let mut event = Event::new(self.next_id, layer, Category::Other, name, time);
        self.next_id += 1;
        event.extent = Extent::Open;
        let thread = &self.rings[ring];
        (event.pid, event.tid) = (thread.pid, thread.tid);
        event.args = call.arguments();
        event.stack = std::mem::take(&mut call.stack);
        let mut record = Record::Event(event);
        self.write(&mut record);
        let key = call.args[0];
        let range = (self.spare).range(call.signature, record, OpenRange::Operator { key });
        self.rings[ring].open.push(range);
    }

    /// The innermost operator of this key on this thread; of one that ended elsewhere, on another of its process.
    fn end_operator(&mut self, ring: usize, key: u64, time: u64) {
        let range = Some(OpenRange::Operator { key });
        #[allow(clippy::borrowed_box, reason = "what a list of boxes gives")]
        let is_it = |call: &Box<OpenCall>| call.range == range;
        let own = self.rings[ring].open.iter().rposition(is_it);
        let found = own.map(|place| (ring, place)).or_else(|| {
            let pid = self.rings[ring].pid;
            let others = (self.rings.iter().enumerate()).filter(|(_, other)| other.pid == pid);
            others
                .filter_map(|(at, other)| Some((at, other.open.iter().rposition(is_it)?)))
                .next()
        });
        let Some((at, place)) = found else {
            return;
        };
        let mut range = self.rings[at].open.remove(place);
        let tid = self.rings[ring].tid;
        let event = range.event_mut();
        event.extent = Extent::Closed(time.saturating_sub(event.start));
        if at != ring {
            event.outputs.push(Arg::new("ended_by", u64::from(tid)));
        }
        let record = range.take_record();
        self.give(record);
        self.spare.put_back(range);
    }

    /// Names repeat without end: each is kept once.
    fn operator_name(&mut self, call: &OperatorCall) -> Name {
        self.kept_name(&call.name())
    }

    fn kept_name(&mut self, text: &str) -> Name {
        if let Some(name) = self.operator_names.get(text) {
            return name.clone();
        }
        let name: Name = text.into();
        if self.operator_names.len() < MOST_NAMES {
            self.operator_names.insert(name.clone());
        }
        name
    }
}

/// Distinct names that are kept.
const MOST_NAMES: usize = 1 << 16;

impl OperatorCall {
    fn name(&self) -> String {
        let start = usize::from(self.function.room.first() + OVERLOAD_TEXT);
        let bytes = self.payload.get(start..).unwrap_or_default();
        let kept = usize::from(self.function.room.bytes());
        let bytes = &bytes[..bytes.len().min(kept)];
        let (text, is_whole) = until_nul(bytes);
        // Its room was too small for it.
        let more = if is_whole || bytes.is_empty() {
            ""
        } else {
            "…"
        };
        let text = String::from_utf8_lossy(text);
        match text.trim_end_matches('\u{fffd}') {
            "" => "(no name)".to_owned(),
            text => format!("{text}{more}"),
        }
    }

    fn arguments(&self) -> Vec<Arg> {
        let mut args = Vec::with_capacity(3);
        let what = self.args[3];
        let name = scope::NAMES.get((what & 0xff) as usize);
        args.push(Arg::new("scope", *name.unwrap_or(&"unknown")));
        let first = usize::from(self.function.room.first());
        let overload = self.payload.get(first..first + usize::from(OVERLOAD_TEXT));
        let (overload, _) = until_nul(overload.unwrap_or_default());
        if !overload.is_empty() {
            let text = String::from_utf8_lossy(overload);
            args.push(Arg::new("overload", &*text));
        }
        let sequence = self.args[2].cast_signed();
        if sequence >= 0 {
            args.push(Arg::new("seq", self.args[2]));
        }
        let words = self.payload.get(..first).unwrap_or_default();
        if self.function.room == NameRoom::Shapes {
            args.extend(shapes(words).map(|shapes| Arg::new("shapes", shapes)));
        } else if let Some(thread) = value::little_endian(words, 8).filter(|thread| *thread != 0) {
            args.push(Arg::new("forward_thread", thread));
        }
        if what & scope::ASYNC != 0 {
            args.push(Arg::new("async", true));
        }
        args
    }
}

/// `32,256;256` as lists; none if no input has a shape. Where the text was cut, the last one is `…`.
fn shapes(text: &[u8]) -> Option<Value> {
    let (text, is_whole) = until_nul(text);
    let text = std::str::from_utf8(text).ok()?;
    let mut inputs: Vec<Value> = (text.split(';'))
        .map(|input| {
            let sizes = input.split(',').filter(|size| !size.is_empty());
            let sizes = sizes.filter_map(|size| size.parse::<i64>().ok());
            Value::List(sizes.map(Value::from).collect())
        })
        .collect();
    if !is_whole {
        inputs.pop();
        inputs.push("…".into());
    }
    let is_empty = |input: &Value| matches!(input, Value::List(sizes) if sizes.is_empty());
    (!inputs.iter().all(is_empty)).then_some(Value::List(inputs))
}

fn until_nul(bytes: &[u8]) -> (&[u8], bool) {
    match bytes.iter().position(|byte| *byte == 0) {
        Some(end) => (&bytes[..end], true),
        None => (bytes, false),
    }
}
