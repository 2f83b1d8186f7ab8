//! Why a program may not run.

use std::fmt;

use thiserror::Error;

use crate::disassemble::disassemble;
use crate::object::{Line, Program};

/// What rule was broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reason {
    /// A register is read that was never written.
    UninitialisedRegister,
    /// Bytes of the stack are read that were never written.
    UninitialisedStack,
    /// An access, or a helper's memory, reaches outside of what it is in.
    OutOfBounds,
    /// An address is used that may be NULL.
    MayBeNull,
    /// What is used as an address is none.
    NoAddress,
    /// Arithmetic on addresses that cannot be followed.
    PointerArithmetic,
    /// An address would be stored or returned where others see it.
    PointerEscapes,
    ReadOnly,
    Misaligned,
    UnknownHelper,
    /// An argument is not what the helper takes.
    BadArgument,
    BadMap,
    BadFormat,
    /// A loop without a bound that is known.
    UnboundedLoop,
    /// A loop that waits for another thread: lanes of a warp may wait for each other forever.
    Spins,
    TooComplex,
    StackTooLarge,
    TooManyCalls,
    /// Control leaves the function.
    BadJump,
}

/// A program that may not run, and where it goes wrong.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub struct Refused {
    pub program: String,
    /// The function the instruction is in, and its number as disassemblers count.
    pub function: String,
    pub instruction: u32,
    pub disassembly: String,
    /// The source line, where BTF knows it.
    pub line: Option<Line>,
    pub reason: Reason,
    pub text: String,
}

impl Refused {
    pub(super) fn new(program: &Program, at: usize, reason: Reason, text: String) -> Refused {
        let instruction = program.instructions.get(at);
        Refused {
            program: program.name.clone(),
            function: program
                .function_at(at)
                .map(|function| function.name.clone())
                .unwrap_or_default(),
            instruction: instruction.map_or(0, |instruction| instruction.slot),
            disassembly: disassemble(&program.instructions, at),
            line: program.lines.get(at).cloned().flatten(),
            reason,
            text,
        }
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "program {}", self.program)?;
        if self.function != self.program {
            write!(f, ", function {}", self.function)?;
        }
        write!(
            f,
            ", instruction {} ({}): {}",
            self.instruction, self.disassembly, self.text
        )?;
        if let Some(line) = &self.line {
            write!(f, "\n  at {}:{}", line.file, line.line)?;
            if !line.text.is_empty() {
                write!(f, ": {}", line.text)?;
            }
        }
        Ok(())
    }
}
