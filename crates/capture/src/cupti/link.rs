//! Which call caused which work.
//!
//! CUPTI gives the work a call causes that call's number, and tells of the call: its thread, its
//! beginning and its end. The injected library has seen the same call on the same thread, around or
//! inside that time. Calls of one thread do not overlap but by nesting, so thread and time name one
//! call and no other.

use ahash::AHashMap;
use event::{Category, Direction, Event, Extent, Layer, Meaning, Name, What};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Calls of one thread that wait for CUPTI's records of them; the oldest are dropped.
const MOST_WAITING: usize = 1 << 20;

/// A thread that is held up hands its calls in late: so long is waited for one that should be there.
const GRACE: u64 = 1_000_000_000;

/// Calls of a thread end in this order but for how well their clock is known, which changes.
const DISORDER: u64 = 1_000_000;

/// A call that may have given the GPU work, as the injected library saw it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cause {
    pub id: u64,
    pub start: u64,
    pub end: u64,
    pub layer: Layer,
    pub device: Option<u32>,
    pub context: Option<u64>,
    pub stream: Option<u64>,
    /// It waits, and gives the GPU nothing.
    pub waits: bool,
}

/// What a call meant, where the work itself does not say it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallMeaning {
    Kernel(Name),
    Copy(Direction, u64),
}

#[derive(Debug)]
struct EndedCall {
    cause: Cause,
    meant: Option<CallMeaning>,
}

/// Calls that have been seen and not been asked for yet; shared by who sees them and who asks.
#[derive(Debug, Clone, Default)]
pub struct Calls {
    seen: Arc<Mutex<CallsByThread>>,
    waits: bool,
}

#[derive(Debug, Default)]
struct CallsByThread {
    threads: AHashMap<(u32, u32), ThreadCalls>,
    /// The latest end of a call that has been seen.
    latest: u64,
    /// Every call that ended before this has been seen.
    until: u64,
    forgotten: u64,
}

/// Calls of one thread, in the order in which they ended.
#[derive(Debug, Default)]
struct ThreadCalls {
    entries: VecDeque<EndedCall>,
    /// Where was looked last: the next question is of a call nearby.
    looked: usize,
}

impl ThreadCalls {
    /// The first that does not end before a moment.
    fn ending_from(&mut self, moment: u64) -> usize {
        let before = |place: usize| self.entries[place].cause.end < moment;
        let length = self.entries.len();
        let (mut low, mut high);
        let near = self.looked.min(length);
        let mut step = 1;
        if near < length && before(near) {
            // Farther and farther ahead, until it is between two.
            low = near + 1;
            while low + step < length && before(low + step) {
                low += step + 1;
                step *= 2;
            }
            high = (low + step).min(length);
        } else {
            high = near;
            while high > step && !before(high - step) {
                high -= step;
                step *= 2;
            }
            low = high.saturating_sub(step);
        }
        while low < high {
            let middle = low + (high - low) / 2;
            match before(middle) {
                true => low = middle + 1,
                false => high = middle,
            }
        }
        self.looked = low;
        low
    }

    fn forget(&mut self, count: usize) {
        self.entries.drain(..count);
        self.looked = self.looked.saturating_sub(count);
    }
}

/// What is known of a call that CUPTI reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CauseLookup {
    Call(Cause),
    /// It may come yet.
    NotYet,
    Never,
}

/// How far the calls that have been seen go.
#[derive(Debug, Clone, Copy)]
pub struct Horizon {
    latest: u64,
    until: u64,
}

impl Horizon {
    /// Whether [`Calls::find`] may say more of a call than that it may come yet.
    pub fn reaches(&self, (start, end): (u64, u64), slack: u64) -> bool {
        self.latest.saturating_add(slack) >= start || self.until > end.saturating_add(GRACE)
    }
}

impl CallsByThread {
    fn is_complete(&self, ns: u64) -> bool {
        self.until > ns.saturating_add(GRACE)
    }
}

