//! Learning of every library the moment it is mapped, before its constructors run.
//!
//! Debuggers set a breakpoint on an empty function that the loader calls whenever its list of
//! objects changes (`r_debug.r_brk`). The same function gets a jump to here.

use crate::objects::Loader;
use crate::sys;
use crate::text::{self, Near};
use core::arch::global_asm;
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use event::attach::Change;

unsafe extern "C" {
    fn cutrace_changed();
    /// The end of the stack that the work is done on; 0 while it is in use, or before there is one.
    static cutrace_stack: AtomicUsize;
}

const STACK_BYTES: usize = 256 << 10;

// A leaf as far as the loader knows: every register is preserved. The work is done on a stack of its
// own, for threads with small stacks load libraries too; one at a time, which the loader's lock
// sees to, and the word here makes sure of.
global_asm!(
    r#"
    .data
    .balign 8
    .hidden cutrace_stack
    .globl cutrace_stack
    .type cutrace_stack, @object
    .size cutrace_stack, 8
cutrace_stack:
    .quad 0

    .text
    .hidden cutrace_changed
    .globl cutrace_changed
    .type cutrace_changed, @function
cutrace_changed:
    .cfi_startproc
    push rbp
    .cfi_def_cfa_offset 16
    .cfi_offset rbp, -16
    mov rbp, rsp
    .cfi_def_cfa_register rbp
    and rsp, -16
    push rax
    push rcx
    push rdx
    push rsi
    push rdi
    push r8
    push r9
    push r10
    push r11
    # Eight bytes more keep it a multiple of 16.
    sub rsp, 16 * 16 + 8
    .irp number, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15
    movups [rsp + 16 * \number], xmm\number
    .endr
    xor eax, eax
    xchg [rip + cutrace_stack], rax
    test rax, rax
    jz 1f
    mov [rax - 8], rsp
    mov [rax - 16], rax
    lea rsp, [rax - 16]
    call {changed}
    mov rax, [rsp]
    mov rsp, [rsp + 8]
    mov [rip + cutrace_stack], rax
1:  .irp number, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15
    movups xmm\number, [rsp + 16 * \number]
    .endr
    add rsp, 16 * 16 + 8
    pop r11
    pop r10
    pop r9
    pop r8
    pop rdi
    pop rsi
    pop rdx
    pop rcx
    pop rax
    leave
    .cfi_def_cfa rsp, 8
    ret
    .cfi_endproc
    .size cutrace_changed, . - cutrace_changed
    "#,
    changed = sym super::start::changed,
);

/// Makes the loader's empty function call us. Where it is not the empty function we know (a
/// debugger's breakpoint is there, or another libc), libraries loaded later are missed.
///
/// # Safety
/// `loader` is the loader's own.
pub unsafe fn install(loader: *const Loader, at_once: bool) {
    if PLACE.load(Ordering::Relaxed) != 0 {
        return;
    }
    let at = unsafe { (*loader).changed };
    if at == 0 {
        return;
    }
    // SAFETY: a function's first bytes; functions are padded to 16.
    let mut bytes = unsafe { (at as *const [u8; 12]).read_unaligned() };
    if bytes[0] == BREAKPOINT && !is_debugged() {
        bytes[0] = below_breakpoint(&bytes);
    }
    let Some(ret) = empty_function(&bytes) else {
        return;
    };
    let at = at + ret;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a fresh mapping.
    let Some(stack) = (unsafe { sys::map(0, STACK_BYTES, protection, flags, None) }) else {
        return;
    };
    // SAFETY: nothing uses it yet.
    unsafe { cutrace_stack.store(stack + STACK_BYTES, Ordering::Release) };
    let Some(mut near) = Near::reserve(at, 4096) else {
        return;
    };
    let target = cutrace_changed as *const () as usize;
    let Some(stub) = near.push(&text::far_jump(target)) else {
        return;
    };
    if !near.seal() {
        return;
    }
    let Some(jump) = text::near_jump(at, stub) else {
        return;
    };
    let mut before = [0; 5];
    before.copy_from_slice(&bytes[ret..ret + 5]);
    // SAFETY: one at a time, see `start::State`.
    unsafe {
        (*super::start::control()).trigger = Change {
            at: at as u64,
            before,
            jump,
            ..Change::NONE
        };
    }
    if !at_once || text::overwrite(at, &jump) {
        let mut word = [0; 8];
        word[..jump.len()].copy_from_slice(&jump);
        JUMP.store(u64::from_le_bytes(word), Ordering::Relaxed);
        PLACE.store(at, Ordering::Relaxed);
    }
}

/// Where the jump is, and what it is.
static PLACE: AtomicUsize = AtomicUsize::new(0);
static JUMP: AtomicU64 = AtomicU64::new(0);

