//! The rows of the timeline: one for each depth of a lane. A row keeps its spans exactly while
//! there is room; then its longest, with cells for all of them.

use super::cells::{Cell, Cells, Grid, Stretch};
use std::cmp::Reverse;

/// Spans kept exactly, all rows together, where nothing else is said.
const MAX_KEPT: usize = 60_000;

/// What a span's meaning adds to its name.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub enum Detail {
    #[default]
    None,
    /// The launched kernel's name.
    Kernel(u32),
    Allocated(u64),
    Freed(u64),
    /// Bytes moved; the direction by its place in `Direction::ALL`.
    Moved(u8, u64),
}

/// A span kept exactly.
#[derive(Clone, Debug)]
pub struct ExactSpan {
    pub start: u64,
    pub duration: u64,
    /// Of it, spent in spans directly inside.
    pub inside: u64,
    pub id: u64,
    /// What it shares with its GPU work, or its call; 0 where nothing is known.
    pub correlation: u64,
    pub name: u32,
    /// What its bar shows: the decoded name of an ioctl; otherwise the name.
    pub label: u32,
    pub category: u8,
    pub layer: u8,
    /// It never ended: the duration reaches to the trace's end.
    pub open: bool,
    pub status: Option<i64>,
    pub detail: Detail,
    /// Its arguments, result, stack and meaning as a JSON text; empty where nothing is known.
    pub details: String,
    /// A reader will look for it: it stays when longer ones go.
    pub pinned: bool,
}

#[derive(Default)]
pub struct Row {
    pub lane: u32,
    pub depth: u32,
    pub kept: Vec<ExactSpan>,
    pub cells: Option<Cells>,
    /// Where there are cells, shorter spans are not kept.
    floor: u64,
    pub spans: u64,
}

pub struct Rows {
    pub rows: Vec<Row>,
    pub grid: Grid,
    kept: usize,
    /// Of these, pinned.
    pinned: usize,
    /// Past this many the rows are pruned to a half, shared fairly: rows with few spans lose none.
    most: usize,
    /// Bytes of details that are no longer kept, since somebody asked.
    forgotten: usize,
    /// What was pinned has been given up.
    unpinned: bool,
}

impl Rows {
    pub fn new() -> Self {
        Rows::with_room(MAX_KEPT)
    }

    /// For so many spans that are kept exactly.
    pub fn with_room(most: usize) -> Self {
        Rows {
            rows: Vec::new(),
            grid: Grid::new(),
            kept: 0,
            pinned: 0,
            most,
            forgotten: 0,
            unpinned: false,
        }
    }

    pub fn create(&mut self, lane: u32, depth: u32) -> u32 {
        self.rows.push(Row {
            lane,
            depth,
            ..Row::default()
        });
        self.rows.len() as u32 - 1
    }

    /// Adds a span; true if it is kept exactly, as the row's last.
    pub fn add(&mut self, row: u32, span: ExactSpan) -> bool {
        let index = row as usize;
        self.rows[index].spans += 1;
        let had_cells = self.rows[index].cells.is_some();
        if had_cells {
            self.add_to_cells(index, stretch(&span));
            if span.duration <= self.rows[index].floor && !span.pinned {
                return false;
            }
        }
        if self.kept >= self.most {
            self.prune(self.most / 2);
            // The row may have got cells, which have not counted this one, and a floor.
            let row = &self.rows[index];
            if row.cells.is_some() {
                let floor = row.floor;
                if !had_cells {
                    self.add_to_cells(index, stretch(&span));
                }
                if span.duration <= floor && !span.pinned {
                    return false;
                }
            }
        }
        self.pinned += usize::from(span.pinned);
        self.rows[index].kept.push(span);
        self.kept += 1;
        true
    }

    fn add_to_cells(&mut self, index: usize, span: Stretch) {
        loop {
            let Some(cells) = &mut self.rows[index].cells else {
                return;
            };
            let misfit = self.grid.add(cells, span);
            if misfit || self.grid.crowded() {
                let all = self.rows.iter_mut().filter_map(|row| row.cells.as_mut());
                self.grid.widen(all);
            }
            if !misfit {
                return;
            }
        }
    }

    /// Keeps half of the spans that are not pinned, and all that are; if there are only those, half of them. False if there is
    /// nothing left to give up.
    pub fn shrink(&mut self) -> bool {
        let before = self.kept;
        if self.kept == self.pinned {
            let all = self.rows.iter_mut().flat_map(|row| &mut row.kept);
            all.for_each(|span| span.pinned = false);
            self.pinned = 0;
            self.unpinned = true;
        }
        self.prune((self.kept - self.pinned) / 2);
        self.kept < before
    }

    /// Keeps so many of the spans that are not pinned.
    fn prune(&mut self, most: usize) {
        let share = self.fair_share(most);
        for index in 0..self.rows.len() {
            let pinned = (self.rows[index].kept.iter()).filter(|span| span.pinned);
            let pinned = pinned.count();
            if self.rows[index].kept.len() - pinned <= share {
                continue;
            }
            if self.rows[index].cells.is_none() {
                self.rows[index].cells = Some(Cells::default());
                for place in 0..self.rows[index].kept.len() {
                    let span = stretch(&self.rows[index].kept[place]);
                    self.add_to_cells(index, span);
                }
            }
            let row = &mut self.rows[index];
            // Pinned ones first, then the longest.
            (row.kept).sort_unstable_by_key(|span| Reverse((span.pinned, span.duration)));
            // Whatever is longer than the first that goes would have stayed.
            row.floor = row.kept[pinned + share].duration;
            let gone = row.kept.drain(pinned + share..);
            self.forgotten += gone.map(|span| span.details.len()).sum::<usize>();
            row.kept.shrink_to_fit();
        }
        self.kept = self.rows.iter().map(|row| row.kept.len()).sum();
    }

