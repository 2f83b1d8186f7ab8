//! What happens on every call of a hooked function: a record is opened, the function is called,
//! the record is closed. No locks, no allocation; safe in signal handlers.
//!
//! A hooked function's entry jumps to a stub that puts the function's row into r11 and jumps to one of two ways
//! through the call: `brief`, for most functions, or `whole`. The record's address lives in a callee-saved
//! register, so there is no shadow stack: C++ exceptions, longjmp and debuggers pass through by the
//! unwind information in them.
//!
//! The code is assembled here, in one piece, and takes every offset and size from the structs themselves.

use core::arch::global_asm;
use core::mem::offset_of;
use core::sync::atomic::{AtomicPtr, AtomicU8, AtomicU32};

use super::brief::brief;
use super::gate::gate;
use super::payload;
use super::steps::steps;
use super::whole::whole;
use crate::layout::{
    Entry, Frame, HAS_OUTPUTS, HAS_RESULTS, HotPlan, IS_BRIEF, MAX_FUNCTIONS, Output, PayloadStore,
    SAVES_VECTORS, Thread,
};
use event::ring::{CallSlot, GATE_SHED, GATES, RingHeader, SLOT_BYTES, SMALL_COPY};

unsafe extern "C" {
    /// Where thunks jump to, with a function's number in r11.
    pub fn cutrace_common();
    /// Where stubs jump to, with a function's row in r11.
    pub fn cutrace_whole();
    pub fn cutrace_brief();
    /// Where a `layout::Thread` is, from the thread pointer on: the same for every thread.
    pub fn cutrace_thread_place() -> isize;
    /// By number.
    pub static mut cutrace_entries: [Entry; MAX_FUNCTIONS];
    /// The process's id, in a page that the kernel wipes in forked children.
    pub static mut cutrace_generation: AtomicU32;
    /// Not 0: the processor's counter cannot be trusted, the kernel is asked for the time.
    pub static cutrace_host_clock: AtomicU8;
    /// Called when the thread has no ring or no room: `extern "C" fn(&mut Thread) -> bool`,
    /// true to try again, false to let the call go unrecorded.
    pub static cutrace_refill: AtomicPtr<()>;
    /// Where the gates are; all are open until the engine has found the tracer's.
    pub static cutrace_gates: AtomicPtr<AtomicU8>;
}

/// The generation is alone in its page.
const PAGE: usize = 4096;
/// How far ahead of the slots being written their successors are fetched.
const PREFETCH_SLOTS: usize = 16;

