//! Kernels by what registers them: nvcc's code has a constructor that calls `__cudaRegisterFunction` for each kernel,
//! with the address of the host's function and the kernel's name. It is read, not run, so it tells in stripped
//! programs, too.

use super::image::{Callee, Image, Import};
use super::registers::{Registers, Value};
use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic, Register};
use std::collections::{HashMap, HashSet, VecDeque};
use std::time::{Duration, Instant};

/// How long it may take, for others wait. What was found until then counts.
const LONGEST: Duration = Duration::from_millis(500);
/// Instructions between looks at the clock.
const UNWATCHED: u64 = 4096;
const MOST_FUNCTIONS: usize = 64 << 10;
const MOST_KERNELS: usize = 1 << 20;
/// Calls are followed so deep: a constructor, what it hands its callback to or calls, and one more.
const DEEPEST: u32 = 2;
/// Of a function that launches kernels, in bytes.
const LARGEST_LAUNCHER: usize = 512 << 10;

pub struct Registered {
    image: Image,
    /// Where the name of the kernel is, by the address of its host function.
    names: HashMap<u64, u64>,
}

impl Registered {
    pub fn read(image: Image) -> Self {
        let mut reading = Reading {
            image: &image,
            until: Instant::now() + LONGEST,
            read: 0,
            waiting: VecDeque::new(),
            seen: HashSet::new(),
            names: HashMap::new(),
        };
        reading.all();
        let names = reading.names;
        Registered { image, names }
    }

    /// The kernel whose host function begins at an address.
    pub fn at(&self, host: u64) -> Option<&str> {
        self.image.text(*self.names.get(&host)?)
    }

    /// The kernel that is launched by the call which returns to an address, by the function which that is in: the
    /// host function, or one that it was made a part of, which asks for the kernel's handle first:
    /// `__cudaGetKernel(&handle, host)`.
    pub fn launched(&self, return_address: u64) -> Option<&str> {
        let (start, end) = self.image.function_around(return_address.wrapping_sub(1))?;
        self.at(start)
            .or_else(|| self.at(self.asked_for(start, end, return_address)?))
    }

    /// The host function whose handle a launch uses: found by the variable that the handle is kept in.
    fn asked_for(&self, start: u64, end: u64, return_address: u64) -> Option<u64> {
        let code = self.image.code(start);
        let length = usize::try_from(end.saturating_sub(start)).unwrap_or(usize::MAX);
        let code = &code[..code.len().min(length).min(LARGEST_LAUNCHER)];
        let mut registers = Registers::new();
        let mut asked: Vec<(u64, u64)> = Vec::new();
        let mut used = None;
        let mut decoder = Decoder::with_ip(64, code, start, DecoderOptions::NONE);
        let mut instruction = Instruction::new();
        while decoder.can_decode() {
            decoder.decode_out(&mut instruction);
            registers.arrive(instruction.ip());
            if is_call(&instruction) {
                let handle = registers.address(Register::RDI);
                let host = registers.address(Register::RSI);
                if let (Some(handle), Some(host)) = (handle, host)
                    && self.names.contains_key(&host)
                    && asks(self.image.callee(&instruction))
                {
                    asked.push((handle, host));
                }
                if instruction.next_ip() == return_address
                    && let Value::Variable(handle) = registers.get(Register::RDI)
                {
                    used = Some(handle);
                }
            }
            registers.step(&instruction, &self.image);
        }
        let used = used?;
        let found = asked.iter().find(|(handle, _)| *handle == used);
        found.map(|(_, host)| *host)
    }
}

fn is_call(instruction: &Instruction) -> bool {
    let flow = instruction.flow_control();
    matches!(flow, FlowControl::Call | FlowControl::IndirectCall)
}

/// Whether it can be `__cudaGetKernel`: a runtime that is linked in has no name for it.
fn asks(callee: Callee) -> bool {
    matches!(callee, Callee::Import(Import::GetKernel) | Callee::Own(_))
}

struct Reading<'a> {
    image: &'a Image,
    until: Instant,
    read: u64,
    /// Functions to be read, and how deep they are.
    waiting: VecDeque<(u64, u32)>,
    seen: HashSet<u64>,
    names: HashMap<u64, u64>,
}

