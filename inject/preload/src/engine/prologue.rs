//! Moves the first instructions of a function elsewhere, so that a jump fits in their place.
//!
//! The jump goes *behind* the first instruction, which stays as it is in the file. A uprobe (bpftrace's,
//! perf's, another cutrace's) sits on the first instruction, and when it is removed the kernel restores the
//! file's byte there, whatever it had found: a jump at the entry itself would turn into garbage. `detour`
//! says where the jump goes and what takes back the first instruction's effect before the hook runs.

use super::first::{self, Undo};
use alloc::vec::Vec;
use core::ops::Range;
use iced_x86::{
    Code, Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic, OpKind, Register,
};

/// Bytes that a jump takes.
pub const JUMP: usize = 5;
/// More than any moved beginning needs.
pub const MOST_BYTES: usize = 96;

/// Why a function cannot be hooked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    TooShort,
    NotDecodable,
    BranchesIntoStart,
    NotMovable,
    FirstChangesState,
    OutOfReach,
}

impl Refusal {
    /// For the tracer's report: no spaces but between words.
    pub fn reason(self) -> &'static str {
        match self {
            Refusal::TooShort => "shorter than a jump",
            Refusal::NotDecodable => "entry not understood",
            Refusal::BranchesIntoStart => "branches into its own first bytes",
            Refusal::NotMovable => "first instructions cannot be moved",
            Refusal::FirstChangesState => "its first instruction cannot be undone",
            Refusal::OutOfReach => "out of reach",
        }
    }
}

/// Where a function gets its jump.
#[derive(Debug, PartialEq, Eq)]
pub struct Detour {
    /// From the entry on: the length of the first instruction.
    pub at: usize,
    /// What takes back the first instruction; it is executed again in the moved code.
    pub undo: Undo,
}

impl Detour {
    /// Bytes that the first instruction and the jump take.
    pub fn end(&self) -> usize {
        self.at + JUMP
    }
}

/// Where to put a jump into a function that takes so many arguments in general registers.
pub fn detour(code: &[u8], entry: u64, arguments: usize) -> Result<Detour, Refusal> {
    let mut decoder = Decoder::with_ip(64, code, entry, DecoderOptions::NONE);
    if !decoder.can_decode() {
        return Err(Refusal::TooShort);
    }
    let first = decoder.decode();
    if first.is_invalid() {
        return Err(Refusal::NotDecodable);
    }
    if first.mnemonic() == Mnemonic::Ret {
        // An empty function: with the file's byte back in place it is one again.
        return Ok(Detour {
            at: 0,
            undo: Undo::NOTHING,
        });
    }
    let undo = first::undo(&first, arguments).ok_or(Refusal::FirstChangesState)?;
    Ok(Detour {
        at: first.len(),
        undo,
    })
}

/// Code for `to` that does what the function at `entry` does. `code` is the function, from its
/// entry on; `size` how much of that is the function's own (0: not known); at least its first `least`
/// bytes are moved, and nothing may jump into those.
pub fn relocate(
    code: &[u8],
    entry: u64,
    size: usize,
    least: usize,
    to: u64,
) -> Result<Vec<u8>, Refusal> {
    let mut moved = Moved {
        bytes: Vec::with_capacity(MOST_BYTES),
        to,
    };
    let mut decoder = Decoder::with_ip(64, code, entry, DecoderOptions::NONE);
    let mut instruction = Instruction::default();
    let mut taken = 0;
    let mut ended = false;
    while taken < least {
        if !decoder.can_decode() {
            return Err(Refusal::TooShort);
        }
        decoder.decode_out(&mut instruction);
        let bytes = code
            .get(taken..taken + instruction.len())
            .ok_or(Refusal::NotDecodable)?;
        if instruction.is_invalid() {
            return Err(Refusal::NotDecodable);
        }
        taken += instruction.len();
        if ended {
            // Behind the function's end only padding may give way.
            let padding = matches!(instruction.mnemonic(), Mnemonic::Nop | Mnemonic::Int3);
            if !padding {
                return Err(Refusal::TooShort);
            }
            continue;
        }
        let offsets = decoder.get_constant_offsets(&instruction);
        let start = entry..entry + least as u64;
        ended = moved.push(&instruction, bytes, offsets.displacement_offset(), start)?;
    }
    if size > 0 && taken > size.next_multiple_of(16) {
        return Err(Refusal::TooShort);
    }
    let body = code.get(..size).unwrap_or(code);
    if branches_into_start(body, taken, least, entry) {
        return Err(Refusal::BranchesIntoStart);
    }
    if !ended {
        moved.jump(entry + taken as u64)?;
    }
    Ok(moved.bytes)
}

