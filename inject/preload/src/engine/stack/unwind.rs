//! Walks a thread's own stack, from frame to frame, by unwind information; by the frame pointer
//! where there is none. What cannot be walked is marked and ends the stack: nothing is invented.
//!
//! Runs in the traced program, on any thread, perhaps in a signal handler: no locks, no allocation,
//! and no memory is read that may not be there.

use super::cfi::{Cfa, RETURN, RegisterRule, Rule, TRACKED, tracked};
use super::expression::evaluate;
use super::image::Image;
use super::inputs::Recorder;
use super::loaded;
pub use super::memory::Memory;
use crate::layout::Caller;
use event::note::{MARK_DEEP, MARK_GUESSED, MARK_LOST, MARK_SIGNAL};

/// A frame's registers, as far as they are followed.
#[derive(Clone, Copy)]
pub struct Registers {
    /// rbx, rbp, r12 to r15
    saved: [u64; TRACKED - 1],
    pub rip: u64,
    pub rsp: u64,
}

const RBP: usize = 1;

impl Registers {
    pub fn of(caller: &Caller) -> Registers {
        Registers {
            saved: caller.saved,
            rip: caller.rip,
            rsp: caller.rsp,
        }
    }

    /// By DWARF's number.
    pub fn get(&self, register: u64) -> Option<u64> {
        match register {
            7 => Some(self.rsp),
            16 => Some(self.rip),
            _ => self.saved.get(tracked(register)?).copied(),
        }
    }

    /// The same, where the walk depends on it.
    pub fn recorded(&self, register: u64, inputs: &mut Recorder<'_>) -> Option<u64> {
        let value = self.get(register)?;
        // The two others follow from what is recorded already.
        if !matches!(register, 7 | 16) {
            inputs.register(tracked(register)?, value);
        }
        Some(value)
    }
}

/// The rule of one place in the code, where it is as simple as most are.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct CachedRule {
    /// 0: free.
    address: u64,
    offset: i32,
    /// Which register the frame's address is counted from: one of the saved, or 6 for rsp; 7: there
    /// is no caller.
    base: u8,
    /// Where registers are saved, in words below the frame's address; 0: not at all.
    saved: [u8; TRACKED - 1],
}

const FROM_RSP: u8 = 6;
const OUTERMOST: u8 = 7;

impl CachedRule {
    fn outermost(address: u64) -> CachedRule {
        CachedRule {
            address,
            offset: 0,
            base: OUTERMOST,
            saved: [0; TRACKED - 1],
        }
    }

    fn of(address: u64, rule: &Rule) -> Option<CachedRule> {
        let Cfa::Register { register, offset } = rule.cfa else {
            return None;
        };
        let base = match register {
            7 => FROM_RSP,
            _ => u8::try_from(tracked(register.into())?)
                .ok()
                .filter(|base| *base < FROM_RSP)?,
        };
        if rule.signal || rule.places[RETURN] != RegisterRule::At(-8) {
            return None;
        }
        let mut saved = [0; TRACKED - 1];
        for (to, place) in saved.iter_mut().zip(&rule.places) {
            *to = match *place {
                RegisterRule::Same => 0,
                RegisterRule::At(offset) if offset < 0 && offset % 8 == 0 => {
                    u8::try_from(offset / -8).ok()?
                }
                _ => return None,
            };
        }
        Some(CachedRule {
            address,
            offset,
            base,
            saved,
        })
    }
}

/// Rules that have been needed; None where they may not be kept.
pub type Rules<'a> = Option<&'a mut [CachedRule]>;

