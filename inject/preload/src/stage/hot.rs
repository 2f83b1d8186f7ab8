//! What happens on every call of a hooked function: a record is opened, the function is called,
//! the record is closed. No locks, no allocation; safe in signal handlers.
//!
//! A hooked function's entry jumps to a stub that puts the function's row into r11 and jumps here or,
//! for most functions, to the shorter way (`brief`). The record's address lives in a callee-saved
//! register, so there is no shadow stack: C++ exceptions, longjmp and debuggers pass through by the
//! unwind information below.

use core::arch::global_asm;
use core::sync::atomic::{AtomicPtr, AtomicU8, AtomicU32};

use crate::layout::{Entry, MAX_FUNCTIONS};

unsafe extern "C" {
    /// Where thunks jump to, with a function's number in r11.
    pub fn cutrace_common();
    /// Where stubs jump to, with a function's row in r11.
    pub fn cutrace_whole();
    /// By number.
    pub static mut cutrace_entries: [Entry; MAX_FUNCTIONS];
    /// The process's id, in a page that the kernel wipes in forked children.
    pub static mut cutrace_generation: AtomicU32;
    /// Not 0: the processor's counter cannot be trusted, the kernel is asked for the time.
    pub static cutrace_host_clock: AtomicU8;
    /// Called when the thread has no ring or no room: `extern "C" fn(&mut Thread) -> bool`,
    /// true to try again, false to let the call go unrecorded.
    pub static cutrace_refill: AtomicPtr<()>;
}

