//! A segment at a glance: the spans of its rows where they are few; of busy rows the longest, and cells for all.

use super::{Span, cells::Tally};
use crate::html::colour::COLOURS;
use std::collections::HashMap;

/// Spans of a segment that are kept, shared fairly among its rows.
const KEPT: usize = 96;
/// Cells of a segment; a row has one at least.
const CELLS: u64 = 768;

#[derive(Debug, Clone, PartialEq, Default)]
pub struct Picture {
    /// The earliest beginning and the latest end of its spans.
    pub from: u64,
    pub to: u64,
    /// Cells are 2^shift nanoseconds wide.
    pub shift: u32,
    /// By lane and depth.
    pub rows: Vec<Row>,
    /// How many spans have a name and a label.
    pub names: Vec<(u32, u32, u32)>,
}

#[derive(Debug, Clone, PartialEq, Default)]
pub struct Row {
    pub lane: u32,
    pub depth: u32,
    pub count: u32,
    /// By start. All of the row's, unless it has cells.
    pub spans: Vec<Span>,
    pub cells: Option<Cells>,
}

#[derive(Debug, Clone, PartialEq, Default)]
pub struct Cells {
    pub first: u64,
    pub list: Vec<Cell>,
}

/// What many spans come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Cell {
    /// [`EMPTY`], or the one that takes most of the time.
    pub category: u8,
    /// The share that is covered.
    pub fill: u8,
    /// The label that begins most often; if nothing begins here, what covers it.
    pub label: u32,
    /// Spans that begin here.
    pub count: u32,
    /// Of these, spans with that label, at least.
    pub of_label: u32,
}

pub const EMPTY: u8 = u8::MAX;

impl Picture {
    pub fn is_in(&self, from: u64, to: u64) -> bool {
        !self.rows.is_empty() && self.from < to && (self.to > from || self.from >= from)
    }
}

/// The picture of a segment with these spans.
pub fn of(mut spans: Vec<Span>) -> Picture {
    let mut names: HashMap<(u32, u32), u32, ahash::RandomState> = HashMap::default();
    for span in &spans {
        *names.entry((span.name, span.label)).or_default() += 1;
    }
    let mut names: Vec<(u32, u32, u32)> = (names.into_iter())
        .map(|((name, label), count)| (name, label, count))
        .collect();
    names.sort_unstable();
    spans.sort_unstable_by_key(|span| (span.lane, span.depth, span.start, span.id));
    let rows: Vec<&[Span]> =
        (spans.chunk_by(|a, b| (a.lane, a.depth) == (b.lane, b.depth))).collect();
    let share = fair_share(&rows);
    let busy: Vec<&[Span]> = rows
        .iter()
        .copied()
        .filter(|row| row.len() > share)
        .collect();
    let shift = shift_for(&busy);
    Picture {
        from: spans.iter().map(|span| span.start).min().unwrap_or(0),
        to: spans.iter().map(Span::end).max().unwrap_or(0),
        shift,
        rows: rows.iter().map(|row| of_row(row, share, shift)).collect(),
        names,
    }
}

fn of_row(spans: &[Span], share: usize, shift: u32) -> Row {
    let mut row = Row {
        lane: spans[0].lane,
        depth: spans[0].depth,
        count: spans.len() as u32,
        ..Row::default()
    };
    if spans.len() <= share {
        row.spans = spans.to_vec();
        return row;
    }
    row.cells = Some(cells_of(spans, shift));
    let mut longest: Vec<&Span> = spans.iter().collect();
    if share > 0 {
        longest.select_nth_unstable_by_key(share - 1, |span| std::cmp::Reverse(span.duration));
    }
    longest.truncate(share);
    longest.sort_unstable_by_key(|span| (span.start, span.id));
    row.spans = longest.into_iter().cloned().collect();
    row
}

/// The most spans each row may keep so that all together keep no more than they should.
pub fn fair_share<T>(rows: &[&[T]]) -> usize {
    fair_share_of(rows.iter().map(|row| row.len()), KEPT)
}

pub fn fair_share_of(rows: impl Iterator<Item = usize> + Clone, most: usize) -> usize {
    let (mut low, mut high) = (0, most);
    while low < high {
        let share = (low + high).div_ceil(2);
        if rows.clone().map(|row| row.min(share)).sum::<usize>() <= most {
            low = share;
        } else {
            high = share - 1;
        }
    }
    low
}

/// The finest cells for which there is room.
fn shift_for(rows: &[&[Span]]) -> u32 {
    let reach = |row: &&[Span]| {
        let from = row.first().map_or(0, |span| span.start);
        let to = row.iter().map(Span::end).max().unwrap_or(0);
        (from, to.saturating_sub(1).max(from))
    };
    let reaches: Vec<(u64, u64)> = rows.iter().map(reach).collect();
    let cells = |shift: u32| {
        let of_row = |&(from, to): &(u64, u64)| (to >> shift) - (from >> shift) + 1;
        reaches.iter().map(of_row).fold(0u64, u64::saturating_add)
    };
    let room = CELLS.max(2 * rows.len() as u64);
    (0..63).find(|&shift| cells(shift) <= room).unwrap_or(63)
}

fn cells_of(spans: &[Span], shift: u32) -> Cells {
    let first = spans[0].start >> shift;
    let last = spans.iter().map(|span| last_cell(span, shift)).max();
    let mut list = vec![Tally::<COLOURS>::default(); (last.unwrap_or(first) - first + 1) as usize];
    for span in spans {
        add(&mut list, first, shift, span);
    }
    let width = (1u64 << shift) as f64;
    Cells {
        first,
        list: list.iter().map(|tally| tally.cell(width)).collect(),
    }
}

pub fn last_cell(span: &Span, shift: u32) -> u64 {
    span.end().saturating_sub(1).max(span.start) >> shift
}

/// Adds a span to cells of which the first is number `first`; what is outside of them is left out.
pub fn add(list: &mut [Tally<COLOURS>], first: u64, shift: u32, span: &Span) {
    let end = first + list.len() as u64;
    let (from, to) = (span.start >> shift, last_cell(span, shift));
    for number in from.max(first)..to.saturating_add(1).min(end) {
        let cell_start = number << shift;
        let cell_end = cell_start.saturating_add(1 << shift);
        let time = span
            .end()
            .min(cell_end)
            .saturating_sub(span.start.max(cell_start));
        list[(number - first) as usize].cover(span.category, time as f64, span.label);
    }
    if (first..end).contains(&from) {
        list[(from - first) as usize].begin(span.label, 1);
    }
}

/// Adds cells to others, which may be wider or narrower.
pub fn spread(
    list: &mut [Tally<COLOURS>],
    (first, shift): (u64, u32),
    cells: &Cells,
    from_shift: u32,
) {
    let end = first + list.len() as u64;
    let width = (1u64 << from_shift) as f64;
    for (cell, number) in cells.list.iter().zip(cells.first..) {
        if cell.category == EMPTY {
            continue;
        }
        let start = number << from_shift;
        if from_shift <= shift {
            let target = start >> shift;
            if (first..end).contains(&target) {
                list[(target - first) as usize].add(cell, width, 1.0, true);
            }
            continue;
        }
        let parts = 1u64 << (from_shift - shift);
        let target = start >> shift;
        for part in target.max(first)..target.saturating_add(parts).min(end) {
            let place = (part - first) as usize;
            list[place].add(cell, width, 1.0 / parts as f64, part == target.max(first));
        }
    }
}
