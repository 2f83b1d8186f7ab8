//! Raw steps of all threads become records of a trace, in the order of time.

mod driver;
mod hosts;
mod ranges;

use super::filter::Filter;
use super::for_cupti::ForCupti;
use super::item::{Batch, Item, Step, Within};
use super::loaded::Objects;
use super::order::Order;
use super::origin::{Named, Origin};
use super::role::{Observed, Role};
use super::signature::{Signature, Words};
use super::stacks::Stacks;
use super::state::{Kernel, ProcessState, ThreadState};
use super::stubs::Stubs;
use super::symbols::Symbols;
use super::{meaning, remote};
use crate::{Deadline, Sink, SinkError};
use event::{Arg, Event, Extent, Frame, Layer, Lost, Meaning, Name, Record, Value, What};
use std::collections::{HashMap, HashSet};
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
    by_name: HashMap<(Name, Option<String>), Arc<Signature>>,
    symbols: Option<Symbols>,
    stubs: Stubs,
    held: driver::WaitingRecords,
    next_id: u64,
    /// How many calls of a function there were, where only one of many is shown; None: all are.
    sampled: HashMap<Name, Option<u64>>,
    /// The process files were read again since the last batch came.
    refreshed: bool,
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
    /// Records that came too late for their place in time.
    pub late: u64,
    /// Records that the sink did not take, and why it did not take the first of them.
    pub unwritten: u64,
    pub failure: Option<SinkError>,
}

/// One ring's thread.
struct Thread<T> {
    pid: u32,
    tid: u32,
    /// Where its process's state is.
    process: usize,
    image: Option<usize>,
    times: T,
    open: Vec<OpenCall>,
    state: ThreadState,
    /// The kernel whose name the last call asked for.
    asked: Option<u64>,
    /// Payloads of calls that have ended and whose beginnings are still to be written.
    ended: HashMap<u64, Box<[u8]>>,
    /// Calls that were shorter than what is asked for.
    short: HashSet<u64>,
    stacks: Stacks,
    /// Calls of NVTX that have not returned.
    told: Vec<ranges::NvtxCall>,
}

struct OpenCall {
    sequence: u64,
    event: Event,
    signature: Arc<Signature>,
    words: Words,
    /// All of it, once the call has returned.
    payload: Option<Box<[u8]>>,
    hidden: bool,
    /// Where a launch returns to, where its kernel may have no other name.
    caller: Option<u64>,
    /// What calls below this one meant, for it to tell.
    below: Vec<What>,
    /// Handles of the driver's that calls below this one have launched.
    inner: Vec<u64>,
    /// It is no call but a range that the program has pushed, of this domain.
    domain: Option<u64>,
}