global_asm!(
    r#"
    .section .tdata,"awT",@progbits
    .balign 64
    .hidden cutrace_thread
    .globl cutrace_thread
    .type cutrace_thread, @object
    .size cutrace_thread, 64
cutrace_thread:
    .quad 0, 0, 0, 0, 0xffffffff, 0, 0, 0

    .bss
    .balign 64
    .hidden cutrace_entries
    .globl cutrace_entries
    .type cutrace_entries, @object
    .size cutrace_entries, 65536 * 32
cutrace_entries:
    .zero 65536 * 32

    .balign 4096
    .hidden cutrace_generation
    .globl cutrace_generation
    .type cutrace_generation, @object
    .size cutrace_generation, 4096
cutrace_generation:
    .zero 4096

    .data
    .balign 8
    .hidden cutrace_refill
    .globl cutrace_refill
    .type cutrace_refill, @object
    .size cutrace_refill, 8
cutrace_refill:
    .quad 0

    .hidden cutrace_host_clock
    .globl cutrace_host_clock
    .type cutrace_host_clock, @object
    .size cutrace_host_clock, 1
cutrace_host_clock:
    .byte 0

    # rax = CLOCK_MONOTONIC in nanoseconds, by the kernel. Changes rcx, rdi, rsi, r11.
    .macro cutrace_ask_kernel
    sub rsp, 16
    mov eax, 228
    mov edi, 1
    mov rsi, rsp
    syscall
    imul rax, [rsp], 1000000000
    add rax, [rsp + 8]
    add rsp, 16
    .endm

    .macro cutrace_save_arguments
    mov [rbp - 80], rdi
    mov [rbp - 72], rsi
    mov [rbp - 64], rdx
    mov [rbp - 56], rcx
    mov [rbp - 48], r8
    mov [rbp - 40], r9
    mov [rbp - 96], r10
    .endm

    .macro cutrace_restore_arguments
    mov rdi, [rbp - 80]
    mov rsi, [rbp - 72]
    mov rdx, [rbp - 64]
    mov rcx, [rbp - 56]
    mov r8, [rbp - 48]
    mov r9, [rbp - 40]
    mov r10, [rbp - 96]
    .endm

    .macro cutrace_save_vectors
    sub rsp, 128
    movups [rsp], xmm0
    movups [rsp + 16], xmm1
    movups [rsp + 32], xmm2
    movups [rsp + 48], xmm3
    movups [rsp + 64], xmm4
    movups [rsp + 80], xmm5
    movups [rsp + 96], xmm6
    movups [rsp + 112], xmm7
    .endm

    .macro cutrace_restore_vectors
    movups xmm0, [rsp]
    movups xmm1, [rsp + 16]
    movups xmm2, [rsp + 32]
    movups xmm3, [rsp + 48]
    movups xmm4, [rsp + 64]
    movups xmm5, [rsp + 80]
    movups xmm6, [rsp + 96]
    movups xmm7, [rsp + 112]
    add rsp, 128
    .endm

    .macro cutrace_leave
    lea rsp, [rbp - 32]
    pop r14
    .cfi_restore r14
    pop r13
    .cfi_restore r13
    pop r12
    .cfi_restore r12
    pop rbx
    .cfi_restore rbx
    pop rbp
    .cfi_restore rbp
    .cfi_def_cfa rsp, 8
    .endm

    .text
    .p2align 6
    .hidden cutrace_common
    .globl cutrace_common
    .type cutrace_common, @function
cutrace_common:
    .cfi_startproc
    mov r11d, r11d
    shl r11, 5
    lea rax, [rip + cutrace_entries]
    add r11, rax
    test byte ptr [r11 + 17], 8
    jnz cutrace_brief
    .cfi_endproc
    .size cutrace_common, . - cutrace_common

    .hidden cutrace_whole
    .globl cutrace_whole
    .type cutrace_whole, @function
cutrace_whole:
    .cfi_startproc
    push rbp
    .cfi_def_cfa_offset 16
    .cfi_offset rbp, -16
    mov rbp, rsp
    .cfi_def_cfa_register rbp
    push rbx
    .cfi_offset rbx, -24
    push r12
    .cfi_offset r12, -32
    push r13
    .cfi_offset r13, -40
    push r14
    .cfi_offset r14, -48
    sub rsp, 64
    mov r13, r11

    # Reserve: rbx the slot, r12 the ring (its mask from then on), r14 the process.
.Lcutrace_reserve:
    mov r11, [rip + cutrace_thread@GOTTPOFF]
    mov r14d, [rip + cutrace_generation]
    cmp r14d, fs:[r11 + 32]
    jne .Lcutrace_refill
    mov r12, fs:[r11]
    movzx ebx, byte ptr [r13 + 16]
    add rbx, [r12 + 64]
    cmp rbx, fs:[r11 + 24]
    ja .Lcutrace_refill
    movzx ebx, byte ptr [r13 + 16]
    xadd [r12 + 64], rbx
    lea eax, [rbx + 1]
    mov [rbp - 88], eax
    mov r12, fs:[r11 + 16]
    and rbx, r12
    shl rbx, 6
    add rbx, fs:[r11 + 8]
    # The consumer has read these lines: fetch the ones to come for writing, ahead of time; as many as are
    # written now, or some would never be fetched.
    prefetchw [rbx + 1024]

    # Fill.
    mov [rbx + 32], rdi
    mov [rbx + 40], rsi
    mov [rbx + 48], rdx
    mov [rbx + 56], rcx
    mov eax, [r13 + 20]
    mov [rbx + 16], eax
    lea eax, [rbp + 8]
    mov [rbx + 20], eax
    xor eax, eax
    mov [rbx + 8], rax
    mov [rbx + 24], eax
    cmp byte ptr [r13 + 16], 1
    jne .Lcutrace_payload
.Lcutrace_publish:
    cmp byte ptr [rip + cutrace_host_clock], 0
    jne .Lcutrace_enter_by_kernel
    mov r11, rdx
    rdtsc
    shl rdx, 32
    or rax, rdx
    mov rdx, r11
.Lcutrace_entered:
    mov [rbx], rax
    mov eax, [rbp - 88]
    mov [rbx + 28], eax

    # Call. Variadic functions want to know how many vector registers are in use.
    movzx r11d, word ptr [r13 + 18]
    test r11d, r11d
    jnz .Lcutrace_stack
.Lcutrace_call:
    mov eax, 8
    call [r13]

    # Close, unless a fork made the record the parent's.
    cmp r14d, [rip + cutrace_generation]
    jne .Lcutrace_return
    mov r10, rax
    cmp byte ptr [rip + cutrace_host_clock], 0
    jne .Lcutrace_exit_by_kernel
    mov r11, rdx
    rdtsc
    shl rdx, 32
    or rdx, rax
.Lcutrace_exited:
    mov rax, r10
    mov [rbx + 24], eax
    test byte ptr [r13 + 17], 2 | 4
    jnz .Lcutrace_outputs
.Lcutrace_close:
    mov [rbx + 8], rdx
    mov rdx, r11
.Lcutrace_return:
    .cfi_remember_state
    cutrace_leave
    ret
    .cfi_restore_state

.Lcutrace_enter_by_kernel:
    mov [rbp - 80], rdi
    mov [rbp - 72], rsi
    mov [rbp - 56], rcx
    cutrace_ask_kernel
    mov rdi, [rbp - 80]
    mov rsi, [rbp - 72]
    mov rcx, [rbp - 56]
    jmp .Lcutrace_entered

.Lcutrace_exit_by_kernel:
    cutrace_ask_kernel
    mov r11, rdx
    mov rdx, rax
    jmp .Lcutrace_exited

.Lcutrace_stack:
    lea rax, [r11 * 8]
    sub rsp, rax
1:  mov rax, [rbp + r11 * 8 + 8]
    mov [rsp + r11 * 8 - 8], rax
    dec r11
    jnz 1b
    jmp .Lcutrace_call

.Lcutrace_payload:
    cutrace_save_arguments
    test byte ptr [r13 + 17], 1
    jz 1f
    cutrace_save_vectors
1:  movzx eax, byte ptr [r13 + 16]
    # Do the payload's slots follow this one, or has the ring its end between them?
    mov r10d, [rbp - 88]
    dec r10d
    and r10d, r12d
    add r10d, eax
    dec r10d
    cmp r10d, r12d
    ja .Lcutrace_around
    mov r11d, [rbp - 88]
    add r11d, eax
    shl eax, 6
2:  dec r11d
    sub eax, 64
    prefetchw [rbx + rax + 1024]
    mov [rbx + rax + 28], r11d
    cmp eax, 64
    ja 2b
    # layout::HotPlan: pieces of eight bytes, then of four.
    mov r11, [r13 + 8]
    mov r10, [r11]
    movzx eax, word ptr [r11 + 8]
    lea r10, [r10 + rax * 4]
    movzx esi, byte ptr [r11 + 10]
    movzx r11d, byte ptr [r11 + 11]
    test esi, esi
    jz 4f
3:  movsx rax, word ptr [r10]
    mov rdi, [rbp + rax]
    movzx eax, word ptr [r10 + 2]
    mov [rbx + rax + 64], rdi
    add r10, 4
    dec esi
    jnz 3b
4:  test r11d, r11d
    jz 6f
5:  movsx rax, word ptr [r10]
    mov edi, [rbp + rax]
    movzx eax, word ptr [r10 + 2]
    mov [rbx + rax + 64], edi
    add r10, 4
    dec r11d
    jnz 5b
6:  lea rsp, [rbp - 96]
    mov rdi, [rbp - 80]
    mov rsi, [rbp - 72]
    mov r10, [rbp - 96]
    jmp .Lcutrace_publish

.Lcutrace_around:
    mov rdi, rbx
    mov rsi, [r13 + 8]
    mov edx, r12d
    mov rcx, rbp
    mov r8d, [rbp - 88]
    call {arguments}
    test byte ptr [r13 + 17], 1
    jz 7f
    cutrace_restore_vectors
7:  cutrace_restore_arguments
    jmp .Lcutrace_publish

    # What lies behind pointers; a value or two that the slot itself has room for are given by the row.
.Lcutrace_outputs:
    push rdx
    push r11
    push r10
    sub rsp, 40
    movups [rsp], xmm0
    movups [rsp + 16], xmm1
    test byte ptr [r13 + 17], 4
    jnz 4f
    mov rdi, rbx
    mov rsi, [r13 + 8]
    mov edx, r12d
    mov rcx, rbp
    mov r8d, [rbp - 88]
    mov r9, r10
    call {results}
    jmp 5f
4:  mov rdi, rbx
    mov rsi, r13
    mov edx, r10d
    call {outputs}
5:
    movups xmm0, [rsp]
    movups xmm1, [rsp + 16]
    add rsp, 40
    pop rax
    pop r11
    pop rdx
    jmp .Lcutrace_close

.Lcutrace_refill:
    cutrace_save_arguments
    cutrace_save_vectors
    mov rdi, r11
    add rdi, fs:[0]
    call [rip + cutrace_refill]
    cutrace_restore_vectors
    cutrace_restore_arguments
    test al, al
    jnz .Lcutrace_reserve
    mov r11, [r13]
    mov eax, 8
    .cfi_remember_state
    cutrace_leave
    jmp r11
    .cfi_restore_state
    .cfi_endproc
    .size cutrace_whole, . - cutrace_whole
    "#,
    arguments = sym super::payload::write_arguments,
    results = sym super::payload::write_results,
    outputs = sym super::payload::write_outputs,
);
