//! Where in a function its probe goes: at the entry, or a few instructions on where that is cheaper
//! and the arguments are still where they were.
//!
//! The kernel emulates pushes, relative branches and nops; everything else it single-steps, which
//! takes ten times as long. Only whole instructions are stepped over, by decoding them, and never
//! one that anything in the function jumps behind.

use iced_x86::{
    Code, Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory, OpAccess,
    Register,
};

/// Instructions looked at, at most.
const MOST_STEPS: usize = 4;
/// Bytes of a function that are searched for branches back to its beginning.
const MOST_BYTES: usize = 16 << 10;

/// The offset from the function's entry. `code` are all of its bytes.
pub fn offset(code: &[u8]) -> u64 {
    let found = cheap_instruction(code).filter(|offset| *offset > 0);
    let is_branched_to = |offset: &u64| branches_within(code, *offset);
    found.filter(|offset| !is_branched_to(offset)).unwrap_or(0)
}

/// The bytes of the instruction there; the most that one can have if it cannot be decoded.
pub fn instruction_bytes(code: &[u8], offset: u64) -> usize {
    const MOST: usize = 15;
    let start = usize::try_from(offset).unwrap_or(usize::MAX);
    let Some(code) = code.get(start..) else {
        return MOST;
    };
    let mut decoder = Decoder::with_ip(64, code, offset, DecoderOptions::NONE);
    match decoder.can_decode().then(|| decoder.decode()) {
        Some(instruction) if !instruction.is_invalid() => instruction.len(),
        _ => MOST,
    }
}

/// The first instruction that the kernel emulates, if nothing before it matters to a probe.
fn cheap_instruction(code: &[u8]) -> Option<u64> {
    let mut decoder = Decoder::with_ip(64, code, 0, DecoderOptions::NONE);
    let mut info = InstructionInfoFactory::new();
    for _ in 0..MOST_STEPS {
        if !decoder.can_decode() {
            return None;
        }
        let instruction = decoder.decode();
        if instruction.is_invalid() {
            return None;
        }
        if is_emulated(&instruction, code) {
            return Some(instruction.ip());
        }
        if !leaves_arguments(&instruction, &mut info) {
            return None;
        }
    }
    None
}

fn is_emulated(instruction: &Instruction, code: &[u8]) -> bool {
    // Prefixes that change sizes make the kernel refuse to emulate branches.
    let first = usize::try_from(instruction.ip())
        .ok()
        .and_then(|at| code.get(at));
    if matches!(first, None | Some(0x66 | 0x67 | 0xf2 | 0xf3 | 0x2e | 0x3e)) {
        return false;
    }
    match instruction.code() {
        Code::Push_r64 | Code::Nopd => true,
        Code::Jmp_rel8_64 | Code::Jmp_rel32_64 | Code::Call_rel32_64 => true,
        _ => instruction.is_jcc_short_or_near(),
    }
}

/// Whether registers that carry arguments, the stack and memory are as they were after it.
fn leaves_arguments(instruction: &Instruction, info: &mut InstructionInfoFactory) -> bool {
    if instruction.flow_control() != FlowControl::Next {
        return false;
    }
    let info = info.info(instruction);
    let writes = |access: OpAccess| {
        !matches!(
            access,
            OpAccess::None | OpAccess::Read | OpAccess::CondRead | OpAccess::NoMemAccess
        )
    };
    let registers = info.used_registers().iter();
    let harmless = |register: Register| {
        matches!(
            register.full_register(),
            Register::RAX | Register::R10 | Register::R11
        )
    };
    registers
        .clone()
        .all(|used| !writes(used.access()) || harmless(used.register()))
        && info.used_memory().iter().all(|used| !writes(used.access()))
}

/// Whether something in the function jumps to behind its entry and up to there: it would be
/// counted as a call. A function that cannot be decoded to its end is taken to do so.
fn branches_within(code: &[u8], offset: u64) -> bool {
    if code.len() > MOST_BYTES {
        return true;
    }
    let mut decoder = Decoder::with_ip(64, code, 0, DecoderOptions::NONE);
    while decoder.can_decode() {
        let instruction = decoder.decode();
        if instruction.is_invalid() {
            return true;
        }
        let is_branch = instruction.is_jcc_short_or_near()
            || instruction.is_jmp_short_or_near()
            || instruction.is_call_near()
            || instruction.is_loop()
            || instruction.is_loopcc()
            || instruction.is_jcx_short();
        if is_branch && (1..=offset).contains(&instruction.near_branch_target()) {
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_drivers_stub_is_probed_at_its_branch() {
        // cmpl $0x0,0x10(%rip); je +2; push %rbx; ret; pop %rbx; ret
        let stub = [
            0x81, 0x3d, 0x10, 0, 0, 0, 0, 0, 0, 0, 0x74, 0x02, 0x53, 0xc3, 0x5b, 0xc3,
        ];
        assert_eq!(offset(&stub), 10);
        // The same with a branch back to the je.
        let mut looping = stub.to_vec();
        looping.extend([0xeb, 0xf8]);
        assert_eq!(offset(&looping), 0);
    }

    #[test]
    fn instructions_are_as_long_as_they_are() {
        let code = [0x81, 0x3d, 0x10, 0, 0, 0, 0, 0, 0, 0, 0x74, 0x02, 0x53];
        let lengths = [0, 10, 12].map(|at| instruction_bytes(&code, at));
        assert_eq!(lengths, [10, 2, 1]);
        assert_eq!(instruction_bytes(&[], 0), 15);
        assert_eq!(instruction_bytes(&[0x06], 0), 15);
        assert_eq!(instruction_bytes(&code, 100), 15);
    }

    #[test]
    fn endbr_is_stepped_over_and_pushes_are_taken() {
        assert_eq!(offset(&[0xf3, 0x0f, 0x1e, 0xfa, 0x55, 0xc3]), 4);
        assert_eq!(offset(&[0x55, 0xc3]), 0);
        assert_eq!(offset(&[0x41, 0x57, 0xc3]), 0);
    }

    #[test]
    fn what_changes_arguments_or_the_stack_is_not_stepped_over() {
        // mov %rsi,%rdi; push %rbp
        assert_eq!(offset(&[0x48, 0x89, 0xf7, 0x55, 0xc3]), 0);
        // sub $8,%rsp; push %rbp
        assert_eq!(offset(&[0x48, 0x83, 0xec, 0x08, 0x55, 0xc3]), 0);
        // mov %rbx,-8(%rsp); push %rbp
        assert_eq!(offset(&[0x48, 0x89, 0x5c, 0x24, 0xf8, 0x55, 0xc3]), 0);
        // jmp *%rax behind a load into %rax: no branch that is emulated.
        assert_eq!(offset(&[0x48, 0x8b, 0x05, 0, 0, 0, 0, 0xff, 0xe0]), 0);
        assert_eq!((offset(&[]), offset(&[0x06]), offset(&[0x48])), (0, 0, 0));
    }
}
