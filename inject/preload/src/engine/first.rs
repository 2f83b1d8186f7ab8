//! A function's first instruction, which stays where it is and has run when the hook begins: what takes
//! its effect back, so that the hook finds everything as the caller left it, and the instruction can be
//! executed again when the function itself goes on.

use iced_x86::{Code, Instruction, Mnemonic, OpKind, Register};

/// Instructions that take the first one back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Undo {
    bytes: [u8; Undo::MOST_BYTES],
    length: usize,
}

impl Undo {
    pub const MOST_BYTES: usize = 8;
    pub const NOTHING: Undo = Undo {
        bytes: [0; Undo::MOST_BYTES],
        length: 0,
    };

    /// lea rsp, [rsp + by]: no flag changes, nothing is read.
    fn raise_stack(by: i32) -> Undo {
        let mut undo = Undo::NOTHING;
        undo.bytes[..4].copy_from_slice(&[0x48, 0x8d, 0xa4, 0x24]);
        undo.bytes[4..].copy_from_slice(&by.to_le_bytes());
        undo.length = 8;
        undo
    }

    pub fn code(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

/// What takes this instruction back; None: it cannot be, or its effect could be seen. Flags and registers
/// that no argument is in are nobody's at a function's entry.
pub fn undo(first: &Instruction, arguments: usize) -> Option<Undo> {
    match first.code() {
        Code::Push_r64 if first.op0_register() != Register::RSP => {
            return Some(Undo::raise_stack(8));
        }
        Code::Sub_rm64_imm8 | Code::Sub_rm64_imm32 if first.op0_register() == Register::RSP => {
            let by = i32::try_from(first.immediate(1).cast_signed()).ok()?;
            return (by >= 0).then(|| Undo::raise_stack(by));
        }
        _ => {}
    }
    let leaves_all = match first.mnemonic() {
        Mnemonic::Endbr64 | Mnemonic::Nop | Mnemonic::Cmp | Mnemonic::Test => {
            !touches_stack_pointer(first)
        }
        // xor eax, eax
        Mnemonic::Xor | Mnemonic::Sub
            if first.op1_kind() == OpKind::Register
                && first.op0_register() == first.op1_register() =>
        {
            is_nobodys(first.op0_register(), arguments)
        }
        Mnemonic::Mov | Mnemonic::Movzx | Mnemonic::Movsx | Mnemonic::Movsxd | Mnemonic::Lea => {
            match first.op0_kind() {
                OpKind::Register => {
                    let target = first.op0_register();
                    // mov edi, edi: the argument as the function sees it.
                    is_itself(first) || (is_nobodys(target, arguments) && !reads(first, target))
                }
                // A register that is put on the stack is put there again.
                OpKind::Memory => first.memory_base() == Register::RSP,
                _ => false,
            }
        }
        _ => false,
    };
    leaves_all.then_some(Undo::NOTHING)
}

fn touches_stack_pointer(first: &Instruction) -> bool {
    first.op0_kind() == OpKind::Register && first.op0_register().full_register() == Register::RSP
}

/// Whether the caller has left nothing in a register that the function could want.
fn is_nobodys(register: Register, arguments: usize) -> bool {
    const ARGUMENTS: [Register; 6] = [
        Register::RDI,
        Register::RSI,
        Register::RDX,
        Register::RCX,
        Register::R8,
        Register::R9,
    ];
    let whole = register.full_register();
    let unused = ARGUMENTS.iter().skip(arguments);
    [Register::RAX, Register::R10, Register::R11].contains(&whole)
        || unused.into_iter().any(|one| *one == whole)
}

fn reads(first: &Instruction, register: Register) -> bool {
    let whole = register.full_register();
    let is_it = |other: Register| other != Register::None && other.full_register() == whole;
    is_it(first.memory_base())
        || is_it(first.memory_index())
        || (first.op1_kind() == OpKind::Register && is_it(first.op1_register()))
}

/// A register extended in place: once more makes no difference.
fn is_itself(first: &Instruction) -> bool {
    first.mnemonic() != Mnemonic::Lea
        && first.op1_kind() == OpKind::Register
        && first.op1_register().full_register() == first.op0_register().full_register()
        && first.op0_register().full_register() != Register::RSP
        && first.op1_register() != Register::AH
}

#[cfg(test)]
mod tests {
    use super::*;
    use iced_x86::{Decoder, DecoderOptions};

    fn of(code: &[u8], arguments: usize) -> Option<Undo> {
        let mut decoder = Decoder::with_ip(64, code, 0x1000, DecoderOptions::NONE);
        undo(&decoder.decode(), arguments)
    }

    #[test]
    fn what_was_put_on_the_stack_is_taken_off() {
        let eight = Undo::raise_stack(8);
        assert_eq!(eight.code(), [0x48, 0x8d, 0xa4, 0x24, 8, 0, 0, 0]);
        // push rbp; push r15; push rax
        for push in [&[0x55][..], &[0x41, 0x57], &[0x50]] {
            assert_eq!(of(push, 6), Some(eight));
        }
        // sub rsp, 0x18; sub rsp, 0x1000
        assert_eq!(
            of(&[0x48, 0x83, 0xec, 0x18], 6),
            Some(Undo::raise_stack(24))
        );
        let large = [0x48, 0x81, 0xec, 0, 0x10, 0, 0];
        assert_eq!(of(&large, 6), Some(Undo::raise_stack(4096)));
        // push rsp pushes what the undoing changes; sub rsp, -8; add rsp, 8; push [rax]
        for odd in [
            &[0x54][..],
            &[0x48, 0x83, 0xec, 0xf8],
            &[0x48, 0x83, 0xc4, 8],
            &[0xff, 0x30],
        ] {
            assert_eq!(of(odd, 0), None, "{odd:x?}");
        }
    }

    #[test]
    fn what_changes_nothing_of_the_callers_is_left() {
        for harmless in [
            &[0xf3, 0x0f, 0x1e, 0xfa][..],         // endbr64
            &[0x48, 0x85, 0xff],                   // test rdi, rdi
            &[0x81, 0x3d, 0, 0, 0, 0, 1, 2, 3, 4], // cmp [rip], 0x04030201
            &[0x31, 0xc0],                         // xor eax, eax
            &[0xb8, 1, 0, 0, 0],                   // mov eax, 1
            &[0x48, 0x89, 0xf8],                   // mov rax, rdi
            &[0x4c, 0x8d, 0x54, 0x24, 8],          // lea r10, [rsp + 8]
            &[0x89, 0xff],                         // mov edi, edi
            &[0x48, 0x63, 0xff],                   // movsxd rdi, edi
            &[0x48, 0x89, 0x5c, 0x24, 0xe8],       // mov [rsp - 24], rbx
        ] {
            assert_eq!(of(harmless, 6), Some(Undo::NOTHING), "{harmless:x?}");
        }
    }

    #[test]
    fn what_the_hook_would_see_is_refused() {
        for seen in [
            &[0x48, 0x89, 0xf7][..],   // mov rdi, rsi
            &[0x31, 0xff],             // xor edi, edi
            &[0x48, 0x8b, 0x3f],       // mov rdi, [rdi]
            &[0x48, 0x8b, 0x00],       // mov rax, [rax]
            &[0x48, 0x89, 0xe5],       // mov rbp, rsp
            &[0x48, 0x89, 0x07],       // mov [rdi], rax
            &[0x48, 0xff, 0x07],       // inc qword [rdi]
            &[0x48, 0x39, 0xc4, 0x90], // cmp rsp, rax: not worth knowing
            &[0xe9, 0, 0, 0, 0],
            &[0x74, 0],
            &[0xff, 0xe0],
            &[0xcc],
            &[0x0f, 0x05],
        ] {
            assert_eq!(of(seen, 6), None, "{seen:x?}");
        }
        // lea rdx, [rip]: of a function with fewer arguments nobody wants it.
        let third = [0x48, 0x8d, 0x15, 0, 0, 0, 0];
        assert_eq!((of(&third, 3), of(&third, 2)), (None, Some(Undo::NOTHING)));
    }
}
