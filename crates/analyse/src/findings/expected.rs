//! Errors that libraries cause on purpose: an answer to a question, or a farewell to a driver that has
//! gone already. Seen in PyTorch, CuPy, JAX and NVIDIA's own libraries.

use super::signs::Failure;
use cuda::family;

const INVALID_VALUE: i64 = 1;
const NOT_INITIALIZED: i64 = 3;
const DEINITIALIZED: i64 = 4;
const INVALID_CONTEXT: i64 = 201;
const NOT_FOUND: i64 = 500;
const NOT_READY: i64 = 600;
const PEER_ACCESS_ENABLED: i64 = 704;
const HOST_MEMORY_REGISTERED: i64 = 712;
const NOT_SUPPORTED: i64 = 801;

/// Why this failure is none; None if it is one.
pub(crate) fn why(failure: &Failure) -> Option<&'static str> {
    why_not(&failure.function, failure.code)
}

/// The same for one call.
pub(crate) fn why_not(function: &str, code: i64) -> Option<&'static str> {
    let family = family(function);
    let asks = asks(family);
    Some(match code {
        NOT_READY => "a query's normal answer: work is still running",
        // cuLibraryUnload, cuDevicePrimaryCtxRelease, cuMemFree from destructors.
        DEINITIALIZED => "the process is exiting, and the driver shut down before the library",
        PEER_ACCESS_ENABLED => "peer access is already enabled",
        HOST_MEMORY_REGISTERED => "the memory is already registered",
        NOT_FOUND | NOT_SUPPORTED
            if asks || family.contains("GetExportTable") || family.contains("GetProc") =>
        {
            "asks whether a function or attribute exists"
        }
        NOT_INITIALIZED if asks => "asks before CUDA is initialised",
        INVALID_CONTEXT | INVALID_VALUE if family.contains("Pointer") => {
            "asks whether a pointer is CUDA's"
        }
        // cudaGetDevice and cudaSetDevice ask the driver this before there is a context.
        INVALID_CONTEXT if asks || family.contains("CtxPopCurrent") => {
            "asks before the thread has a context"
        }
        INVALID_VALUE if asks => "asks whether something is valid",
        _ if matches!(family, "cudaGetLastError" | "cudaPeekAtLastError") => {
            "repeats an error that another call returned"
        }
        _ => return None,
    })
}

/// Functions whose only purpose is the answer.
fn asks(family: &str) -> bool {
    ["Get", "Query", "CanAccess", "IsCapturing", "Attribute"]
        .iter()
        .any(|word| family.contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(function: &str, code: i64) -> Failure {
        Failure {
            function: function.into(),
            code,
            error: None,
            count: 1,
            ops: Vec::new(),
            from: 0,
            to: 0,
            calls_after: 1,
            launched: Vec::new(),
            asked_bytes: None,
        }
    }

    #[test]
    fn answers_are_no_failures() {
        for (function, code) in [
            ("cuStreamQuery", 600),
            ("cudaEventQuery", 600),
            ("cuCtxGetCurrent", 3),
            ("cuCtxGetDevice", 201),
            ("cuCtxGetDevice_v2", 201),
            ("cuLibraryUnload", 4),
            ("cuDevicePrimaryCtxRelease", 4),
            ("cuPointerGetAttribute", 1),
            ("cudaPointerGetAttributes", 1),
            ("cuGetExportTable", 500),
            ("cuGetProcAddress_v2", 500),
            ("cudaGetLastError", 700),
            ("cuCtxEnablePeerAccess", 704),
            ("cuMemFree_v2", 4),
        ] {
            assert!(why(&failure(function, code)).is_some(), "{function} {code}");
        }
        for (function, code) in [
            ("cuMemAlloc_v2", 2),
            ("cuLaunchKernel", 1),
            ("cuMemcpyDtoH_v2", 700),
            ("cuStreamSynchronize", 700),
            ("cudaMalloc", 2),
            ("cuModuleLoadData", 218),
            ("cuCtxSetCurrent", 3),
        ] {
            assert!(why(&failure(function, code)).is_none(), "{function} {code}");
        }
    }
}
