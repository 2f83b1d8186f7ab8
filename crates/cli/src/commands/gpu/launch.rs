//! Launches kernels of a PTX file, one after another: the program that `gpu exec` runs and watches.

use crate::arguments::Size;
use anyhow::{Context, Result, bail};
use std::{
    ffi::{CStr, CString, c_char, c_void},
    path::Path,
    process::ExitCode,
    ptr::null,
};

pub fn run(text: &Path, grid: Size, block: Size, kernels: &[String]) -> Result<ExitCode> {
    let (Size([gx, gy, gz]), Size([bx, by, bz])) = (grid, block);
    let text = std::fs::read(text).with_context(|| text.display().to_string())?;
    let text = CString::new(text).context("the text has a NUL")?;
    let cuda = Library::open(c"libcuda.so.1")?;
    // SAFETY: the driver's own functions, with what they take.
    unsafe {
        let init: extern "C" fn(u32) -> i32 = cuda.function(c"cuInit")?;
        let retain: extern "C" fn(*mut usize, i32) -> i32 =
            cuda.function(c"cuDevicePrimaryCtxRetain")?;
        let current: extern "C" fn(usize) -> i32 = cuda.function(c"cuCtxSetCurrent")?;
        let load: extern "C" fn(*mut usize, *const c_char) -> i32 =
            cuda.function(c"cuModuleLoadData")?;
        let get: extern "C" fn(*mut usize, usize, *const c_char) -> i32 =
            cuda.function(c"cuModuleGetFunction")?;
        let launch: Launch = cuda.function(c"cuLaunchKernel")?;
        let synchronize: extern "C" fn() -> i32 = cuda.function(c"cuCtxSynchronize")?;
        let (mut context, mut module) = (0, 0);
        check("cuInit", init(0))?;
        check("cuDevicePrimaryCtxRetain", retain(&mut context, 0))?;
        check("cuCtxSetCurrent", current(context))?;
        check("cuModuleLoadData", load(&mut module, text.as_ptr()))?;
        for kernel in kernels {
            let name = CString::new(kernel.as_str())?;
            let mut function = 0;
            check(kernel, get(&mut function, module, name.as_ptr()))?;
            let launched = launch(function, gx, gy, gz, bx, by, bz, 0, 0, null(), null());
            check(kernel, launched)?;
            check(kernel, synchronize())?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

type Launch = extern "C" fn(
    usize,
    u32,
    u32,
    u32,
    u32,
    u32,
    u32,
    u32,
    usize,
    *const *mut c_void,
    *const *mut c_void,
) -> i32;

struct Library(*mut c_void);

impl Library {
    fn open(name: &CStr) -> Result<Library> {
        // SAFETY: the name ends with a NUL.
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW) };
        if handle.is_null() {
            bail!("no CUDA driver here (libcuda.so.1); --sim runs it on softgpu");
        }
        Ok(Library(handle))
    }

    /// # Safety
    /// `F` is the function's type.
    unsafe fn function<F: Copy>(&self, name: &CStr) -> Result<F> {
        // SAFETY: an open library; a pointer to a function is as large as any other.
        let found = unsafe { libc::dlsym(self.0, name.as_ptr()) };
        if found.is_null() || size_of::<F>() != size_of::<usize>() {
            bail!("this driver has no {}", name.to_string_lossy());
        }
        // SAFETY: by the caller.
        Ok(unsafe { std::mem::transmute_copy(&found) })
    }
}

fn check(what: &str, result: i32) -> Result<()> {
    if result != 0 {
        let name = cuda::enum_name("CUresult", result.into()).unwrap_or("an unknown error");
        bail!("{what}: {name} ({result})");
    }
    Ok(())
}
