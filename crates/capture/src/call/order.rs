//! Steps of several threads in the order of time: each thread's own are in order already.

use super::item::{Batch, Item, PayloadRange, Step};
use event::Reorder;
use std::collections::VecDeque;
use std::rc::Rc;

/// Used batches kept until they are asked for.
const MOST_DONE: usize = 16;
/// Steps kept for the sake of order, at most: past this they are let go early. 64 MB, and a tenth of a second of a flood.
const MOST_KEPT: usize = 1 << 20;
/// The same where calls are to be as long as that: each waits to see its end.
const MOST_KEPT_FOR_ENDS: usize = 1 << 22;

pub struct Order {
    rings: Vec<VecDeque<Rc<Batch>>>,
    /// The place in each ring's first batch.
    places: Vec<Cursor>,
    /// Each ring that has steps, by the time of its first, but for the one whose turn it is.
    next: Reorder<usize>,
    /// The ring of the last step, if its next one comes before all others'.
    turn: Option<(u64, usize)>,
    kept: usize,
    most_kept: usize,
    /// Batches of which the last step has been taken; the taker may still hold it.
    done: Vec<Rc<Batch>>,
}

/// A step whose turn has come.
pub struct NextStep {
    pub time: u64,
    pub ring: usize,
    pub item: Item,
    pub batch: Rc<Batch>,
    /// It is the beginning of a call that ended before anything else happened: when, and what it returned.
    pub ended: Option<(u64, u32)>,
}

/// A place in a batch.
#[derive(Clone, Copy, Default)]
struct Cursor {
    item: usize,
    /// The item is a whole call, whose beginning has been taken and whose end has not.
    begun: bool,
}

impl Cursor {
    /// When the step comes that is next here.
    fn time(self, item: &Item) -> u64 {
        match item.step {
            Step::Whole { exit, .. } if self.begun => exit.max(item.time),
            _ => item.time,
        }
    }

    /// The step that is next, and the place after it. A whole call comes as itself and then as its
    /// end, for other threads' steps lie in between.
    fn take(self, item: &Item) -> (Item, Cursor) {
        let after = Cursor {
            item: self.item + 1,
            begun: false,
        };
        match item.step {
            Step::Whole { .. } if !self.begun => {
                let begun = true;
                (item.clone(), Cursor { begun, ..self })
            }
            Step::Whole { result, .. } => {
                let step = Step::End {
                    enter: item.time,
                    result,
                    payload: PayloadRange::default(),
                };
                let (time, sequence) = (self.time(item), item.sequence);
                let end = Item {
                    time,
                    sequence,
                    step,
                };
                (end, after)
            }
            _ => (item.clone(), after),
        }
    }
}

impl Default for Order {
    fn default() -> Self {
        Order {
            rings: Vec::new(),
            places: Vec::new(),
            // One of each ring: what is bounded are the steps behind it.
            next: Reorder::new(usize::MAX),
            turn: None,
            kept: 0,
            most_kept: MOST_KEPT,
            done: Vec::new(),
        }
    }
}

impl Order {
    /// `for_ends`: steps wait for the ends of their calls.
    pub fn new(for_ends: bool) -> Self {
        let mut order = Order::default();
        if for_ends {
            order.most_kept = MOST_KEPT_FOR_ENDS;
        }
        order
    }

    pub fn push(&mut self, batch: Batch, to_host: impl Fn(u64) -> u64) {
        let Some(first) = batch.items.first() else {
            return;
        };
        let ring = batch.ring;
        if self.rings.len() <= ring {
            self.rings.resize_with(ring + 1, VecDeque::new);
            self.places.resize(ring + 1, Cursor::default());
        }
        if self.rings[ring].is_empty() {
            self.wait(to_host(first.time), ring);
        }
        self.kept += batch.items.len();
        self.rings[ring].push_back(Rc::new(batch));
    }

