//! The shorter way through a hooked call, for most functions: the record is one slot, every argument
//! that it keeps is in a register, times are the processor's, and what comes back is a value or two.
//!
//! Reading the clock twice is most of what such a call costs (docs/GPU-RUNS.md); the rest is as few
//! instructions and as few lines of data as there can be: the function's row, the thread's view of its
//! ring, the process's number, the ring's head, the slot.

/// Text for `hot` to assemble; `steps` has what is the same in both ways.
macro_rules! brief {
    () => {
        r#"
    .text
    .p2align 6
    .hidden cutrace_brief
    .globl cutrace_brief
    .type cutrace_brief, @function
cutrace_brief:
    .cfi_startproc
    cutrace_pass_gate
.Lbrief_open:
    cutrace_enter

    # Reserve one slot; r12 is its commit word.
    mov rax, [r11 + {entry_detail}]
    cutrace_find_ring rax, r11, .Lbrief_refill
    mov rbx, [r11 + {ring_head}]
    cmp rbx, fs:[rax + {thread_limit}]
    jae .Lbrief_refill
    mov ebx, 1
    xadd [r11 + {ring_head}], rbx
    lea r12d, [rbx + 1]
    and rbx, fs:[rax + {thread_mask}]
    cutrace_find_slot rax
    cutrace_fill
    # The result, none yet, and the commit word are one store.
    shl r12, 32
    cutrace_time_in
    mov [rbx + {slot_enter}], rax
    mov [rbx + {slot_result}], r12

    cutrace_call_function

    # Close, unless a fork made the record the parent's.
    cmp r14d, [rip + cutrace_generation]
    jne .Lbrief_return
    mov r10, rax
    cutrace_time_out
    mov rax, r10
    mov [rbx + {slot_result}], eax
    # What the callee has just written, if it succeeded.
    test eax, eax
    jnz .Lbrief_close
    cutrace_output_last 0, esi
    jz .Lbrief_close
    cutrace_find_output 0, .Lbrief_odd
    jne .Lbrief_long
    mov r8d, [rdi]
    mov [rbx + rcx], r8d
.Lbrief_next:
    cutrace_output_last 1, esi
    jnz .Lbrief_second
.Lbrief_close:
    mov [rbx + {slot_exit}], rdx
    mov rdx, r11
.Lbrief_return:
    .cfi_remember_state
    cutrace_leave
    ret
    .cfi_restore_state

.Lbrief_long:
    mov r8, [rdi]
    mov [rbx + rcx], r8
    jmp .Lbrief_next

.Lbrief_second:
    cutrace_find_output 1, .Lbrief_odd
    jne 1f
    mov r8d, [rdi]
    mov [rbx + rcx], r8d
    jmp .Lbrief_close
1:  mov r8, [rdi]
    mov [rbx + rcx], r8
    jmp .Lbrief_close

    # No pointer, or one to where no such value would be.
.Lbrief_odd:
    cutrace_save_results
    cutrace_write_outputs
    cutrace_restore_results
    jmp .Lbrief_close

    # The longer way knows what to do without a ring, or without room in it.
.Lbrief_refill:
    mov r11, r13
    cutrace_leave
    jmp cutrace_whole
    .cfi_endproc
    .size cutrace_brief, . - cutrace_brief
        "#
    };
}
pub(super) use brief;
