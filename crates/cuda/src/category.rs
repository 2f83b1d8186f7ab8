//! What a function is about, by its name: rules, so that functions not yet invented land
//! sensibly. A test lists what they say of every function known today.

use event::Category::{self, *};

use crate::lookup::family;

/// Globs over the name without prefix and version (`MemAlloc` for `cuMemAlloc_v2`); the first
/// that matches decides. Particular cases stand above the general ones they are exceptions to.
const RULES: &[(&str, Category)] = &[
    // Graphs hold nodes of every kind; capture builds graphs out of streams.
    ("*Capture*", Graph),
    ("StreamIsCapturing", Graph),
    ("UserObject*", Graph),
    ("Graphics*Get*", Query),
    ("Graphics*", Memory),
    ("Graph*", Graph),
    ("DeviceGraph*", Graph),
    ("DeviceSetGraphMemAttribute", Graph),
    // Waiting is about waiting, whatever one waits for.
    ("*Synchronize", Sync),
    ("*ExternalSemaphore*", Sync),
    ("FlushGPUDirectRDMAWrites", Sync),
    ("DeviceFlushGPUDirectRDMAWrites", Sync),
    // Registration and loading of code, also where the verb is Get.
    ("RegisterFatBinary*", Module),
    ("UnregisterFatBinary", Module),
    ("RegisterFunction", Module),
    ("Register*Var", Module),
    ("RegisterUnifiedTable", Module),
    ("InitModule", Module),
    ("GetKernel", Module),
    ("GetFuncBySymbol", Module),
    ("ModuleGetLoadingMode", Query),
    ("ModuleGetFunctionCount", Query),
    ("ModuleGet*", Module),
    ("LibraryGetKernelCount", Query),
    ("LibraryGet*", Module),
    ("KernelGetFunction", Module),
    ("Module*", Module),
    ("Library*", Module),
    ("Link*", Module),
    ("FuncLoad", Module),
    ("GetExportTable", Init),
    ("Init", Init),
    ("InitDevice", Init),
    ("*ApiInit", Init),
    // Moving and filling.
    ("Memcpy*", Transfer),
    ("Memset*", Transfer),
    ("Mem*Prefetch*", Transfer),
    ("MemBatchDecompress*", Transfer),
    // Work on the device.
    ("LaunchHostFunc*", Stream),
    ("Launch*", Kernel),
    ("*CallConfiguration", Kernel),
    ("ConfigureCall", Kernel),
    ("SetupArgument", Kernel),
    ("ParamSet*", Kernel),
    // Handles that can be passed on are made, not asked for.
    ("IpcGetMemHandle", Memory),
    ("IpcGetEventHandle", Event),
    ("MemHostGetDevicePointer", Memory),
    ("HostGetDevicePointer", Memory),
    ("MemGetHandleForAddressRange", Memory),
    ("ExternalMemoryGetMapped*", Memory),
    ("EventElapsedTime", Event),
    // Questions.
    ("Get*", Query),
    ("*Get[A-Z]*", Query),
    ("DeviceGet", Query),
    ("*Query", Query),
    ("PeekAtLastError", Query),
    ("Occupancy*", Query),
    ("*CanAccessPeer", Query),
    ("ChooseDevice", Query),
    ("*IsLoaded", Query),
    ("*Enumerate*", Query),
    ("DeviceComputeCapability", Query),
    ("DeviceTotalMem", Query),
    ("CreateChannelDesc", Query),
    // Tools' own affairs, whatever words they use.
    ("Logs*", Other),
    ("Coredump*", Other),
    ("Checkpoint*", Other),
    ("Profiler*", Other),
    // Contexts, and the runtime's devices, which stand for their primary contexts.
    ("CtxRecordEvent", Event),
    ("CtxWaitEvent", Event),
    ("GreenCtxRecordEvent", Event),
    ("GreenCtxWaitEvent", Event),
    ("GreenCtxStreamCreate", Stream),
    ("*Ctx*", Context),
    ("SetDevice*", Context),
    ("SetValidDevices", Context),
    ("DevResource*", Context),
    ("DevSmResource*", Context),
    ("DeviceReset", Context),
    ("DeviceSetMemPool", Memory),
    ("DeviceSet*", Context),
    ("*PeerAccess", Context),
    ("Thread*", Context),
    ("*GLSetGLDevice", Context),
    ("VDPAUSet*", Context),
    ("GLInit", Init),
    // Streams and events.
    ("EventCreateFromEGLSync", Event),
    ("IpcOpenEventHandle", Event),
    ("Event*", Event),
    ("StreamAttachMemAsync", Memory),
    ("EGLStream*", Stream),
    ("Stream*", Stream),
    // Kernels as objects.
    ("Func*", Kernel),
    ("Kernel*", Kernel),
    // Memory and what views it.
    ("IpcOpenMemHandle", Memory),
    ("IpcCloseMemHandle", Memory),
    ("*MemPool*", Memory),
    ("Mem*", Memory),
    ("Malloc*", Memory),
    ("Free*", Memory),
    ("Host*", Memory),
    ("Pointer*", Memory),
    ("*Array*", Memory),
    ("*ExternalMemory*", Memory),
    ("Tex*", Memory),
    ("Surf*", Memory),
    ("*TextureObject", Memory),
    ("*SurfaceObject", Memory),
    ("*BindTexture*", Memory),
    ("BindSurface*", Memory),
    ("TensorMap*", Memory),
    ("Multicast*", Memory),
    ("GL*BufferObject*", Memory),
    // Words that place what no rule above knows.
    ("*Graph*", Graph),
    ("*Stream*", Stream),
    ("*Event*", Event),
    ("*Kernel*", Kernel),
    ("*Mem*", Memory),
    ("*Module*", Module),
];

/// The category of any function, known or not.
pub fn category(name: &str) -> Category {
    let name = family(name);
    let stem = ["__cuda", "cuda", "cu"]
        .iter()
        .find_map(|prefix| name.strip_prefix(prefix));
    // cublasCreate, cufftPlan1d: cu is no prefix there, and other libraries have other words.
    let Some(stem) = stem.filter(|stem| stem.starts_with(|c: char| c.is_ascii_uppercase())) else {
        return Other;
    };
    RULES
        .iter()
        .find(|(glob, _)| matches(glob.as_bytes(), stem.as_bytes()))
        .map_or(Other, |&(_, category)| category)
}

/// `*` is any run of characters, `[A-Z]` one capital: enough to tell `Get` from `Getter`.
fn matches(glob: &[u8], text: &[u8]) -> bool {
    if let Some(rest) = glob.strip_prefix(b"[A-Z]") {
        return text.first().is_some_and(u8::is_ascii_uppercase) && matches(rest, &text[1..]);
    }
    match glob.split_first() {
        None => text.is_empty(),
        Some((b'*', rest)) => (0..=text.len()).any(|skip| matches(rest, &text[skip..])),
        Some((want, rest)) => text.first() == Some(want) && matches(rest, &text[1..]),
    }
}
