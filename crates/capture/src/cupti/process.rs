//! One process's GPU times: what its frames say, and work that waits for its call.

use super::link::{Calls, Cause, CauseLookup};
use super::timed::{self, Waiting, narrow};
use crate::call::demangled;
use crate::preload::Namespaces;
use ahash::AHashMap;
use cuda::cupti::{Activity, ApiCall, NONE, WorkPlacement};
use event::{
    ClockMap, ClockPair, Direction, Name,
    gpu_times::{self as frames, GRAPH_NODE_BYTES, GraphNode},
};
use std::collections::{BTreeMap, VecDeque};

/// Bounds on what a process can make us keep.
const MOST_NAMES: usize = 1 << 20;
const MOST_NOTES: usize = 16;
const MOST_CALLS: usize = 1 << 21;
const MOST_WAITING: usize = 1 << 21;
const LONGEST_TEXT: usize = 8 << 10;
/// Calls in a row that are farther than what has been seen, after which no more are looked at.
const MOST_BEYOND: usize = 256;

/// How long work waits for word of its call, in nanoseconds: CUPTI hands calls and work over in
/// different buffers.
const PATIENCE: u64 = 2_000_000_000;

#[derive(Debug, Default)]
pub struct Process {
    pub pid: u32,
    /// What it calls itself, in a PID namespace that is not ours.
    inner: Option<(u64, u32)>,
    /// `version=… path=…`
    pub about: Option<String>,
    pub notes: Vec<String>,
    pub dropped: u64,
    pub ended: bool,
    /// Asked to collect no more.
    pub dismissed: bool,
    pub counts: Counts,
    pub clock: ClockMap,
    names: AHashMap<u64, Name>,
    /// Calls that CUPTI has reported, oldest first.
    calls: VecDeque<ReportedCall>,
    /// The number of the first of them: all that there were are counted.
    first_call: u64,
    /// Their numbers, by correlation.
    by_correlation: AHashMap<u32, u64>,
    /// The numbers of those whose causes have not been found yet.
    unresolved: VecDeque<u64>,
    /// Work whose calls have causes, or have none.
    ready: Vec<(Activity, Option<Cause>)>,
    /// Work whose calls CUPTI has not reported yet, and when it came.
    unreported: VecDeque<(u64, Activity)>,
    /// Pieces of work that wait at their calls.
    at_calls: usize,
    /// Work that events were put around.
    timed: VecDeque<Waiting>,
    /// Nodes of graphs, as they came.
    graph_nodes: Vec<GraphNode>,
    /// Of such work: what came by, what was timed, what was never reached; how wrong times may be.
    pub counted: [u64; 3],
    pub timed_error: u64,
    /// What CUPTI took for itself, by kind: how often, and nanoseconds.
    pub own_cost: BTreeMap<u32, (u64, u64)>,
    /// What the program calls its streams and contexts, by CUPTI's numbers.
    streams: AHashMap<(u32, u32), u64>,
    contexts: AHashMap<u32, u64>,
}

/// A call that CUPTI has reported.
#[derive(Debug)]
struct ReportedCall {
    call: ApiCall,
    found: CauseLookup,
    /// Its work, as long as the cause may yet be found.
    work: Vec<Activity>,
}

/// What has been seen.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    pub kernels: u64,
    pub copies: u64,
    pub fills: u64,
    /// Launches of whole graphs, where their nodes are not reported apart.
    pub graphs: u64,
    /// Waits of the host, which are no work.
    pub waits: u64,
    /// Work whose call is not known.
    pub unlinked: u64,
    /// Work without times: CUPTI gave none.
    pub untimed: u64,
}

impl Process {
    pub fn new(pid: u32) -> Self {
        Process {
            pid,
            ..Process::default()
        }
    }

    /// One whose numbers are those of another PID namespace, perhaps.
    pub fn within(namespace: u64, pid: u32) -> Self {
        match Namespaces::shared().process(namespace, pid) {
            Some((outer, _)) => Process {
                inner: Some((namespace, pid)),
                ..Process::new(outer)
            },
            None => Process::new(pid),
        }
    }

    /// Our number for one of its threads.
    fn thread(&self, tid: u32) -> u32 {
        self.inner.map_or(tid, |(namespace, pid)| {
            Namespaces::shared().former_thread(namespace, pid, tid)
        })
    }