    /// The earliest step, if it is of that moment or before. A call that has ended by then, with nothing in between, comes
    /// with its end.
    pub fn next(&mut self, until: u64, to_host: impl Fn(usize, u64) -> u64) -> Option<NextStep> {
        let until = if self.kept > self.most_kept {
            u64::MAX
        } else {
            until
        };
        let (time, ring) = match self.turn {
            Some((time, _)) if time > until => return None,
            Some(turn) => turn,
            None => self.next.next(until)?,
        };
        self.turn = None;
        let batch = self.rings[ring].front()?.clone();
        let place = self.places[ring];
        let (item, mut after) = place.take(batch.items.get(place.item)?);
        let ended = end_of(&item, place, &batch).and_then(|(exit, result, behind)| {
            let end = to_host(ring, exit).max(time);
            let is_next = end <= until && self.next.would_be_next(end, rank(ring));
            is_next.then_some((end, result, behind))
        });
        let ended = ended.map(|(end, result, behind)| {
            after = behind;
            (end, result)
        });
        self.kept -= after.item - self.places[ring].item;
        self.places[ring] = after;
        if after.item == batch.items.len() {
            let done = self.rings[ring].pop_front();
            self.done
                .extend(done.filter(|_| self.done.len() < MOST_DONE));
            self.places[ring] = Cursor::default();
        }
        let place = self.places[ring];
        let batch_ahead = self.rings[ring].front();
        if let Some(batch) = batch_ahead
            && let Some(following) = batch.items.get(place.item)
        {
            fetch_ahead(batch, place.item);
            // Never before its predecessor, whatever the clocks say.
            let passed = ended.map_or(time, |(end, _)| end);
            let time = to_host(ring, place.time(following)).max(passed);
            if self.next.would_be_next(time, rank(ring)) {
                self.turn = Some((time, ring));
            } else {
                self.next.push_ranked(time, rank(ring), ring);
            }
        }
        Some(NextStep {
            time,
            ring,
            item,
            batch,
            ended,
        })
    }

    /// A ring that has had no steps.
    fn wait(&mut self, time: u64, ring: usize) {
        // It may come before the one whose turn it would have been.
        if let Some((time, ring)) = self.turn.take() {
            self.next.push_ranked(time, rank(ring), ring);
        }
        self.next.push_ranked(time, rank(ring), ring);
    }

    /// Batches whose memory can be used again.
    pub fn used(&mut self) -> impl Iterator<Item = Batch> {
        self.done.drain(..).filter_map(Rc::into_inner)
    }
}

/// What the next step needs is on its way when its turn comes: in a flood no cache holds it.
fn fetch_ahead(batch: &Batch, item: usize) {
    if let Some(Item {
        step: Step::Begin { payload, .. },
        ..
    }) = batch.items.get(item)
    {
        fetch(payload.of(&batch.bytes).as_ptr());
    }
    if let Some(later) = batch.items.get(item + 2) {
        fetch(later);
    }
}

