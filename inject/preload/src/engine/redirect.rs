//! Hooking without touching code, for functions whose entry cannot be changed and for processes that
//! may not change any: callers that look the function up get a thunk instead.
//!
//! Two ways. The driver's exports only jump through a *slot* of its data: the slot is changed, and
//! every caller is seen. Otherwise the *symbol* is changed, and with it every later lookup (by the
//! loader, dlsym, cuGetProcAddress), and the pointers that lookups have left behind so far; a caller
//! that has kept a pointer elsewhere is not seen.

use super::code::Part;
use crate::objects::{Object, Symbol};
use crate::sys;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic, Register};

const PAGE: usize = 4096;
const R_64: u64 = 1;
const R_GLOB_DAT: u64 = 6;
const R_JUMP_SLOT: u64 = 7;
const R_RELATIVE: u64 = 8;
/// Instructions up to the jump through a slot: a landing pad, the test of whether the driver has
/// shut down, arguments widened.
const BEFORE_JUMP: usize = 6;
const WRITABLE: i32 = libc::PROT_READ | libc::PROT_WRITE;

/// A function that is hooked this way.
pub struct Redirect {
    pub address: usize,
    pub thunk: usize,
    pub how: How,
}

pub enum How {
    Slot(Slot),
    /// Symbols in the loader's tables, by their addresses: all names of the function.
    Symbols(Vec<usize>),
}

/// Where the driver keeps the address of a function.
#[derive(Clone, Copy)]
pub struct Slot {
    at: usize,
    /// The loader has not filled it yet: what it will add its base to.
    addend: Option<usize>,
    /// What an export jumps to.
    pub function: usize,
}

/// An object's data that may be changed, and what is known of it.
pub struct Data {
    bias: usize,
    /// (begin, end, may be written, is code)
    parts: Vec<(usize, usize, bool, bool)>,
    /// What the loader makes read-only when it is done.
    settled: (usize, usize),
    /// Words that the loader fills with an address: where each one's addend is.
    relative: BTreeMap<usize, usize>,
}

impl Data {
    pub fn of(object: &Object, segments: impl Iterator<Item = libc::Elf64_Phdr>) -> Data {
        let mut data = Data {
            bias: object.bias,
            parts: Vec::new(),
            settled: (0, 0),
            relative: BTreeMap::new(),
        };
        for segment in segments {
            let begin = object.bias.wrapping_add(segment.p_vaddr as usize);
            let end = begin.wrapping_add(segment.p_memsz as usize);
            let has = |flag| segment.p_flags & flag != 0;
            match segment.p_type {
                libc::PT_LOAD => {
                    (data.parts).push((begin, end, has(libc::PF_W), has(libc::PF_X)));
                }
                // Whole pages only, as the loader does it.
                libc::PT_GNU_RELRO => data.settled = (begin & !(PAGE - 1), end & !(PAGE - 1)),
                _ => {}
            }
        }
        data
    }

    fn part(&self, at: usize) -> Option<&(usize, usize, bool, bool)> {
        (self.parts.iter()).find(|part| at >= part.0 && at.saturating_add(8) <= part.1)
    }

    fn is_code(&self, at: usize) -> bool {
        self.part(at).is_some_and(|part| part.3)
    }

    /// Learns which words the loader fills.
    pub fn learn_relocations(&mut self, object: &Object) {
        object.relocations(|entry| {
            let relocation = unsafe { &*(entry as *const libc::Elf64_Rela) };
            if relocation.r_info == R_RELATIVE {
                let at = self.bias.wrapping_add(relocation.r_offset as usize);
                let addend = entry + core::mem::offset_of!(libc::Elf64_Rela, r_addend);
                self.relative.insert(at, addend);
            }
        });
    }

    /// The slot that a function does nothing but jump through.
    pub fn slot_of(&self, address: usize, parts: &[Part]) -> Option<Slot> {
        let part = parts
            .iter()
            .find(|part| (part.begin..part.end).contains(&address))?;
        let shown = (part.end - address).min(64);
        // SAFETY: within the mapped code.
        let code = unsafe { core::slice::from_raw_parts(address as *const u8, shown) };
        let at = jumps_through(code, address)?;
        let part = self.part(at)?;
        let settled = (self.settled.0..self.settled.1).contains(&at);
        if !part.2 || settled || !at.is_multiple_of(8) {
            return None;
        }
        // SAFETY: a word of the object's data.
        let value = unsafe { (at as *const usize).read_volatile() };
        if self.is_code(value) {
            return Some(Slot {
                at,
                addend: None,
                function: value,
            });
        }
        let addend = *self.relative.get(&at)?;
        // SAFETY: a word of the object's relocations.
        let function = self.bias.wrapping_add(unsafe { *(addend as *const usize) });
        self.is_code(function).then_some(Slot {
            at,
            addend: Some(addend),
            function,
        })
    }

