//! `api/flame`: the flame graph of a stretch. A long one takes many segments: each answer reads some and says how far it is, until
//! one has the graph.

use super::indexed::{Indexed, each, readers};
use render::detail::StretchFlame;
use serde_json::json;
use std::{
    collections::VecDeque,
    sync::PoisonError,
    time::{Duration, Instant},
};
use trace::Parts;

/// For reading the segments of one answer.
const TIME: Duration = Duration::from_millis(50);
/// Graphs that are being made at once: pages may be open side by side.
const MOST_GROWING: usize = 4;

/// Those that were asked for last come first.
pub type Growing = VecDeque<Part>;

/// A flame graph that is being made.
pub struct Part {
    stretch: (u64, u64),
    flame: StretchFlame,
    /// Segments to be read, and how many there were.
    rest: VecDeque<u32>,
    all: usize,
}

impl Part {
    fn new(trace: &Indexed, stretch: (u64, u64)) -> Self {
        let rest = VecDeque::from(trace.detail.flame_segments(stretch.0, stretch.1));
        Part {
            stretch,
            flame: StretchFlame::new(stretch.0, stretch.1),
            all: rest.len(),
            rest,
        }
    }
}

pub fn flame(trace: &Indexed, from: u64, to: u64) -> anyhow::Result<String> {
    let began = Instant::now();
    let mut growing = trace.growing.lock().unwrap_or_else(PoisonError::into_inner);
    let place = growing.iter().position(|part| part.stretch == (from, to));
    let known = place.and_then(|place| growing.remove(place));
    let mut part = known.unwrap_or_else(|| Part::new(trace, (from, to)));
    while !part.rest.is_empty() {
        let count = readers().min(part.rest.len());
        let group: Vec<u32> = part.rest.drain(..count).collect();
        let read = each(&group, |segment| {
            trace.records(segment as usize, Parts::ALL)
        });
        for (&segment, records) in group.iter().zip(read) {
            part.flame.add(&trace.detail, segment, &records?);
        }
        if began.elapsed() > TIME && !part.rest.is_empty() {
            let share = 1.0 - part.rest.len() as f64 / part.all as f64;
            growing.push_front(part);
            growing.truncate(MOST_GROWING);
            return Ok(json!({ "share": share }).to_string());
        }
    }
    Ok(part.flame.finish())
}
