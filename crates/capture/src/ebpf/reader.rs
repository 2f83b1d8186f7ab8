//! Records of the ring become steps of threads: beginnings with their returns, in each thread's own
//! order.

use super::layout::{Head, KIND_ENTER, MOST_FRAMES, SPEC_STACK};
use super::spec::Description;
use crate::call::item::{Batch, Item, PayloadRange, Step, Within};
use event::note::{MARK_DEEP, MARK_GUESSED, MARK_LOST, Note};
use std::collections::HashMap;
use std::sync::Arc;

/// Frames farther apart than this are on different stacks (signal stacks, coroutines), where the
/// order of addresses says nothing about nesting.
const STACK: u64 = 64 << 20;
/// Open calls of a thread that are kept; what is outside of more of them never ends.
const MOST_OPEN: usize = 4096;
/// Stacks of a thread that are kept; more of them are told again.
const MOST_STACKS: usize = 16 << 10;

#[derive(Default)]
pub struct Reader {
    /// By function number.
    pub descriptions: Vec<Arc<Description>>,
    threads: Vec<Thread>,
    places: HashMap<(u32, u32), usize>,
    /// Threads that have something to hand on.
    touched: Vec<usize>,
    /// Stacks whose calls are to come, by thread, with their time.
    stacks: HashMap<(u32, u32), (u64, Vec<u64>)>,
    /// Returns of calls that began before we were there.
    pub unmatched: u64,
    pub calls: u64,
}

struct Thread {
    pid: u32,
    sequence: u64,
    latest: u64,
    open: Vec<Open>,
    batch: Batch,
    /// Their numbers, from 1 on.
    stacks: HashMap<Vec<u64>, u32>,
    last_stack: u32,
}

struct Open {
    key: u64,
    function: u32,
    sequence: u64,
    enter: u64,
    /// What the beginning brought, if the return brings more.
    payload: Vec<u8>,
}

impl Reader {
    /// A record of a call. `fresh` hears of threads that have not been seen before; they are
    /// numbered in that order.
    pub fn take(&mut self, head: &Head, body: &[u8], fresh: impl FnOnce(u32, u32)) {
        let Some(description) = self.descriptions.get(head.function as usize) else {
            return;
        };
        let description = description.clone();
        let next = self.threads.len();
        let place = *self
            .places
            .entry((head.process, head.thread))
            .or_insert(next);
        if place == next {
            fresh(head.process, head.thread);
            self.threads.push(Thread {
                pid: head.process,
                sequence: 0,
                latest: 0,
                open: Vec::new(),
                batch: Batch::default(),
                stacks: HashMap::new(),
                last_stack: 0,
            });
        }
        let thread = &mut self.threads[place];
        if thread.batch.items.is_empty() {
            self.touched.push(place);
        }
        if head.kind == KIND_ENTER {
            self.calls += 1;
            let mut stack = 0;
            if description.spec.flags & SPEC_STACK != 0
                && let Some((time, frames)) = self.stacks.remove(&(head.process, head.thread))
                && time == head.time
            {
                stack = thread.stack(head, frames);
            } else if description.spec.caller != 0 && head.result != 0 {
                stack = thread.stack(head, vec![head.result]);
            }
            thread.begin(head, body, &description, stack);
        } else if !thread.end(head, body, &description) {
            self.unmatched += 1;
        }
        // A return that nothing belongs to leaves nothing to hand on.
        if thread.batch.items.is_empty() {
            self.touched.pop();
        }
    }

    /// Where the next call of a thread comes from.
    pub fn stack(&mut self, head: &Head, body: &[u8]) {
        let mut words = body
            .as_chunks::<8>()
            .0
            .iter()
            .map(|word| u64::from_le_bytes(*word));
        let caller = words.next().unwrap_or(0);
        let count =
            usize::try_from(head.result).map_or(MOST_FRAMES, |count| count.min(MOST_FRAMES));
        let mut above: Vec<u64> = words.take(count).collect();
        // Newer kernels find the caller themselves where a function begins as most do.
        if above.first() == Some(&caller) {
            above.remove(0);
        }
        let mut frames = vec![caller];
        frames.push(if above.is_empty() {
            MARK_LOST
        } else {
            MARK_GUESSED
        });
        frames.append(&mut above);
        if count == MOST_FRAMES {
            frames.push(MARK_DEEP);
        }
        self.stacks
            .insert((head.process, head.thread), (head.time, frames));
    }

    /// What has come since the last time.
    pub fn batches(&mut self) -> impl Iterator<Item = Batch> + '_ {
        let threads = &mut self.threads;
        self.touched.drain(..).map(|place| {
            let batch = std::mem::take(&mut threads[place].batch);
            Batch {
                ring: place,
                ..batch
            }
        })
    }

    /// A process has ended: what its threads had open stays open, and their ids may be others' now.
    pub fn ended(&mut self, process: u32) {
        self.stacks.retain(|(pid, _), _| *pid != process);
        let threads = &self.threads;
        self.places.retain(|(pid, _), place| {
            let known = threads.get(*place).is_some_and(|one| one.pid == *pid);
            *pid != process || !known
        });
    }
}

