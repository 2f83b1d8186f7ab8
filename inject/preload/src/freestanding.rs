//! What a program without the standard library must bring: memory functions, a heap, a panic.
//! The linker keeps all of it private to the library.

use core::arch::{asm, global_asm};

#[cfg(cutrace_engine)]
mod heap;

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    #[cfg(cutrace_engine)]
    crate::engine::guard::escape();
    // Not reached: stage one has nothing that panics.
    loop {
        crate::sys::sleep_ns(1_000_000_000);
    }
}

// Nothing unwinds here, but code that was compiled for others refers to these.
#[unsafe(no_mangle)]
extern "C" fn rust_eh_personality() {}

#[unsafe(no_mangle)]
extern "C" fn _Unwind_Resume() {}

#[unsafe(no_mangle)]
unsafe extern "C" fn memcpy(to: *mut u8, from: *const u8, bytes: usize) -> *mut u8 {
    unsafe {
        asm!("rep movsb", inout("rcx") bytes => _, inout("rdi") to => _, inout("rsi") from => _,
            options(nostack, preserves_flags));
    }
    to
}

#[unsafe(no_mangle)]
unsafe extern "C" fn memset(to: *mut u8, value: i32, bytes: usize) -> *mut u8 {
    unsafe {
        asm!("rep stosb", inout("rcx") bytes => _, inout("rdi") to => _, in("al") value as u8,
            options(nostack, preserves_flags));
    }
    to
}

#[unsafe(no_mangle)]
unsafe extern "C" fn memmove(to: *mut u8, from: *const u8, bytes: usize) -> *mut u8 {
    if (to as usize).wrapping_sub(from as usize) >= bytes {
        return unsafe { memcpy(to, from, bytes) };
    }
    unsafe {
        asm!("std", "rep movsb", "cld",
            inout("rcx") bytes => _,
            inout("rdi") to.wrapping_add(bytes).wrapping_sub(1) => _,
            inout("rsi") from.wrapping_add(bytes).wrapping_sub(1) => _,
            options(nostack));
    }
    to
}

// In assembly: a loop in Rust would be recognised as memcmp and call itself.
global_asm!(
    r#"
    .text
    .globl memcmp
    .type memcmp, @function
    .globl bcmp
    .type bcmp, @function
memcmp:
bcmp:
    xor eax, eax
1:  test rdx, rdx
    jz 2f
    movzx eax, byte ptr [rdi]
    movzx ecx, byte ptr [rsi]
    inc rdi
    inc rsi
    dec rdx
    sub eax, ecx
    jz 1b
2:  ret
    .globl strlen
    .type strlen, @function
strlen:
    xor eax, eax
3:  cmp byte ptr [rdi + rax], 0
    je 4f
    inc rax
    jmp 3b
4:  ret
    "#
);
