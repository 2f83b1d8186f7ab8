//! Which of many remembered walks to compare with: those that begin alike are in one ring, in the order in which they were
//! met. A loop meets them in the same order again, so the one after the last that fitted mostly fits.

use core::sync::atomic::{Ordering, compiler_fence};

/// Walks of one ring: those that come to one place in different ways, and others whose hash is the same.
const MOST: u8 = 64;

/// Places of a table of `ROOM` walks, in rings found by a hash. All zeros is an empty one; numbers in it are one more than
/// the place they mean.
#[repr(C)]
pub struct Chains<const RINGS: usize, const ROOM: usize> {
    /// Of each ring the walk that fitted last.
    recent: [u16; RINGS],
    lengths: [u8; RINGS],
    next: [u16; ROOM],
    used: u16,
}

impl<const RINGS: usize, const ROOM: usize> Chains<RINGS, ROOM> {
    const FITS: () = assert!(RINGS.is_power_of_two() && ROOM < u16::MAX as usize);

    fn ring(hash: u64) -> usize {
        const { Self::FITS };
        (hash >> 40) as usize & (RINGS - 1)
    }

    /// The place of the first walk that fits.
    #[inline]
    pub fn find(&mut self, hash: u64, mut fits: impl FnMut(usize) -> bool) -> Option<usize> {
        let recent = self.recent.get_mut(Self::ring(hash))?;
        let mut number = *recent;
        for _ in 0..MOST {
            let place = usize::from(number).checked_sub(1)?;
            if fits(place) {
                *recent = number;
                return Some(place);
            }
            number = *self.next.get(place)?;
            if number == *recent {
                break;
            }
        }
        None
    }

    /// Where to remember one more walk. What was there is forgotten.
    pub fn place(&mut self, hash: u64) -> Option<usize> {
        if usize::from(self.used) >= ROOM {
            self.recent.fill(0);
            self.lengths.fill(0);
            self.used = 0;
        }
        let ring = Self::ring(hash);
        let (recent, length) = (self.recent.get_mut(ring)?, self.lengths.get_mut(ring)?);
        if *recent != 0 && *length >= MOST {
            *recent = *self.next.get(usize::from(*recent) - 1)?;
            return Some(usize::from(*recent) - 1);
        }
        // A signal handler may leave this half-way by a longjmp: a ring is one at every step.
        self.used += 1;
        compiler_fence(Ordering::SeqCst);
        let number = self.used;
        let after = match usize::from(*recent).checked_sub(1) {
            Some(recent) => *self.next.get(recent)?,
            None => number,
        };
        *self.next.get_mut(usize::from(number) - 1)? = after;
        compiler_fence(Ordering::SeqCst);
        if let Some(recent) = usize::from(*recent).checked_sub(1) {
            *self.next.get_mut(recent)? = number;
            compiler_fence(Ordering::SeqCst);
        }
        (*recent, *length) = (number, length.saturating_add(1));
        Some(usize::from(number) - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn empty<const RINGS: usize, const ROOM: usize>() -> Chains<RINGS, ROOM> {
        Chains {
            recent: [0; RINGS],
            lengths: [0; RINGS],
            next: [0; ROOM],
            used: 0,
        }
    }

    #[test]
    fn a_loop_finds_each_of_its_walks_at_the_second_look() {
        let mut chains = empty::<4, 100>();
        let mut walks = [usize::MAX; 100];
        for walk in 0..24 {
            assert_eq!(chains.find(7, |place| walks[place] == walk), None);
            walks[chains.place(7).unwrap()] = walk;
        }
        for walk in (0..24).chain(0..24) {
            let mut looks = 0;
            let found = chains.find(7, |place| {
                looks += 1;
                walks[place] == walk
            });
            assert!(found.is_some());
            assert!(looks <= 2, "{looks} looks for {walk}");
        }
    }

    #[test]
    fn what_is_met_last_is_known_however_much_there_was() {
        let mut chains = empty::<2, 100>();
        let mut walks = [usize::MAX; 100];
        for walk in 0..10_000 {
            let hash = (walk as u64 % 3) << 40;
            let place = chains.place(hash).unwrap();
            walks[place] = walk;
            assert_eq!(chains.find(hash, |place| walks[place] == walk), Some(place));
        }
        // A ring that is full gives up its oldest.
        let mut chains = empty::<2, 1_000>();
        let places: [usize; 70] = core::array::from_fn(|_| chains.place(0).unwrap());
        assert_eq!(places[64], places[0]);
        let mut seen = 0;
        chains.find(0, |_| {
            seen += 1;
            false
        });
        assert_eq!(seen, 64);
    }
}
