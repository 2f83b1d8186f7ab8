//! C structures of cuda.h that cross the API, field for field.

use std::ffi::{c_char, c_void};

pub type HostFn = Option<unsafe extern "C" fn(*mut c_void)>;
pub type StreamCallback = Option<unsafe extern "C" fn(u64, u32, *mut c_void)>;
pub type BlockToShared = Option<unsafe extern "C" fn(i32) -> usize>;

#[repr(C)]
#[derive(Clone, Copy)]
pub struct Uuid(pub [u8; 16]);

/// CUdevprop.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DeviceProperties {
    pub max_threads_per_block: i32,
    pub max_threads_dim: [i32; 3],
    pub max_grid_size: [i32; 3],
    pub shared_mem_per_block: i32,
    pub total_constant_memory: i32,
    pub simd_width: i32,
    pub mem_pitch: i32,
    pub regs_per_block: i32,
    pub clock_rate: i32,
    pub texture_align: i32,
}

/// CUDA_MEMCPY2D.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Memcpy2d {
    pub src_x: usize,
    pub src_y: usize,
    pub src_type: u32,
    pub src_host: usize,
    pub src_device: u64,
    pub src_array: u64,
    pub src_pitch: usize,
    pub dst_x: usize,
    pub dst_y: usize,
    pub dst_type: u32,
    pub dst_host: usize,
    pub dst_device: u64,
    pub dst_array: u64,
    pub dst_pitch: usize,
    pub width: usize,
    pub height: usize,
}

/// CUDA_MEMCPY3D; CUDA_MEMCPY3D_PEER has the same layout with contexts in the reserved words.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct Memcpy3d {
    pub src_x: usize,
    pub src_y: usize,
    pub src_z: usize,
    pub src_lod: usize,
    pub src_type: u32,
    pub src_host: usize,
    pub src_device: u64,
    pub src_array: u64,
    pub src_context: u64,
    pub src_pitch: usize,
    pub src_height: usize,
    pub dst_x: usize,
    pub dst_y: usize,
    pub dst_z: usize,
    pub dst_lod: usize,
    pub dst_type: u32,
    pub dst_host: usize,
    pub dst_device: u64,
    pub dst_array: u64,
    pub dst_context: u64,
    pub dst_pitch: usize,
    pub dst_height: usize,
    pub width: usize,
    pub height: usize,
    pub depth: usize,
}

/// CUDA_KERNEL_NODE_PARAMS_v1.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct KernelNodeParams {
    pub function: u64,
    pub grid: [u32; 3],
    pub block: [u32; 3],
    pub shared: u32,
    pub params: *mut *mut c_void,
    pub extra: *mut *mut c_void,
}

/// CUDA_KERNEL_NODE_PARAMS_v2 and _v3.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct KernelNodeParams2 {
    pub base: KernelNodeParams,
    pub kernel: u64,
    pub context: u64,
}

/// CUDA_MEMSET_NODE_PARAMS.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct MemsetNodeParams {
    pub dst: u64,
    pub pitch: usize,
    pub value: u32,
    pub element_size: u32,
    pub width: usize,
    pub height: usize,
}

/// CUDA_HOST_NODE_PARAMS.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct HostNodeParams {
    pub function: HostFn,
    pub data: *mut c_void,
}

/// CUgraphNodeParams: a kind and 29 words of one of the structures above.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct GraphNodeParams {
    pub kind: u32,
    pub reserved: [u32; 3],
    pub words: [u64; 29],
    pub reserved_after: u64,
}

/// CUDA_CONDITIONAL_NODE_PARAMS.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ConditionalNodeParams {
    pub handle: u64,
    pub kind: u32,
    pub size: u32,
    pub graphs: *mut u64,
    pub context: u64,
}

/// CUDA_MEMCPY_NODE_PARAMS.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct MemcpyNodeParams {
    pub flags: i32,
    pub reserved: i32,
    pub context: u64,
    pub copy: Memcpy3d,
}

/// CUDA_MEM_ALLOC_NODE_PARAMS: CUmemPoolProps, access descriptions, size, address.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct MemAllocNodeParams {
    pub kind: u32,
    pub handle_types: u32,
    pub location: Location,
    pub pool_rest: [u64; 9],
    pub access: *const c_void,
    pub access_count: usize,
    pub size: usize,
    pub address: u64,
}

impl MemAllocNodeParams {
    /// Pinned memory of the device.
    pub fn of(address: u64, size: u64) -> Self {
        Self {
            kind: 1,
            handle_types: 0,
            location: Location { kind: 1, id: 0 },
            pool_rest: [0; 9],
            access: std::ptr::null(),
            access_count: 0,
            size: size as usize,
            address,
        }
    }
}

/// CUDA_BATCH_MEM_OP_NODE_PARAMS.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct BatchMemOpNodeParams {
    pub context: u64,
    pub count: u32,
    pub operations: *const BatchMemOp,
    pub flags: u32,
}

/// CUgraphEdgeData.
#[repr(C)]
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct EdgeData {
    pub from_port: u8,
    pub to_port: u8,
    pub kind: u8,
    pub reserved: [u8; 5],
}

/// CUDA_GRAPH_INSTANTIATE_PARAMS.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct InstantiateParams {
    pub flags: u64,
    pub upload_stream: u64,
    pub error_node: u64,
    pub result: u32,
}

/// CUgraphExecUpdateResultInfo.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct UpdateResult {
    pub result: u32,
    pub error_node: u64,
    pub error_from_node: u64,
}

/// CUlaunchAttribute: the value is a union of at most 64 bytes, kept as words.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct LaunchAttribute {
    pub id: u32,
    pub pad: u32,
    pub value: [u32; 16],
}

/// CUlaunchConfig.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct LaunchConfig {
    pub grid: [u32; 3],
    pub block: [u32; 3],
    pub shared: u32,
    pub stream: u64,
    pub attributes: *const LaunchAttribute,
    pub attribute_count: u32,
}

/// CUmemLocation, passed by value.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Location {
    pub kind: u32,
    pub id: i32,
}

/// CUstreamBatchMemOpParams: wait and write share one layout.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct BatchMemOp {
    pub operation: u32,
    pub address: u64,
    pub value: u64,
    pub flags: u32,
    pub alias: u64,
    pub pad: u64,
}

/// CUctxCreateParams.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ContextCreateParams {
    pub affinity: *const c_void,
    pub affinity_count: i32,
    pub graphics: *const c_void,
}

pub type Text = *const c_char;

// Sizes as a C compiler gives them for cuda.h 13.0 on x86-64.
const _: () = {
    assert!(size_of::<DeviceProperties>() == 56);
    assert!(size_of::<Memcpy2d>() == 128);
    assert!(size_of::<Memcpy3d>() == 200);
    assert!(size_of::<KernelNodeParams>() == 56);
    assert!(size_of::<KernelNodeParams2>() == 72);
    assert!(size_of::<MemsetNodeParams>() == 40);
    assert!(size_of::<GraphNodeParams>() == 256);
    assert!(size_of::<ConditionalNodeParams>() == 32);
    assert!(size_of::<MemcpyNodeParams>() == 216);
    assert!(size_of::<InstantiateParams>() == 32);
    assert!(size_of::<UpdateResult>() == 24);
    assert!(size_of::<LaunchAttribute>() == 72);
    assert!(size_of::<LaunchConfig>() == 56);
    assert!(size_of::<BatchMemOp>() == 48);
    assert!(size_of::<MemAllocNodeParams>() == 120);
    assert!(size_of::<BatchMemOpNodeParams>() == 32);
    assert!(size_of::<ContextCreateParams>() == 24);
};
