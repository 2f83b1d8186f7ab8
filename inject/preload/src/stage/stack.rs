//! The entry of functions whose callers' stacks are wanted: what the caller had in its registers
//! goes to the engine, then the call goes on as any other. Functions without it pay nothing.

use core::arch::global_asm;
use core::sync::atomic::AtomicPtr;

unsafe extern "C" {
    /// Where stubs jump to in place of `cutrace_common`.
    pub fn cutrace_stack_entry();
    /// The engine's: `extern "C" fn(&mut Thread, &mut usize, &Caller, function: u32)`.
    pub static cutrace_note_stack: AtomicPtr<()>;
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
    push rbp
    .cfi_def_cfa_offset 16
    .cfi_offset rbp, -16
    mov rbp, rsp
    .cfi_def_cfa_register rbp
    sub rsp, 272
    mov [rbp - 8], rdi
    mov [rbp - 16], rsi
    mov [rbp - 24], rdx
    mov [rbp - 32], rcx
    mov [rbp - 40], r8
    mov [rbp - 48], r9
    mov [rbp - 56], r10
    mov [rbp - 64], r11
    mov [rbp - 72], rax
    movups [rbp - 272], xmm0
    movups [rbp - 256], xmm1
    movups [rbp - 240], xmm2
    movups [rbp - 224], xmm3
    movups [rbp - 208], xmm4
    movups [rbp - 192], xmm5
    movups [rbp - 176], xmm6
    movups [rbp - 160], xmm7
    # layout::Caller
    mov [rbp - 144], rbx
    mov rax, [rbp]
    mov [rbp - 136], rax
    mov [rbp - 128], r12
    mov [rbp - 120], r13
    mov [rbp - 112], r14
    mov [rbp - 104], r15
    mov rax, [rbp + 8]
    mov [rbp - 96], rax
    lea rax, [rbp + 16]
    mov [rbp - 88], rax
    mov rdi, [rip + cutrace_thread@GOTTPOFF]
    add rdi, fs:[0]
    mov rsi, [rip + cutrace_walker@GOTTPOFF]
    add rsi, fs:[0]
    lea rdx, [rbp - 144]
    mov ecx, r11d
    call [rip + cutrace_note_stack]
    movups xmm0, [rbp - 272]
    movups xmm1, [rbp - 256]
    movups xmm2, [rbp - 240]
    movups xmm3, [rbp - 224]
    movups xmm4, [rbp - 208]
    movups xmm5, [rbp - 192]
    movups xmm6, [rbp - 176]
    movups xmm7, [rbp - 160]
    mov rdi, [rbp - 8]
    mov rsi, [rbp - 16]
    mov rdx, [rbp - 24]
    mov rcx, [rbp - 32]
    mov r8, [rbp - 40]
    mov r9, [rbp - 48]
    mov r10, [rbp - 56]
    mov r11, [rbp - 64]
    mov rax, [rbp - 72]
    leave
    .cfi_restore rbp
    .cfi_def_cfa rsp, 8
    jmp cutrace_common
    .cfi_endproc
    .size cutrace_stack_entry, . - cutrace_stack_entry
    "#
);
