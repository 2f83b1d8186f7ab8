//! Memory and semaphores of other APIs, and mapped graphics resources.

use std::ffi::{c_int, c_uint, c_void};

use crate::api::array;
use crate::call::given;
use crate::types::{ChannelFormatDesc, Extent, Handle};

/// A driver's structure whose beginning is the runtime's; the rest is reserved and zero. CUDA 12
/// has no reserved words at the end of its own.
#[repr(C, align(8))]
struct Padded([u8; 128]);

/// Bytes up to the reserved words: cudaExternalMemoryHandleDesc, cudaExternalMemoryBufferDesc,
/// cudaExternalSemaphoreHandleDesc.
const MEMORY_HANDLE: usize = 36;
const BUFFER: usize = 20;
const SEMAPHORE_HANDLE: usize = 28;

unsafe fn padded(from: *const c_void, size: usize) -> Padded {
    let mut padded = Padded([0; 128]);
    unsafe { std::ptr::copy_nonoverlapping(from.cast(), padded.0.as_mut_ptr(), size) };
    padded
}

/// cudaExternalMemoryMipmappedArrayDesc up to its reserved words.
#[repr(C)]
pub struct MipmapDesc {
    offset: u64,
    format: ChannelFormatDesc,
    extent: Extent,
    flags: c_uint,
    levels: c_uint,
}

/// CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC.
#[repr(C)]
struct DriverMipmapDesc {
    offset: u64,
    array: array::ArrayDescriptor,
    levels: c_uint,
    reserved: [c_uint; 16],
}

cuda! {
    context fn cudaImportExternalMemory(memory: *mut Handle, desc: *const c_void) |cu| {
        given(memory)?;
        given(desc)?;
        let desc = padded(desc, MEMORY_HANDLE);
        cu.cuImportExternalMemory(memory, (&raw const desc).cast())
    };
    context fn cudaExternalMemoryGetMappedBuffer(
        pointer: *mut *mut c_void, memory: Handle, desc: *const c_void,
    ) |cu| {
        given(pointer)?;
        given(desc)?;
        let desc = padded(desc, BUFFER);
        cu.cuExternalMemoryGetMappedBuffer(pointer.cast(), memory, (&raw const desc).cast())
    };
    context fn cudaExternalMemoryGetMappedMipmappedArray(
        mipmap: *mut Handle, memory: Handle, desc: *const MipmapDesc,
    ) |cu| {
        given(mipmap)?;
        given(desc)?;
        let MipmapDesc { offset, ref format, extent, flags, levels } = *desc;
        let array = array::descriptor(format, extent, flags)?;
        let desc = DriverMipmapDesc { offset, array, levels, reserved: [0; 16] };
        cu.cuExternalMemoryGetMappedMipmappedArray(mipmap, memory, (&raw const desc).cast())
    };
    context fn cudaDestroyExternalMemory(memory: Handle) |cu| cu.cuDestroyExternalMemory(memory);

    context fn cudaImportExternalSemaphore(semaphore: *mut Handle, desc: *const c_void) |cu| {
        given(semaphore)?;
        given(desc)?;
        let desc = padded(desc, SEMAPHORE_HANDLE);
        cu.cuImportExternalSemaphore(semaphore, (&raw const desc).cast())
    };
    context fn cudaDestroyExternalSemaphore(
        semaphore: Handle,
    ) |cu| cu.cuDestroyExternalSemaphore(semaphore);

    context fn cudaGraphAddExternalSemaphoresSignalNode(
        node: *mut Handle, graph: Handle, dependencies: *const Handle, count: usize,
        params: *const c_void,
    ) |cu| cu.cuGraphAddExternalSemaphoresSignalNode(node, graph, dependencies, count, params);
    plain fn cudaGraphExternalSemaphoresSignalNodeGetParams(
        node: Handle, params: *mut c_void,
    ) |cu| cu.cuGraphExternalSemaphoresSignalNodeGetParams(node, params);
    plain fn cudaGraphExternalSemaphoresSignalNodeSetParams(
        node: Handle, params: *const c_void,
    ) |cu| cu.cuGraphExternalSemaphoresSignalNodeSetParams(node, params);
    context fn cudaGraphExecExternalSemaphoresSignalNodeSetParams(
        exec: Handle, node: Handle, params: *const c_void,
    ) |cu| cu.cuGraphExecExternalSemaphoresSignalNodeSetParams(exec, node, params);
    context fn cudaGraphAddExternalSemaphoresWaitNode(
        node: *mut Handle, graph: Handle, dependencies: *const Handle, count: usize,
        params: *const c_void,
    ) |cu| cu.cuGraphAddExternalSemaphoresWaitNode(node, graph, dependencies, count, params);
    plain fn cudaGraphExternalSemaphoresWaitNodeGetParams(
        node: Handle, params: *mut c_void,
    ) |cu| cu.cuGraphExternalSemaphoresWaitNodeGetParams(node, params);
    plain fn cudaGraphExternalSemaphoresWaitNodeSetParams(
        node: Handle, params: *const c_void,
    ) |cu| cu.cuGraphExternalSemaphoresWaitNodeSetParams(node, params);
    context fn cudaGraphExecExternalSemaphoresWaitNodeSetParams(
        exec: Handle, node: Handle, params: *const c_void,
    ) |cu| cu.cuGraphExecExternalSemaphoresWaitNodeSetParams(exec, node, params);

    context fn cudaGraphicsUnregisterResource(
        resource: Handle,
    ) |cu| cu.cuGraphicsUnregisterResource(resource);
    context fn cudaGraphicsResourceSetMapFlags(
        resource: Handle, flags: c_uint,
    ) |cu| cu.cuGraphicsResourceSetMapFlags(resource, flags);
    context fn cudaGraphicsMapResources(
        count: c_int, resources: *mut Handle, stream: Handle,
    ) |cu| cu.cuGraphicsMapResources(count.cast_unsigned(), resources, stream);
    context fn cudaGraphicsUnmapResources(
        count: c_int, resources: *mut Handle, stream: Handle,
    ) |cu| cu.cuGraphicsUnmapResources(count.cast_unsigned(), resources, stream);
    context fn cudaGraphicsResourceGetMappedPointer(
        pointer: *mut *mut c_void, size: *mut usize, resource: Handle,
    ) |cu| cu.cuGraphicsResourceGetMappedPointer(pointer.cast(), size, resource);
    context fn cudaGraphicsSubResourceGetMappedArray(
        array: *mut Handle, resource: Handle, index: c_uint, level: c_uint,
    ) |cu| cu.cuGraphicsSubResourceGetMappedArray(array, resource, index, level);
    context fn cudaGraphicsResourceGetMappedMipmappedArray(
        mipmap: *mut Handle, resource: Handle,
    ) |cu| cu.cuGraphicsResourceGetMappedMipmappedArray(mipmap, resource);

    plain fn cudaDeviceRegisterAsyncNotification(
        device: c_int, callback: *mut c_void, data: *mut c_void, handle: *mut Handle,
    ) |cu| cu.cuDeviceRegisterAsyncNotification(device, callback, data, handle);
    plain fn cudaDeviceUnregisterAsyncNotification(
        device: c_int, handle: Handle,
    ) |cu| cu.cuDeviceUnregisterAsyncNotification(device, handle);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As cuda.h has them; the runtime's own begin alike in both versions.
    #[test]
    fn sizes_are_the_headers() {
        assert_eq!(size_of::<MipmapDesc>(), 64);
        assert_eq!(size_of::<DriverMipmapDesc>(), 120);
    }
}
