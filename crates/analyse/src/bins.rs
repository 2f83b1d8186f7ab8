//! Time by lane and category in equal cells, for pictures. How long a trace is becomes known at
//! its end: cells double their width, pairs made one, whenever it outgrows them, so that one pass
//! and constant memory suffice.

use event::Category;
use std::{collections::HashMap, hash::Hash};

const CATEGORIES: usize = Category::ALL.len();

/// Cells of a lane, at most; after a doubling there are half as many.
const MOST_CELLS: u64 = 4_096;
/// Cells of all lanes together: many lanes are kept more coarsely.
const MOST_IN_ALL: usize = 1 << 17;

/// What happened in one cell of a lane.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cell {
    /// The cell's number, from the range's start.
    pub index: u64,
    /// Spans that begin in it.
    pub spans: u64,
    pub instants: u64,
    time: [u64; CATEGORIES],
}

impl Cell {
    fn new(index: u64) -> Self {
        Cell {
            index,
            spans: 0,
            instants: 0,
            time: [0; CATEGORIES],
        }
    }

    /// Nanoseconds that spans of a category took in it.
    pub fn time(&self, category: Category) -> u64 {
        self.time[category as usize]
    }

    /// Nanoseconds of all categories: more than the cell's width where spans overlap.
    pub fn busy(&self) -> u64 {
        self.time
            .iter()
            .fold(0, |sum, &time| sum.saturating_add(time))
    }

    fn add(&mut self, other: &Cell) {
        self.spans += other.spans;
        self.instants += other.instants;
        for (sum, time) in self.time.iter_mut().zip(other.time) {
            *sum = sum.saturating_add(time);
        }
    }
}

/// Lanes of cells over one range of time.
#[derive(Debug, Clone)]
pub struct Bins<K> {
    start: u64,
    end: u64,
    width: u64,
    /// The range was given and does not grow.
    fixed: bool,
    lanes: HashMap<K, Vec<Cell>, ahash::RandomState>,
    cells: usize,
}

impl<K: Hash + Eq + Clone> Bins<K> {
    /// A range that starts at `start` and grows with what is added. What is before it is cut
    /// off.
    pub fn from(start: u64) -> Self {
        Bins {
            start,
            end: u64::MAX,
            width: 1,
            fixed: false,
            lanes: HashMap::default(),
            cells: 0,
        }
    }

    /// The range from `start` to before `end`; the rest is cut off.
    pub fn within(start: u64, end: u64) -> Self {
        let end = end.max(start.saturating_add(1));
        Bins {
            end,
            width: (end - start).div_ceil(MOST_CELLS).next_power_of_two(),
            fixed: true,
            ..Bins::from(start)
        }
    }

    pub fn start(&self) -> u64 {
        self.start
    }

    /// Nanoseconds of a cell: a power of two.
    pub fn width(&self) -> u64 {
        self.width
    }

    pub fn lanes(&self) -> impl Iterator<Item = (&K, &[Cell])> {
        self.lanes.iter().map(|(key, cells)| (key, &cells[..]))
    }

    pub fn is_empty(&self) -> bool {
        self.lanes.is_empty()
    }

    /// A span of a lane. Empty ones count as instants do.
    pub fn add(&mut self, lane: &K, category: Category, from: u64, to: u64) {
        if to <= from {
            return self.mark(lane, from);
        }
        let (from, to) = (from.max(self.start), to.min(self.end));
        if to <= from {
            return;
        }
        self.make_room(to - 1);
        let (mut index, last) = (self.index(from), self.index(to - 1));
        let (start, width) = (self.start, self.width);
        let mut edge = from;
        while index <= last {
            // The last cell may end behind all time.
            let next = start.saturating_add((index + 1).saturating_mul(width));
            let cell = self.cell(lane, index);
            cell.spans += u64::from(edge == from);
            let time = &mut cell.time[category as usize];
            *time = time.saturating_add(next.min(to) - edge);
            edge = next;
            index += 1;
        }
        self.stay_small();
    }

    /// Something of no length.
    pub fn mark(&mut self, lane: &K, at: u64) {
        if !(self.start..self.end).contains(&at) {
            return;
        }
        self.make_room(at);
        let index = self.index(at);
        self.cell(lane, index).instants += 1;
        self.stay_small();
    }

    fn index(&self, at: u64) -> u64 {
        (at - self.start) / self.width
    }

    fn cell(&mut self, lane: &K, index: u64) -> &mut Cell {
        let cells = self.lanes.entry(lane.clone()).or_default();
        // Time runs on: the cell is the last one nearly always.
        let place = match cells.last() {
            Some(last) if last.index == index => cells.len() - 1,
            Some(last) if last.index > index => {
                match cells.binary_search_by_key(&index, |cell| cell.index) {
                    Ok(place) => place,
                    Err(place) => {
                        cells.insert(place, Cell::new(index));
                        self.cells += 1;
                        place
                    }
                }
            }
            _ => {
                cells.push(Cell::new(index));
                self.cells += 1;
                cells.len() - 1
            }
        };
        &mut cells[place]
    }

