//! Tells stubs from functions: a stub looks another library's function up when it is first called, keeps
//! its address in a word of its own, and from then on goes where that word says.

use iced_x86::{Decoder, DecoderOptions, FlowControl, OpKind, Register};

/// Instructions of a function that are looked at.
const LOOKED_AT: usize = 40;
/// Functions that are looked at.
const SAMPLE: usize = 32;

/// Whether most of these functions are stubs.
pub fn most_forward<C: AsRef<[u8]>>(functions: impl Iterator<Item = (usize, C)>) -> bool {
    let (mut forwarding, mut all) = (0, 0);
    for (address, code) in functions.take(SAMPLE) {
        all += 1;
        forwarding += usize::from(forwards(code.as_ref(), address as u64));
    }
    all > 0 && forwarding * 2 > all
}

/// Whether a function goes to, or calls, what a word of data says.
fn forwards(code: &[u8], address: u64) -> bool {
    // Registers that were last loaded from a word of data.
    let mut loaded: [bool; 16] = [false; 16];
    let place = |register: Register| {
        let is_general = register.is_gpr64();
        is_general.then(|| register.number())
    };
    let decoder = Decoder::with_ip(64, code, address, DecoderOptions::NONE);
    for one in decoder.into_iter().take(LOOKED_AT) {
        let goes = matches!(
            one.flow_control(),
            FlowControl::IndirectBranch | FlowControl::IndirectCall
        );
        if goes {
            let by_register = one.op0_kind() == OpKind::Register
                && place(one.op0_register()).is_some_and(|number| loaded[number]);
            if by_register || one.is_ip_rel_memory_operand() {
                return true;
            }
        }
        if one.is_invalid() {
            return false;
        }
        if one.op0_kind() == OpKind::Register
            && let Some(number) = place(one.op0_register().full_register())
            && one.mnemonic() != iced_x86::Mnemonic::Test
            && one.mnemonic() != iced_x86::Mnemonic::Cmp
        {
            loaded[number] = one.mnemonic() == iced_x86::Mnemonic::Mov
                && one.op1_kind() == OpKind::Memory
                && one.is_ip_rel_memory_operand();
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stubs_are_told_from_functions() {
        // mov rax, [rip + 0x100]; test rax, rax; je +3; jmp rax
        let lazy = [
            0x48, 0x8b, 0x05, 0, 1, 0, 0, 0x48, 0x85, 0xc0, 0x74, 3, 0xff, 0xe0,
        ];
        // cmp qword [rip + 0x100], 0; je +6; jmp [rip + 0x100]
        let implib = [
            0x48, 0x83, 0x3d, 0, 1, 0, 0, 0, 0x74, 6, 0xff, 0x25, 0, 1, 0, 0,
        ];
        // push rbp; mov rbp, rsp; call +0x100; pop rbp; ret
        let real = [0x55, 0x48, 0x89, 0xe5, 0xe8, 0, 1, 0, 0, 0x5d, 0xc3];
        // mov rax, [rdi]; jmp rax: goes where its argument says.
        let method = [0x48, 0x8b, 0x07, 0xff, 0xe0];
        let all = [&lazy[..], &implib, &real, &method];
        assert_eq!(
            all.map(|code| forwards(code, 0x1000)),
            [true, true, false, false]
        );
        let both =
            |codes: [&'static [u8]; 3]| most_forward(codes.into_iter().map(|code| (0, code)));
        let (lazy, real) = (&*lazy.to_vec().leak(), &*real.to_vec().leak());
        assert!(both([lazy, lazy, real]) && !both([lazy, real, real]));
        assert!(!most_forward(core::iter::empty::<(usize, &[u8])>()));
    }
}
