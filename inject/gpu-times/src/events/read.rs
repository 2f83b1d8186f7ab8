//! What happens beside the program: events that have been reached are read, put onto the host's clock
//! and handed over. Nothing here waits for the program's work.

use super::{
    driver::{self, NOT_READY, Relaxed, SUCCESS},
    hot::{self, Pending},
    reference::Reference,
};
use crate::{clock::monotonic, file::TimesFile, threads::Alone};
use event::gpu_times::{self as frames, TIMED_BYTES};
use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

/// How often events are read.
const PERIOD: Duration = Duration::from_millis(20);
/// Above this many pieces of work a second only some are timed: an event costs the host a
/// microsecond, and the GPU nearly as much.
const MOST_A_SECOND: u64 = 50_000;

/// CUDA's events tell times in steps of half a microsecond; there are two.
const RESOLUTION: u64 = 1_000;
/// From the host's word to the first instruction, on a GPU that has nothing else to do.
const SUBMISSION: u64 = 5_000;
/// From one command of a stream to the next.
const STEP: u64 = 2_000;

/// A context that work was seen in.
pub struct TimedContext {
    pub handle: usize,
    device: i32,
    is_primary: bool,
    reference: Reference,
}

impl TimedContext {
    pub fn is_primary_of(&self, device: i32) -> bool {
        self.is_primary && self.device == device
    }
}

struct Reader {
    /// None: nothing is read, yet or any more.
    times: Option<TimesFile>,
    contexts: Vec<TimedContext>,
    unfinished: u64,
    /// What had come by when the rate was last looked at, and when that was.
    came: (u64, u64),
    told: [u64; 3],
}

/// Its holder may use the driver in contexts of the program: they do not end meanwhile.
static READER: Mutex<Reader> = Mutex::new(Reader {
    times: None,
    contexts: Vec::new(),
    unfinished: 0,
    came: (0, 0),
    told: [0; 3],
});

fn reader() -> MutexGuard<'static, Reader> {
    READER.lock().unwrap_or_else(PoisonError::into_inner)
}

pub fn start(times: TimesFile) {
    let mut reader = reader();
    reader.times = Some(times);
    reader.came = (hot::counts().0, monotonic());
}

/// Whether times of the context, which is current, can be read; makes it so if it is new.
pub fn knows(context: usize) -> bool {
    let mut reader = reader();
    if reader.times.is_none() {
        return false;
    }
    if reader.contexts.iter().any(|known| known.handle == context) {
        return true;
    }
    let mut device = -1;
    // SAFETY: writes the one word.
    if unsafe { driver::cuCtxGetDevice(&mut device) } != SUCCESS {
        return false;
    }
    let Some(reference) = Reference::new() else {
        return false;
    };
    reader.contexts.push(TimedContext {
        handle: context,
        device,
        is_primary: primary(device) == Some(context),
        reference,
    });
    // At the end the driver has left the service already.
    if let Some(times) = &mut reader.times {
        times.surroundings();
    }
    true
}

/// A device's primary context, if it is in use.
fn primary(device: i32) -> Option<usize> {
    let mut context = 0;
    if is_inactive(device) {
        return None;
    }
    // SAFETY: what is retained is released again, so that it was not the last.
    unsafe {
        if driver::cuDevicePrimaryCtxRetain(&mut context, device) != SUCCESS {
            return None;
        }
        super::instead::release_primary(device);
    }
    Some(context)
}

pub fn is_inactive(device: i32) -> bool {
    let (mut flags, mut active) = (0, 0);
    // SAFETY: writes the two words.
    let asked = unsafe { driver::cuDevicePrimaryCtxGetState(device, &mut flags, &mut active) };
    asked != SUCCESS || active == 0
}

