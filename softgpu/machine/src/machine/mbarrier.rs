//! mbarrier objects: 64 bits in shared memory that count arrivals and bytes in flight.
//!
//! Bits 0–19: arrivals expected a phase; 20–39: still pending; 40–62: bytes still expected, in two's
//! complement; 63: phase. Hardware's layout is opaque, so programs cannot depend on it.

use super::address::Want;
use super::execute::Executor;
use super::registers::{Bits, View};
use super::trouble::Outcome;
use crate::program::code::{Access, Mbarrier, MbarrierOp, NONE};

const COUNT: u64 = (1 << 20) - 1;
const BYTES: u64 = (1 << 23) - 1;

#[derive(Clone, Copy)]
struct Object {
    expected: u64,
    pending: u64,
    bytes: u64,
    phase: u64,
}

impl Object {
    fn unpack(word: u64) -> Object {
        Object {
            expected: word & COUNT,
            pending: word >> 20 & COUNT,
            bytes: word >> 40 & BYTES,
            phase: word >> 63,
        }
    }

    fn pack(self) -> u64 {
        (self.expected & COUNT)
            | (self.pending & COUNT) << 20
            | (self.bytes & BYTES) << 40
            | self.phase << 63
    }

    fn complete_if_done(&mut self) {
        if self.pending == 0 && self.bytes == 0 {
            self.phase ^= 1;
            self.pending = self.expected;
        }
    }
}

impl Executor<'_, '_> {
    /// Bytes that an mbarrier expected have come.
    pub fn mbarrier_complete(
        &mut self,
        view: View,
        access: &Access,
        lane: usize,
        bytes: u64,
    ) -> Outcome {
        let pointers = self.pointers(view, access, 1 << lane, Want::new(8, "mbarrier"))?;
        let word = pointers[lane] as *mut u64;
        // SAFETY: checked and aligned; shared memory belongs to this thread.
        unsafe {
            let mut object = Object::unpack(word.read());
            object.bytes = object.bytes.wrapping_sub(bytes) & BYTES;
            object.complete_if_done();
            word.write(object.pack());
        }
        Ok(())
    }

    pub fn mbarrier(&mut self, view: View, mbarrier: &Mbarrier, active: u32) -> Outcome {
        let values = match mbarrier.value {
            NONE => [1; 32],
            reg => *view.get(reg),
        };
        if mbarrier.op == MbarrierOp::PendingCount {
            let counts = values.map(|state| Object::unpack(state).pending);
            view.put(mbarrier.dst, &counts, active);
            return Ok(());
        }
        let pointers = self.pointers(view, &mbarrier.access, active, Want::new(8, "mbarrier"))?;
        let mut results = [0; 32];
        for lane in Bits(active) {
            let word = pointers[lane] as *mut u64;
            // SAFETY: checked and aligned; shared memory belongs to this thread.
            let old = unsafe { word.read() };
            let mut object = Object::unpack(old);
            let value = values[lane];
            results[lane] = old;
            match mbarrier.op {
                MbarrierOp::Init => {
                    object = Object {
                        expected: value & COUNT,
                        pending: value & COUNT,
                        bytes: 0,
                        phase: 0,
                    };
                }
                MbarrierOp::Invalidate => {
                    object = Object {
                        expected: 0,
                        pending: 0,
                        bytes: 0,
                        phase: 0,
                    };
                }
                MbarrierOp::Arrive { drop, expect } => {
                    let count = if expect { 1 } else { value };
                    if expect {
                        object.bytes = object.bytes.wrapping_add(value) & BYTES;
                    }
                    object.pending = object.pending.saturating_sub(count);
                    if drop {
                        object.expected = object.expected.saturating_sub(count);
                    }
                    object.complete_if_done();
                }
                MbarrierOp::ExpectTx => object.bytes = object.bytes.wrapping_add(value) & BYTES,
                MbarrierOp::CompleteTx => {
                    object.bytes = object.bytes.wrapping_sub(value) & BYTES;
                    object.complete_if_done();
                }
                MbarrierOp::TestWait { parity } => {
                    let waited = if parity { value & 1 } else { value >> 63 };
                    results[lane] = u64::from(object.phase != waited);
                }
                MbarrierOp::PendingCount => {}
            }
            // SAFETY: as above.
            unsafe { word.write(object.pack()) };
        }
        view.put(mbarrier.dst, &results, active);
        Ok(())
    }
}