impl Thread {
    /// The number of a stack; one that is new is told.
    fn stack(&mut self, head: &Head, frames: Vec<u64>) -> u32 {
        if let Some(number) = self.stacks.get(&frames) {
            return *number;
        }
        if self.stacks.len() >= MOST_STACKS {
            self.stacks.clear();
        }
        self.last_stack = self.last_stack.wrapping_add(1).max(1);
        let start = self.batch.bytes.len();
        let bytes = frames.iter().flat_map(|frame| frame.to_le_bytes());
        self.batch.bytes.extend(bytes);
        let note = Note::Stack {
            stack: self.last_stack,
            native: frames.len() as u16,
            python: 0,
        };
        let payload = PayloadRange::since(start, &self.batch.bytes);
        self.stacks.insert(frames, self.last_stack);
        self.push(head.time, self.sequence, Step::Note { note, payload });
        self.last_stack
    }

    fn begin(&mut self, head: &Head, body: &[u8], description: &Description, stack: u32) {
        self.leave_gone(head);
        let mut args = [0; 4];
        for (word, bytes) in args.iter_mut().zip(body.chunks_exact(8)) {
            *word = bytes
                .first_chunk()
                .map_or(0, |bytes| u64::from_le_bytes(*bytes));
        }
        if head.words < 4 {
            args[3] = 0;
        }
        let sequence = self.sequence;
        self.sequence += 1;
        let mut payload = Vec::new();
        if description.bytes() > 0 {
            description.enter(body, &mut payload);
        }
        let start = self.batch.bytes.len();
        self.batch.bytes.extend_from_slice(&payload);
        let step = Step::Begin {
            function: head.function,
            args,
            payload: PayloadRange::since(start, &self.batch.bytes),
            complete: description.complete_at_entry.then_some(Within::NONE),
            stack,
        };
        self.push(head.time, sequence, step);
        if description.entry_only {
            let enter = head.time;
            self.push(enter, sequence, Step::Unseen { enter });
            return;
        }
        if self.open.len() >= MOST_OPEN {
            self.open.remove(0);
        }
        self.open.push(Open {
            key: head.key,
            function: head.function,
            sequence,
            enter: head.time,
            payload: if description.complete_at_entry {
                Vec::new()
            } else {
                payload
            },
        });
    }

    /// Calls whose frames must be gone, since another has begun at or above them, were left by an
    /// exception or a longjmp. A function may jump into another with its own frame.
    fn leave_gone(&mut self, head: &Head) {
        while let Some(top) = self.open.last() {
            let above = head.key.wrapping_sub(top.key);
            let gone = above < STACK && (above > 0 || top.function == head.function);
            if !gone {
                break;
            }
            let (sequence, enter) = (top.sequence, top.enter);
            self.open.pop();
            self.push(head.time, sequence, Step::Unwound { enter });
        }
    }

    /// False: it began before we were there.
    fn end(&mut self, head: &Head, body: &[u8], description: &Description) -> bool {
        let belongs = |open: &Open| open.key == head.key && open.function == head.function;
        let Some(place) = self.open.iter().rposition(belongs) else {
            return false;
        };
        while self.open.len() > place + 1 {
            if let Some(inner) = self.open.pop() {
                let step = Step::Unwound { enter: inner.enter };
                self.push(head.time, inner.sequence, step);
            }
        }
        let Some(mut open) = self.open.pop() else {
            return false;
        };
        let start = self.batch.bytes.len();
        if !description.complete_at_entry {
            description.leave(body, head.result, &mut open.payload);
            self.batch.bytes.extend_from_slice(&open.payload);
        }
        let step = Step::End {
            enter: open.enter,
            result: head.result as u32,
            payload: PayloadRange::since(start, &self.batch.bytes),
        };
        self.push(head.time, open.sequence, step);
        true
    }

