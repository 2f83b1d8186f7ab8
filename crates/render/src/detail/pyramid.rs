//! Pictures of many segments at once, so that a long stretch of a long trace is answered from a few of them: each level has one
//! picture for every eight of the level below. They are made when an index is made or loaded; the file does not hold them.

use super::{
    Detail, Query, Span,
    cells::Tally,
    picture::{self, Cells, Picture, Row, fair_share_of},
};
use crate::html::colour::COLOURS;
use std::{cmp::Reverse, collections::BTreeMap};

/// Pictures in one of the next level.
const FAN: usize = 8;
/// Pictures that an answer is made of, as a rule.
const MOST_PICTURES: usize = 96;
/// Spans and cells of a picture that is made of others.
const KEPT: usize = 192;
const CELLS: u64 = 1_536;

impl Detail {
    /// Makes the levels above the segments.
    pub(super) fn raise(&mut self) {
        self.levels.clear();
        let mut below = &self.segments;
        let mut levels: Vec<Vec<Picture>> = Vec::new();
        while below.len() > MOST_PICTURES {
            let level = below.chunks(FAN).map(together).collect();
            levels.push(level);
            let Some(last) = levels.last() else { break };
            below = last;
        }
        self.levels = levels;
    }

    /// The finest level that has few enough pictures of the stretch.
    pub(super) fn level_for(&self, query: &Query) -> &[Picture] {
        let within = |level: &[Picture]| {
            let found = level.iter();
            found
                .filter(|picture| picture.is_in(query.from, query.to))
                .count()
        };
        let mut level = &self.segments[..];
        for above in &self.levels {
            if within(level) <= MOST_PICTURES {
                break;
            }
            level = above;
        }
        level
    }
}

/// What pictures have of one row.
#[derive(Default)]
struct Parts<'a> {
    count: u32,
    /// The spans that are in no cells, and those that are.
    loose: Vec<&'a Span>,
    longest: Vec<&'a Span>,
    cells: Vec<(&'a Cells, u32)>,
}

impl Parts<'_> {
    fn kept(&self) -> usize {
        self.loose.len() + self.longest.len()
    }

    /// From the first cell that it needs to the last.
    fn reach(&self) -> (u64, u64) {
        let spans = (self.loose.iter())
            .map(|span| (span.start, span.end().saturating_sub(1).max(span.start)));
        let cells = self.cells.iter().map(|(cells, shift)| {
            let last = cells.first + (cells.list.len() as u64).saturating_sub(1);
            (cells.first << shift, last << shift)
        });
        let reach = |a: (u64, u64), b: (u64, u64)| (a.0.min(b.0), a.1.max(b.1));
        let (from, to) = spans.chain(cells).reduce(reach).unwrap_or_default();
        (from, to.max(from))
    }
}

/// Several pictures as one.
fn together(pictures: &[Picture]) -> Picture {
    let mut rows: BTreeMap<(u32, u32), Parts<'_>> = BTreeMap::new();
    for picture in pictures {
        for row in &picture.rows {
            let parts = rows.entry((row.lane, row.depth)).or_default();
            parts.count = parts.count.saturating_add(row.count);
            match &row.cells {
                None => parts.loose.extend(&row.spans),
                Some(cells) => {
                    parts.longest.extend(&row.spans);
                    parts.cells.push((cells, picture.shift));
                }
            }
        }
    }
    let share = fair_share_of(rows.values().map(Parts::kept), KEPT);
    let is_whole = |parts: &Parts<'_>| parts.cells.is_empty() && parts.kept() <= share;
    let summed: Vec<&Parts<'_>> = rows.values().filter(|parts| !is_whole(parts)).collect();
    let shift = shift_for(&summed);
    let shown = pictures.iter().filter(|picture| !picture.rows.is_empty());
    Picture {
        from: shown.clone().map(|picture| picture.from).min().unwrap_or(0),
        to: shown.map(|picture| picture.to).max().unwrap_or(0),
        shift,
        // Who counts names, or looks for one, asks the segments.
        names: Vec::new(),
        rows: (rows.into_iter())
            .map(|((lane, depth), parts)| {
                let cells = (!is_whole(&parts)).then(|| cells_of(&parts, shift));
                Row {
                    lane,
                    depth,
                    count: parts.count,
                    spans: longest_of(parts, share),
                    cells,
                }
            })
            .collect(),
    }
}

/// The finest cells for which there is room; never finer than those they are made of.
fn shift_for(rows: &[&Parts<'_>]) -> u32 {
    let reaches: Vec<(u64, u64)> = rows.iter().map(|parts| parts.reach()).collect();
    let cells = |shift: u32| {
        let of_row = |&(from, to): &(u64, u64)| (to >> shift) - (from >> shift) + 1;
        reaches.iter().map(of_row).fold(0u64, u64::saturating_add)
    };
    let least = (rows.iter().flat_map(|parts| &parts.cells))
        .map(|(_, shift)| *shift)
        .max();
    let room = CELLS.max(2 * rows.len() as u64);
    (least.unwrap_or(0)..63)
        .find(|&shift| cells(shift) <= room)
        .unwrap_or(63)
}

fn cells_of(parts: &Parts<'_>, shift: u32) -> Cells {
    let (from, to) = parts.reach();
    let first = from >> shift;
    let mut list = vec![Tally::<COLOURS>::default(); ((to >> shift) - first + 1) as usize];
    for span in &parts.loose {
        picture::add(&mut list, first, shift, span);
    }
    for &(cells, from_shift) in &parts.cells {
        picture::spread(&mut list, (first, shift), cells, from_shift);
    }
    let width = (1u64 << shift) as f64;
    Cells {
        first,
        list: list.iter().map(|tally| tally.cell(width)).collect(),
    }
}

fn longest_of(parts: Parts<'_>, share: usize) -> Vec<Span> {
    let mut spans = parts.loose;
    spans.extend(parts.longest);
    if spans.len() > share {
        if share > 0 {
            spans.select_nth_unstable_by_key(share - 1, |span| Reverse(span.duration));
        }
        spans.truncate(share);
    }
    spans.sort_unstable_by_key(|span| (span.start, span.id));
    spans.into_iter().cloned().collect()
}
