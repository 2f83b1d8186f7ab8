//! Others who use CUPTI in the same process: activity has one owner, so every newcomer is noticed
//! before CUPTI hears of it, and finds CUPTI as if alone.
//!
//! The functions by which others take over get a jump to a stub of ours behind their first instruction;
//! the stub calls [`came`] and goes on with the function itself.

use crate::{collect, functions::Functions};
use preload::{engine::prologue, text};
use std::{cell::Cell, sync::OnceLock};

/// By these a tool begins to use CUPTI, or changes what we rely on.
const TAKES_OVER: [&std::ffi::CStr; 10] = [
    c"cuptiSubscribe",
    c"cuptiSubscribe_v2",
    c"cuptiActivityRegisterCallbacks",
    c"cuptiActivityRegisterCallbacks_v2",
    c"cuptiActivityRegisterTimestampCallback",
    c"cuptiActivityEnable",
    c"cuptiActivityEnableContext",
    c"cuptiActivityEnableAndDump",
    c"cuptiSetThreadIdType",
    c"cuptiFinalize",
];

/// Bytes of a function that its beginning is judged by.
const LOOKED_AT: usize = 512;
const ROOM: usize = 80 + prologue::MOST_BYTES + 16;
/// All registers that arguments can be in are kept.
const ARGUMENTS: usize = 6;

thread_local! {
    static OWN: Cell<u32> = const { Cell::new(0) };
}

/// Calls CUPTI for ourselves: that is nobody who comes.
pub fn own<T>(call: impl FnOnce() -> T) -> T {
    // A thread that is ending has no variables any more, and makes no calls that matter.
    let _ = OWN.try_with(|own| own.set(own.get() + 1));
    let result = call();
    let _ = OWN.try_with(|own| own.set(own.get().saturating_sub(1)));
    result
}

extern "C" fn came(function: u32) {
    if OWN.try_with(Cell::get).unwrap_or(1) > 0 {
        return;
    }
    let name = TAKES_OVER.get(function as usize).copied();
    let name = name.and_then(|name| name.to_str().ok()).unwrap_or("CUPTI");
    collect::step_back(name);
}

/// The same, once in a process: what was written stays.
pub fn watch_once(functions: &Functions) -> usize {
    static WATCHED: OnceLock<usize> = OnceLock::new();
    *WATCHED.get_or_init(|| watch(functions))
}

/// Notices from now on who calls these functions. Returns how many could be watched.
fn watch(functions: &Functions) -> usize {
    let found: Vec<(usize, usize)> = (TAKES_OVER.iter().enumerate())
        .filter_map(|(number, name)| Some((number, functions.address(name)?)))
        .collect();
    let Some((_, first)) = found.first() else {
        return 0;
    };
    if !text::can_make_code() {
        return 0;
    }
    let Some(mut near) = text::Near::reserve(*first, found.len() * ROOM) else {
        return 0;
    };
    let mut jumps = Vec::new();
    for (number, address) in found {
        // SAFETY: a function of a library that is loaded and stays. Its code may end sooner than
        // this, but libraries' code is followed by more of it, or by data that is mapped with it.
        let code = unsafe { std::slice::from_raw_parts(address as *const u8, LOOKED_AT) };
        let entry = address as u64;
        let Ok(detour) = prologue::detour(code, entry, ARGUMENTS) else {
            continue;
        };
        let stub = [detour.undo.code(), &stub(number as u32)].concat();
        let moved_to = (near.next() + stub.len()) as u64;
        let Ok(moved) = prologue::relocate(code, entry, 0, detour.end(), moved_to) else {
            continue;
        };
        let Some(at) = near.push(&[&stub[..], &moved[..]].concat()) else {
            continue;
        };
        let from = address + detour.at;
        if let Some(jump) = text::near_jump(from, at) {
            jumps.push((from, jump));
        }
    }
    if !near.seal() {
        return 0;
    }
    jumps
        .into_iter()
        .filter(|(at, jump)| {
            // SAFETY: the stub behind the jump does what the function does.
            unsafe { write(*at, jump) }
        })
        .count()
}

/// Calls [`came`] with the function's number, with all arguments kept.
fn stub(number: u32) -> Vec<u8> {
    let mut code = vec![
        0x57, 0x56, 0x52, 0x51, // push rdi, rsi, rdx, rcx
        0x41, 0x50, 0x41, 0x51, // push r8, r9
        0x48, 0x83, 0xec, 0x08, // sub rsp, 8
        0xbf, // mov edi,
    ];
    code.extend_from_slice(&number.to_le_bytes());
    code.extend_from_slice(&[0x48, 0xb8]); // mov rax,
    code.extend_from_slice(&(came as extern "C" fn(u32) as usize).to_le_bytes());
    code.extend_from_slice(&[
        0xff, 0xd0, // call rax
        0x48, 0x83, 0xc4, 0x08, // add rsp, 8
        0x41, 0x59, 0x41, 0x58, // pop r9, r8
        0x59, 0x5a, 0x5e, 0x5f, // pop rcx, rdx, rsi, rdi
    ]);
    code
}

/// Puts the jump there; false: the kernel does not let us.
unsafe fn write(at: usize, jump: &[u8; 5]) -> bool {
    const PAGE: usize = 4096;
    let begin = at & !(PAGE - 1);
    let bytes = (at + jump.len()).next_multiple_of(PAGE) - begin;
    let protect = |protection| {
        // SAFETY: pages of code, which stay executable.
        unsafe { libc::mprotect(begin as *mut libc::c_void, bytes, protection) == 0 }
    };
    if !protect(libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC) {
        return false;
    }
    // SAFETY: writable now, and nobody runs it yet.
    unsafe { text::store(at, jump) };
    protect(libc::PROT_READ | libc::PROT_EXEC)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stub_keeps_the_arguments_and_goes_on() {
        // The function behind it: returns rdi + rsi * 2 + r9.
        let behind = [
            0x48, 0x8d, 0x04, 0x77, // lea rax, [rdi + rsi * 2]
            0x4c, 0x01, 0xc8, // add rax, r9
            0xc3, // ret
        ];
        let mut near = text::Near::reserve(watch as *const () as usize, 4096).expect("memory");
        let at = near.push(&[&stub(3)[..], &behind].concat()).expect("room");
        assert!(near.seal());
        // SAFETY: the code above.
        let function = unsafe {
            std::mem::transmute::<usize, extern "C" fn(u64, u64, u64, u64, u64, u64) -> u64>(at)
        };
        assert_eq!(own(|| function(1, 10, 0, 0, 0, 300)), 321);
        assert_eq!(function(1, 10, 0, 0, 0, 300), 321);
    }
}
