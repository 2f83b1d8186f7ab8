//! What earlier calls have told: kernels by handle, contexts and devices, live allocations.

use super::role::ContextStep;
use event::{Event, MemorySpace, Name, Value};
use std::collections::{BTreeMap, HashMap};
use std::fmt;

/// Bounds for programs that never give anything back.
const MOST_KERNELS: usize = 1 << 20;
const MOST_ALLOCATIONS: usize = 1 << 22;
const MOST_CONTEXTS: usize = 1 << 16;
const MOST_PUSHED: usize = 256;
/// A demangled name, at most: a short mangled name can mean an enormous one.
const LONGEST_NAME: usize = 8 << 10;

/// Of one process.
#[derive(Debug, Default)]
pub struct ProcessState {
    kernels: HashMap<u64, Name>,
    /// Contexts and the devices they are on.
    contexts: HashMap<u64, u32>,
    /// By address, so that pointers into the middle are found.
    allocations: BTreeMap<u64, Allocation>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Allocation {
    pub size: Option<u64>,
    pub space: MemorySpace,
}

impl ProcessState {
    pub fn name_kernel(&mut self, handle: u64, mangled: &str) {
        self.set_kernel(handle, demangled(mangled));
    }

    pub fn set_kernel(&mut self, handle: u64, name: Name) {
        if self.kernels.len() < MOST_KERNELS || self.kernels.contains_key(&handle) {
            self.kernels.insert(handle, name);
        }
    }

    pub fn kernel(&self, handle: u64) -> Option<Name> {
        self.kernels.get(&handle).cloned()
    }

    pub fn allocate(&mut self, address: u64, allocation: Allocation) {
        if self.allocations.len() < MOST_ALLOCATIONS {
            self.allocations.insert(address, allocation);
        }
    }

    pub fn free(&mut self, address: u64) -> Option<Allocation> {
        self.allocations.remove(&address)
    }

    /// Where an address lies, if it is in an allocation that was seen.
    pub fn space_of(&self, address: u64) -> Option<MemorySpace> {
        let (start, allocation) = self.allocations.range(..=address).next_back()?;
        let inside = address - start < allocation.size.unwrap_or(1);
        inside.then_some(allocation.space)
    }
}

/// Of one thread.
#[derive(Debug, Default)]
pub struct ThreadState {
    current: Vec<u64>,
    device: Option<u32>,
}

impl ThreadState {
    pub fn context(&self) -> Option<u64> {
        self.current.last().copied().filter(|context| *context != 0)
    }

    pub fn device(&self, process: &ProcessState) -> Option<u32> {
        let of_context = self
            .context()
            .and_then(|context| process.contexts.get(&context));
        of_context.copied().or(self.device)
    }

    /// A call that succeeded changed, or told, what is current.
    pub fn step(&mut self, step: ContextStep, call: &Event, process: &mut ProcessState) {
        let number = |name: &str| call.arg(name).and_then(Value::as_u64);
        let device = |name: &str| number(name).and_then(|device| u32::try_from(device).ok());
        match step {
            ContextStep::Create | ContextStep::Retain => {
                if let (Some(context), Some(device)) = (number("pctx"), device("dev"))
                    && process.contexts.len() < MOST_CONTEXTS
                {
                    process.contexts.insert(context, device);
                }
                if step == ContextStep::Create {
                    self.push(number("pctx"));
                }
            }
            ContextStep::Push => self.push(number("ctx")),
            ContextStep::Set => self.replace(number("ctx")),
            ContextStep::Get => self.replace(number("pctx")),
            ContextStep::Pop => {
                self.current.pop();
            }
            ContextStep::Destroy => {
                if let Some(context) = number("ctx") {
                    process.contexts.remove(&context);
                    if self.current.last() == Some(&context) {
                        self.current.pop();
                    }
                }
            }
            ContextStep::GetDevice | ContextStep::SetDevice => {
                self.device = device("device").or(self.device);
            }
        }
    }

    fn push(&mut self, context: Option<u64>) {
        if let Some(context) = context
            && self.current.len() < MOST_PUSHED
        {
            self.current.push(context);
        }
    }

    fn replace(&mut self, context: Option<u64>) {
        self.current.pop();
        self.push(context);
    }
}

/// A kernel's name as it was written; as it stands where it is no C++ name.
pub fn demangled(mangled: &str) -> Name {
    let mut text = Bounded(String::new());
    let options = cpp_demangle::DemangleOptions::new();
    let whole = cpp_demangle::Symbol::new(mangled)
        .is_ok_and(|symbol| symbol.structured_demangle(&mut text, &options).is_ok());
    if whole { text.0.into() } else { mangled.into() }
}

struct Bounded(String);

impl fmt::Write for Bounded {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if self.0.len() + text.len() > LONGEST_NAME {
            return Err(fmt::Error);
        }
        self.0.push_str(text);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_are_named_as_written() {
        assert_eq!(
            &*demangled("_Z9vectorAddPKfS0_Pfi"),
            "vectorAdd(float const*, float const*, float*, int)"
        );
        assert_eq!(&*demangled("plain_c"), "plain_c");
        assert_eq!(&*demangled("_Z9cut"), "_Z9cut");
        // Each substitution doubles the name.
        let mut bomb = String::from("_Z1fSt4pairIiiE");
        for _ in 0..40 {
            bomb.push_str("St4pairIS_S_E");
        }
        assert!(demangled(&bomb).len() <= LONGEST_NAME.max(bomb.len()));
    }

    #[test]
    fn addresses_are_found_inside_allocations_only() {
        let mut state = ProcessState::default();
        let allocation = Allocation {
            size: Some(256),
            space: MemorySpace::Device,
        };
        state.allocate(0x1000, allocation);
        assert_eq!(state.space_of(0x10ff), Some(MemorySpace::Device));
        assert_eq!(
            (state.space_of(0x1100), state.space_of(0xfff)),
            (None, None)
        );
        assert_eq!(state.free(0x1000), Some(allocation));
        assert_eq!(state.space_of(0x1000), None);
    }
}
