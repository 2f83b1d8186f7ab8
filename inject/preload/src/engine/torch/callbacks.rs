//! The callbacks that PyTorch calls at the beginning and the end of an operator, and their registration. They run on
//! the program's threads: no locks, no allocation.

use super::super::entry::own_entry;
use super::super::report;
use super::super::select::Options;
use super::super::{nvtx, stack, thunks};
use super::{TORCH, Torch};
use crate::layout::Stage;
use core::arch::asm;
use core::fmt::Write;
use core::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use cuda::operators::{FUNCTIONS, NameRoom, OperatorStep, SHAPES_TEXT, scope};

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

/// The entry that notes where a call comes from, then goes on as a thunk does.
static STACK_ENTRY: AtomicUsize = AtomicUsize::new(0);

/// Rows for our functions, said to the tracer; false if nobody asks for operators.
pub fn start(stage: &Stage, options: &Options) -> bool {
    if !options.wants(FUNCTIONS[0].name.as_bytes()) {
        return false;
    }
    let mut lines = report::Line::<1024>::new();
    for (place, function) in FUNCTIONS.iter().enumerate() {
        let number = nvtx::NUMBERS + place;
        let recorded = nvtx::recorded as *const () as usize;
        let row = own_entry(&function.plan(), number as u16, recorded);
        // SAFETY: a row of the table; nothing calls it yet.
        unsafe { stage.entries.add(number).write(row) };
        if function.placed {
            stack::want_python(number);
        }
        let (library, name) = (nvtx::NO_LIBRARY, function.name);
        let _ = writeln!(lines, "function {number} {library} {name}");
    }
    report::say(lines.bytes());
    STACK_ENTRY.store(stage.stack_entry, Ordering::Release);
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
            needs_inputs: torch.shapes.is_some(),
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
        let number = cuda::operators::number(OperatorStep::End, NameRoom::Short, false);
        record(number, [function as u64, 0, 0, 0, 0, 0]);
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
        let mut text = [0; SHAPES_TEXT as usize];
        let (room, fifth) = match &torch.shapes {
            Some(shapes) => {
                shapes.write(function, &mut text);
                (NameRoom::Shapes, text.as_ptr() as u64)
            }
            None => (room_for(name), thread),
        };
        // Ranges say what the program does: an optimizer's step, the wait for a batch, a module. Few, and worth a line.
        let placed = what & 0xff == u64::from(scope::USER);
        let (function, name) = (function as u64, name as u64);
        let words = [function, name, sequence, what, fifth, overload];
        let number = cuda::operators::number(OperatorStep::Begin, room, placed);
        match placed {
            true => record_placed(number, words),
            false => record(number, words),
        }
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

/// Whether this PyTorch is not what it is taken to be.
pub(super) fn is_refused() -> bool {
    CHECKED.load(Ordering::Relaxed) == WRONG
}

/// How much room a name needs.
unsafe fn room_for(name: *const u8) -> NameRoom {
    if name.is_null() {
        return NameRoom::Short;
    }
    let mut length = 0u16;
    for room in NameRoom::LENGTHS {
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
pub(super) fn record(number: usize, words: [u64; 6]) {
    type Recorded = extern "C" fn(u64, u64, u64, u64, u64, u64) -> u32;
    if let Some(thunk) = thunks::of(nvtx::NUMBERS + number) {
        // SAFETY: a thunk whose row goes on to `recorded`.
        let thunk = unsafe { core::mem::transmute::<usize, Recorded>(thunk) };
        let [first, second, third, fourth, fifth, sixth] = words;
        thunk(first, second, third, fourth, fifth, sixth);
    }
}

/// The same, and before it a note of the Python lines that it comes from.
pub(super) fn record_placed(number: usize, words: [u64; 6]) {
    let entry = STACK_ENTRY.load(Ordering::Acquire);
    if entry == 0 {
        return record(number, words);
    }
    let [first, second, third, fourth, fifth, sixth] = words;
    // SAFETY: as a thunk calls it: the function's number in r11, its arguments where they belong. It returns as the
    // function would.
    unsafe {
        asm!(
            "call rax",
            inout("rax") entry => _,
            inout("r11") nvtx::NUMBERS + number => _,
            inout("rdi") first => _,
            inout("rsi") second => _,
            inout("rdx") third => _,
            inout("rcx") fourth => _,
            inout("r8") fifth => _,
            inout("r9") sixth => _,
            clobber_abi("C"),
        );
    }
}