/// A call that may end contexts: what is known of them is read before, and forgotten if they ended.
pub fn ending(
    which: impl Fn(&TimedContext) -> bool,
    call: impl Fn() -> i32,
    ended: impl Fn(i32) -> bool,
) -> i32 {
    if !hot::is_active() {
        return call();
    }
    let mut reader = reader();
    let Some(place) = reader.contexts.iter().position(which) else {
        return call();
    };
    {
        let _relaxed = Relaxed::new();
        reader.visit(place, false);
    }
    let result = call();
    if ended(result) {
        let known = reader.contexts.swap_remove(place);
        let gone = hot::seen()
            .as_mut()
            .and_then(|all| all.remove(&known.handle));
        let left = gone.map_or(0, |seen| seen.pending.values().map(|one| one.len()).sum());
        reader.unfinished += left as u64;
    }
    result
}

/// The thread that reads.
pub fn run(alone: &Alone) {
    let _relaxed = Relaxed::new();
    loop {
        if alone.sleep(PERIOD) {
            return;
        }
        let mut reader = reader();
        match &reader.times {
            None => return,
            Some(times) if times.is_abandoned() => {
                hot::set_active(false);
                reader.stop(true);
                return;
            }
            Some(_) => reader.turn(),
        }
    }
}

/// Reads what there is, and nothing more from then on.
pub fn finish() {
    hot::set_active(false);
    let mut reader = reader();
    let _relaxed = Relaxed::new();
    reader.stop(false);
}

impl Reader {
    fn turn(&mut self) {
        for place in 0..self.contexts.len() {
            self.visit(place, true);
        }
        let (came, now) = (hot::counts().0, monotonic());
        let (before, since) = std::mem::replace(&mut self.came, (came, now));
        let passed = now.saturating_sub(since).max(1);
        let rate = (came - before).saturating_mul(1_000_000_000) / passed;
        hot::set_every(rate.div_ceil(MOST_A_SECOND));
        self.count();
    }

    fn count(&mut self) {
        let (came, timed) = hot::counts();
        let sums = [came, timed, self.unfinished];
        if sums != self.told {
            self.told = sums;
            let words = sums.map(u64::to_le_bytes);
            if let Some(times) = &mut self.times {
                times.write(frames::COUNTED, words.as_flattened());
            }
        }
    }

    fn stop(&mut self, destroy: bool) {
        if self.times.is_none() {
            return;
        }
        for place in 0..self.contexts.len() {
            self.visit(place, false);
        }
        let left = (hot::seen().iter().flat_map(HashMap::values))
            .flat_map(|seen| seen.pending.values())
            .map(|queue| queue.len() as u64)
            .sum::<u64>();
        self.unfinished += left;
        self.count();
        if let Some(mut times) = self.times.take() {
            times.end();
        }
        if destroy {
            self.destroy();
        }
    }

    /// The program goes on without us.
    fn destroy(&mut self) {
        for known in std::mem::take(&mut self.contexts) {
            let spare = hot::seen()
                .as_mut()
                .and_then(|all| all.remove(&known.handle))
                .map(|seen| seen.spare);
            in_context(known.handle, || {
                for event in spare.into_iter().flatten() {
                    // SAFETY: one of ours that is not in use.
                    unsafe { driver::cuEventDestroy_v2(event) };
                }
                known.reference.destroy();
            });
        }
    }

    /// Reads what has been reached of a context's events.
    fn visit(&mut self, place: usize, refresh: bool) {
        let Some(known) = self.contexts.get_mut(place) else {
            return;
        };
        let mut queues = match hot::seen()
            .as_mut()
            .and_then(|all| all.get_mut(&known.handle))
        {
            Some(seen) => std::mem::take(&mut seen.pending),
            None => return,
        };
        queues.retain(|_, queue| !queue.is_empty());
        if queues.is_empty() {
            return;
        }
        let (mut encoded, mut count, mut read) = (Vec::new(), 0, Vec::new());
        let mut failed = 0;
        in_context(known.handle, || {
            for queue in queues.values_mut() {
                while let Some(pending) = queue.front() {
                    match known.times(pending) {
                        Ok(((start, end, error), clock_error)) => {
                            let mut timed = pending.timed(start, end, error);
                            timed.clock_error = clock_error;
                            timed.device = known.device as u64;
                            timed.context = known.handle as u64;
                            encoded.extend_from_slice(&timed.encode());
                            count += 1;
                        }
                        Err(NOT_READY) => break,
                        Err(_) => failed += 1,
                    }
                    read.extend([pending.before, pending.behind]);
                    queue.pop_front();
                }
            }
            if refresh {
                known.reference.renew();
            }
        });
        self.unfinished += failed;
        if let Some(seen) = hot::seen()
            .as_mut()
            .and_then(|all| all.get_mut(&known.handle))
        {
            for (stream, mut rest) in queues {
                let newer = seen.pending.entry(stream).or_default();
                rest.append(newer);
                *newer = rest;
            }
            seen.spare.extend(read);
        }
        if let Some(times) = &mut self.times
            && count > 0
        {
            times.pieces(frames::TIMED, &encoded, count);
        }
        debug_assert_eq!(encoded.len(), count as usize * TIMED_BYTES);
    }
}

