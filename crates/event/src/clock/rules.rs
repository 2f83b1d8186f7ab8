//! What is known of a source's clock beforehand. All sources share one map; what differs between them
//! is named here, with the reason.

/// What a clock's pairs are worth, and what is known of it without them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ClockRules {
    pub line: ClockLine,
    /// Host nanoseconds for each unit of the source. None: only two pairs tell.
    pub nominal_rate: Option<f64>,
    /// Units between the first pair and the latest beyond which their mean rate is believed rather than
    /// the nominal one. None: it never is, for both clocks count nanoseconds and are corrected often.
    pub measured_over: Option<u64>,
    /// The line never leaves its rate by more than this part, however late a pair was read.
    pub most_bend: f64,
    /// A pair that would change the rate by more than this part is of another clock and left out.
    pub leap: Option<f64>,
    /// Host nanoseconds between two pairs; closer ones add nothing.
    pub spacing: u64,
    /// The part of each correction that times between pairs may be wrong by: 0 where the source runs
    /// evenly in between.
    pub wander: f64,
    /// Pieces of the line, or pairs it is fitted to, that are kept.
    pub kept: usize,
}

/// How the line follows the pairs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClockLine {
    /// From each pair to the next: readings are tighter than what the clocks drift in between.
    ThroughPairs,
    /// The one that fits all pairs best, tight ones counting more: readings are noisier than the drift.
    BestFit,
    /// At a constant distance, the least at which no time is before its pair's: what the source timed
    /// cannot have happened before the host asked for it, and how long after is not known.
    NeverBefore,
}

impl ClockRules {
    /// A clock of its own that counts nanoseconds and is read often: CUPTI's, CLOCK_MONOTONIC_RAW.
    pub const NANOSECONDS: ClockRules = ClockRules {
        line: ClockLine::ThroughPairs,
        nominal_rate: Some(1.0),
        measured_over: None,
        most_bend: f64::INFINITY,
        leap: Some(0.01),
        spacing: 0,
        wander: 0.5,
        kept: 512,
    };

    /// A counter that runs evenly at an unknown rate: the TSC. Its times are written while it is
    /// being followed, so the line is bent and never broken.
    pub const COUNTER: ClockRules = ClockRules {
        nominal_rate: None,
        measured_over: Some(0),
        most_bend: 500e-6,
        leap: None,
        spacing: 5_000_000,
        wander: 0.0,
        ..ClockRules::NANOSECONDS
    };

    /// Nanoseconds, with a few pairs far apart: a device's %globaltimer, read when its context begins
    /// and ends. What it drifts in between shows after a millisecond.
    pub const SPARSE: ClockRules = ClockRules {
        measured_over: Some(1_000_000),
        leap: None,
        wander: 0.0,
        ..ClockRules::NANOSECONDS
    };

    /// Nanoseconds, read by way of a system call that takes longer than the clocks drift.
    pub const NOISY: ClockRules = ClockRules {
        line: ClockLine::BestFit,
        leap: None,
        kept: 256,
        ..ClockRules::NANOSECONDS
    };

    /// Nanoseconds, never read: only when things were asked for is known, and when they began.
    pub const UNREAD: ClockRules = ClockRules {
        line: ClockLine::NeverBefore,
        leap: None,
        ..ClockRules::NANOSECONDS
    };

    /// The nominal rate, if it is one.
    pub(super) fn nominal(&self) -> Option<f64> {
        self.nominal_rate
            .filter(|rate| rate.is_finite() && *rate > 0.0)
    }
}

impl Default for ClockRules {
    fn default() -> Self {
        ClockRules::NANOSECONDS
    }
}