impl Calls {
    fn lock(&self) -> MutexGuard<'_, CallsByThread> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls that wait for the GPU are wanted as well as those that give it work.
    pub fn with_waits(self, waits: bool) -> Self {
        Calls { waits, ..self }
    }

    /// Whether CUPTI may tell what a call caused: those that are asked for.
    pub fn wants(&self, call: &Event) -> bool {
        may_cause_work(call) || (self.waits && may_wait(call))
    }

    /// A call has ended.
    pub fn add(&self, call: &Event) {
        let Extent::Closed(duration) = call.extent else {
            return;
        };
        let cause = Cause {
            id: call.id,
            start: call.start,
            end: call.start.saturating_add(duration),
            layer: call.layer,
            device: call.device,
            context: call.context,
            stream: call.stream,
            waits: may_wait(call),
        };
        let mut seen = self.lock();
        seen.latest = seen.latest.max(cause.end);
        let thread = seen.threads.entry((call.pid, call.tid)).or_default();
        let full = thread.entries.len() >= MOST_WAITING;
        if full {
            thread.forget(1);
        }
        thread.entries.push_back(EndedCall { cause, meant: None });
        seen.forgotten += u64::from(full);
    }

    /// What a call meant that has been added; the calls inside of it, which came before, mean the same.
    pub fn meant(&self, meaning: &Meaning) {
        let meant = match &meaning.what {
            What::Launch(launch) => CallMeaning::Kernel(launch.kernel.clone()),
            What::Transfer(transfer) => CallMeaning::Copy(transfer.direction, transfer.size),
            What::Memory(_) => return,
        };
        let mut seen = self.lock();
        let Some(thread) = seen.threads.get_mut(&(meaning.pid, meaning.tid)) else {
            return;
        };
        let thread = &mut thread.entries;
        let Some(place) = (thread.iter()).rposition(|entry| entry.cause.id == meaning.op) else {
            return;
        };
        let start = thread[place].cause.start;
        let inside = thread.iter_mut().take(place + 1).rev();
        // By its middle: what is inside by nanoseconds may be told to begin outside.
        let middle = |call: &Cause| call.start + call.end.saturating_sub(call.start) / 2;
        for entry in inside.take_while(|entry| middle(&entry.cause) >= start) {
            entry.meant.get_or_insert_with(|| meant.clone());
        }
    }

    /// What a call meant that was found here.
    pub fn meaning_of(&self, pid: u32, tid: u32, call: &Cause) -> Option<CallMeaning> {
        let mut seen = self.lock();
        let thread = seen.threads.get_mut(&(pid, tid))?;
        let near = call.end.saturating_sub(DISORDER)..=call.end.saturating_add(DISORDER);
        let first = thread.ending_from(*near.start());
        let same = (thread.entries.range(first..))
            .take_while(|entry| entry.cause.end <= *near.end())
            .find(|entry| entry.cause.id == call.id)?;
        same.meant.clone()
    }

    /// How far what has been seen goes, at this moment.
    pub fn horizon(&self) -> Horizon {
        let seen = self.lock();
        Horizon {
            latest: seen.latest,
            until: seen.until,
        }
    }

    /// Everything that ended before has been added.
    pub fn until(&self, ns: u64) {
        let mut seen = self.lock();
        seen.until = seen.until.max(ns);
    }

    /// The call that CUPTI saw on that thread from `start` to `end`. `slack`: how wrong times are.
    pub fn find(&self, pid: u32, tid: u32, span: (u64, u64), slack: u64) -> CauseLookup {
        let mut seen = self.lock();
        let (_, end) = span;
        let complete = seen.is_complete(end);
        let missing = if complete {
            CauseLookup::Never
        } else {
            CauseLookup::NotYet
        };
        let Some(thread) = seen.threads.get_mut(&(pid, tid)) else {
            return missing;
        };
        // A call that ended later has been seen: so have all of this thread that ended before.
        let passed =
            (thread.entries.back()).is_some_and(|last| last.cause.end > end.saturating_add(slack));
        let best = match best(thread, span, 0) {
            // Only a call's neighbour may be as near, and only as long as the call itself is missing.
            None if complete || passed => best(thread, span, slack),
            found => found,
        };
        match best {
            // A call around it may not have been seen to end yet, but it is no better than this.
            Some(best) if best.layer == Layer::Driver || complete => CauseLookup::Call(best),
            Some(_) => CauseLookup::NotYet,
            None => missing,
        }
    }