struct Moved {
    bytes: Vec<u8>,
    to: u64,
}

impl Moved {
    /// Appends one instruction; true if nothing runs behind it.
    fn push(
        &mut self,
        instruction: &Instruction,
        bytes: &[u8],
        displacement: usize,
        start: Range<u64>,
    ) -> Result<bool, Refusal> {
        let target = instruction.near_branch_target();
        let near = matches!(instruction.op0_kind(), OpKind::NearBranch64);
        if near && start.contains(&target) {
            return Err(Refusal::BranchesIntoStart);
        }
        match instruction.flow_control() {
            FlowControl::UnconditionalBranch if near => {
                self.jump(target)?;
                Ok(true)
            }
            FlowControl::ConditionalBranch if near && instruction.is_jcc_short_or_near() => {
                // The condition is in the low four bits of either form's opcode.
                let opcode = if instruction.is_jcc_short() {
                    bytes.iter().rev().nth(1)
                } else {
                    bytes.iter().rev().nth(4)
                };
                let condition = opcode.ok_or(Refusal::NotMovable)? & 0xf;
                self.bytes.extend([0x0f, 0x80 | condition]);
                self.offset_to(target)?;
                Ok(false)
            }
            // The callee must return into the function itself, where unwinders know their way: the
            // address is pushed, and the call becomes a jump.
            FlowControl::Call if near && instruction.code() == Code::Call_rel32_64 => {
                if instruction.next_ip() < start.end {
                    return Err(Refusal::NotMovable);
                }
                self.push_from_behind(5);
                self.jump(target)?;
                self.bytes.extend(instruction.next_ip().to_le_bytes());
                Ok(true)
            }
            FlowControl::IndirectCall => {
                let returns_into_jump = instruction.next_ip() < start.end;
                let uses_stack = instruction.memory_base() == Register::RSP;
                let opcode = bytes.iter().position(|byte| *byte == 0xff);
                let (false, false, Some(opcode)) = (returns_into_jump, uses_stack, opcode) else {
                    return Err(Refusal::NotMovable);
                };
                self.push_from_behind(bytes.len() as u8);
                let begin = self.bytes.len();
                self.copy(instruction, bytes, displacement)?;
                let form = self
                    .bytes
                    .get_mut(begin + opcode + 1)
                    .ok_or(Refusal::NotMovable)?;
                // FF /2 is a call, FF /4 a jump.
                *form = *form & 0xc7 | 4 << 3;
                self.bytes.extend(instruction.next_ip().to_le_bytes());
                Ok(true)
            }
            FlowControl::Next | FlowControl::IndirectBranch | FlowControl::Return => {
                self.copy(instruction, bytes, displacement)?;
                Ok(instruction.flow_control() != FlowControl::Next)
            }
            _ => Err(Refusal::NotMovable),
        }
    }

    /// Pushes the word that is behind the next instruction, which is that long.
    fn push_from_behind(&mut self, length: u8) {
        self.bytes.extend([0xff, 0x35, length, 0, 0, 0]);
    }

    fn here(&self) -> u64 {
        self.to + self.bytes.len() as u64
    }

    fn jump(&mut self, target: u64) -> Result<(), Refusal> {
        self.bytes.push(0xe9);
        self.offset_to(target)
    }

    fn offset_to(&mut self, target: u64) -> Result<(), Refusal> {
        let offset = distance(self.here() + 4, target)?;
        self.bytes.extend(offset.to_le_bytes());
        Ok(())
    }

    fn copy(
        &mut self,
        instruction: &Instruction,
        bytes: &[u8],
        displacement: usize,
    ) -> Result<(), Refusal> {
        let begin = self.bytes.len();
        self.bytes.extend(bytes);
        if instruction.is_ip_rel_memory_operand() {
            let offset = distance(self.here(), instruction.ip_rel_memory_address())?;
            let at = begin + displacement;
            let place = self.bytes.get_mut(at..at + 4).ok_or(Refusal::NotMovable)?;
            place.copy_from_slice(&offset.to_le_bytes());
        }
        Ok(())
    }
}

