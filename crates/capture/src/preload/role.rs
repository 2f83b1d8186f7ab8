//! What calls of a function mean beyond themselves, by its name: memory that comes and goes, bytes
//! that move, kernels that are launched, and what later calls can only be understood by.

use event::{Direction, MemorySpace};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    None,
    Allocate(MemorySpace),
    Free,
    Transfer(Route),
    Launch,
}

/// What a copying function's name says of the way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Route {
    Known(Direction),
    /// The argument `kind` says it.
    ByKind,
    /// A struct's memory types say it.
    ByStruct,
    /// The addresses say it.
    ByAddress,
}

impl Role {
    pub fn of(name: &str) -> Self {
        use MemorySpace::{Device, Host, Managed};
        match cuda::family(name) {
            "cuMemAlloc"
            | "cuMemAllocAsync"
            | "cuMemAllocFromPoolAsync"
            | "cuMemAllocPitch"
            | "cuMemCreate"
            | "cudaMalloc"
            | "cudaMallocAsync"
            | "cudaMallocFromPoolAsync"
            | "cudaMallocPitch"
            | "cudaMalloc3D" => Role::Allocate(Device),
            "cuMemAllocHost" | "cuMemHostAlloc" | "cudaMallocHost" | "cudaHostAlloc" => {
                Role::Allocate(Host)
            }
            "cuMemAllocManaged" | "cudaMallocManaged" => Role::Allocate(Managed),
            "cuArrayCreate" | "cuArray3DCreate" => Role::Allocate(MemorySpace::Array),
            "cuMemFree" | "cuMemFreeAsync" | "cuMemFreeHost" | "cuMemRelease"
            | "cuArrayDestroy" | "cudaFree" | "cudaFreeAsync" | "cudaFreeHost" => Role::Free,
            "cuLaunchKernel"
            | "cuLaunchKernelEx"
            | "cuLaunchCooperativeKernel"
            | "cudaLaunchKernel"
            | "cudaLaunchKernelExC"
            | "cudaLaunchCooperativeKernel"
            | "__cudaLaunchKernel" => Role::Launch,
            family => Route::of(family).map_or(Role::None, Role::Transfer),
        }
    }

    /// Whether the two say the same thing: of nested calls the outer one speaks for both.
    pub fn says_the_same(self, other: Role) -> bool {
        std::mem::discriminant(&self) == std::mem::discriminant(&other)
    }
}

impl Route {
    fn of(family: &str) -> Option<Self> {
        use Direction::{DeviceToDevice, DeviceToHost, HostToDevice, HostToHost, Peer};
        if let Some(rest) = family.strip_prefix("cuMemcpy") {
            let rest = rest.strip_suffix("Async").unwrap_or(rest);
            return match rest {
                "HtoD" | "HtoA" => Some(Route::Known(HostToDevice)),
                "DtoH" | "AtoH" => Some(Route::Known(DeviceToHost)),
                "DtoD" | "AtoD" | "DtoA" | "AtoA" => Some(Route::Known(DeviceToDevice)),
                "HtoH" => Some(Route::Known(HostToHost)),
                "Peer" | "3DPeer" => Some(Route::Known(Peer)),
                "2D" | "2DUnaligned" | "3D" => Some(Route::ByStruct),
                "" => Some(Route::ByAddress),
                // Batches are arrays of copies, which are not captured.
                _ => None,
            };
        }
        let rest = family.strip_prefix("cudaMemcpy")?;
        let rest = rest.strip_suffix("Async").unwrap_or(rest);
        match rest {
            "Peer" => Some(Route::Known(Peer)),
            "" | "2D" | "2DToArray" | "2DFromArray" | "ToArray" | "FromArray" | "ArrayToArray"
            | "2DArrayToArray" | "ToSymbol" | "FromSymbol" => Some(Route::ByKind),
            // Their extents count elements of arrays: the driver's call below knows the bytes.
            _ => None,
        }
    }
}

