//! What nvcc's generated code calls: fatbinaries, kernels and variables from constructors, and
//! the launch configuration between `<<<…>>>` and the kernel's host stub.

use std::cell::RefCell;
use std::ffi::{c_char, c_int, c_uint, c_void};

use crate::call::{given, guard, plain};
use crate::context::Runtime;
use crate::driver::Streams;
use crate::error::{Error, finish};
use crate::registry::{self, Binary};
use crate::types::{Dim3, Handle};

#[derive(Clone, Copy)]
struct CallConfiguration {
    grid: Dim3,
    block: Dim3,
    shared_bytes: usize,
    stream: Handle,
}

thread_local! {
    static CONFIGURATIONS: RefCell<Vec<CallConfiguration>> = const { RefCell::new(Vec::new()) };
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn __cudaRegisterFatBinary(wrapper: *mut c_void) -> *mut *mut c_void {
    std::ptr::from_ref(Binary::register(wrapper))
        .cast_mut()
        .cast()
}

/// Marks the end of one fatbinary's registrations, after which its library could be loaded.
/// It is loaded by the first call that needs it instead: constructors should stay cheap.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __cudaRegisterFatBinaryEnd(_handle: *mut *mut c_void) {}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn __cudaUnregisterFatBinary(handle: *mut *mut c_void) {
    guard(|| {
        if let Some(binary) = registry::binary(handle) {
            binary.unregister();
        }
        Ok(())
    });
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn __cudaRegisterFunction(
    handle: *mut *mut c_void,
    host: *const c_char,
    _device: *mut c_char,
    name: *const c_char,
    _thread_limit: c_int,
    _tid: *mut c_void,
    _bid: *mut c_void,
    _block: *mut Dim3,
    _grid: *mut Dim3,
    _warp_size: *mut c_int,
) {
    if let Some(binary) = registry::binary(handle) {
        binary.add_kernel(host.cast(), name);
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn __cudaRegisterVar(
    handle: *mut *mut c_void,
    host: *mut c_char,
    _device: *mut c_char,
    name: *const c_char,
    _external: c_int,
    _size: usize,
    _constant: c_int,
    _global: c_int,
) {
    if let Some(binary) = registry::binary(handle) {
        binary.add_variable(host.cast(), name);
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn __cudaRegisterManagedVar(
    handle: *mut *mut c_void,
    place: *mut *mut c_void,
    _device: *mut c_char,
    name: *const c_char,
    _external: c_int,
    _size: usize,
    _constant: c_int,
    _global: c_int,
) {
    if let Some(binary) = registry::binary(handle) {
        binary.add_managed(place, name);
    }
}

/// Called before the first use of a managed variable: its pointer must be right on return.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __cudaInitModule(handle: *mut *mut c_void) -> c_char {
    let code = guard(|| {
        let binary = registry::binary(handle).ok_or(Error::INVALID_VALUE)?;
        binary.initialise(Runtime::get()?)
    });
    c_char::from(code == 0)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn __cudaPushCallConfiguration(
    grid: Dim3,
    block: Dim3,
    shared_bytes: usize,
    stream: Handle,
) -> c_uint {
    let configuration = CallConfiguration {
        grid,
        block,
        shared_bytes,
        stream,
    };
    let pushed = CONFIGURATIONS.try_with(|stack| stack.borrow_mut().push(configuration));
    c_uint::from(pushed.is_err())
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn __cudaPopCallConfiguration(
    grid: *mut Dim3,
    block: *mut Dim3,
    shared_bytes: *mut usize,
    stream: *mut c_void,
) -> c_int {
    let popped = CONFIGURATIONS
        .try_with(|stack| stack.borrow_mut().pop())
        .ok()
        .flatten();
    let Some(configuration) = popped else {
        return finish(Err(Error::MISSING_CONFIGURATION));
    };
    unsafe {
        grid.write(configuration.grid);
        block.write(configuration.block);
        shared_bytes.write(configuration.shared_bytes);
        stream.cast::<Handle>().write(configuration.stream);
    }
    0
}

/// The driver's kernel of a host function; the generated stub keeps it in a static.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __cudaGetKernel(kernel: *mut Handle, host: *const c_void) -> c_int {
    plain(Streams::Legacy, |cu| {
        given(kernel)?;
        let found = registry::registered_kernel(cu, host).ok_or(Error::INVALID_FUNCTION)?;
        unsafe { kernel.write(found?) };
        Ok(())
    })
}