impl Reading<'_> {
    fn all(&mut self) {
        for constructor in self.image.constructors() {
            self.wait(constructor, 0);
        }
        while let Some((function, depth)) = self.waiting.pop_front() {
            if self.function(function, depth).is_none() {
                return;
            }
        }
    }

    fn wait(&mut self, function: u64, depth: u32) {
        let wanted = depth <= DEEPEST
            && self.seen.len() < MOST_FUNCTIONS
            && !self.image.code(function).is_empty();
        if wanted && self.seen.insert(function) {
            self.waiting.push_back((function, depth));
        }
    }

    /// Reads a function up to where it ends. None: there is no more time.
    fn function(&mut self, start: u64, depth: u32) -> Option<()> {
        let code = self.image.code(start);
        let mut decoder = Decoder::with_ip(64, code, start, DecoderOptions::NONE);
        let mut registers = Registers::new();
        let mut instruction = Instruction::new();
        let mut follows = depth > 0;
        while decoder.can_decode() {
            decoder.decode_out(&mut instruction);
            registers.arrive(instruction.ip());
            self.read += 1;
            let late = self.read.is_multiple_of(UNWATCHED) && Instant::now() > self.until;
            if late || self.names.len() >= MOST_KERNELS {
                return None;
            }
            match instruction.flow_control() {
                FlowControl::Next | FlowControl::ConditionalBranch => {}
                FlowControl::Call | FlowControl::IndirectCall => {
                    follows |= self.brings_kernels(&registers);
                    self.call(&instruction, &registers, follows.then_some(depth));
                }
                FlowControl::UnconditionalBranch | FlowControl::IndirectBranch => {
                    follows |= self.brings_kernels(&registers);
                    self.call(&instruction, &registers, follows.then_some(depth));
                    break;
                }
                _ => break,
            }
            // Without optimisation, what registers the kernels is called through a variable on the stack.
            let names_code = follows && depth == 0 && instruction.mnemonic() == Mnemonic::Lea;
            if names_code && instruction.is_ip_rel_memory_operand() {
                self.wait(instruction.ip_rel_memory_address(), depth + 1);
            }
            registers.step(&instruction, self.image);
        }
        Some(())
    }

    /// `depth`: how deep it is in what registers kernels, if it is in that.
    fn call(&mut self, instruction: &Instruction, registers: &Registers, depth: Option<u32>) {
        let callee = match self.image.callee(instruction) {
            Callee::Unknown => match registers.get(instruction.op0_register()) {
                Value::Address(function) => Callee::Own(function),
                Value::Variable(slot) => self.image.behind(slot),
                Value::Unknown => Callee::Unknown,
            },
            known => known,
        };
        if let Some((host, name)) = self.registration(callee, registers) {
            self.names.entry(host).or_insert(name);
        } else if let (Callee::Own(function), Some(depth)) = (callee, depth) {
            self.wait(function, depth + 1);
            // Relocatable device code: the constructor hands over what registers its kernels.
            if let Some(callback) = registers.address(Register::RDI) {
                self.wait(callback, depth + 1);
            }
        }
    }

    /// Whether a call is `__cudaRegisterFatBinary(&wrapper)`, or, of relocatable device code,
    /// `__cudaRegisterLinkedBinary_…(callback, &wrapper, module, callback)`: constructors of other kinds are many, and
    /// call much.
    fn brings_kernels(&self, registers: &Registers) -> bool {
        let address = |register| registers.address(register);
        let is_code =
            |register| address(register).is_some_and(|at| !self.image.code(at).is_empty());
        address(Register::RDI).is_some_and(|at| self.image.is_gpu_code(at))
            || is_code(Register::RDI) && is_code(Register::RCX)
    }

    /// `__cudaRegisterFunction(handle, host function, name, name, …)`. A runtime that is linked in has no name for it;
    /// there a function of the program with the same text behind it twice is proof enough.
    fn registration(&self, callee: Callee, registers: &Registers) -> Option<(u64, u64)> {
        let host = registers.address(Register::RSI)?;
        let name = registers.address(Register::RCX)?;
        let can_be = match callee {
            Callee::Import(import) => import == Import::RegisterFunction,
            Callee::Own(_) => {
                registers.address(Register::RDX) == Some(name) && self.image.text(name).is_some()
            }
            Callee::Unknown => false,
        };
        (can_be && !self.image.code(host).is_empty()).then_some((host, name))
    }
}

#[cfg(test)]
mod tests;
