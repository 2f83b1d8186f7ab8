//! The shorter way through a hooked call, for most functions: the record is one slot, every argument
//! that it keeps is in a register, times are the processor's, and what comes back is a value or two.
//!
//! Reading the clock twice is most of what such a call costs (docs/GPU-RUNS.md); the rest is as few
//! instructions and as few lines of data as there can be: the function's row, the thread's view of its
//! ring, the process's number, the ring's head, the slot.

use core::arch::global_asm;

unsafe extern "C" {
    /// Where stubs jump to, with a function's row in r11.
    pub fn cutrace_brief();
    /// Where a `layout::Thread` is, from the thread pointer on: the same for every thread.
    pub fn cutrace_thread_place() -> isize;
}

global_asm!(
    r#"
    .macro brief_leave
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
    .hidden cutrace_brief
    .globl cutrace_brief
    .type cutrace_brief, @function
cutrace_brief:
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

    # Reserve: rbx the slot, r12 the function's row, r13 the commit word, r14 the process.
    mov r12, r11
    mov rax, [r11 + 8]
    mov r14d, [rip + cutrace_generation]
    cmp r14d, fs:[rax + 32]
    jne .Lbrief_refill
    mov r11, fs:[rax]
    mov rbx, [r11 + 64]
    cmp rbx, fs:[rax + 24]
    jae .Lbrief_refill
    mov ebx, 1
    xadd [r11 + 64], rbx
    lea r13d, [rbx + 1]
    and rbx, fs:[rax + 16]
    shl rbx, 6
    add rbx, fs:[rax + 8]
    # The consumer has read these lines: fetch one to come for writing, ahead of time.
    prefetchw [rbx + 1024]

    # Fill.
    mov [rbx + 32], rdi
    mov [rbx + 40], rsi
    mov [rbx + 48], rdx
    mov [rbx + 56], rcx
    mov eax, [r12 + 20]
    mov [rbx + 16], eax
    lea eax, [rbp + 8]
    mov [rbx + 20], eax
    xor eax, eax
    mov [rbx + 8], rax
    # The result, none yet, and the commit word.
    shl r13, 32
    mov r11, rdx
    rdtsc
    shl rdx, 32
    or rax, rdx
    mov rdx, r11
    mov [rbx], rax
    mov [rbx + 24], r13

    mov eax, 8
    call [r12]

    # Close, unless a fork made the record the parent's.
    cmp r14d, [rip + cutrace_generation]
    jne .Lbrief_return
    mov r10, rax
    mov r11, rdx
    rdtsc
    shl rdx, 32
    or rdx, rax
    mov rax, r10
    mov [rbx + 24], eax
    # What the callee has just written, if it succeeded: aligned, so in one page.
    test eax, eax
    jnz .Lbrief_close
    movzx esi, byte ptr [r12 + 26]
    test esi, esi
    jz .Lbrief_close
    movzx ecx, byte ptr [r12 + 24]
    mov rdi, [rbx + rcx]
    cmp rdi, 4096
    jb .Lbrief_odd
    test edi, esi
    jnz .Lbrief_odd
    movzx ecx, byte ptr [r12 + 25]
    cmp esi, 3
    jne .Lbrief_long
    mov r8d, [rdi]
    mov [rbx + rcx], r8d
.Lbrief_next:
    movzx esi, byte ptr [r12 + 30]
    test esi, esi
    jnz .Lbrief_second
.Lbrief_close:
    mov [rbx + 8], rdx
    mov rdx, r11
.Lbrief_return:
    .cfi_remember_state
    brief_leave
    ret
    .cfi_restore_state

.Lbrief_long:
    mov r8, [rdi]
    mov [rbx + rcx], r8
    jmp .Lbrief_next

.Lbrief_second:
    movzx ecx, byte ptr [r12 + 28]
    mov rdi, [rbx + rcx]
    cmp rdi, 4096
    jb .Lbrief_odd
    test edi, esi
    jnz .Lbrief_odd
    movzx ecx, byte ptr [r12 + 29]
    cmp esi, 3
    jne 1f
    mov r8d, [rdi]
    mov [rbx + rcx], r8d
    jmp .Lbrief_close
1:  mov r8, [rdi]
    mov [rbx + rcx], r8
    jmp .Lbrief_close

    # No pointer, or one to where no such value would be.
.Lbrief_odd:
    push rdx
    push r11
    push rax
    sub rsp, 40
    movups [rsp], xmm0
    movups [rsp + 16], xmm1
    mov rdi, rbx
    mov rsi, r12
    mov edx, eax
    call {outputs}
    movups xmm0, [rsp]
    movups xmm1, [rsp + 16]
    add rsp, 40
    pop rax
    pop r11
    pop rdx
    jmp .Lbrief_close

    # The longer way knows what to do without a ring, or without room in it.
.Lbrief_refill:
    mov r11, r12
    brief_leave
    jmp cutrace_whole
    .cfi_endproc
    .size cutrace_brief, . - cutrace_brief

    # rax = where a thread keeps its view of its ring, from the thread pointer on.
    .hidden cutrace_thread_place
    .globl cutrace_thread_place
    .type cutrace_thread_place, @function
cutrace_thread_place:
    mov rax, [rip + cutrace_thread@GOTTPOFF]
    ret
    .size cutrace_thread_place, . - cutrace_thread_place
    "#,
    outputs = sym super::payload::write_outputs,
);
