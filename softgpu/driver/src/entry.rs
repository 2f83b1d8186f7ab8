//! What every C entry point shares: the macros that declare one, and the guard around its body.

use std::{
    ffi::CStr,
    panic::{AssertUnwindSafe, catch_unwind},
};

use super::{
    activity,
    result::{Answer, DEINITIALIZED, INVALID_VALUE, NOT_INITIALIZED, NOT_PERMITTED, UNKNOWN},
    state::{self, Phase},
    thread,
};

/// Runs the body of an entry point: a panic becomes CUDA_ERROR_UNKNOWN, for C cannot unwind.
///
/// The name also keeps functions with equal bodies apart: merged into one address, a tracer could
/// not tell which was called.
pub fn guarded(name: &'static CStr, body: impl FnOnce() -> Answer) -> u32 {
    std::hint::black_box(name.as_ptr());
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => 0,
        Ok(Err(error)) => error.0,
        Err(_) => {
            eprintln!(
                "softgpu: internal error in {}; please report it",
                name.to_string_lossy()
            );
            UNKNOWN.0
        }
    }
}

/// As [`guarded`], and refuses before cuInit, inside host functions of streams, and when the
/// process ends.
pub fn initialised(name: &'static CStr, body: impl FnOnce() -> Answer) -> u32 {
    match state::phase() {
        Phase::Running => {}
        Phase::Before => return NOT_INITIALIZED.0,
        Phase::Ended => return DEINITIALIZED.0,
    }
    if thread::is_in_callback() {
        return NOT_PERMITTED.0;
    }
    activity::call(name, || guarded(name, body))
}

/// A function's name, as C wants it.
macro_rules! name_of {
    ($name:ident) => {{
        const NAME: &str = concat!(stringify!($name), "\0");
        match std::ffi::CStr::from_bytes_with_nul(NAME.as_bytes()) {
            Ok(name) => name,
            Err(_) => c"",
        }
    }};
}

/// Writes an out-parameter; a null pointer is CUDA_ERROR_INVALID_VALUE.
pub unsafe fn put<T>(place: *mut T, value: T) -> Answer {
    if place.is_null() {
        return Err(INVALID_VALUE);
    }
    // Callers may hand out unaligned places in packed structures.
    unsafe { place.write_unaligned(value) };
    Ok(())
}

/// Writes an out-parameter that the caller may leave out.
pub unsafe fn put_optional<T>(place: *mut T, value: T) {
    if !place.is_null() {
        unsafe { place.write_unaligned(value) };
    }
}

/// Reads a structure; a null pointer is CUDA_ERROR_INVALID_VALUE.
pub unsafe fn take<T: Copy>(place: *const T) -> Answer<T> {
    if place.is_null() {
        return Err(INVALID_VALUE);
    }
    Ok(unsafe { place.read_unaligned() })
}

/// A C array as a vector; null is allowed only when it is empty.
pub unsafe fn take_array<T: Copy>(place: *const T, count: usize) -> Answer<Vec<T>> {
    if count == 0 {
        return Ok(Vec::new());
    }
    if place.is_null() || count > 1 << 28 {
        return Err(INVALID_VALUE);
    }
    Ok((0..count)
        .map(|i| unsafe { place.add(i).read_unaligned() })
        .collect())
}

/// A C string; null is CUDA_ERROR_INVALID_VALUE.
pub unsafe fn take_text<'a>(text: *const std::ffi::c_char) -> Answer<&'a std::ffi::CStr> {
    if text.is_null() {
        return Err(INVALID_VALUE);
    }
    Ok(unsafe { std::ffi::CStr::from_ptr(text) })
}

/// Declares C entry points. Bodies are `Answer` blocks that may use raw pointers.
macro_rules! api {
    ($($(#[$meta:meta])* fn $name:ident ( $($arg:ident : $ty:ty),* $(,)? ) $body:block)*) => {$(
        $(#[$meta])*
        #[unsafe(no_mangle)]
        #[allow(unused_unsafe, clippy::too_many_arguments)]
        pub unsafe extern "C" fn $name($($arg: $ty),*) -> u32 {
            $crate::entry::initialised($crate::entry::name_of!($name), move || unsafe { $body })
        }
    )*};
}

/// As `api!`, for functions that work before cuInit.
macro_rules! early_api {
    ($($(#[$meta:meta])* fn $name:ident ( $($arg:ident : $ty:ty),* $(,)? ) $body:block)*) => {$(
        $(#[$meta])*
        #[unsafe(no_mangle)]
        #[allow(unused_unsafe)]
        pub unsafe extern "C" fn $name($($arg: $ty),*) -> u32 {
            $crate::entry::guarded($crate::entry::name_of!($name), move || unsafe { $body })
        }
    )*};
}

/// Declares a function with its `_ptds` or `_ptsz` twin, which differ only in what stream 0
/// means; the body reads it from the variable named before the arguments.
macro_rules! stream_api {
    ($($(#[$meta:meta])*
       fn $name:ident / $twin:ident ( $null:ident; $($arg:ident : $ty:ty),* $(,)? ) $body:block)*) => {$(
        $(#[$meta])*
        #[unsafe(no_mangle)]
        #[allow(unused_unsafe, clippy::too_many_arguments)]
        pub unsafe extern "C" fn $name($($arg: $ty),*) -> u32 {
            let $null = $crate::stream::NullStream::Legacy;
            $crate::entry::initialised($crate::entry::name_of!($name), move || unsafe { $body })
        }
        $(#[$meta])*
        #[unsafe(no_mangle)]
        #[allow(unused_unsafe, clippy::too_many_arguments)]
        pub unsafe extern "C" fn $twin($($arg: $ty),*) -> u32 {
            let $null = $crate::stream::NullStream::PerThread;
            $crate::entry::initialised($crate::entry::name_of!($twin), move || unsafe { $body })
        }
    )*};
}

pub(crate) use {api, early_api, name_of, stream_api};
