//! A context's clock: events whose host times are known, in a stream of our own that never has
//! anything else to do.

use super::driver::{self, NOT_READY, SUCCESS};
use super::hot;
use crate::clock::monotonic;
use event::{ClockMap, ClockPair, ClockRules};
use std::collections::VecDeque;

/// CU_STREAM_NON_BLOCKING: it neither waits for the default stream nor keeps it waiting.
const NON_BLOCKING: u32 = 1;
/// Times are told from events this close: elapsed times are single-precision milliseconds, and
/// clocks drift.
const RENEW: u64 = 250_000_000;
/// Kept, for work that comes late.
const MOST: usize = 64;
const TRIES: usize = 8;
/// A first try is given up after this, and others are not begun after that: the GPU, or the host, is
/// too busy to answer.
const PATIENCE: u64 = 100_000_000;
const ENOUGH: u64 = 2_000_000;
/// Then others may have the processor.
const PATIENT: u64 = 50_000;
/// How far two clocks may drift apart as long as it has not been seen, in parts of a billion.
const UNSEEN_DRIFT: u64 = 50_000;
/// A drift is measured over more than this.
const LONG: u64 = 1_000_000_000;
/// Times are told from the nearest event, so that only the rate is asked for.
const RULES: ClockRules = ClockRules {
    measured_over: Some(LONG),
    kept: 2,
    ..ClockRules::SPARSE
};

/// An event that was reached at a known time.
#[derive(Clone, Copy, Default)]
struct Point {
    event: usize,
    host: u64,
    margin: u64,
    /// The GPU's time since the first of all.
    gpu: u64,
}

impl Point {
    fn pair(&self) -> ClockPair {
        ClockPair {
            source: self.gpu,
            host: self.host,
            margin: self.margin,
        }
    }
}

pub struct Reference {
    stream: usize,
    spare: Option<usize>,
    points: VecDeque<Point>,
    first: ClockPair,
    /// The GPU's time on the host's, and by how many parts of a billion its rate may be wrong.
    clock: ClockMap,
    unsure: u64,
}

/// A time on the host's clock.
pub struct Reached {
    pub host: u64,
    pub error: u64,
}

impl Reference {
    /// Of the current context.
    pub fn new() -> Option<Self> {
        let mut stream = 0;
        // SAFETY: writes the one word.
        if unsafe { driver::cuStreamCreate(&mut stream, NON_BLOCKING) } != SUCCESS {
            return None;
        }
        let mut reference = Reference {
            stream,
            spare: None,
            points: VecDeque::new(),
            first: Point::default().pair(),
            clock: ClockMap::new(RULES),
            unsure: UNSEEN_DRIFT,
        };
        let Some(point) = reference.pin() else {
            reference.destroy();
            return None;
        };
        reference.first = point.pair();
        reference.clock.add(reference.first);
        reference.points.push_back(point);
        Some(reference)
    }

    /// The narrowest of some tries.
    fn pin(&mut self) -> Option<Point> {
        let mut best: Option<Point> = None;
        let begun = monotonic();
        for _ in 0..TRIES {
            if best.is_some() && monotonic().saturating_sub(begun) > ENOUGH {
                break;
            }
            let event = self.spare.take().or_else(hot::event)?;
            let before = monotonic();
            // SAFETY: an event and a stream of ours, in the current context.
            let after = unsafe {
                let recorded = driver::cuEventRecord(event, self.stream) == SUCCESS;
                let patience = if best.is_some() { ENOUGH } else { PATIENCE };
                recorded.then(|| reached(event, before, patience)).flatten()
            };
            let Some(after) = after else {
                self.spare = Some(event);
                break;
            };
            let margin = (after - before).div_ceil(2);
            let point = Point {
                event,
                host: before + margin,
                margin,
                gpu: 0,
            };
            match &mut best {
                Some(best) if best.margin <= margin => self.spare = Some(event),
                _ => self.spare = best.replace(point).map(|worse| worse.event),
            }
        }
        best
    }

    /// A new point, if the last one is old.
    pub fn renew(&mut self) {
        let Some(last) = self.points.back().copied() else {
            return;
        };
        if monotonic().saturating_sub(last.host) < RENEW {
            return;
        }
        let Some(mut point) = self.pin() else {
            return;
        };
        let Ok(passed) = elapsed(last.event, point.event) else {
            self.spare = Some(point.event);
            return;
        };
        point.gpu = last.gpu + passed;
        self.clock.add(point.pair());
        if point.gpu > LONG && point.host > self.first.host {
            self.unsure = (self.first.margin + point.margin) * 1_000_000_000 / point.gpu;
        }
        self.points.push_back(point);
        if self.points.len() > MOST
            && let Some(old) = self.points.pop_front()
        {
            self.spare.get_or_insert(old.event);
        }
    }

    /// When an event was reached that was recorded after `marked`.
    pub fn at(&self, event: usize, marked: u64) -> Result<Reached, i32> {
        // One that certainly was reached before: elapsed times are not asked for backwards.
        let is_before = |point: &&Point| point.host + point.margin <= marked;
        let from = (self.points.iter().rev().find(is_before)).or(self.points.front());
        let from = from.ok_or(NOT_READY)?;
        let passed = elapsed(from.event, event)?;
        let drift = passed / 1_000 * self.unsure / 1_000_000;
        Ok(Reached {
            host: from.host + self.clock.length(passed),
            error: from.margin + drift,
        })
    }

    pub fn destroy(&self) {
        let events = self.points.iter().map(|point| point.event);
        for event in events.chain(self.spare) {
            // SAFETY: ours, in the current context.
            unsafe { driver::cuEventDestroy_v2(event) };
        }
        // SAFETY: as above.
        unsafe { driver::cuStreamDestroy_v2(self.stream) };
    }
}

/// Asks until the event is reached; the time then.
unsafe fn reached(event: usize, since: u64, patience: u64) -> Option<u64> {
    loop {
        // SAFETY: by the caller.
        let answer = unsafe { driver::cuEventQuery(event) };
        let now = monotonic();
        match answer {
            SUCCESS => return Some(now),
            NOT_READY if now.saturating_sub(since) < PATIENT => std::hint::spin_loop(),
            NOT_READY if now.saturating_sub(since) < patience => std::thread::yield_now(),
            _ => return None,
        }
    }
}

/// Nanoseconds from one event to another; Err also while they have not been reached.
pub fn elapsed(from: usize, to: usize) -> Result<u64, i32> {
    let mut milliseconds = 0f32;
    // SAFETY: events of the current context.
    match unsafe { driver::cuEventElapsedTime(&mut milliseconds, from, to) } {
        SUCCESS => Ok((f64::from(milliseconds) * 1e6).max(0.0) as u64),
        why => Err(why),
    }
}
