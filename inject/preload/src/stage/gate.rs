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

    # Functions without arguments in vector registers are shed, and no others.
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
    push r8
    push r9
    push r10
    push r15
    .cfi_offset r15, -112
    movzx r11d, word ptr [r13 + {entry_stack_words}]
    test r11d, r11d
    jz 2f
    cutrace_copy_stack_arguments
2:  cutrace_call_function
    test eax, eax
    jz .Lclosed_return
    # An answer, not an error.
    cmp eax, {not_ready}
    jne .Lclosed_failed
.Lclosed_return:
    .cfi_remember_state
    lea rsp, [rbp - 32]
    .cfi_restore r15
    cutrace_leave
    ret
    .cfi_restore_state

    # Recorded as the call of a function that returns at once what this one has returned: a row like its own, on the
    # stack, whose gate is always open.
.Lclosed_failed:
    mov r15, rax
    mov r8, [rip + cutrace_thread@GOTTPOFF]
    cutrace_find_ring r8, r9, 3f
    movzx eax, byte ptr [r13 + {entry_gate}]
    dec qword ptr [r9 + {ring_shed} + 8 * rax]
3:  lea rsp, [rbp - 96 - {entry_size}]
    movups xmm0, [r13]
    movups xmm1, [r13 + {entry_size} - 16]
    movups [rsp], xmm0
    movups [rsp + {entry_size} - 16], xmm1
    lea rax, [rip + cutrace_returned]
    mov [rsp + {entry_target}], rax
    mov byte ptr [rsp + {entry_gate}], {gate_always}
    mov r12, rsp
    movzx r11d, word ptr [r13 + {entry_stack_words}]
    test r11d, r11d
    jz 4f
    cutrace_copy_stack_arguments
4:  mov r11, r12
    mov rdi, [rbp - 40]
    mov rsi, [rbp - 48]
    mov rdx, [rbp - 56]
    mov rcx, [rbp - 64]
    mov r8, [rbp - 72]
    mov r9, [rbp - 80]
    mov r10, [rbp - 88]
    call cutrace_whole
    mov rax, r15
    mov r15, [rbp - 96]
    jmp .Lclosed_return
    .cfi_endproc
    .size cutrace_closed, . - cutrace_closed

    .type cutrace_returned, @function
cutrace_returned:
    .cfi_startproc
    mov rax, r15
    ret
    .cfi_endproc
    .size cutrace_returned, . - cutrace_returned
        "#
    };
}
pub(super) use gate;