global_asm!(
    r#"
    .section .tdata,"awT",@progbits
    .balign {thread_size}
    .hidden cutrace_thread
    .globl cutrace_thread
    .type cutrace_thread, @object
    .size cutrace_thread, {thread_size}
cutrace_thread:
    .zero {thread_generation}
    # No generation yet.
    .long 0xffffffff
    .zero {thread_size} - {thread_generation} - 4

    .bss
    .balign 64
    .hidden cutrace_entries
    .globl cutrace_entries
    .type cutrace_entries, @object
    .size cutrace_entries, {entries_size}
cutrace_entries:
    .zero {entries_size}

    .balign {page}
    .hidden cutrace_generation
    .globl cutrace_generation
    .type cutrace_generation, @object
    .size cutrace_generation, {page}
cutrace_generation:
    .zero {page}

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

    .balign 64
cutrace_open_gates:
    .zero {gates}
    .hidden cutrace_gates
    .globl cutrace_gates
    .type cutrace_gates, @object
    .size cutrace_gates, 8
cutrace_gates:
    .quad cutrace_open_gates
    "#,
    steps!(),
    gate!(),
    brief!(),
    r#"
    # rax = where a thread keeps its view of its ring, from the thread pointer on.
    .hidden cutrace_thread_place
    .globl cutrace_thread_place
    .type cutrace_thread_place, @function
cutrace_thread_place:
    mov rax, [rip + cutrace_thread@GOTTPOFF]
    ret
    .size cutrace_thread_place, . - cutrace_thread_place

    .p2align 6
    .hidden cutrace_common
    .globl cutrace_common
    .type cutrace_common, @function
cutrace_common:
    .cfi_startproc
    mov r11d, r11d
    shl r11, {entry_shift}
    lea rax, [rip + cutrace_entries]
    add r11, rax
    test byte ptr [r11 + {entry_flags}], {is_brief}
    jnz cutrace_brief
    # Otherwise it runs on into the whole way.
    .cfi_endproc
    .size cutrace_common, . - cutrace_common
    "#,
    whole!(),
    page = const PAGE,
    prefetch = const PREFETCH_SLOTS * SLOT_BYTES,
    lowest = const payload::LOWEST,
    last_of_four = const size_of::<u32>() - 1,
    arguments = sym payload::write_arguments,
    results = sym payload::write_results,
    outputs = sym payload::write_outputs,

    entries_size = const size_of::<[Entry; MAX_FUNCTIONS]>(),
    entry_size = const size_of::<Entry>(),
    entry_shift = const size_of::<Entry>().trailing_zeros(),
    entry_target = const offset_of!(Entry, target),
    entry_detail = const offset_of!(Entry, detail),
    entry_slots = const offset_of!(Entry, slots),
    entry_flags = const offset_of!(Entry, flags),
    entry_stack_words = const offset_of!(Entry, stack_words),
    entry_label = const offset_of!(Entry, label),
    entry_outputs = const offset_of!(Entry, outputs),
    entry_gate = const offset_of!(Entry, gate),
    gates = const GATES,
    gate_shed = const GATE_SHED,
    gate_always = const cuda::gate::ALWAYS,
    small_copy = const SMALL_COPY,
    not_ready = const 600,
    output_size = const size_of::<Output>(),
    output_pointer = const offset_of!(Output, pointer),
    output_place = const offset_of!(Output, place),
    output_last = const offset_of!(Output, last),
    saves_vectors = const SAVES_VECTORS,
    has_results = const HAS_RESULTS,
    has_outputs = const HAS_OUTPUTS,
    is_brief = const IS_BRIEF,

    plan_pieces = const offset_of!(HotPlan, pieces),
    plan_first = const offset_of!(HotPlan, whole_arguments.first),
    plan_long = const offset_of!(HotPlan, whole_arguments.long),
    plan_short = const offset_of!(HotPlan, whole_arguments.short),
    piece_size = const size_of::<PayloadStore>(),
    piece_from = const offset_of!(PayloadStore, from),
    piece_to = const offset_of!(PayloadStore, to),

    thread_size = const size_of::<Thread>(),
    thread_header = const offset_of!(Thread, header),
    thread_slots = const offset_of!(Thread, slots),
    thread_mask = const offset_of!(Thread, mask),
    thread_limit = const offset_of!(Thread, limit),
    thread_generation = const offset_of!(Thread, pid),

    ring_head = const offset_of!(RingHeader, head),
    ring_shed = const offset_of!(RingHeader, shed),
    slot_size = const SLOT_BYTES,
    slot_shift = const SLOT_BYTES.trailing_zeros(),
    slot_enter = const offset_of!(CallSlot, enter),
    slot_exit = const offset_of!(CallSlot, exit),
    slot_function = const offset_of!(CallSlot, function),
    slot_stack_pointer = const offset_of!(CallSlot, stack_pointer),
    slot_result = const offset_of!(CallSlot, result),
    slot_commit = const offset_of!(CallSlot, commit),
    slot_args = const offset_of!(CallSlot, args),

    frame_locals = const offset_of!(Frame, saved) - offset_of!(Frame, r10),
    frame_r10 = const Frame::from_base(offset_of!(Frame, r10)),
    frame_commit = const Frame::from_base(offset_of!(Frame, commit)),
    frame_arguments = const Frame::from_base(offset_of!(Frame, arguments)),
    frame_saved = const Frame::from_base(offset_of!(Frame, saved)),
    frame_return = const Frame::from_base(offset_of!(Frame, return_address)),
    frame_stack = const Frame::STACK_ARGUMENTS,
    vectors_size = const offset_of!(Frame, r10) - offset_of!(Frame, vectors),

    clock_gettime = const libc::SYS_clock_gettime,
    clock_monotonic = const libc::CLOCK_MONOTONIC,
    timespec_size = const size_of::<libc::timespec>(),
    timespec_seconds = const offset_of!(libc::timespec, tv_sec),
    timespec_nanoseconds = const offset_of!(libc::timespec, tv_nsec),
);
