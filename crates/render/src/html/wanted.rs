//! Which spans of a long trace a person looks for first: those that failed, those that findings name, and one
//! turn of the program's loop with everything in it. The page keeps them beside the longest.

use super::rows::ExactSpan;
use analyse::Report;
use std::collections::HashSet;

#[derive(Default)]
pub struct Wanted {
    ids: HashSet<u64>,
    /// The stretch of which everything is kept, from the page's origin.
    pub whole: Option<(u64, u64)>,
}

/// Events of findings at most.
const MOST_IDS: usize = 10_000;

impl Wanted {
    /// What the report of the whole trace says, whose times count from `origin`.
    pub fn of(report: &Report, origin: u64) -> Self {
        let ids = report.findings.iter().flat_map(|finding| &finding.op_ids);
        let steady = report.phases.loops.first();
        let whole = steady.map(|steady| {
            // In the middle, where it has found its pace. Twice as long as a turn, it has a whole one in it.
            let middle = steady.start_ns / 2 + steady.end_ns / 2;
            let to = middle.saturating_add(steady.p50_ns.saturating_mul(2));
            let relative = |at: u64| at.saturating_sub(origin);
            (relative(middle), relative(to.min(steady.end_ns)))
        });
        Wanted {
            ids: ids.copied().take(MOST_IDS).collect(),
            whole: whole.filter(|(from, to)| from < to),
        }
    }

    pub fn wants(&self, span: &ExactSpan) -> bool {
        let end = span.start.saturating_add(span.duration);
        span.status.is_some_and(|code| code != 0)
            || self.ids.contains(&span.id)
            || (self.whole).is_some_and(|(from, to)| span.start < to && end >= from)
    }
}
