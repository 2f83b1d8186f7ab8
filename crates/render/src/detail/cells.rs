//! What the spans of a cell come to, while they are added up.

use super::picture::{Cell, EMPTY};

/// Labels that a cell counts.
const COUNTED: usize = 4;

#[derive(Debug, Clone, Copy)]
pub struct Tally<const CATEGORIES: usize> {
    /// Nanoseconds.
    time: [f64; CATEGORIES],
    count: u32,
    /// How many spans of a label begin here, for those that begin most often: never too many.
    begun: [(u32, u32); COUNTED],
    /// What covers it most, by a majority vote.
    covers: u32,
    votes: f64,
}

impl<const CATEGORIES: usize> Default for Tally<CATEGORIES> {
    fn default() -> Self {
        Tally {
            time: [0.0; CATEGORIES],
            count: 0,
            begun: [(0, 0); COUNTED],
            covers: 0,
            votes: 0.0,
        }
    }
}

impl<const CATEGORIES: usize> Tally<CATEGORIES> {
    pub fn cover(&mut self, category: u8, time: f64, label: u32) {
        self.time[usize::from(category).min(CATEGORIES - 1)] += time;
        if self.covers == label {
            self.votes += time;
        } else if time > self.votes {
            (self.covers, self.votes) = (label, time - self.votes);
        } else {
            self.votes -= time;
        }
    }

    pub fn begin(&mut self, label: u32, count: u32) {
        self.count = self.count.saturating_add(count);
        self.count_label(label, count);
    }

    /// Where there are more labels than counters, all give way to the new one by as much (Misra and Gries).
    fn count_label(&mut self, label: u32, mut count: u32) {
        while count > 0 {
            if let Some(entry) =
                (self.begun.iter_mut()).find(|entry| entry.0 == label && entry.1 > 0)
            {
                entry.1 = entry.1.saturating_add(count);
                return;
            }
            if let Some(free) = self.begun.iter_mut().find(|entry| entry.1 == 0) {
                *free = (label, count);
                return;
            }
            let least = self.begun.iter().map(|entry| entry.1).min().unwrap_or(0);
            let taken = least.min(count);
            self.begun.iter_mut().for_each(|entry| entry.1 -= taken);
            count -= taken;
        }
    }

    /// Adds a share of a cell that is finished: 1 if all of it is here; the first share has what begins in it.
    pub fn add(&mut self, cell: &Cell, width: f64, share: f64, is_first: bool) {
        if cell.category == EMPTY {
            return;
        }
        let time = width * share * f64::from(cell.fill) / 255.0;
        self.cover(cell.category, time, cell.label);
        if is_first {
            self.count = self.count.saturating_add(cell.count);
            self.count_label(cell.label, cell.of_label);
        }
    }

    pub fn cell(&self, width: f64) -> Cell {
        let total: f64 = self.time.iter().sum();
        if self.count == 0 && total <= 0.0 {
            return Cell {
                category: EMPTY,
                ..Cell::default()
            };
        }
        let mut category = 0;
        for (place, &time) in self.time.iter().enumerate() {
            if time > self.time[category] {
                category = place;
            }
        }
        let most = self.begun.iter().max_by_key(|entry| entry.1);
        let (label, of_label) = match most {
            Some(&(label, count)) if count > 0 => (label, count),
            _ => (self.covers, 0),
        };
        Cell {
            category: category as u8,
            // Rounded up: what is there at all is seen.
            fill: (total / width * 255.0).ceil().min(255.0) as u8,
            label,
            count: self.count,
            of_label,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_counted_and_never_too_often() {
        let mut tally = Tally::<3>::default();
        for label in [1, 2, 3, 4, 5, 2, 2, 2] {
            tally.begin(label, 1);
            tally.cover(1, 10.0, label);
        }
        let cell = tally.cell(100.0);
        assert_eq!(
            (cell.label, cell.count, cell.category, cell.fill),
            (2, 8, 1, 204)
        );
        assert!((1..=4).contains(&cell.of_label), "{cell:?}");
        assert_eq!(Tally::<3>::default().cell(1.0).category, EMPTY);
    }
}
