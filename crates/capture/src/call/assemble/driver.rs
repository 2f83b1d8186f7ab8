//! Kernels that neither the calls nor the program's functions name: the driver's own structures do, once it is known how
//! they are made up. That is learnt from launches whose kernels are known. Records wait a moment for it, so that the first
//! launches have names, too.

use super::{Assembler, OpenCall, hosts};
use crate::Sink;
use crate::call::driver_names::Process;
use crate::call::item::{Batch, Step};
use crate::call::meaning;
use crate::call::origin::Origin;
use crate::call::role::{Form, Role};
use event::{Arg, Layer, Name, Record, What};
use std::collections::HashSet;

/// How long records wait, in nanoseconds, and how many.
const LONGEST_HOLD: u64 = 500_000_000;
const MOST_HELD: usize = 64 << 10;

/// Records that wait.
#[derive(Default)]
pub(super) struct WaitingRecords {
    records: Vec<Record>,
    launches: Vec<Nameless>,
    until: u64,
    /// Processes that have been waited for: only once each.
    waited: HashSet<usize>,
}

/// A launch that has no name yet.
struct Nameless {
    /// Where the call and its meaning are.
    call: usize,
    meaning: usize,
    process: usize,
    pid: u32,
    handle: u64,
    time: u64,
}

impl WaitingRecords {
    pub(super) fn waits(&self) -> bool {
        self.until > 0
    }

    pub(super) fn keep(&mut self, record: Record) {
        self.records.push(record);
    }

    pub(super) fn is_over(&self, time: u64) -> bool {
        self.until > 0 && (time > self.until || self.records.len() >= MOST_HELD)
    }

    /// Until when everything has been written, if the steps have come so far.
    pub(super) fn passed(&self, until: u64) -> u64 {
        let first = self.records.first().map(Record::ts);
        first.map_or(until, |first| until.min(first))
    }
}

impl<O: Origin, S: Sink> Assembler<O, S> {
    /// The driver's handles of what a call has launched: its own, or those of the call inside.
    pub(super) fn driver_handles(call: &OpenCall, form: Form) -> Vec<u64> {
        match call.signature.layer {
            Layer::Driver => meaning::kernel_handles(call.event(), form),
            _ => call.inner.clone(),
        }
    }

    /// A launch of a kernel that is known tells of the handle that the driver was given.
    pub(super) fn learn_from_launch(&mut self, ring: usize, call: &OpenCall, form: Form) {
        if call.signature.layer == Layer::Driver || form != Form::One {
            return;
        }
        let process = self.rings[ring].process;
        let own = meaning::kernel_handles(call.event(), form);
        if let ([own], [handle]) = (&*own, &*call.inner)
            && let Some(known) = self.states.all[process].kernel(*own)
        {
            let (name, certain) = (known.name.clone(), known.certain);
            self.teach(ring, *handle, &name, certain);
        }
    }

    /// A call has told of a handle of the driver's.
    pub(super) fn learn_from_call(&mut self, ring: usize, call: &OpenCall, handle: u64) {
        let process = self.rings[ring].process;
        if self.limits.hosts
            && call.signature.layer == Layer::Driver
            && let Some(known) = self.states.all[process].kernel(handle)
        {
            let (name, certain) = (known.name.clone(), known.certain);
            self.teach(ring, handle, &name, certain);
        }
    }

    /// Calls that give code back are heard of before their turn: memory is read as it is now, and not as it was at the
    /// time of the calls before.
    pub(super) fn hear_of_unloads(&mut self, batch: &Batch) {
        for item in &batch.items {
            let function = match item.step {
                Step::Begin { function, .. } => function,
                Step::Whole { function, .. } => function.into(),
                _ => continue,
            };
            if self.signature(batch.ring, function).unloads {
                let thread = &self.rings[batch.ring];
                let time = self.origin.to_host(&thread.times, item.time);
                let names = &mut self.states.all[thread.process].driver_names;
                names.unloaded(time);
            }
        }
    }

    /// The kernel with this handle of the driver's has this name.
    fn teach(&mut self, ring: usize, handle: u64, name: &Name, certain: bool) {
        let thread = &self.rings[ring];
        let names = &mut self.states.all[thread.process].driver_names;
        let more = names.teach(&Process::new(thread.pid), handle, name, certain);
        if more && self.held.until > 0 && self.all_have_names() {
            self.release();
        }
    }

