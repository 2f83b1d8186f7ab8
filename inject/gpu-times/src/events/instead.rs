//! What the injected library calls in place of the driver's functions that give work or end contexts.
//! Without GPU times by events each is a jump to the function itself.

use super::{
    driver::SUCCESS,
    hot::{self, Gives, Work},
    read,
};
use event::gpu_times::Timed;
use std::{ffi::c_void, sync::atomic::Ordering};

/// How the injected library knows this one.
#[unsafe(no_mangle)]
pub static cutrace_stand_ins: u32 = 1;

macro_rules! stand_ins {
    ($($name:ident ($($arg:ident: $kind:ty),*) |$original:ident| $body:expr;)*) => {$(
        #[allow(non_snake_case)]
        mod $name {
            #[allow(unused_imports)]
            use super::*;
            use std::sync::atomic::AtomicUsize;

            #[unsafe(export_name = concat!("cutrace_original_", stringify!($name)))]
            pub static ORIGINAL: AtomicUsize = AtomicUsize::new(0);

            // Called while the loader still relocates this library, if a thread of the program is quick: nothing here
            // may need that, and the word is 0 until `events::start`.
            #[unsafe(export_name = concat!("cutrace_instead_", stringify!($name)))]
            #[unsafe(naked)]
            unsafe extern "C" fn gate() {
                std::arch::naked_asm!(
                    "cmp byte ptr [rip + {active}], 0",
                    "jne {instead}",
                    "jmp qword ptr [rip + {original}]",
                    active = sym hot::ACTIVE,
                    instead = sym instead,
                    original = sym ORIGINAL,
                )
            }

            #[allow(clippy::too_many_arguments)]
            unsafe extern "C" fn instead($($arg: $kind),*) -> i32 {
                // SAFETY: set before this function was put there; the program's own call.
                let $original = || unsafe {
                    let at = ORIGINAL.load(Ordering::Relaxed);
                    let function: unsafe extern "C" fn($($kind),*) -> i32 = std::mem::transmute(at);
                    function($($arg),*)
                };
                $body
            }
        }
    )*};
}

/// Functions that give work: `name / name for the thread's default stream (arguments) => stream, work`.
macro_rules! work {
    ($($name:ident / $other:ident ($($arg:ident: $kind:ty),*) => $stream:expr, $work:expr;)*) => {
        stand_ins! {$(
            $name($($arg: $kind),*) |original| {
                hot::around(|| Gives { stream: $stream, per_thread: false, work: $work }, original)
            };
            $other($($arg: $kind),*) |original| {
                hot::around(|| Gives { stream: $stream, per_thread: true, work: $work }, original)
            };
        )*}
        /// How many functions that give work are turned to those here.
        pub fn count() -> usize {
            let originals = [$(&$name::ORIGINAL, &$other::ORIGINAL),*];
            originals.iter().filter(|original| original.load(Ordering::Acquire) != 0).count()
        }
    };
}

fn kernel(grid: [u32; 3], block: [u32; 3], shared: u32) -> Work {
    Work {
        kind: Timed::KERNEL,
        grid: grid.map(u64::from),
        block: block.map(u64::from),
        shared: shared.into(),
        ..Work::default()
    }
}

/// CUlaunchConfig: grid, block, shared memory, and behind a gap the stream.
fn configured(config: *const c_void) -> (usize, Work) {
    if config.is_null() {
        return (0, kernel([0; 3], [0; 3], 0));
    }
    let words = config.cast::<u32>();
    // SAFETY: what the driver would read.
    unsafe {
        let grid = words.cast::<[u32; 3]>().read();
        let block = words.add(3).cast::<[u32; 3]>().read();
        let stream = words.add(8).cast::<usize>().read();
        (stream, kernel(grid, block, words.add(6).read()))
    }
}

/// `bytes` 0: not told here; the call's record says it.
fn copy(bytes: usize) -> Work {
    Work {
        kind: Timed::COPY,
        bytes: bytes as u64,
        ..Work::default()
    }
}

