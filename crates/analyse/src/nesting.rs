//! Which spans are open on each thread, and so which encloses which: gives each span that ends
//! its self time, and what happened below it.
//!
//! Self time is found by a sweep: at each moment a thread's time belongs to its innermost open
//! span. So the self times of a thread's spans add up to the time in which any was open, whatever
//! is wrong with the records.

use crate::Brief;
use crate::{
    SymbolId,
    call_tree::{NO_NODE, NodeId},
};
use event::{Category, Layer};
use std::collections::HashMap;

#[derive(Debug, Clone, Copy)]
struct GivenUp {
    symbol: SymbolId,
    /// Among the spans that have not ended; not if it was too deep to be kept open.
    was_told: bool,
}

/// All threads, and their open spans.
#[derive(Default)]
pub struct Nesting {
    threads: Threads,
    /// Spans that were given up, whose ends may yet come.
    given_up: HashMap<u64, GivenUp, ahash::RandomState>,
    /// The trace says which span encloses which.
    parents_known: bool,
    /// Spans that were given up since this was last emptied.
    abandoned: Vec<Ended>,
}

/// A place in the list of threads.
pub type ThreadId = u32;

/// A thread's open spans, outermost first.
#[derive(Debug, Clone)]
pub struct Thread {
    pub pid: u32,
    pub tid: u32,
    /// Time in which some span was open.
    pub busy_ns: u64,
    /// Up to here its time has been given to spans.
    now: u64,
    open: Vec<Open>,
}

/// A span that has not ended.
#[derive(Debug, Clone)]
pub struct Open {
    pub id: u64,
    pub symbol: SymbolId,
    pub layer: Layer,
    pub category: Category,
    pub start: u64,
    self_ns: u64,
    /// What it is in, as bits of the enumerations.
    categories_around: u16,
    layers_around: u8,
    recursive: bool,
    below: Below,
    /// Its place in the tree of calls.
    pub(crate) node: NodeId,
}

/// System calls and driver functions inside a call, however deep.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Below {
    pub syscalls: u64,
    pub syscall_ns: u64,
    pub kernel_calls: u64,
    pub kernel_ns: u64,
}

/// A span that has begun.
#[derive(Debug, Clone, Copy)]
pub struct Began {
    pub thread: ThreadId,
    pub outermost_in_category: bool,
    pub outermost_in_layer: bool,
}

/// What was known of a span when it ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpanHistory {
    /// It was open.
    Begun,
    /// Nothing: its beginning was not seen.
    Nothing,
    /// It had been given up, and was told as such. Its self time is what came after that.
    GivenUp,
}

/// A span that has ended, or was given up because the one around it has.
#[derive(Debug, Clone, Copy)]
pub struct Ended {
    pub thread: ThreadId,
    pub id: u64,
    pub symbol: SymbolId,
    pub layer: Layer,
    pub category: Category,
    pub start: u64,
    pub end: u64,
    /// What its own end says; None if it was given up.
    pub duration_ns: Option<u64>,
    /// Its time without that of the spans inside it on the same thread.
    pub self_ns: u64,
    pub depth: u32,
    pub known: SpanHistory,
    pub outermost_in_category: bool,
    pub outermost_in_layer: bool,
    /// It is inside a call of the same function.
    pub recursive: bool,
    pub below: Below,
    pub(crate) node: NodeId,
}

/// Spans deeper than this are not followed: no program nests its calls so.
const DEEPEST: usize = 512;
/// How many enclosing spans are compared to find recursion.
const RECURSION: usize = 64;
const MOST_GIVEN_UP: usize = 65_536;

impl Nesting {
    pub fn threads(&self) -> &Threads {
        &self.threads
    }

    pub fn thread(&mut self, pid: u32, tid: u32) -> ThreadId {
        self.threads.of(pid, tid)
    }

    /// The open spans of a thread, outermost first.
    pub fn open(&self, thread: ThreadId) -> &[Open] {
        &self.threads.list[thread as usize].open
    }

    /// Gives the innermost span, if it is that one, its place in the tree of calls.
    #[inline]
    pub(crate) fn set_node(&mut self, thread: ThreadId, id: u64, node: NodeId) {
        if let Some(open) = self.threads.list[thread as usize].open.last_mut()
            && open.id == id
        {
            open.node = node;
        }
    }

    /// Spans that never ended.
    pub fn open_spans(&self) -> u64 {
        let open: usize = self
            .threads
            .list
            .iter()
            .map(|thread| thread.open.len())
            .sum();
        (open + self.given_up.len()) as u64
    }

    /// What was given up since the last call.
    pub fn take_abandoned(&mut self) -> Vec<Ended> {
        std::mem::take(&mut self.abandoned)
    }

    pub fn has_abandoned(&self) -> bool {
        !self.abandoned.is_empty()
    }

