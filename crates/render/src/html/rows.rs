//! The rows of the timeline: one for each depth of a lane. A row keeps its spans exactly while
//! there is room; then its longest, with cells for all of them.

use super::cells::{Cells, Grid, Stretch};

/// Spans kept exactly, all rows together: past this the rows are pruned…
const MAX_KEPT: usize = 60_000;
/// …to this many, shared fairly: rows with few spans lose none.
const PRUNED_TO: usize = 30_000;

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
    pub category: u8,
    pub layer: u8,
    /// It never ended: the duration reaches to the trace's end.
    pub open: bool,
    pub status: Option<i64>,
    pub detail: Detail,
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
}

impl Rows {
    pub fn new() -> Self {
        Rows {
            rows: Vec::new(),
            grid: Grid::new(),
            kept: 0,
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
        if self.rows[index].cells.is_some() {
            self.add_to_cells(index, stretch(&span));
            if span.duration <= self.rows[index].floor {
                return false;
            }
        }
        self.rows[index].kept.push(span);
        self.kept += 1;
        if self.kept > MAX_KEPT {
            self.prune();
            // Pruning reorders.
            return false;
        }
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

    fn prune(&mut self) {
        let share = self.fair_share();
        for index in 0..self.rows.len() {
            if self.rows[index].kept.len() <= share {
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
            if share == 0 {
                row.floor = row.kept.iter().map(|span| span.duration).max().unwrap_or(0);
            } else {
                row.kept
                    .select_nth_unstable_by_key(share - 1, |span| std::cmp::Reverse(span.duration));
                row.floor = row.kept[share - 1].duration;
            }
            row.kept.truncate(share);
            row.kept.shrink_to_fit();
        }
        self.kept = self.rows.iter().map(|row| row.kept.len()).sum();
    }

    /// The most spans each row may keep so that all together keep no more than they should.
    fn fair_share(&self) -> usize {
        let (mut low, mut high) = (0, PRUNED_TO);
        while low < high {
            let share = (low + high).div_ceil(2);
            let total: usize = self.rows.iter().map(|row| row.kept.len().min(share)).sum();
            if total <= PRUNED_TO {
                low = share;
            } else {
                high = share - 1;
            }
        }
        low
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
        name: span.name,
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
            category: 3,
            layer: 1,
            open: false,
            status: Some(0),
            detail: Detail::None,
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
}
