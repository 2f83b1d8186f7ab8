//! The gate that every call passes: the tracer closes it for what nobody watches (`--window`) or what costs more than
//! it may (`--budget`). A call that it lets by costs a few instructions and leaves no record.
//!
//! Calls that are shed are counted in their thread's ring, and those of them that fail are recorded all the same, with
//! one moment for beginning and end: what was not recorded is known to have succeeded.

/// Text for `hot` to assemble; `steps` has what the ways through a call share.
macro_rules! gate {
    () => {
        r#"
    # With the function's row in r11. Changes rax.
    .macro cutrace_pass_gate
    movzx eax, byte ptr [r11 + {entry_gate}]
    add rax, [rip + cutrace_gates]
    cmp byte ptr [rax], 0
    jne cutrace_closed
    .endm

    # rax is where the gate is.
    .text
    .p2align 4
    .type cutrace_closed, @function
cutrace_closed:
    .cfi_startproc
    cmp byte ptr [rax], {gate_shed}
    jb .Lclosed_pass
    je .Lclosed_shed
    cmp rdx, {small_copy}
    ja .Lclosed_record
    jmp .Lclosed_shed
.Lclosed_pass:
    mov eax, 8
    jmp [r11 + {entry_target}]

    # There is no ring to count in, or the call is none of those that are shed.
.Lclosed_record:
    test byte ptr [r11 + {entry_flags}], {is_brief}
    jnz .Lbrief_open
    jmp .Lwhole_open

    # Only brief functions are shed: their arguments are in registers.
.Lclosed_shed:
    push rcx
    .cfi_adjust_cfa_offset 8
    mov rax, [rip + cutrace_thread@GOTTPOFF]
    mov ecx, [rip + cutrace_generation]
    cmp ecx, fs:[rax + {thread_generation}]
    jne 1f
    mov rcx, fs:[rax + {thread_header}]
    movzx eax, byte ptr [r11 + {entry_gate}]
    inc qword ptr [rcx + {ring_shed} + 8 * rax]
    pop rcx
    .cfi_adjust_cfa_offset -8
    jmp .Lclosed_call
1:  .cfi_adjust_cfa_offset 8
    pop rcx
    .cfi_adjust_cfa_offset -8
    jmp .Lclosed_record

.Lclosed_call:
    cutrace_enter
    push rdi
    push rsi
    push rdx
    push rcx
    cutrace_call_function
    test eax, eax
    jz .Lclosed_return
    # An answer, not an error.
    cmp eax, {not_ready}
    je .Lclosed_return
    jmp .Lclosed_failed
.Lclosed_return:
    .cfi_remember_state
    lea rsp, [rbp - 32]
    cutrace_leave
    ret
    .cfi_restore_state

    # As the shorter way does, when all is over. Without room the call has been counted.
.Lclosed_failed:
    mov r10, rax
    mov r11, rdx
    mov rcx, [rbp - 64]
    mov rdx, [rbp - 56]
    mov rsi, [rbp - 48]
    mov rdi, [rbp - 40]
    mov r8, [rip + cutrace_thread@GOTTPOFF]
    cutrace_find_ring r8, r9, .Lclosed_unrecorded
    mov rbx, [r9 + {ring_head}]
    cmp rbx, fs:[r8 + {thread_limit}]
    jae .Lclosed_unrecorded
    movzx eax, byte ptr [r13 + {entry_gate}]
    dec qword ptr [r9 + {ring_shed} + 8 * rax]
    mov ebx, 1
    xadd [r9 + {ring_head}], rbx
    lea r12d, [rbx + 1]
    and rbx, fs:[r8 + {thread_mask}]
    cutrace_find_slot r8
    cutrace_fill
    rdtsc
    shl rdx, 32
    or rax, rdx
    shl r12, 32
    mov ecx, r10d
    or r12, rcx
    mov [rbx + {slot_enter}], rax
    mov [rbx + {slot_result}], r12
    mov [rbx + {slot_exit}], rax
.Lclosed_unrecorded:
    mov rax, r10
    mov rdx, r11
    jmp .Lclosed_return
    .cfi_endproc
    .size cutrace_closed, . - cutrace_closed
        "#
    };
}
pub(super) use gate;
