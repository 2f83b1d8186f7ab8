//! What the process that traces system calls tells: any bytes in place of its frames become records
//! or an error, in bounded memory. A seed is the least duration in units of 256 ns, then frames.
#![no_main]

use capture::syscall::{Options, records_of};
use libfuzzer_sys::fuzz_target;
use std::time::Duration;

fuzz_target!(|bytes: &[u8]| {
    let Some((&least, frames)) = bytes.split_first() else {
        return;
    };
    let options = Options {
        min_duration: Duration::from_nanos(u64::from(least) << 8),
        ..Options::default()
    };
    if let Ok(records) = records_of(frames, options) {
        // A frame has a length and a kind at least, and is one record at most.
        assert!(records <= frames.len() as u64 / 5);
    }
});