impl<O: Origin, S: Sink> Assembler<O, S> {
    pub fn new(origin: O, limits: Limits, sink: S) -> Self {
        Assembler {
            origin,
            limits,
            sink,
            rings: Vec::new(),
            order: Order::default(),
            states: States::default(),
            signatures: Vec::new(),
            by_name: HashMap::new(),
            symbols: None,
            stubs: Stubs::default(),
            held: driver::WaitingRecords::default(),
            next_id: 1,
            sampled: HashMap::new(),
            refreshed: false,
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
            process: self.states.of(pid),
            image: None,
            times: self.origin.times(None),
            open: Vec::new(),
            state: ThreadState::default(),
            asked: None,
            ended: HashMap::new(),
            short: HashSet::new(),
            stacks: Stacks::default(),
            told: Vec::new(),
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
        while let Some((time, ring, item, batch)) = {
            let (rings, origin) = (&self.rings, &self.origin);
            self.order.next(until, |ring, time| {
                rings
                    .get(ring)
                    .map_or(time, |thread| origin.to_host(&thread.times, time))
            })
        } {
            self.step(ring, time, &item, &batch);
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

    fn step(&mut self, ring: usize, time: u64, item: &Item, batch: &Batch) {
        if self.held.is_over(time) {
            self.release();
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
                        Vec::new()
                    } else {
                        self.frames(ring, *stack, item.time)
                    },
                };
                self.begin_any(ring, *function, begin);
            }
            // Its end is a step of its own.
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
                    stack: Vec::new(),
                };
                self.begin_any(ring, u32::from(*function), begin);
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

    /// A call, or what a program tells by NVTX.
    fn begin_any(&mut self, ring: usize, function: u32, begin: Begin<'_>) {
        let signature = self.signature(ring, function);
        match signature.nvtx {
            Some(function) => self.range_begin(ring, function, signature, &begin),
            None => self.begin(ring, signature, begin),
        }
    }

    /// The stack of that number; `time` is of the process's own clock.
    fn frames(&mut self, ring: usize, stack: u32, time: u64) -> Vec<Frame> {
        let nothing = Objects::default();
        let Some(thread) = self.rings.get_mut(ring) else {
            return Vec::new();
        };
        // What was loaded was said before it was called from.
        if !thread.stacks.is_named(stack) && !std::mem::replace(&mut self.refreshed, true) {
            self.origin.refresh();
        }
        let objects = thread.image.and_then(|image| self.origin.objects(image));
        let objects = objects.unwrap_or(&nothing);
        let symbols = self.symbols.get_or_insert_default();
        thread.stacks.frames(stack, time, objects, symbols).to_vec()
    }

    fn begin(&mut self, ring: usize, signature: Arc<Signature>, begin: Begin<'_>) {
        let thread = &mut self.rings[ring];
        let ended = taken(&mut thread.ended, begin.sequence);
        let payload: Option<Box<[u8]>> = match ended {
            Some(bytes) => Some(bytes),
            None if begin.complete => Some(begin.payload.into()),
            None => None,
        };
        let words = signature.words(begin.args, begin.payload);
        let mut event = Event::new(
            self.next_id,
            signature.layer,
            signature.category,
            signature.name.clone(),
            begin.time,
        );
        self.next_id += 1;
        event.extent = Extent::Open;
        (event.pid, event.tid) = (thread.pid, thread.tid);
        let mut shown = thread.open.iter().rev().filter(|call| !call.hidden);
        event.parent = shown.next().map(|call| call.event.id);
        event.depth = u32::from(event.parent.is_some()) + shown.count() as u32;
        event.args = signature.arguments(&words, payload.as_deref());
        if let Some(payload) = &payload {
            complete_text(thread.pid, &signature, &words, payload, &mut event.args);
        }
        event.context = thread.state.context();
        event.device = thread.state.device(&self.states.all[thread.process]);
        event.stream = signature
            .stream(&words)
            .or_else(|| stream_in_config(&event).map(|stream| signature.default_stream(stream)));
        self.place(ring, &mut event);
        if let Some(device) = signature.device(&words) {
            (event.device, event.context) = (Some(device), None);
        }
        let thread = &self.rings[ring];
        event.stack = begin.stack;
        let caller = match self.limits.hosts {
            true => event.stack.first().map(|frame| frame.address),
            false => None,
        };
        // One address alone was not asked for: it is there for the kernel's name.
        if caller.is_some() && (event.stack.iter()).all(|frame| Some(frame.address) == caller) {
            event.stack.clear();
        }
        let mut hidden = signature.hidden
            || leads_to(thread.open.last(), &signature)
            || (!thread.short.is_empty() && thread.short.contains(&begin.sequence))
            || self.limits.deadline.leaves_out(begin.time);
        if !hidden && self.limits.sample > 1 && !self.is_in_sample(&signature.name) {
            self.totals.not_sampled += 1;
            hidden = true;
        }
        self.totals.recorded += 1;
        if !hidden {
            self.totals.calls += 1;
            let thread = &mut self.rings[ring];
            let around = thread.open.last().map(|call| &*call.signature);
            self.totals
                .for_cupti
                .begin(&mut thread.asked, &signature, &words, around);
        }
        let record = Record::Event(event);
        if !hidden {
            self.write(&record);
        }
        let Record::Event(event) = record else {
            return;
        };
        self.rings[ring].open.push(OpenCall {
            sequence: begin.sequence,
            event,
            signature,
            words,
            payload,
            hidden,
            caller,
            below: Vec::new(),
            inner: Vec::new(),
            domain: None,
        });
    }

    /// The first call of a function, and every so many from there on; all of those that others are understood by.
    fn is_in_sample(&mut self, name: &Name) -> bool {
        if let Some(calls) = self.sampled.get_mut(name) {
            let before = calls.map(|calls| calls.is_multiple_of(u64::from(self.limits.sample)));
            *calls = calls.map(|calls| calls + 1);
            return before.unwrap_or(true);
        }
        let calls = Filter::stands_alone(name).then_some(1);
        self.sampled.insert(name.clone(), calls);
        true
    }

    /// The call returned that, or never returned.
    fn end(&mut self, ring: usize, time: u64, sequence: u64, left: CallEnd) {
        if !self.rings[ring].told.is_empty() && self.range_end(ring, time, sequence) {
            return;
        }
        let thread = &mut self.rings[ring];
        if !thread.short.is_empty() {
            thread.short.remove(&sequence);
        }
        let ended = taken(&mut thread.ended, sequence);
        let Some(place) = thread
            .open
            .iter()
            .rposition(|call| call.sequence == sequence)
        else {
            return;
        };
        let mut call = thread.open.remove(place);
        // What it called has not returned and never will; ranges end when the program says so.
        if thread.open.len() > place {
            let inside = thread.open.split_off(place);
            thread
                .open
                .extend(inside.into_iter().filter(|one| one.domain.is_some()));
        }
        let duration = time.saturating_sub(call.event.start);
        call.event.extent = Extent::Closed(duration);
        let mut meanings = match left {
            CallEnd::Unwound => {
                call.event.outputs = vec![Arg::new("unwound", true)];
                std::mem::take(&mut call.below)
            }
            CallEnd::Unseen => {
                call.event.outputs = vec![Arg::new("entry_only", true)];
                std::mem::take(&mut call.below)
            }
            CallEnd::Returned(result) => {
                call.event.status = call.signature.status(result);
                if call.payload.is_none() {
                    // It was still running when its beginning was written.
                    let payload = ended.unwrap_or_default();
                    let mut late = call.signature.late_arguments(&call.words, &payload);
                    complete_text(
                        thread.pid,
                        &call.signature,
                        &call.words,
                        &payload,
                        &mut late,
                    );
                    call.event.outputs = late;
                    call.payload = Some(payload);
                }
                if call.signature.succeeded(result) {
                    self.succeeded(ring, &mut call)
                } else {
                    self.place_late(ring, &mut call.event);
                    // What was done below was done all the same.
                    std::mem::take(&mut call.below)
                }
            }
        };
        if !call.hidden {
            let mut waits = false;
            if self.limits.hosts {
                let waiting = self.name_by_driver(ring, &mut call, &mut meanings);
                waits = !waiting.is_empty();
                self.await_names(ring, call.event.start, waiting);
            }
            let record = Record::Event(call.event);
            self.write(&record);
            if let Record::Event(event) = &record {
                for mut what in meanings {
                    if self.limits.hosts && !waits {
                        hosts::say_unknown(&mut what);
                    }
                    self.write(&Record::Meaning(Meaning::of(event, what)));
                }
            }
        }
    }

    /// The runtime chooses a device when it first needs one: inside of a call, whatever becomes of
    /// that.
    fn place_late(&self, ring: usize, event: &mut Event) {
        if event.layer == Layer::Runtime && event.device.is_none() {
            let thread = &self.rings[ring];
            event.device = thread.state.device(&self.states.all[thread.process]);
            event.context = thread.state.context();
        }
    }

    /// A call's outputs, what it tells of later calls, and what it meant. Of nested calls that say
    /// the same the outermost one speaks, once, and by what those inside of it knew where it does
    /// not know itself.
    fn succeeded(&mut self, ring: usize, call: &mut OpenCall) -> Vec<What> {
        let payload = call.payload.as_deref().unwrap_or_default();
        let outputs = call.signature.outputs(&call.words, payload);
        call.event.outputs.extend(outputs);
        if call.event.stream.is_none() {
            let stream = stream_in_config(&call.event);
            call.event.stream = stream.map(|stream| call.signature.default_stream(stream));
            self.place(ring, &mut call.event);
        }
        if let Some(kernel) = meaning::node_kernel(&call.event) {
            let thread = &self.rings[ring];
            let (image, pid) = (thread.image, thread.pid);
            let known = kernel_name(&self.states, &self.origin, image, pid, kernel);
            let name = known.or_else(|| {
                let is_driver = self.limits.hosts && call.signature.layer == Layer::Driver;
                is_driver.then(|| self.driver_name(ring, kernel, call.event.start))?
            });
            if let Some(name) = name {
                call.event.outputs.push(Arg::new("kernel", name));
            }
        }
        self.observe(ring, call);
        if self.limits.hosts
            && let Role::Launch(form) = call.signature.role
        {
            self.name_by_host(ring, call, form);
            self.learn_from_launch(ring, call, form);
        }
        self.place_late(ring, &mut call.event);
        let role = call.signature.role;
        let below = std::mem::take(&mut call.below);
        if role == Role::None {
            return below;
        }
        let thread = &mut self.rings[ring];
        let kernels: Vec<Option<Name>> = match role {
            Role::Launch(form) => {
                let handles = meaning::kernel_handles(&call.event, form).into_iter();
                let below = below.iter().map(|what| match what {
                    What::Launch(launch) if !launch.kernel.starts_with("0x") => {
                        Some(launch.kernel.clone())
                    }
                    _ => None,
                });
                let below = below.chain(std::iter::repeat(None));
                let states = (&self.states, &self.origin);
                handles
                    .zip(below)
                    .map(|(handle, below)| {
                        kernel_name(states.0, states.1, thread.image, thread.pid, handle).or(below)
                    })
                    .collect()
            }
            _ => Vec::new(),
        };
        let launched = match role {
            Role::Launch(form) if self.limits.hosts => Self::driver_handles(call, form),
            _ => Vec::new(),
        };
        let process = &mut self.states.all[thread.process];
        // What is given back is gone from the books after the call inside.
        let meant = if role == Role::Free && !below.is_empty() {
            below
        } else {
            let meant = meaning::of(role, &call.event, &kernels, process);
            if meant.is_empty() { below } else { meant }
        };
        let outer = thread
            .open
            .iter_mut()
            .rev()
            .find(|outer| !outer.hidden && outer.signature.role.says_the_same(role));
        if let Some(outer) = outer {
            outer.below.extend(meant);
            outer.inner.extend(launched);
            return Vec::new();
        }
        meant
    }

    /// Device and context of a call: those of its stream where that is known, else the thread's.
    fn place(&self, ring: usize, call: &mut Event) {
        let thread = &self.rings[ring];
        let process = &self.states.all[thread.process];
        let of_stream = call
            .stream
            .and_then(|stream| process.contexts.of_stream(stream));
        if let Some((context, device)) = of_stream {
            call.context = context.or(call.context);
            call.device = device.or(call.device);
        }
    }

    fn observe(&mut self, ring: usize, call: &OpenCall) {
        let thread = &mut self.rings[ring];
        let number = |name: &str| call.event.arg(name).and_then(Value::as_u64);
        match call.signature.observed {
            Observed::Nothing => {}
            Observed::KernelName { handle, text } => {
                let name = call.event.arg(text).and_then(Value::as_str);
                // One that comes back may have been cut, and is worth less than one that was given.
                let whole = |name: &&str| name.len() < cuda::capture::TEXT_BYTES.into();
                let process = &mut self.states.all[thread.process];
                let was_given = call.event.args.iter().any(|arg| &*arg.name == text);
                if let (Some(handle), Some(name)) = (number(handle), name)
                    && (was_given || (whole(&name) && process.kernel(handle).is_none()))
                {
                    process.name_kernel(handle, name);
                    self.learn_from_call(ring, call, handle);
                }
            }
            Observed::KernelAlias { handle, known } => {
                let kernel = number(known).and_then(|known| {
                    known_kernel(&self.states, &self.origin, thread.image, thread.pid, known)
                });
                if let (Some(handle), Some(kernel)) = (number(handle), kernel.cloned()) {
                    self.states.all[thread.process].set_kernel(handle, kernel);
                    self.learn_from_call(ring, call, handle);
                }
            }
            Observed::BlockShape => {
                let size = |name| number(name).and_then(|size| u32::try_from(size).ok());
                if let (Some(kernel), Some(x), Some(y), Some(z)) =
                    (number("hfunc"), size("x"), size("y"), size("z"))
                {
                    self.states.all[thread.process].set_block(kernel, [x, y, z]);
                }
            }
            Observed::SharedSize => {
                if let (Some(kernel), Some(bytes)) = (number("hfunc"), number("bytes")) {
                    self.states.all[thread.process].set_shared(kernel, bytes);
                }
            }
            Observed::Context(step) => {
                let process = &mut self.states.all[thread.process];
                thread.state.step(step, &call.event, process);
            }
        }
    }

    fn lost(&mut self, ring: usize, time: u64, count: u64) {
        let thread = &self.rings[ring];
        // A ring without a process stands for all of them.
        let known = thread.pid != 0;
        let (pid, tid) = (known.then_some(thread.pid), known.then_some(thread.tid));
        self.totals.lost = self.totals.lost.saturating_add(count);
        self.write(&Record::Lost(Lost {
            ts: time,
            count,
            source: Some(self.origin.name().into()),
            layer: None,
            pid,
            tid,
        }));
    }

    /// Tells the sink what is hooked, once.
    pub fn begin_sink(&mut self) {
        if !std::mem::replace(&mut self.begun, true)
            && let Err(why) = self.sink.begin(self.origin.backend())
        {
            self.totals.failure = Some(why);
        }
    }

    fn write(&mut self, record: &Record) {
        if !self.held.takes(record) {
            self.put(record);
        }
    }

    fn put(&mut self, record: &Record) {
        if !self.begun {
            self.origin.refresh();
            self.begin_sink();
        }
        self.totals.late += u64::from(record.ts() < self.latest);
        self.latest = self.latest.max(record.ts());
        if self.totals.failure.is_some() {
            self.totals.unwritten += 1;
        } else if let Err(why) = self.sink.write(record) {
            // The program goes on, and so does draining: only the trace ends here.
            self.totals.unwritten += 1;
            self.totals.failure = Some(why);
        }
    }

    fn signature(&mut self, ring: usize, function: u32) -> Arc<Signature> {
        let Some(image) = self.rings[ring].image else {
            return Arc::new(unknown(function));
        };
        let known = self
            .signatures
            .get(image)
            .and_then(|image| image.get(function as usize));
        if let Some(Some(known)) = known {
            return known.clone();
        }
        let mut named = self.origin.function(image, function);
        if named.is_none() && !std::mem::replace(&mut self.refreshed, true) {
            self.origin.refresh();
            named = self.origin.function(image, function);
        }
        let Some(named) = named else {
            return Arc::new(unknown(function));
        };
        let key = (named.name.clone(), named.library.clone());
        let made = || {
            let major = named.library.as_deref().and_then(cuda::runtime_version);
            let plan = self.origin.plan(&named.name, major);
            let mut signature = Signature::new(&named, &plan);
            let filter = self.limits.filter.as_ref();
            let asked = (signature.nvtx).map_or(&*named.name, |function| function.family());
            signature.hidden = filter.is_some_and(|filter| !filter.wants(asked));
            Arc::new(signature)
        };
        let signature = self.by_name.entry(key).or_insert_with(made).clone();
        if self.signatures.len() <= image {
            self.signatures.resize_with(image + 1, Vec::new);
        }
        let of_image = &mut self.signatures[image];
        let place = function as usize;
        if of_image.len() <= place {
            of_image.resize(place + 1, None);
        }
        of_image[place] = Some(signature.clone());
        signature
    }
}

/// Whether the call around is of a function that only leads to this one: another library's under the same
/// name, a stub or a wrapper. Both are one call.
fn leads_to(around: Option<&OpenCall>, signature: &Arc<Signature>) -> bool {
    matches!(signature.layer, Layer::Runtime | Layer::Driver)
        && around.is_some_and(|around| {
            around.signature.name == signature.name && !Arc::ptr_eq(&around.signature, signature)
        })
}

/// The states of all processes; threads know the place of theirs.
#[derive(Default)]
struct States {
    all: Vec<ProcessState>,
    places: HashMap<u32, usize>,
}

impl States {
    fn of(&mut self, pid: u32) -> usize {
        let next = self.all.len();
        let place = *self.places.entry(pid).or_insert(next);
        if place == next {
            self.all.push(ProcessState::default());
        }
        place
    }

