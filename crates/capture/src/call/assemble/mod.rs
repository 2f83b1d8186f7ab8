//! Raw steps of all threads become records of a trace, in the order of time.

mod begin;
mod driver;
mod end;
mod hosts;
mod observe;
mod open_call;
mod operators;
mod output;
mod ranges;
mod signatures;
mod whole;

use super::filter::Filter;
use super::for_cupti::ForCupti;
use super::item::{Batch, Step, Within};
use super::loaded::Objects;
use super::order::{NextStep, Order};
use super::origin::Origin;
use super::signature::Signature;
use super::stacks::Stacks;
use super::state::ThreadState;
use super::stubs::Stubs;
use super::symbols::Symbols;
use crate::{Deadline, Sink, SinkError};
use ahash::{AHashMap, AHashSet};
use event::{Name, Stack};
use observe::States;
pub use open_call::LaunchArguments;
use open_call::{OpenCall, OpenRange, SpareCalls};
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

/// Which calls become records, in nanoseconds.
#[derive(Debug, Clone)]
pub struct Limits {
    /// What is hooked for the sake of others and not in here is not shown.
    pub filter: Option<Filter>,
    pub min_duration: u64,
    /// One of so many calls of a function is shown; 0 and 1: all.
    pub sample: u32,
    /// Kernels without a name are named by the functions of the program that launch them.
    pub hosts: bool,
    /// Calls that begin later are left out.
    pub deadline: Deadline,
}

pub struct Assembler<O: Origin, S> {
    pub origin: O,
    limits: Limits,
    sink: S,
    rings: Vec<Thread<O::Times>>,
    order: Order,
    states: States,
    /// By image, then by number.
    signatures: Vec<Vec<Option<Arc<Signature>>>>,
    by_name: AHashMap<(Name, Option<String>), Arc<Signature>>,
    symbols: Option<Symbols>,
    stubs: Stubs,
    held: driver::WaitingRecords,
    spare: SpareCalls,
    operator_names: AHashSet<Name>,
    next_id: u64,
    /// How many calls of a function there were, where only one of many is shown; None: all are.
    sampled: AHashMap<Name, Option<u64>>,
    /// The process files were read again since the last batch came.
    refreshed: bool,
    /// Numbers of threads that there have been.
    threads: HashSet<(u32, u32)>,
    /// Threads that have begun with the number of an earlier one, and of which nothing has been written yet.
    restarted: Vec<Restart>,
    latest: u64,
    begun: bool,
    pub totals: Totals,
}

/// What happened while records were made.
#[derive(Debug, Default)]
pub struct Totals {
    /// Calls that were recorded.
    pub recorded: u64,
    /// Those of them that were asked for.
    pub calls: u64,
    /// Those that were made and are not in the sample.
    pub not_sampled: u64,
    pub for_cupti: ForCupti,
    pub lost: u64,
    /// Of them, those of threads that wrote more than was read, by process and thread.
    pub lost_by_thread: BTreeMap<(u32, u32), u64>,
    /// Records that came too late for their place in time.
    pub late: u64,
    /// Records that the sink did not take, and why it did not take the first of them.
    pub unwritten: u64,
    pub failure: Option<SinkError>,
}

/// A thread that has the number of an earlier one; its records have ids from this on.
struct Restart {
    pid: u32,
    tid: u32,
    first_id: u64,
}

/// One ring's thread.
struct Thread<T> {
    pid: u32,
    tid: u32,
    /// It has the number of an earlier one, and no step of it has been taken.
    restarts: bool,
    /// Where its process's state is.
    process: usize,
    image: Option<usize>,
    times: T,
    #[allow(
        clippy::vec_box,
        reason = "calls are large, and go back to the spare ones as they are"
    )]
    open: Vec<Box<OpenCall>>,
    state: ThreadState,
    /// The kernel whose name the last call asked for.
    asked: Option<u64>,
    /// Payloads of calls that have ended and whose beginnings are still to be written.
    ended: AHashMap<u64, Box<[u8]>>,
    /// Calls that were shorter than what is asked for.
    short: AHashSet<u64>,
    stacks: Stacks,
    /// Calls of NVTX that have not returned.
    told: Vec<ranges::NvtxCall>,
    /// Calls that tell of operators and have not returned.
    operators: Vec<operators::OperatorCall>,
}