fn place_of(address: u64, count: usize) -> usize {
    (address.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as usize & (count - 1)
}

enum Step {
    Next { signal: bool },
    End,
    Lost,
}

/// What was walked.
pub struct Walked {
    pub count: usize,
    /// A signal handler is among the frames.
    pub in_signal: bool,
}

/// Return addresses and marks, innermost first. The number of rules is a power of two.
pub fn walk(
    caller: &Caller,
    memory: &mut Memory<'_>,
    mut rules: Rules<'_>,
    inputs: &mut Recorder<'_>,
    out: &mut [u64],
) -> Walked {
    let mut registers = Registers::of(caller);
    let mut walked = Walked {
        count: 0,
        in_signal: false,
    };
    // Where a signal came, the address is that of the next instruction, not of one after a call.
    let mut interrupted = false;
    let last = out.len().saturating_sub(1);
    loop {
        let rip = registers.rip;
        if rip == 0 {
            break;
        }
        if walked.count >= last {
            put(out, &mut walked.count, MARK_DEEP);
            break;
        }
        put(out, &mut walked.count, rip);
        let address = if interrupted {
            rip
        } else {
            rip.wrapping_sub(1)
        };
        memory.floor = registers.rsp;
        match step(address, &mut registers, memory, &mut rules, inputs) {
            Step::Next { signal } => {
                if signal {
                    // What was interrupted may go on anywhere.
                    inputs.give_up();
                    walked.in_signal = true;
                    if let Some(frame) = out.get_mut(walked.count.wrapping_sub(1)) {
                        *frame = MARK_SIGNAL;
                    }
                }
                interrupted = signal;
            }
            Step::End => break,
            Step::Lost => {
                interrupted = false;
                if !guess(&mut registers, memory, inputs) {
                    put(out, &mut walked.count, MARK_LOST);
                    break;
                }
                put(out, &mut walked.count, MARK_GUESSED);
            }
        }
    }
    walked
}

fn put(out: &mut [u64], count: &mut usize, value: u64) {
    if let Some(to) = out.get_mut(*count) {
        *to = value;
        *count += 1;
    }
}

fn step(
    address: u64,
    registers: &mut Registers,
    memory: &mut Memory<'_>,
    rules: &mut Rules<'_>,
    inputs: &mut Recorder<'_>,
) -> Step {
    let place = rules
        .as_deref()
        .map_or(0, |rules| place_of(address, rules.len()));
    if let Some(rule) = rules.as_deref().and_then(|rules| rules.get(place))
        && rule.address == address
    {
        if rule.base == OUTERMOST {
            return Step::End;
        }
        return match follow(rule, registers, memory, inputs) {
            Some(()) => Step::Next { signal: false },
            None => lost(inputs),
        };
    }
    let Some((unwind, in_object)) = loaded::unwind_of(address) else {
        return Step::Lost;
    };
    let Some(rule) = unwind.rule(in_object) else {
        // The ABI: the outermost frame has no frame pointer.
        inputs.register(RBP, registers.saved[RBP]);
        return if registers.saved[RBP] == 0 {
            Step::End
        } else {
            Step::Lost
        };
    };
    let mut keep = |simple: CachedRule| {
        if let Some(slot) = rules.as_deref_mut().and_then(|rules| rules.get_mut(place)) {
            *slot = simple;
        }
    };
    if rule.places[RETURN] == RegisterRule::Undefined {
        keep(CachedRule::outermost(address));
        return Step::End;
    }
    if let Some(simple) = CachedRule::of(address, &rule) {
        let done = follow(&simple, registers, memory, inputs);
        keep(simple);
        return match done {
            Some(()) => Step::Next { signal: false },
            None => lost(inputs),
        };
    }
    match follow_any(&unwind.image, &rule, registers, memory, inputs) {
        Some(()) => Step::Next {
            signal: rule.signal,
        },
        None => lost(inputs),
    }
}

/// A rule that could not be followed: why is not among the inputs.
#[cold]
fn lost(inputs: &mut Recorder<'_>) -> Step {
    inputs.give_up();
    Step::Lost
}

fn follow(
    rule: &CachedRule,
    registers: &mut Registers,
    memory: &mut Memory<'_>,
    inputs: &mut Recorder<'_>,
) -> Option<()> {
    let base = if rule.base == FROM_RSP {
        registers.rsp
    } else {
        let register = usize::from(rule.base);
        let value = *registers.saved.get(register)?;
        inputs.register(register, value);
        value
    };
    let cfa = base.wrapping_add(rule.offset as u64);
    // Callers' frames lie above.
    if cfa <= registers.rsp {
        return None;
    }
    let rip = memory.read(cfa.wrapping_sub(8))?;
    inputs.word(cfa.wrapping_sub(8), rip);
    for (number, (register, words)) in registers.saved.iter_mut().zip(&rule.saved).enumerate() {
        if *words != 0 {
            let at = cfa.wrapping_sub(u64::from(*words) * 8);
            *register = memory.read(at)?;
            inputs.restored(number, at);
        }
    }
    registers.rip = rip;
    registers.rsp = cfa;
    Some(())
}

fn follow_any(
    image: &Image,
    rule: &Rule,
    registers: &mut Registers,
    memory: &mut Memory<'_>,
    inputs: &mut Recorder<'_>,
) -> Option<()> {
    let cfa = match rule.cfa {
        Cfa::Register { register, offset } => registers
            .recorded(register.into(), inputs)?
            .wrapping_add(i64::from(offset) as u64),
        Cfa::Expression(expression) => {
            evaluate(image, expression, registers, memory, inputs, None)?
        }
    };
    // A signal handler may run on a stack of its own.
    if cfa <= registers.rsp && !rule.signal {
        return None;
    }
    let mut next = *registers;
    let mut restored = [None; TRACKED - 1];
    let old = [&registers.saved[..], &[registers.rip]];
    for (at, (place, old)) in rule
        .places
        .iter()
        .zip(old.into_iter().flatten())
        .enumerate()
    {
        // Where the value is, if it is in memory.
        let address = match *place {
            RegisterRule::At(offset) => Some(cfa.wrapping_add(i64::from(offset) as u64)),
            RegisterRule::AtExpression(expression) => {
                let cfa = Some(cfa);
                Some(evaluate(image, expression, registers, memory, inputs, cfa)?)
            }
            _ => None,
        };
        let value = match (address, *place) {
            (Some(address), _) => memory.read(address)?,
            (None, RegisterRule::Is(offset)) => {
                inputs.give_up();
                cfa.wrapping_add(i64::from(offset) as u64)
            }
            (None, RegisterRule::Register(register)) => {
                inputs.give_up();
                registers.get(register.into())?
            }
            (None, RegisterRule::IsExpression(expression)) => {
                inputs.give_up();
                evaluate(image, expression, registers, memory, inputs, Some(cfa))?
            }
            _ => *old,
        };
        if let (Some(register), Some(from)) = (next.saved.get_mut(at), restored.get_mut(at)) {
            (*register, *from) = (value, address);
            continue;
        }
        match address {
            Some(address) => inputs.word(address, value),
            None => inputs.give_up(),
        }
        next.rip = value;
    }
    for (register, address) in restored.into_iter().enumerate() {
        if let Some(address) = address {
            inputs.restored(register, address);
        }
    }
    next.rsp = cfa;
    *registers = next;
    Some(())
}

/// By the frame pointer, where it points up the stack and what is there is an address in code.
fn guess(registers: &mut Registers, memory: &mut Memory<'_>, inputs: &mut Recorder<'_>) -> bool {
    let frame = registers.saved[RBP];
    inputs.register(RBP, frame);
    if frame < registers.rsp || !frame.is_multiple_of(8) {
        return false;
    }
    let (Some(outer), Some(rip)) = (memory.read(frame), memory.read(frame.wrapping_add(8))) else {
        inputs.give_up();
        return false;
    };
    inputs.word(frame, outer);
    inputs.word(frame.wrapping_add(8), rip);
    inputs.restored(RBP, frame);
    if (outer != 0 && outer <= frame) || !loaded::is_code(rip.wrapping_sub(1)) {
        return false;
    }
    registers.saved[RBP] = outer;
    registers.rip = rip;
    registers.rsp = frame.wrapping_add(16);
    true
}
