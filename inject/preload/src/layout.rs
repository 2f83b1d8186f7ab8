//! What the two stages share: the tables that the code on every call reads and that the engine
//! fills, and how the stages call each other. Everything is laid out as C would: they are linked
//! apart.

use core::mem::offset_of;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, AtomicU32};
use event::attach::Control;

/// Functions a process can have hooked: numbers are 16 bits in a record.
pub const MAX_FUNCTIONS: usize = 1 << 16;

/// A hooked function, as the code below needs it.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Entry {
    /// Continues with the function itself.
    pub target: usize,
    pub detail: Detail,
    /// Slots a call takes: its own and its payload's.
    pub slots: u8,
    /// [`SAVES_VECTORS`], [`HAS_RESULTS`], [`HAS_OUTPUTS`], [`IS_BRIEF`]
    pub flags: u8,
    /// Words of arguments to copy from the caller's stack; even, to keep it aligned.
    pub stack_words: u16,
    /// The record's words `function` and `flags`.
    pub label: u32,
    pub outputs: [Output; 2],
    /// Which gate its calls pass (`cuda::gate`).
    pub gate: u8,
    pub reserved: u8,
}

/// What the two ways of recording a call need besides.
#[derive(Clone, Copy)]
#[repr(C)]
pub union Detail {
    pub plan: *const HotPlan,
    /// With [`IS_BRIEF`]: where a [`Thread`] is, from the thread pointer on.
    pub thread: isize,
}

/// With [`HAS_OUTPUTS`]: a value that a function hands back, kept in its call's own slot.
#[derive(Clone, Copy, Default)]
#[repr(C)]
pub struct Output {
    /// Where in the slot the pointer to it is.
    pub pointer: u8,
    /// Where in the slot it goes: words that no argument needs.
    pub place: u8,
    /// Its bytes less one, 3 or 7; 0: there is no such value.
    pub last: u8,
}

/// The function takes arguments in vector registers.
pub const SAVES_VECTORS: u8 = 1;
/// There is more to capture than arguments.
pub const HAS_RESULTS: u8 = 2;
/// All there is to capture beyond arguments is a value or two, and the slot has room for them.
pub const HAS_OUTPUTS: u8 = 4;
/// A call takes one slot, no argument is on the stack, and times are the processor's: the shorter
/// way, `stage::brief`.
pub const IS_BRIEF: u8 = 8;

/// `cuda::capture::Plan`, compact.
#[repr(C)]
pub struct HotPlan {
    pub pieces: *const PayloadStore,
    /// Of all arguments, from the base of the common part's frame.
    pub whole_arguments: ItemStores,
    /// The function returns no status: its outputs are always valid.
    pub always_succeeds: bool,
    /// Payload slots.
    pub slots: u8,
    /// Items, the arguments first.
    pub arguments: u16,
    pub count: u16,
    pub items: [HotItem; cuda::capture::MAX_ITEMS],
}

/// Eight or four bytes that lie in one piece also in the slots: one store.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct PayloadStore {
    /// From the frame's base, or from where an item begins in memory.
    pub from: i16,
    /// From the first payload slot on, commit words counted.
    pub to: u16,
}

/// Those of a plan's pieces that make up an item: first pieces of eight bytes, then of four.
#[derive(Clone, Copy, Default)]
#[repr(C)]
pub struct ItemStores {
    pub first: u16,
    pub long: u8,
    pub short: u8,
}

/// One piece of a payload.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct HotItem {
    pub kind: HotKind,
    /// Where its word is, from the base of the common part's frame.
    pub word: i16,
    /// Bytes behind the pointer at which it begins.
    pub offset: u16,
    pub bytes: u16,
    /// Where in the payload it begins.
    pub place: u16,
    /// Of memory: none if it cannot be taken apart like that.
    pub pieces: ItemStores,
    /// Of an array: how many elements it has.
    pub count: HotCount,
    /// Bytes from one element to the next, and how many of each are kept.
    pub stride: u16,
    pub kept: u16,
}

/// The length of an array.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct HotCount {
    /// Where the word that holds it is, as [`HotItem::word`]; where in the struct, if it is in one.
    pub word: i16,
    /// 4 or 8.
    pub bytes: u8,
    /// The word points to it.
    pub behind: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum HotKind {
    Argument,
    MemoryIn,
    MemoryOut,
    TextIn,
    TextOut,
    TextBehind,
    ArrayIn,
    ArrayOut,
    Nested,
    Gathered,
    Sum,
    Returned,
    ReturnedText,
}

/// A thread's view of its ring, in thread-local storage.
#[repr(C)]
pub struct Thread {
    /// The ring's header.
    pub header: usize,
    /// Its first slot.
    pub slots: usize,
    /// Capacity - 1.
    pub mask: u64,
    /// Calls may be recorded while the head stays at or below this sequence number.
    pub limit: u64,
    /// The generation of the process that the ring is of (`engine::generation`): a forked child finds
    /// its parent's here. -1: none yet.
    pub pid: u32,
    pub state: u32,
    /// Where the tail stood when a call was last dropped.
    pub stalled_tail: u64,
    /// Slots that have memory: the first lap takes it bit by bit.
    pub backed: u64,
    /// Where on its stack the thread waits for room; 0: it does not.
    pub waiting: u64,
}

