//! The entry of functions whose callers' stacks are wanted: what the caller had in its registers
//! goes to the engine, then the call goes on as any other. Functions without it pay nothing.

use crate::layout::{Caller, Entry, Thread};
use core::arch::global_asm;
use core::mem::offset_of;
use core::sync::atomic::AtomicPtr;
use event::ring::{GATE_SHED, RingHeader};

unsafe extern "C" {
    /// Where stubs jump to in place of `cutrace_common`.
    pub fn cutrace_stack_entry();
    /// The engine's: `extern "C" fn(&mut Thread, &mut usize, &Caller, function: u32)`.
    pub static cutrace_note_stack: AtomicPtr<()>;
}

/// What is below rbp while the engine is at work.
#[repr(C)]
struct Frame {
    /// xmm0 to xmm7
    vectors: [[u64; 2]; 8],
    caller: Caller,
    /// rdi, rsi, rdx, rcx, r8, r9, r10, r11, rax; one more keeps the stack pointer a multiple of 16.
    words: [u64; 10],
}

const _: () = assert!(size_of::<Frame>().is_multiple_of(16));

const fn from_base(offset: usize) -> isize {
    offset as isize - size_of::<Frame>() as isize
}

global_asm!(
    r#"
    .section .tdata,"awT",@progbits
    .balign 8
    .hidden cutrace_walker
    .globl cutrace_walker
    .type cutrace_walker, @object
    .size cutrace_walker, 8
cutrace_walker:
    .quad 0

    .data
    .balign 8
    .hidden cutrace_note_stack
    .globl cutrace_note_stack
    .type cutrace_note_stack, @object
    .size cutrace_note_stack, 8
cutrace_note_stack:
    .quad 0

    .text
    .p2align 4
    .hidden cutrace_stack_entry
    .globl cutrace_stack_entry
    .type cutrace_stack_entry, @function
cutrace_stack_entry:
    .cfi_startproc
    # A call that a gate lets by needs no stack; nor does any while stacks are not recorded.
    push rcx
    .cfi_adjust_cfa_offset 8
    mov eax, r11d
    shl rax, {entry_shift}
    lea rcx, [rip + cutrace_entries]
    movzx eax, byte ptr [rcx + rax + {entry_gate}]
    mov rcx, [rip + cutrace_gates]
    movzx eax, byte ptr [rcx + rax]
    or al, [rcx + {stacks}]
    pop rcx
    .cfi_adjust_cfa_offset -8
    jnz .Lstack_not_noted
    push rbp
    .cfi_def_cfa_offset 16
    .cfi_offset rbp, -16
    mov rbp, rsp
    .cfi_def_cfa_register rbp
    sub rsp, {frame_size}
    mov [rbp + {words}], rdi
    mov [rbp + {words} + 8], rsi
    mov [rbp + {words} + 16], rdx
    mov [rbp + {words} + 24], rcx
    mov [rbp + {words} + 32], r8
    mov [rbp + {words} + 40], r9
    mov [rbp + {words} + 48], r10
    mov [rbp + {words} + 56], r11
    mov [rbp + {words} + 64], rax
    .irp number, 0, 1, 2, 3, 4, 5, 6, 7
    movups [rbp + {vectors} + 16 * \number], xmm\number
    .endr
    mov [rbp + {saved}], rbx
    mov rax, [rbp]
    mov [rbp + {saved} + 8], rax
    mov [rbp + {saved} + 16], r12
    mov [rbp + {saved} + 24], r13
    mov [rbp + {saved} + 32], r14
    mov [rbp + {saved} + 40], r15
    mov rax, [rbp + 8]
    mov [rbp + {rip}], rax
    lea rax, [rbp + 16]
    mov [rbp + {rsp}], rax
    mov rdi, [rip + cutrace_thread@GOTTPOFF]
    add rdi, fs:[0]
    mov rsi, [rip + cutrace_walker@GOTTPOFF]
    add rsi, fs:[0]
    lea rdx, [rbp + {caller}]
    mov ecx, r11d
    call [rip + cutrace_note_stack]
    .irp number, 0, 1, 2, 3, 4, 5, 6, 7
    movups xmm\number, [rbp + {vectors} + 16 * \number]
    .endr
    mov rdi, [rbp + {words}]
    mov rsi, [rbp + {words} + 8]
    mov rdx, [rbp + {words} + 16]
    mov rcx, [rbp + {words} + 24]
    mov r8, [rbp + {words} + 32]
    mov r9, [rbp + {words} + 40]
    mov r10, [rbp + {words} + 48]
    mov r11, [rbp + {words} + 56]
    mov rax, [rbp + {words} + 64]
    leave
    .cfi_restore rbp
    .cfi_def_cfa rsp, 8
    jmp cutrace_common

    # Counted, if it is the stacks' own gate that is closed.
.Lstack_not_noted:
    .cfi_def_cfa rsp, 8
    .cfi_restore rbp
    mov rax, [rip + cutrace_gates]
    cmp byte ptr [rax + {stacks}], {gate_shed}
    jne cutrace_common
    push rcx
    .cfi_adjust_cfa_offset 8
    mov rax, [rip + cutrace_thread@GOTTPOFF]
    mov ecx, [rip + cutrace_generation]
    cmp ecx, fs:[rax + {thread_generation}]
    jne 1f
    mov rax, fs:[rax + {thread_header}]
    inc qword ptr [rax + {ring_shed} + 8 * {stacks}]
1:  pop rcx
    .cfi_adjust_cfa_offset -8
    jmp cutrace_common
    .cfi_endproc
    .size cutrace_stack_entry, . - cutrace_stack_entry
    "#,
    entry_shift = const size_of::<Entry>().trailing_zeros(),
    entry_gate = const offset_of!(Entry, gate),
    stacks = const cuda::gate::STACKS,
    gate_shed = const GATE_SHED,
    thread_generation = const offset_of!(Thread, pid),
    thread_header = const offset_of!(Thread, header),
    ring_shed = const offset_of!(RingHeader, shed),
    frame_size = const size_of::<Frame>(),
    vectors = const from_base(offset_of!(Frame, vectors)),
    words = const from_base(offset_of!(Frame, words)),
    caller = const from_base(offset_of!(Frame, caller)),
    saved = const from_base(offset_of!(Frame, caller.saved)),
    rip = const from_base(offset_of!(Frame, caller.rip)),
    rsp = const from_base(offset_of!(Frame, caller.rsp)),
);