/// What later calls are understood by. The words are names of parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Observed {
    Nothing,
    /// The kernel with this handle has this name.
    KernelName {
        handle: &'static str,
        text: &'static str,
    },
    /// Two handles of one kernel.
    KernelAlias {
        handle: &'static str,
        known: &'static str,
    },
    Context(ContextStep),
}

/// What happened to the thread's current context and device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ContextStep {
    /// Made, and made current.
    Create,
    Set,
    Push,
    Pop,
    Destroy,
    /// The primary context of a device became known.
    Retain,
    /// The current context was asked for.
    Get,
    /// The current device was asked for.
    GetDevice,
    /// The runtime's current device was chosen.
    SetDevice,
}

impl Observed {
    pub fn of(name: &str) -> Self {
        match cuda::family(name) {
            "cuModuleGetFunction" => Observed::KernelName {
                handle: "hfunc",
                text: "name",
            },
            "cuLibraryGetKernel" | "cudaLibraryGetKernel" => Observed::KernelName {
                handle: "pKernel",
                text: "name",
            },
            "__cudaRegisterFunction" => Observed::KernelName {
                handle: "hostFun",
                text: "deviceName",
            },
            "cuKernelGetFunction" => Observed::KernelAlias {
                handle: "pFunc",
                known: "kernel",
            },
            "cudaGetFuncBySymbol" => Observed::KernelAlias {
                handle: "functionPtr",
                known: "symbolPtr",
            },
            "cudaGetKernel" => Observed::KernelAlias {
                handle: "kernelPtr",
                known: "entryFuncAddr",
            },
            "__cudaGetKernel" => Observed::KernelAlias {
                handle: "kernel",
                known: "hostFun",
            },
            "cuCtxCreate" => Observed::Context(ContextStep::Create),
            "cuCtxSetCurrent" => Observed::Context(ContextStep::Set),
            "cuCtxPushCurrent" => Observed::Context(ContextStep::Push),
            "cuCtxPopCurrent" => Observed::Context(ContextStep::Pop),
            "cuCtxDestroy" => Observed::Context(ContextStep::Destroy),
            "cuDevicePrimaryCtxRetain" => Observed::Context(ContextStep::Retain),
            "cuCtxGetCurrent" => Observed::Context(ContextStep::Get),
            "cuCtxGetDevice" | "cudaGetDevice" => Observed::Context(ContextStep::GetDevice),
            "cudaSetDevice" => Observed::Context(ContextStep::SetDevice),
            _ => Observed::Nothing,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_parameter_that_is_looked_for_exists() {
        for function in cuda::functions() {
            let has = |name: &str| function.parameters.iter().any(|row| row.name == name);
            match Observed::of(function.name) {
                Observed::KernelName { handle, text } => assert!(has(handle) && has(text)),
                Observed::KernelAlias { handle, known } => assert!(has(handle) && has(known)),
                Observed::Context(_) | Observed::Nothing => {}
            }
        }
    }

    #[test]
    fn every_copy_has_a_route_or_is_listed_here() {
        let without: Vec<_> = cuda::functions()
            .iter()
            .map(|function| function.name)
            .filter(|name| name.starts_with("cuMemcpy") || name.starts_with("cudaMemcpy"))
            .filter(|name| Role::of(name) == Role::None)
            .collect();
        assert_eq!(
            without,
            [
                "cuMemcpy3DBatchAsync",
                "cuMemcpy3DBatchAsync_v2",
                "cuMemcpyBatchAsync",
                "cuMemcpyBatchAsync_v2",
                "cudaMemcpy3D",
                "cudaMemcpy3DAsync",
                "cudaMemcpy3DBatchAsync",
                "cudaMemcpy3DPeer",
                "cudaMemcpy3DPeerAsync",
                "cudaMemcpyBatchAsync",
            ]
        );
        assert_eq!(
            Role::of("cuMemcpyHtoDAsync_v2_ptsz"),
            Role::of("cuMemcpyHtoD")
        );
    }
}
