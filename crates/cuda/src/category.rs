//! What a function is about, by its name: rules, so that functions not yet invented land
//! sensibly. A test lists what they say of every function known today.

use event::{
    Category::{self, *},
    matches_glob,
};

use crate::lookup::family;

/// Globs over the name without prefix and version (`MemAlloc` for `cuMemAlloc_v2`); the first
/// that matches decides. Particular cases stand above the general ones they are exceptions to.
const PARTICULAR: &[(&str, Category)] = &[
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
];

/// Likewise, for what only asks.
const QUESTIONS: &[&str] = &[
    "Get*",
    "DeviceGet",
    "*Query",
    "PeekAtLastError",
    "Occupancy*",
    "*CanAccessPeer",
    "ChooseDevice",
    "*IsLoaded",
    "*Enumerate*",
    "DeviceComputeCapability",
    "DeviceTotalMem",
    "CreateChannelDesc",
];

/// As above, for what is no question.
const GENERAL: &[(&str, Category)] = &[
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
    let first = |rules: &[(&str, Category)]| {
        let mut rules = rules.iter();
        let rule = rules.find(|(glob, _)| matches_glob(glob.as_bytes(), stem.as_bytes()));
        rule.map(|&(_, category)| category)
    };
    first(PARTICULAR)
        .or_else(|| is_question(stem).then_some(Query))
        .or_else(|| first(GENERAL))
        .unwrap_or(Other)
}

fn is_question(stem: &str) -> bool {
    // Get as a word of its own, which tells it from Getter.
    let mut gets = stem
        .match_indices("Get")
        .map(|(at, get)| &stem[at + get.len()..]);
    gets.any(|rest| rest.starts_with(|c: char| c.is_ascii_uppercase()))
        || (QUESTIONS.iter()).any(|glob| matches_glob(glob.as_bytes(), stem.as_bytes()))
}
