//! What a walk has read: the words of the stack and the caller's registers that decided where it
//! went. A walk is a function of these and of the loaded code, so as long as none of them has
//! changed, walking again would give the same frames.
//!
//! Registers that a frame saved and no rule counts from are not among them: they differ from call
//! to call and lead nowhere.

use super::cfi::TRACKED;

/// Words that a walk may depend on and still be remembered.
pub const MOST_WORDS: usize = 176;

/// rbx, rbp, r12 to r15
pub const SAVED: usize = TRACKED - 1;

#[repr(C)]
pub struct Inputs {
    /// Where each register's value comes from: an address of the stack, or a number below
    /// [`SAVED`] for the caller's own.
    origins: [u64; SAVED],
    /// The caller's stack pointer.
    base: u64,
    /// The caller's registers that mattered, a bit each.
    pub registers: u8,
    /// False: something mattered that is not written down here.
    pub complete: bool,
    pub count: u16,
    /// Where a word is, from the caller's stack pointer on.
    pub offsets: [u32; MOST_WORDS],
    pub values: [u64; MOST_WORDS],
}

/// Takes down what a walk reads, if asked to.
pub struct Recorder<'a>(Option<&'a mut Inputs>);

impl<'a> Recorder<'a> {
    pub fn new(inputs: Option<&'a mut Inputs>, stack_pointer: u64) -> Recorder<'a> {
        let Some(inputs) = inputs else {
            return Recorder(None);
        };
        inputs.origins = core::array::from_fn(|register| register as u64);
        inputs.base = stack_pointer;
        inputs.registers = 0;
        inputs.complete = true;
        inputs.count = 0;
        Recorder(Some(inputs))
    }

    /// The walk went on by this word.
    pub fn word(&mut self, address: u64, value: u64) {
        let Some(inputs) = &mut self.0 else { return };
        let at = usize::from(inputs.count);
        let (Some(offset), Some(to), Ok(distance)) = (
            inputs.offsets.get_mut(at),
            inputs.values.get_mut(at),
            u32::try_from(address.wrapping_sub(inputs.base)),
        ) else {
            inputs.complete = false;
            return;
        };
        (*offset, *to) = (distance, value);
        inputs.count += 1;
    }

    /// The walk went on by what this register holds.
    pub fn register(&mut self, register: usize, value: u64) {
        let Some(inputs) = &mut self.0 else { return };
        match inputs.origins.get(register).copied() {
            Some(own) if own < SAVED as u64 => inputs.registers |= 1 << own,
            Some(address) => self.word(address, value),
            None => inputs.complete = false,
        }
    }

    /// This register has now what is at an address of the stack.
    pub fn restored(&mut self, register: usize, address: u64) {
        let Some(inputs) = &mut self.0 else { return };
        if let Some(origin) = inputs.origins.get_mut(register) {
            *origin = address;
        }
    }

    /// The walk depended on something else.
    pub fn give_up(&mut self) {
        if let Some(inputs) = &mut self.0 {
            inputs.complete = false;
        }
    }
}
