//! The driver library: opened at run time, its entry points asked of cuGetProcAddress as
//! NVIDIA's runtime does, in two forms where a function depends on what stream 0 means.

mod table;

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::ptr::null_mut;
use std::sync::OnceLock;

use crate::error::{Error, Outcome, check};
use crate::types::{DevicePtr, Handle, IpcHandle, MemLocation};

pub(crate) use table::Api;

type GetProcAddress =
    unsafe extern "C" fn(*const c_char, *mut *mut c_void, c_int, u64, *mut c_int) -> c_int;

/// What stream 0 means to a function.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Streams {
    Legacy,
    PerThread,
}

impl Streams {
    /// CU_GET_PROC_ADDRESS_LEGACY_STREAM, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM.
    pub(crate) fn flag(self) -> u64 {
        match self {
            Streams::Legacy => 1,
            Streams::PerThread => 2,
        }
    }
}

pub(crate) struct Driver {
    legacy: Api,
    per_thread: Api,
    get: GetProcAddress,
}

impl Driver {
    /// The library of this process, or `None` where there is none to open. A failure is not
    /// remembered: a program may put a driver in place and try again.
    pub(crate) fn find() -> Option<&'static Driver> {
        static DRIVER: OnceLock<Driver> = OnceLock::new();
        if let Some(driver) = DRIVER.get() {
            return Some(driver);
        }
        let driver = Driver::open()?;
        Some(DRIVER.get_or_init(|| driver))
    }

    fn open() -> Option<Driver> {
        let entry = unsafe {
            let library = libc::dlopen(c"libcuda.so.1".as_ptr(), libc::RTLD_NOW);
            if library.is_null() {
                return None;
            }
            libc::dlsym(library, c"cuGetProcAddress_v2".as_ptr())
        };
        if entry.is_null() {
            return None;
        }
        let get = unsafe { std::mem::transmute::<*mut c_void, GetProcAddress>(entry) };
        let legacy = Api::load(|name, plain, _| find(get, name, plain, Streams::Legacy));
        let per_thread = Api::load(|name, plain, threaded| match threaded {
            Some(version) => find(get, name, version, Streams::PerThread),
            None => find(get, name, plain, Streams::Legacy),
        });
        Some(Driver {
            legacy,
            per_thread,
            get,
        })
    }

    pub(crate) fn api(&self, streams: Streams) -> &Api {
        match streams {
            Streams::Legacy => &self.legacy,
            Streams::PerThread => &self.per_thread,
        }
    }

    /// cuGetProcAddress as it is, for cudaGetDriverEntryPoint.
    pub(crate) unsafe fn entry_point(
        &self,
        name: *const c_char,
        function: *mut *mut c_void,
        version: c_int,
        flags: u64,
        status: *mut c_int,
    ) -> Outcome {
        check(unsafe { (self.get)(name, function, version, flags, status) })
    }
}

fn find(get: GetProcAddress, name: &CStr, version: c_int, streams: Streams) -> *mut c_void {
    let mut function = null_mut();
    let mut status = 0;
    let result = unsafe {
        get(
            name.as_ptr(),
            &mut function,
            version,
            streams.flag(),
            &mut status,
        )
    };
    if result == 0 && status == 0 {
        function
    } else {
        null_mut()
    }
}

/// Makes `Api`: a pointer and a method for each function. A method of a function that the
/// driver lacks answers cudaErrorCallRequiresNewerDriver.
macro_rules! driver_table {
    ($($(#[$only:meta])? $method:ident: $name:ident $version:literal $threaded:expr, ($($arg:ident: $kind:ty),*);)*) => {
        pub(crate) struct Api {
            $($(#[$only])? $method: Option<unsafe extern "C" fn($($kind),*) -> c_int>,)*
        }

        #[allow(clippy::too_many_arguments)]
        impl Api {
            pub(super) fn load(find: impl Fn(&CStr, c_int, Option<c_int>) -> *mut c_void) -> Api {
                Api {
                    // An Option of a function pointer has the layout of the pointer.
                    $($(#[$only])? $method: unsafe {
                        let name = concat!(stringify!($name), "\0");
                        let name = CStr::from_bytes_with_nul_unchecked(name.as_bytes());
                        std::mem::transmute::<
                            *mut c_void,
                            Option<unsafe extern "C" fn($($kind),*) -> c_int>,
                        >(find(name, $version, $threaded))
                    },)*
                }
            }

            $($(#[$only])?
            #[inline]
            pub(crate) unsafe fn $method(&self, $($arg: $kind),*) -> Outcome {
                match self.$method {
                    Some(function) => check(unsafe { function($($arg),*) }),
                    None => Err(Error::NEEDS_NEWER_DRIVER),
                }
            })*
        }
    };
}
use driver_table;
