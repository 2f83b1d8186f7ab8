//! Access to a frame's registers and a function's constants by slot.

use crate::alu::{Lanes, WARP};
use crate::program::code::{CONSTANT, NONE, Reg};

pub const FULL: u32 = u32::MAX;

/// The lanes set in a mask, lowest first.
pub struct Bits(pub u32);

impl Iterator for Bits {
    type Item = usize;

    #[inline]
    fn next(&mut self) -> Option<usize> {
        if self.0 == 0 {
            return None;
        }
        let lane = self.0.trailing_zeros();
        self.0 &= self.0 - 1;
        Some(lane as usize)
    }
}

/// Where the registers of the running function are. Slots come from the decoder, which numbers
/// them below the frame's register count and the table's length; frames do not move while a view
/// of them is in use.
#[derive(Clone, Copy)]
pub struct View {
    registers: *mut Lanes,
    constants: *const Lanes,
}

impl View {
    pub fn new(registers: &mut [Lanes], constants: &[Lanes]) -> View {
        View {
            registers: registers.as_mut_ptr(),
            constants: constants.as_ptr(),
        }
    }

    /// A source: never [`NONE`].
    #[inline(always)]
    pub fn get<'v>(self, reg: Reg) -> &'v Lanes {
        debug_assert!(reg != NONE);
        // SAFETY: see the type.
        unsafe {
            if reg & CONSTANT == 0 {
                &*self.registers.add(reg as usize)
            } else {
                &*self.constants.add((reg & !CONSTANT) as usize)
            }
        }
    }

    /// A destination: never a constant. The caller holds no reference to the same slot.
    #[inline(always)]
    pub fn get_mut<'v>(self, reg: Reg) -> &'v mut Lanes {
        debug_assert!(reg & CONSTANT == 0);
        // SAFETY: see the type; the decoder makes destinations registers.
        unsafe { &mut *self.registers.add(reg as usize) }
    }

    /// Writes the active lanes; nothing for [`NONE`].
    #[inline(always)]
    pub fn put(self, reg: Reg, values: &Lanes, active: u32) {
        if reg == NONE {
            return;
        }
        let target = self.get_mut(reg);
        if active == FULL {
            *target = *values;
        } else {
            blend(target, values, active);
        }
    }

    /// The same value in all active lanes.
    pub fn fill(self, reg: Reg, value: u64, active: u32) {
        if reg == NONE {
            return;
        }
        let target = self.get_mut(reg);
        if active == FULL {
            *target = [value; WARP];
        } else {
            blend(target, &[value; WARP], active);
        }
    }

    /// Lanes whose predicate is set.
    #[inline(always)]
    pub fn mask(self, reg: Reg) -> u32 {
        predicate_mask(self.get(reg))
    }
}

#[inline]
fn blend(target: &mut Lanes, values: &Lanes, active: u32) {
    for (lane, (to, from)) in target.iter_mut().zip(values).enumerate() {
        let keep = u64::from(active >> lane & 1).wrapping_neg();
        *to = (*from & keep) | (*to & !keep);
    }
}

#[inline]
pub fn predicate_mask(lanes: &Lanes) -> u32 {
    let mut mask = 0;
    for (lane, value) in lanes.iter().enumerate() {
        mask |= ((*value & 1) as u32) << lane;
    }
    mask
}
