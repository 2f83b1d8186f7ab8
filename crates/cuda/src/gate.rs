//! Which gate a function's calls pass on their way into a recording (`event::ring::Counters::gates`). Injected code and
//! the tracer agree by this: the one looks at a function's gate, the other opens and closes it.

use crate::{category, family};
use event::{Category, ring::GATES};

/// What other calls are understood by (memory, contexts, modules, names of kernels): never closed.
pub const ALWAYS: u8 = 0;
/// Questions.
pub const QUERIES: u8 = 1;
/// Copies whose third argument is their size.
pub const COPIES: u8 = 2;
/// No function: the stacks that calls come with.
pub const STACKS: u8 = 3;
/// The driver's launches, one kernel each.
pub const LAUNCHES: u8 = 4;
/// The runtime's, each of which makes one of the driver's.
pub const RUNTIME_LAUNCHES: u8 = 5;
/// What a program does before one of those: `kernel<<<…>>>` is three calls.
pub const CONFIGURATIONS: u8 = 6;
/// From here on functions share a gate only by chance.
const FIRST: u8 = 8;

/// Calls of these categories mean something by themselves.
const ALONE: [Category; 6] = [
    Category::Query,
    Category::Transfer,
    Category::Kernel,
    Category::Sync,
    Category::Event,
    Category::Other,
];

/// Functions of those categories that tell what later calls mean.
const TELLING: [&str; 19] = [
    "cuCtxGetCurrent",
    "cuCtxGetDevice",
    "cuFuncSetBlockShape",
    "cuFuncSetSharedSize",
    "cuStreamGetCtx",
    "cudaFuncGetName",
    "cuCtxPopCurrent",
    "cudaGetDevice",
    "cuFuncGetModule",
    "cuFuncGetName",
    "cuKernelGetFunction",
    "cuKernelGetName",
    "cuKernelGetLibrary",
    "cuLibraryGetKernel",
    "cuModuleGetFunction",
    "cuModuleEnumerateFunctions",
    "cudaGetFuncBySymbol",
    "cudaGetKernel",
    "cuEventCreate",
];

/// Functions that launch one kernel. No argument of theirs is a floating-point number, so their calls can be shed.
const LAUNCHES_OF_THE_DRIVER: [&str; 3] = [
    "cuLaunchKernel",
    "cuLaunchKernelEx",
    "cuLaunchCooperativeKernel",
];
const CALL_CONFIGURATIONS: [&str; 2] =
    ["__cudaPushCallConfiguration", "__cudaPopCallConfiguration"];
const LAUNCHES_OF_THE_RUNTIME: [&str; 4] = [
    "cudaLaunchKernel",
    "cudaLaunchKernelExC",
    "cudaLaunchCooperativeKernel",
    "__cudaLaunchKernel",
];

/// The class of a function. `brief`: its arguments are all in registers and its record is one slot; besides launches only
/// such calls can be shed one by one.
pub fn class(name: &str, brief: bool) -> u8 {
    let plain = family(name);
    let kind = category(name);
    if LAUNCHES_OF_THE_DRIVER.contains(&plain) {
        return LAUNCHES;
    }
    if LAUNCHES_OF_THE_RUNTIME.contains(&plain) {
        return RUNTIME_LAUNCHES;
    }
    if CALL_CONFIGURATIONS.contains(&plain) {
        return CONFIGURATIONS;
    }
    if name.starts_with("__cuda")
        || name.starts_with("nvtx")
        || plain.contains("Profiler")
        || TELLING.contains(&plain)
        || !ALONE.contains(&kind)
    {
        return ALWAYS;
    }
    match kind {
        Category::Query if brief => QUERIES,
        Category::Transfer if brief && is_linear(plain) => COPIES,
        _ => shared(name),
    }
}

/// `cuMemcpyHtoD(to, from, bytes)`, `cudaMemcpyAsync(to, from, bytes, …)`
fn is_linear(family: &str) -> bool {
    let stem = family
        .strip_prefix("cudaMemcpy")
        .or_else(|| family.strip_prefix("cuMemcpy"));
    let stem = stem.map(|stem| stem.strip_suffix("Async").unwrap_or(stem));
    matches!(stem, Some("" | "HtoD" | "DtoH" | "DtoD"))
}

/// By its name.
fn shared(name: &str) -> u8 {
    let mix = |sum: u32, byte: u8| (sum ^ u32::from(byte)).wrapping_mul(0x0100_0193);
    let sum = name.bytes().fold(0x811c_9dc5, mix);
    let room = GATES as u32 - u32::from(FIRST);
    FIRST + ((sum ^ sum >> 15) % room) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_pass_the_gate_of_their_class() {
        for (name, brief, expected) in [
            ("cuMemAlloc_v2", true, ALWAYS),
            ("cudaFree", true, ALWAYS),
            ("cuModuleLoadData", true, ALWAYS),
            ("__cudaRegisterFunction", false, ALWAYS),
            ("cuProfilerStart", true, ALWAYS),
            ("cuCtxSetCurrent", true, ALWAYS),
            ("cuDeviceGetAttribute", true, QUERIES),
            ("cuMemcpyHtoDAsync_v2", true, COPIES),
            ("cudaMemcpy", true, COPIES),
            ("cuLaunchKernel", false, LAUNCHES),
            ("cuLaunchKernelEx_ptsz", false, LAUNCHES),
            ("cudaLaunchKernel_ptsz", false, RUNTIME_LAUNCHES),
            ("__cudaLaunchKernel", false, RUNTIME_LAUNCHES),
            ("__cudaPopCallConfiguration", false, CONFIGURATIONS),
        ] {
            assert_eq!(class(name, brief), expected, "{name}");
        }
        // These have no size where it is looked for, or no record of one slot.
        for (name, brief) in [
            ("cuMemcpy2D_v2", true),
            ("cuMemcpyPeer", true),
            ("cuMemcpyHtoD_v2", false),
            ("cuStreamSynchronize", true),
            ("ncclAllReduce", false),
            // One call of this launches several kernels.
            ("cuLaunchCooperativeKernelMultiDevice", false),
        ] {
            assert!((FIRST..GATES as u8).contains(&class(name, brief)), "{name}");
        }
    }
}
