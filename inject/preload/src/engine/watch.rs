//! Watches for the moment when the program gives up system calls (seccomp): after it, a system call
//! that the program did not mean to make may be its last. Just before, everything is made ready to
//! go on without any; see `quiet`.
//!
//! The ways to it are libc's `prctl` and `syscall`. A program that makes the system call with an
//! instruction of its own is not noticed.

use super::changes;
use super::code::{self, Patch, Writer};
use super::prologue::{self, MOST_BYTES};
use super::redirect::{Data, How, Redirect};
use crate::objects::{self, Loader, Object, file::Mapped};
use crate::text::{self, Near};
use alloc::collections::BTreeMap;
use core::arch::global_asm;
use core::sync::atomic::{AtomicUsize, Ordering};

// Both end as if they had not been there. Of seccomp's operations the first two install something. The
// strict mode takes the processor's counter away, as does PR_SET_TSC: r11 says whether it is left.
global_asm!(
    r#"
    .data
    .balign 8
    .hidden cutrace_real_prctl
    .globl cutrace_real_prctl
cutrace_real_prctl:
    .quad 0
    .hidden cutrace_real_syscall
    .globl cutrace_real_syscall
cutrace_real_syscall:
    .quad 0

    .text
    .p2align 4
    .hidden cutrace_watch_prctl
    .globl cutrace_watch_prctl
cutrace_watch_prctl:
    xor r11d, r11d
    cmp edi, {set_tsc}
    je 2f
    cmp edi, {set_seccomp}
    jne 1f
    cmp esi, {mode_strict}
    setne r11b
    jmp 3f
2:  cmp esi, {tsc_faults}
    jne 1f
3:  call .Lcutrace_go_quiet
1:  jmp qword ptr [rip + cutrace_real_prctl]

    .p2align 4
    .hidden cutrace_watch_syscall
    .globl cutrace_watch_syscall
cutrace_watch_syscall:
    xor r11d, r11d
    cmp rdi, {seccomp}
    je 2f
    cmp rdi, {prctl}
    jne 1f
    cmp esi, {set_tsc}
    je 4f
    cmp esi, {set_seccomp}
    jne 1f
    cmp edx, {mode_strict}
    setne r11b
    jmp 3f
4:  cmp edx, {tsc_faults}
    jne 1f
    jmp 3f
2:  cmp esi, {set_mode_filter}
    ja 1f
    sete r11b
3:  call .Lcutrace_go_quiet
1:  jmp qword ptr [rip + cutrace_real_syscall]

.Lcutrace_go_quiet:
    push rax
    push rcx
    push rdx
    push rsi
    push rdi
    push r8
    push r9
    push r10
    push r11
    sub rsp, 8
    mov edi, r11d
    call {go_quiet}
    add rsp, 8
    pop r11
    pop r10
    pop r9
    pop r8
    pop rdi
    pop rsi
    pop rdx
    pop rcx
    pop rax
    ret
    "#,
    go_quiet = sym super::quiet::go_quiet,
    prctl = const libc::SYS_prctl,
    seccomp = const libc::SYS_seccomp,
    set_seccomp = const libc::PR_SET_SECCOMP,
    mode_strict = const libc::SECCOMP_MODE_STRICT,
    set_mode_filter = const libc::SECCOMP_SET_MODE_FILTER,
    set_tsc = const libc::PR_SET_TSC,
    tsc_faults = const libc::PR_TSC_SIGSEGV,
);

unsafe extern "C" {
    fn cutrace_watch_prctl();
    fn cutrace_watch_syscall();
    static cutrace_real_prctl: AtomicUsize;
    static cutrace_real_syscall: AtomicUsize;
}

struct WatchedFunction {
    name: &'static [u8],
    watch: usize,
    real: &'static AtomicUsize,
}

fn ways() -> [WatchedFunction; 2] {
    // SAFETY: words of our own, changed by atomic operations only.
    unsafe {
        [
            WatchedFunction {
                name: b"prctl",
                watch: cutrace_watch_prctl as *const () as usize,
                real: &cutrace_real_prctl,
            },
            WatchedFunction {
                name: b"syscall",
                watch: cutrace_watch_syscall as *const () as usize,
                real: &cutrace_real_syscall,
            },
        ]
    }
}

/// Whether this is the C library.
pub fn is_libc(object: &Object) -> bool {
    ways().iter().all(|way| object.defines(way.name))
}

/// Watches one C library; false if nothing could be done.
pub fn install(libc: &Object, loader: *const Loader) -> bool {
    let Some(file) = Mapped::object(libc) else {
        return false;
    };
    let parts = code::parts(libc, &file);
    let data = Data::of(libc, file.segments());
    let writer = text::can_make_code()
        .then(|| Writer::open(&parts))
        .flatten();
    let mut done = true;
    let mut turned = BTreeMap::new();
    for way in ways() {
        let Some((address, size, symbol)) = find(libc, way.name) else {
            done = false;
            continue;
        };
        let patched = writer.as_ref().and_then(|writer| {
            let (near, patch, real) = prepare(libc, &file, &parts, (address, size), way.watch)?;
            near.seal().then(|| {
                way.real.store(real, Ordering::Release);
                changes::add(&patch, true);
                writer.write(&patch);
            })
        });
        if patched.is_none() && changes::is_only_code() {
            done = false;
        } else if patched.is_none() {
            way.real.store(address, Ordering::Release);
            let redirect = Redirect {
                address,
                thunk: way.watch,
                how: How::Symbols([symbol].to_vec()),
            };
            done &= data.may_change(symbol) && data.turn(&redirect);
            turned.insert(address, way.watch);
        }
    }
    writer.into_iter().for_each(Writer::close);
    if !turned.is_empty() {
        // SAFETY: the loader's lock is held, and its list is complete.
        for other in unsafe { objects::objects(loader) } {
            if let Some(file) = Mapped::object(&other) {
                Data::of(&other, file.segments()).turn_pointers(&other, &turned);
            }
        }
    }
    done
}

/// Address, size and symbol of a function.
fn find(libc: &Object, name: &[u8]) -> Option<(usize, usize, usize)> {
    let symbols = libc.symbols();
    (0..symbols.count).find_map(|index| {
        let (symbol, found) = symbols.get(index)?;
        (found == name && symbol.is_defined_function()).then(|| {
            (
                libc.bias.wrapping_add(symbol.value as usize),
                symbol.size as usize,
                symbols.address_of(index),
            )
        })
    })
}

/// New code for a function: a jump to the watch, and the function's beginning for afterwards.
pub(super) fn prepare(
    libc: &Object,
    file: &Mapped,
    parts: &[code::Part],
    (address, size): (usize, usize),
    watch: usize,
) -> Option<(Near, Patch, usize)> {
    let code = code::original(libc, file, parts, (address, size)).ok()?;
    let (entry, arguments) = (address as u64, cuda::capture::REGISTER_WORDS);
    let detour = prologue::detour(&code, entry, arguments).ok()?;
    let mut near = Near::reserve(address, 64 + MOST_BYTES)?;
    let stub = near.push(&[detour.undo.code(), &text::far_jump(watch)].concat())?;
    let real = near.next();
    let moved = prologue::relocate(&code, entry, size, detour.end(), real as u64).ok()?;
    near.push(&moved)?;
    let at = address + detour.at;
    let jump = text::near_jump(at, stub)?;
    let before = code::jump_bytes(&code, detour.at)?;
    Some((near, Patch { at, before, jump }, real))
}