/// Slots kept free, so that signal handlers which interrupt a reservation cannot overfill the ring.
pub const MARGIN: u64 = 64;

const _: () = {
    // Rows are found by shifting a function's number, and never straddle a cache line.
    assert!(size_of::<Entry>().is_power_of_two() && size_of::<Entry>() <= 64);
    // `stage::gate` copies one by two stores.
    assert!(size_of::<Entry>() == 2 * size_of::<[u64; 2]>());
    // A call touches one cache line of it.
    assert!(size_of::<Thread>() == 64);
};

/// The stack frame of the longer way (`stage::whole`), from its lowest address on. rbp points to
/// [`Frame::caller_rbp`], the frame's base: a plan's places are counted from there.
#[repr(C)]
pub struct Frame {
    /// xmm0 to xmm7, while they are saved.
    pub vectors: [[u64; 2]; 8],
    pub r10: u64,
    pub commit: u64,
    /// rdi, rsi, rdx, rcx, r8, r9, where they are saved.
    pub arguments: [u64; cuda::capture::REGISTER_WORDS],
    /// r14, r13, r12, rbx, as they are pushed.
    pub saved: [u64; 4],
    pub caller_rbp: u64,
    pub return_address: u64,
}

impl Frame {
    /// A field's place, from the frame's base on.
    pub const fn from_base(offset: usize) -> i16 {
        offset as i16 - offset_of!(Frame, caller_rbp) as i16
    }

    /// Where the caller's arguments on the stack begin, from the frame's base on.
    pub const STACK_ARGUMENTS: i16 = Frame::from_base(size_of::<Frame>());
}

const _: () = {
    // The stack pointer stays a multiple of 16 with and without the saved vectors.
    let base = offset_of!(Frame, caller_rbp);
    assert!(base.is_multiple_of(16) && (base - offset_of!(Frame, r10)).is_multiple_of(16));
};

/// What the caller of a hooked function had in its registers, as `stage::stack` saves them.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Caller {
    /// rbx, rbp, r12, r13, r14, r15
    pub saved: [u64; 6],
    /// Where it goes on.
    pub rip: u64,
    /// Its stack pointer once the function has returned.
    pub rsp: u64,
}

/// What stage one offers the engine.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Stage {
    pub entries: *mut Entry,
    /// Where thunks jump to, with a function's number in r11.
    pub common: usize,
    /// Where stubs jump to, with a row of `entries` in r11: the way for any function, and the one for
    /// those that are brief.
    pub whole: usize,
    pub brief: usize,
    /// Where a [`Thread`] is, from the thread pointer on.
    pub thread: isize,
    /// The process's generation, in a page of its own.
    pub generation: *mut AtomicU32,
    pub refill: *const AtomicPtr<()>,
    /// Where stubs jump to whose callers' stacks are wanted, with a function's number in r11.
    pub stack_entry: usize,
    pub note_stack: *const AtomicPtr<()>,
    /// Not 0: times are the kernel's, not the processor's counter.
    pub host_clock: *const AtomicU8,
    /// Where the gates are that every call passes (`event::ring::Counters::gates`).
    pub gates: *const AtomicPtr<AtomicU8>,
    /// Set when no more system calls may be made.
    pub quiet: *const AtomicBool,
    /// The session's folder, without a NUL.
    pub session: *const u8,
    pub session_bytes: usize,
    pub loader: *const crate::objects::Loader,
    /// CUDA was there first: calls may have been made before any could be recorded.
    pub late: bool,
    /// The process was running already: the tracer makes all changes of code.
    pub attached: bool,
    /// What the tracer must know of this process.
    pub control: *mut Control,
    /// When stage one began to work, by the processor's counter.
    pub began: u64,
}

/// What the engine offers stage one.
#[repr(C)]
pub struct Engine {
    /// Hooks what the loader has mapped since, forgets what it has unmapped.
    pub scan: Option<extern "C" fn()>,
    /// The process ends in order.
    pub finish: Option<extern "C" fn()>,
    /// The loader no longer notified us of libraries: says which of them were not hooked.
    pub missed: Option<extern "C" fn()>,
    /// NVTX in some library of the program asks for a tool to report to.
    pub nvtx: Option<unsafe extern "C" fn(GetExportTable) -> bool>,
    /// Another session begins, in a process that has been in one. False: nothing can be recorded.
    pub attach: Option<unsafe extern "C" fn(session: *const u8, bytes: usize) -> bool>,
    /// As `scan`, while all other threads are stopped: changes of code are left to the tracer.
    pub prepare: Option<extern "C" fn()>,
    /// The session ends, and the process goes on.
    pub detach: Option<extern "C" fn()>,
}

impl Engine {
    pub const NONE: Engine = Engine {
        scan: None,
        finish: None,
        missed: None,
        nvtx: None,
        attach: None,
        prepare: None,
        detach: None,
    };
}

/// How a copy of NVTX lets a tool reach its tables.
pub type GetExportTable = unsafe extern "C" fn(id: u32) -> *const usize;

/// The engine's entry point, `e_entry` of its file. False: nothing can be recorded.
pub type Enter = unsafe extern "C" fn(stage: *const Stage, engine: *mut Engine) -> bool;
