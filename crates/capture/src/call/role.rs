//! What calls of a function mean beyond themselves, by its name: memory that comes and goes, bytes
//! that move, kernels that are launched, and what later calls can only be understood by.

use event::{Direction, MemorySpace};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    None,
    Allocate(MemorySpace),
    Free,
    /// Memory whose address and bytes come and go apart: see `state::physical`.
    Physical(Physical),
    /// Memory of another process or API becomes visible, or goes: nobody's allocation here.
    Foreign(Foreign),
    Transfer(Route),
    Launch(Form),
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
    /// The runtime's struct: its kind says it, and its extent counts elements where arrays are.
    Parameters,
    /// Arrays of addresses and sizes.
    Batch,
    /// An array of structs.
    Batch3D,
}

/// How a launch names its kernels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// One kernel, its sizes in the arguments or in a struct.
    One,
    /// The sizes of blocks were set before.
    Legacy,
    /// A list of launches, one a device.
    List,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Physical {
    Create,
    /// A handle of memory that another process made.
    Import,
    /// One more handle of the memory at an address.
    Retain,
    Release,
    Map,
    Unmap,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Foreign {
    Open,
    Close,
}

const DEVICE: Role = Role::Allocate(MemorySpace::Device);
/// The address of a graph's memory is given away when the node is added, and stays the node's: it is
/// told of then, and goes when a node that frees it is added or the program frees it.
const GRAPH: Role = DEVICE;
const HOST: Role = Role::Allocate(MemorySpace::Host);
const MANAGED: Role = Role::Allocate(MemorySpace::Managed);
const ARRAY: Role = Role::Allocate(MemorySpace::Array);
const ONE: Role = Role::Launch(Form::One);
const H2D: Role = Role::Transfer(Route::Known(Direction::HostToDevice));
const D2H: Role = Role::Transfer(Route::Known(Direction::DeviceToHost));
const D2D: Role = Role::Transfer(Route::Known(Direction::DeviceToDevice));
const PEER: Role = Role::Transfer(Route::Known(Direction::Peer));
const BY_KIND: Role = Role::Transfer(Route::ByKind);
const BY_STRUCT: Role = Role::Transfer(Route::ByStruct);
const BY_ADDRESS: Role = Role::Transfer(Route::ByAddress);
const PARAMETERS: Role = Role::Transfer(Route::Parameters);
const BATCH: Role = Role::Transfer(Route::Batch);
const BATCH_3D: Role = Role::Transfer(Route::Batch3D);

/// Names without versions, sorted.
const ROLES: &[(&str, Role)] = &[
    ("__cudaLaunchKernel", ONE),
    ("cuArray3DCreate", ARRAY),
    ("cuArrayCreate", ARRAY),
    ("cuArrayDestroy", Role::Free),
    (
        "cuExternalMemoryGetMappedBuffer",
        Role::Foreign(Foreign::Open),
    ),
    ("cuGraphAddMemAllocNode", GRAPH),
    ("cuGraphAddMemFreeNode", Role::Free),
    ("cuIpcCloseMemHandle", Role::Foreign(Foreign::Close)),
    ("cuIpcOpenMemHandle", Role::Foreign(Foreign::Open)),
    ("cuLaunch", Role::Launch(Form::Legacy)),
    ("cuLaunchCooperativeKernel", ONE),
    (
        "cuLaunchCooperativeKernelMultiDevice",
        Role::Launch(Form::List),
    ),
    ("cuLaunchGrid", Role::Launch(Form::Legacy)),
    ("cuLaunchGridAsync", Role::Launch(Form::Legacy)),
    ("cuLaunchKernel", ONE),
    ("cuLaunchKernelEx", ONE),
    ("cuMemAlloc", DEVICE),
    ("cuMemAllocAsync", DEVICE),
    ("cuMemAllocFromPoolAsync", DEVICE),
    ("cuMemAllocHost", HOST),
    ("cuMemAllocManaged", MANAGED),
    ("cuMemAllocPitch", DEVICE),
    ("cuMemCreate", Role::Physical(Physical::Create)),
    ("cuMemFree", Role::Free),
    ("cuMemFreeAsync", Role::Free),
    ("cuMemFreeHost", Role::Free),
    ("cuMemHostAlloc", HOST),
    (
        "cuMemImportFromShareableHandle",
        Role::Physical(Physical::Import),
    ),
    ("cuMemMap", Role::Physical(Physical::Map)),
    ("cuMemPoolImportPointer", Role::Foreign(Foreign::Open)),
    ("cuMemRelease", Role::Physical(Physical::Release)),
    (
        "cuMemRetainAllocationHandle",
        Role::Physical(Physical::Retain),
    ),
    ("cuMemUnmap", Role::Physical(Physical::Unmap)),
    ("cuMemcpy", BY_ADDRESS),
    ("cuMemcpy2D", BY_STRUCT),
    ("cuMemcpy2DAsync", BY_STRUCT),
    ("cuMemcpy2DUnaligned", BY_STRUCT),
    ("cuMemcpy3D", BY_STRUCT),
    ("cuMemcpy3DAsync", BY_STRUCT),
    ("cuMemcpy3DBatchAsync", BATCH_3D),
    ("cuMemcpy3DPeer", PEER),
    ("cuMemcpy3DPeerAsync", PEER),
    ("cuMemcpyAsync", BY_ADDRESS),
    ("cuMemcpyAtoA", D2D),
    ("cuMemcpyAtoD", D2D),
    ("cuMemcpyAtoH", D2H),
    ("cuMemcpyAtoHAsync", D2H),
    ("cuMemcpyBatchAsync", BATCH),
    ("cuMemcpyDtoA", D2D),
    ("cuMemcpyDtoD", D2D),
    ("cuMemcpyDtoDAsync", D2D),
    ("cuMemcpyDtoH", D2H),
    ("cuMemcpyDtoHAsync", D2H),
    ("cuMemcpyHtoA", H2D),
    ("cuMemcpyHtoAAsync", H2D),
    ("cuMemcpyHtoD", H2D),
    ("cuMemcpyHtoDAsync", H2D),
    ("cuMemcpyPeer", PEER),
    ("cuMemcpyPeerAsync", PEER),
    ("cuMipmappedArrayCreate", ARRAY),
    ("cuMipmappedArrayDestroy", Role::Free),
    (
        "cudaExternalMemoryGetMappedBuffer",
        Role::Foreign(Foreign::Open),
    ),
    ("cudaFree", Role::Free),
    ("cudaFreeArray", Role::Free),
    ("cudaFreeAsync", Role::Free),
    ("cudaFreeHost", Role::Free),
    ("cudaFreeMipmappedArray", Role::Free),
    ("cudaGraphAddMemAllocNode", GRAPH),
    ("cudaGraphAddMemFreeNode", Role::Free),
    ("cudaHostAlloc", HOST),
    ("cudaIpcCloseMemHandle", Role::Foreign(Foreign::Close)),
    ("cudaIpcOpenMemHandle", Role::Foreign(Foreign::Open)),
    ("cudaLaunchCooperativeKernel", ONE),
    (
        "cudaLaunchCooperativeKernelMultiDevice",
        Role::Launch(Form::List),
    ),
    ("cudaLaunchKernel", ONE),
    ("cudaLaunchKernelExC", ONE),
    ("cudaMalloc", DEVICE),
    ("cudaMalloc3D", DEVICE),
    ("cudaMalloc3DArray", ARRAY),
    ("cudaMallocArray", ARRAY),
    ("cudaMallocAsync", DEVICE),
    ("cudaMallocFromPoolAsync", DEVICE),
    ("cudaMallocHost", HOST),
    ("cudaMallocManaged", MANAGED),
    ("cudaMallocMipmappedArray", ARRAY),
    ("cudaMallocPitch", DEVICE),
    ("cudaMemPoolImportPointer", Role::Foreign(Foreign::Open)),
    ("cudaMemcpy", BY_KIND),
    ("cudaMemcpy2D", BY_KIND),
    ("cudaMemcpy2DArrayToArray", BY_KIND),
    ("cudaMemcpy2DAsync", BY_KIND),
    ("cudaMemcpy2DFromArray", BY_KIND),
    ("cudaMemcpy2DFromArrayAsync", BY_KIND),
    ("cudaMemcpy2DToArray", BY_KIND),
    ("cudaMemcpy2DToArrayAsync", BY_KIND),
    ("cudaMemcpy3D", PARAMETERS),
    ("cudaMemcpy3DAsync", PARAMETERS),
    ("cudaMemcpy3DBatchAsync", BATCH_3D),
    ("cudaMemcpy3DPeer", PARAMETERS),
    ("cudaMemcpy3DPeerAsync", PARAMETERS),
    ("cudaMemcpyArrayToArray", BY_KIND),
    ("cudaMemcpyAsync", BY_KIND),
    ("cudaMemcpyBatchAsync", BATCH),
    ("cudaMemcpyFromArray", BY_KIND),
    ("cudaMemcpyFromArrayAsync", BY_KIND),
    ("cudaMemcpyFromSymbol", BY_KIND),
    ("cudaMemcpyFromSymbolAsync", BY_KIND),
    ("cudaMemcpyPeer", PEER),
    ("cudaMemcpyPeerAsync", PEER),
    ("cudaMemcpyToArray", BY_KIND),
    ("cudaMemcpyToArrayAsync", BY_KIND),
    ("cudaMemcpyToSymbol", BY_KIND),
    ("cudaMemcpyToSymbolAsync", BY_KIND),
];

impl Role {
    pub fn of(name: &str) -> Self {
        let family = cuda::family(name);
        ROLES
            .binary_search_by(|row| row.0.cmp(family))
            .map_or(Role::None, |at| ROLES[at].1)
    }

    /// Whether the two say the same thing: of nested calls the outer one speaks for both.
    pub fn says_the_same(self, other: Role) -> bool {
        self != Role::None && std::mem::discriminant(&self) == std::mem::discriminant(&other)
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
    /// The sizes that a legacy launch of this kernel goes by.
    BlockShape,
    SharedSize,
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
    /// A primary context lost all it had.
    Reset,
    /// A stream was made in what is current.
    StreamCreate,
    StreamDestroy,
    /// It was told which context a stream is in.
    StreamContext,
}

impl Observed {
    pub fn of(name: &str) -> Self {
        let named = |handle, text| Observed::KernelName { handle, text };
        let alias = |handle, known| Observed::KernelAlias { handle, known };
        match cuda::family(name) {
            "cuModuleGetFunction" | "cuFuncGetName" | "cuKernelGetName" => named("hfunc", "name"),
            "cuLibraryGetKernel" | "cudaLibraryGetKernel" => named("pKernel", "name"),
            "cudaFuncGetName" => named("func", "name"),
            "__cudaRegisterFunction" => named("hostFun", "deviceName"),
            "cuKernelGetFunction" => alias("pFunc", "kernel"),
            "cudaGetFuncBySymbol" => alias("functionPtr", "symbolPtr"),
            "cudaGetKernel" => alias("kernelPtr", "entryFuncAddr"),
            "__cudaGetKernel" => alias("kernel", "hostFun"),
            "cuFuncSetBlockShape" => Observed::BlockShape,
            "cuFuncSetSharedSize" => Observed::SharedSize,
            "cuCtxCreate" => Observed::Context(ContextStep::Create),
            "cuCtxSetCurrent" => Observed::Context(ContextStep::Set),
            "cuCtxPushCurrent" => Observed::Context(ContextStep::Push),
            "cuCtxPopCurrent" => Observed::Context(ContextStep::Pop),
            "cuCtxDestroy" => Observed::Context(ContextStep::Destroy),
            "cuDevicePrimaryCtxRetain" => Observed::Context(ContextStep::Retain),
            "cuCtxGetCurrent" => Observed::Context(ContextStep::Get),
            "cuCtxGetDevice" | "cudaGetDevice" => Observed::Context(ContextStep::GetDevice),
            "cudaSetDevice" => Observed::Context(ContextStep::SetDevice),
            "cuDevicePrimaryCtxReset" => Observed::Context(ContextStep::Reset),
            "cuStreamCreate"
            | "cuStreamCreateWithPriority"
            | "cudaStreamCreate"
            | "cudaStreamCreateWithFlags"
            | "cudaStreamCreateWithPriority" => Observed::Context(ContextStep::StreamCreate),
            "cuStreamDestroy" | "cudaStreamDestroy" => {
                Observed::Context(ContextStep::StreamDestroy)
            }
            "cuStreamGetCtx" => Observed::Context(ContextStep::StreamContext),
            _ => Observed::Nothing,
        }
    }
}

/// Whether a function gives code back, after which handles may be given out again.
pub fn unloads(name: &str) -> bool {
    matches!(
        cuda::family(name),
        "__cudaUnregisterFatBinary"
            | "cuCtxDestroy"
            | "cuDevicePrimaryCtxRelease"
            | "cuDevicePrimaryCtxReset"
            | "cuLibraryUnload"
            | "cuModuleUnload"
            | "cudaDeviceReset"
            | "cudaLibraryUnload"
    )
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
                _ => {}
            }
        }
    }

    #[test]
    fn roles_are_sorted_and_of_functions_that_exist() {
        assert!(ROLES.windows(2).all(|pair| pair[0].0 < pair[1].0));
        let names: Vec<_> = cuda::functions()
            .iter()
            .chain(cuda::older_functions())
            .map(|function| cuda::family(function.name))
            .collect();
        for (name, _) in ROLES {
            assert!(names.contains(name), "{name}");
        }
        assert_eq!(
            Role::of("cuMemcpyHtoDAsync_v2_ptsz"),
            Role::of("cuMemcpyHtoD")
        );
    }

    /// Functions whose names promise that memory comes or goes, bytes move or kernels run, and
    /// that have no line of their own.
    const WITHOUT: &[(&str, &str)] = &[
        (
            "Graph",
            "describes or asks for nodes: what they do, they do when the graph runs; only memory has \
             its address before, by the functions that add just that",
        ),
        (
            "GraphLaunch",
            "runs a graph: which kernels that are is told by the GPU's own events",
        ),
        ("LaunchHostFunc", "calls the program back on the host"),
        ("memset", "writes memory, and moves nothing"),
        (
            "Prefetch",
            "managed memory moves as far as it is not there yet: bytes are not known",
        ),
        ("HostRegister", "pins memory that the program has already"),
        ("HostUnregister", "pins memory that the program has already"),
        ("AddressFree", "addresses without memory"),
        ("AllocationGranularity", "only asks"),
        ("AllocationPropertiesFromHandle", "only asks"),
        ("IpcGetMemHandle", "only asks"),
        ("SetMemPool", "chooses a pool"),
        (
            "MemPoolImportFromShareableHandle",
            "a pool; memory from it is told of when it comes",
        ),
        (
            "MemMapArrayAsync",
            "sparse arrays: memory of cuMemCreate behind an array that exists",
        ),
    ];

    #[test]
    fn every_function_that_sounds_like_one_has_a_role_or_a_reason() {
        let sounds = [
            "alloc",
            "free",
            "memcpy",
            "memset",
            "launch",
            "arraycreate",
            "array3dcreate",
            "arraydestroy",
            "memcreate",
            "memrelease",
            "memmap",
            "memunmap",
            "prefetch",
            "hostregister",
            "hostunregister",
            "memhandle",
            "mappedbuffer",
            "importfrom",
            "importpointer",
        ];
        let (mut with, mut without) = (0, std::collections::BTreeMap::new());
        for function in cuda::functions().iter().chain(cuda::older_functions()) {
            let lower = function.name.to_lowercase();
            if !sounds.iter().any(|sound| lower.contains(sound)) {
                continue;
            }
            if Role::of(function.name) != Role::None {
                with += 1;
                continue;
            }
            let reason = WITHOUT
                .iter()
                .rev()
                .find(|(part, _)| lower.contains(&part.to_lowercase()));
            let reason = reason.unwrap_or_else(|| panic!("{} has no role", function.name));
            *without.entry(reason.0).or_insert(0) += 1;
        }
        assert!(with > 120, "{with}");
        for (part, _) in WITHOUT {
            assert!(
                without.contains_key(part),
                "{part} is the reason of nothing"
            );
        }
    }
}