    pub fn begin(&mut self, event: &Brief, symbol: SymbolId) -> Began {
        let thread = self.threads.of(event.pid, event.tid);
        self.give_up_stale(thread, event);
        let slot = &mut self.threads.list[thread as usize];
        slot.advance(event.start);
        let around = slot.open.last();
        let categories_around =
            around.map_or(0, |open| open.categories_around | 1 << open.category as u16);
        let layers_around = around.map_or(0, |open| open.layers_around | 1 << open.layer as u8);
        let nearest = slot.open.iter().rev().take(RECURSION);
        let recursive = nearest.into_iter().any(|open| open.symbol == symbol);
        let open = Open {
            id: event.id,
            symbol,
            layer: event.layer,
            category: event.category,
            start: event.start,
            self_ns: 0,
            categories_around,
            layers_around,
            recursive,
            below: Below::default(),
            node: NO_NODE,
        };
        let began = Began {
            thread,
            outermost_in_category: open.outermost_in_category(),
            outermost_in_layer: open.outermost_in_layer(),
        };
        if slot.open.len() < DEEPEST {
            slot.open.push(open);
        } else if self.given_up.len() < MOST_GIVEN_UP {
            let (symbol, was_told) = (open.symbol, false);
            self.given_up.insert(open.id, GivenUp { symbol, was_told });
        }
        began
    }

    /// Spans that can no longer be open, as what begins says of itself.
    fn give_up_stale(&mut self, thread: ThreadId, event: &Brief) {
        self.parents_known |= event.parent.is_some();
        let open = &self.threads.list[thread as usize].open;
        let Some(last) = open.last() else { return };
        let keep = match event.parent {
            Some(parent) if last.id == parent => return,
            Some(parent) => open
                .iter()
                .rposition(|open| open.id == parent)
                .map(|at| at + 1),
            // Calls are watched by one back end that sees all of them.
            None if self.parents_known && event.depth == 0 && is_call(event.layer) => {
                open.iter().position(|open| is_call(open.layer))
            }
            None => None,
        };
        if let Some(keep) = keep {
            self.give_up(thread, keep, event.start);
        }
    }

    fn give_up(&mut self, thread: ThreadId, keep: usize, at: u64) {
        let slot = &mut self.threads.list[thread as usize];
        slot.advance(at);
        while slot.open.len() > keep {
            let Some(open) = slot.open.pop() else { break };
            let end = slot.now.max(open.start);
            if self.given_up.len() < MOST_GIVEN_UP {
                let (symbol, was_told) = (open.symbol, true);
                self.given_up.insert(open.id, GivenUp { symbol, was_told });
            }
            let ended = open.ended(thread, slot.open.len(), end, None);
            slot.charge(&ended);
            self.abandoned.push(ended);
        }
    }

    /// A span ends. Spans inside it that are still open are given up.
    pub fn end(&mut self, event: &Brief, symbol: SymbolId, duration: u64) -> Ended {
        let thread = self.threads.of(event.pid, event.tid);
        let end = event.start.saturating_add(duration);
        let open = &self.threads.list[thread as usize].open;
        let Some(place) = open.iter().rposition(|open| open.id == event.id) else {
            return self.end_unknown(thread, event, symbol, duration);
        };
        if place + 1 < open.len() {
            self.give_up(thread, place + 1, end);
        }
        let slot = &mut self.threads.list[thread as usize];
        slot.advance(end);
        let Some(open) = slot.open.pop() else {
            return self.end_unknown(thread, event, symbol, duration);
        };
        let ended = open.ended(thread, slot.open.len(), end, Some(duration));
        slot.charge(&ended);
        ended
    }

    /// A span whose beginning was not seen, or that was given up.
    fn end_unknown(
        &mut self,
        thread: ThreadId,
        event: &Brief,
        symbol: SymbolId,
        duration: u64,
    ) -> Ended {
        let known = match self.given_up.remove(&event.id) {
            Some(found) if found.symbol == symbol && found.was_told => SpanHistory::GivenUp,
            // The end of another function by the same id is no end of what was told.
            _ => SpanHistory::Nothing,
        };
        let end = event.start.saturating_add(duration);
        let slot = &mut self.threads.list[thread as usize];
        slot.advance(event.start);
        let self_ns = end.saturating_sub(slot.now);
        slot.busy_ns = slot.busy_ns.saturating_add(self_ns);
        slot.now = slot.now.max(end);
        let around = slot.open.last();
        let category = 1 << event.category as u16;
        let layer = 1 << event.layer as u8;
        let ended = Ended {
            thread,
            id: event.id,
            symbol,
            layer: event.layer,
            category: event.category,
            start: event.start,
            end,
            duration_ns: Some(duration),
            self_ns,
            depth: slot.open.len() as u32,
            known,
            outermost_in_category: around.is_none_or(|open| {
                (open.categories_around | 1 << open.category as u16) & category == 0
            }),
            outermost_in_layer: around
                .is_none_or(|open| (open.layers_around | 1 << open.layer as u8) & layer == 0),
            recursive: false,
            below: Below::default(),
            node: NO_NODE,
        };
        slot.charge(&ended);
        ended
    }

