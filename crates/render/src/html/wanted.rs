//! Which spans of a long trace a person looks for first: those that findings name, those that failed, and one turn of the
//! program's loop with everything in it. The page keeps them beside the longest.

use super::rows::{ExactSpan, Rows};
use ahash::RandomState;
use analyse::Report;
use std::collections::{HashMap, HashSet};

#[derive(Default)]
pub struct Wanted {
    ids: HashSet<u64>,
    /// The stretch of which everything is kept, from the page's origin.
    whole: Option<(u64, u64)>,
    room: Room,
    /// Failed spans that were taken, by label and status: one that fails all the time leaves room for others.
    failed: HashMap<(u32, i64), usize, RandomState>,
    /// Something of the stretch was not taken.
    missed: bool,
}

/// Spans that may still be taken. All together have less than half of the page's: the longest want theirs.
#[derive(Default)]
struct Room {
    whole: usize,
    evidence: usize,
    failed: usize,
    of_one_failure: usize,
}

impl Wanted {
    /// What the report of the whole trace says, whose times count from `origin`, for a page of `most` spans. `rows` have counted
    /// all of them.
    pub fn of(report: &Report, origin: u64, rows: &Rows, most: usize) -> Self {
        let ids = report.findings.iter().flat_map(|finding| &finding.op_ids);
        let room = Room {
            whole: most / 4,
            evidence: most / 10,
            failed: most / 10,
            of_one_failure: (most / 100).max(20),
        };
        let relative = |at: u64| at.saturating_sub(origin);
        let whole = (report.phases.loops.first())
            .map(|steady| {
                let extent = (steady.start_ns, steady.end_ns);
                let (from, to) = usual_turn(&steady.turns, steady.p50_ns, extent);
                (relative(from), relative(to))
            })
            .filter(|(from, to)| from < to);
        Wanted {
            ids: ids.copied().take(room.evidence).collect(),
            whole: whole.map(|(from, to)| (from, fitting(rows, from, to, room.whole))),
            room,
            ..Wanted::default()
        }
    }

    /// Whether this span is kept whatever its length.
    pub fn takes(&mut self, span: &ExactSpan) -> bool {
        let end = span.start.saturating_add(span.duration);
        if (self.whole).is_some_and(|(from, to)| span.start < to && end >= from) {
            if self.room.whole > 0 {
                self.room.whole -= 1;
                return true;
            }
            self.missed = true;
        }
        if self.room.evidence > 0 && self.ids.contains(&span.id) {
            self.room.evidence -= 1;
            return true;
        }
        match span.status {
            Some(code) if code != 0 && self.room.failed > 0 => {
                let alike = self.failed.entry((span.label, code)).or_default();
                *alike += 1;
                let taken = *alike <= self.room.of_one_failure;
                self.room.failed -= usize::from(taken);
                taken
            }
            _ => false,
        }
    }

    /// The stretch of which everything was taken.
    pub fn whole(&self) -> Option<(u64, u64)> {
        self.whole.filter(|_| !self.missed)
    }
}

/// A turn of the usual length from the middle of a loop, where it has found its pace; and the one after it, as GPU work runs behind
/// the calls that it comes from.
fn usual_turn(turns: &[(u64, u64)], length: u64, (start, end): (u64, u64)) -> (u64, u64) {
    let quarter = turns.len() / 4;
    let usual = (turns[quarter..turns.len() - quarter].iter())
        .min_by_key(|(from, to)| to.saturating_sub(*from).abs_diff(length));
    let middle = start / 2 + end / 2;
    let (from, to) = usual.map_or((middle, middle), |&turn| turn);
    let twice = from.saturating_add(length.saturating_mul(2));
    (from, to.max(twice.min(end)))
}

/// Where a stretch must end to have no more spans than this: with one turn in place of two, or with a part of it.
fn fitting(rows: &Rows, from: u64, to: u64, most: usize) -> u64 {
    let mut to = to;
    // What is counted in cells is known only about as well as they are wide.
    while rows.begun(from, to) > most as f64 * 0.75 && to - from > 1 {
        to = from + (to - from) / 2;
    }
    to
}
