//! The one re-ordering buffer: records are kept until nothing earlier can come.
//!
//! Records come nearly in order, so they are appended and sorted when they are asked for, from where the
//! newcomers begin; that is cheaper than finding each its place. Who has queues that are in order already
//! (threads, back ends, files) puts the first of each in here and the next when that one is taken.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// Items that wait for earlier ones, at most so many.
#[derive(Debug, Clone)]
pub struct Reorder<T> {
    most: usize,
    /// In order.
    waiting: VecDeque<Key>,
    /// As they came, since items were last taken.
    fresh: Vec<Key>,
    items: Vec<Option<T>>,
    /// Places in `items` that can be used again.
    free: Vec<u32>,
    newest: u64,
    /// There was no room: items go early until half of it is free.
    relieving: bool,
}

/// When, where among those of one moment, and which.
#[derive(Debug, Clone, Copy)]
struct Key {
    time: u64,
    rank: u32,
    item: u32,
}

impl Key {
    fn order(&self) -> (u64, u32) {
        (self.time, self.rank)
    }
}

impl<T> Reorder<T> {
    /// Beyond `most` items the earlier half goes before its time: what comes too late then is out of order,
    /// and nothing is lost. Memory is that of `most` items and 20 bytes for each.
    pub fn new(most: usize) -> Self {
        Reorder {
            most: most.clamp(1, u32::MAX as usize),
            waiting: VecDeque::new(),
            fresh: Vec::new(),
            items: Vec::new(),
            free: Vec::new(),
            newest: 0,
            relieving: false,
        }
    }

    /// Items of one moment go as they came.
    #[inline]
    pub fn push(&mut self, time: u64, item: T) {
        self.push_ranked(time, 0, item);
    }

    /// Items of one moment go by rank, then as they came.
    pub fn push_ranked(&mut self, time: u64, rank: u32, item: T) {
        self.newest = self.newest.max(time);
        let place = match self.free.pop() {
            Some(place) => {
                self.items[place as usize] = Some(item);
                place
            }
            None => {
                self.items.push(Some(item));
                (self.items.len() - 1) as u32
            }
        };
        let key = Key {
            time,
            rank,
            item: place,
        };
        let last = self.waiting.back().map(Key::order);
        if self.fresh.is_empty() && last.is_none_or(|last| last <= key.order()) {
            self.waiting.push_back(key);
        } else {
            self.fresh.push(key);
        }
        self.relieving |= self.is_full();
    }

    /// The earliest item and its time, if it is not later than `until` or there is no room for more.
    pub fn next(&mut self, until: u64) -> Option<(u64, T)> {
        if !self.fresh.is_empty() {
            self.sort();
        }
        let first = *self.waiting.front()?;
        if first.time > until && !self.relieving {
            return None;
        }
        self.waiting.pop_front();
        self.relieving &= self.waiting.len() > self.most / 2;
        let item = self.items.get_mut(first.item as usize)?.take()?;
        self.free.push(first.item);
        Some((first.time, item))
    }

    /// When the earliest item is of.
    pub fn earliest(&self) -> Option<u64> {
        let waiting = self.waiting.front().map(|key| key.time);
        let fresh = self.fresh.iter().map(|key| key.time).min();
        waiting.into_iter().chain(fresh).min()
    }

    /// Time and rank of the earliest item.
    #[inline]
    pub fn first(&self) -> Option<(u64, u32)> {
        let waiting = self.waiting.front().map(Key::order);
        let fresh = self.fresh.iter().map(Key::order).min();
        waiting.into_iter().chain(fresh).min()
    }

    /// Whether one of that time and rank would be the next.
    #[inline]
    pub fn would_be_next(&self, time: u64, rank: u32) -> bool {
        let before = |key: &Key| key.order() <= (time, rank);
        !self.waiting.front().is_some_and(before) && !self.fresh.iter().any(before)
    }

    /// The latest time that ever came.
    pub fn newest(&self) -> u64 {
        self.newest
    }

