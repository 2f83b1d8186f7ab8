//! `--every`: what maps hold, printed while the program runs.

use super::report;
use crate::say;
use capture::gpu_probe::{
    Interval,
    programs::{Probes, accesses},
};
use std::fmt::Write as _;

pub fn show(probes: &Probes, interval: &Interval) {
    let mut text = format!("\n--- after {:.1} s", interval.after.as_secs_f64());
    if interval.processes > 1 {
        let _ = write!(text, ", process {}", interval.pid);
    }
    text.push_str(" ---\n");
    // Whose memory it is becomes known at the end.
    let accesses = match probes.tells_addresses() {
        true => accesses(&interval.dumps, |_, _| None),
        false => Vec::new(),
    };
    text.push_str(&report::answer(probes, &interval.dumps, &[], &accesses));
    say::text(&text);
}
