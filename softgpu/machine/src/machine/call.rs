//! Calls and returns: frames, arguments, results, the stack.

use super::execute::Executor;
use super::registers::{Bits, View};
use super::trouble::{Outcome, Trouble};
use super::warp::NO_FRAME;
use crate::alu::Lanes;
use crate::fault::FaultKind;
use crate::program::code::{
    CONSTANT, CallInstruction, Callee, FUNCTION_STEP, FUNCTION_WINDOW, Function, Op, ValueLocation,
};

impl<'a> Executor<'_, 'a> {
    /// Calls; true if execution simply goes on behind (a function of the device library).
    pub fn call(
        &mut self,
        view: View,
        index: usize,
        call: &'a CallInstruction,
        active: u32,
    ) -> Outcome<bool> {
        let callee = match call.callee {
            Callee::Builtin(builtin) => {
                self.builtin(builtin, call, active)?;
                return Ok(true);
            }
            Callee::Function(callee) => {
                self.separate(index, active);
                callee
            }
            Callee::Register(reg) => {
                // Lanes may call different functions: one now, the others when they are picked.
                let addresses = view.get(reg);
                let lane = active.trailing_zeros() as usize;
                let address = addresses[lane];
                let same = Bits(active)
                    .filter(|&lane| addresses[lane] == address)
                    .fold(0u32, |mask, lane| mask | 1 << lane);
                self.separate(index, active);
                let rest = active & !same;
                if rest != 0 {
                    let mut waiting = self.warp.groups[index];
                    waiting.mask = rest;
                    self.warp.groups.push(waiting);
                    self.warp.groups[index].mask = same;
                }
                self.function_at(lane, address)?
            }
        };
        self.enter(index, callee, call)?;
        Ok(false)
    }

    fn function_at(&self, lane: usize, address: u64) -> Outcome<usize> {
        let offset = address.wrapping_sub(FUNCTION_WINDOW);
        let number = offset / FUNCTION_STEP;
        let functions = self.core.program.functions.len() as u64;
        if !offset.is_multiple_of(FUNCTION_STEP) || number == 0 || number > functions {
            let text = format!("call to {address:#x}, which is not a function");
            return Err(Trouble::new(FaultKind::InvalidPc, Some(lane), text));
        }
        Ok(number as usize - 1)
    }

    fn enter(&mut self, index: usize, callee: usize, call: &CallInstruction) -> Outcome {
        let group = self.warp.groups[index];
        let code: &'a Function = &self.core.program.functions[callee];
        let frame = self
            .warp
            .enter(group.frame, group.pc + 1, group.mask, callee, code)?;
        for (from, to) in call.args.iter().zip(&code.params) {
            self.transfer((group.frame, *from), (frame, *to), group.mask);
        }
        let group = &mut self.warp.groups[index];
        group.frame = frame;
        group.pc = 0;
        Ok(())
    }

    /// The group's lanes go back to their caller, or end.
    pub fn ret(&mut self, index: usize) {
        let group = self.warp.groups[index];
        let frame = &self.warp.frames[group.frame as usize];
        let (parent, return_pc) = (frame.parent, frame.return_pc);
        if parent == NO_FRAME {
            self.exit(index);
            return;
        }
        let functions = &self.core.program.functions;
        let callee: &'a Function = &functions[frame.function];
        let caller: &'a Function = &functions[self.warp.frames[parent as usize].function];
        if let Some(inst) = caller.code.get(return_pc.wrapping_sub(1) as usize)
            && let Op::Call(call) = &inst.op
        {
            for (from, to) in callee.returns.iter().zip(&call.results) {
                self.transfer((group.frame, *from), (parent, *to), group.mask);
            }
        }
        self.warp.leave(group.frame, group.mask);
        let group = &mut self.warp.groups[index];
        group.frame = parent;
        group.pc = return_pc;
    }

    /// Copies an argument or result between frames.
    fn transfer(&mut self, from: (u32, ValueLocation), to: (u32, ValueLocation), lanes: u32) {
        match (from, to) {
            (
                (
                    source,
                    ValueLocation::Local {
                        offset: from,
                        size: available,
                    },
                ),
                (
                    target,
                    ValueLocation::Local {
                        offset: to,
                        size: wanted,
                    },
                ),
            ) => {
                let size = available.min(wanted);
                for lane in Bits(lanes) {
                    let mut at = 0;
                    while at < size {
                        let step = (size - at).min(8);
                        let value = self.read_frame(source, lane, from + at, step);
                        self.write_frame(target, lane, to + at, step, value);
                        at += step;
                    }
                }
            }
            ((source, place), (target, ValueLocation::Local { offset, size })) => {
                for lane in Bits(lanes) {
                    let value = self.argument(source, place, lane);
                    self.write_frame(target, lane, offset, size, value);
                }
            }
            ((source, place), (target, ValueLocation::Register { reg, size })) => {
                for lane in Bits(lanes) {
                    let value = self.argument(source, place, lane);
                    let keep = u64::MAX >> (64 - size.clamp(1, 8) * 8);
                    let registers = &mut self.warp.frames[target as usize].registers;
                    if let Some(register) = registers.get_mut(reg as usize) {
                        register[lane] = value & keep;
                    }
                }
            }
        }
    }

    /// One lane's value of an argument, up to eight bytes.
    pub fn argument(&mut self, frame: u32, place: ValueLocation, lane: usize) -> u64 {
        match place {
            ValueLocation::Local { offset, size } => self.read_frame(frame, lane, offset, size),
            ValueLocation::Register { reg, .. } if reg & CONSTANT != 0 => {
                let function = self.warp.frames[frame as usize].function;
                let loaded = self.core.launch.loaded;
                let constants = loaded.constants(self.core.launch.kernel, function);
                constants
                    .and_then(|table| table.get((reg & !CONSTANT) as usize))
                    .map_or(0, |lanes| lanes[lane])
            }
            ValueLocation::Register { reg, .. } => {
                self.warp.frames[frame as usize].registers[reg as usize][lane]
            }
        }
    }

    /// Sets one lane's value of a result.
    pub fn set_result(&mut self, frame: u32, place: ValueLocation, lane: usize, value: u64) {
        match place {
            ValueLocation::Local { offset, size } => {
                self.write_frame(frame, lane, offset, size, value)
            }
            ValueLocation::Register { reg, size } => {
                let keep = u64::MAX >> (64 - size.clamp(1, 8) * 8);
                let registers = &mut self.warp.frames[frame as usize].registers;
                if let Some(register) = registers.get_mut(reg as usize) {
                    register[lane] = value & keep;
                }
            }
        }
    }

    pub fn alloca(&mut self, sizes: &Lanes, align: u32, active: u32) -> Outcome<u32> {
        // All lanes get as much as the one that asks for most, so that frames stay uniform.
        let size = Bits(active).map(|lane| sizes[lane]).max().unwrap_or(0);
        self.warp.extend(self.frame, size, align).ok_or_else(|| {
            let text = format!("alloca of {size} bytes");
            Trouble::new(FaultKind::StackOverflow, Bits(active).next(), text)
        })
    }

    pub fn stack_restore(&mut self, saved: &Lanes, active: u32) {
        let floor = self.function.local_size;
        let frame = &mut self.warp.frames[self.frame as usize];
        // Only when no other lane of the frame may still use what is above.
        if frame.lanes & !active == 0 {
            let top = Bits(active).map(|lane| saved[lane]).max().unwrap_or(0);
            let floor = u64::from(frame.base + floor);
            if (floor..=u64::from(frame.top)).contains(&top) {
                frame.top = top as u32;
            }
        }
    }
}