    fn push(&mut self, time: u64, sequence: u64, step: Step) {
        // Two processors' clocks may differ by a little when a thread moves.
        self.latest = self.latest.max(time);
        self.batch.items.push(Item {
            time: self.latest,
            sequence,
            step,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ebpf::layout::{KIND_RETURN, KIND_STACK};
    use cuda::capture::{argument_words, plan};

    fn reader(names: &[&str]) -> Reader {
        let described = |name: &&str| {
            let plan = plan(name, None).without_vectors();
            Arc::new(Description::new(&plan, argument_words(name, None)))
        };
        Reader {
            descriptions: names.iter().map(described).collect(),
            ..Reader::default()
        }
    }

    fn record(kind: u16, function: u32, time: u64, key: u64) -> Head {
        Head {
            time,
            process: 1,
            thread: 2,
            function,
            kind,
            words: 3,
            key,
            ..Head::default()
        }
    }

    fn steps(reader: &mut Reader) -> Vec<String> {
        let batches: Vec<Batch> = reader.batches().collect();
        let items = batches.iter().flat_map(|batch| &batch.items);
        items
            .map(|item| match &item.step {
                Step::Begin { function, .. } => format!("{} begin {function}", item.sequence),
                Step::End { result, .. } => format!("{} end {result}", item.sequence),
                Step::Unwound { .. } => format!("{} unwound", item.sequence),
                Step::Unseen { .. } => format!("{} unseen", item.sequence),
                other => format!("{other:?}"),
            })
            .collect()
    }

    #[test]
    fn calls_without_a_return_are_over_at_once() {
        let mut reader = reader(&["cuInit", "cuMemGetInfo_v2"]);
        for description in &mut reader.descriptions {
            let mut entry_only = (**description).clone();
            entry_only.without_return();
            assert_eq!((entry_only.spec.return_steps, entry_only.spec.kept), (0, 0));
            *description = Arc::new(entry_only);
        }
        for (function, time, key) in [(0, 10, 1000), (1, 20, 500), (1, 30, 1000)] {
            reader.take(
                &record(KIND_ENTER, function, time, key),
                &[0; 24],
                |_, _| {},
            );
        }
        let expected = [
            "0 begin 0",
            "0 unseen",
            "1 begin 1",
            "1 unseen",
            "2 begin 1",
            "2 unseen",
        ];
        assert_eq!(steps(&mut reader), expected);
        assert!(reader.threads[0].open.is_empty());
    }

    #[test]
    fn returns_find_their_beginnings() {
        let mut reader = reader(&["cuInit", "cuCtxGetCurrent"]);
        let body = [0; 24];
        for (kind, function, time, key) in [
            (KIND_RETURN, 0, 1, 900),
            (KIND_ENTER, 0, 10, 1000),
            (KIND_ENTER, 1, 20, 500),
            (KIND_RETURN, 1, 30, 500),
            // With the same frame: a jump from one function into another.
            (KIND_ENTER, 1, 40, 1000),
            (KIND_RETURN, 1, 50, 1000),
            (KIND_RETURN, 0, 50, 1000),
        ] {
            reader.take(&record(kind, function, time, key), &body, |_, _| {});
        }
        assert_eq!(
            steps(&mut reader),
            [
                "0 begin 0",
                "1 begin 1",
                "1 end 0",
                "2 begin 1",
                "2 end 0",
                "0 end 0"
            ]
        );
        assert_eq!((reader.unmatched, reader.calls), (1, 3));
    }

    #[test]
    fn frames_that_are_gone_were_unwound() {
        let mut reader = reader(&["cuInit"]);
        let body = [0; 24];
        for (kind, key) in [(KIND_ENTER, 500), (KIND_ENTER, 400), (KIND_ENTER, 500)] {
            reader.take(&record(kind, 0, 5, key), &body, |_, _| {});
        }
        assert_eq!(
            steps(&mut reader),
            [
                "0 begin 0",
                "1 begin 0",
                "1 unwound",
                "0 unwound",
                "2 begin 0"
            ]
        );
        // Another stack says nothing about this one.
        reader.take(&record(KIND_ENTER, 0, 6, 1 << 40), &body, |_, _| {});
        reader.take(&record(KIND_RETURN, 0, 7, 500), &body, |_, _| {});
        assert_eq!(steps(&mut reader), ["3 begin 0", "3 unwound", "2 end 0"]);
    }

    #[test]
    fn records_of_unknown_functions_are_passed_over() {
        let mut reader = reader(&[]);
        reader.take(&record(KIND_ENTER, 7, 5, 5), &[], |_, _| {
            panic!("no thread")
        });
        assert!(steps(&mut reader).is_empty());
    }

    #[test]
    fn stacks_are_told_once_and_belong_to_their_calls() {
        let mut reader = reader(&["cuInit"]);
        let mut description = (*reader.descriptions[0]).clone();
        description.spec.flags = SPEC_STACK;
        reader.descriptions[0] = Arc::new(description);
        let mut call = |time, frames: &[u64]| {
            let body: Vec<u8> = frames.iter().flat_map(|word| word.to_le_bytes()).collect();
            let head = Head {
                kind: KIND_STACK,
                time,
                result: frames.len() as u64 - 1,
                ..record(0, 0, 0, 0)
            };
            reader.stack(&head, &body);
            reader.take(&record(KIND_ENTER, 0, 10, 500), &[0; 24], |_, _| {});
            let batches: Vec<Batch> = reader.batches().collect();
            let items = batches.iter().flat_map(|batch| &batch.items);
            let steps = items.filter_map(|item| match &item.step {
                Step::Begin { stack, .. } => Some((*stack, 0)),
                Step::Note {
                    note: Note::Stack { stack, native, .. },
                    ..
                } => Some((*stack, *native)),
                _ => None,
            });
            steps.collect::<Vec<_>>()
        };
        // The caller, that frames may be missing, and one above it.
        assert_eq!(call(10, &[7, 8]), [(1, 3), (1, 0)]);
        // The kernel has found the caller, too.
        assert_eq!(call(10, &[7, 7, 8]), [(1, 0)]);
        assert_eq!(call(10, &[9]), [(2, 2), (2, 0)]);
        // Of a call that was lost.
        assert_eq!(call(9, &[7, 8]), [(0, 0)]);
    }
}