impl<O: Origin, S: Sink> Assembler<O, S> {
    pub fn new(origin: O, limits: Limits, sink: S) -> Self {
        Assembler {
            origin,
            order: Order::new(limits.min_duration > 0),
            limits,
            sink,
            rings: Vec::new(),
            states: States::default(),
            signatures: Vec::new(),
            by_name: AHashMap::new(),
            symbols: None,
            stubs: Stubs::default(),
            held: driver::WaitingRecords::default(),
            spare: SpareCalls::default(),
            operator_names: AHashSet::new(),
            next_id: 1,
            sampled: AHashMap::new(),
            refreshed: false,
            threads: HashSet::new(),
            restarted: Vec::new(),
            latest: 0,
            begun: false,
            totals: Totals::default(),
        }
    }

    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// A new ring; its number is the count of those before.
    pub fn add_ring(&mut self, pid: u32, tid: u32) {
        self.rings.push(Thread {
            pid,
            tid,
            restarts: !self.threads.insert((pid, tid)),
            process: self.states.of(pid),
            image: None,
            times: self.origin.times(None),
            open: Vec::new(),
            state: ThreadState::default(),
            asked: None,
            ended: AHashMap::new(),
            short: AHashSet::new(),
            stacks: Stacks::default(),
            told: Vec::new(),
            operators: Vec::new(),
        });
    }

    /// Steps that were read; they are kept until [`Assembler::advance`] lets them go.
    pub fn push(&mut self, batch: Batch) {
        self.refreshed = false;
        let (Some(thread), Some(first)) = (self.rings.get_mut(batch.ring), batch.items.first())
        else {
            return;
        };
        if thread.image.is_none() {
            self.origin.refresh();
            thread.image = self.origin.image_at(thread.pid, first.time);
            thread.times = self.origin.times(thread.image);
        }
        for item in &batch.items {
            let (enter, exit) = match item.step {
                Step::End { enter, payload, .. } => {
                    if !payload.is_empty() {
                        let bytes = payload.of(&batch.bytes).into();
                        thread.ended.insert(item.sequence, bytes);
                    }
                    (enter, item.time)
                }
                Step::Whole { exit, .. } => (item.time, exit),
                _ => continue,
            };
            let host = |time| self.origin.to_host(&thread.times, time);
            if self.limits.min_duration > 0
                && host(exit).saturating_sub(host(enter)) < self.limits.min_duration
            {
                thread.short.insert(item.sequence);
            }
        }
        if self.limits.hosts {
            self.hear_of_unloads(&batch);
        }
        let (times, origin) = (&self.rings[batch.ring].times, &self.origin);
        self.order.push(batch, |time| origin.to_host(times, time));
    }

    /// Writes everything up to a moment.
    pub fn advance(&mut self, until: u64) {
        while let Some(taken) = {
            let (rings, origin) = (&self.rings, &self.origin);
            self.order.next(until, |ring, time| {
                rings
                    .get(ring)
                    .map_or(time, |thread| origin.to_host(&thread.times, time))
            })
        } {
            self.step(&taken);
        }
    }

    /// Batches of which every step has been taken.
    pub fn used_batches(&mut self) -> impl Iterator<Item = Batch> {
        self.order.used()
    }

    /// Everything up to a moment has been written.
    pub fn passed(&mut self, until: u64) {
        if self.held.is_over(until) {
            self.release();
        }
        self.sink.until(self.held.passed(until));
    }

    pub fn flush(&mut self) {
        if self.begun
            && self.totals.failure.is_none()
            && let Err(why) = self.sink.flush()
        {
            self.totals.failure = Some(why);
        }
    }

    pub fn into_parts(mut self) -> (S, Totals, O) {
        self.release();
        (self.sink, self.totals, self.origin)
    }