    pub fn len(&self) -> usize {
        self.waiting.len() + self.fresh.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// There is no room for another: taking items from now on gives the earliest, whatever the time.
    pub fn is_full(&self) -> bool {
        self.len() >= self.most
    }

    /// Puts what came since in its place.
    fn sort(&mut self) {
        // Stable: those of one moment stay as they came, behind those that were here.
        self.fresh.sort_by_key(Key::order);
        let first = self.fresh[0].order();
        let place = self.waiting.partition_point(|key| key.order() <= first);
        if let [only] = *self.fresh {
            self.waiting.insert(place, only);
            self.fresh.clear();
            return;
        }
        let moved: Vec<Key> = self.waiting.drain(place..).collect();
        let (mut old, mut new) = (
            moved.into_iter().peekable(),
            self.fresh.drain(..).peekable(),
        );
        while let (Some(one), Some(other)) = (old.peek(), new.peek()) {
            let earlier = if one.order() <= other.order() {
                old.next()
            } else {
                new.next()
            };
            self.waiting.extend(earlier);
        }
        self.waiting.extend(old);
        self.waiting.extend(new);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn taken<T>(buffer: &mut Reorder<T>, until: u64) -> Vec<T> {
        core::iter::from_fn(|| buffer.next(until).map(|(_, item)| item)).collect()
    }

    #[test]
    fn items_go_in_the_order_of_time_and_those_of_one_moment_as_they_came() {
        let mut buffer = Reorder::new(1 << 20);
        for (item, time) in [(1, 50), (2, 10), (3, 50), (4, 30), (5, 10)] {
            buffer.push(time, item);
        }
        assert_eq!(buffer.earliest(), Some(10));
        assert_eq!(taken(&mut buffer, 30), [2, 5, 4]);
        buffer.push(40, 6);
        assert_eq!(taken(&mut buffer, 45), [6]);
        assert_eq!(taken(&mut buffer, u64::MAX), [1, 3]);
        assert_eq!(buffer.items.len(), 5, "places are used again");
        assert_eq!((buffer.newest(), buffer.earliest()), (50, None));
    }

    #[test]
    fn a_rank_decides_between_those_of_one_moment() {
        let mut buffer = Reorder::new(8);
        for (time, rank) in [(7, 2), (7, 0), (5, 9), (7, 1), (7, 0)] {
            buffer.push_ranked(time, rank, (time, rank));
        }
        let expected = [(5, 9), (7, 0), (7, 0), (7, 1), (7, 2)];
        assert_eq!(taken(&mut buffer, 7), expected);
    }

    #[test]
    fn a_full_buffer_lets_the_earlier_half_go() {
        let mut buffer = Reorder::new(8);
        (0..8u64)
            .rev()
            .for_each(|time| buffer.push(100 + time, time));
        assert_eq!(taken(&mut buffer, 0), [0, 1, 2, 3]);
        assert_eq!(taken(&mut buffer, 0), []);
        assert_eq!(buffer.len(), 4);
    }

    proptest! {
        /// No item comes later than `lag` behind the newest, as sources promise.
        #[test]
        fn all_items_come_out_once_and_in_order(
            steps in prop::collection::vec((0..50u64, 0..1_000u64, 0..3u32, 0..4u8), 0..400),
        ) {
            let lag = 1_000;
            let mut buffer = Reorder::new(1 << 20);
            let (mut now, mut out) = (lag, Vec::new());
            let mut pushed = Vec::new();
            for (number, (step, behind, rank, take)) in steps.into_iter().enumerate() {
                now += step;
                let key = (now - behind, rank, number);
                buffer.push_ranked(key.0, rank, key);
                pushed.push(key);
                if take == 0 {
                    // What comes is later than this.
                    out.extend(taken(&mut buffer, now - lag));
                    prop_assert!(buffer.earliest().is_none_or(|time| time > now - lag));
                }
            }
            out.extend(taken(&mut buffer, u64::MAX));
            pushed.sort_unstable();
            prop_assert_eq!(out, pushed);
        }

        #[test]
        fn memory_is_bounded_and_nothing_is_lost(
            times in prop::collection::vec(any::<u64>(), 0..500),
            most in 1..40usize,
        ) {
            let mut buffer = Reorder::new(most);
            let mut out = Vec::new();
            for (number, time) in times.iter().enumerate() {
                buffer.push(*time, number);
                if buffer.is_full() {
                    out.extend(taken(&mut buffer, 0));
                }
                prop_assert!(buffer.len() < most.max(2) && buffer.items.len() <= most);
                prop_assert!(buffer.free.len() <= most);
            }
            out.extend(taken(&mut buffer, u64::MAX));
            out.sort_unstable();
            prop_assert_eq!(out, (0..times.len()).collect::<Vec<_>>());
        }
    }
}
