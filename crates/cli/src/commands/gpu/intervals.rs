//! `--every`: what maps hold, printed while the program runs.

use crate::{commands::style::stderr_style, say};
use capture::gpu_probe::{Interval, Probes, answer_so_far};
use render::tables::probe_answer;
use std::fmt::Write as _;

pub fn show(probes: &Probes, interval: &Interval) {
    let mut text = format!("\n--- after {:.1} s", interval.after.as_secs_f64());
    if interval.processes > 1 {
        let _ = write!(text, ", process {}", interval.pid);
    }
    text.push_str(" ---\n");
    let answer = answer_so_far(probes, &interval.dumps);
    text.push_str(&probe_answer(&answer, &stderr_style()));
    say::text(&text);
}