    fn get(&self, pid: u32) -> Option<&ProcessState> {
        self.all.get(*self.places.get(&pid)?)
    }
}

/// Most calls have no payload of their own to wait for: do not even hash then.
fn taken(ended: &mut HashMap<u64, Box<[u8]>>, sequence: u64) -> Option<Box<[u8]>> {
    if ended.is_empty() {
        return None;
    }
    ended.remove(&sequence)
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
    stack: Vec<Frame>,
}

fn unknown(function: u32) -> Signature {
    let named = Named {
        name: format!("function {function}").into(),
        library: None,
    };
    Signature::new(&named, &cuda::capture::plan(&named.name, None))
}

/// The stream in a launch's description.
fn stream_in_config(call: &Event) -> Option<u64> {
    let Value::Map(config) = call.arg("config")? else {
        return None;
    };
    let stream = config
        .iter()
        .find(|field| matches!(&*field.name, "hStream" | "stream"))?;
    stream.value.as_u64()
}

/// A kernel's name; a forked child has those its parent had.
fn kernel_name(
    states: &States,
    origin: &impl Origin,
    image: Option<usize>,
    pid: u32,
    handle: u64,
) -> Option<Name> {
    known_kernel(states, origin, image, pid, handle).map(|kernel| kernel.name.clone())
}

fn known_kernel<'a>(
    states: &'a States,
    origin: &impl Origin,
    image: Option<usize>,
    pid: u32,
    handle: u64,
) -> Option<&'a Kernel> {
    let own = states.get(pid).and_then(|state| state.kernel(handle));
    own.or_else(|| {
        let parent = origin.parent(image?)?;
        states.get(parent)?.kernel(handle)
    })
}

/// Texts that were cut are read whole from the process, if it still lives.
fn complete_text(pid: u32, signature: &Signature, words: &Words, payload: &[u8], args: &mut [Arg]) {
    let Some((name, address)) = signature.cut_text(words, payload) else {
        return;
    };
    let cut = args.iter_mut().find(|arg| arg.name == *name);
    if let Some(Value::Str(text)) = cut.map(|arg| &mut arg.value) {
        *text = match remote::read_text(pid, address) {
            Some(whole) if whole.starts_with(&**text) => whole.into(),
            _ => format!("{text}…").into(),
        };
    }
}
