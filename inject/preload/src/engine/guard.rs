//! A way out: whatever goes wrong in the engine must not take the program down. A panic gives up
//! the engine's work and returns to the loader.

use core::arch::global_asm;
use core::sync::atomic::{AtomicUsize, Ordering};

// cutrace_guard(call, data, saved): calls call(data); 1 if it returned, 0 if it escaped.
global_asm!(
    r#"
    .text
    .hidden cutrace_guard
    .globl cutrace_guard
    .type cutrace_guard, @function
cutrace_guard:
    push rbp
    push rbx
    push r12
    push r13
    push r14
    push r15
    push rdx
    mov [rdx], rsp
    mov rax, rdi
    mov rdi, rsi
    call rax
    mov eax, 1
.Lcutrace_guard_out:
    pop rdx
    mov qword ptr [rdx], 0
    pop r15
    pop r14
    pop r13
    pop r12
    pop rbx
    pop rbp
    ret
    .hidden cutrace_escape
    .globl cutrace_escape
    .type cutrace_escape, @function
cutrace_escape:
    mov rsp, rdi
    xor eax, eax
    jmp .Lcutrace_guard_out
    "#
);

unsafe extern "C" {
    fn cutrace_guard(call: extern "C" fn(*mut u8), data: *mut u8, saved: *const AtomicUsize)
    -> i32;
    fn cutrace_escape(saved: usize) -> !;
}

/// The stack pointer to go back to; 0: none.
static SAVED: AtomicUsize = AtomicUsize::new(0);

/// Runs the work; false if it gave up.
pub fn guarded(work: &mut dyn FnMut()) -> bool {
    extern "C" fn call(data: *mut u8) {
        // SAFETY: the pointer below.
        let work = unsafe { &mut *data.cast::<&mut dyn FnMut()>() };
        work();
    }
    let mut work = work;
    // SAFETY: one thread at a time; what escapes leaves only leaks behind.
    unsafe { cutrace_guard(call, (&raw mut work).cast(), &raw const SAVED) == 1 }
}

/// Gives up the guarded work, if there is any.
pub fn escape() {
    let saved = SAVED.load(Ordering::Relaxed);
    if saved != 0 {
        // SAFETY: the frame is still there: the guarded work is below it.
        unsafe { cutrace_escape(saved) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_that_gives_up_comes_back() {
        let mut reached = 0;
        assert!(guarded(&mut || reached += 1));
        assert!(!guarded(&mut || {
            reached += 1;
            escape();
            reached += 100;
        }));
        assert!(guarded(&mut || reached += 1));
        assert_eq!(reached, 3);
        // Nothing to give up: nothing happens.
        escape();
    }
}
