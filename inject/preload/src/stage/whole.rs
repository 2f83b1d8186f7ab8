//! The longer way through a hooked call, which any function can take: with payload slots, with arguments on the
//! stack, with the kernel's clock, and without a ring or room in it. Its frame is `layout::Frame`.

/// Text for `hot` to assemble; `steps` has what is the same in both ways.
macro_rules! whole {
    () => {
        r#"
    # rax = CLOCK_MONOTONIC in nanoseconds, by the kernel. Changes rcx, rdi, rsi, r11.
    .macro cutrace_ask_kernel
    sub rsp, {timespec_size}
    mov eax, {clock_gettime}
    mov edi, {clock_monotonic}
    mov rsi, rsp
    syscall
    imul rax, [rsp + {timespec_seconds}], 1000000000
    add rax, [rsp + {timespec_nanoseconds}]
    add rsp, {timespec_size}
    .endm

    .macro cutrace_save_arguments
    mov [rbp + {frame_arguments}], rdi
    mov [rbp + {frame_arguments} + 8], rsi
    mov [rbp + {frame_arguments} + 16], rdx
    mov [rbp + {frame_arguments} + 24], rcx
    mov [rbp + {frame_arguments} + 32], r8
    mov [rbp + {frame_arguments} + 40], r9
    mov [rbp + {frame_r10}], r10
    .endm

    .macro cutrace_restore_arguments
    mov rdi, [rbp + {frame_arguments}]
    mov rsi, [rbp + {frame_arguments} + 8]
    mov rdx, [rbp + {frame_arguments} + 16]
    mov rcx, [rbp + {frame_arguments} + 24]
    mov r8, [rbp + {frame_arguments} + 32]
    mov r9, [rbp + {frame_arguments} + 40]
    mov r10, [rbp + {frame_r10}]
    .endm

    # To Frame::vectors, with rsp at the frame's locals.
    .macro cutrace_save_vectors
    sub rsp, {vectors_size}
    .irp number, 0, 1, 2, 3, 4, 5, 6, 7
    movups [rsp + 16 * \number], xmm\number
    .endr
    .endm

    .macro cutrace_restore_vectors
    .irp number, 0, 1, 2, 3, 4, 5, 6, 7
    movups xmm\number, [rsp + 16 * \number]
    .endr
    add rsp, {vectors_size}
    .endm

    .hidden cutrace_whole
    .globl cutrace_whole
    .type cutrace_whole, @function
cutrace_whole:
    .cfi_startproc
    cutrace_pass_gate
.Lwhole_open:
    cutrace_enter
    sub rsp, {frame_locals}

    # Reserve; r12 is the ring's header, its mask from then on.
.Lcutrace_reserve:
    mov r11, [rip + cutrace_thread@GOTTPOFF]
    cutrace_find_ring r11, r12, .Lcutrace_refill
    movzx ebx, byte ptr [r13 + {entry_slots}]
    add rbx, [r12 + {ring_head}]
    cmp rbx, fs:[r11 + {thread_limit}]
    ja .Lcutrace_refill
    movzx ebx, byte ptr [r13 + {entry_slots}]
    xadd [r12 + {ring_head}], rbx
    lea eax, [rbx + 1]
    mov [rbp + {frame_commit}], eax
    mov r12, fs:[r11 + {thread_mask}]
    and rbx, r12
    cutrace_find_slot r11
    cutrace_fill
    mov [rbx + {slot_result}], eax
    cmp byte ptr [r13 + {entry_slots}], 1
    jne .Lcutrace_payload
.Lcutrace_publish:
    cmp byte ptr [rip + cutrace_host_clock], 0
    jne .Lcutrace_enter_by_kernel
    cutrace_time_in
.Lcutrace_entered:
    mov [rbx + {slot_enter}], rax
    mov eax, [rbp + {frame_commit}]
    mov [rbx + {slot_commit}], eax

    movzx r11d, word ptr [r13 + {entry_stack_words}]
    test r11d, r11d
    jnz .Lcutrace_stack
.Lcutrace_call:
    cutrace_call_function

    # Close, unless a fork made the record the parent's.
    cmp r14d, [rip + cutrace_generation]
    jne .Lcutrace_return
    mov r10, rax
    cmp byte ptr [rip + cutrace_host_clock], 0
    jne .Lcutrace_exit_by_kernel
    cutrace_time_out
.Lcutrace_exited:
    mov rax, r10
    mov [rbx + {slot_result}], eax
    test byte ptr [r13 + {entry_flags}], {has_results} | {has_outputs}
    jnz .Lcutrace_outputs
.Lcutrace_close:
    mov [rbx + {slot_exit}], rdx
    mov rdx, r11
.Lcutrace_return:
    .cfi_remember_state
    lea rsp, [rbp + {frame_saved}]
    cutrace_leave
    ret
    .cfi_restore_state

.Lcutrace_enter_by_kernel:
    mov [rbp + {frame_arguments}], rdi
    mov [rbp + {frame_arguments} + 8], rsi
    mov [rbp + {frame_arguments} + 24], rcx
    cutrace_ask_kernel
    mov rdi, [rbp + {frame_arguments}]
    mov rsi, [rbp + {frame_arguments} + 8]
    mov rcx, [rbp + {frame_arguments} + 24]
    jmp .Lcutrace_entered

.Lcutrace_exit_by_kernel:
    cutrace_ask_kernel
    mov r11, rdx
    mov rdx, rax
    jmp .Lcutrace_exited

.Lcutrace_stack:
    cutrace_copy_stack_arguments
    jmp .Lcutrace_call

.Lcutrace_payload:
    cutrace_save_arguments
    test byte ptr [r13 + {entry_flags}], {saves_vectors}
    jz 1f
    cutrace_save_vectors
1:  movzx eax, byte ptr [r13 + {entry_slots}]
    # Do the payload's slots follow this one, or has the ring its end between them?
    mov r10d, [rbp + {frame_commit}]
    dec r10d
    and r10d, r12d
    add r10d, eax
    dec r10d
    cmp r10d, r12d
    ja .Lcutrace_around
    mov r11d, [rbp + {frame_commit}]
    add r11d, eax
    shl eax, {slot_shift}
    # As many lines are fetched as are written now, or some would never be fetched.
2:  dec r11d
    sub eax, {slot_size}
    prefetchw [rbx + rax + {prefetch}]
    mov [rbx + rax + {slot_commit}], r11d
    cmp eax, {slot_size}
    ja 2b
    # layout::HotPlan: pieces of eight bytes, then of four.
    mov r11, [r13 + {entry_detail}]
    mov r10, [r11 + {plan_pieces}]
    movzx eax, word ptr [r11 + {plan_first}]
    lea r10, [r10 + rax * {piece_size}]
    movzx esi, byte ptr [r11 + {plan_long}]
    movzx r11d, byte ptr [r11 + {plan_short}]
    test esi, esi
    jz 4f
3:  movsx rax, word ptr [r10 + {piece_from}]
    mov rdi, [rbp + rax]
    movzx eax, word ptr [r10 + {piece_to}]
    mov [rbx + rax + {slot_size}], rdi
    add r10, {piece_size}
    dec esi
    jnz 3b
4:  test r11d, r11d
    jz 6f
5:  movsx rax, word ptr [r10 + {piece_from}]
    mov edi, [rbp + rax]
    movzx eax, word ptr [r10 + {piece_to}]
    mov [rbx + rax + {slot_size}], edi
    add r10, {piece_size}
    dec r11d
    jnz 5b
6:  lea rsp, [rbp + {frame_r10}]
    mov rdi, [rbp + {frame_arguments}]
    mov rsi, [rbp + {frame_arguments} + 8]
    mov r10, [rbp + {frame_r10}]
    jmp .Lcutrace_publish

.Lcutrace_around:
    mov rdi, rbx
    mov rsi, [r13 + {entry_detail}]
    mov edx, r12d
    mov rcx, rbp
    mov r8d, [rbp + {frame_commit}]
    call {arguments}
    test byte ptr [r13 + {entry_flags}], {saves_vectors}
    jz 7f
    cutrace_restore_vectors
7:  cutrace_restore_arguments
    jmp .Lcutrace_publish

    # What pointers lead to; a value or two that the slot itself has room for are given by the row.
.Lcutrace_outputs:
    cutrace_save_results
    test byte ptr [r13 + {entry_flags}], {has_outputs}
    jnz 4f
    mov rdi, rbx
    mov rsi, [r13 + {entry_detail}]
    mov edx, r12d
    mov rcx, rbp
    mov r8d, [rbp + {frame_commit}]
    mov r9, r10
    call {results}
    jmp 5f
4:  cutrace_write_outputs
5:  cutrace_restore_results
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
    mov r11, [r13 + {entry_target}]
    mov eax, 8
    .cfi_remember_state
    lea rsp, [rbp + {frame_saved}]
    cutrace_leave
    jmp r11
    .cfi_restore_state
    .cfi_endproc
    .size cutrace_whole, . - cutrace_whole
        "#
    };
}
pub(super) use whole;
