//! What the process and each thread have initialised: the driver, the devices, the primary
//! contexts, and which device a thread chose.

use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use crate::api::properties::{self, DeviceProp};
use crate::driver::{Api, Driver, Streams};
use crate::error::{Error, Outcome};
use crate::types::Handle;
use crate::{RUNTIME_VERSION, registry};

pub(crate) struct Runtime {
    pub(crate) driver: &'static Driver,
    devices: Vec<Device>,
    /// Counts cudaDeviceReset, so that every thread notices on its next call.
    resets: AtomicU64,
}

struct Device {
    /// The primary context, null until retained.
    primary: AtomicPtr<c_void>,
    /// Read once, when the runtime starts, as NVIDIA's does.
    properties: Box<DeviceProp>,
}

struct Thread {
    /// What cudaSetDevice chose.
    device: Cell<c_int>,
    /// The primary context that this module last made current here, and its device.
    primary: Cell<(Handle, c_int)>,
    /// One more than `Runtime::resets` when this thread last had a context made current.
    ready: Cell<u64>,
    initialising: Cell<bool>,
}

thread_local! {
    static THREAD: Thread = const {
        Thread {
            device: Cell::new(0),
            primary: Cell::new((null_mut(), 0)),
            ready: Cell::new(0),
            initialising: Cell::new(false),
        }
    };
}

static RUNTIME: OnceLock<Runtime> = OnceLock::new();

impl Runtime {
    pub(crate) fn get() -> Result<&'static Runtime, Error> {
        match RUNTIME.get() {
            Some(runtime) => Ok(runtime),
            None => Runtime::initialise(),
        }
    }

    /// The runtime if some call has initialised it.
    pub(crate) fn if_started() -> Option<&'static Runtime> {
        RUNTIME.get()
    }

    #[cold]
    fn initialise() -> Result<&'static Runtime, Error> {
        static INITIALISING: Mutex<()> = Mutex::new(());
        // A library that the driver loads inside cuInit may call the runtime from there.
        if THREAD.with(|thread| thread.initialising.get()) {
            return Err(Error::INITIALIZATION);
        }
        let guard = INITIALISING.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(runtime) = RUNTIME.get() {
            return Ok(runtime);
        }
        THREAD.with(|thread| thread.initialising.set(true));
        let started = Runtime::start();
        THREAD.with(|thread| thread.initialising.set(false));
        let runtime = RUNTIME.get_or_init({
            let started = started?;
            || started
        });
        drop(guard);
        registry::load_managed(runtime.api(Streams::Legacy));
        Ok(runtime)
    }

    fn start() -> Result<Runtime, Error> {
        let driver = Driver::find().ok_or(Error::INSUFFICIENT_DRIVER)?;
        let cu = driver.api(Streams::Legacy);
        let (mut version, mut count) = (0, 0);
        unsafe {
            cu.cuDriverGetVersion(&mut version)?;
            if version / 1000 < RUNTIME_VERSION / 1000 {
                return Err(Error::INSUFFICIENT_DRIVER);
            }
            cu.cuInit(0)?;
            cu.cuDeviceGetCount(&mut count)?;
        }
        if count < 1 {
            return Err(Error::NO_DEVICE);
        }
        let devices = (0..count).map(|device| {
            let properties = properties::of_device(cu, device)?;
            let primary = AtomicPtr::new(null_mut());
            Ok(Device {
                primary,
                properties,
            })
        });
        let devices = devices.collect::<Result<_, Error>>()?;
        let resets = AtomicU64::new(0);
        Ok(Runtime {
            driver,
            devices,
            resets,
        })
    }

    pub(crate) fn api(&self, streams: Streams) -> &Api {
        self.driver.api(streams)
    }

    pub(crate) fn device_count(&self) -> c_int {
        self.devices.len() as c_int
    }

    fn device(&self, device: c_int) -> Result<&Device, Error> {
        let at = usize::try_from(device).map_err(|_| Error::INVALID_DEVICE)?;
        self.devices.get(at).ok_or(Error::INVALID_DEVICE)
    }

    pub(crate) fn properties(&self, device: c_int) -> Result<&DeviceProp, Error> {
        Ok(&self.device(device)?.properties)
    }

    /// The primary context of a device, retained once for the process. Two threads may both
    /// retain it the first time; the later one gives its reference back.
    pub(crate) fn primary(&self, device: c_int) -> Result<Handle, Error> {
        let slot = &self.device(device)?.primary;
        let known = slot.load(Ordering::Acquire);
        if !known.is_null() {
            return Ok(known);
        }
        let cu = self.api(Streams::Legacy);
        let mut context = null_mut();
        unsafe { cu.cuDevicePrimaryCtxRetain(&mut context, device)? };
        let exchanged =
            slot.compare_exchange(null_mut(), context, Ordering::AcqRel, Ordering::Acquire);
        if let Err(winner) = exchanged {
            let _ = unsafe { cu.cuDevicePrimaryCtxRelease(device) };
            return Ok(winner);
        }
        Ok(context)
    }

    /// Destroys the primary context of a device; the next call makes it anew.
    pub(crate) fn reset(&self, device: c_int) -> Outcome {
        let slot = &self.device(device)?.primary;
        unsafe { self.api(Streams::Legacy).cuDevicePrimaryCtxReset(device)? };
        slot.store(null_mut(), Ordering::Release);
        self.resets.fetch_add(1, Ordering::AcqRel);
        Ok(())
    }
}

