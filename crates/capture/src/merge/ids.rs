//! Ids that are unique across sources: each counts its own from 1.

use event::{Layer, Meaning, Record};

/// Gives records the ids they have in the trace.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ids {
    /// How many sources there are: ids of source n are n + 1, n + 1 + stride, …
    stride: u64,
    /// The source whose calls GPU work names as its cause.
    calls: usize,
}

impl Ids {
    pub fn new(sources: usize, calls: usize) -> Self {
        Ids {
            stride: sources.max(1) as u64,
            calls,
        }
    }

    /// The id that a source's id has in the trace.
    fn of(&self, source: usize, id: u64) -> u64 {
        id.saturating_sub(1)
            .saturating_mul(self.stride)
            .saturating_add(source as u64 + 1)
    }

    pub fn make_unique(&self, source: usize, record: &mut Record) {
        match record {
            Record::Event(event) => {
                // A call that names itself; GPU work names its call by the id that the call's source gave.
                let own = event.layer != Layer::Gpu && event.correlation == Some(event.id);
                event.id = self.of(source, event.id);
                if own {
                    event.correlation = Some(event.id);
                }
                if event.layer == Layer::Gpu {
                    event.correlation = event.correlation.map(|cause| self.of(self.calls, cause));
                }
            }
            Record::Meaning(Meaning { op, .. }) => *op = self.of(source, *op),
            Record::Lost(_) => {}
        }
    }
}
