//! Thunks that are there without any code being made: where a process may not change code, pointers
//! to functions are turned to these instead.

use core::arch::global_asm;
use core::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

/// Functions that can be hooked this way.
pub const MOST: usize = 8192;
const BYTES: usize = 16;

// mov r11d, number; jmp common
global_asm!(
    r#"
    .data
    .balign 8
    .hidden cutrace_thunks_common
    .globl cutrace_thunks_common
cutrace_thunks_common:
    .quad 0

    .text
    .balign {bytes}
    .hidden cutrace_thunks
    .globl cutrace_thunks
cutrace_thunks:
    .set cutrace_number, 0
    .rept {most}
    .byte 0x41, 0xbb
    .long cutrace_number
    jmp qword ptr [rip + cutrace_thunks_common]
    .balign {bytes}
    .set cutrace_number, cutrace_number + 1
    .endr
    "#,
    most = const MOST,
    bytes = const BYTES,
);

unsafe extern "C" {
    static cutrace_thunks_common: AtomicUsize;
    fn cutrace_thunks();
}

pub fn start(common: usize) {
    // SAFETY: a word of our own.
    unsafe { &cutrace_thunks_common }.store(common, Ordering::Relaxed);
}

/// The thunk of a function, by its number.
pub fn of(number: usize) -> Option<usize> {
    let first = cutrace_thunks as *const () as usize;
    (number < MOST).then(|| first + number * BYTES)
}

/// (function, thunk), sorted: what the driver's own lookup is told apart by.
static TURNED: AtomicPtr<(usize, usize)> = AtomicPtr::new(core::ptr::null_mut());
static TURNED_COUNT: AtomicUsize = AtomicUsize::new(0);

/// Replaces the table; the old one stays, for a thread may be looking.
pub fn publish(mut turned: alloc::vec::Vec<(usize, usize)>) {
    turned.sort_unstable();
    let table = turned.leak();
    // Emptied first: a reader must never take one's length with the other's memory.
    TURNED_COUNT.store(0, Ordering::SeqCst);
    TURNED.store(table.as_mut_ptr(), Ordering::SeqCst);
    TURNED_COUNT.store(table.len(), Ordering::SeqCst);
}

fn thunk_for(function: usize) -> usize {
    let count = TURNED_COUNT.load(Ordering::SeqCst);
    let table = TURNED.load(Ordering::SeqCst);
    if count == 0 || TURNED_COUNT.load(Ordering::SeqCst) != count {
        return function;
    }
    // SAFETY: published together, and never freed.
    let table = unsafe { core::slice::from_raw_parts(table, count) };
    match table.binary_search_by_key(&function, |pair| pair.0) {
        Ok(place) => table[place].1,
        Err(_) => function,
    }
}

type Lookup = unsafe extern "C" fn(usize, *mut usize, usize, usize, usize, usize) -> u32;

/// The driver's own lookups of functions.
pub const LOOKUPS: [&[u8]; 2] = [b"cuGetProcAddress", b"cuGetProcAddress_v2"];

static REAL: [AtomicUsize; 2] = [const { AtomicUsize::new(0) }; 2];

/// What stands in for a lookup: it hands out thunks. None: not a lookup.
pub fn lookup(name: &[u8], real: usize) -> Option<usize> {
    let which = LOOKUPS.iter().position(|lookup| *lookup == name)?;
    let stand_in: Lookup = [look_up::<0>, look_up::<1>][which];
    if real != stand_in as *const () as usize {
        REAL[which].store(real, Ordering::Release);
    }
    Some(stand_in as *const () as usize)
}

unsafe extern "C" fn look_up<const WHICH: usize>(
    name: usize,
    found: *mut usize,
    third: usize,
    fourth: usize,
    fifth: usize,
    sixth: usize,
) -> u32 {
    let real = REAL[WHICH].load(Ordering::Acquire);
    // SAFETY: the driver's own function, with what it was called with.
    unsafe {
        let real: Lookup = core::mem::transmute::<usize, Lookup>(real);
        let result = real(name, found, third, fourth, fifth, sixth);
        if result == 0 && !found.is_null() {
            *found = thunk_for(*found);
        }
        result
    }
}
