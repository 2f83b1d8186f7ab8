//! How an exported function is written: the `cuda!` macro, and what surrounds every body
//! (initialisation, a current context, the last error, no unwinding into C).

use std::ffi::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::context::{self, Runtime};
use crate::driver::{Api, Streams};
use crate::error::{Error, Outcome, finish};

/// Defines exported functions that return a cudaError.
///
/// `context fn` has a context current when its body runs; `plain fn` has the driver
/// initialised only. A second name is the same function with stream 0 meaning the thread's own.
macro_rules! cuda {
    ($($(#[$note:meta])* $level:ident fn $name:ident $(, $threaded:ident)?
        ($($arguments:tt)*) |$api:pat_param| $body:expr;)*) => {
        $($crate::call::cuda_item! {
            [$(#[$note])*] $level ($name $(, $threaded)?) ($($arguments)*) |$api| $body
        })*
    };
}

macro_rules! cuda_item {
    ($notes:tt $level:ident ($name:ident) $arguments:tt |$api:pat_param| $body:expr) => {
        $crate::call::cuda_function! { $notes $level $name Legacy $arguments |$api| $body }
    };
    ($notes:tt $level:ident ($name:ident, $threaded:ident) $arguments:tt |$api:pat_param|
        $body:expr) => {
        $crate::call::cuda_function! { $notes $level $name Legacy $arguments |$api| $body }
        $crate::call::cuda_function! { $notes $level $threaded PerThread $arguments |$api| $body }
    };
}
pub(crate) use cuda_item;

macro_rules! cuda_function {
    ([$(#[$note:meta])*] $level:ident $name:ident $streams:ident
        ($($arg:ident: $kind:ty),* $(,)?) |$api:pat_param| $body:expr) => {
        $(#[$note])*
        #[unsafe(no_mangle)]
        #[allow(clippy::too_many_arguments)]
        pub unsafe extern "C" fn $name($($arg: $kind),*) -> std::ffi::c_int {
            $crate::call::$level($crate::driver::Streams::$streams, |$api| {
                #[allow(unused_unsafe)]
                unsafe { $body }
            })
        }
    };
}
pub(crate) use cuda_function;

/// Runs a body that needs the driver but no context.
pub(crate) fn plain(streams: Streams, mut body: impl FnMut(&'static Api) -> Outcome) -> c_int {
    guard(|| body(Runtime::get()?.api(streams)))
}

/// Runs a body with a context current. The check is a thread-local load, so that a traced
/// program shows one driver call under one runtime call; where the program has taken the
/// context away by driver calls in between, the driver says so and the body runs again.
pub(crate) fn context(streams: Streams, body: impl FnMut(&'static Api) -> Outcome) -> c_int {
    guard(|| in_context(streams, body))
}

/// The same within a function that looks at its arguments before it needs a context.
pub(crate) fn in_context(
    streams: Streams,
    mut body: impl FnMut(&'static Api) -> Outcome,
) -> Outcome {
    let runtime = Runtime::get()?;
    context::ensure(runtime)?;
    match body(runtime.api(streams)) {
        Err(Error::NO_CONTEXT) if context::lost(runtime) => {
            context::ensure(runtime)?;
            body(runtime.api(streams))
        }
        outcome => outcome,
    }
}

/// Runs a body, keeps panics out of C and remembers the error.
pub(crate) fn guard(body: impl FnOnce() -> Outcome) -> c_int {
    finish(catch_unwind(AssertUnwindSafe(body)).unwrap_or(Err(Error::UNKNOWN)))
}

/// A pointer the caller must have given.
pub(crate) fn given<T>(pointer: *const T) -> Outcome {
    if pointer.is_null() {
        Err(Error::INVALID_VALUE)
    } else {
        Ok(())
    }
}
