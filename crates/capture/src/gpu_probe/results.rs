//! What probes inside kernels found, and what of it becomes known only when the whole trace is there.

use super::{
    Allocations, MapDump, MapReading, Notes, RingTotals, Unprobed,
    programs::{access_details, accesses},
    unprobed::Launched,
};
use crate::{
    Sink, SinkError,
    clock::monotonic,
    notes::counted,
    source::{Results, Together},
    trace_file::{Onlooker, TraceFile},
};
use event::probed::{CACHE_LINE_BYTES, MemoryAccess, MemoryOwner};
use event::{Category, Event, Layer, Record};
use std::fmt::Write as _;

/// What is remembered of the calls around the kernels.
#[derive(Default)]
pub struct Around {
    launched: Launched,
    /// Where it matters whose memory an address is in.
    allocations: Option<Allocations>,
}

impl Around {
    pub fn new(with_allocations: bool) -> Self {
        Around {
            allocations: with_allocations.then(Allocations::default),
            ..Around::default()
        }
    }
}

impl Onlooker for Around {
    fn see(&mut self, record: &Record) {
        self.launched.add(record);
        if let Some(allocations) = &mut self.allocations {
            allocations.add(record);
        }
    }
}

/// What there is to say when the program has ended.
pub struct ProbeResults {
    pub notes: Notes,
    pub dumps: Vec<MapDump>,
    pub rings: Vec<RingTotals>,
    /// Of when the maps are.
    pub readings: Vec<MapReading>,
    /// What was printed, the first of it.
    pub lines: Vec<String>,
    /// Blocks that came and went, in the device's time, the first of them.
    pub spans: Vec<(u64, u64)>,
    /// `gpu mem` counted one access in so many.
    pub one_of: u32,
    /// What it counted, with the names of what was accessed.
    pub accesses: Vec<MemoryAccess>,
    /// Kernels that ran without their probes.
    pub unprobed: Unprobed,
}

impl ProbeResults {
    /// Says of accesses in whose memory they were, now that all of it is known; what there is to note of it.
    fn name_accesses(&mut self, allocations: &Allocations) -> Option<String> {
        self.accesses = accesses(&self.dumps, self.one_of, |pid, address| {
            let (found, start) = allocations.find(pid, address, CACHE_LINE_BYTES)?;
            let owner = MemoryOwner {
                name: found.name.to_string(),
                number: found.number,
                bytes: found.bytes,
                op: found.op,
                times: found.times,
            };
            Some((owner, start))
        });
        (allocations.forgotten > 0).then(|| {
            format!(
                "{} not tracked: accesses there are shown without a name",
                counted(allocations.forgotten, "allocation was", "allocations were")
            )
        })
    }

    /// Each of them as an event at the trace's end, with ids behind all others.
    fn write_accesses(&self, sink: &mut impl Sink, last_id: u64) -> Result<(), SinkError> {
        let now = monotonic();
        for (access, id) in self.accesses.iter().zip(last_id.saturating_add(1)..) {
            let mut event = Event::new(id, Layer::Device, Category::Memory, "access", now);
            event.pid = access.pid;
            event.tid = access.pid;
            event.context = Some(access.context.into());
            event.args = access_details(access);
            sink.give(event.into())?;
        }
        Ok(())
    }
}

impl Results for ProbeResults {
    fn complete(&mut self, trace: &mut TraceFile, said: &mut Together) {
        let Some(around) = trace.onlooker::<Around>() else {
            return;
        };
        self.unprobed = Unprobed::of(&self.notes, &around.launched);
        said.observed.notes.extend_from_slice(&self.unprobed.notes);
        for line in &self.unprobed.details {
            let _ = writeln!(said.observed.details, "cutrace: {line}");
        }
        if let Some(allocations) = around.allocations {
            said.observed.notes.extend(self.name_accesses(&allocations));
            if said.observed.failure.is_none()
                && let Err(why) = self.write_accesses(trace, allocations.last_id)
            {
                said.observed.failure = Some(why);
            }
        }
    }
}
