//! The driver's clock, CLOCK_MONOTONIC_RAW, on the trace's: the two run at rates that differ by what
//! the clock is being slewed by, so their distance is followed.

use crate::clock::monotonic;

pub struct Offset {
    /// What to add to a raw time.
    ns: i64,
    /// No time was wrong by more.
    pub error: u64,
    pub pairs: u32,
}

impl Offset {
    pub fn now() -> Offset {
        let (ns, error) = pair();
        Offset {
            ns,
            error,
            pairs: 1,
        }
    }

    /// A new reading; entries between two are wrong by what the distance has changed.
    pub fn follow(&mut self) {
        let (ns, margin) = pair();
        let change = ns.abs_diff(self.ns);
        self.error = self.error.max(change.saturating_add(margin));
        self.ns = ns;
        self.pairs = self.pairs.saturating_add(1);
    }

    pub fn to_host(&self, raw: u64) -> u64 {
        raw.saturating_add_signed(self.ns)
    }
}

/// The distance of the clocks, the tightest of a few readings, and how far it may be wrong.
fn pair() -> (i64, u64) {
    let mut best = (0, u64::MAX);
    for _ in 0..3 {
        let before = monotonic();
        let raw = raw();
        let after = monotonic();
        let margin = after.saturating_sub(before).div_ceil(2);
        if margin < best.1 {
            let middle = before.saturating_add(margin);
            best = (middle.wrapping_sub(raw).cast_signed(), margin);
        }
    }
    best
}

fn raw() -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the call writes the timespec and nothing else.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC_RAW, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_the_same_on_both_clocks() {
        let mut offset = Offset::now();
        offset.follow();
        let before = monotonic();
        let mapped = offset.to_host(raw());
        let after = monotonic();
        let slack = offset.error + 1_000_000;
        assert!(mapped + slack >= before && mapped <= after + slack);
        assert_eq!(offset.pairs, 2);
    }
}