/// A copy to the host that has ended when its call returns.
fn copy_and_wait(bytes: usize) -> Work {
    Work {
        ends_inside: true,
        ..copy(bytes)
    }
}

fn fill(value: u32, each: usize, count: usize) -> Work {
    Work {
        kind: Timed::FILL,
        bytes: each.saturating_mul(count) as u64,
        value: value.into(),
        ..Work::default()
    }
}

fn graph() -> Work {
    Work {
        kind: Timed::GRAPH,
        ..Work::default()
    }
}

work! {
    cuLaunchKernel / cuLaunchKernel_ptsz (function: usize, gx: u32, gy: u32, gz: u32, bx: u32, by: u32, bz: u32, shared: u32, stream: usize, parameters: usize, extra: usize) => stream, kernel([gx, gy, gz], [bx, by, bz], shared);
    cuLaunchCooperativeKernel / cuLaunchCooperativeKernel_ptsz (function: usize, gx: u32, gy: u32, gz: u32, bx: u32, by: u32, bz: u32, shared: u32, stream: usize, parameters: usize) => stream, kernel([gx, gy, gz], [bx, by, bz], shared);
    cuLaunchKernelEx / cuLaunchKernelEx_ptsz (config: *const c_void, function: usize, parameters: usize, extra: usize) => configured(config).0, configured(config).1;
    cuGraphLaunch / cuGraphLaunch_ptsz (graph_exec: usize, stream: usize) => stream, graph();
    cuMemcpy / cuMemcpy_ptds (to: u64, from: u64, bytes: usize) => 0, copy(bytes);
    cuMemcpyAsync / cuMemcpyAsync_ptsz (to: u64, from: u64, bytes: usize, stream: usize) => stream, copy(bytes);
    cuMemcpyHtoD_v2 / cuMemcpyHtoD_v2_ptds (to: u64, from: usize, bytes: usize) => 0, copy(bytes);
    cuMemcpyHtoDAsync_v2 / cuMemcpyHtoDAsync_v2_ptsz (to: u64, from: usize, bytes: usize, stream: usize) => stream, copy(bytes);
    cuMemcpyDtoH_v2 / cuMemcpyDtoH_v2_ptds (to: usize, from: u64, bytes: usize) => 0, copy_and_wait(bytes);
    cuMemcpyDtoHAsync_v2 / cuMemcpyDtoHAsync_v2_ptsz (to: usize, from: u64, bytes: usize, stream: usize) => stream, copy(bytes);
    cuMemcpyDtoD_v2 / cuMemcpyDtoD_v2_ptds (to: u64, from: u64, bytes: usize) => 0, copy(bytes);
    cuMemcpyDtoDAsync_v2 / cuMemcpyDtoDAsync_v2_ptsz (to: u64, from: u64, bytes: usize, stream: usize) => stream, copy(bytes);
    cuMemcpyPeer / cuMemcpyPeer_ptds (to: u64, to_context: usize, from: u64, from_context: usize, bytes: usize) => 0, copy(bytes);
    cuMemcpyPeerAsync / cuMemcpyPeerAsync_ptsz (to: u64, to_context: usize, from: u64, from_context: usize, bytes: usize, stream: usize) => stream, copy(bytes);
    cuMemcpy2D_v2 / cuMemcpy2D_v2_ptds (what: usize) => 0, copy(0);
    cuMemcpy2DUnaligned_v2 / cuMemcpy2DUnaligned_v2_ptds (what: usize) => 0, copy(0);
    cuMemcpy2DAsync_v2 / cuMemcpy2DAsync_v2_ptsz (what: usize, stream: usize) => stream, copy(0);
    cuMemcpy3D_v2 / cuMemcpy3D_v2_ptds (what: usize) => 0, copy(0);
    cuMemcpy3DAsync_v2 / cuMemcpy3DAsync_v2_ptsz (what: usize, stream: usize) => stream, copy(0);
    cuMemcpy3DPeer / cuMemcpy3DPeer_ptds (what: usize) => 0, copy(0);
    cuMemcpy3DPeerAsync / cuMemcpy3DPeerAsync_ptsz (what: usize, stream: usize) => stream, copy(0);
    cuMemsetD8_v2 / cuMemsetD8_v2_ptds (to: u64, value: u8, count: usize) => 0, fill(value.into(), 1, count);
    cuMemsetD16_v2 / cuMemsetD16_v2_ptds (to: u64, value: u16, count: usize) => 0, fill(value.into(), 2, count);
    cuMemsetD32_v2 / cuMemsetD32_v2_ptds (to: u64, value: u32, count: usize) => 0, fill(value, 4, count);
    cuMemsetD8Async / cuMemsetD8Async_ptsz (to: u64, value: u8, count: usize, stream: usize) => stream, fill(value.into(), 1, count);
    cuMemsetD16Async / cuMemsetD16Async_ptsz (to: u64, value: u16, count: usize, stream: usize) => stream, fill(value.into(), 2, count);
    cuMemsetD32Async / cuMemsetD32Async_ptsz (to: u64, value: u32, count: usize, stream: usize) => stream, fill(value, 4, count);
    cuMemsetD2D8_v2 / cuMemsetD2D8_v2_ptds (to: u64, pitch: usize, value: u8, width: usize, height: usize) => 0, fill(value.into(), width, height);
    cuMemsetD2D16_v2 / cuMemsetD2D16_v2_ptds (to: u64, pitch: usize, value: u16, width: usize, height: usize) => 0, fill(value.into(), width.saturating_mul(2), height);
    cuMemsetD2D32_v2 / cuMemsetD2D32_v2_ptds (to: u64, pitch: usize, value: u32, width: usize, height: usize) => 0, fill(value, width.saturating_mul(4), height);
    cuMemsetD2D8Async / cuMemsetD2D8Async_ptsz (to: u64, pitch: usize, value: u8, width: usize, height: usize, stream: usize) => stream, fill(value.into(), width, height);
    cuMemsetD2D16Async / cuMemsetD2D16Async_ptsz (to: u64, pitch: usize, value: u16, width: usize, height: usize, stream: usize) => stream, fill(value.into(), width.saturating_mul(2), height);
    cuMemsetD2D32Async / cuMemsetD2D32Async_ptsz (to: u64, pitch: usize, value: u32, width: usize, height: usize, stream: usize) => stream, fill(value, width.saturating_mul(4), height);
}

