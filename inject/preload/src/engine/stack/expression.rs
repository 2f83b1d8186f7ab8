//! DWARF's expressions, as far as unwind information uses them: signal frames, functions that align
//! their stack, the stubs of lazy binding.

use super::cfi::Expression;
use super::image::Image;
use super::inputs::Recorder;
use super::unwind::{Memory, Registers};

const DEPTH: usize = 8;
const MOST_STEPS: usize = 64;

struct Stack {
    values: [u64; DEPTH],
    count: usize,
}

impl Stack {
    fn push(&mut self, value: u64) -> Option<()> {
        *self.values.get_mut(self.count)? = value;
        self.count += 1;
        Some(())
    }

    fn pop(&mut self) -> Option<u64> {
        self.count = self.count.checked_sub(1)?;
        self.values.get(self.count).copied()
    }
}

/// None: it needs something that is not known, or is none.
pub fn evaluate(
    image: &Image,
    expression: Expression,
    registers: &Registers,
    memory: &mut Memory<'_>,
    inputs: &mut Recorder<'_>,
    first: Option<u64>,
) -> Option<u64> {
    let mut stack = Stack {
        values: [0; DEPTH],
        count: 0,
    };
    if let Some(first) = first {
        stack.push(first)?;
    }
    let begin = image.address.checked_add(expression.at.into())?;
    let end = begin.checked_add(expression.bytes.into())?;
    let mut reader = image.read(begin);
    for _ in 0..MOST_STEPS {
        if reader.address >= end {
            return stack.pop();
        }
        let byte = reader.u8()?;
        let value = match byte {
            0x06 => {
                let address = stack.pop()?;
                let value = memory.read(address)?;
                inputs.word(address, value);
                value
            }
            0x08 => reader.u8()?.into(),
            0x09 => reader.u8()? as i8 as u64,
            0x0a => reader.u16()?.into(),
            0x0b => reader.u16()? as i16 as u64,
            0x0c => reader.u32()?.into(),
            0x0d => reader.u32()? as i32 as u64,
            0x0e | 0x0f => reader.u64()?,
            0x10 => reader.unsigned()?,
            0x11 => reader.signed()? as u64,
            0x12 => {
                let top = stack.pop()?;
                stack.push(top)?;
                top
            }
            0x1a..=0x1e | 0x21 | 0x22 | 0x24..=0x2e => {
                let (right, left) = (stack.pop()?, stack.pop()?);
                binary(byte, left, right)?
            }
            0x23 => stack.pop()?.wrapping_add(reader.unsigned()?),
            0x30..=0x4f => u64::from(byte - 0x30),
            0x70..=0x8f => {
                let offset = reader.signed()?;
                let register = registers.recorded(u64::from(byte - 0x70), inputs)?;
                register.wrapping_add(offset as u64)
            }
            0x96 => continue,
            _ => return None,
        };
        stack.push(value)?;
    }
    None
}

fn binary(operation: u8, left: u64, right: u64) -> Option<u64> {
    let (signed, other) = (left as i64, right as i64);
    Some(match operation {
        0x1a => left & right,
        0x1c => left.wrapping_sub(right),
        0x1e => left.wrapping_mul(right),
        0x21 => left | right,
        0x22 => left.wrapping_add(right),
        0x24 => left.checked_shl(u32::try_from(right).ok()?)?,
        0x25 => left.checked_shr(u32::try_from(right).ok()?)?,
        0x27 => left ^ right,
        0x29 => u64::from(signed == other),
        0x2a => u64::from(signed >= other),
        0x2b => u64::from(signed > other),
        0x2c => u64::from(signed <= other),
        0x2d => u64::from(signed < other),
        0x2e => u64::from(signed != other),
        _ => return None,
    })
}