fn distance(from: u64, to: u64) -> Result<i32, Refusal> {
    i32::try_from(to.wrapping_sub(from).cast_signed()).map_err(|_| Refusal::OutOfReach)
}

/// Whether the rest of the function jumps to its entry, where a loop would look like many calls, or to
/// where the jump will be.
fn branches_into_start(body: &[u8], taken: usize, least: usize, entry: u64) -> bool {
    let Some(rest) = body.get(taken..) else {
        return false;
    };
    let start = entry..entry + least as u64;
    let decoder = Decoder::with_ip(64, rest, entry + taken as u64, DecoderOptions::NONE);
    decoder.into_iter().any(|instruction| {
        let jumps = matches!(
            instruction.flow_control(),
            FlowControl::UnconditionalBranch | FlowControl::ConditionalBranch
        );
        jumps
            && instruction.op0_kind() == OpKind::NearBranch64
            && start.contains(&instruction.near_branch_target())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENTRY: u64 = 0x7000_0000;
    const TO: u64 = 0x7010_0000;

    fn moved(code: &[u8]) -> Result<Vec<u8>, Refusal> {
        let mut padded = code.to_vec();
        padded.resize(64, 0xcc);
        relocate(&padded, ENTRY, code.len(), JUMP, TO)
    }

    fn back(moved_bytes: usize, taken: u64) -> [u8; 5] {
        let offset = (ENTRY + taken).wrapping_sub(TO + moved_bytes as u64 + 5) as u32;
        let mut code = [0xe9, 0, 0, 0, 0];
        code[1..].copy_from_slice(&offset.to_le_bytes());
        code
    }

    #[test]
    fn plain_instructions_are_copied_and_followed_by_a_jump_back() {
        // endbr64; push rbp; mov rbp, rsp
        let code = [0xf3, 0x0f, 0x1e, 0xfa, 0x55, 0x48, 0x89, 0xe5, 0xc3];
        let mut expected = code[..5].to_vec();
        expected.extend(back(5, 5));
        assert_eq!(moved(&code).unwrap(), expected);
    }

    #[test]
    fn addresses_relative_to_the_instruction_keep_their_target() {
        // jmp [rip + 0x1000]
        let code = [0xff, 0x25, 0x00, 0x10, 0x00, 0x00];
        let offset = ((ENTRY + 6 + 0x1000).wrapping_sub(TO + 6)) as u32;
        let mut expected = [0xff, 0x25].to_vec();
        expected.extend(offset.to_le_bytes());
        assert_eq!(moved(&code).unwrap(), expected);
        // mov [rip + 0x20], 7, with a constant behind the address
        let code = [0xc7, 0x05, 0x20, 0, 0, 0, 7, 0, 0, 0, 0xc3];
        let result = moved(&code).unwrap();
        let offset = ((ENTRY + 10 + 0x20).wrapping_sub(TO + 10)) as u32;
        assert_eq!(result[2..6], offset.to_le_bytes());
        assert_eq!(result[6..10], [7, 0, 0, 0]);
    }

    #[test]
    fn short_branches_become_long_ones() {
        // test edi, edi; je +0x10; mov eax, 1
        let code = [0x85, 0xff, 0x74, 0x10, 0xb8, 1, 0, 0, 0, 0xc3];
        let result = moved(&code).unwrap();
        assert_eq!(result[..4], [0x85, 0xff, 0x0f, 0x84]);
        let offset = ((ENTRY + 4 + 0x10).wrapping_sub(TO + 8)) as u32;
        assert_eq!(result[4..8], offset.to_le_bytes());
    }

    #[test]
    fn a_call_returns_into_the_function_itself() {
        // sub rsp, 8; call +0x100
        let code = [0x48, 0x83, 0xec, 8, 0xe8, 0, 1, 0, 0, 0xc3];
        let result = moved(&code).unwrap();
        assert_eq!(result[4..10], [0xff, 0x35, 5, 0, 0, 0]);
        assert_eq!(result[10], 0xe9);
        assert_eq!(result[15..], (ENTRY + 9).to_le_bytes());
        // sub rsp, 8; call rdi
        let code = [0x48, 0x83, 0xec, 8, 0xff, 0xd7, 0xc3];
        let mut expected = [0x48, 0x83, 0xec, 8, 0xff, 0x35, 2, 0, 0, 0, 0xff, 0xe7].to_vec();
        expected.extend((ENTRY + 6).to_le_bytes());
        assert_eq!(moved(&code).unwrap(), expected);
        // call rdi at once: it would return into the jump. call [rsp + 8]: the stack has moved.
        assert_eq!(
            moved(&[0xff, 0xd7, 0x90, 0x90, 0xc3]),
            Err(Refusal::NotMovable)
        );
        assert_eq!(
            moved(&[0x55, 0xff, 0x54, 0x24, 8, 0x5d, 0xc3]),
            Err(Refusal::NotMovable)
        );
    }

    #[test]
    fn the_jump_goes_behind_the_first_instruction() {
        let at = |code: &[u8]| detour(code, ENTRY, 2).map(|detour| detour.at);
        // The driver's: cmp dword [rip + x], y; je; jmp [rip + z]
        let exported = [
            0x81, 0x3d, 0, 0, 0, 0, 0, 0xba, 0x1c, 0x32, 0x74, 0x0c, 0xff, 0x25, 0, 0, 0, 0,
        ];
        assert_eq!(at(&exported), Ok(10));
        // The runtime's: push rbp; mov rbp, rsp
        assert_eq!(at(&[0x55, 0x48, 0x89, 0xe5]), Ok(1));
        // An empty function; a jump; a call.
        assert_eq!(at(&[0xc3, 0x90]), Ok(0));
        assert_eq!(at(&[0xe9, 0, 1, 0, 0]), Err(Refusal::FirstChangesState));
        assert_eq!(at(&[0xe8, 0, 1, 0, 0]), Err(Refusal::FirstChangesState));
        assert_eq!(at(&[]), Err(Refusal::TooShort));
        assert_eq!(at(&[0x06, 0x06]), Err(Refusal::NotDecodable));
        // A loop to the second instruction is one into the jump: test; push; …; jmp -8
        let looped = [0x55, 0x48, 0x85, 0xff, 0x48, 0x89, 0xe5, 0xeb, 0xf8];
        let refused = relocate(&looped, ENTRY, looped.len(), 1 + JUMP, TO);
        assert_eq!(refused, Err(Refusal::BranchesIntoStart));
    }

    #[test]
    fn what_cannot_be_moved_is_refused() {
        // xor eax, eax; ret, and another function right behind
        let short = [0x31, 0xc0, 0xc3, 0x55, 0x48, 0x89, 0xe5];
        assert_eq!(relocate(&short, ENTRY, 3, JUMP, TO), Err(Refusal::TooShort));
        // the same with padding behind
        assert!(moved(&[0x31, 0xc0, 0xc3]).is_ok());
        // a loop back to the second instruction
        let back_loop = [0x31, 0xc0, 0xff, 0xc0, 0x39, 0xf8, 0x75, 0xfa, 0xc3];
        assert_eq!(moved(&back_loop), Err(Refusal::BranchesIntoStart));
        // jrcxz
        assert_eq!(
            moved(&[0xe3, 0x10, 0x90, 0x90, 0x90, 0xc3]),
            Err(Refusal::NotMovable)
        );
        // a breakpoint
        assert_eq!(
            moved(&[0xcc, 0x48, 0x89, 0xe5, 0xc3]),
            Err(Refusal::NotMovable)
        );
        assert_eq!(relocate(&[], ENTRY, 0, JUMP, TO), Err(Refusal::TooShort));
        assert_eq!(
            relocate(&[0x06; 16], ENTRY, 16, JUMP, TO),
            Err(Refusal::NotDecodable)
        );
        assert_eq!(
            relocate(&[0xff, 0x25, 0, 0, 0, 0], ENTRY, 6, JUMP, ENTRY + (1 << 33)),
            Err(Refusal::OutOfReach)
        );
    }

    #[test]
    fn any_bytes_are_moved_within_bounds_or_refused() {
        // xorshift: the same bytes in every run.
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut moved = 0;
        for _ in 0..100_000 {
            let mut code = [0u8; 24];
            for byte in &mut code {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                *byte = state as u8;
            }
            for size in [0, 1, 3, 16, 24, 100] {
                let Ok(detour) = detour(&code, ENTRY, 6) else {
                    continue;
                };
                assert!(detour.undo.code().len() <= Undo::MOST_BYTES);
                if let Ok(bytes) = relocate(&code, ENTRY, size, detour.end(), TO) {
                    assert!(bytes.len() <= MOST_BYTES, "{code:x?}");
                    moved += 1;
                }
            }
        }
        assert!(moved > 2_000, "{moved}");
    }
}
