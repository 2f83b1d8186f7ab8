//! Libraries and kernels loaded by the program itself. JIT and library options have the
//! driver's numbers.

use std::ffi::{c_char, c_int, c_uint, c_void};

use crate::call::given;
use crate::types::Handle;

cuda! {
    plain fn cudaLibraryLoadData(
        library: *mut Handle, code: *const c_void, jit_options: *mut c_int,
        jit_values: *mut *mut c_void, jit_count: c_uint, options: *mut c_int,
        values: *mut *mut c_void, count: c_uint,
    ) |cu| {
        given(library)?;
        given(code)?;
        cu.cuLibraryLoadData(
            library, code, jit_options, jit_values, jit_count, options, values, count,
        )
    };

    plain fn cudaLibraryLoadFromFile(
        library: *mut Handle, path: *const c_char, jit_options: *mut c_int,
        jit_values: *mut *mut c_void, jit_count: c_uint, options: *mut c_int,
        values: *mut *mut c_void, count: c_uint,
    ) |cu| {
        given(library)?;
        given(path)?;
        cu.cuLibraryLoadFromFile(
            library, path, jit_options, jit_values, jit_count, options, values, count,
        )
    };

    plain fn cudaLibraryUnload(library: Handle) |cu| cu.cuLibraryUnload(library);

    plain fn cudaLibraryGetKernel(
        kernel: *mut Handle, library: Handle, name: *const c_char,
    ) |cu| {
        given(kernel)?;
        given(name)?;
        cu.cuLibraryGetKernel(kernel, library, name)
    };

    context fn cudaLibraryGetGlobal(
        pointer: *mut *mut c_void, bytes: *mut usize, library: Handle, name: *const c_char,
    ) |cu| {
        given(name)?;
        cu.cuLibraryGetGlobal(pointer.cast(), bytes, library, name)
    };

    context fn cudaLibraryGetManaged(
        pointer: *mut *mut c_void, bytes: *mut usize, library: Handle, name: *const c_char,
    ) |cu| {
        given(name)?;
        cu.cuLibraryGetManaged(pointer.cast(), bytes, library, name)
    };

    plain fn cudaLibraryGetUnifiedFunction(
        function: *mut *mut c_void, library: Handle, name: *const c_char,
    ) |cu| cu.cuLibraryGetUnifiedFunction(function, library, name);

    plain fn cudaLibraryGetKernelCount(count: *mut c_uint, library: Handle) |cu| {
        given(count)?;
        cu.cuLibraryGetKernelCount(count, library)
    };

    plain fn cudaLibraryEnumerateKernels(
        kernels: *mut Handle, count: c_uint, library: Handle,
    ) |cu| {
        given(kernels)?;
        cu.cuLibraryEnumerateKernels(kernels, count, library)
    };

    plain fn cudaKernelSetAttributeForDevice(
        kernel: Handle, attribute: c_int, value: c_int, device: c_int,
    ) |cu| cu.cuKernelSetAttribute(attribute, value, kernel, device);
}
