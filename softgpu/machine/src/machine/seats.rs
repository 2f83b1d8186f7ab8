//! Which multiprocessor a block is on, and which of that one's places its warps have: as on a GPU, no two
//! warps that are there at the same time have the same, whichever launches they are of.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Warps that a multiprocessor has places for.
pub const PLACES: u32 = u64::BITS;

/// The places of all multiprocessors.
pub struct Seats {
    taken: Box<[AtomicU64]>,
}

/// Those of one block, until it is dropped.
pub struct Seat {
    seats: Arc<Seats>,
    pub multiprocessor: u32,
    /// None if there were not enough: more blocks wait at once than a GPU would let in.
    places: u64,
}

impl Seats {
    pub fn new(multiprocessors: u32) -> Arc<Seats> {
        let none = |_| AtomicU64::new(0);
        Arc::new(Seats {
            taken: (0..multiprocessors.max(1)).map(none).collect(),
        })
    }

    pub fn multiprocessors(&self) -> u32 {
        self.taken.len() as u32
    }

    /// Places for the warps of a block, on the multiprocessor of its number or the next that has them.
    pub fn take(self: &Arc<Self>, block: u64, warps: u32) -> Seat {
        let count = u64::from(self.multiprocessors());
        let first = block % count;
        let found = (first..first + count).find_map(|at| {
            let multiprocessor = (at % count) as usize;
            let update = self.taken[multiprocessor].fetch_update(
                Ordering::Relaxed,
                Ordering::Relaxed,
                |taken| lowest(!taken, warps).map(|places| taken | places),
            );
            let before = update.ok()?;
            Some((multiprocessor as u32, lowest(!before, warps)?))
        });
        let (multiprocessor, places) = found.unwrap_or((first as u32, 0));
        Seat {
            seats: self.clone(),
            multiprocessor,
            places,
        }
    }
}

/// So many of the lowest bits that are set, if there are.
fn lowest(bits: u64, count: u32) -> Option<u64> {
    let above = (0..count).try_fold(bits, |left, _| (left != 0).then(|| left & (left - 1)))?;
    Some(bits & !above)
}

impl Seat {
    /// The place of one of its warps.
    pub fn place(&self, warp: u32) -> u32 {
        if self.places == 0 {
            return warp;
        }
        let above = (0..warp).fold(self.places, |left, _| left & left.saturating_sub(1));
        above.trailing_zeros()
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.seats.taken[self.multiprocessor as usize].fetch_and(!self.places, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn places(seat: &Seat, warps: u32) -> Vec<(u32, u32)> {
        (0..warps)
            .map(|warp| (seat.multiprocessor, seat.place(warp)))
            .collect()
    }

    #[test]
    fn nobody_sits_where_another_does() {
        let seats = Seats::new(2);
        let mut there = Vec::new();
        let mut all = HashSet::new();
        // 2 multiprocessors of 64 places: 12 blocks of 10 warps, six on each.
        for block in 0..12 {
            let seat = seats.take(block, 10);
            assert!(places(&seat, 10).into_iter().all(|place| all.insert(place)));
            there.push(seat);
        }
        assert!(all.iter().all(|(_, place)| *place < PLACES));
        assert_eq!(there[3].multiprocessor, 1);
        // One has to stand; who goes makes room, on whichever multiprocessor that is.
        assert_eq!(places(&seats.take(12, 10), 2), [(0, 0), (0, 1)]);
        let left = places(&there.remove(3), 10);
        assert_eq!(places(&seats.take(12, 10), 10), left);
    }

    #[test]
    fn a_block_may_fill_one() {
        let seats = Seats::new(1);
        let first = seats.take(7, 32);
        let second = seats.take(8, 32);
        assert_eq!(
            (first.place(31), second.place(0), second.place(31)),
            (31, 32, 63)
        );
        drop((first, second));
        assert_eq!(seats.take(9, 64).place(63), 63);
        assert_eq!(seats.taken[0].load(Ordering::Relaxed), 0);
    }
}
