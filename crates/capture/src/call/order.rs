//! Steps of several threads in the order of time: each thread's own are in order already.

use super::item::{Batch, Item};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::rc::Rc;

/// Used batches kept until they are asked for.
const MOST_DONE: usize = 64;
/// Steps kept for the sake of order, at most: past this they are let go early.
const MOST_KEPT: usize = 1 << 20;

#[derive(Default)]
pub struct Order {
    rings: Vec<VecDeque<Rc<Batch>>>,
    /// The place in each ring's first batch.
    places: Vec<usize>,
    /// Each ring that has steps, by the time of its first.
    next: BinaryHeap<Reverse<(u64, usize)>>,
    kept: usize,
    /// Batches of which the last step has been taken; the taker may still hold it.
    done: Vec<Rc<Batch>>,
}

impl Order {
    pub fn push(&mut self, batch: Batch, to_host: impl Fn(u64) -> u64) {
        let Some(first) = batch.items.first() else {
            return;
        };
        let ring = batch.ring;
        if self.rings.len() <= ring {
            self.rings.resize_with(ring + 1, VecDeque::new);
            self.places.resize(ring + 1, 0);
        }
        if self.rings[ring].is_empty() {
            self.next.push(Reverse((to_host(first.time), ring)));
        }
        self.kept += batch.items.len();
        self.rings[ring].push_back(Rc::new(batch));
    }

    /// The earliest step, its time and its ring, if it is of that moment or before.
    pub fn next(
        &mut self,
        until: u64,
        to_host: impl Fn(usize, u64) -> u64,
    ) -> Option<(u64, usize, Item, Rc<Batch>)> {
        let Reverse((time, ring)) = *self.next.peek()?;
        if time > until && self.kept <= MOST_KEPT {
            return None;
        }
        self.next.pop();
        let batch = self.rings[ring].front()?.clone();
        let item = batch.items.get(self.places[ring])?.clone();
        self.kept -= 1;
        self.places[ring] += 1;
        if self.places[ring] == batch.items.len() {
            let done = self.rings[ring].pop_front();
            self.done
                .extend(done.filter(|_| self.done.len() < MOST_DONE));
            self.places[ring] = 0;
        }
        let following = self.rings[ring]
            .front()
            .and_then(|batch| batch.items.get(self.places[ring]));
        if let Some(following) = following {
            // Never before its predecessor, whatever the clocks say.
            let time = to_host(ring, following.time).max(time);
            self.next.push(Reverse((time, ring)));
        }
        Some((time, ring, item, batch))
    }

    /// Batches whose memory can be used again.
    pub fn used(&mut self) -> impl Iterator<Item = Batch> {
        self.done.drain(..).filter_map(Rc::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::item::Step;

    fn batch(ring: usize, times: &[u64]) -> Batch {
        let item = |time: &u64| Item {
            time: *time,
            sequence: 0,
            step: Step::Lost { count: 1 },
        };
        Batch {
            ring,
            items: times.iter().map(item).collect(),
            bytes: Vec::new(),
        }
    }

    #[test]
    fn threads_are_merged_up_to_a_moment() {
        let mut order = Order::default();
        for (ring, times) in [
            (0, vec![1, 5, 9]),
            (2, vec![2, 3]),
            (0, vec![12]),
            (2, vec![4, 20]),
        ] {
            order.push(batch(ring, &times), |time| time);
        }
        let mut take = |until| {
            let mut times = Vec::new();
            while let Some((time, ring, ..)) = order.next(until, |_, time| time) {
                times.push((time, ring));
            }
            times
        };
        assert_eq!(take(5), [(1, 0), (2, 2), (3, 2), (4, 2), (5, 0)]);
        assert_eq!(take(5), []);
        assert_eq!(take(u64::MAX), [(9, 0), (12, 0), (20, 2)]);
    }
}
