//! What has been asked for: kinds of activity, and single functions of the driver.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

pub const MEMCPY: u32 = 1;
pub const MEMSET: u32 = 2;
pub const KERNEL: u32 = 3;
pub const DRIVER: u32 = 4;
pub const CONCURRENT_KERNEL: u32 = 10;
pub const OVERHEAD: u32 = 17;
pub const SYNCHRONIZATION: u32 = 38;
/// The newest kind that CUPTI 13.0 knows.
pub const LAST: u32 = 54;

const FUNCTIONS: usize = 1024;

static KINDS: AtomicU64 = AtomicU64::new(0);
static SINGLE: [AtomicU64; FUNCTIONS / 64] = [const { AtomicU64::new(0) }; FUNCTIONS / 64];
static ANY_SINGLE: AtomicBool = AtomicBool::new(false);

/// False: there is no such kind.
pub fn set_kind(kind: u32, wanted: bool) -> bool {
    if !(1..=LAST).contains(&kind) {
        return false;
    }
    if wanted {
        KINDS.fetch_or(1 << kind, Ordering::Relaxed);
    } else {
        KINDS.fetch_and(!(1 << kind), Ordering::Relaxed);
    }
    if kind == DRIVER {
        // It overrides what was said of single functions.
        for word in &SINGLE {
            word.store(0, Ordering::Relaxed);
        }
        ANY_SINGLE.store(false, Ordering::Relaxed);
    }
    true
}

/// False: there is no such function.
pub fn set_function(number: u32, wanted: bool) -> bool {
    let Some(word) = SINGLE.get(number as usize / 64) else {
        return false;
    };
    if wanted {
        word.fetch_or(1 << (number % 64), Ordering::Relaxed);
    } else {
        word.fetch_and(!(1 << (number % 64)), Ordering::Relaxed);
    }
    let any = (SINGLE.iter()).any(|word| word.load(Ordering::Relaxed) != 0);
    ANY_SINGLE.store(any, Ordering::Relaxed);
    true
}

pub fn wants_kind(kind: u32) -> bool {
    KINDS.load(Ordering::Relaxed) & (1 << kind) != 0
}

pub fn wants_calls() -> bool {
    wants_kind(DRIVER) || ANY_SINGLE.load(Ordering::Relaxed)
}

pub fn wants_call(number: u32) -> bool {
    wants_kind(DRIVER)
        || (SINGLE.get(number as usize / 64))
            .is_some_and(|word| word.load(Ordering::Relaxed) & (1 << (number % 64)) != 0)
}

pub fn wants_anything() -> bool {
    KINDS.load(Ordering::Relaxed) != 0 || ANY_SINGLE.load(Ordering::Relaxed)
}
