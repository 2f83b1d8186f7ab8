//! The functions that device code expects from the system: printf, assert, malloc, free.

use std::io::Write;

use super::execute::Executor;
use super::heap;
use super::print::{self, FormatPart};
use super::registers::Bits;
use super::schedule::thread_index;
use super::trouble::{Outcome, Trouble};
use crate::alu::WARP;
use crate::fault::FaultKind;
use crate::program::code::{Builtin, CallInstruction};

impl Executor<'_, '_> {
    pub fn builtin(&mut self, builtin: Builtin, call: &CallInstruction, active: u32) -> Outcome {
        for lane in Bits(active) {
            let mut args = [0; 5];
            for (value, place) in args.iter_mut().zip(&call.args) {
                *value = self.argument(self.frame, *place, lane);
            }
            let result = match builtin {
                Builtin::Printf => self.printf(lane, args[0], args[1])?,
                Builtin::AssertFail => return Err(self.assert_failed(lane, args)?),
                Builtin::Malloc => heap::allocate(self.core.env.memory, args[0]),
                Builtin::Free => {
                    self.release(lane, args[0])?;
                    0
                }
            };
            if let Some(place) = call.results.first() {
                self.set_result(self.frame, *place, lane, result);
            }
        }
        Ok(())
    }

    /// vprintf: arguments are packed, each at a multiple of its size.
    fn printf(&mut self, lane: usize, format: u64, args: u64) -> Outcome<u64> {
        let format = self.read_string(lane, format)?;
        let mut text = Vec::new();
        let mut at = args;
        let mut count = 0;
        for piece in print::pieces(&format) {
            match piece {
                FormatPart::Text(bytes) => text.extend_from_slice(bytes),
                FormatPart::Conversion(mut conversion) => {
                    let mut next = |executor: &mut Self, bytes: u8| {
                        let size = u64::from(bytes);
                        at = at.wrapping_add(size - 1) & !(size - 1);
                        let value = executor.read_generic(lane, at, bytes);
                        at = at.wrapping_add(size);
                        count += 1;
                        value
                    };
                    if conversion.width_argument {
                        let width = next(self, 4)? as i32;
                        conversion.set_width(width);
                    }
                    if conversion.precision_argument {
                        let precision = next(self, 4)? as i32;
                        conversion.set_precision(precision);
                    }
                    let value = next(self, conversion.bytes())?;
                    if conversion.is_string() {
                        let string = match value {
                            0 => b"(null)".to_vec(),
                            address => self.read_string(lane, address)?,
                        };
                        conversion.string(&string, &mut text);
                    } else {
                        conversion.number(value, &mut text);
                    }
                }
            }
        }
        (self.core.env.print)(&text);
        Ok(count)
    }

    /// __assertfail(message, file, line, function, charSize).
    fn assert_failed(&mut self, lane: usize, args: [u64; 5]) -> Outcome<Box<Trouble>> {
        let message = self.read_string(lane, args[0])?;
        let file = self.read_string(lane, args[1])?;
        let function = self.read_string(lane, args[3])?;
        let [bx, by, bz] = self.block.index;
        let linear = self.warp.index * WARP as u32 + lane as u32;
        let [x, y, z] = thread_index(linear, self.core.launch.block);
        let text = format!(
            "{}:{}: {}: block: [{bx},{by},{bz}], thread: [{x},{y},{z}] Assertion `{}` failed.",
            String::from_utf8_lossy(&file),
            args[2] as u32,
            String::from_utf8_lossy(&function),
            String::from_utf8_lossy(&message),
        );
        // As CUDA does; nobody to tell if stderr is closed.
        let _ = writeln!(std::io::stderr(), "{text}");
        Ok(Trouble::new(FaultKind::Assert, Some(lane), text))
    }

    fn release(&mut self, lane: usize, address: u64) -> Outcome {
        if address == 0 || heap::release(self.core.env.memory, address) {
            return Ok(());
        }
        let text = format!("free of {address:#x}, which malloc did not return");
        Err(Trouble::new(FaultKind::IllegalAddress, Some(lane), text))
    }
}
