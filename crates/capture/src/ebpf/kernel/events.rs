//! From records to events: beginnings and returns are joined by their thread.

use super::{choose::Subject, names::Names};
use crate::ebpf::layout::{Head, KIND_ENTER, KIND_INSTANT, KIND_RETURN, KIND_STACK, MOST_FRAMES};
use event::{Event, Extent, Record, Stack, Status};
use std::collections::HashMap;

/// Calls under way on one thread; deeper ones are forgotten, oldest first.
const MOST_OPEN: usize = 256;
const MOST_THREADS: usize = 16_384;
/// Bytes of the stack of a library's function: bpf/calls.h.
const OF_CALLS: usize = 8 * (1 + MOST_FRAMES);

/// Turns records into events.
pub struct Events {
    subjects: Vec<Subject>,
    /// How many there were of each subject.
    counts: Vec<u64>,
    threads: HashMap<(u32, u32), Vec<Open>>,
    stacks: HashMap<u32, (u64, Stack)>,
    next: u64,
    /// Returns whose beginnings were not seen.
    pub unmatched: u64,
}

struct Open {
    function: u32,
    event: Event,
}

impl Events {
    pub fn new(subjects: Vec<Subject>) -> Self {
        Events {
            counts: vec![0; subjects.len()],
            subjects,
            threads: HashMap::new(),
            stacks: HashMap::new(),
            next: 1,
            unmatched: 0,
        }
    }

    /// How many events there were of each subject.
    pub fn counted(&self) -> impl Iterator<Item = (&Subject, u64)> {
        self.subjects.iter().zip(self.counts.iter().copied())
    }

    /// A process has ended: what it began will not return.
    pub fn forget(&mut self, process: u32) {
        self.threads.retain(|(of, _), _| *of != process);
    }

    pub fn take(&mut self, bytes: &[u8], symbols: &Names) -> Option<Record> {
        let (head, body) = Head::split(bytes)?;
        if head.kind == KIND_STACK {
            self.take_stack(&head, body, symbols);
            return None;
        }
        let subject = self.subjects.get(head.function as usize)?;
        // Every processor has a thread 0.
        let cpu = head.key as u32;
        let thread = match head.thread {
            0 => (u32::MAX, cpu),
            thread => (head.process, thread),
        };
        match head.kind {
            KIND_ENTER | KIND_INSTANT => {
                let name = subject.name.clone();
                let mut event =
                    Event::new(self.next, subject.layer, subject.category, name, head.time);
                self.next += 1;
                self.counts[head.function as usize] += 1;
                event.kind = subject.kind;
                (event.pid, event.tid) = (head.process, head.thread);
                event.cpu = (!subject.by_stack).then_some(cpu);
                event.args = subject.shape.arguments(body, head.result);
                if let Some((time, frames)) = self.stacks.remove(&head.thread)
                    && time == head.time
                {
                    event.stack = frames;
                }
                if head.kind == KIND_INSTANT {
                    return Some(event.into());
                }
                event.extent = Extent::Open;
                self.open(thread, head.function, event.clone());
                Some(event.into())
            }
            KIND_RETURN => {
                let Some(mut event) = self.close(thread, head.function) else {
                    self.unmatched += 1;
                    return None;
                };
                let subject = &self.subjects[head.function as usize];
                event.extent = Extent::Closed(head.time.saturating_sub(event.start));
                event.outputs = subject.shape.outputs(body, head.result);
                let status = event
                    .outputs
                    .iter()
                    .find(|output| &*output.name == "status");
                if let Some(code) = status.and_then(|status| status.value.as_u64()) {
                    let name = nvidia_ioctl::NvStatus(code as u32).name();
                    event.status = Some(Status {
                        code: code as i64,
                        name: name.map(Into::into),
                    });
                }
                Some(event.into())
            }
            _ => None,
        }
    }

    fn open(&mut self, thread: (u32, u32), function: u32, event: Event) {
        if self.threads.len() >= MOST_THREADS && !self.threads.contains_key(&thread) {
            self.threads.clear();
        }
        let open = self.threads.entry(thread).or_default();
        if open.len() >= MOST_OPEN {
            open.remove(0);
        }
        open.push(Open { function, event });
    }

    /// The latest beginning of that function; what began after it has been left without a return.
    fn close(&mut self, thread: (u32, u32), function: u32) -> Option<Event> {
        let open = self.threads.get_mut(&thread)?;
        let at = open.iter().rposition(|open| open.function == function)?;
        let found = open.drain(at..).next();
        if open.is_empty() {
            self.threads.remove(&thread);
        }
        found.map(|open| open.event)
    }

    fn take_stack(&mut self, head: &Head, body: &[u8], symbols: &Names) {
        // Of a library's function who called comes first, then what the kernel found above, all the
        // program's; of others the kernel's half and the program's.
        let (kernel, user, count) = match body.len() {
            OF_CALLS => (&[][..], body, head.result.saturating_add(1)),
            length => {
                let (kernel, user) = body.split_at(length / 2);
                (kernel, user, head.result)
            }
        };
        let addresses = |half: &[u8], count: u64| -> Vec<u64> {
            let words = half
                .chunks_exact(8)
                .map(|word| word.try_into().map(u64::from_le_bytes).unwrap_or_default());
            words.take(count as usize).collect()
        };
        let mut frames = Vec::new();
        for address in addresses(kernel, head.key) {
            frames.push(symbols.kernel(address));
        }
        for address in addresses(user, count) {
            frames.push(symbols.user(head.process, address));
        }
        if self.stacks.len() >= MOST_THREADS {
            self.stacks.clear();
        }
        self.stacks.insert(head.thread, (head.time, frames.into()));
    }
}
