//! What findings need and no other part of the analysis keeps: waits after launches, streams that
//! are mixed, calls that failed.

use crate::{Ended, Role, SymbolId, ThreadId};
use ahash::RandomState;
use event::{Event, Launch, Meaning, Name, Value};
use std::collections::{HashMap, VecDeque};

/// Pairs of function and error kept.
const MOST_FAILURES: usize = 1 << 12;
/// Processes whose streams are followed.
const MOST_PROCESSES: usize = 1 << 12;
const OPS: usize = super::limits::OPS;

#[derive(Debug, Default)]
pub(crate) struct Signs {
    pub launches: u64,
    /// Time in launching calls.
    pub launch_ns: u64,
    pub graph_launches: u64,
    pub waits: Waits,
    pub failures: Vec<Failure>,
    pub streams: Vec<Mixed>,
    /// Launches of one block or less than a warp's worth of them.
    pub tiny_launches: u64,
}

/// Waits that came after a single launch.
#[derive(Debug, Default)]
pub(crate) struct Waits {
    pub after_one: u64,
    /// Time in the waiting calls.
    pub wait_ns: u64,
    /// Time from the end of such a wait to the next launch: the GPU surely had nothing to do.
    pub gap_ns: u64,
    pub ops: Vec<u64>,
    pub from: u64,
    pub to: u64,
}

/// Calls of one function that failed with one error.
#[derive(Debug)]
pub(crate) struct Failure {
    pub function: Name,
    pub code: i64,
    pub error: Option<Name>,
    pub count: u64,
    pub ops: Vec<u64>,
    pub from: u64,
    pub to: u64,
    /// Calls that the thread went on to make after the last failure.
    pub calls_after: u64,
    /// Kernels its process launched last before the first failure, the latest first.
    pub launched: Vec<Name>,
    /// What the first that failed had asked for, if it allocates.
    pub asked_bytes: Option<u64>,
}

/// How one process mixes its default stream with others.
#[derive(Debug, Clone, Default)]
pub(crate) struct Mixed {
    pub pid: u32,
    /// Launches into the legacy default stream, and into others.
    pub default: u64,
    pub others: u64,
    /// Launches into the one right after the other.
    pub changes: u64,
    pub ops: Vec<u64>,
    pub from: u64,
    pub to: u64,
    last_default: Option<bool>,
}

#[derive(Debug, Default, Clone)]
struct Thread {
    /// What the allocation that goes on asks for.
    asking: Option<u64>,
    since_wait: u32,
    waited_until: Option<u64>,
    calls: u64,
}

#[derive(Debug, Default)]
pub(crate) struct SignSweep {
    signs: Signs,
    threads: Vec<Thread>,
    failures: HashMap<(SymbolId, i64), FailureTally, RandomState>,
    processes: HashMap<u32, Mixed, RandomState>,
    launched: HashMap<u32, VecDeque<Name>, RandomState>,
}

/// Launches named before a failure.
const MOST_LAUNCHED: usize = 3;

#[derive(Debug)]
struct FailureTally {
    failure: Failure,
    thread: ThreadId,
    calls_then: u64,
}

impl SignSweep {
    /// A call begins that allocates.
    pub fn asks(&mut self, event: &Event, thread: ThreadId) {
        let size = (event.args.iter())
            .find(|arg| matches!(&*arg.name, "size" | "bytesize" | "bytes" | "pitch"))
            .and_then(|arg| match arg.value {
                Value::Uint(size) => Some(size),
                Value::Int(size) => u64::try_from(size).ok(),
                _ => None,
            });
        let thread = self.thread(thread);
        // A runtime call and the driver's call in it ask for the same.
        thread.asking = size.or(thread.asking);
    }

    fn thread(&mut self, thread: ThreadId) -> &mut Thread {
        let place = thread as usize;
        if self.threads.len() <= place {
            self.threads.resize(place + 1, Thread::default());
        }
        &mut self.threads[place]
    }

    /// A call of which no more needs to be known has ended.
    pub fn count(&mut self, thread: ThreadId) {
        self.thread(thread).calls += 1;
    }

    /// A call of the runtime or driver has ended that is in no other one.
    pub fn call(&mut self, event: &Event, ended: &Ended) {
        self.count(ended.thread);
        if let Some(status) = event.status.as_ref().filter(|status| status.code != 0) {
            self.failed(event, ended, status);
        }
    }

