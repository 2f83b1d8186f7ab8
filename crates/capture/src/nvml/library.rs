//! libnvidia-ml as far as it is used here, found at run time in the tracer's own process.

use std::ffi::{CStr, CString, c_void};
use std::mem::transmute;
use std::ptr::NonNull;

/// Where it is: the loader's path first, then where containers and other systems put it.
const PLACES: [&str; 4] = [
    "libnvidia-ml.so.1",
    "/usr/local/nvidia/lib64/libnvidia-ml.so.1",
    "/run/opengl-driver/lib/libnvidia-ml.so.1",
    "/usr/lib/wsl/lib/libnvidia-ml.so.1",
];

/// `nvmlReturn_t`: 0 is success.
type Status = u32;
type Device = *mut c_void;
type ReadWord = unsafe extern "C" fn(Device, *mut u32) -> Status;
type ReadOf = unsafe extern "C" fn(Device, u32, *mut u32) -> Status;
type ReadLong = unsafe extern "C" fn(Device, *mut u64) -> Status;
type ReadErrors = unsafe extern "C" fn(Device, u32, u32, *mut u64) -> Status;

// nvmlClockType_t, nvmlPcieUtilCounter_t, nvmlTemperatureSensors_t
const CLOCK_SM: u32 = 1;
const CLOCK_MEMORY: u32 = 2;
const PCIE_TX: u32 = 0;
const PCIE_RX: u32 = 1;
const SENSOR_GPU: u32 = 0;
// nvmlMemoryErrorType_t, nvmlEccCounterType_t: since the driver was loaded
const ECC_CORRECTED: u32 = 0;
const ECC_UNCORRECTED: u32 = 1;
const ECC_VOLATILE: u32 = 0;

/// GPUs that are sampled, at most.
const MOST_GPUS: u32 = 64;

#[derive(Debug, thiserror::Error)]
pub enum NvmlError {
    #[error("cannot load libnvidia-ml.so.1 ({0})")]
    Missing(String),
    #[error("libnvidia-ml.so.1 has no {0}")]
    Function(&'static str),
    #[error("{function} failed: NVML status {status}")]
    Failed {
        function: &'static str,
        status: Status,
    },
}

/// The library, initialised. What a GPU does not offer is left out of its samples.
pub struct Library {
    shutdown: Option<unsafe extern "C" fn() -> Status>,
    utilisation: Option<unsafe extern "C" fn(Device, *mut [u32; 2]) -> Status>,
    memory: Option<unsafe extern "C" fn(Device, *mut [u64; 3]) -> Status>,
    power: Option<ReadWord>,
    clock: Option<ReadOf>,
    temperature: Option<ReadOf>,
    pcie: Option<ReadOf>,
    clock_limits: Option<ReadLong>,
    max_clock: Option<ReadOf>,
    ecc_errors: Option<ReadErrors>,
    devices: Vec<Device>,
}

// SAFETY: NVML may be used from any thread, and handles are the process's.
unsafe impl Send for Library {}

/// What a GPU did at one moment. None: it does not say.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sample {
    pub gpu_percent: Option<u64>,
    pub memory_percent: Option<u64>,
    pub memory_used: Option<u64>,
    pub power_mw: Option<u64>,
    pub sm_clock_mhz: Option<u64>,
    pub memory_clock_mhz: Option<u64>,
    pub temperature: Option<u64>,
    /// What keeps the clocks down, as bits: nvmlClocksEventReasons.
    pub clock_limits: Option<u64>,
}

/// What changes rarely: errors of memory, and the highest clock.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Health {
    pub sm_clock_max_mhz: Option<u64>,
    pub ecc_corrected: Option<u64>,
    pub ecc_uncorrected: Option<u64>,
}

/// Whether the library is there; whether there are GPUs is not asked.
pub fn available() -> Result<(), NvmlError> {
    load().map(drop)
}

