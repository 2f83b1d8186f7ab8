//! What many spans come to when they cannot all be shown: cells of one width for all rows, each
//! with the time of every category in it. The width doubles when the cells grow too many.

use super::colour::COLOURS;

/// Cells of all rows together.
const MAX_CELLS: usize = 400_000;
/// Names that a cell counts.
const COUNTED: usize = 3;
/// Cells of one row.
const MAX_IN_ROW: u64 = 16_384;

#[derive(Clone, Default)]
pub struct Cell {
    /// Nanoseconds by category. A float: a cell may be wider than what a u32 holds.
    time: [f32; COLOURS],
    /// Spans that begin here.
    pub count: u32,
    /// The name that takes most of the time, if one takes more than half: a majority vote.
    name: u32,
    votes: f32,
    /// How many spans of a name begin here, for the names that begin most often.
    begun: [(u32, u32); COUNTED],
    /// Spans that may be missing in each of these counts.
    uncounted: u32,
}

impl Cell {
    fn add(&mut self, category: usize, time: f32, name: u32) {
        self.time[category] += time;
        // Instants take no time, and still deserve a name.
        self.vote(name, time.max(0.5));
    }

    fn vote(&mut self, name: u32, votes: f32) {
        if self.name == name {
            self.votes += votes;
        } else if votes > self.votes {
            self.votes = votes - self.votes;
            self.name = name;
        } else {
            self.votes -= votes;
        }
    }

    /// `number` spans of a name begin here. Where there are more names than counters, all give way to the
    /// new one by as much (Misra and Gries): what is counted is never too much.
    fn begin(&mut self, name: u32, mut number: u32) {
        while number > 0 {
            let same = |entry: &&mut (u32, u32)| entry.0 == name && entry.1 > 0;
            if let Some(entry) = self.begun.iter_mut().find(same) {
                entry.1 = entry.1.saturating_add(number);
                return;
            }
            if let Some(free) = self.begun.iter_mut().find(|entry| entry.1 == 0) {
                *free = (name, number);
                return;
            }
            let least = self.begun.iter().map(|entry| entry.1).min().unwrap_or(0);
            let taken = least.min(number);
            self.begun.iter_mut().for_each(|entry| entry.1 -= taken);
            self.uncounted = self.uncounted.saturating_add(taken);
            number -= taken;
        }
    }

    /// The name that begins most often, how often it does so at least, and whether that is all.
    pub fn most(&self) -> (u32, u32, bool) {
        let &(name, count) = (self.begun.iter())
            .max_by_key(|(name, count)| (*count, std::cmp::Reverse(*name)))
            .unwrap_or(&(0, 0));
        if count == 0 {
            return (self.name, 0, true);
        }
        (name, count, self.uncounted == 0)
    }

    fn merge(&mut self, other: &Cell) {
        for (time, more) in self.time.iter_mut().zip(&other.time) {
            *time += more;
        }
        self.count = self.count.saturating_add(other.count);
        self.vote(other.name, other.votes);
        self.uncounted = self.uncounted.saturating_add(other.uncounted);
        for &(name, number) in &other.begun {
            self.begin(name, number);
        }
    }

    pub fn is_empty(&self) -> bool {
        self.count == 0 && self.time.iter().all(|&time| time == 0.0)
    }

    /// The category that takes most of the time.
    pub fn dominant(&self) -> u8 {
        let mut best = 0;
        for (index, &time) in self.time.iter().enumerate() {
            if time > self.time[best] {
                best = index;
            }
        }
        best as u8
    }

    /// Nanoseconds of all categories.
    pub fn total(&self) -> f32 {
        self.time.iter().sum()
    }
}

/// The cells of one row, from the first that holds anything.
#[derive(Default)]
pub struct Cells {
    pub first: u64,
    pub cells: Vec<Cell>,
}

/// The width all cells share: 2^shift nanoseconds.
pub struct Grid {
    pub shift: u32,
    allocated: usize,
}

/// One span as cells see it.
#[derive(Clone, Copy)]
pub struct Stretch {
    pub start: u64,
    pub duration: u64,
    pub category: u8,
    pub name: u32,
}

impl Grid {
    pub fn new() -> Self {
        Grid {
            shift: 10,
            allocated: 0,
        }
    }

    /// Adds a span to a row's cells. True: there are too many cells now, and [`Grid::widen`] is due.
    pub fn add(&mut self, row: &mut Cells, span: Stretch) -> bool {
        let first = span.start >> self.shift;
        let end = span.start.saturating_add(span.duration);
        let last = end.saturating_sub(1).max(span.start) >> self.shift;
        let (low, high) = if row.cells.is_empty() {
            (first, last)
        } else {
            let row_last = row.first + row.cells.len() as u64 - 1;
            (row.first.min(first), row_last.max(last))
        };
        if high - low >= MAX_IN_ROW {
            // Does not fit at this width: the caller widens, and comes again.
            return true;
        }
        self.reach(row, low, high);
        let category = usize::from(span.category).min(COLOURS - 1);
        let width = 1u64 << self.shift;
        for bin in first..=last {
            let cell_start = bin << self.shift;
            let from = span.start.max(cell_start);
            let to = end.min(cell_start.saturating_add(width));
            let cell = &mut row.cells[(bin - row.first) as usize];
            cell.add(category, to.saturating_sub(from) as f32, span.name);
        }
        let cell = &mut row.cells[(first - row.first) as usize];
        cell.count = cell.count.saturating_add(1);
        cell.begin(span.name, 1);
        false
    }

