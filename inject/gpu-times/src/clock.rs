//! Pairs of CUPTI's clock and the host's.

use crate::functions::Functions;

/// Tries for one pair: the narrowest counts.
const TRIES: usize = 8;

pub fn monotonic() -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the call writes the timespec and nothing else.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// The host's clock before, CUPTI's, and the host's after.
pub fn pair(functions: &Functions) -> Option<[u64; 3]> {
    let one = || {
        let before = monotonic();
        let cupti = functions.timestamp()?;
        Some([before, cupti, monotonic()])
    };
    let pairs = (0..TRIES).map_while(|_| one());
    pairs.min_by_key(|[before, _, after]| after.saturating_sub(*before))
}