    /// Takes one frame that came at `now`.
    pub fn frame(&mut self, kind: u32, payload: &[u8], now: u64) {
        let text = || String::from_utf8_lossy(&payload[..payload.len().min(LONGEST_TEXT)]);
        let word = |at: usize| {
            let bytes = payload.get(at..at + 8)?;
            Some(u64::from_le_bytes(bytes.try_into().ok()?))
        };
        match kind {
            frames::BEGIN => self.about = Some(text().into_owned()),
            frames::NOTE if self.notes.len() < MOST_NOTES => self.notes.push(text().into_owned()),
            frames::DROPPED => self.dropped = self.dropped.saturating_add(word(0).unwrap_or(0)),
            frames::END => self.ended = true,
            frames::CLOCK => {
                if let (Some(before), Some(source), Some(after)) = (word(0), word(8), word(16))
                    && let Some(pair) = ClockPair::around(before, source, after)
                {
                    self.clock.add(pair);
                }
            }
            frames::NAME if self.names.len() < MOST_NAMES => {
                if let (Some(address), Some(text)) = (word(0), payload.get(8..)) {
                    let text = &text[..text.len().min(LONGEST_TEXT)];
                    let name = demangled(&String::from_utf8_lossy(text));
                    self.names.insert(address, name);
                }
            }
            frames::RECORDS => self.records(payload, now),
            frames::TIMED => {
                for mut waiting in timed::read(payload, now) {
                    let thread = self.thread(narrow(waiting.piece.thread));
                    waiting.piece.thread = thread.into();
                    self.timed.push_back(waiting);
                }
            }
            frames::GRAPH_NODES => {
                let (nodes, _) = payload.as_chunks::<GRAPH_NODE_BYTES>();
                for node in nodes.iter().map(GraphNode::decode) {
                    let thread = self.thread(narrow(node.thread)).into();
                    self.graph_nodes.push(GraphNode { thread, ..node });
                }
            }
            frames::COUNTED => {
                for (place, sum) in self.counted.iter_mut().enumerate() {
                    *sum = word(place * 8).unwrap_or(*sum);
                }
            }
            _ => {}
        }
    }

    fn records(&mut self, mut payload: &[u8], now: u64) {
        while let Some((length, rest)) = payload.split_first_chunk::<8>() {
            let Ok(length) = usize::try_from(u64::from_le_bytes(*length)) else {
                return;
            };
            let Some(record) = rest.get(..length) else {
                return;
            };
            match Activity::read(record) {
                Activity::Call(call) => self.call(call),
                work @ (Activity::Kernel(_)
                | Activity::Copy(_)
                | Activity::Fill(_)
                | Activity::Synchronisation(_)) => self.wait(now, work),
                Activity::Overhead(overhead) if self.own_cost.len() < MOST_NOTES => {
                    let took = overhead.end.saturating_sub(overhead.start);
                    let (times, sum) = self.own_cost.entry(overhead.kind).or_default();
                    (*times, *sum) = (*times + 1, sum.saturating_add(took));
                }
                _ => {}
            }
            let filled = length.saturating_add(frames::padding(length));
            payload = rest.get(filled..).unwrap_or_default();
        }
    }

    fn call(&mut self, mut call: ApiCall) {
        call.thread = self.thread(call.thread);
        let number = self.first_call + self.calls.len() as u64;
        self.by_correlation.insert(call.correlation, number);
        self.unresolved.push_back(number);
        self.calls.push_back(ReportedCall {
            call,
            found: CauseLookup::NotYet,
            work: Vec::new(),
        });
        if self.calls.len() > MOST_CALLS
            && let Some(oldest) = self.calls.pop_front()
        {
            if self.by_correlation.get(&oldest.call.correlation) == Some(&self.first_call) {
                self.by_correlation.remove(&oldest.call.correlation);
            }
            self.first_call += 1;
            self.at_calls -= oldest.work.len();
            let work = oldest.work.into_iter().map(|work| (work, None));
            self.ready.extend(work);
        }
    }

    /// The call that caused work, if CUPTI has reported it.
    fn reported(&self, correlation: u32) -> Option<&ReportedCall> {
        let number = self.by_correlation.get(&correlation)?;
        (self.calls).get(usize::try_from(number.checked_sub(self.first_call)?).ok()?)
    }

    /// Keeps work until its call is known.
    fn wait(&mut self, since: u64, work: Activity) {
        if let Err(work) = self.bring_to_call(work) {
            self.unreported.push_back((since, work));
        }
    }

    /// Gives work to its call. Back if that is not known, or if too much waits.
    fn bring_to_call(&mut self, work: Activity) -> Result<(), Activity> {
        let first = self.first_call;
        let number = self.by_correlation.get(&place(&work).correlation);
        let reported = number.and_then(|number| {
            let at = usize::try_from(number.checked_sub(first)?).ok()?;
            self.calls.get_mut(at)
        });
        let Some(reported) = reported else {
            return Err(work);
        };
        match reported.found {
            CauseLookup::Call(cause) => self.ready.push((work, Some(cause))),
            CauseLookup::Never => self.ready.push((work, None)),
            CauseLookup::NotYet if self.at_calls >= MOST_WAITING => return Err(work),
            CauseLookup::NotYet => {
                reported.work.push(work);
                self.at_calls += 1;
            }
        }
        Ok(())
    }

