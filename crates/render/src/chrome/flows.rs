//! Which call each piece of GPU work came from, for the arrows between the two. An arrow is drawn when the
//! work has ended: only then is it known that there is one, and where it may end.

use crate::tracks::{Track, submits};
use event::{Event, Layer};

/// Calls that may yet be found to have submitted work: each has a place by its correlation, and gives way to a
/// later one with the same place. Numbers that count up so forget the oldest.
const PLACES: usize = 65_536;

#[derive(Default)]
pub struct Flows {
    calls: Vec<Option<FlowStart>>,
    arrows: u64,
}

/// A call that names a correlation, and where it is drawn.
#[derive(Debug, Clone, Copy)]
pub struct FlowStart {
    process: u32,
    correlation: u64,
    pub op: u64,
    pub start: u64,
    pub track: Track,
    pub pid: u64,
    pub tid: u64,
}

/// From a call to work: the id is its own, also where one call submitted a lot.
#[derive(Debug, Clone, Copy)]
pub struct Arrow {
    pub id: u64,
    pub call: FlowStart,
    /// When it ends: inside the work, and not before it begins.
    pub end: u64,
}

impl Flows {
    /// A span begins on this track, which has these ids.
    pub fn begin(&mut self, event: &Event, track: Track, (pid, tid): (u64, u64)) {
        let Some(correlation) = event.correlation.filter(|_| submits(event)) else {
            return;
        };
        if self.calls.is_empty() {
            self.calls.resize(PLACES, None);
        }
        self.calls[place_of(event.pid, correlation)] = Some(FlowStart {
            process: event.pid,
            correlation,
            op: event.id,
            start: event.start,
            track,
            pid,
            tid,
        });
    }

    /// Work has ended. None if nobody knows its call, or if clocks say that it was over before its call.
    pub fn end(&mut self, work: &Event, duration: u64) -> Option<Arrow> {
        let correlation = work.correlation.filter(|_| work.layer == Layer::Gpu)?;
        let call = (*self.calls.get(place_of(work.pid, correlation))?)?;
        let is_it = (call.process, call.correlation) == (work.pid, correlation);
        let end = work.start.max(call.start);
        if !is_it || end > work.start && end >= work.start.saturating_add(duration) {
            return None;
        }
        self.arrows += 1;
        Some(Arrow {
            id: self.arrows,
            call,
            end,
        })
    }
}

/// Numbers of several processes are set apart.
fn place_of(pid: u32, correlation: u64) -> usize {
    let apart = u64::from(pid).wrapping_mul(0x9e37_79b9);
    (correlation.wrapping_add(apart) % PLACES as u64) as usize
}
