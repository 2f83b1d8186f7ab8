//! Who waits for whom: the GPU for launches, or launches for the GPU.
//!
//! Work that was given to the GPU before it had finished what it had is GPU-bound: a faster host
//! would change nothing. Work whose call began when the GPU had nothing left is launch-bound: the
//! GPU waited for it.

use event::Event;
use serde::{Deserialize, Serialize};

/// How the GPU was fed; only work whose call is in the trace counts.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Pace {
    /// Work whose call began when its GPU had nothing to do.
    pub launch_bound: u64,
    /// Work that was waiting when the GPU got to it.
    pub gpu_bound: u64,
    /// How long GPUs with nothing to do waited for launch-bound work.
    pub waited_ns: u64,
    /// In the order of time.
    pub phases: Vec<PacePhase>,
}

/// A stretch of work of one kind.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct PacePhase {
    pub launch_bound: bool,
    pub start_ns: u64,
    pub end_ns: u64,
    pub operations: u64,
    /// How long the GPU waited in it for launches.
    pub waited_ns: u64,
}

/// Work that is judged together: a launch-bound loop has a queued copy now and then.
const WINDOW: u64 = 32;
const MOST_PHASES: usize = 256;
const MOST_DEVICES: usize = 256;

#[derive(Default)]
pub(crate) struct PaceSweep {
    /// Few: a search is as quick as any.
    devices: Vec<(Option<u32>, Device)>,
    pace: Pace,
    window: Option<PacePhase>,
    /// How many windows a phase is made of, at least: doubled when there are too many phases.
    scale: u64,
}

#[derive(Default)]
struct Device {
    active: u64,
    /// When it was last seen to have nothing to do.
    idle_since: Option<u64>,
}

impl PaceSweep {
    /// Work begins that a call at `called` caused, if that is known.
    pub fn began(&mut self, event: &Event, called: Option<u64>) {
        let Some(device) = self.device(event.device) else {
            return;
        };
        let idle = (device.active == 0).then_some(device.idle_since).flatten();
        device.active += 1;
        let Some(called) = called else {
            return;
        };
        let waited = idle.filter(|since| called >= *since);
        let waited_ns = waited.map_or(0, |since| event.start.saturating_sub(since));
        if waited.is_some() {
            self.pace.launch_bound += 1;
            self.pace.waited_ns = self.pace.waited_ns.saturating_add(waited_ns);
        } else {
            self.pace.gpu_bound += 1;
        }
        let start = waited.unwrap_or(event.start);
        let window = self.window.get_or_insert(PacePhase {
            launch_bound: false,
            start_ns: start,
            end_ns: start,
            operations: 0,
            waited_ns: 0,
        });
        window.end_ns = window.end_ns.max(event.start);
        window.operations += 1;
        window.waited_ns = window.waited_ns.saturating_add(waited_ns);
        if window.operations >= WINDOW * self.scale.max(1) {
            self.close_window();
        }
    }

    /// Work that had begun has ended.
    pub fn ended(&mut self, event: &Event) {
        let end = event.end().unwrap_or(event.start);
        if let Some(window) = &mut self.window {
            window.end_ns = window.end_ns.max(end);
        }
        if let Some(device) = self.device(event.device) {
            device.active = device.active.saturating_sub(1);
            device.idle_since = device.idle_since.max(Some(end));
        }
    }

    fn device(&mut self, number: Option<u32>) -> Option<&mut Device> {
        let known = self.devices.iter().position(|(known, _)| *known == number);
        let place = match known {
            Some(place) => place,
            None if self.devices.len() >= MOST_DEVICES => return None,
            None => {
                self.devices.push((number, Device::default()));
                self.devices.len() - 1
            }
        };
        Some(&mut self.devices[place].1)
    }

    fn close_window(&mut self) {
        let Some(mut window) = self.window.take() else {
            return;
        };
        let length = window.end_ns.saturating_sub(window.start_ns);
        window.launch_bound = window.waited_ns > length / 2;
        self.add(window);
        if self.pace.phases.len() > MOST_PHASES {
            self.scale = self.scale.max(1) * 2;
            for pair in std::mem::take(&mut self.pace.phases).chunks(2) {
                let mut both = pair[0];
                for next in &pair[1..] {
                    both.take_in(next);
                    let length = both.end_ns.saturating_sub(both.start_ns);
                    both.launch_bound = both.waited_ns > length / 2;
                }
                self.add(both);
            }
        }
    }

    fn add(&mut self, phase: PacePhase) {
        match self.pace.phases.last_mut() {
            Some(last) if last.launch_bound == phase.launch_bound => last.take_in(&phase),
            _ => self.pace.phases.push(phase),
        }
    }

    pub fn waited_ns(&self) -> u64 {
        self.pace.waited_ns
    }

    pub fn finish(mut self) -> Pace {
        self.close_window();
        self.pace
    }
}

impl PacePhase {
    fn take_in(&mut self, next: &PacePhase) {
        self.end_ns = self.end_ns.max(next.end_ns);
        self.operations += next.operations;
        self.waited_ns = self.waited_ns.saturating_add(next.waited_ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use event::{Category, Extent, Layer};

    fn work(sweep: &mut PaceSweep, called: u64, start: u64, length: u64) {
        let mut event = Event::new(1, Layer::Gpu, Category::Kernel, "k", start);
        event.extent = Extent::Closed(length);
        sweep.began(&event, Some(called));
        sweep.ended(&event);
    }

    #[test]
    fn phases_follow_who_waits() {
        let mut sweep = PaceSweep::default();
        // Launched every 10 µs, 1 µs long each: the GPU waits.
        for step in 0..100u64 {
            let called = step * 10_000;
            work(&mut sweep, called, called + 2_000, 1_000);
        }
        // All launched at once, 50 µs long each: the launches wait.
        for step in 0..100u64 {
            work(&mut sweep, 990_000, 1_000_000 + step * 50_000, 50_000);
        }
        let pace = sweep.finish();
        // The first of all found a GPU of which nothing was known.
        assert_eq!((pace.launch_bound, pace.gpu_bound), (99, 101));
        assert_eq!(pace.waited_ns, 99 * 9_000);
        let kinds: Vec<bool> = pace.phases.iter().map(|phase| phase.launch_bound).collect();
        assert_eq!(kinds, [true, false]);
        let all: u64 = pace.phases.iter().map(|phase| phase.operations).sum();
        assert_eq!(all, 200);
    }

    #[test]
    fn phases_are_bounded() {
        let mut sweep = PaceSweep::default();
        let mut at = 0;
        for step in 0..100_000u64 {
            let bound = (step / WINDOW).is_multiple_of(2);
            let length = if bound { 1 } else { 10_000 };
            work(&mut sweep, if bound { at } else { 0 }, at + 100, length);
            at += length + 100;
        }
        let pace = sweep.finish();
        assert!(pace.phases.len() <= MOST_PHASES + 1);
        let all: u64 = pace.phases.iter().map(|phase| phase.operations).sum();
        assert_eq!(all, 100_000);
    }
}
