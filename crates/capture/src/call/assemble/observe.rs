//! What calls tell of later ones: names of kernels, contexts that are current, sizes of launches.

use super::{Assembler, OpenCall};
use crate::Sink;
use crate::call::origin::Origin;
use crate::call::role::Observed;
use crate::call::state::{Kernel, ProcessState};
use ahash::AHashMap;
use event::{Name, Value};

impl<O: Origin, S: Sink> Assembler<O, S> {
    pub(super) fn observe(&mut self, ring: usize, call: &OpenCall) {
        let thread = &mut self.rings[ring];
        let number = |name: &str| call.event().arg(name).and_then(Value::as_u64);
        match call.signature.observed {
            Observed::Nothing => {}
            Observed::KernelName { handle, text } => {
                let name = call.event().arg(text).and_then(Value::as_str);
                // One that comes back may have been cut, and is worth less than one that was given.
                let whole = |name: &&str| name.len() < cuda::capture::TEXT_BYTES.into();
                let process = &mut self.states.all[thread.process];
                let was_given = call.event().args.iter().any(|arg| &*arg.name == text);
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
                thread.state.step(step, call.event(), process);
            }
        }
    }
}

/// The states of all processes; threads know the place of theirs.
#[derive(Default)]
pub(super) struct States {
    pub all: Vec<ProcessState>,
    places: AHashMap<u32, usize>,
}

impl States {
    pub fn of(&mut self, pid: u32) -> usize {
        let next = self.all.len();
        let place = *self.places.entry(pid).or_insert(next);
        if place == next {
            self.all.push(ProcessState::default());
        }
        place
    }

    pub fn get(&self, pid: u32) -> Option<&ProcessState> {
        self.all.get(*self.places.get(&pid)?)
    }
}

/// A kernel's name; a forked child has those its parent had.
pub(super) fn kernel_name(
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
