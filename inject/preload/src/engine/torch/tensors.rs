//! GPU memory of tensors. PyTorch's allocators keep what they have of CUDA, so calls of CUDA's say little of it; but they tell
//! the profiler of every allocation and every free, whether there is one or not, by two exported functions of libc10.so.
//! These lead here first.

use super::callbacks::{is_refused, record, record_placed};
use super::turn;
use crate::objects::Object;
use core::arch::global_asm;
use core::sync::atomic::AtomicUsize;
use cuda::operators::{NameRoom, OperatorStep, memory, number};

/// `c10::reportMemoryUsageToProfiler(void*, int64_t, size_t, size_t, c10::Device)`, as in 2.11 and 2.15; others were not looked at.
const USAGE: &[u8] = b"_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE";
/// `c10::reportOutOfMemoryToProfiler(int64_t, size_t, size_t, c10::Device)`
const OUT_OF_MEMORY: &[u8] = b"_ZN3c1027reportOutOfMemoryToProfilerElmmNS_6DeviceE";
/// From this size on an allocation says where it comes from.
const LARGE: i64 = 1 << 20;

// A `c10::Device` is two bytes, the kind and the number; kind 1 is CUDA. PyTorch reports memory of the host only while
// PyTorch's own profiler asks.
global_asm!(
    r#"
    .data
    .balign 8
    .hidden cutrace_real_usage
    .globl cutrace_real_usage
cutrace_real_usage:
    .quad 0
    .hidden cutrace_real_exhausted
    .globl cutrace_real_exhausted
cutrace_real_exhausted:
    .quad 0

    .text
    .p2align 4
    .hidden cutrace_tensor_usage
    .globl cutrace_tensor_usage
cutrace_tensor_usage:
    cmp r8b, 1
    jne 1f
    push rdi
    push rsi
    push rdx
    push rcx
    push r8
    call {used}
    pop r8
    pop rcx
    pop rdx
    pop rsi
    pop rdi
1:  jmp qword ptr [rip + cutrace_real_usage]

    .p2align 4
    .hidden cutrace_tensor_exhausted
    .globl cutrace_tensor_exhausted
cutrace_tensor_exhausted:
    cmp cl, 1
    jne 1f
    push rdi
    push rsi
    push rdx
    push rcx
    push r8
    call {exhausted}
    pop r8
    pop rcx
    pop rdx
    pop rsi
    pop rdi
1:  jmp qword ptr [rip + cutrace_real_exhausted]
    "#,
    used = sym used,
    exhausted = sym exhausted,
);

unsafe extern "C" {
    fn cutrace_tensor_usage();
    fn cutrace_tensor_exhausted();
    static cutrace_real_usage: AtomicUsize;
    static cutrace_real_exhausted: AtomicUsize;
}

/// Whether an object is the library that has these functions.
pub fn is_library(object: &Object) -> bool {
    object.defines(USAGE) && object.defines(OUT_OF_MEMORY)
}

pub fn install(object: &Object) -> bool {
    // SAFETY: words of ours.
    let (usage, exhausted) = unsafe { (&cutrace_real_usage, &cutrace_real_exhausted) };
    let turned = [
        (USAGE, cutrace_tensor_usage as *const () as usize, usage),
        (
            OUT_OF_MEMORY,
            cutrace_tensor_exhausted as *const () as usize,
            exhausted,
        ),
    ];
    turn::turn(object, &turned)
}

extern "C" fn used(address: u64, size: i64, allocated: u64, reserved: u64, device: u64) {
    if address != 0 {
        tell(address, size, allocated, reserved, device);
    }
}

extern "C" fn exhausted(size: i64, allocated: u64, reserved: u64, device: u64) {
    tell(0, size, allocated, reserved, device);
}

fn tell(address: u64, size: i64, allocated: u64, reserved: u64, device: u64) {
    if is_refused() {
        return;
    }
    let shift = memory::DEVICE_SHIFT;
    let reserved = reserved & ((1 << shift) - 1) | (device >> 8 & 0xff) << shift;
    let words = [address, size as u64, allocated, reserved, 0, 0];
    let placed = size >= LARGE || address == 0;
    let number = number(OperatorStep::Memory, NameRoom::Short, placed);
    match placed {
        true => record_placed(number, words),
        false => record(number, words),
    }
}