    fn make_room(&mut self, at: u64) {
        while self.index(at) >= MOST_CELLS && !self.fixed {
            self.double();
        }
    }

    /// Many lanes: fewer cells for each, but never less than one.
    fn stay_small(&mut self) {
        while self.cells > MOST_IN_ALL && self.cells > 2 * self.lanes.len() {
            self.double();
        }
    }

    fn double(&mut self) {
        self.width = self.width.saturating_mul(2);
        self.cells = 0;
        for cells in self.lanes.values_mut() {
            cells.iter_mut().for_each(|cell| cell.index /= 2);
            cells.dedup_by(|second, first| {
                let same = first.index == second.index;
                if same {
                    first.add(second);
                }
                same
            });
            self.cells += cells.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn total<K: Hash + Eq + Clone>(bins: &Bins<K>, lane: &K, category: Category) -> u64 {
        let cells = bins.lanes().find(|(key, _)| *key == lane);
        cells.map_or(0, |(_, cells)| {
            cells.iter().map(|cell| cell.time(category)).sum()
        })
    }

    fn spans() -> impl Strategy<Value = Vec<(u8, u8, u64, u64)>> {
        let length = prop_oneof![0..50u64, 0..100_000u64, 0..1u64 << 40];
        let gap = prop_oneof![0..50u64, 0..1u64 << 30];
        prop::collection::vec((0..3u8, 0..12u8, gap, length), 0..200)
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

        /// No time is lost or made, however often cells were merged; spans of one lane that do
        /// not overlap never fill a cell beyond its width.
        #[test]
        fn time_is_conserved(spans in spans(), start in 0..1u64 << 50) {
            let mut bins = Bins::from(start);
            let mut expected = HashMap::new();
            let mut now = start;
            for (lane, category, gap, length) in spans {
                now += gap;
                let kind = Category::ALL[usize::from(category)];
                bins.add(&lane, kind, now, now + length);
                *expected.entry((lane, kind)).or_insert(0) += length;
                now += length;
            }
            for ((lane, kind), time) in expected {
                prop_assert_eq!(total(&bins, &lane, kind), time);
            }
            for (_, cells) in bins.lanes() {
                prop_assert!(cells.len() as u64 <= MOST_CELLS);
                prop_assert!(cells.windows(2).all(|pair| pair[0].index < pair[1].index));
                prop_assert!(cells.iter().all(|cell| cell.busy() <= bins.width()));
            }
        }

        /// Cells that grew are the cells that a range known beforehand would have had.
        #[test]
        fn growing_changes_nothing(spans in spans()) {
            let mut grown = Bins::from(0);
            let mut now = 0;
            let mut known = Vec::new();
            for (lane, category, gap, length) in spans {
                let kind = Category::ALL[usize::from(category)];
                known.push((lane, kind, now + gap, now + gap + length + 1));
                now += gap + length + 1;
            }
            for (lane, kind, from, to) in &known {
                grown.add(lane, *kind, *from, *to);
            }
            let mut fixed = Bins::within(0, grown.width() * MOST_CELLS);
            for (lane, kind, from, to) in &known {
                fixed.add(lane, *kind, *from, *to);
            }
            prop_assert_eq!(fixed.width(), grown.width());
            for (lane, cells) in grown.lanes() {
                let other = fixed.lanes().find(|(key, _)| *key == lane).map(|(_, cells)| cells);
                let times = |cells: &[Cell]| -> Vec<_> {
                    cells.iter().map(|cell| (cell.index, cell.time)).collect()
                };
                prop_assert_eq!(other.map(times), Some(times(cells)));
            }
        }

        /// A range cuts off exactly what is outside.
        #[test]
        fn a_range_keeps_what_is_inside(from in 0..1_000u64, length in 1..1_000u64, spans in prop::collection::vec((0..2_000u64, 0..500u64), 0..50)) {
            let mut bins = Bins::within(from, from + length);
            let mut expected = 0;
            for (start, length_of_span) in spans {
                bins.add(&(), Category::Kernel, start, start + length_of_span);
                let inside = (start + length_of_span).min(from + length).saturating_sub(start.max(from));
                expected += inside;
            }
            prop_assert_eq!(total(&bins, &(), Category::Kernel), expected);
        }
    }

    #[test]
    fn ten_thousand_lanes_and_the_end_of_time_fit() {
        let mut bins = Bins::from(0);
        for lane in 0..10_000u32 {
            for turn in 0..100 {
                let start = turn * 1_000_000 + u64::from(lane);
                bins.add(&lane, Category::Sync, start, start + 500_000);
            }
        }
        assert_eq!(bins.lanes().count(), 10_000);
        assert!(bins.cells <= MOST_IN_ALL, "{}", bins.cells);
        assert_eq!(total(&bins, &7, Category::Sync), 50_000_000);
        bins.add(&7, Category::Sync, 5, u64::MAX);
        bins.mark(&8, u64::MAX);
        bins.add(&7, Category::Sync, 9, 3);
        assert_eq!(bins.lanes().count(), 10_000);
    }
}