stand_ins! {
    cuCtxDestroy(context: usize) |original| read::ending(|known| known.handle == context, original, |result| result == SUCCESS);
    cuCtxDestroy_v2(context: usize) |original| read::ending(|known| known.handle == context, original, |result| result == SUCCESS);
    cuDevicePrimaryCtxReset(device: i32) |original| read::ending(|known| known.is_primary_of(device), original, |result| result == SUCCESS);
    cuDevicePrimaryCtxReset_v2(device: i32) |original| read::ending(|known| known.is_primary_of(device), original, |result| result == SUCCESS);
    cuDevicePrimaryCtxRelease(device: i32) |original| read::ending(|known| known.is_primary_of(device), original, |_| read::is_inactive(device));
    cuDevicePrimaryCtxRelease_v2(device: i32) |original| read::ending(|known| known.is_primary_of(device), original, |_| read::is_inactive(device));
}

/// Whether work is seen, and the ends of all contexts.
pub fn is_called() -> bool {
    let ends = [
        &cuCtxDestroy_v2::ORIGINAL,
        &cuDevicePrimaryCtxReset_v2::ORIGINAL,
        &cuDevicePrimaryCtxRelease_v2::ORIGINAL,
    ];
    count() > 0 && ends.iter().all(|one| one.load(Ordering::Acquire) != 0)
}

/// Gives back what was retained of a primary context.
///
/// # Safety
/// It was retained.
pub unsafe fn release_primary(device: i32) {
    let at = cuDevicePrimaryCtxRelease_v2::ORIGINAL.load(Ordering::Acquire);
    // SAFETY: the driver's function.
    unsafe { std::mem::transmute::<usize, unsafe extern "C" fn(i32) -> i32>(at)(device) };
}