    /// Work whose call is known, or will not be; in no order. `last`: nothing more will come.
    pub fn take_work(&mut self, calls: &Calls, now: u64, last: bool) -> Vec<Work> {
        // Not when their work comes: that may be long after, and seen calls are not kept for ever.
        self.find_causes(calls, last);
        for _ in 0..self.unreported.len() {
            let Some((since, work)) = self.unreported.pop_front() else {
                break;
            };
            let patient = !last && now.saturating_sub(since) < PATIENCE;
            match self.bring_to_call(work) {
                Ok(()) => {}
                Err(work) if patient => self.unreported.push_back((since, work)),
                Err(work) => self.ready.push((work, None)),
            }
        }
        let mut done = Vec::with_capacity(self.ready.len());
        for (work, cause) in std::mem::take(&mut self.ready) {
            done.extend(self.work(&work, cause));
        }
        self.take_timed(calls, now, last, &mut done);
        done
    }

    /// Asks for the causes of calls; work of those that have one waits no longer, nor any if this is the last time. Calls
    /// come nearly in the order of time: once several in a row are farther than what has been seen, so are the rest. In a
    /// flood there are hundreds of thousands of those.
    fn find_causes(&mut self, calls: &Calls, last: bool) {
        let slack = self.clock.error().clamp(100, 2_000);
        let horizon = calls.horizon();
        let mut kept = Vec::new();
        let mut beyond = 0;
        while beyond < MOST_BEYOND {
            let Some(number) = self.unresolved.pop_front() else {
                break;
            };
            let at = number.checked_sub(self.first_call);
            let reported = at.and_then(|at| self.calls.get_mut(usize::try_from(at).ok()?));
            let Some(reported) = reported else {
                continue;
            };
            let to_host = |time| self.clock.to_host(time).unwrap_or(time);
            let span = (to_host(reported.call.start), to_host(reported.call.end));
            if last || horizon.reaches(span, slack) {
                reported.found = calls.find(self.pid, reported.call.thread, span, slack);
                beyond = 0;
            } else {
                beyond += 1;
            }
            let cause = match reported.found {
                CauseLookup::Call(cause) => Some(cause),
                CauseLookup::NotYet if !last => {
                    kept.push(number);
                    continue;
                }
                CauseLookup::NotYet | CauseLookup::Never => None,
            };
            self.at_calls -= reported.work.len();
            let work = std::mem::take(&mut reported.work);
            self.ready
                .extend(work.into_iter().map(|work| (work, cause)));
        }
        for number in kept.into_iter().rev() {
            self.unresolved.push_front(number);
        }
    }

    /// The same of work that events were put around.
    fn take_timed(&mut self, calls: &Calls, now: u64, last: bool, done: &mut Vec<Work>) {
        for _ in 0..self.timed.len() {
            let Some(waiting) = self.timed.pop_front() else {
                break;
            };
            let patient = !last && self.timed.len() < MOST_WAITING && waiting.is_patient(now);
            match waiting.resolve(self.pid, calls, patient) {
                None => self.timed.push_back(waiting),
                Some(work) => {
                    match waiting.piece.kind {
                        frames::Timed::KERNEL => self.counts.kernels += 1,
                        frames::Timed::COPY => self.counts.copies += 1,
                        frames::Timed::FILL => self.counts.fills += 1,
                        _ => self.counts.graphs += 1,
                    }
                    self.counts.unlinked += u64::from(work.cause.is_none());
                    self.timed_error = self.timed_error.max(waiting.piece.clock_error);
                    done.push(work);
                }
            }
        }
    }

    pub fn take_graph_nodes(&mut self) -> Vec<GraphNode> {
        std::mem::take(&mut self.graph_nodes)
    }

    /// How many calls and pieces of work wait.
    pub fn waiting(&self) -> usize {
        self.unresolved.len() + self.unreported.len() + self.timed.len()
    }