    /// The trace is over: what is still open ends for the sweep, though not for the program.
    pub fn finish(&mut self, at: u64) -> Vec<Ended> {
        let mut ended = Vec::new();
        for (thread, slot) in self.threads.list.iter_mut().enumerate() {
            slot.advance(at);
            for depth in (0..slot.open.len()).rev() {
                let open = slot.open[depth].clone();
                let end = slot.now.max(open.start);
                ended.push(open.ended(thread as ThreadId, depth, end, None));
            }
        }
        ended
    }
}

impl Ended {
    /// What it adds to totals: its length, or of what was given up before, the rest of it.
    pub fn further_ns(&self) -> u64 {
        match self.known {
            SpanHistory::GivenUp => self.self_ns,
            SpanHistory::Begun | SpanHistory::Nothing => {
                (self.duration_ns).unwrap_or(self.end.saturating_sub(self.start))
            }
        }
    }
}

impl Thread {
    /// Gives the time since the last record to the innermost open span.
    #[inline]
    fn advance(&mut self, at: u64) {
        let passed = at.saturating_sub(self.now);
        self.now = self.now.max(at);
        if let Some(open) = self.open.last_mut() {
            // A thread's first span began when nothing was known of the thread.
            open.self_ns = open.self_ns.saturating_add(passed);
            self.busy_ns = self.busy_ns.saturating_add(passed);
        }
    }

    /// Tells the enclosing span what happened below it.
    #[inline]
    fn charge(&mut self, ended: &Ended) {
        let Some(around) = self.open.last_mut() else {
            return;
        };
        let length = ended
            .duration_ns
            .unwrap_or(ended.end.saturating_sub(ended.start));
        let below = &mut around.below;
        // What lies inside a system call is charged with it, and not once more beside it.
        if ended.layer == Layer::Syscall {
            below.syscalls += 1;
            below.syscall_ns = below.syscall_ns.saturating_add(length);
        } else {
            below.syscalls += ended.below.syscalls;
            below.syscall_ns = below.syscall_ns.saturating_add(ended.below.syscall_ns);
        }
        if ended.layer == Layer::Kernel {
            below.kernel_calls += 1;
            below.kernel_ns = below.kernel_ns.saturating_add(length);
        } else {
            below.kernel_calls += ended.below.kernel_calls;
            below.kernel_ns = below.kernel_ns.saturating_add(ended.below.kernel_ns);
        }
    }
}

impl Open {
    fn outermost_in_category(&self) -> bool {
        self.categories_around & 1 << self.category as u16 == 0
    }

    fn outermost_in_layer(&self) -> bool {
        self.layers_around & 1 << self.layer as u8 == 0
    }

    fn ended(&self, thread: ThreadId, depth: usize, end: u64, duration: Option<u64>) -> Ended {
        Ended {
            thread,
            id: self.id,
            symbol: self.symbol,
            layer: self.layer,
            category: self.category,
            start: self.start,
            end,
            duration_ns: duration,
            self_ns: self.self_ns,
            depth: depth as u32,
            known: SpanHistory::Begun,
            outermost_in_category: self.outermost_in_category(),
            outermost_in_layer: self.outermost_in_layer(),
            recursive: self.recursive,
            below: self.below,
            node: self.node,
        }
    }
}

/// Layers whose events are calls made by the program.
pub(crate) fn is_call(layer: Layer) -> bool {
    matches!(layer, Layer::Runtime | Layer::Driver | Layer::Library)
}

/// Threads by process and number.
#[derive(Default)]
pub struct Threads {
    list: Vec<Thread>,
    by_number: HashMap<(u32, u32), ThreadId, ahash::RandomState>,
    latest: Option<ThreadId>,
}

/// More threads than this share one place.
const MOST_THREADS: usize = 262_144;

impl Threads {
    #[inline]
    fn of(&mut self, pid: u32, tid: u32) -> ThreadId {
        // Records of one thread often come in a row.
        if let Some(latest) = self.latest {
            let thread = &self.list[latest as usize];
            if thread.pid == pid && thread.tid == tid {
                return latest;
            }
        }
        let thread = match self.by_number.get(&(pid, tid)) {
            Some(&thread) => thread,
            None => self.add(pid, tid),
        };
        self.latest = Some(thread);
        thread
    }

    #[cold]
    fn add(&mut self, pid: u32, tid: u32) -> ThreadId {
        let thread = self.list.len() as ThreadId;
        if self.list.len() > MOST_THREADS {
            return thread - 1;
        }
        self.list.push(Thread {
            pid,
            tid,
            busy_ns: 0,
            now: 0,
            open: Vec::new(),
        });
        self.by_number.insert((pid, tid), thread);
        thread
    }

    pub fn get(&self, thread: ThreadId) -> &Thread {
        &self.list[thread as usize]
    }

    pub fn len(&self) -> usize {
        self.list.len()
    }

    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    pub fn iter(&self) -> impl Iterator<Item = &Thread> {
        self.list.iter()
    }
}