/// Makes sure that a context is current: the one a driver call has set, or else the primary
/// context of the thread's device.
pub(crate) fn ensure(runtime: &Runtime) -> Outcome {
    let now = runtime.resets.load(Ordering::Acquire) + 1;
    if THREAD.with(|thread| thread.ready.get()) == now {
        return Ok(());
    }
    let current = current(runtime.api(Streams::Legacy))?;
    let (ours, device) = THREAD.with(|thread| thread.primary.get());
    if current.is_null() {
        make_primary_current(runtime, chosen_device())?;
    } else if current == ours {
        // A reset has destroyed it, though it is still the current one: make it anew.
        make_primary_current(runtime, device)?;
    }
    THREAD.with(|thread| thread.ready.set(now));
    Ok(())
}

fn make_primary_current(runtime: &Runtime, device: c_int) -> Outcome {
    let primary = runtime.primary(device)?;
    unsafe { runtime.api(Streams::Legacy).cuCtxSetCurrent(primary)? };
    THREAD.with(|thread| thread.primary.set((primary, device)));
    Ok(())
}

/// Whether no context is current although this thread had one.
pub(crate) fn lost(runtime: &Runtime) -> bool {
    let gone = current(runtime.api(Streams::Legacy)).is_ok_and(|context| context.is_null());
    if gone {
        THREAD.with(|thread| thread.ready.set(0));
    }
    gone
}

pub(crate) fn current(cu: &Api) -> Result<Handle, Error> {
    let mut context = null_mut();
    unsafe { cu.cuCtxGetCurrent(&mut context)? };
    Ok(context)
}

fn device_of_context(cu: &Api) -> Result<c_int, Error> {
    let mut device = 0;
    unsafe { cu.cuCtxGetDevice_v2000(&mut device)? };
    Ok(device)
}

/// The device this thread chose, 0 before it chose.
pub(crate) fn chosen_device() -> c_int {
    THREAD.with(|thread| thread.device.get())
}

/// The device of the current context, or the one this thread would use.
pub(crate) fn device(cu: &Api) -> Result<c_int, Error> {
    match device_of_context(cu) {
        Err(Error::NO_CONTEXT) => Ok(chosen_device()),
        answer => answer,
    }
}

/// cudaSetDevice: the primary context is made at once, as from CUDA 12 on.
pub(crate) fn choose_device(runtime: &Runtime, device: c_int) -> Outcome {
    let now = runtime.resets.load(Ordering::Acquire) + 1;
    make_primary_current(runtime, device)?;
    THREAD.with(|thread| {
        thread.device.set(device);
        thread.ready.set(now);
    });
    Ok(())
}

/// Runs a body with a device's primary context current, then restores what was.
pub(crate) fn on_device(
    runtime: &Runtime,
    device: c_int,
    body: impl FnOnce(&Api) -> Outcome,
) -> Outcome {
    let cu = runtime.api(Streams::Legacy);
    unsafe { cu.cuCtxPushCurrent(runtime.primary(device)?)? };
    let outcome = body(cu);
    let mut popped = null_mut();
    unsafe { cu.cuCtxPopCurrent(&mut popped)? };
    outcome
}