    /// A call has ended that is in no other of the same role.
    pub fn role(&mut self, event: &Event, ended: &Ended, role: Role) {
        self.thread(ended.thread);
        let thread = &mut self.threads[ended.thread as usize];
        let time = ended.duration_ns.unwrap_or(0);
        match role {
            Role::Launch => {
                self.signs.launches += 1;
                self.signs.launch_ns = self.signs.launch_ns.saturating_add(time);
                self.signs.graph_launches += u64::from(event.name.contains("GraphLaunch"));
                thread.since_wait = thread.since_wait.saturating_add(1);
                if let Some(until) = thread.waited_until.take() {
                    let gap = ended.end.saturating_sub(until);
                    self.signs.waits.gap_ns = self.signs.waits.gap_ns.saturating_add(gap);
                    self.signs.waits.to = ended.end;
                }
            }
            Role::SyncStream | Role::SyncDevice | Role::SyncEvent => {
                let waits = &mut self.signs.waits;
                if thread.since_wait == 1 {
                    if waits.after_one == 0 {
                        waits.from = ended.start;
                    }
                    waits.after_one += 1;
                    waits.wait_ns = waits.wait_ns.saturating_add(time);
                    waits.to = ended.end;
                    if waits.ops.len() < OPS {
                        waits.ops.push(event.id);
                    }
                    thread.waited_until = Some(ended.end);
                }
                thread.since_wait = 0;
            }
            Role::Copy => {
                thread.since_wait = 0;
                thread.waited_until = None;
            }
            // What happens in between is not the wait's.
            Role::QueueCopy | Role::Fill | Role::Alloc | Role::Free => thread.waited_until = None,
            _ => {}
        }
    }

    fn failed(&mut self, event: &Event, ended: &Ended, status: &event::Status) {
        let key = (ended.symbol, status.code);
        if self.failures.len() >= MOST_FAILURES && !self.failures.contains_key(&key) {
            return;
        }
        let asked_bytes = self.threads[ended.thread as usize].asking;
        let launched = self.launched.get(&event.pid);
        let tally = self.failures.entry(key).or_insert_with(|| FailureTally {
            failure: Failure {
                function: event.name.clone(),
                code: status.code,
                error: status.name.clone(),
                count: 0,
                ops: Vec::new(),
                from: ended.start,
                to: ended.end,
                calls_after: 0,
                launched: launched
                    .map_or_else(Vec::new, |names| names.iter().rev().cloned().collect()),
                asked_bytes,
            },
            thread: ended.thread,
            calls_then: 0,
        });
        tally.failure.count += 1;
        tally.failure.to = tally.failure.to.max(ended.end);
        if tally.failure.ops.len() < OPS {
            tally.failure.ops.push(event.id);
        }
        tally.thread = ended.thread;
        tally.calls_then = self.threads[ended.thread as usize].calls;
    }

    pub fn launch(&mut self, meaning: &Meaning, launch: &Launch) {
        self.signs.tiny_launches += u64::from(launch.threads() < 1024);
        if self.launched.len() < MOST_PROCESSES || self.launched.contains_key(&meaning.pid) {
            let names = self.launched.entry(meaning.pid).or_default();
            if names.len() == MOST_LAUNCHED {
                names.pop_front();
            }
            names.push_back(launch.kernel.clone());
        }
        // Without a stream in the trace nothing can be said; per-thread default streams are streams
        // like any other.
        let per_thread = meaning.name.ends_with("_ptsz") || meaning.name.ends_with("_ptds");
        let Some(stream) = meaning.stream.filter(|_| !per_thread) else {
            return;
        };
        if self.processes.len() >= MOST_PROCESSES && !self.processes.contains_key(&meaning.pid) {
            return;
        }
        let mixed = self.processes.entry(meaning.pid).or_insert_with(|| Mixed {
            pid: meaning.pid,
            ..Mixed::default()
        });
        // 0 and 1 are the legacy default stream's two names.
        let default = stream <= 1;
        if default {
            mixed.default += 1;
        } else {
            mixed.others += 1;
        }
        if mixed.last_default.is_some_and(|last| last != default) {
            if mixed.changes == 0 {
                mixed.from = meaning.ts;
            }
            mixed.changes += 1;
            mixed.to = meaning.ts;
            if default && mixed.ops.len() < OPS {
                mixed.ops.push(meaning.op);
            }
        }
        mixed.last_default = Some(default);
    }

    pub fn finish(mut self) -> Signs {
        let mut failures: Vec<_> = (self.failures.into_values())
            .map(|tally| {
                let calls = self.threads[tally.thread as usize].calls;
                Failure {
                    calls_after: calls.saturating_sub(tally.calls_then),
                    ..tally.failure
                }
            })
            .collect();
        failures.sort_by(|a, b| (b.count, a.from, a.code).cmp(&(a.count, b.from, b.code)));
        let mut streams: Vec<_> = self.processes.into_values().collect();
        streams.sort_by_key(|mixed| (std::cmp::Reverse(mixed.changes), mixed.pid));
        self.signs.failures = failures;
        self.signs.streams = streams;
        self.signs
    }
}
