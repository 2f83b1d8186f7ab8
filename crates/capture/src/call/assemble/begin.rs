//! The beginning of a call becomes an event.

use super::open_call::renew;
use super::{Assembler, Begin, OpenCall, taken};
use crate::Sink;
use crate::call::filter::Filter;
use crate::call::origin::Origin;
use crate::call::remote;
use crate::call::signature::{Signature, Words};
use event::{Arg, Event, Layer, Name, Record, Value};
use std::sync::Arc;

impl<O: Origin, S: Sink> Assembler<O, S> {
    pub(super) fn begin(&mut self, ring: usize, signature: Arc<Signature>, begin: Begin<'_>) {
        let (call, is_same) = self.spare.take(signature);
        let mut call = self.begun(ring, call, is_same, begin);
        call.event_mut().status = None;
        if !call.hidden {
            self.write(&mut call.record);
        }
        self.rings[ring].open.push(call);
    }

    /// A call that has begun, before its record is written. `is_same`: what is there is of an earlier call of the same
    /// function. Its status still is.
    pub(super) fn begun(
        &mut self,
        ring: usize,
        mut call: Box<OpenCall>,
        is_same: bool,
        begin: Begin<'_>,
    ) -> Box<OpenCall> {
        self.fill_in(ring, &mut call, is_same, begin);
        let signature = &call.signature;
        let thread = &mut self.rings[ring];
        let start = call.event().start;
        let mut hidden = signature.hidden
            || leads_to(thread.open.last(), signature)
            || (!thread.short.is_empty() && thread.short.contains(&call.sequence))
            || self.limits.deadline.leaves_out(start);
        if !hidden && self.limits.sample > 1 && !self.is_in_sample(&signature.name) {
            self.totals.not_sampled += 1;
            hidden = true;
        }
        self.totals.recorded += 1;
        if !hidden {
            self.totals.calls += 1;
            let thread = &mut self.rings[ring];
            let around = thread.open.last().map(|call| &*call.signature);
            (self.totals.for_cupti).begin(&mut thread.asked, signature, &call.words, around);
        }
        call.hidden = hidden;
        call
    }

    /// What is known of a call when it begins. `is_same`: what is there is of an earlier call of the same function.
    fn fill_in(&mut self, ring: usize, call: &mut OpenCall, is_same: bool, begin: Begin<'_>) {
        let thread = &mut self.rings[ring];
        let ended = taken(&mut thread.ended, begin.sequence);
        let payload = match &ended {
            Some(bytes) => Some(&**bytes),
            None if begin.complete => Some(begin.payload),
            None => None,
        };
        call.sequence = begin.sequence;
        let OpenCall {
            record,
            signature,
            words,
            payload: kept,
            is_plain,
            launch,
            ..
        } = call;
        let Record::Event(event) = record else {
            return;
        };
        let differ = signature.read_words(begin.args, begin.payload, words);
        let differ = kept.set(payload) || differ;
        renew(event, self.next_id, signature, begin.time);
        self.next_id += 1;
        (event.pid, event.tid) = (thread.pid, thread.tid);
        // In a flood most calls say what the one before said.
        if differ || !is_same {
            *launch = None;
            signature.put_arguments(words, payload, &mut event.args);
            if let Some(payload) = payload {
                complete_text(thread.pid, signature, words, payload, &mut event.args);
            }
        }
        *is_plain = !signature.has_texts;
        event.context = thread.state.context();
        event.device = thread.state.device(&self.states.all[thread.process]);
        event.stream = signature.stream(words);
        if event.stream.is_none() && signature.has_config {
            event.stream = stream_in_config(event).map(|stream| signature.default_stream(stream));
        }
        let device = signature.device(words);
        self.place(ring, event);
        if let Some(device) = device {
            (event.device, event.context) = (Some(device), None);
        }
        event.stack = begin.stack;
        call.caller = None;
        if self.limits.hosts {
            let caller = event.stack.first().map(|frame| frame.address);
            // One address alone was not asked for: it is there for the kernel's name.
            if caller.is_some() && (event.stack.iter()).all(|frame| Some(frame.address) == caller) {
                event.stack.clear();
            }
            call.caller = caller;
        }
    }

    /// The first call of a function, and every so many from there on; all of those that others are understood by.
    fn is_in_sample(&mut self, name: &Name) -> bool {
        if let Some(calls) = self.sampled.get_mut(name) {
            let before = calls.map(|calls| calls.is_multiple_of(u64::from(self.limits.sample)));
            *calls = calls.map(|calls| calls + 1);
            return before.unwrap_or(true);
        }
        let calls = Filter::stands_alone(name).then_some(1);
        self.sampled.insert(name.clone(), calls);
        true
    }

    /// Device and context of a call: those of its stream where that is known, else the thread's.
    pub(super) fn place(&self, ring: usize, call: &mut Event) {
        let thread = &self.rings[ring];
        let process = &self.states.all[thread.process];
        let of_stream = call
            .stream
            .and_then(|stream| process.contexts.of_stream(stream));
        if let Some((context, device)) = of_stream {
            call.context = context.or(call.context);
            call.device = device.or(call.device);
        }
    }
}

/// Whether the call around is of a function that only leads to this one: another library's under the same
/// name, a stub or a wrapper. Both are one call.
#[allow(clippy::borrowed_box, reason = "what a list of boxes gives")]
fn leads_to(around: Option<&Box<OpenCall>>, signature: &Arc<Signature>) -> bool {
    matches!(signature.layer, Layer::Runtime | Layer::Driver)
        && around.is_some_and(|around| {
            around.signature.name == signature.name && !Arc::ptr_eq(&around.signature, signature)
        })
}

/// The stream in a launch's description.
pub(super) fn stream_in_config(call: &Event) -> Option<u64> {
    let Value::Map(config) = call.arg("config")? else {
        return None;
    };
    let stream = config
        .iter()
        .find(|field| matches!(&*field.name, "hStream" | "stream"))?;
    stream.value.as_u64()
}

/// Texts that were cut are read whole from the process, if it still lives.
pub(super) fn complete_text(
    pid: u32,
    signature: &Signature,
    words: &Words,
    payload: &[u8],
    args: &mut [Arg],
) {
    let Some((name, address)) = signature.cut_text(words, payload) else {
        return;
    };
    let cut = args.iter_mut().find(|arg| arg.name == *name);
    if let Some(Value::Str(text)) = cut.map(|arg| &mut arg.value) {
        *text = match remote::read_text(pid, address) {
            Some(whole) if whole.starts_with(&**text) => whole.into(),
            _ => format!("{text}…").into(),
        };
    }
}
