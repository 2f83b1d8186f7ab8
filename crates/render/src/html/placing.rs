//! Which row of its lane a span is on. The page and the server that it asks for detail place spans by the same
//! rules, so that what the server sends is on the page's rows.

use super::lanes::{Lanes, MAX_DEPTH, Open};
use event::{Event, Kind};

/// Whether an event is on the timeline. Samples are numbers, and lanes hold spans; of contexts and waits there are lanes in
/// other viewers, and the calls that wait are here.
pub fn is_shown(event: &Event) -> bool {
    !matches!(
        event.kind,
        Kind::Counter | Kind::GpuContext | Kind::GpuWait | Kind::NotWatched
    )
}

/// A span that has ended.
pub struct Closed<T> {
    pub depth: usize,
    /// Its beginning, if that was placed.
    pub open: Option<Open<T>>,
    /// Time in spans directly inside.
    pub inside: u64,
}

/// A span that never ended.
pub struct Unfinished<T> {
    pub lane: u32,
    pub depth: usize,
    pub open: Open<T>,
    /// To the end of the trace.
    pub duration: u64,
}

impl<T> Lanes<T> {
    /// A span begins. False if it is too deep to be placed.
    pub fn begin(
        &mut self,
        index: u32,
        id: u64,
        start: u64,
        more: impl FnOnce(&mut super::lanes::Lane<T>, usize) -> T,
    ) -> bool {
        let lane = &mut self.list[index as usize];
        let Some(depth) = lane.free_depth() else {
            return false;
        };
        let more = more(lane, depth);
        lane.begin(
            depth,
            Open {
                id,
                start,
                inside: 0,
                more,
            },
        );
        true
    }

    /// A span ends, `start` and `duration` being from the page's origin.
    pub fn close(&mut self, index: u32, event: &Event, start: u64, duration: u64) -> Closed<T> {
        let lane = &mut self.list[index as usize];
        let gpu = lane.owner.is_gpu();
        let (depth, mut open) = match lane.end(event.id) {
            Some((depth, open)) => (depth, Some(open)),
            // Its beginning was not seen, or was too deep. A call says itself how deep it is.
            None if gpu => (lane.free_since(start), None),
            None => ((event.depth as usize).min(MAX_DEPTH - 1), None),
        };
        if open.is_some()
            && !gpu
            && let Some(parent) = lane.enclosing(depth)
        {
            parent.inside = parent.inside.saturating_add(duration);
        }
        let mut inside = 0;
        if let Some(open) = &mut open {
            inside = open.inside.min(duration);
            open.inside = inside;
        }
        lane.ends_at(depth, start.saturating_add(duration));
        Closed {
            depth,
            open,
            inside,
        }
    }

    /// The depth of an instant: below what is open.
    pub fn instant(&mut self, index: u32, at: u64) -> usize {
        let lane = &mut self.list[index as usize];
        let depth = lane.open.len().min(MAX_DEPTH - 1);
        lane.ends_at(depth, at);
        depth
    }

    /// Takes out what is still open at the trace's end, lane by lane, inner spans first.
    pub fn unfinished(&mut self, end: u64) -> Vec<Unfinished<T>> {
        let mut all = Vec::new();
        for (index, lane) in self.list.iter_mut().enumerate() {
            while let Some(open) = lane.open.pop() {
                let Some(mut open) = open else { continue };
                let depth = lane.open.len();
                let duration = end.saturating_sub(open.start);
                open.inside = open.inside.min(duration);
                if !lane.owner.is_gpu()
                    && let Some(parent) = lane.enclosing(depth)
                {
                    parent.inside = parent.inside.saturating_add(duration);
                }
                lane.ends_at(depth, open.start.saturating_add(duration));
                all.push(Unfinished {
                    lane: index as u32,
                    depth,
                    open,
                    duration,
                });
            }
        }
        all
    }
}
