//! What the host was doing, at each moment: one answer for all threads together, so that the
//! times of a stretch add up to its length.

use crate::{Nesting, ThreadId, nesting::is_call};
use event::{Category, Event, Frame, FrameKind, Layer};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// What the host did in some stretch of time. Where threads did different things, what stands
/// first here counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostTime {
    /// In calls that wait for the GPU.
    pub synchronising_ns: u64,
    /// In calls that allocate and free memory.
    pub allocating_ns: u64,
    pub copying_ns: u64,
    pub launching_ns: u64,
    /// In calls that start CUDA, make contexts and load or compile code: once, as a rule.
    pub loading_ns: u64,
    /// In other calls of CUDA or of hooked libraries.
    pub other_api_ns: u64,
    /// In system calls and driver functions outside any call.
    pub system_calls_ns: u64,
    /// Between calls, where the last call before came from Python.
    pub python_ns: u64,
    /// In nothing that was traced: the program's own code, or waiting for something else.
    pub untraced_ns: u64,
}

impl HostTime {
    /// Each part with its name, most time first.
    pub fn parts(&self) -> Vec<(&'static str, u64)> {
        let mut parts = vec![
            ("synchronising", self.synchronising_ns),
            ("allocating", self.allocating_ns),
            ("copying", self.copying_ns),
            ("launching", self.launching_ns),
            ("loading code", self.loading_ns),
            ("other API calls", self.other_api_ns),
            ("system calls", self.system_calls_ns),
            ("Python", self.python_ns),
            ("nothing traced", self.untraced_ns),
        ];
        parts.retain(|&(_, ns)| ns > 0);
        parts.sort_by_key(|&(_, ns)| std::cmp::Reverse(ns));
        parts
    }

    /// The length of the stretch.
    pub fn total_ns(&self) -> u64 {
        self.parts()
            .iter()
            .fold(0, |sum: u64, (_, ns)| sum.saturating_add(*ns))
    }

    fn of(spent: Spent) -> Self {
        let [
            synchronising_ns,
            allocating_ns,
            copying_ns,
            launching_ns,
            loading_ns,
            other_api_ns,
            system_calls_ns,
            python_ns,
            untraced_ns,
        ] = spent.0;
        HostTime {
            synchronising_ns,
            allocating_ns,
            copying_ns,
            launching_ns,
            loading_ns,
            other_api_ns,
            system_calls_ns,
            python_ns,
            untraced_ns,
        }
    }

    /// What came on top of an earlier sum.
    pub(crate) fn less(&self, earlier: &HostTime) -> HostTime {
        HostTime {
            synchronising_ns: self
                .synchronising_ns
                .saturating_sub(earlier.synchronising_ns),
            allocating_ns: self.allocating_ns.saturating_sub(earlier.allocating_ns),
            copying_ns: self.copying_ns.saturating_sub(earlier.copying_ns),
            launching_ns: self.launching_ns.saturating_sub(earlier.launching_ns),
            loading_ns: self.loading_ns.saturating_sub(earlier.loading_ns),
            other_api_ns: self.other_api_ns.saturating_sub(earlier.other_api_ns),
            system_calls_ns: self.system_calls_ns.saturating_sub(earlier.system_calls_ns),
            python_ns: self.python_ns.saturating_sub(earlier.python_ns),
            untraced_ns: self.untraced_ns.saturating_sub(earlier.untraced_ns),
        }
    }

    pub(crate) fn merge(&mut self, other: &HostTime) {
        let add = |sum: &mut u64, part: u64| *sum = sum.saturating_add(part);
        add(&mut self.synchronising_ns, other.synchronising_ns);
        add(&mut self.allocating_ns, other.allocating_ns);
        add(&mut self.copying_ns, other.copying_ns);
        add(&mut self.launching_ns, other.launching_ns);
        add(&mut self.loading_ns, other.loading_ns);
        add(&mut self.other_api_ns, other.other_api_ns);
        add(&mut self.system_calls_ns, other.system_calls_ns);
        add(&mut self.python_ns, other.python_ns);
        add(&mut self.untraced_ns, other.untraced_ns);
    }
}

const KINDS: usize = 9;
/// The first kinds are those a thread can be in; the others are for when none is in any.
const ACTIVE: usize = 7;
const PYTHON: u8 = 7;
const UNTRACED: u8 = 8;
/// A thread that is in no traced call.
const NONE: u8 = u8::MAX;

/// Time spent on each kind since the first record.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Spent([u64; KINDS]);

impl Spent {
    /// What was spent since an earlier moment.
    pub fn since(&self, earlier: &Spent) -> HostTime {
        let mut passed = Spent::default();
        for kind in 0..KINDS {
            passed.0[kind] = self.0[kind].saturating_sub(earlier.0[kind]);
        }
        HostTime::of(passed)
    }
}

