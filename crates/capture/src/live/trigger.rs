//! What makes the flight recorder write down what it has.

use super::steps::Steps;
use ahash::AHashMap;
use event::{Event, Extent, Kind, Layer, Record};
use std::fmt;

/// When a snapshot is written, besides on request (SIGUSR1, `cutrace snap`).
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Trigger {
    /// A call fails with an error that a program does not get over: out of memory, illegal address; an Xid.
    pub error: bool,
    /// The program ends with another status than 0, or by a signal.
    pub exit: bool,
    /// A step takes so many times the median.
    pub slow: Option<f64>,
    /// A call has not returned for so many nanoseconds, or a kernel of NCCL has taken as long.
    pub stuck: Option<u64>,
}

impl Trigger {
    /// What is taken where nobody says anything.
    pub const USUAL: Trigger = Trigger {
        error: true,
        exit: true,
        slow: None,
        stuck: None,
    };
}

/// Why a snapshot was written. The words are part of its name.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Reason {
    Asked,
    /// `out-of-memory`
    Error(String),
    SlowStep,
    Stuck,
    Exit(i32),
    Signal(i32),
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::Asked => f.write_str("asked"),
            Reason::Error(name) => f.write_str(name),
            Reason::SlowStep => f.write_str("slow-step"),
            Reason::Stuck => f.write_str("stuck"),
            Reason::Exit(code) => write!(f, "exit-{code}"),
            Reason::Signal(signal) => write!(f, "signal-{signal}"),
        }
    }
}

impl Reason {
    /// How a program ended, by a shell's number for it; None: well.
    pub fn of_end(status: i32) -> Option<Reason> {
        match status {
            0 => None,
            129..=192 => Some(Reason::Signal(status - 128)),
            code => Some(Reason::Exit(code)),
        }
    }
}

/// Errors that a program does not get over, or that people look for: the numbers are the same in both APIs.
const GRAVE: [i64; 17] = [
    2, 214, 220, 226, 700, 701, 702, 709, 710, 713, 714, 715, 716, 717, 718, 719, 999,
];
/// Calls under way that are looked at.
const MOST_OPEN: usize = 1 << 16;

/// Looks for a reason in what passes by.
pub struct TriggerWatch {
    trigger: Trigger,
    steps: Steps,
    /// Calls that have not returned: since when.
    open: AHashMap<u64, u64>,
    /// The step that was slow already.
    slow: Option<u64>,
}

impl TriggerWatch {
    pub fn new(trigger: Trigger) -> Self {
        TriggerWatch {
            trigger,
            steps: Steps::default(),
            open: AHashMap::new(),
            slow: None,
        }
    }

    pub fn see(&mut self, record: &Record) -> Option<Reason> {
        let by_step = self.step(record);
        let Record::Event(event) = record else {
            return by_step;
        };
        if self.trigger.error
            && let Some(name) = grave(event)
        {
            return Some(Reason::Error(name));
        }
        if let Some(limit) = self.trigger.stuck {
            self.follow(event);
            let is_long = event.duration().is_some_and(|took| took >= limit);
            if is_long && event.layer == Layer::Gpu && event.name.starts_with("nccl") {
                return Some(Reason::Stuck);
            }
        }
        by_step
    }

    /// Nothing may come for a long time, and that may be the reason.
    pub fn tick(&mut self, now: u64) -> Option<Reason> {
        if let Some(limit) = self.trigger.stuck {
            let before = self.open.len();
            self.open
                .retain(|_, since| now.saturating_sub(*since) < limit);
            if self.open.len() < before {
                return Some(Reason::Stuck);
            }
        }
        self.is_slow(now).then_some(Reason::SlowStep)
    }

    fn follow(&mut self, event: &Event) {
        let is_call = matches!(event.layer, Layer::Runtime | Layer::Driver | Layer::Library)
            && event.kind == Kind::Userspace;
        match event.extent {
            Extent::Open if is_call && self.open.len() < MOST_OPEN => {
                self.open.insert(event.id, event.start);
            }
            Extent::Closed(_) => {
                self.open.remove(&event.id);
            }
            _ => {}
        }
    }

    fn step(&mut self, record: &Record) -> Option<Reason> {
        self.trigger.slow?;
        let boundaries = match record {
            // Before the step is over: the next one is another.
            Record::Meaning(_) => {
                let before = self
                    .steps
                    .tracking()
                    .map(|found| (found.step, found.since(), found.median()));
                let boundaries = self.steps.see(record);
                let (step, since, median) = before?;
                let took = boundaries.first()?.at.saturating_sub(since);
                if self.is_too_long(took, median) && self.slow != Some(step) {
                    self.slow = Some(step);
                    return Some(Reason::SlowStep);
                }
                return None;
            }
            record => self.steps.see(record),
        };
        debug_assert!(boundaries.is_empty());
        None
    }