    fn all_have_names(&mut self) -> bool {
        let states = &mut self.states.all;
        (self.held.launches.iter()).all(|one| {
            let names = &mut states[one.process].driver_names;
            (names.name(&Process::new(one.pid), one.handle, one.time)).is_some()
        })
    }

    /// What the driver calls a kernel.
    pub(super) fn driver_name(&mut self, ring: usize, handle: u64, time: u64) -> Option<Name> {
        let thread = &self.rings[ring];
        let names = &mut self.states.all[thread.process].driver_names;
        names.name(&Process::new(thread.pid), handle, time)
    }

    /// Names for the kernels of a launch that have none. Those that have none yet: which of the meanings, and the
    /// handle.
    pub(super) fn name_by_driver(
        &mut self,
        ring: usize,
        call: &mut OpenCall,
        meanings: &mut [What],
    ) -> Vec<(usize, u64)> {
        let mut waiting = Vec::new();
        let Role::Launch(form) = call.signature.role else {
            return waiting;
        };
        let (process, pid) = (self.rings[ring].process, self.rings[ring].pid);
        let handles = Self::driver_handles(call, form);
        for (place, what) in meanings.iter_mut().enumerate() {
            let What::Launch(launch) = what else {
                continue;
            };
            if !launch.kernel.starts_with("0x") {
                continue;
            }
            let handle = handles.get(place).copied();
            let time = call.event().start;
            let mut name = handle.and_then(|handle| self.driver_name(ring, handle, time));
            let waits = !self.held.waited.contains(&process) || self.held.until > 0;
            match (&name, handle) {
                (None, Some(handle)) if waits => waiting.push((place, handle)),
                (None, Some(handle)) => {
                    let names = &mut self.states.all[process].driver_names;
                    if names.agree(&Process::new(pid)) {
                        name = self.driver_name(ring, handle, time);
                    }
                }
                _ => {}
            }
            if let Some(name) = name {
                launch.kernel = name;
                say_whence(&mut call.event_mut().outputs);
            }
        }
        if !waiting.is_empty() && self.held.waited.insert(process) {
            let until = call.event().start.saturating_add(LONGEST_HOLD);
            self.held.until = self.held.until.max(until);
        }
        waiting
    }

    /// The next records are a launch that waits for names, and what it means.
    pub(super) fn await_names(&mut self, ring: usize, time: u64, waiting: Vec<(usize, u64)>) {
        let (process, pid) = (self.rings[ring].process, self.rings[ring].pid);
        let call = self.held.records.len();
        for (place, handle) in waiting {
            self.held.launches.push(Nameless {
                call,
                meaning: call + 1 + place,
                process,
                pid,
                handle,
                time,
            });
        }
    }

    /// Writes what has waited, with the names that have been found.
    pub(super) fn release(&mut self) {
        self.held.until = 0;
        let mut records = std::mem::take(&mut self.held.records);
        for one in std::mem::take(&mut self.held.launches) {
            let names = &mut self.states.all[one.process].driver_names;
            let memory = Process::new(one.pid);
            let mut name = names.name(&memory, one.handle, one.time);
            if name.is_none() && names.agree(&memory) {
                name = names.name(&memory, one.handle, one.time);
            }
            if let Some(Record::Event(call)) = records.get_mut(one.call)
                && name.is_some()
            {
                say_whence(&mut call.outputs);
            }
            if let Some(Record::Meaning(meaning)) = records.get_mut(one.meaning)
                && let What::Launch(launch) = &mut meaning.what
                && let Some(name) = name
            {
                launch.kernel = name;
            }
        }
        for mut record in records {
            if let Record::Meaning(meaning) = &mut record {
                hosts::say_unknown(&mut meaning.what);
            }
            self.put(record);
        }
    }
}

/// The name is the driver's, and was not told by any call.
fn say_whence(outputs: &mut Vec<Arg>) {
    if !outputs.iter().any(|arg| &*arg.name == "name_from") {
        outputs.push(Arg::new("name_from", "driver"));
    }
}
