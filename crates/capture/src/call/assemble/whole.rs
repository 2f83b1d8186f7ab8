//! A call that ended before anything else happened, as nearly all do: its beginning and its end are recorded as one, so that
//! everybody on the way to the trace looks at it once.

use super::{Assembler, Begin, OpenCall};
use crate::Sink;
use crate::call::origin::Origin;
use event::{Extent, Meaning, Record, What};

impl<O: Origin, S: Sink> Assembler<O, S> {
    /// Whether no one needs the beginning as a record of its own.
    pub(super) fn may_be_whole(&self, ring: usize) -> bool {
        let thread = &self.rings[ring];
        !self.limits.hosts
            && !self.held.waits()
            && self.restarted.is_empty()
            && thread.told.is_empty()
            && thread.operators.is_empty()
    }

    /// An earlier call of that function, for the next to take its place; None if it is not known yet, or no plain one.
    pub(super) fn spare_of(&mut self, ring: usize, function: u32) -> Option<(Box<OpenCall>, bool)> {
        let of_image = self.signatures.get(self.rings[ring].image?)?;
        let signature = of_image.get(function as usize)?.as_ref()?;
        if signature.nvtx.is_some() || signature.operator.is_some() {
            return None;
        }
        self.spare.take_of(signature)
    }

    /// A call began, and returned that at `end`. `is_same`: what is there is of an earlier call of the same function.
    pub(super) fn whole(
        &mut self,
        ring: usize,
        (call, is_same): (Box<OpenCall>, bool),
        begin: Begin<'_>,
        end: u64,
        result: u32,
    ) {
        let sequence = begin.sequence;
        let mut call = self.begun(ring, call, is_same, begin);
        let thread = &mut self.rings[ring];
        if !thread.short.is_empty() {
            thread.short.remove(&sequence);
        }
        call.set_status(result);
        let event = call.event_mut();
        let begun = (event.device, event.context, event.stream);
        event.extent = Extent::Closed(end.saturating_sub(event.start));
        let mut meanings: Vec<What> = if call.signature.succeeded(result) {
            self.succeeded(ring, &mut call)
        } else {
            self.place_late(ring, call.event_mut());
            Vec::new()
        };
        if !call.hidden {
            let event = call.event();
            let ended = (event.device, event.context, event.stream);
            if begun == ended && !self.sink.keeps_records() {
                if self.may_put_whole(&call.record) {
                    let written = self.sink.write_whole(&mut call.record);
                    self.check(written, 2);
                }
                for what in meanings.drain(..) {
                    let meaning = Meaning::of(call.event(), what);
                    self.put(Record::Meaning(meaning));
                }
                // Its memory serves the next one.
                call.below = meanings;
                return self.spare.put_back(call);
            }
            let meanings = (meanings.into_iter()).map(|what| Meaning::of(event, what));
            let meanings: Vec<Meaning> = meanings.collect();
            if begun != ended {
                // Where it happened came out in the course of it: the beginning does not know yet.
                let mut beginning = event.clone();
                (beginning.device, beginning.context, beginning.stream) = begun;
                (beginning.extent, beginning.status) = (Extent::Open, None);
                beginning.outputs.clear();
                self.put(Record::Event(beginning));
                let record = call.take_record();
                self.put(record);
            } else {
                let record = call.take_record();
                if self.may_put_whole(&record) {
                    let written = self.sink.give_whole(record);
                    self.check(written, 2);
                }
            }
            for meaning in meanings {
                self.put(Record::Meaning(meaning));
            }
        }
        self.spare.put_back(call);
    }

    /// Whether there is a sink to write into; both records of the span are counted.
    fn may_put_whole(&mut self, record: &Record) -> bool {
        let start = match record {
            Record::Event(event) => event.start,
            _ => record.ts(),
        };
        self.totals.late += u64::from(start < self.latest);
        self.latest = self.latest.max(start);
        let may = self.may_put(record);
        self.totals.unwritten += u64::from(!may);
        may
    }
}