    fn is_too_long(&self, took: u64, median: Option<u64>) -> bool {
        let (Some(times), Some(median)) = (self.trigger.slow, median) else {
            return false;
        };
        took as f64 > times * median as f64
    }

    fn is_slow(&mut self, now: u64) -> bool {
        let Some(tracking) = self
            .steps
            .tracking()
            .filter(|found| self.slow != Some(found.step))
        else {
            return false;
        };
        let (step, took) = (tracking.step, now.saturating_sub(tracking.since()));
        let slow = self.is_too_long(took, tracking.median());
        if slow {
            self.slow = Some(step);
        }
        slow
    }
}

/// The name of an error that is worth a snapshot.
fn grave(event: &Event) -> Option<String> {
    if event.name.contains("dev_xid") {
        return Some("xid".into());
    }
    if !matches!(event.layer, Layer::Runtime | Layer::Driver) {
        return None;
    }
    let status = event
        .status
        .as_ref()
        .filter(|status| GRAVE.contains(&status.code))?;
    let name = cuda::enum_name("CUresult", status.code);
    let name = name.and_then(|name| name.strip_prefix("CUDA_ERROR_"));
    Some(match name {
        Some(name) => name.to_lowercase().replace('_', "-"),
        None => format!("error-{}", status.code),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use event::{Category, Status};

    fn call(id: u64, start: u64, extent: Extent, code: i64) -> Record {
        let mut event = Event::new(id, Layer::Driver, Category::Memory, "cuMemAlloc_v2", start);
        event.extent = extent;
        event.status = Some(Status { code, name: None });
        Record::Event(event)
    }

    #[test]
    fn errors_that_matter_have_a_name() {
        let mut watch = TriggerWatch::new(Trigger::USUAL);
        assert_eq!(watch.see(&call(1, 5, Extent::Closed(1), 0)), None);
        // Not ready is an answer.
        assert_eq!(watch.see(&call(2, 5, Extent::Closed(1), 600)), None);
        let reason = |code| {
            let mut watch = TriggerWatch::new(Trigger::USUAL);
            watch
                .see(&call(1, 5, Extent::Closed(1), code))
                .map(|it| it.to_string())
        };
        assert_eq!(reason(2).as_deref(), Some("out-of-memory"));
        assert_eq!(reason(700).as_deref(), Some("illegal-address"));
    }

    #[test]
    fn a_call_that_does_not_return_is_told_once() {
        let mut watch = TriggerWatch::new(Trigger {
            stuck: Some(100),
            ..Trigger::default()
        });
        watch.see(&call(1, 5, Extent::Open, 0));
        watch.see(&call(2, 10, Extent::Open, 0));
        watch.see(&call(2, 10, Extent::Closed(20), 0));
        assert_eq!(watch.tick(104), None);
        assert_eq!(watch.tick(105), Some(Reason::Stuck));
        assert_eq!(watch.tick(500), None);
    }

    #[test]
    fn a_collective_that_took_too_long_is_a_reason() {
        let kernel = |name: &'static str, took| {
            let mut watch = TriggerWatch::new(Trigger {
                stuck: Some(1000),
                ..Trigger::default()
            });
            let mut event = Event::new(1, Layer::Gpu, Category::Kernel, name, 5);
            event.extent = Extent::Closed(took);
            watch.see(&Record::Event(event))
        };
        let long = "ncclDevKernel_AllReduce_Sum_f32_RING_LL";
        assert_eq!(kernel(long, 999), None);
        assert_eq!(kernel(long, 1000), Some(Reason::Stuck));
        assert_eq!(kernel("forward", 5000), None);
    }

    #[test]
    fn an_xid_is_a_reason_if_errors_are() {
        let xid = |trigger| {
            let mut event = Event::new(1, Layer::Os, Category::Other, "nvidia:nvidia_dev_xid", 5);
            event.extent = Extent::Instant;
            let reason = TriggerWatch::new(trigger).see(&Record::Event(event));
            reason.map(|reason| reason.to_string())
        };
        assert_eq!(xid(Trigger::USUAL).as_deref(), Some("xid"));
        assert_eq!(xid(Trigger::default()), None);
    }

    #[test]
    fn an_end_is_a_reason_unless_all_is_well() {
        let words = |status| Reason::of_end(status).map(|reason| reason.to_string());
        assert_eq!(words(0), None);
        assert_eq!(words(3).as_deref(), Some("exit-3"));
        assert_eq!(words(128 + 9).as_deref(), Some("signal-9"));
    }
}