impl Library {
    pub fn open() -> Result<Library, NvmlError> {
        let handle = load()?;
        let find = |name: &CStr| {
            // SAFETY: a handle that is never closed, and a name that ends.
            NonNull::new(unsafe { libc::dlsym(handle.as_ptr(), name.as_ptr()) })
        };
        let need = |name: &'static CStr| {
            find(name).ok_or(NvmlError::Function(name.to_str().unwrap_or("a function")))
        };
        let (init, count, by_index) = (
            need(c"nvmlInit_v2")?,
            need(c"nvmlDeviceGetCount_v2")?,
            need(c"nvmlDeviceGetHandleByIndex_v2")?,
        );
        // SAFETY: these are the functions' types, by NVML's interface, which has kept them.
        unsafe {
            let init: unsafe extern "C" fn() -> Status = transmute(init.as_ptr());
            done("nvmlInit_v2", init())?;
            let mut library = Library {
                shutdown: find(c"nvmlShutdown").map(|found| transmute(found.as_ptr())),
                utilisation: find(c"nvmlDeviceGetUtilizationRates")
                    .map(|found| transmute(found.as_ptr())),
                memory: find(c"nvmlDeviceGetMemoryInfo").map(|found| transmute(found.as_ptr())),
                power: find(c"nvmlDeviceGetPowerUsage").map(|found| transmute(found.as_ptr())),
                clock: find(c"nvmlDeviceGetClockInfo").map(|found| transmute(found.as_ptr())),
                temperature: find(c"nvmlDeviceGetTemperature")
                    .map(|found| transmute(found.as_ptr())),
                pcie: find(c"nvmlDeviceGetPcieThroughput").map(|found| transmute(found.as_ptr())),
                // Its name before driver 535.
                clock_limits: find(c"nvmlDeviceGetCurrentClocksEventReasons")
                    .or_else(|| find(c"nvmlDeviceGetCurrentClocksThrottleReasons"))
                    .map(|found| transmute(found.as_ptr())),
                max_clock: find(c"nvmlDeviceGetMaxClockInfo")
                    .map(|found| transmute(found.as_ptr())),
                ecc_errors: find(c"nvmlDeviceGetTotalEccErrors")
                    .map(|found| transmute(found.as_ptr())),
                devices: Vec::new(),
            };
            let count: unsafe extern "C" fn(*mut u32) -> Status = transmute(count.as_ptr());
            let by_index: unsafe extern "C" fn(u32, *mut Device) -> Status =
                transmute(by_index.as_ptr());
            let mut devices = 0;
            done("nvmlDeviceGetCount_v2", count(&mut devices))?;
            for index in 0..devices.min(MOST_GPUS) {
                let mut device = std::ptr::null_mut();
                // One that we may not use keeps its place.
                if by_index(index, &mut device) != 0 {
                    device = std::ptr::null_mut();
                }
                library.devices.push(device);
            }
            Ok(library)
        }
    }

    /// How many GPUs there are.
    pub fn gpus(&self) -> usize {
        self.devices.len()
    }

    pub fn sample(&self, gpu: usize) -> Sample {
        let Some(device) = self.device(gpu) else {
            return Sample::default();
        };
        let (mut rates, mut memory) = ([0; 2], [0; 3]);
        // SAFETY: structs of the lengths that NVML writes: two words; total, free and used.
        let (rated, told) = unsafe {
            (
                (self.utilisation).is_some_and(|read| read(device, &mut rates) == 0),
                (self.memory).is_some_and(|read| read(device, &mut memory) == 0),
            )
        };
        Sample {
            gpu_percent: rated.then_some(rates[0].into()),
            memory_percent: rated.then_some(rates[1].into()),
            memory_used: told.then_some(memory[2]),
            power_mw: self.power.and_then(|read| {
                let mut value = 0;
                // SAFETY: one word.
                (unsafe { read(device, &mut value) } == 0).then_some(value.into())
            }),
            sm_clock_mhz: read_of(self.clock, device, CLOCK_SM),
            memory_clock_mhz: read_of(self.clock, device, CLOCK_MEMORY),
            temperature: read_of(self.temperature, device, SENSOR_GPU),
            clock_limits: self.clock_limits.and_then(|read| {
                let mut bits = 0;
                // SAFETY: one long word.
                (unsafe { read(device, &mut bits) } == 0).then_some(bits)
            }),
        }
    }

    pub fn health(&self, gpu: usize) -> Health {
        let Some(device) = self.device(gpu) else {
            return Health::default();
        };
        let errors = |kind| {
            let mut count = 0;
            // SAFETY: one long word.
            let status = unsafe { self.ecc_errors?(device, kind, ECC_VOLATILE, &mut count) };
            (status == 0).then_some(count)
        };
        Health {
            sm_clock_max_mhz: read_of(self.max_clock, device, CLOCK_SM),
            ecc_corrected: errors(ECC_CORRECTED),
            ecc_uncorrected: errors(ECC_UNCORRECTED),
        }
    }

    /// Bytes a second received and sent over PCIe; NVML measures for 20 ms each.
    pub fn pcie(&self, gpu: usize) -> (Option<u64>, Option<u64>) {
        let Some(device) = self.device(gpu) else {
            return (None, None);
        };
        let rate = |counter| read_of(self.pcie, device, counter).map(|rate| rate * 1024);
        (rate(PCIE_RX), rate(PCIE_TX))
    }

    fn device(&self, gpu: usize) -> Option<Device> {
        self.devices
            .get(gpu)
            .copied()
            .filter(|device| !device.is_null())
    }
}

impl Drop for Library {
    fn drop(&mut self) {
        if let Some(shutdown) = self.shutdown {
            // SAFETY: initialised once, and not used any more.
            unsafe { shutdown() };
        }
    }
}

fn read_of(read: Option<ReadOf>, device: Device, what: u32) -> Option<u64> {
    let mut value = 0;
    // SAFETY: one word.
    (unsafe { read?(device, what, &mut value) } == 0).then_some(value.into())
}

fn done(function: &'static str, status: Status) -> Result<(), NvmlError> {
    match status {
        0 => Ok(()),
        status => Err(NvmlError::Failed { function, status }),
    }
}

/// Never closed: its threads and handlers may outlive our use of it.
fn load() -> Result<NonNull<c_void>, NvmlError> {
    let mut why = String::new();
    for place in PLACES {
        let Ok(name) = CString::new(place) else {
            continue;
        };
        // SAFETY: running a library's constructors is what is asked for.
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        if let Some(handle) = NonNull::new(handle) {
            return Ok(handle);
        }
        if why.is_empty() {
            // SAFETY: the text is valid until the next call.
            let text = unsafe { libc::dlerror() };
            if !text.is_null() {
                // SAFETY: as above.
                why = unsafe { CStr::from_ptr(text) }
                    .to_string_lossy()
                    .into_owned();
            }
        }
    }
    Err(NvmlError::Missing(why))
}
