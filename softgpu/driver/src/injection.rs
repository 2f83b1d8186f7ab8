//! CUDA_INJECTION64_PATH: a tool's library that cuInit loads, as NVIDIA's driver does.

use std::{
    ffi::{CString, c_int},
    os::unix::ffi::OsStringExt,
    sync::atomic::{AtomicBool, Ordering},
};

/// Loads it, once; a library that is not there or has no entry is no error.
pub fn load_once() {
    // Not a lock: what is loaded may well call cuInit itself.
    static LOADED: AtomicBool = AtomicBool::new(false);
    if LOADED.swap(true, Ordering::AcqRel) {
        return;
    }
    let path = std::env::var_os("CUDA_INJECTION64_PATH").map(OsStringExt::into_vec);
    let Some(Ok(path)) = path.map(CString::new) else {
        return;
    };
    // SAFETY: the user named the library for this very purpose.
    unsafe {
        let library = libc::dlopen(path.as_ptr(), libc::RTLD_NOW);
        if library.is_null() {
            return;
        }
        let entry = libc::dlsym(library, c"InitializeInjection".as_ptr());
        if !entry.is_null() {
            std::mem::transmute::<*mut libc::c_void, extern "C" fn() -> c_int>(entry)();
        }
    }
}
