//! The program's first operator: the function that every operator asks for its callbacks leads here once.

use super::{TORCH, callbacks, turn};
use crate::objects::Object;
use core::arch::global_asm;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

// `std::optional<StepCallbacks> (RecordScope)`: what it returns goes through a hidden pointer. Both are kept, and
// whatever else may carry something.
global_asm!(
    r#"
    .data
    .balign 8
    .hidden cutrace_real_step
    .globl cutrace_real_step
cutrace_real_step:
    .quad 0
    .hidden cutrace_torch_known
    .globl cutrace_torch_known
cutrace_torch_known:
    .byte 0

    .text
    .p2align 4
    .hidden cutrace_torch_step
    .globl cutrace_torch_step
cutrace_torch_step:
    cmp byte ptr [rip + cutrace_torch_known], 0
    je 1f
    jmp qword ptr [rip + cutrace_real_step]
1:  push rax
    push rcx
    push rdx
    push rsi
    push rdi
    push r8
    push r9
    push r10
    push r11
    call {register}
    pop r11
    pop r10
    pop r9
    pop r8
    pop rdi
    pop rsi
    pop rdx
    pop rcx
    pop rax
    jmp qword ptr [rip + cutrace_real_step]
    "#,
    register = sym register,
);

unsafe extern "C" {
    fn cutrace_torch_step();
    static cutrace_real_step: AtomicUsize;
    static cutrace_torch_known: AtomicBool;
}

/// Turns the function to us; false if its code cannot be changed.
pub(super) fn install(object: &Object, name: &[u8]) -> bool {
    let entry = cutrace_torch_step as *const () as usize;
    // SAFETY: a word of ours.
    turn::turn(object, &[(name, entry, unsafe { &cutrace_real_step })])
}

/// One thread does it; the operators that others run meanwhile are not recorded.
extern "C" fn register() {
    // SAFETY: a byte of ours, changed by atomic operations only.
    if unsafe { &cutrace_torch_known }.swap(true, Ordering::AcqRel) {
        return;
    }
    // SAFETY: leaked, and stored before the function was turned to us.
    if let Some(torch) = unsafe { TORCH.load(Ordering::Acquire).as_ref() } {
        callbacks::register(torch);
    }
}
