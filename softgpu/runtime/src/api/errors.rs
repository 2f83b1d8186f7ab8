//! Last error, names and texts, versions, driver entry points, the profiler switch.

use std::ffi::{c_char, c_int, c_uint, c_void};
use std::ptr::null_mut;

use crate::RUNTIME_VERSION;
use crate::call::{given, guard};
use crate::context::Runtime;
use crate::driver::{Driver, Streams};
use crate::error::{self, Error, Outcome};

#[unsafe(no_mangle)]
pub extern "C" fn cudaGetLastError() -> c_int {
    error::take_last()
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaPeekAtLastError() -> c_int {
    error::peek_last()
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaGetErrorName(code: c_int) -> *const c_char {
    error::name(code).as_ptr()
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaGetErrorString(code: c_int) -> *const c_char {
    error::text(code).as_ptr()
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaRuntimeGetVersion(version: *mut c_int) -> c_int {
    guard(|| {
        given(version)?;
        unsafe { version.write(RUNTIME_VERSION) };
        Ok(())
    })
}

/// Answers 0 as the version, and success, where there is no driver.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaDriverGetVersion(version: *mut c_int) -> c_int {
    guard(|| {
        given(version)?;
        unsafe {
            version.write(0);
            match Driver::find() {
                Some(driver) => driver.api(Streams::Legacy).cuDriverGetVersion(version),
                None => Ok(()),
            }
        }
    })
}

unsafe fn entry_point(
    streams: Streams,
    symbol: *const c_char,
    function: *mut *mut c_void,
    version: c_uint,
    flags: u64,
    status: *mut c_int,
) -> Outcome {
    given(symbol)?;
    given(function)?;
    if flags > 2 {
        return Err(Error::INVALID_VALUE);
    }
    let flags = if flags == 0 { streams.flag() } else { flags };
    let version = c_int::try_from(version).map_err(|_| Error::INVALID_VALUE)?;
    let driver = Runtime::get()?.driver;
    let outcome = unsafe {
        function.write(null_mut());
        driver.entry_point(symbol, function, version, flags, status)
    };
    // With a place for the reason, a function that is missing is an answer and not an error.
    match outcome {
        Err(Error::NOT_FOUND) if !status.is_null() => Ok(()),
        outcome => outcome,
    }
}

macro_rules! entry_points {
    ($($name:ident, $by_version:ident, $streams:ident;)*) => {
        $(#[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(
            symbol: *const c_char,
            function: *mut *mut c_void,
            flags: u64,
            status: *mut c_int,
        ) -> c_int {
            let version = RUNTIME_VERSION.cast_unsigned();
            guard(|| unsafe {
                entry_point(Streams::$streams, symbol, function, version, flags, status)
            })
        }

        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $by_version(
            symbol: *const c_char,
            function: *mut *mut c_void,
            version: c_uint,
            flags: u64,
            status: *mut c_int,
        ) -> c_int {
            guard(|| unsafe {
                entry_point(Streams::$streams, symbol, function, version, flags, status)
            })
        })*
    };
}

entry_points! {
    cudaGetDriverEntryPoint, cudaGetDriverEntryPointByVersion, Legacy;
    cudaGetDriverEntryPoint_ptsz, cudaGetDriverEntryPointByVersion_ptsz, PerThread;
}

/// NVIDIA's own libraries find private tables of each other here; there are none in this one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaGetExportTable(
    table: *mut *const c_void,
    _id: *const c_void,
) -> c_int {
    guard(|| {
        given(table)?;
        unsafe { table.write(std::ptr::null()) };
        Err(Error::INVALID_VALUE)
    })
}

cuda! {
    context fn cudaProfilerStart() |cu| cu.cuProfilerStart();
    context fn cudaProfilerStop() |cu| cu.cuProfilerStop();
}