    /// The earliest work that still waits for its call.
    pub fn earliest_waiting(&self) -> Option<u64> {
        let unresolved = self.unresolved.iter().filter_map(|number| {
            let at = number.checked_sub(self.first_call)?;
            self.calls.get(usize::try_from(at).ok()?)
        });
        let at_calls = unresolved.flat_map(|reported| &reported.work);
        let unreported = self.unreported.iter().map(|(_, work)| work);
        let starts = at_calls.chain(unreported).map(|work| place(work).start);
        let by_cupti = starts.min().map(|start| self.to_host(start));
        let by_events = self.timed.iter().map(|waiting| waiting.piece.start).min();
        by_cupti.into_iter().chain(by_events).min()
    }

    /// A time of CUPTI's; as it is, while the program has not paired the clocks.
    fn to_host(&self, time: u64) -> u64 {
        self.clock.to_host(time).unwrap_or(time)
    }

    fn work(&mut self, record: &Activity, cause: Option<Cause>) -> Option<Work> {
        let place = place(record);
        match record {
            Activity::Kernel(_) => self.counts.kernels += 1,
            Activity::Copy(_) => self.counts.copies += 1,
            Activity::Synchronisation(_) => self.counts.waits += 1,
            _ => self.counts.fills += 1,
        }
        if place.start == 0 || place.end < place.start {
            self.counts.untimed += 1;
            return None;
        }
        self.counts.unlinked += u64::from(cause.is_none());
        let (context, stream) = match record {
            Activity::Synchronisation(_) => self.waited_for(place, cause),
            _ => self.names_of(place, cause),
        };
        let thread = (self.reported(place.correlation)).map(|reported| reported.call.thread);
        let name = match record {
            Activity::Kernel(kernel) => self.names.get(&kernel.name).cloned(),
            _ => None,
        };
        Some(Work {
            pid: self.pid,
            thread,
            start: self.to_host(place.start),
            end: self.to_host(place.end),
            record: *record,
            timed: None,
            name,
            cause,
            context,
            stream,
        })
    }

    /// The context and the stream that were waited for. Such a call teaches nothing: the stream may be
    /// of another context than the call.
    fn waited_for(&self, place: WorkPlacement, cause: Option<Cause>) -> (u64, Option<u64>) {
        let context = self.contexts.get(&place.context).copied();
        let context = context.or(cause.and_then(|cause| cause.context));
        let stream = (place.stream != NONE).then(|| {
            let known = self.streams.get(&(place.context, place.stream)).copied();
            let named = known.or(cause.and_then(|cause| cause.stream));
            named.unwrap_or(place.stream.into())
        });
        (context.unwrap_or(place.context.into()), stream)
    }

    /// The context and the stream as the program calls them: its calls teach them.
    fn names_of(&mut self, place: WorkPlacement, cause: Option<Cause>) -> (u64, Option<u64>) {
        let mut context = self.contexts.get(&place.context).copied();
        if let Some(named) = cause.and_then(|cause| cause.context) {
            self.contexts.insert(place.context, named);
            context = Some(named);
        }
        let key = (place.context, place.stream);
        let mut stream = self.streams.get(&key).copied();
        if let Some(named) = cause.and_then(|cause| cause.stream) {
            if place.graph == 0 {
                self.streams.insert(key, named);
                stream = Some(named);
            } else {
                // Branches of a graph run in streams that nobody has named: they are the launch's.
                stream = stream.or(Some(named));
            }
        }
        // A call without a stream has the default one.
        let default = cause.is_some().then_some(0);
        (
            context.unwrap_or(place.context.into()),
            stream.or(default).or(Some(place.stream.into())),
        )
    }
}

/// A piece of the GPU's work, on the host's clock.
#[derive(Debug, Clone)]
pub struct Work {
    pub pid: u32,
    /// The one that made the call, where CUPTI tells.
    pub thread: Option<u32>,
    pub start: u64,
    pub end: u64,
    pub record: Activity,
    /// Timed by events, not by CUPTI.
    pub timed: Option<ByEvents>,
    /// A kernel's.
    pub name: Option<Name>,
    pub cause: Option<Cause>,
    pub context: u64,
    pub stream: Option<u64>,
}

/// What is special about work that events were put around.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ByEvents {
    /// How wrong the times may be.
    pub error: u64,
    /// One piece of so many was timed.
    pub every: u64,
    /// A launch of a whole graph.
    pub is_graph: bool,
    pub direction: Option<Direction>,
}

pub fn place(record: &Activity) -> WorkPlacement {
    match record {
        Activity::Kernel(kernel) => kernel.place,
        Activity::Copy(copy) => copy.place,
        Activity::Fill(fill) => fill.place,
        Activity::Synchronisation(sync) => WorkPlacement {
            start: sync.start,
            end: sync.end,
            context: sync.context,
            stream: sync.stream,
            correlation: sync.correlation,
            ..WorkPlacement::default()
        },
        _ => WorkPlacement::default(),
    }
}
