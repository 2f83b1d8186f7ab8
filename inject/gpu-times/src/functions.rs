//! CUPTI's functions, found at run time.

use std::{
    ffi::{CStr, CString, c_char, c_void},
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

pub type Request = extern "C" fn(*mut *mut u8, *mut usize, *mut usize);
/// Of a subscriber: its data, a domain, a number there, and what that has.
pub type Callback = extern "C" fn(*mut c_void, u32, u32, *const c_void);
pub type Complete = extern "C" fn(*mut c_void, u32, *mut u8, usize, usize);

type Plain = unsafe extern "C" fn(u32) -> u32;
type Filter = unsafe extern "C" fn(u32, u8) -> u32;

/// A libcupti. Functions that not every version has are optional.
pub struct Functions {
    pub path: PathBuf,
    library: usize,
    version: unsafe extern "C" fn(*mut u32) -> u32,
    timestamp: unsafe extern "C" fn(*mut u64) -> u32,
    register: unsafe extern "C" fn(Request, Complete) -> u32,
    enable: Plain,
    disable: Plain,
    flush: Plain,
    next: unsafe extern "C" fn(*mut u8, usize, *mut *mut u8) -> u32,
    dropped: unsafe extern "C" fn(*mut c_void, u32, *mut usize) -> u32,
    thread_id_type: Option<Plain>,
    driver_call: Option<Filter>,
    runtime_call: Option<Filter>,
    callback_name: Option<unsafe extern "C" fn(u32, u32, *mut *const c_char) -> u32>,
    subscribe: unsafe extern "C" fn(*mut usize, Callback, *mut c_void) -> u32,
    unsubscribe: unsafe extern "C" fn(usize) -> u32,
    enable_callback: Option<unsafe extern "C" fn(u32, usize, u32, u32) -> u32>,
    node_id: Option<unsafe extern "C" fn(*mut c_void, *mut u64) -> u32>,
}

/// A CUptiResult that is not CUPTI_SUCCESS.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refused(pub u32);

fn checked(result: u32) -> Result<(), Refused> {
    if result == 0 {
        Ok(())
    } else {
        Err(Refused(result))
    }
}

pub const DRIVER: u32 = 1;
const RUNTIME: u32 = 2;
/// Callback numbers are below this in every version so far, with room.
const MOST_CALLBACKS: u32 = 2048;

/// Why a file is no libcupti.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    #[error("odd path")]
    Nul,
    #[error("cannot be loaded")]
    Unloadable,
    /// The loader's own words.
    #[error("{0}")]
    Loader(String),
    #[error("{0} is missing")]
    Missing(&'static str),
}

impl Functions {
    // The fields' types say what each address is taken for.
    #[allow(clippy::missing_transmute_annotations)]
    pub fn load(path: &Path) -> Result<Self, LoadError> {
        let name = CString::new(path.as_os_str().as_bytes()).map_err(|_| LoadError::Nul)?;
        // SAFETY: loading CUPTI is what its users do; it has no unusual constructors.
        let library = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        if library.is_null() {
            // SAFETY: dlerror returns a text or null.
            let why = unsafe { libc::dlerror() };
            let why = (!why.is_null()).then(|| unsafe { CStr::from_ptr(why) });
            return Err(why.map_or(LoadError::Unloadable, |why| {
                LoadError::Loader(why.to_string_lossy().into_owned())
            }));
        }
        let find = |name: &CStr| {
            // SAFETY: the library is loaded and stays.
            let found = unsafe { libc::dlsym(library, name.as_ptr()) };
            (!found.is_null()).then_some(found)
        };
        macro_rules! needed {
            ($name:literal) => {{
                let name: &CStr = $name;
                let missing = || LoadError::Missing(name.to_str().unwrap_or_default());
                // SAFETY: functions of these names have these types in every CUPTI.
                unsafe { std::mem::transmute::<*mut c_void, _>(find(name).ok_or_else(missing)?) }
            }};
        }
        macro_rules! optional {
            ($name:literal) => {
                // SAFETY: as above.
                find($name).map(|found| unsafe { std::mem::transmute::<*mut c_void, _>(found) })
            };
        }
        Ok(Functions {
            path: path.to_owned(),
            library: library as usize,
            version: needed!(c"cuptiGetVersion"),
            timestamp: needed!(c"cuptiGetTimestamp"),
            register: needed!(c"cuptiActivityRegisterCallbacks"),
            enable: needed!(c"cuptiActivityEnable"),
            disable: needed!(c"cuptiActivityDisable"),
            flush: needed!(c"cuptiActivityFlushAll"),
            next: needed!(c"cuptiActivityGetNextRecord"),
            dropped: needed!(c"cuptiActivityGetNumDroppedRecords"),
            thread_id_type: optional!(c"cuptiSetThreadIdType"),
            driver_call: optional!(c"cuptiActivityEnableDriverApi"),
            runtime_call: optional!(c"cuptiActivityEnableRuntimeApi"),
            callback_name: optional!(c"cuptiGetCallbackName"),
            subscribe: needed!(c"cuptiSubscribe"),
            unsubscribe: needed!(c"cuptiUnsubscribe"),
            enable_callback: optional!(c"cuptiEnableCallback"),
            node_id: optional!(c"cuptiGetGraphNodeId"),
        })
    }

    /// Where a function of it is.
    pub fn address(&self, name: &CStr) -> Option<usize> {
        // SAFETY: the library is loaded and stays.
        let found = unsafe { libc::dlsym(self.library as *mut c_void, name.as_ptr()) };
        (!found.is_null()).then_some(found as usize)
    }

    pub fn version(&self) -> u32 {
        let mut version = 0;
        // SAFETY: writes the one word.
        unsafe { (self.version)(&mut version) };
        version
    }

    /// What is said of it.
    pub fn about(&self) -> String {
        format!("version={} path={}", self.version(), self.path.display())
    }

    pub fn timestamp(&self) -> Option<u64> {
        let mut time = 0;
        // SAFETY: writes the one word.
        checked(unsafe { (self.timestamp)(&mut time) }).ok()?;
        Some(time)
    }

    pub fn register(&self, request: Request, complete: Complete) -> Result<(), Refused> {
        // SAFETY: both live as long as the process.
        checked(unsafe { (self.register)(request, complete) })
    }

    pub fn enable(&self, kind: u32) -> Result<(), Refused> {
        // SAFETY: takes a number.
        checked(unsafe { (self.enable)(kind) })
    }

    pub fn disable(&self, kind: u32) {
        // SAFETY: takes a number.
        unsafe { (self.disable)(kind) };
    }

    /// Hands over what is complete; `all`: also what is not.
    pub fn flush(&self, all: bool) {
        // SAFETY: takes a number.
        unsafe { (self.flush)(u32::from(all)) };
    }

    /// Threads are identified by the system's ids, or as CUPTI does by itself.
    pub fn use_system_threads(&self, system: bool) -> bool {
        // SAFETY: takes a number.
        (self.thread_id_type).is_some_and(|set| unsafe { set(u32::from(system)) } == 0)
    }

    /// Asks for records of single functions of the driver. None: this version has all of them or none.
    pub fn choose_driver_calls(
        &self,
        wanted: impl Fn(&str) -> bool,
        enable: bool,
    ) -> Option<usize> {
        Some(self.choose(DRIVER, self.driver_call?, wanted, enable))
    }

    /// The same for functions of the runtime.
    pub fn choose_runtime_calls(
        &self,
        wanted: impl Fn(&str) -> bool,
        enable: bool,
    ) -> Option<usize> {
        Some(self.choose(RUNTIME, self.runtime_call?, wanted, enable))
    }

    fn choose(
        &self,
        domain: u32,
        choose: Filter,
        wanted: impl Fn(&str) -> bool,
        enable: bool,
    ) -> usize {
        let mut chosen = 0;
        for number in 1..MOST_CALLBACKS {
            if self.callback_name(domain, number).is_some_and(&wanted) {
                // SAFETY: takes numbers.
                chosen += usize::from(unsafe { choose(number, u8::from(enable)) } == 0);
            }
        }
        chosen
    }

    fn callback_name(&self, domain: u32, number: u32) -> Option<&'static str> {
        let mut name = std::ptr::null();
        // SAFETY: writes the pointer, to a text that lasts.
        checked(unsafe { (self.callback_name?)(domain, number, &mut name) }).ok()?;
        if name.is_null() {
            return None;
        }
        unsafe { CStr::from_ptr(name) }.to_str().ok()
    }

    /// Whether nobody else has subscribed.
    pub fn is_alone(&self) -> Result<(), Refused> {
        extern "C" fn nothing(_: *mut c_void, _: u32, _: u32, _: *const c_void) {}
        let subscriber = self.subscribe(nothing, DRIVER, &[])?;
        self.unsubscribe(subscriber);
        Ok(())
    }

    /// Has these of a domain's callbacks called, all of them or none.
    pub fn subscribe(
        &self,
        callback: Callback,
        domain: u32,
        numbers: &[u32],
    ) -> Result<usize, Refused> {
        /// CUPTI_ERROR_NOT_SUPPORTED.
        const NOT_SUPPORTED: u32 = 27;
        let mut subscriber = 0;
        // SAFETY: writes the one word; the callback stays.
        checked(unsafe { (self.subscribe)(&mut subscriber, callback, std::ptr::null_mut()) })?;
        let enabled = numbers.iter().try_for_each(|number| {
            let enable = self.enable_callback.ok_or(Refused(NOT_SUPPORTED))?;
            // SAFETY: takes numbers.
            checked(unsafe { enable(1, subscriber, domain, *number) })
        });
        if enabled.is_err() {
            self.unsubscribe(subscriber);
        }
        enabled.map(|()| subscriber)
    }

    pub fn unsubscribe(&self, subscriber: usize) {
        // SAFETY: takes a subscriber that CUPTI gave.
        unsafe { (self.unsubscribe)(subscriber) };
    }

    /// The number of a graph's node, as work has it.
    ///
    /// # Safety
    /// The node lives.
    pub unsafe fn node_id(&self, node: *mut c_void) -> Option<u64> {
        let mut id = 0;
        checked(unsafe { (self.node_id?)(node, &mut id) }).ok()?;
        Some(id)
    }

    /// The record after this one; null for the first.
    pub fn next(&self, buffer: *mut u8, valid: usize, record: *mut u8) -> Option<*mut u8> {
        let mut record = record;
        // SAFETY: the buffer is one that CUPTI has just handed over.
        checked(unsafe { (self.next)(buffer, valid, &mut record) }).ok()?;
        Some(record)
    }

    pub fn dropped(&self, context: *mut c_void, stream: u32) -> usize {
        let mut dropped = 0;
        // SAFETY: writes the one word.
        unsafe { (self.dropped)(context, stream, &mut dropped) };
        dropped
    }
}