    /// The most spans that are not pinned each row may keep so that all together keep no more than they should.
    fn fair_share(&self, most: usize) -> usize {
        let loose = |row: &Row| row.kept.iter().filter(|span| !span.pinned).count();
        let loose: Vec<usize> = self.rows.iter().map(loose).collect();
        let (mut low, mut high) = (0, most);
        while low < high {
            let share = (low + high).div_ceil(2);
            let total: usize = loose.iter().map(|&row| row.min(share)).sum();
            if total <= most {
                low = share;
            } else {
                high = share - 1;
            }
        }
        low
    }

    /// Bytes of details that are no longer kept, since this was last called.
    pub fn forgotten(&mut self) -> usize {
        std::mem::take(&mut self.forgotten)
    }

    /// Whether everything that was pinned is still there.
    pub fn has_pinned(&self) -> bool {
        !self.unpinned
    }

    /// About how many spans begin in a stretch: cells at its ends count by the part of them that is in it.
    pub fn begun(&self, from: u64, to: u64) -> f64 {
        let width = (1u64 << self.grid.shift.min(62)) as f64;
        let (from_cell, to_cell) = (from as f64 / width, to as f64 / width);
        let in_row = |row: &Row| match &row.cells {
            Some(cells) => {
                let skipped = (from_cell as u64).saturating_sub(cells.first) as usize;
                let part = |cell: &Cell, number: f64| {
                    let inside = to_cell.min(number + 1.0) - from_cell.max(number);
                    f64::from(cell.count) * inside.max(0.0)
                };
                let list = cells.cells.iter().enumerate().skip(skipped);
                list.map(|(place, cell)| (cell, (cells.first + place as u64) as f64))
                    .take_while(|&(_, number)| number < to_cell)
                    .map(|(cell, number)| part(cell, number))
                    .sum()
            }
            None => {
                let begun = row.kept.iter().map(|span| span.start);
                begun.filter(|start| (from..to).contains(start)).count() as f64
            }
        };
        self.rows.iter().map(in_row).sum()
    }

    /// Spans that are only in cells.
    pub fn aggregated(&self) -> u64 {
        let all: u64 = self.rows.iter().map(|row| row.spans).sum();
        all - self.kept as u64
    }
}

fn stretch(span: &ExactSpan) -> Stretch {
    Stretch {
        start: span.start,
        duration: span.duration,
        category: span.category,
        name: span.label,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(start: u64, duration: u64) -> ExactSpan {
        ExactSpan {
            start,
            duration,
            inside: 0,
            id: start,
            correlation: 0,
            name: 1,
            label: 1,
            category: 3,
            layer: 1,
            open: false,
            status: Some(0),
            detail: Detail::None,
            details: String::new(),
            pinned: false,
        }
    }

    #[test]
    fn small_traces_are_kept_whole() {
        let mut rows = Rows::new();
        let row = rows.create(0, 0);
        for i in 0..MAX_KEPT as u64 {
            assert!(rows.add(row, span(i * 100, 10)));
        }
        assert_eq!(rows.aggregated(), 0);
        assert!(rows.rows[0].cells.is_none());
    }

    #[test]
    fn beyond_that_the_longest_stay_and_small_rows_lose_nothing() {
        let mut rows = Rows::new();
        let (busy, quiet) = (rows.create(0, 0), rows.create(1, 0));
        let count = 200_000u64;
        for i in 0..count {
            let long = i % 1_000 == 0;
            rows.add(busy, span(i * 100, if long { 90 } else { i % 50 }));
            if long {
                rows.add(quiet, span(i * 100, 1));
            }
        }
        let [busy, quiet] = &rows.rows[..] else {
            panic!("two rows")
        };
        assert_eq!(busy.kept.iter().filter(|s| s.duration == 90).count(), 200);
        assert_eq!(quiet.kept.len(), 200);
        assert!(quiet.cells.is_none());
        let cells = busy.cells.as_ref().expect("the busy row has cells");
        let counted: u64 = cells.cells.iter().map(|cell| u64::from(cell.count)).sum();
        assert_eq!(counted, count);
        assert!(rows.kept <= MAX_KEPT && rows.aggregated() > 0);
    }

    #[test]
    fn what_is_pinned_stays_and_everything_is_counted() {
        let mut rows = Rows::with_room(3_000);
        let row = rows.create(0, 0);
        let count = 50_000u64;
        for i in 0..count {
            let mut span = span(i * 100, 10 + i % 50);
            if i % 500 == 0 {
                (span.pinned, span.duration) = (true, 1);
            }
            rows.add(row, span);
        }
        let pinned = |rows: &Rows| rows.rows[0].kept.iter().filter(|span| span.pinned).count();
        assert_eq!(pinned(&rows), 100);
        assert!(rows.kept <= 3_000);
        let cells = rows.rows[0].cells.as_ref().expect("cells");
        let counted: u64 = cells.cells.iter().map(|cell| u64::from(cell.count)).sum();
        assert_eq!(counted, count);
        let mut kept = rows.kept;
        while rows.shrink() {
            assert!(rows.kept < kept);
            kept = rows.kept;
        }
        assert_eq!((rows.kept, rows.aggregated()), (0, count));
    }
}