impl TimedContext {
    /// Start, end and how wrong they may be, and the clock's part of that; or why they cannot be told.
    fn times(&self, pending: &Pending) -> Result<((u64, u64, u64), u64), i32> {
        let reached = self.reference.at(pending.before, pending.marked)?;
        let length = super::reference::elapsed(pending.before, pending.behind)?;
        let times = bounds(pending, reached.host, length, reached.error);
        Ok((times, reached.error))
    }
}

/// An event is before the work, not at its beginning. What the host knows narrows it: the work cannot
/// have begun before its call, and if it waited for the call, its beginning is known as well as that.
fn bounds(pending: &Pending, before: u64, length: u64, error: u64) -> (u64, u64, u64) {
    let behind = before.saturating_add(length);
    let start = before.max(pending.given);
    let mut end = behind.max(start);
    let late_start = if before <= pending.taken.saturating_add(error) {
        pending.taken.saturating_sub(start) + SUBMISSION
    } else {
        STEP
    };
    // Reached at once: the work had ended some time since its beginning.
    let late_end = if behind <= pending.done.saturating_add(error + SUBMISSION) {
        end - start
    } else {
        STEP
    };
    if pending.work.ends_inside {
        end = end.min(pending.taken.max(start));
    }
    (start, end, error + RESOLUTION + late_start + late_end)
}

/// Does something with a context that is current to this thread meanwhile.
fn in_context(context: usize, work: impl FnOnce()) {
    let mut current = 0;
    // SAFETY: the context lives as long as the reader is held.
    unsafe {
        driver::cuCtxGetCurrent(&mut current);
        if current != context && driver::cuCtxSetCurrent(context) != SUCCESS {
            return;
        }
        work();
        if current != context {
            driver::cuCtxSetCurrent(current);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pending(marked: u64, given: u64, taken: u64, done: u64) -> Pending {
        Pending {
            work: hot::Work::default(),
            stream: 1,
            thread: 1,
            every: 1,
            before: 0,
            behind: 0,
            marked,
            given,
            taken,
            done,
        }
    }

    #[test]
    fn work_behind_other_work_is_known_within_steps() {
        // Launched at 10 µs, reached at 5 ms.
        let pending = pending(9_000, 10_000, 13_000, 14_000);
        let (start, end, error) = bounds(&pending, 5_000_000, 700_000, 3_000);
        assert_eq!((start, end), (5_000_000, 5_700_000));
        assert_eq!(error, 3_000 + RESOLUTION + 2 * STEP);
    }

    #[test]
    fn work_of_an_idle_stream_does_not_begin_before_its_call() {
        // The event is reached at once, the call takes 3 µs, the kernel 50.
        let one = pending(9_000, 10_000, 13_000, 14_000);
        let (start, end, error) = bounds(&one, 9_500, 60_000, 3_000);
        assert_eq!((start, end), (10_000, 69_500));
        assert_eq!(error, 3_000 + RESOLUTION + 3_000 + SUBMISSION + STEP);
        // One shorter than its submission: all of it may be error.
        let (start, end, error) = bounds(&one, 9_500, 6_000, 3_000);
        assert_eq!((start, end), (10_000, 15_500));
        assert!(error >= end - start);
        // A copy that was over when its call returned.
        let mut one = one;
        one.work.ends_inside = true;
        assert_eq!(bounds(&one, 9_500, 6_000, 0).1, 13_000);
    }
}
