//! What both ways through a hooked call do alike, as macros of the assembler: text that `hot` assembles
//! with the two ways.
//!
//! From the prologue on r13 is the function's row and r14 the process's generation, from
//! `cutrace_find_slot` on rbx is the call's slot.

macro_rules! steps {
    () => {
        r#"
    # The frame: rbp its base, r13 the row that came in r11.
    .macro cutrace_enter
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
    mov r13, r11
    .endm

    # With rsp where the pushes above have left it.
    .macro cutrace_leave
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

    # \header = the ring's header, with \thread where the thread keeps its view of its ring.
    .macro cutrace_find_ring thread, header, refill
    mov r14d, [rip + cutrace_generation]
    cmp r14d, fs:[\thread + {thread_generation}]
    jne \refill
    mov \header, fs:[\thread + {thread_header}]
    .endm

    # rbx = the slot, from its sequence number, which has been masked.
    .macro cutrace_find_slot thread
    shl rbx, {slot_shift}
    add rbx, fs:[\thread + {thread_slots}]
    # The consumer has read these lines: fetch one to come for writing, ahead of time.
    prefetchw [rbx + {prefetch}]
    .endm

    # All that is known at entry but the time; eax = 0 afterwards.
    .macro cutrace_fill
    mov [rbx + {slot_args}], rdi
    mov [rbx + {slot_args} + 8], rsi
    mov [rbx + {slot_args} + 16], rdx
    mov [rbx + {slot_args} + 24], rcx
    mov eax, [r13 + {entry_label}]
    mov [rbx + {slot_function}], eax
    lea eax, [rbp + {frame_return}]
    mov [rbx + {slot_stack_pointer}], eax
    xor eax, eax
    mov [rbx + {slot_exit}], rax
    .endm

    # rax = the processor's counter. Changes r11.
    .macro cutrace_time_in
    mov r11, rdx
    rdtsc
    shl rdx, 32
    or rax, rdx
    mov rdx, r11
    .endm

    # rdx = the processor's counter, r11 = what was in rdx. Changes rax.
    .macro cutrace_time_out
    mov r11, rdx
    rdtsc
    shl rdx, 32
    or rdx, rax
    .endm

    # Arguments that the caller has on its stack: r11 words, an even number and not 0. Changes rax, r11.
    .macro cutrace_copy_stack_arguments
    lea rax, [r11 * 8]
    sub rsp, rax
9:  mov rax, [rbp + r11 * 8 + {frame_stack} - 8]
    mov [rsp + r11 * 8 - 8], rax
    dec r11
    jnz 9b
    .endm

    # Variadic functions want to know how many vector registers are in use.
    .macro cutrace_call_function
    mov eax, 8
    call [r13 + {entry_target}]
    .endm

    # What was returned, in rax and the vector registers, and what cutrace_time_out has left.
    .macro cutrace_save_results
    push rdx
    push r11
    push rax
    sub rsp, 40
    movups [rsp], xmm0
    movups [rsp + 16], xmm1
    .endm

    .macro cutrace_restore_results
    movups xmm0, [rsp]
    movups xmm1, [rsp + 16]
    add rsp, 40
    pop rax
    pop r11
    pop rdx
    .endm

    # The values that the slot itself has room for; eax is the result.
    .macro cutrace_write_outputs
    mov rdi, rbx
    mov rsi, r13
    mov edx, eax
    call {outputs}
    .endm

    # A field of the function's first or second value to hand back, and its last byte's number in \last.
    .macro cutrace_output_last which, last
    movzx \last, byte ptr [r13 + {entry_outputs} + \which * {output_size} + {output_last}]
    test \last, \last
    .endm

    # rdi = where a value is that the callee has just written, if it is aligned, so in one page; rcx = where
    # in the slot it goes. Equal: it has four bytes; otherwise it has eight.
    .macro cutrace_find_output which, odd
    movzx ecx, byte ptr [r13 + {entry_outputs} + \which * {output_size} + {output_pointer}]
    mov rdi, [rbx + rcx]
    cmp rdi, {lowest}
    jb \odd
    test edi, esi
    jnz \odd
    movzx ecx, byte ptr [r13 + {entry_outputs} + \which * {output_size} + {output_place}]
    cmp esi, {last_of_four}
    .endm
        "#
    };
}
pub(super) use steps;
