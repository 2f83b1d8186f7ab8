//! What probes do to a kernel: registers, local memory, how many threads a block may have, and how many
//! blocks fit on a multiprocessor.

use crate::driver::{self, SUCCESS};
use crate::load::Unit;
use std::ffi::CString;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Needs {
    pub registers: i32,
    pub local: i32,
    pub most_threads: i32,
    /// Blocks of [`OCCUPANCY_THREADS`] that a multiprocessor holds at once, if their memory lets it.
    pub blocks: Option<i32>,
}

/// A block's threads, where the kernel's own are not known yet.
pub const OCCUPANCY_THREADS: i32 = 256;

/// CU_FUNC_ATTRIBUTE_*
const MAX_THREADS_PER_BLOCK: u32 = 0;
const LOCAL_SIZE_BYTES: u32 = 3;
const NUM_REGS: u32 = 4;

/// Of a kernel of a module or library, in the current context.
pub fn needs(unit: Unit, handle: usize, kernel: &str, device: i32) -> Option<Needs> {
    let name = CString::new(kernel).ok()?;
    let mut function = 0;
    // SAFETY: the driver checks handles and names.
    let attribute = |number: u32, function: usize| unsafe {
        let mut value = 0;
        let result = match unit {
            Unit::Module => driver::cuFuncGetAttribute(&mut value, number, function),
            Unit::Library => driver::cuKernelGetAttribute(&mut value, number, function, device),
        };
        (result == SUCCESS).then_some(value)
    };
    // SAFETY: as above.
    let found = unsafe {
        match unit {
            Unit::Module => driver::cuModuleGetFunction(&mut function, handle, name.as_ptr()),
            Unit::Library => driver::cuLibraryGetKernel(&mut function, handle, name.as_ptr()),
        }
    };
    (found == SUCCESS).then_some(())?;
    let most_threads = attribute(MAX_THREADS_PER_BLOCK, function)?;
    Some(Needs {
        registers: attribute(NUM_REGS, function)?,
        local: attribute(LOCAL_SIZE_BYTES, function)?,
        most_threads,
        blocks: occupancy(unit, function),
    })
}

fn occupancy(unit: Unit, handle: usize) -> Option<i32> {
    let (mut function, mut blocks) = (handle, 0);
    // SAFETY: the driver checks what it is given, and writes one word each.
    unsafe {
        if unit == Unit::Library && driver::cuKernelGetFunction(&mut function, handle) != SUCCESS {
            return None;
        }
        let result = driver::cuOccupancyMaxActiveBlocksPerMultiprocessor(
            &mut blocks,
            function,
            OCCUPANCY_THREADS,
            0,
        );
        (result == SUCCESS).then_some(blocks)
    }
}
