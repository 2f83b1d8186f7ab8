//! Contexts: when they came and went, how threads switch between them, and how the GPU does.

use ahash::RandomState;
use event::{Category, Event, Extent, Kind, Layer, Record, Value};
use serde::{Deserialize, Serialize};
use std::collections::{HashMap, HashSet};

/// Contexts and threads followed apart, at most.
const MOST_CONTEXTS: usize = 1 << 12;
const MOST_THREADS: usize = 1 << 16;
/// Listed, at most.
const MOST_LISTED: usize = 64;
/// Threads named of a context, at most: beyond, there are "many".
const MOST_USERS: usize = 1 << 10;

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Contexts {
    /// By first appearance.
    pub contexts: Vec<Context>,
    pub seen: u64,
    pub created: u64,
    pub destroyed: u64,
    /// Time in calls that made contexts, and in calls that destroyed them.
    pub creation_ns: u64,
    pub destruction_ns: u64,
    /// Calls that set, push or pop the current context, and the time in them.
    pub set_calls: u64,
    pub set_ns: u64,
    /// Times a thread's current context became another one.
    pub switches: u64,
    /// Most switches first.
    pub threads: Vec<ThreadSwitches>,
    /// Where the trace has GPU times: work of another context than the work before it.
    pub gpus: Vec<GpuSwitches>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Context {
    pub pid: u32,
    pub context: u64,
    pub device: Option<u32>,
    pub created_at_ns: Option<u64>,
    pub created_op_id: Option<u64>,
    pub destroyed_at_ns: Option<u64>,
    pub destroyed_op_id: Option<u64>,
    pub first_used_ns: u64,
    pub last_used_ns: u64,
    pub calls: u64,
    pub threads: u64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ThreadSwitches {
    pub pid: u32,
    pub tid: u32,
    pub switches: u64,
    pub set_calls: u64,
    pub set_ns: u64,
    /// Time from one switch to the next.
    pub shortest_ns: Option<u64>,
    pub mean_ns: Option<u64>,
    pub longest_ns: Option<u64>,
    pub from_ns: u64,
    pub to_ns: u64,
    /// Calls in which, or soon before which, it switched: the first ones.
    pub op_ids: Vec<u64>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GpuSwitches {
    pub device: Option<u32>,
    pub operations: u64,
    pub switches: u64,
    pub processes: u64,
}

/// Calls named of each thread's switches.
const OPS: usize = 8;

#[derive(Debug, Default)]
struct Thread {
    current: Option<u64>,
    switched_at: Option<u64>,
    open_sets: u32,
    row: ThreadRow,
}

#[derive(Debug, Default)]
struct ThreadRow {
    switches: u64,
    set_calls: u64,
    set_ns: u64,
    gaps: u64,
    gap_sum: u64,
    shortest: Option<u64>,
    longest: u64,
    from: u64,
    to: u64,
    ops: Vec<u64>,
}

#[derive(Debug)]
struct UsedContext {
    row: Context,
    threads: HashSet<u32, RandomState>,
}

#[derive(Debug, Default)]
struct Gpu {
    last: Option<(u32, u64)>,
    operations: u64,
    switches: u64,
    pids: HashSet<u32, RandomState>,
}

/// Follows contexts through a trace.
#[derive(Debug, Default)]
pub struct ContextSweep {
    contexts: HashMap<(u32, u64), UsedContext, RandomState>,
    threads: HashMap<(u32, u32), Thread, RandomState>,
    gpus: HashMap<Option<u32>, Gpu, RandomState>,
    totals: Contexts,
    /// The first call of each process that made a context without saying which: the next context
    /// that appears is taken for it.
    made: HashMap<u32, Option<(u64, u64)>, RandomState>,
    /// Calls in a row of one thread in one context, which is nearly all of them: they are put down
    /// together.
    row: Option<InARow>,
}

#[derive(Debug, Clone, Copy)]
struct InARow {
    pid: u32,
    tid: u32,
    context: u64,
    device: Option<u32>,
    /// Not put down yet.
    calls: u64,
    last: u64,
}

impl ContextSweep {
    pub fn add(&mut self, record: &Record) {
        let Record::Event(event) = record else { return };
        match event.layer {
            Layer::Runtime | Layer::Driver => self.call(event),
            Layer::Gpu if event.kind == Kind::Gpu && event.extent != Extent::Open => {
                self.on_gpu(event);
            }
            _ => {}
        }
    }

    fn call(&mut self, event: &Event) {
        let setting = event.category == Category::Context && sets_current(&event.name);
        match event.extent {
            Extent::Open => {
                if setting && let Some(thread) = self.thread(event) {
                    thread.open_sets += 1;
                }
            }
            Extent::Closed(time) => {
                if let Some(context) = event.context.filter(|context| *context != 0) {
                    self.used(event, context);
                }
                let failed = event.status.as_ref().is_some_and(|status| status.code != 0);
                if event.category == Category::Context && !failed {
                    self.came_or_went(event, time);
                }
                if setting {
                    self.set(event, time);
                }
            }
            Extent::Instant => {}
        }
    }

    fn thread(&mut self, event: &Event) -> Option<&mut Thread> {
        let key = (event.pid, event.tid);
        if self.threads.len() >= MOST_THREADS && !self.threads.contains_key(&key) {
            return None;
        }
        Some(self.threads.entry(key).or_default())
    }

    fn used(&mut self, event: &Event, context: u64) {
        let at = event.end().unwrap_or(event.start);
        if let Some(row) = &mut self.row
            && (row.pid, row.tid, row.context) == (event.pid, event.tid, context)
            && row.device == event.device
        {
            row.calls += 1;
            row.last = row.last.max(at);
            return;
        }
        self.put_down();
        self.row = Some(InARow {
            pid: event.pid,
            tid: event.tid,
            context,
            device: event.device,
            calls: 0,
            last: at,
        });
        if let Some(used) = self.context(event, context, at) {
            used.row.calls += 1;
            used.row.last_used_ns = used.row.last_used_ns.max(at);
            used.row.device = event.device.or(used.row.device);
            if used.threads.len() < MOST_USERS {
                used.threads.insert(event.tid);
            }
        }
        let Some(thread) = self.thread(event) else {
            return;
        };
        let before = thread.current.replace(context);
        if before.is_none_or(|before| before == context) {
            return;
        }
        let row = &mut thread.row;
        match thread.switched_at.replace(at) {
            Some(earlier) => {
                let gap = at.saturating_sub(earlier);
                row.gaps += 1;
                row.gap_sum = row.gap_sum.saturating_add(gap);
                row.shortest = Some(row.shortest.map_or(gap, |least| least.min(gap)));
                row.longest = row.longest.max(gap);
            }
            None => row.from = at,
        }
        row.to = at;
        row.switches += 1;
        if row.ops.len() < OPS {
            row.ops.push(event.id);
        }
        self.totals.switches += 1;
    }

    fn put_down(&mut self) {
        if let Some(row) = self.row.take()
            && let Some(used) = self.contexts.get_mut(&(row.pid, row.context))
        {
            used.row.calls += row.calls;
            used.row.last_used_ns = used.row.last_used_ns.max(row.last);
        }
    }

    fn context(&mut self, event: &Event, context: u64, at: u64) -> Option<&mut UsedContext> {
        let key = (event.pid, context);
        if !self.contexts.contains_key(&key) {
            if self.contexts.len() >= MOST_CONTEXTS {
                return None;
            }
            let made = self.made.get_mut(&event.pid).and_then(Option::take);
            let row = Context {
                pid: event.pid,
                context,
                device: event.device,
                created_at_ns: made.map(|(at, _)| at),
                created_op_id: made.map(|(_, op)| op),
                destroyed_at_ns: None,
                destroyed_op_id: None,
                first_used_ns: at,
                last_used_ns: at,
                calls: 0,
                threads: 0,
            };
            self.totals.seen += 1;
            let threads = HashSet::default();
            self.contexts.insert(key, UsedContext { row, threads });
        }
        self.contexts.get_mut(&key)
    }

    fn came_or_went(&mut self, event: &Event, time: u64) {
        let at = event.end().unwrap_or(event.start);
        let argument = |name: &str| event.arg(name).and_then(Value::as_u64);
        match cuda::family(&event.name) {
            "cuCtxCreate" | "cuDevicePrimaryCtxRetain" | "cuCtxFromGreenCtx" => {
                let made = argument("pctx").or(argument("pContext"));
                // A fast reading leaves out what came back.
                let mut new = event.name.starts_with("cuCtx");
                if made.is_none()
                    && self.made.len() < MOST_CONTEXTS
                    && !self.made.contains_key(&event.pid)
                {
                    new = true;
                    self.made.insert(event.pid, Some((at, event.id)));
                }
                if let Some(used) = made.and_then(|made| self.context(event, made, at))
                    && used.row.created_at_ns.is_none()
                {
                    // The primary context is made by whoever retains it first.
                    new = true;
                    used.row.created_at_ns = Some(at);
                    used.row.created_op_id = Some(event.id);
                }
                self.totals.created += u64::from(new);
                self.totals.creation_ns = self.totals.creation_ns.saturating_add(time);
            }
            "cuCtxDestroy" | "cudaDeviceReset" | "cuDevicePrimaryCtxReset" => {
                self.totals.destroyed += 1;
                self.totals.destruction_ns = self.totals.destruction_ns.saturating_add(time);
                let gone = argument("ctx").or(event.context);
                if let Some(used) = gone.and_then(|gone| self.contexts.get_mut(&(event.pid, gone)))
                {
                    used.row.destroyed_at_ns = Some(at);
                    used.row.destroyed_op_id = Some(event.id);
                }
            }
            _ => {}
        }
    }

    /// A call that sets what is current; the driver's inside the runtime's is the same one.
    fn set(&mut self, event: &Event, time: u64) {
        let Some(thread) = self.thread(event) else {
            return;
        };
        thread.open_sets = thread.open_sets.saturating_sub(1);
        if thread.open_sets == 0 {
            thread.row.set_calls += 1;
            thread.row.set_ns = thread.row.set_ns.saturating_add(time);
            self.totals.set_calls += 1;
            self.totals.set_ns = self.totals.set_ns.saturating_add(time);
        }
    }

    fn on_gpu(&mut self, event: &Event) {
        let gpu = self.gpus.entry(event.device).or_default();
        let of = (event.pid, event.context.unwrap_or(0));
        gpu.operations += 1;
        gpu.switches += u64::from(gpu.last.is_some_and(|last| last != of));
        gpu.last = Some(of);
        if gpu.pids.len() < MOST_USERS {
            gpu.pids.insert(event.pid);
        }
    }

    pub fn finish(mut self) -> Contexts {
        self.put_down();
        let mut contexts: Vec<_> = (self.contexts.into_values())
            .map(|used| Context {
                threads: used.threads.len() as u64,
                ..used.row
            })
            .collect();
        contexts.sort_by_key(|row| (row.first_used_ns, row.pid, row.context));
        contexts.truncate(MOST_LISTED);
        let mut threads: Vec<_> = (self.threads.into_iter())
            .filter(|(_, thread)| thread.row.switches + thread.row.set_calls > 0)
            .map(|((pid, tid), thread)| thread.row.report(pid, tid))
            .collect();
        threads.sort_by_key(|row| {
            let most = (
                std::cmp::Reverse(row.switches),
                std::cmp::Reverse(row.set_calls),
            );
            (most, row.pid, row.tid)
        });
        threads.truncate(MOST_LISTED);
        let mut gpus: Vec<_> = (self.gpus.into_iter())
            .map(|(device, gpu)| GpuSwitches {
                device,
                operations: gpu.operations,
                switches: gpu.switches,
                processes: gpu.pids.len() as u64,
            })
            .collect();
        gpus.sort_by_key(|gpu| gpu.device);
        Contexts {
            contexts,
            threads,
            gpus,
            ..self.totals
        }
    }
}

impl ThreadRow {
    fn report(self, pid: u32, tid: u32) -> ThreadSwitches {
        ThreadSwitches {
            pid,
            tid,
            switches: self.switches,
            set_calls: self.set_calls,
            set_ns: self.set_ns,
            shortest_ns: self.shortest,
            mean_ns: self.gap_sum.checked_div(self.gaps),
            longest_ns: self.shortest.map(|_| self.longest),
            from_ns: self.from,
            to_ns: self.to,
            op_ids: self.ops,
        }
    }
}

fn sets_current(function: &str) -> bool {
    matches!(
        cuda::family(function),
        "cuCtxSetCurrent" | "cuCtxPushCurrent" | "cuCtxPopCurrent" | "cudaSetDevice"
    )
}
