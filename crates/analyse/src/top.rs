//! The longest of many, in bounded space.

use std::{cmp::Reverse, collections::BinaryHeap};

/// Keeps the `limit` items of the greatest length. Of items as long as each other the first
/// ones reported are kept.
#[derive(Debug, Clone)]
pub struct Longest<T> {
    limit: usize,
    told: u64,
    heap: BinaryHeap<Reverse<Ranked<T>>>,
}

#[derive(Debug, Clone)]
struct Ranked<T> {
    length: u64,
    /// Earlier is greater.
    order: Reverse<u64>,
    item: T,
}

impl<T> Longest<T> {
    pub fn new(limit: usize) -> Self {
        Longest {
            limit,
            told: 0,
            heap: BinaryHeap::new(),
        }
    }

    /// Whether something of this length would be kept: worth making it then.
    #[inline]
    pub fn wants(&self, length: u64) -> bool {
        self.heap.len() < self.limit
            || self
                .heap
                .peek()
                .is_some_and(|Reverse(least)| length > least.length)
    }

    pub fn add(&mut self, length: u64, item: T) {
        if !self.wants(length) {
            return;
        }
        if self.heap.len() == self.limit {
            self.heap.pop();
        }
        self.told += 1;
        self.heap.push(Reverse(Ranked {
            length,
            order: Reverse(self.told),
            item,
        }));
    }

    /// Longest first.
    pub fn into_sorted(self) -> impl Iterator<Item = T> {
        let kept = self.heap.into_sorted_vec();
        kept.into_iter().map(|Reverse(kept)| kept.item)
    }
}

impl<T> PartialEq for Ranked<T> {
    fn eq(&self, other: &Self) -> bool {
        (self.length, self.order) == (other.length, other.order)
    }
}

impl<T> Eq for Ranked<T> {}

impl<T> PartialOrd for Ranked<T> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Ranked<T> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.length, self.order).cmp(&(other.length, other.order))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_stay_and_the_first_of_equals() {
        let mut longest = Longest::new(3);
        for (length, item) in [(5, 'a'), (9, 'b'), (5, 'c'), (1, 'd'), (5, 'e'), (7, 'f')] {
            longest.add(length, item);
        }
        assert_eq!(longest.into_sorted().collect::<String>(), "bfa");
    }

    #[test]
    fn none_are_wanted_where_there_is_no_room() {
        let mut longest = Longest::new(0);
        longest.add(u64::MAX, ());
        assert_eq!(longest.into_sorted().count(), 0);
    }
}
