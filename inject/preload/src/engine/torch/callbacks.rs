//! The callbacks that PyTorch calls at the beginning and the end of an operator, and their registration. They run on
//! the program's threads: no locks, no allocation.

use super::super::entry::own_entry;
use super::super::report;
use super::super::select::Options;
use super::super::{nvtx, thunks};
use super::{TORCH, Torch};
use crate::layout::Stage;
use core::fmt::Write;
use core::sync::atomic::{AtomicU8, Ordering};
use cuda::operators::{FUNCTIONS, NameRoom, OperatorStep, scope};

/// Numbers of functions that are ours, after NVTX's.
pub const NUMBERS: usize = FUNCTIONS.len();

/// `at::RecordFunctionCallback`, the same since 1.13: passed by value, on the stack.
#[repr(C)]
pub struct RecordFunctionCallback {
    start: unsafe extern "C" fn(*mut usize, *const u8) -> *mut usize,
    end: unsafe extern "C" fn(*const u8, *const u8),
    sampling_probability: f64,
    scopes: [bool; scope::NAMES.len()],
    needs_inputs: bool,
    needs_outputs: bool,
    needs_ids: bool,
}

const _: () = assert!(size_of::<RecordFunctionCallback>() == 40);

/// Whether the layout is what it is taken to be.
static CHECKED: AtomicU8 = AtomicU8::new(UNKNOWN);
const UNKNOWN: u8 = 0;
const RIGHT: u8 = 1;
const WRONG: u8 = 2;

/// Rows for our functions, said to the tracer; false if nobody asks for operators.
pub fn start(stage: &Stage, options: &Options) -> bool {
    if !options.wants(FUNCTIONS[0].name.as_bytes()) {
        return false;
    }
    let mut lines = report::Line::<512>::new();
    for (place, function) in FUNCTIONS.iter().enumerate() {
        let number = nvtx::NUMBERS + place;
        let recorded = nvtx::recorded as *const () as usize;
        let row = own_entry(&function.plan(), number as u16, recorded);
        // SAFETY: a row of the table; nothing calls it yet.
        unsafe { stage.entries.add(number).write(row) };
        let (library, name) = (nvtx::NO_LIBRARY, function.name);
        let _ = writeln!(lines, "function {number} {library} {name}");
    }
    report::say(lines.bytes());
    true
}

/// Adds our callbacks to PyTorch's.
pub(super) fn register(torch: &Torch) {
    let mut scopes = [true; scope::NAMES.len()];
    // Marks of builds for phones, no spans.
    (scopes[3], scopes[5]) = (false, false);
    // SAFETY: PyTorch has run an operator: its constructors are done. The struct is as its header has it.
    unsafe {
        (torch.add)(RecordFunctionCallback {
            start: begin,
            end,
            sampling_probability: 1.0,
            scopes,
            needs_inputs: false,
            needs_outputs: false,
            needs_ids: false,
        })
    };
}

/// `std::unique_ptr<ObserverContext> (*)(const RecordFunction&)`: none is returned, through a hidden pointer.
unsafe extern "C" fn begin(context: *mut usize, function: *const u8) -> *mut usize {
    // SAFETY: room for a pointer, by the calling convention; the function is under way.
    unsafe {
        context.write(0);
        if let Some(torch) = TORCH.load(Ordering::Acquire).as_ref()
            && is_right(torch, function)
        {
            begins(torch, function);
        }
    }
    context
}

unsafe extern "C" fn end(function: *const u8, _context: *const u8) {
    if CHECKED.load(Ordering::Relaxed) == RIGHT {
        let room = NameRoom::Short;
        record(OperatorStep::End, room, [function as u64, 0, 0, 0, 0, 0]);
    }
}

unsafe fn begins(torch: &Torch, function: *const u8) {
    let layout = &torch.layout;
    // SAFETY: by the layout, which was checked.
    unsafe {
        let word = |offset| function.add(offset).cast::<u64>().read_unaligned();
        let name = (torch.name)(function);
        let overload = torch.overload.map_or(0, |text| text(function) as u64);
        let mut what = u64::from(function.add(layout.scope).read());
        if function.add(layout.is_async).read() != 0 {
            what |= scope::ASYNC;
        }
        let (sequence, thread) = (word(layout.sequence), word(layout.forward_thread));
        let words = [
            function as u64,
            name as u64,
            sequence,
            what,
            thread,
            overload,
        ];
        record(OperatorStep::Begin, room_for(name), words);
    }
}

/// The first operator that is seen settles it: its thread's number, as the field has it and as PyTorch says it.
unsafe fn is_right(torch: &Torch, function: *const u8) -> bool {
    match CHECKED.load(Ordering::Relaxed) {
        RIGHT => return true,
        WRONG => return false,
        _ => {}
    }
    // SAFETY: shorter than any RecordFunction there has been.
    let (thread, scope) = unsafe {
        let thread = function.add(torch.layout.thread).cast::<u64>();
        let scope = function.add(torch.layout.scope).read();
        (thread.read_unaligned(), usize::from(scope))
    };
    // SAFETY: it takes nothing and returns a number.
    let is_right = thread == unsafe { (torch.current_thread)() } && scope < scope::NAMES.len();
    let found = if is_right { RIGHT } else { WRONG };
    let before = CHECKED.compare_exchange(UNKNOWN, found, Ordering::Relaxed, Ordering::Relaxed);
    if before.is_ok() && !is_right {
        report::say(b"note PyTorch's operators are not recorded: this build lays them out in an unknown way\n");
    }
    is_right
}

/// How much room a name needs.
unsafe fn room_for(name: *const u8) -> NameRoom {
    if name.is_null() {
        return NameRoom::Short;
    }
    let mut length = 0u16;
    for room in NameRoom::ALL {
        while length < room.bytes() {
            // SAFETY: up to the NUL that ends it.
            if unsafe { name.add(length.into()).read() } == 0 {
                return room;
            }
            length += 1;
        }
    }
    NameRoom::Long
}

/// One call of ours, through its thunk: it leaves a record.
fn record(step: OperatorStep, room: NameRoom, words: [u64; 6]) {
    type Recorded = extern "C" fn(u64, u64, u64, u64, u64, u64) -> u32;
    let number = nvtx::NUMBERS + cuda::operators::number(step, room);
    if let Some(thunk) = thunks::of(number) {
        // SAFETY: a thunk whose row goes on to `recorded`.
        let thunk = unsafe { core::mem::transmute::<usize, Recorded>(thunk) };
        let [first, second, third, fourth, fifth, sixth] = words;
        thunk(first, second, third, fourth, fifth, sixth);
    }
}