    fn step(&mut self, taken: &NextStep) {
        let NextStep {
            time,
            ring,
            item,
            batch,
            ended,
        } = taken;
        let (time, ring) = (*time, *ring);
        if self.held.is_over(time) {
            self.release();
        }
        if let Some(thread) = self.rings.get_mut(ring)
            && std::mem::take(&mut thread.restarts)
        {
            self.restarted.push(Restart {
                pid: thread.pid,
                tid: thread.tid,
                first_id: self.next_id,
            });
        }
        match &item.step {
            Step::Begin {
                function,
                args,
                payload,
                complete,
                stack,
            } => {
                let (bytes, valid) = complete.unwrap_or(Within::NONE).payload(args);
                let payload = match payload.is_empty() {
                    true => &bytes[..valid],
                    false => payload.of(&batch.bytes),
                };
                let begin = Begin {
                    time,
                    sequence: item.sequence,
                    args: *args,
                    payload,
                    complete: complete.is_some(),
                    stack: if *stack == 0 {
                        Stack::default()
                    } else {
                        self.frames(ring, *stack, item.time)
                    },
                };
                self.begin_any(ring, *function, begin, *ended);
            }
            // Its end is a step of its own, unless it came along.
            Step::Whole {
                function,
                args,
                within,
                ..
            } => {
                let (bytes, valid) = within.payload(args);
                let begin = Begin {
                    time,
                    sequence: item.sequence,
                    args: *args,
                    payload: &bytes[..valid],
                    complete: true,
                    stack: Stack::default(),
                };
                self.begin_any(ring, u32::from(*function), begin, *ended);
            }
            Step::Note { note, payload } => {
                if let Some(thread) = self.rings.get_mut(ring) {
                    thread.stacks.note(*note, payload.of(&batch.bytes));
                }
            }
            Step::End { result, .. } => {
                self.end(ring, time, item.sequence, CallEnd::Returned(*result));
            }
            Step::Unwound { .. } => self.end(ring, time, item.sequence, CallEnd::Unwound),
            Step::Unseen { .. } => self.end(ring, time, item.sequence, CallEnd::Unseen),
            Step::Lost { count } => self.lost(ring, time, *count),
        }
    }

    /// A call, or what a program tells by NVTX, or a framework of its operators; with its end, if that is what comes next.
    fn begin_any(
        &mut self,
        ring: usize,
        function: u32,
        begin: Begin<'_>,
        ended: Option<(u64, u32)>,
    ) {
        let sequence = begin.sequence;
        if let Some((end, result)) = ended
            && self.may_be_whole(ring)
            && let Some(call) = self.spare_of(ring, function)
        {
            return self.whole(ring, call, begin, end, result);
        }
        let signature = self.signature(ring, function);
        if let Some(function) = signature.nvtx {
            self.range_begin(ring, function, signature, &begin);
        } else if let Some(function) = signature.operator {
            self.operator_begin(ring, function, signature, begin);
        } else if let Some((end, result)) = ended
            && self.may_be_whole(ring)
        {
            let call = self.spare.take(signature);
            return self.whole(ring, call, begin, end, result);
        } else {
            self.begin(ring, signature, begin);
        }
        if let Some((end, result)) = ended {
            if self.held.is_over(end) {
                self.release();
            }
            self.end(ring, end, sequence, CallEnd::Returned(result));
        }
    }

    /// The stack of that number; `time` is of the process's own clock.
    fn frames(&mut self, ring: usize, stack: u32, time: u64) -> Stack {
        let nothing = Objects::default();
        let Some(thread) = self.rings.get_mut(ring) else {
            return Stack::default();
        };
        // What was loaded was said before it was called from.
        if !thread.stacks.is_named(stack) && !std::mem::replace(&mut self.refreshed, true) {
            self.origin.refresh();
        }
        let objects = thread.image.and_then(|image| self.origin.objects(image));
        let objects = objects.unwrap_or(&nothing);
        let symbols = self.symbols.get_or_insert_default();
        thread.stacks.frames(stack, time, objects, symbols)
    }
}

/// How a call ended.
enum CallEnd {
    Returned(u32),
    /// By an exception or a longjmp.
    Unwound,
    /// Nobody has seen how, or when.
    Unseen,
}

struct Begin<'a> {
    time: u64,
    sequence: u64,
    args: [u64; 4],
    payload: &'a [u8],
    complete: bool,
    stack: Stack,
}

/// Most calls have no payload of their own to wait for: do not even hash then.
fn taken(ended: &mut AHashMap<u64, Box<[u8]>>, sequence: u64) -> Option<Box<[u8]>> {
    if ended.is_empty() {
        return None;
    }
    ended.remove(&sequence)
}