#[inline]
fn fetch<T>(place: *const T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a hint, which no address makes fault.
    #[allow(
        unused_unsafe,
        reason = "in newer versions of Rust it is a safe function"
    )]
    unsafe {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(place.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = place;
}

/// When the call that begins at a place has ended and what it returned, if that comes right after it; and the place behind.
fn end_of(item: &Item, place: Cursor, batch: &Batch) -> Option<(u64, u32, Cursor)> {
    let behind = |items| Cursor {
        item: place.item + items,
        begun: false,
    };
    match item.step {
        Step::Whole { exit, result, .. } => Some((exit.max(item.time), result, behind(1))),
        Step::Begin {
            complete: Some(_), ..
        } => {
            let next = batch.items.get(place.item + 1)?;
            match next.step {
                Step::End {
                    result, payload, ..
                } if next.sequence == item.sequence && payload.is_empty() => {
                    Some((next.time, result, behind(2)))
                }
                _ => None,
            }
        }
        _ => None,
    }
}

/// Of one moment, the step of the ring that has been there for longer comes first.
fn rank(ring: usize) -> u32 {
    u32::try_from(ring).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::item::Within;

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
            while let Some(taken) = order.next(until, |_, time| time) {
                times.push((taken.time, taken.ring));
            }
            times
        };
        assert_eq!(take(5), [(1, 0), (2, 2), (3, 2), (4, 2), (5, 0)]);
        assert_eq!(take(5), []);
        assert_eq!(take(u64::MAX), [(9, 0), (12, 0), (20, 2)]);
    }

    #[test]
    fn the_end_of_a_whole_call_takes_its_place_among_other_threads_steps() {
        let whole = |time: u64, exit: u64, sequence: u64| Item {
            time,
            sequence,
            step: Step::Whole {
                exit,
                function: 1,
                result: 7,
                args: [0; 4],
                within: Within::from_flags(0),
            },
        };
        let mut order = Order::default();
        let first = Batch {
            ring: 0,
            items: vec![whole(1, 4, 10), whole(4, 9, 11)],
            bytes: Vec::new(),
        };
        // By a clock that went back, a call never ends before it began.
        let second = Batch {
            items: vec![whole(12, 11, 12)],
            ..batch(0, &[])
        };
        order.push(first, |time| time);
        order.push(batch(1, &[2, 5, 20]), |time| time);
        order.push(second, |time| time);
        let mut taken = Vec::new();
        while let Some(next) = order.next(u64::MAX, |_, time| time) {
            let NextStep {
                time, ring, item, ..
            } = next;
            let what = match item.step {
                Step::Whole { .. } => format!("B{}", item.sequence),
                Step::End { enter, result, .. } => {
                    assert_eq!((item.time, result), (time, 7));
                    format!("E{} from {enter}", item.sequence)
                }
                _ => format!("ring {ring}"),
            };
            taken.push(format!("{time} {what}"));
            if let Some((end, result)) = next.ended {
                assert_eq!(result, 7);
                taken.push(format!("{end} and E{}", item.sequence));
            }
        }
        let expected = [
            "1 B10",
            "2 ring 1",
            "4 E10 from 1",
            "4 B11",
            "5 ring 1",
            "9 E11 from 4",
            "12 B12",
            "12 and E12",
            "20 ring 1",
        ];
        assert_eq!(taken, expected);
        assert_eq!((order.kept, order.used().count()), (0, 3));
    }

    #[test]
    fn a_call_comes_with_its_end_where_that_is_next_and_not_too_late() {
        let begin = |time: u64, sequence: u64| Item {
            time,
            sequence,
            step: Step::Begin {
                function: 1,
                args: [0; 4],
                payload: PayloadRange::default(),
                complete: Some(Within::NONE),
                stack: 0,
            },
        };
        let end = |time: u64, sequence: u64, enter: u64| Item {
            time,
            sequence,
            step: Step::End {
                enter,
                result: 3,
                payload: PayloadRange::default(),
            },
        };
        let mut order = Order::default();
        let items = vec![
            begin(1, 10),
            end(2, 10, 1),
            // One inside of another.
            begin(3, 11),
            begin(4, 12),
            end(5, 12, 4),
            end(6, 11, 3),
            begin(7, 13),
            end(9, 13, 7),
        ];
        order.push(
            Batch {
                ring: 0,
                items,
                bytes: Vec::new(),
            },
            |time| time,
        );
        let mut take = |until| {
            let mut taken = Vec::new();
            while let Some(next) = order.next(until, |_, time| time) {
                taken.push((next.time, next.ended.map(|(end, _)| end)));
            }
            (taken, order.kept)
        };
        let first = vec![
            (1, Some(2)),
            (3, None),
            (4, Some(5)),
            (6, None),
            // Its end is later than what may go.
            (7, None),
        ];
        assert_eq!(take(8), (first, 1));
        assert_eq!(take(9), (vec![(9, None)], 0));
    }
}