    /// Whether every call that ended before this has been seen, with some grace.
    pub fn is_complete(&self, ns: u64) -> bool {
        self.lock().is_complete(ns)
    }

    /// Calls that ended before this will not be asked for.
    pub fn forget(&self, before: u64) {
        let mut seen = self.lock();
        for thread in seen.threads.values_mut() {
            let old = (thread.entries).partition_point(|call| call.cause.end < before);
            thread.forget(old);
        }
        seen.threads.retain(|_, thread| !thread.entries.is_empty());
    }

    pub fn forgotten(&self) -> u64 {
        self.lock().forgotten
    }
}

/// The innermost call that may be the one of this time: the driver's call inside the runtime's is the
/// one that submits.
fn best(thread: &mut ThreadCalls, (start, end): (u64, u64), slack: u64) -> Option<Cause> {
    // CUPTI's call lies within ours, or, where the runtime's was not seen, ours within CUPTI's.
    let middle = start + (end.saturating_sub(start)) / 2;
    let around = |call: &Cause| call.start <= middle && middle <= call.end;
    let inside = |call: &Cause| {
        call.start.saturating_add(slack) >= start && call.end <= end.saturating_add(slack)
    };
    let first = thread.ending_from(start.saturating_sub(slack));
    let near = thread.entries.range(first..).map(|entry| entry.cause);
    let near =
        near.take_while(|call| call.end <= end.saturating_add(slack) || call.start <= middle);
    let mut best: Option<Cause> = None;
    for call in near.filter(|call| around(call) || inside(call)) {
        let better = best.is_none_or(|best| {
            // What waits inside a call is not what gave the work.
            if call.waits != best.waits {
                return best.waits;
            }
            let deeper = call.layer == Layer::Driver && best.layer != Layer::Driver;
            let as_deep = call.layer == best.layer;
            deeper || (as_deep && around(&call) && !around(&best))
        });
        if better {
            best = Some(call);
        }
    }
    best
}

/// Whether a call may give the GPU work.
pub fn may_cause_work(event: &Event) -> bool {
    matches!(event.layer, Layer::Runtime | Layer::Driver)
        && matches!(
            event.category,
            Category::Kernel | Category::Transfer | Category::Memory | Category::Graph
        )
        && cuda::cupti::submits_work(&event.name)
}

/// The runtime's functions behind `<<<…>>>`: the driver's inside give the work, and these say what it
/// was.
pub fn is_around_work(event: &Event) -> bool {
    event.layer == Layer::Runtime
        && (event.name.strip_prefix("__")).is_some_and(cuda::cupti::submits_work)
}

/// Whether a call waits for the GPU, or makes a stream wait.
fn may_wait(event: &Event) -> bool {
    matches!(event.layer, Layer::Runtime | Layer::Driver) && cuda::cupti::synchronises(&event.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_found_wherever_was_looked_before() {
        let ends = [3, 3, 5, 8, 8, 8, 13, 20, 21, 40];
        for length in 0..=ends.len() {
            for looked in 0..=ends.len() + 1 {
                for moment in 0..45 {
                    let cause = |end| Cause {
                        id: 1,
                        start: 0,
                        end,
                        layer: Layer::Driver,
                        device: None,
                        context: None,
                        stream: None,
                        waits: false,
                    };
                    let entries = ends[..length].iter().map(|end| EndedCall {
                        cause: cause(*end),
                        meant: None,
                    });
                    let mut calls = ThreadCalls {
                        entries: entries.collect(),
                        looked,
                    };
                    let expected = ends[..length].partition_point(|end| *end < moment);
                    assert_eq!(calls.ending_from(moment), expected, "{looked} {moment}");
                }
            }
        }
    }
}
