//! Libraries and their kernels: code that is loaded into contexts when they use it.

use std::{
    ffi::{c_char, c_void},
    sync::Arc,
};

use super::module::read_file;
use crate::{
    abi::Text,
    device::Device,
    entry::{api, put, put_optional, take_text},
    image::{self, JitLog, LoadError, Texts},
    launch::constant_bytes,
    library::{Kernel, Library},
    module,
    result::{Answer, INVALID_HANDLE, INVALID_VALUE, NOT_FOUND},
    state::driver,
    thread,
};

fn find(handle: u64) -> Answer<Arc<Library>> {
    driver().libraries.get(handle).ok_or(INVALID_HANDLE)
}

fn find_kernel(handle: u64) -> Answer<Arc<Kernel>> {
    driver().kernels.get(handle).ok_or(INVALID_HANDLE)
}

unsafe fn load(texts: Result<Texts, LoadError>, log: &JitLog, place: *mut u64) -> Answer {
    let (program, target) = unsafe { module::build_logged(texts, log)? };
    unsafe { put(place, Library::load(program, target).handle) }
}

api! {
    fn cuLibraryLoadData(
        library: *mut u64,
        code: *const c_void,
        jit_options: *const u32,
        jit_values: *mut *mut c_void,
        jit_count: u32,
        _options: *const u32,
        _values: *mut *mut c_void,
        _count: u32,
    ) {
        if library.is_null() {
            return Err(INVALID_VALUE);
        }
        let log = JitLog::from_options(jit_count, jit_options, jit_values)?;
        load(image::from_pointer(code).map_err(LoadError::from), &log, library)
    }

    fn cuLibraryLoadFromFile(
        library: *mut u64,
        name: *const c_char,
        jit_options: *const u32,
        jit_values: *mut *mut c_void,
        jit_count: u32,
        _options: *const u32,
        _values: *mut *mut c_void,
        _count: u32,
    ) {
        if library.is_null() {
            return Err(INVALID_VALUE);
        }
        let name = take_text(name)?;
        let log = JitLog::from_options(jit_count, jit_options, jit_values)?;
        load(read_file(name), &log, library)
    }

    fn cuLibraryUnload(library: u64) {
        find(library)?.unload()
    }

    fn cuLibraryGetKernel(kernel: *mut u64, library: u64, name: *const c_char) {
        if kernel.is_null() {
            return Err(INVALID_VALUE);
        }
        let name = take_text(name)?.to_str().map_err(|_| NOT_FOUND)?;
        let library = find(library)?;
        let number = library.program.kernel(name).ok_or(NOT_FOUND)?;
        put(kernel, library.kernels[number])
    }

    fn cuLibraryGetKernelCount(count: *mut u32, library: u64) {
        put(count, find(library)?.kernels.len() as u32)
    }

    fn cuLibraryEnumerateKernels(kernels: *mut u64, count: u32, library: u64) {
        let library = find(library)?;
        if kernels.is_null() && count != 0 {
            return Err(INVALID_VALUE);
        }
        for (i, kernel) in library.kernels.iter().take(count as usize).enumerate() {
            put(kernels.add(i), *kernel)?;
        }
        Ok(())
    }

    fn cuLibraryGetModule(module: *mut u64, library: u64) {
        if module.is_null() {
            return Err(INVALID_VALUE);
        }
        let library = find(library)?;
        put(module, library.module_in(&thread::usable()?)?.handle)
    }

    fn cuLibraryGetGlobal(
        address: *mut u64,
        bytes: *mut usize,
        library: u64,
        name: *const c_char,
    ) {
        let name = take_text(name)?.to_str().map_err(|_| NOT_FOUND)?;
        let library = find(library)?;
        let (at, size) = library.module_in(&thread::usable()?)?.variable(name)?;
        put_optional(address, at);
        put_optional(bytes, size as usize);
        Ok(())
    }

    fn cuLibraryGetManaged(
        address: *mut u64,
        bytes: *mut usize,
        library: u64,
        name: *const c_char,
    ) {
        let name = take_text(name)?.to_str().map_err(|_| NOT_FOUND)?;
        let library = find(library)?;
        let is_managed = library.program.globals().iter().any(|g| g.managed && g.name == name);
        if !is_managed {
            return Err(NOT_FOUND);
        }
        let (at, size) = library.module_in(&thread::usable()?)?.variable(name)?;
        put_optional(address, at);
        put_optional(bytes, size as usize);
        Ok(())
    }

    /// Functions callable from host and device alike do not exist here.
    fn cuLibraryGetUnifiedFunction(_function: *mut *mut c_void, library: u64, name: *const c_char) {
        take_text(name)?;
        find(library)?;
        Err(NOT_FOUND)
    }

    fn cuKernelGetFunction(function: *mut u64, kernel: u64) {
        if function.is_null() {
            return Err(INVALID_VALUE);
        }
        let kernel = find_kernel(kernel)?;
        put(function, kernel.function_in(&thread::usable()?)?.handle)
    }

    fn cuKernelGetLibrary(library: *mut u64, kernel: u64) {
        put(library, find_kernel(kernel)?.library()?.handle)
    }

    fn cuKernelGetName(name: *mut Text, kernel: u64) {
        // The text lives as long as the library.
        put(name, find_kernel(kernel)?.name.as_ptr())
    }

    fn cuKernelGetParamInfo(kernel: u64, number: usize, offset: *mut usize, size: *mut usize) {
        let kernel = find_kernel(kernel)?;
        let library = kernel.library()?;
        let code = &library.program.kernels()[kernel.number];
        let param = code.params.get(number).ok_or(INVALID_VALUE)?;
        put(offset, param.offset)?;
        put_optional(size, param.size);
        Ok(())
    }

    fn cuKernelGetAttribute(value: *mut i32, attribute: u32, kernel: u64, device: i32) {
        Device::check(device)?;
        let kernel = find_kernel(kernel)?;
        let library = kernel.library()?;
        let code = &library.program.kernels()[kernel.number];
        let constants = constant_bytes(&library.program);
        let settings = *kernel.settings();
        put(value, settings.attribute(code, library.target, constants, attribute)?)
    }

    fn cuKernelSetAttribute(attribute: u32, value: i32, kernel: u64, device: i32) {
        Device::check(device)?;
        let kernel = find_kernel(kernel)?;
        let library = kernel.library()?;
        let code = &library.program.kernels()[kernel.number];
        kernel.settings().set(code, attribute, value)
    }

    fn cuKernelSetCacheConfig(kernel: u64, config: u32, device: i32) {
        Device::check(device)?;
        find_kernel(kernel)?;
        if config > 3 { Err(INVALID_VALUE) } else { Ok(()) }
    }
}
