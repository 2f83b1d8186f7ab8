//! Calls that may turn out to be too short. The programs hold their beginnings back and write them when
//! the calls return late enough; those that are still under way by then are looked for here. So
//! beginnings come late, and everything is put back into the order of time.

use super::layout::{CallKey, HELD, Head, KIND_ENTER, KIND_EXIT, KIND_RETURN, KIND_STACK, Plain};
use super::maps::Maps;
use event::Reorder;
use libbpf_rs::{MapCore, MapFlags};
use std::collections::{HashMap, HashSet};

/// How often calls under way are looked for.
const POLL: u64 = 10_000_000;
/// Records kept for the sake of order; past this they are let go early.
const MOST_WAITING: usize = 1 << 20;
/// Calls under way that are remembered.
const MOST_KNOWN: usize = 64 << 10;
/// Keys of the table that are looked at in one go: it changes meanwhile, and may begin again.
const MOST_LOOKS: usize = 16 << 10;

/// A record of the ring, or a beginning that was held back.
pub type RingRecord = (Head, Box<[u8]>);

pub struct Short {
    shortest: u64,
    waiting: Reorder<RingRecord>,
    /// Calls whose beginnings have come, with their times and processes.
    known: HashMap<CallKey, (u64, u32)>,
    /// Processes that have ended: what they have under way stays as it is.
    ended: HashSet<u32>,
    polled: u64,
}

impl Short {
    pub fn new(shortest: u64) -> Self {
        Short {
            shortest,
            waiting: Reorder::new(MOST_WAITING),
            known: HashMap::new(),
            ended: HashSet::new(),
            polled: 0,
        }
    }

    /// Whether a record has to wait for earlier ones.
    pub fn concerns(kind: u16) -> bool {
        matches!(kind, KIND_ENTER | KIND_RETURN | KIND_STACK | KIND_EXIT)
    }

    pub fn push(&mut self, head: &Head, body: &[u8]) {
        let key = key_of(head);
        match head.kind {
            KIND_ENTER => {
                // Told of by the table and by its return.
                let before = self.known.insert(key, (head.time, head.process));
                if before == Some((head.time, head.process)) {
                    return;
                }
                if self.known.len() > MOST_KNOWN {
                    self.known.clear();
                }
            }
            KIND_RETURN => {
                self.known.remove(&key);
            }
            KIND_EXIT => {
                self.ended.insert(head.process);
                self.known
                    .retain(|_, (_, process)| *process != head.process);
            }
            _ => {}
        }
        self.waiting.push(head.time, (*head, body.into()));
    }

    /// Looks for calls that have been under way for long enough, before the ring is read. `all`: however
    /// long.
    pub fn poll(&mut self, maps: &Maps, now: u64, all: bool) {
        if !all && now < self.polled.saturating_add(POLL) {
            return;
        }
        self.polled = now;
        let ended = std::mem::take(&mut self.ended);
        let keys: HashSet<Vec<u8>> = maps.held.keys().take(MOST_LOOKS).collect();
        for key in keys {
            let Ok(Some(value)) = maps.held.lookup(&key, MapFlags::ANY) else {
                continue;
            };
            let Some((head, body)) = Head::split(&value).filter(|_| value.len() == HELD) else {
                continue;
            };
            // Half written, or another's by now.
            if head.kind != KIND_ENTER || key_of(&head).bytes() != key {
                continue;
            }
            let gone = ended.contains(&head.process);
            if all || gone || head.time.saturating_add(self.shortest) <= now {
                self.push(&head, body);
            }
            if gone {
                let _ = maps.held.delete(&key);
            }
        }
    }

    /// The moment up to which nothing is missing.
    pub fn complete(&self) -> u64 {
        self.polled.saturating_sub(self.shortest)
    }

    /// Records up to a moment, by time.
    pub fn until(&mut self, moment: u64) -> Vec<RingRecord> {
        std::iter::from_fn(|| Some(self.waiting.next(moment)?.1)).collect()
    }
}

fn key_of(head: &Head) -> CallKey {
    CallKey {
        stack: head.key,
        thread: head.thread,
        function: head.function,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(kind: u16, time: u64, key: u64) -> Head {
        Head {
            kind,
            time,
            key,
            process: 1,
            thread: 2,
            ..Head::default()
        }
    }

    #[test]
    fn late_beginnings_are_put_in_their_place_once() {
        let mut short = Short::new(100);
        // The inner call is told of before the outer one.
        short.push(&record(KIND_ENTER, 20, 500), &[]);
        short.push(&record(KIND_RETURN, 130, 500), &[]);
        short.push(&record(KIND_ENTER, 10, 900), &[]);
        short.push(&record(KIND_ENTER, 10, 900), &[]);
        short.push(&record(KIND_RETURN, 140, 900), &[]);
        let times =
            |records: Vec<RingRecord>| records.iter().map(|one| one.0.time).collect::<Vec<_>>();
        assert_eq!(times(short.until(130)), [10, 20, 130]);
        assert_eq!(times(short.until(u64::MAX)), [140]);
        // The same frame again, by a later call.
        short.push(&record(KIND_ENTER, 150, 900), &[]);
        assert_eq!(times(short.until(u64::MAX)), [150]);
    }

    #[test]
    fn processes_that_have_ended_are_forgotten() {
        let mut short = Short::new(100);
        short.push(&record(KIND_ENTER, 20, 500), &[]);
        short.push(&record(KIND_EXIT, 30, 0), &[]);
        assert!(short.known.is_empty() && short.ended.contains(&1));
    }
}