    /// Whether a symbol's table can be changed: not where it is among code, which could not be
    /// made executable again.
    pub fn may_change(&self, symbol: usize) -> bool {
        self.part(symbol).is_some_and(|part| !part.3)
    }

    fn write(&self, at: usize, value: usize) -> bool {
        let Some(part) = self.part(at) else {
            return false;
        };
        let settled = (self.settled.0..self.settled.1).contains(&at);
        let guarded = !part.2 || settled;
        let first = at & !(PAGE - 1);
        let bytes = (at + 8).next_multiple_of(PAGE) - first;
        // SAFETY: data of the object, which other threads only read.
        unsafe {
            if guarded && !sys::protect(first, bytes, WRITABLE) {
                return false;
            }
            (at as *mut usize).write_volatile(value);
            // Before the loader is done its own writes are still to come.
            if !part.2 {
                sys::protect(first, bytes, libc::PROT_READ);
            }
        }
        true
    }

    /// Turns a function's slot or symbols to its thunk.
    pub fn turn(&self, redirect: &Redirect) -> bool {
        match &redirect.how {
            How::Slot(slot) => match slot.addend {
                None => self.write(slot.at, redirect.thunk),
                Some(addend) => self.write(addend, redirect.thunk.wrapping_sub(self.bias)),
            },
            How::Symbols(symbols) => symbols.iter().all(|symbol| {
                let value = symbol + core::mem::offset_of!(Symbol, value);
                self.write(value, redirect.thunk.wrapping_sub(self.bias))
            }),
        }
    }

    /// Pointers that the loader has already left in this object, turned to thunks as well.
    pub fn turn_pointers(&self, object: &Object, thunks: &BTreeMap<usize, usize>) {
        object.relocations(|entry| {
            let relocation = unsafe { &*(entry as *const libc::Elf64_Rela) };
            if !matches!(
                relocation.r_info & 0xffff_ffff,
                R_64 | R_GLOB_DAT | R_JUMP_SLOT
            ) {
                return;
            }
            let at = self.bias.wrapping_add(relocation.r_offset as usize);
            if !at.is_multiple_of(8) || self.part(at).is_none() {
                return;
            }
            // SAFETY: a word of the object's data.
            let value = unsafe { (at as *const usize).read_volatile() };
            if let Some(thunk) = thunks.get(&value) {
                self.write(at, *thunk);
                let settled = (self.settled.0..self.settled.1).contains(&at);
                if settled {
                    let first = at & !(PAGE - 1);
                    // SAFETY: as the loader had left it.
                    unsafe { sys::protect(first, PAGE, libc::PROT_READ) };
                }
            }
        });
    }
}

/// Where a function jumps through, if it does nothing before that a hook behind it would miss.
fn jumps_through(code: &[u8], address: usize) -> Option<usize> {
    let mut decoder = Decoder::with_ip(64, code, address as u64, DecoderOptions::NONE);
    let mut instruction = Instruction::default();
    for _ in 0..BEFORE_JUMP {
        if !decoder.can_decode() {
            return None;
        }
        decoder.decode_out(&mut instruction);
        match instruction.flow_control() {
            FlowControl::IndirectBranch => {
                let through_word = instruction.is_ip_rel_memory_operand()
                    && instruction.memory_index() == Register::None;
                return through_word.then(|| instruction.ip_rel_memory_address() as usize);
            }
            FlowControl::ConditionalBranch => {}
            FlowControl::Next
                if matches!(
                    instruction.mnemonic(),
                    Mnemonic::Endbr64 | Mnemonic::Cmp | Mnemonic::Movzx
                ) => {}
            _ => return None,
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_jump_through_a_slot_is_recognised() {
        let at = 0x1000;
        // jmp [rip + 0x100]
        assert_eq!(
            jumps_through(&[0xff, 0x25, 0, 1, 0, 0, 0xcc], at),
            Some(0x1106)
        );
        // endbr64; cmp dword [rip + 0], 0x321cba00; je +8; jmp [rip + 0x10]
        let code = [
            0xf3, 0x0f, 0x1e, 0xfa, 0x81, 0x3d, 0, 0, 0, 0, 0, 0xba, 0x1c, 0x32, 0x74, 8, 0xff,
            0x25, 0x10, 0, 0, 0,
        ];
        assert_eq!(jumps_through(&code, at), Some(0x1000 + 22 + 0x10));
        // push rbp; jmp [rip]: something happens before.
        assert_eq!(jumps_through(&[0x55, 0xff, 0x25, 0, 0, 0, 0], at), None);
        // jmp rax; ret; nothing.
        assert_eq!(jumps_through(&[0xff, 0xe0], at), None);
        assert_eq!(jumps_through(&[0xc3], at), None);
        assert_eq!(jumps_through(&[], at), None);
    }
}