/// Whether the loader still tells us of libraries. A uprobe that another tracer puts on its function runs the file's
/// `ret` instead of our jump, and leaves that behind when it goes.
pub fn is_in_place() -> bool {
    let place = PLACE.load(Ordering::Relaxed);
    if place == 0 {
        return false;
    }
    // SAFETY: code of the loader's, which is never unmapped.
    let bytes = unsafe { (place as *const [u8; 5]).read_volatile() };
    bytes == JUMP.load(Ordering::Relaxed).to_le_bytes()[..5]
}

const BREAKPOINT: u8 = 0xcc;

/// A breakpoint of the kernel's (a tracer watches this file with a uprobe) may be replaced by our jump: the
/// kernel takes it off only where it still is. A debugger's may not; cutrace's own tracer sets none.
fn is_debugged() -> bool {
    let mut status = [0; 2048];
    let status = read(b"/proc/self/status\0", &mut status);
    let Some(tracer) = tracer(status) else {
        return true;
    };
    if tracer == b"0" {
        return false;
    }
    let mut path = [0; 32];
    let mut length = 0;
    for part in [&b"/proc/"[..], tracer, &b"/comm\0"[..]] {
        let Some(room) = path.get_mut(length..length + part.len()) else {
            return true;
        };
        room.copy_from_slice(part);
        length += part.len();
    }
    let mut name = [0; 32];
    read(&path[..length], &mut name) != b"cutrace-ptrace\n"
}

/// The number of the process that traces this one, in digits.
fn tracer(status: &[u8]) -> Option<&[u8]> {
    let name = b"TracerPid:\t";
    let at = status.windows(name.len()).position(|line| line == name)?;
    let rest = &status[at + name.len()..];
    let end = rest.iter().position(|byte| *byte == b'\n')?;
    Some(&rest[..end])
}

/// As much of a file as there is room for.
fn read<'a>(path: &[u8], room: &'a mut [u8]) -> &'a [u8] {
    let read = sys::File::open(path, libc::O_RDONLY, 0).map_or(0, |file| file.read(room));
    &room[..read.min(room.len())]
}

/// The byte that was there, of the functions that [`empty_function`] knows.
fn below_breakpoint(bytes: &[u8; 12]) -> u8 {
    if bytes[1..5] == [0x0f, 0x1e, 0xfa, 0xc3] {
        0xf3
    } else {
        0xc3
    }
}

/// Where the function's `ret` is, perhaps behind `endbr64`, if nothing that runs comes within the bytes of a
/// jump there. Restoring the file's first byte one day leaves an empty function either way.
fn empty_function(bytes: &[u8; 12]) -> Option<usize> {
    let ret = match bytes {
        [0xf3, 0x0f, 0x1e, 0xfa, 0xc3, ..] => 4,
        [0xc3, ..] => 0,
        _ => return None,
    };
    let padding = &bytes[ret + 1..ret + 5];
    // int3, nop, or the beginning of a long nop.
    let is_padding = padding.iter().all(|byte| *byte == 0xcc)
        || padding[0] == 0x90
        || padding[..2] == [0x0f, 0x1f]
        || padding[..2] == [0x66, 0x90]
        || padding[..3] == [0x66, 0x66, 0x2e]
        || padding[..3] == [0x66, 0x2e, 0x0f]
        || padding[..2] == [0x2e, 0x66];
    is_padding.then_some(ret)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tracer_is_found() {
        let status = b"Name:\tprogram\nTracerPid:\t4711\nUid:\t0\n";
        assert_eq!(tracer(status), Some(&b"4711"[..]));
        assert_eq!(tracer(b"Name:\tx\nTracerPid:\t47"), None);
        assert_eq!(tracer(b""), None);
    }

    #[test]
    fn the_loaders_function_is_known_below_a_breakpoint() {
        let long_nop = [0x66, 0x2e, 0x0f, 0x1f, 0x84, 0x00, 0x00];
        let of = |beginning: &[u8]| {
            let mut bytes = [0x90; 12];
            bytes[..beginning.len()].copy_from_slice(beginning);
            bytes[beginning.len()..][..7].copy_from_slice(&long_nop);
            bytes
        };
        for (beginning, ret) in [(&[0xf3, 0x0f, 0x1e, 0xfa, 0xc3][..], 4), (&[0xc3], 0)] {
            let mut bytes = of(beginning);
            assert_eq!(empty_function(&bytes), Some(ret));
            let first = bytes[0];
            bytes[0] = BREAKPOINT;
            assert_eq!(empty_function(&bytes), None);
            assert_eq!(below_breakpoint(&bytes), first);
        }
        assert_eq!(empty_function(&of(&[0x55, 0x48, 0x89, 0xe5, 0xc3])), None);
        // Another function begins right behind.
        let mut crowded = of(&[0xc3]);
        crowded[1] = 0x55;
        assert_eq!(empty_function(&crowded), None);
    }
}
