//! Modules: loading images, finding functions and variables.

use std::{
    ffi::{c_char, c_void},
    sync::Arc,
};

use crate::{
    capture,
    entry::{api, put, put_optional, take_text},
    image::{self, JitLog, LoadError, Texts},
    module::{self, Module},
    result::{Answer, FILE_NOT_FOUND, INVALID_HANDLE, INVALID_VALUE, NOT_FOUND, NOT_PERMITTED},
    state::driver,
    thread,
};

/// Reads an image file whole; what cannot be read is not found.
pub fn read_file(name: &std::ffi::CStr) -> Result<Texts, LoadError> {
    use std::os::unix::ffi::OsStrExt;
    let path = std::path::Path::new(std::ffi::OsStr::from_bytes(name.to_bytes()));
    let bytes = std::fs::read(path).map_err(|_| FILE_NOT_FOUND)?;
    Ok(image::from_bytes(&bytes)?)
}

unsafe fn load(texts: Result<Texts, LoadError>, log: &JitLog, place: *mut u64) -> Answer {
    if place.is_null() {
        return Err(INVALID_VALUE);
    }
    let context = thread::usable()?;
    capture::refuse_unsafe_call()?;
    context.printed.flush();
    let (program, target) = unsafe { module::build_logged(texts, log)? };
    let module = Module::load(&context, program, target, false)?;
    unsafe { put(place, module.handle) }
}

fn find(handle: u64) -> Answer<Arc<Module>> {
    thread::usable()?;
    driver().modules.get(handle).ok_or(INVALID_HANDLE)
}

api! {
    fn cuModuleLoad(module: *mut u64, name: *const c_char) {
        let name = take_text(name)?;
        load(read_file(name), &JitLog::default(), module)
    }

    fn cuModuleLoadData(module: *mut u64, image: *const c_void) {
        load(image::from_pointer(image).map_err(LoadError::from), &JitLog::default(), module)
    }

    fn cuModuleLoadDataEx(
        module: *mut u64,
        image: *const c_void,
        count: u32,
        options: *const u32,
        values: *mut *mut c_void,
    ) {
        let log = JitLog::from_options(count, options, values)?;
        load(image::from_pointer(image).map_err(LoadError::from), &log, module)
    }

    fn cuModuleLoadFatBinary(module: *mut u64, image: *const c_void) {
        load(image::from_pointer(image).map_err(LoadError::from), &JitLog::default(), module)
    }

    fn cuModuleUnload(module: u64) {
        let module = find(module)?;
        capture::refuse_unsafe_call()?;
        if module.is_of_library {
            return Err(NOT_PERMITTED);
        }
        if let Some(context) = driver().contexts.get(module.context) {
            context.drain();
            context.printed.flush();
        }
        module.unload()
    }

    /// Code is decoded whole when it is loaded.
    fn cuModuleGetLoadingMode(mode: *mut u32) {
        const EAGER: u32 = 1;
        put(mode, EAGER)
    }

    fn cuModuleGetFunction(function: *mut u64, module: u64, name: *const c_char) {
        if function.is_null() {
            return Err(INVALID_VALUE);
        }
        let name = take_text(name)?.to_str().map_err(|_| NOT_FOUND)?;
        put(function, find(module)?.function(name)?)
    }

    fn cuModuleGetFunctionCount(count: *mut u32, module: u64) {
        put(count, find(module)?.code.program.kernels().len() as u32)
    }

    fn cuModuleEnumerateFunctions(functions: *mut u64, count: u32, module: u64) {
        let module = find(module)?;
        if functions.is_null() && count != 0 {
            return Err(INVALID_VALUE);
        }
        for kernel in 0..module.code.program.kernels().len().min(count as usize) {
            put(functions.add(kernel), module.function_of(kernel))?;
        }
        Ok(())
    }

    fn cuModuleGetGlobal_v2(
        address: *mut u64,
        bytes: *mut usize,
        module: u64,
        name: *const c_char,
    ) {
        if address.is_null() && bytes.is_null() {
            return Err(INVALID_VALUE);
        }
        let name = take_text(name)?.to_str().map_err(|_| NOT_FOUND)?;
        let (at, size) = find(module)?.variable(name)?;
        put_optional(address, at);
        put_optional(bytes, size as usize);
        Ok(())
    }

    /// No texture or surface references are implemented, so no module has any.
    fn cuModuleGetTexRef(_reference: *mut u64, module: u64, name: *const c_char) {
        take_text(name)?;
        find(module)?;
        Err(NOT_FOUND)
    }

    fn cuModuleGetSurfRef(_reference: *mut u64, module: u64, name: *const c_char) {
        take_text(name)?;
        find(module)?;
        Err(NOT_FOUND)
    }
}