    /// Makes the row's cells reach from `low` to `high`.
    fn reach(&mut self, row: &mut Cells, low: u64, high: u64) {
        let before = row.cells.len();
        if before == 0 {
            row.first = low;
        } else if low < row.first {
            let missing = (row.first - low) as usize;
            row.cells
                .splice(0..0, std::iter::repeat_n(Cell::default(), missing));
            row.first = low;
        }
        let wanted = (high - row.first + 1) as usize;
        if wanted > row.cells.len() {
            row.cells.resize_with(wanted, Cell::default);
        }
        self.allocated += row.cells.len() - before;
    }

    pub fn crowded(&self) -> bool {
        self.allocated > MAX_CELLS && self.shift < 62
    }

    /// Doubles the width: pairs of cells become one.
    pub fn widen<'a>(&mut self, rows: impl Iterator<Item = &'a mut Cells>) {
        self.shift = (self.shift + 1).min(63);
        self.allocated = 0;
        for row in rows {
            let mut merged: Vec<Cell> = Vec::with_capacity(row.cells.len() / 2 + 1);
            let first = row.first >> 1;
            for (offset, cell) in row.cells.iter().enumerate() {
                let place = (((row.first + offset as u64) >> 1) - first) as usize;
                match merged.get_mut(place) {
                    Some(whole) => whole.merge(cell),
                    None => merged.push(cell.clone()),
                }
            }
            row.first = first;
            row.cells = merged;
            self.allocated += row.cells.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use event::Category;

    fn stretch(start: u64, duration: u64, category: Category) -> Stretch {
        Stretch {
            start,
            duration,
            category: category as u8,
            name: 7,
        }
    }

    fn add(grid: &mut Grid, row: &mut Cells, span: Stretch) {
        while grid.add(row, span) {
            grid.widen(std::iter::once(&mut *row));
        }
    }

    #[test]
    fn time_is_shared_out_and_survives_widening() {
        let (mut grid, mut row) = (Grid::new(), Cells::default());
        // From the middle of cell 1 to the middle of cell 3.
        add(&mut grid, &mut row, stretch(1536, 2048, Category::Memory));
        add(&mut grid, &mut row, stretch(1024, 100, Category::Sync));
        let totals: Vec<f32> = row.cells.iter().map(Cell::total).collect();
        assert_eq!((row.first, totals), (1, vec![612.0, 1024.0, 512.0]));
        assert_eq!(row.cells[0].dominant(), Category::Memory as u8);
        assert_eq!(row.cells[0].count, 2);
        grid.widen(std::iter::once(&mut row));
        let totals: Vec<f32> = row.cells.iter().map(Cell::total).collect();
        assert_eq!((row.first, totals), (0, vec![612.0, 1536.0]));
    }

    #[test]
    fn earlier_spans_may_come_later() {
        let (mut grid, mut row) = (Grid::new(), Cells::default());
        add(&mut grid, &mut row, stretch(10_240, 10, Category::Sync));
        add(&mut grid, &mut row, stretch(0, 5, Category::Init));
        assert_eq!((row.first, row.cells.len()), (0, 11));
        assert_eq!(row.cells[0].dominant(), Category::Init as u8);
    }

    #[test]
    fn any_stretch_of_time_fits() {
        let (mut grid, mut row) = (Grid::new(), Cells::default());
        add(&mut grid, &mut row, stretch(0, u64::MAX, Category::Sync));
        add(&mut grid, &mut row, stretch(u64::MAX, 0, Category::Sync));
        assert!(row.cells.len() as u64 <= MAX_IN_ROW);
        let total: f32 = row.cells.iter().map(Cell::total).sum();
        assert!((total / u64::MAX as f32 - 1.0).abs() < 0.01);
    }

    #[test]
    fn the_name_of_a_majority_is_found() {
        let mut cell = Cell::default();
        for (name, time) in [(1, 3.0), (2, 10.0), (3, 2.0), (2, 5.0), (1, 1.0)] {
            cell.add(0, time, name);
        }
        assert_eq!(cell.most(), (2, 0, true), "nothing begins here");
    }

    #[test]
    fn names_are_counted_and_never_too_often() {
        let mut cell = Cell::default();
        for (name, number) in [(1, 3), (2, 5), (3, 1)] {
            cell.begin(name, number);
        }
        assert_eq!(cell.most(), (2, 5, true));
        // A fourth name: the counts are lower bounds from here on.
        let mut other = Cell::default();
        other.begin(4, 2);
        other.begin(2, 4);
        cell.merge(&other);
        let (name, count, exact) = cell.most();
        assert_eq!((name, exact), (2, false));
        assert!((7..=9).contains(&count), "{count}");
    }
}
