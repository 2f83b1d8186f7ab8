//! The end of a call becomes an event, and what the call meant.

use super::begin::{complete_text, stream_in_config};
use super::observe::kernel_name;
use super::{Assembler, CallEnd, OpenCall, hosts, taken};
use crate::Sink;
use crate::call::meaning;
use crate::call::origin::Origin;
use crate::call::role::{Form, Role};
use event::{Arg, Event, Extent, Launch, Layer, Meaning, Name, Record, What};

impl<O: Origin, S: Sink> Assembler<O, S> {
    /// The call returned that, or never returned.
    pub(super) fn end(&mut self, ring: usize, time: u64, sequence: u64, left: CallEnd) {
        if !self.rings[ring].told.is_empty() && self.range_end(ring, time, sequence) {
            return;
        }
        if !self.rings[ring].operators.is_empty() && self.operator_end(ring, time, sequence) {
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
                .extend(inside.into_iter().filter(|one| one.range.is_some()));
        }
        let event = call.event_mut();
        event.extent = Extent::Closed(time.saturating_sub(event.start));
        let mut meanings = match left {
            CallEnd::Unwound => {
                event.outputs = vec![Arg::new("unwound", true)];
                std::mem::take(&mut call.below)
            }
            CallEnd::Unseen => {
                event.outputs = vec![Arg::new("entry_only", true)];
                std::mem::take(&mut call.below)
            }
            CallEnd::Returned(result) => {
                let status = call.signature.status(result);
                call.event_mut().status = status;
                if call.payload.get().is_none() {
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
                    call.event_mut().outputs = late;
                    call.payload.set(Some(&payload));
                    call.is_plain = false;
                }
                if call.signature.succeeded(result) {
                    self.succeeded(ring, &mut call)
                } else {
                    self.place_late(ring, call.event_mut());
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
                self.await_names(ring, call.event().start, waiting);
            }
            let meanings: Vec<Meaning> = (meanings.into_iter())
                .map(|mut what| {
                    if self.limits.hosts && !waits {
                        hosts::say_unknown(&mut what);
                    }
                    Meaning::of(call.event(), what)
                })
                .collect();
            if self.sink.keeps_records() {
                let record = call.take_record();
                self.give(record);
            } else {
                self.write(&mut call.record);
            }
            for meaning in meanings {
                self.give(Record::Meaning(meaning));
            }
        }
        self.spare.put_back(call);
    }

    /// The runtime chooses a device when it first needs one: inside of a call, whatever becomes of
    /// that.
    pub(super) fn place_late(&self, ring: usize, event: &mut Event) {
        if event.layer == Layer::Runtime && event.device.is_none() {
            let thread = &self.rings[ring];
            event.device = thread.state.device(&self.states.all[thread.process]);
            event.context = thread.state.context();
        }
    }

    /// A call's outputs, what it tells of later calls, and what it meant. Of nested calls that say
    /// the same the outermost one speaks, once, and by what those inside of it knew where it does
    /// not know itself.
    pub(super) fn succeeded(&mut self, ring: usize, call: &mut OpenCall) -> Vec<What> {
        let OpenCall {
            record,
            signature,
            words,
            payload,
            ..
        } = call;
        let Record::Event(event) = record else {
            return Vec::new();
        };
        let payload = payload.get().unwrap_or_default();
        signature.add_outputs(words, payload, &mut event.outputs);
        if event.stream.is_none() && signature.has_config {
            let stream = stream_in_config(event);
            event.stream = stream.map(|stream| signature.default_stream(stream));
            self.place(ring, event);
        }
        if signature.of_graph
            && let Some(kernel) = meaning::node_kernel(event)
        {
            let thread = &self.rings[ring];
            let (image, pid) = (thread.image, thread.pid);
            let known = kernel_name(&self.states, &self.origin, image, pid, kernel);
            let name = known.or_else(|| {
                let is_driver = self.limits.hosts && signature.layer == Layer::Driver;
                is_driver.then(|| self.driver_name(ring, kernel, event.start))?
            });
            if let Some(name) = name {
                event.outputs.push(Arg::new("kernel", name));
            }
        }
        self.observe(ring, call);
        if self.limits.hosts
            && let Role::Launch(form) = call.signature.role
        {
            self.name_by_host(ring, call, form);
            self.learn_from_launch(ring, call, form);
        }
        self.place_late(ring, call.event_mut());
        let role = call.signature.role;
        let below = std::mem::take(&mut call.below);
        if role == Role::None {
            return below;
        }
        if role == Role::Launch(Form::One) && !self.limits.hosts {
            return self.launched(ring, call, below);
        }
        let thread = &mut self.rings[ring];
        let kernels: Vec<Option<Name>> = match role {
            Role::Launch(form) => {
                let handles = meaning::kernel_handles(call.event(), form).into_iter();
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
            let meant = meaning::of(role, call.event(), &kernels, process);
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

    /// The same for a launch of one kernel, which there are most of: nothing is asked of the allocator that is not kept.
    fn launched(&mut self, ring: usize, call: &mut OpenCall, mut below: Vec<What>) -> Vec<What> {
        let thread = &mut self.rings[ring];
        if call.launch.is_none() {
            call.launch = meaning::launch_arguments(call.event());
        }
        if let Some(launch) = &call.launch {
            let handle = launch.handle;
            let known = kernel_name(&self.states, &self.origin, thread.image, thread.pid, handle);
            let told = || match below.first() {
                Some(What::Launch(launch)) if !launch.kernel.starts_with("0x") => {
                    Some(launch.kernel.clone())
                }
                _ => None,
            };
            let known = known.or_else(told);
            let kernel =
                known.unwrap_or_else(|| self.states.all[thread.process].name_of_handle(handle));
            below.clear();
            below.push(What::Launch(Launch {
                kernel,
                grid: launch.grid,
                block: launch.block,
                shared: launch.shared,
            }));
        }
        let outer = (thread.open.iter_mut().rev())
            .find(|outer| !outer.hidden && outer.signature.role.says_the_same(call.signature.role));
        if let Some(outer) = outer {
            outer.below.append(&mut below);
            return Vec::new();
        }
        below
    }
}