/// Follows what the host does.
pub(crate) struct HostSweep {
    /// How many threads are in each kind.
    active: [u32; ACTIVE],
    threads: Vec<u8>,
    current: u8,
    now: Option<u64>,
    spent: Spent,
    python: bool,
    /// When the kind last changed, and to what: GPU work may be told only when it has ended.
    changes: VecDeque<(u64, u8)>,
}

/// How far back in changes an exact answer can be given.
const REMEMBERED: usize = 8_192;

impl Default for HostSweep {
    fn default() -> Self {
        HostSweep {
            active: [0; ACTIVE],
            threads: Vec::new(),
            current: UNTRACED,
            now: None,
            spent: Spent::default(),
            python: false,
            changes: VecDeque::new(),
        }
    }
}

impl HostSweep {
    /// A thread's open spans have changed.
    #[inline]
    pub fn changed(&mut self, at: u64, thread: ThreadId, nesting: &Nesting) {
        let kind = kind_of(nesting, thread);
        let place = thread as usize;
        if place >= self.threads.len() {
            self.threads.resize(place + 1, NONE);
        }
        let before = std::mem::replace(&mut self.threads[place], kind);
        if before == kind {
            return;
        }
        if before != NONE {
            self.active[before as usize] -= 1;
        }
        if kind != NONE {
            self.active[kind as usize] += 1;
        }
        self.turn(at);
    }

    /// A call begins: where it comes from says what runs between calls.
    #[inline]
    pub fn stack(&mut self, event: &Event) {
        if !event.stack.is_empty() {
            self.python = event.stack.iter().any(is_python);
        }
    }

    fn turn(&mut self, at: u64) {
        let idle = if self.python { PYTHON } else { UNTRACED };
        let current = self.active.iter().position(|&threads| threads > 0);
        let current = current.map_or(idle, |kind| kind as u8);
        if current == self.current && self.now.is_some() {
            return;
        }
        self.advance(at);
        self.current = current;
        if self.changes.len() == REMEMBERED {
            self.changes.pop_front();
        }
        self.changes.push_back((self.now.unwrap_or(at), current));
    }

    fn advance(&mut self, at: u64) {
        let now = self.now.unwrap_or(at);
        let spent = &mut self.spent.0[self.current as usize];
        *spent = spent.saturating_add(at.saturating_sub(now));
        self.now = Some(now.max(at));
    }

    /// What had been spent at a moment, which may lie back somewhat.
    pub fn spent_at(&mut self, at: u64) -> Spent {
        if at >= self.now.unwrap_or(at) {
            self.advance(at);
            return self.spent;
        }
        self.spent_by(at)
    }

    /// The same, changing nothing.
    pub fn spent_by(&self, at: u64) -> Spent {
        let now = self.now.unwrap_or(at);
        let mut spent = self.spent;
        if at >= now {
            let part = &mut spent.0[self.current as usize];
            *part = part.saturating_add(at - now);
            return spent;
        }
        let mut until = now;
        for &(since, kind) in self.changes.iter().rev() {
            let passed = until.saturating_sub(since.max(at));
            let part = &mut spent.0[kind as usize];
            *part = part.saturating_sub(passed);
            until = since;
            if since <= at {
                break;
            }
        }
        spent
    }
}

/// What the thread is doing: its outermost CUDA call says it, for what is inside serves that.
#[inline]
fn kind_of(nesting: &Nesting, thread: ThreadId) -> u8 {
    let open = nesting.open(thread);
    let call = open
        .iter()
        .find(|open| matches!(open.layer, Layer::Runtime | Layer::Driver));
    match call {
        Some(call) => match call.category {
            Category::Sync => 0,
            Category::Memory => 1,
            Category::Transfer => 2,
            Category::Kernel | Category::Graph => 3,
            Category::Init | Category::Context | Category::Module => 4,
            _ => 5,
        },
        None if open.iter().any(|open| is_call(open.layer)) => 5,
        None if open.is_empty() => NONE,
        None => 6,
    }
}

/// A frame of Python's, or of its interpreter where its own frames were not read.
fn is_python(frame: &Frame) -> bool {
    let symbol = frame.symbol.as_deref().unwrap_or_default();
    let module = frame.module.as_deref().unwrap_or_default();
    let file = module.rsplit('/').next().unwrap_or_default();
    frame.kind == FrameKind::Python
        || symbol.starts_with("_PyEval_")
        || symbol.starts_with("PyEval_")
        || file.starts_with("python")
        || file.starts_with("libpython")
}
