//! What watching costs: processor time of cutrace itself.

use std::time::{Duration, Instant};

pub struct OwnCost {
    last: (Instant, Duration),
}

impl OwnCost {
    pub fn new() -> Self {
        OwnCost {
            last: (Instant::now(), processor_time()),
        }
    }

    /// Of one core, since it was last asked: 0.05 is 5 %.
    pub fn share(&mut self) -> f64 {
        let now = (Instant::now(), processor_time());
        let (before, used) = std::mem::replace(&mut self.last, now);
        let wall = now.0.duration_since(before).as_secs_f64();
        let used = now.1.saturating_sub(used).as_secs_f64();
        if wall > 0.0 { used / wall } else { 0.0 }
    }
}

/// Of this process, all its threads.
pub fn processor_time() -> Duration {
    // SAFETY: all zeroes is an rusage, which the call fills.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &mut usage);
        usage
    };
    let of = |time: libc::timeval| {
        Duration::from_secs(time.tv_sec.max(0) as u64)
            + Duration::from_micros(time.tv_usec.max(0) as u64)
    };
    of(usage.ru_utime) + of(usage.ru_stime)
}
