//! cudaError codes, how driver results become them, and the last error of each thread.

use std::cell::Cell;
use std::ffi::{CStr, c_int};
use std::sync::{Mutex, PoisonError};

use crate::error_table::ERRORS;

/// A cudaError other than cudaSuccess.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Error(pub c_int);

pub(crate) type Outcome = Result<(), Error>;

impl Error {
    pub const INVALID_VALUE: Error = Error(1);
    pub const INITIALIZATION: Error = Error(3);
    pub const INVALID_CONFIGURATION: Error = Error(9);
    pub const INVALID_PITCH: Error = Error(12);
    pub const INVALID_SYMBOL: Error = Error(13);
    pub const INVALID_CHANNEL: Error = Error(20);
    pub const INVALID_DIRECTION: Error = Error(21);
    pub const INSUFFICIENT_DRIVER: Error = Error(35);
    pub const NEEDS_NEWER_DRIVER: Error = Error(36);
    pub const MISSING_CONFIGURATION: Error = Error(52);
    pub const INVALID_FUNCTION: Error = Error(98);
    pub const NO_DEVICE: Error = Error(100);
    pub const INVALID_DEVICE: Error = Error(101);
    pub const NO_CONTEXT: Error = Error(201);
    pub const NOT_FOUND: Error = Error(500);
    pub const NOT_READY: Error = Error(600);
    pub const NOT_SUPPORTED: Error = Error(801);
    pub const UNKNOWN: Error = Error(999);

    /// Driver results and runtime codes share their numbers; those the runtime has no name for
    /// become cudaErrorUnknown.
    pub fn from_driver(result: c_int) -> Error {
        if lookup(result).is_some() {
            Error(result)
        } else {
            Error::UNKNOWN
        }
    }
}

/// A driver result as an outcome.
pub(crate) fn check(result: c_int) -> Outcome {
    if result == 0 {
        Ok(())
    } else {
        Err(Error::from_driver(result))
    }
}

fn lookup(code: c_int) -> Option<&'static (c_int, &'static CStr, &'static CStr)> {
    let at = ERRORS.binary_search_by_key(&code, |row| row.0).ok()?;
    Some(&ERRORS[at])
}

const UNRECOGNIZED: &CStr = c"unrecognized error code";

pub(crate) fn name(code: c_int) -> &'static CStr {
    lookup(code).map_or(UNRECOGNIZED, |row| row.1)
}

pub(crate) fn text(code: c_int) -> &'static CStr {
    lookup(code).map_or(UNRECOGNIZED, |row| row.2)
}

thread_local! {
    static LAST: Cell<c_int> = const { Cell::new(0) };
}

/// Turns an outcome into the code to return and remembers it. cudaErrorNotReady is an answer
/// rather than a failure: NVIDIA's runtime does not remember it either.
pub(crate) fn finish(outcome: Outcome) -> c_int {
    let Err(error) = outcome else { return 0 };
    if error != Error::NOT_READY {
        LAST.set(error.0);
    }
    error.0
}

/// Says, once for each function, that there is nothing behind it: a program may ignore errors.
/// CUTRACE_SOFTGPU_VERBOSE=0 is for silence.
pub(crate) fn not_implemented(name: &'static str) {
    static SAID: Mutex<Vec<&str>> = Mutex::new(Vec::new());
    let mut said = SAID.lock().unwrap_or_else(PoisonError::into_inner);
    let silent = || std::env::var_os("CUTRACE_SOFTGPU_VERBOSE").is_some_and(|value| value == "0");
    if !said.contains(&name) && !silent() {
        eprintln!(
            "softgpu: the program called {name}, which softgpu's CUDA runtime does not implement"
        );
        said.push(name);
    }
}

pub(crate) fn take_last() -> c_int {
    LAST.replace(0)
}

pub(crate) fn peek_last() -> c_int {
    LAST.get()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_sorted_and_named() {
        assert!(ERRORS.windows(2).all(|pair| pair[0].0 < pair[1].0));
        assert_eq!(name(1), c"cudaErrorInvalidValue");
        assert_eq!(
            text(35),
            c"CUDA driver version is insufficient for CUDA runtime version"
        );
        assert_eq!(name(12345), UNRECOGNIZED);
    }

    #[test]
    fn driver_results_without_a_runtime_name_are_unknown() {
        assert_eq!(Error::from_driver(700), Error(700));
        assert_eq!(Error::from_driver(202), Error::UNKNOWN);
    }

    #[test]
    fn the_last_error_stays_until_taken() {
        assert_eq!(finish(Err(Error::INVALID_VALUE)), 1);
        assert_eq!(finish(Ok(())), 0);
        assert_eq!(finish(Err(Error::NOT_READY)), 600);
        assert_eq!(peek_last(), 1);
        assert_eq!(take_last(), 1);
        assert_eq!(take_last(), 0);
    }
}
