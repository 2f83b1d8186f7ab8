//! What probes do to a kernel: registers, local memory, and how many threads a block may have.

use crate::driver::{self, SUCCESS};
use crate::load::Unit;
use std::ffi::CString;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Needs {
    pub registers: i32,
    pub local: i32,
    pub most_threads: i32,
}

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
    Some(Needs {
        registers: attribute(NUM_REGS, function)?,
        local: attribute(LOCAL_SIZE_BYTES, function)?,
        most_threads: attribute(MAX_THREADS_PER_BLOCK, function)?,
    })
}
