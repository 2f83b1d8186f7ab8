//! Structures of the runtime and the driver API that cross the boundary, by layout.

use std::ffi::{c_int, c_uint, c_void};
use std::ptr::null_mut;

/// Any opaque handle: cudaStream_t and CUstream and so on are the same pointer.
pub(crate) type Handle = *mut c_void;
/// CUdeviceptr.
pub(crate) type DevicePtr = u64;

#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dim3 {
    pub x: c_uint,
    pub y: c_uint,
    pub z: c_uint,
}

/// cudaMemLocation, CUmemLocation.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct MemLocation {
    pub kind: c_int,
    pub id: c_int,
}

/// cudaIpcMemHandle_t, cudaIpcEventHandle_t and the driver's.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct IpcHandle {
    pub reserved: [u8; 64],
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Extent {
    pub width: usize,
    pub height: usize,
    pub depth: usize,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Pos {
    pub x: usize,
    pub y: usize,
    pub z: usize,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct PitchedPtr {
    pub ptr: *mut c_void,
    pub pitch: usize,
    pub xsize: usize,
    pub ysize: usize,
}

/// cudaMemcpy3DParms.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Memcpy3DParms {
    pub src_array: Handle,
    pub src_pos: Pos,
    pub src_ptr: PitchedPtr,
    pub dst_array: Handle,
    pub dst_pos: Pos,
    pub dst_ptr: PitchedPtr,
    pub extent: Extent,
    pub kind: c_int,
}

/// cudaMemcpy3DPeerParms.
#[repr(C)]
pub struct Memcpy3DPeerParms {
    pub src_array: Handle,
    pub src_pos: Pos,
    pub src_ptr: PitchedPtr,
    pub src_device: c_int,
    pub dst_array: Handle,
    pub dst_pos: Pos,
    pub dst_ptr: PitchedPtr,
    pub dst_device: c_int,
    pub extent: Extent,
}

/// One side of CUDA_MEMCPY2D.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Side2D {
    pub x: usize,
    pub y: usize,
    pub memory: c_int,
    pub host: *mut c_void,
    pub device: DevicePtr,
    pub array: Handle,
    pub pitch: usize,
}

/// CUDA_MEMCPY2D.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct DriverCopy2D {
    pub src: Side2D,
    pub dst: Side2D,
    pub width: usize,
    pub height: usize,
}

/// One side of CUDA_MEMCPY3D and CUDA_MEMCPY3D_PEER (there with a context).
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Side3D {
    pub x: usize,
    pub y: usize,
    pub z: usize,
    pub lod: usize,
    pub memory: c_int,
    pub host: *mut c_void,
    pub device: DevicePtr,
    pub array: Handle,
    pub context: Handle,
    pub pitch: usize,
    pub height: usize,
}

impl Side3D {
    pub const NONE: Side3D = Side3D {
        x: 0,
        y: 0,
        z: 0,
        lod: 0,
        memory: 0,
        host: null_mut(),
        device: 0,
        array: null_mut(),
        context: null_mut(),
        pitch: 0,
        height: 0,
    };
}

/// CUDA_MEMCPY3D, CUDA_MEMCPY3D_PEER.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct DriverCopy3D {
    pub src: Side3D,
    pub dst: Side3D,
    pub width: usize,
    pub height: usize,
    pub depth: usize,
}

/// CUmemorytype.
pub(crate) mod memory_type {
    use std::ffi::c_int;
    pub const HOST: c_int = 1;
    pub const DEVICE: c_int = 2;
    pub const ARRAY: c_int = 3;
    pub const UNIFIED: c_int = 4;
}

/// cudaMemcpyKind.
pub(crate) mod copy_kind {
    use std::ffi::c_int;
    pub const HOST_TO_HOST: c_int = 0;
    pub const HOST_TO_DEVICE: c_int = 1;
    pub const DEVICE_TO_HOST: c_int = 2;
    pub const DEVICE_TO_DEVICE: c_int = 3;
    pub const DEFAULT: c_int = 4;
}

/// cudaChannelFormatDesc.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChannelFormatDesc {
    pub x: c_int,
    pub y: c_int,
    pub z: c_int,
    pub w: c_int,
    pub f: c_int,
}

/// cudaLaunchConfig_t.
#[repr(C)]
pub struct LaunchConfig {
    pub grid: Dim3,
    pub block: Dim3,
    pub shared_bytes: usize,
    pub stream: Handle,
    pub attributes: *mut c_void,
    pub attribute_count: c_uint,
}

/// CUlaunchConfig.
#[repr(C)]
pub(crate) struct DriverLaunchConfig {
    pub grid: Dim3,
    pub block: Dim3,
    pub shared_bytes: c_uint,
    pub stream: Handle,
    pub attributes: *mut c_void,
    pub attribute_count: c_uint,
}

/// cudaKernelNodeParams and its V2.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct KernelNodeParams {
    pub function: *mut c_void,
    pub grid: Dim3,
    pub block: Dim3,
    pub shared_bytes: c_uint,
    pub arguments: *mut *mut c_void,
    pub extra: *mut *mut c_void,
}

/// CUDA_KERNEL_NODE_PARAMS from v2 on.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct DriverKernelNodeParams {
    pub function: Handle,
    pub grid: Dim3,
    pub block: Dim3,
    pub shared_bytes: c_uint,
    pub arguments: *mut *mut c_void,
    pub extra: *mut *mut c_void,
    pub kernel: Handle,
    pub context: Handle,
}

/// cudaMemsetParams, CUDA_MEMSET_NODE_PARAMS.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct MemsetParams {
    pub dst: *mut c_void,
    pub pitch: usize,
    pub value: c_uint,
    pub element_size: c_uint,
    pub width: usize,
    pub height: usize,
}
