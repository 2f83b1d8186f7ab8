//! Prefetching and advice by device number and by location, batches that say what failed, and
//! semaphores by their second parameters (the first have no reserved words and are not had).

use std::ffi::{c_int, c_uint, c_void};

use crate::types::{DevicePtr, Handle, MemLocation};

cuda! {
    context fn cudaMemPrefetchAsync, cudaMemPrefetchAsync_ptsz(
        pointer: *const c_void, count: usize, device: c_int, stream: Handle,
    ) |cu| cu.cuMemPrefetchAsync_v8000(pointer as DevicePtr, count, device, stream);
    context fn cudaMemPrefetchAsync_v2, cudaMemPrefetchAsync_v2_ptsz(
        pointer: *const c_void, count: usize, location: MemLocation, flags: c_uint,
        stream: Handle,
    ) |cu| cu.cuMemPrefetchAsync(pointer as DevicePtr, count, location, flags, stream);

    context fn cudaMemAdvise(
        pointer: *const c_void, count: usize, advice: c_int, device: c_int,
    ) |cu| cu.cuMemAdvise_v8000(pointer as DevicePtr, count, advice, device);
    context fn cudaMemAdvise_v2(
        pointer: *const c_void, count: usize, advice: c_int, location: MemLocation,
    ) |cu| cu.cuMemAdvise(pointer as DevicePtr, count, advice, location);

    context fn cudaMemcpyBatchAsync, cudaMemcpyBatchAsync_ptsz(
        dsts: *mut DevicePtr, srcs: *mut DevicePtr, sizes: *mut usize, count: usize,
        attributes: *mut c_void, indices: *mut usize, attribute_count: usize,
        failed: *mut usize, stream: Handle,
    ) |cu| cu.cuMemcpyBatchAsync_v12080(
        dsts, srcs, sizes, count, attributes, indices, attribute_count, failed, stream,
    );
    context fn cudaMemcpy3DBatchAsync, cudaMemcpy3DBatchAsync_ptsz(
        count: usize, operations: *mut c_void, failed: *mut usize, flags: u64, stream: Handle,
    ) |cu| cu.cuMemcpy3DBatchAsync_v12080(count, operations, failed, flags, stream);

    context fn cudaSignalExternalSemaphoresAsync_v2, cudaSignalExternalSemaphoresAsync_v2_ptsz(
        semaphores: *const Handle, params: *const c_void, count: c_uint, stream: Handle,
    ) |cu| cu.cuSignalExternalSemaphoresAsync(semaphores, params, count, stream);

    context fn cudaWaitExternalSemaphoresAsync_v2, cudaWaitExternalSemaphoresAsync_v2_ptsz(
        semaphores: *const Handle, params: *const c_void, count: c_uint, stream: Handle,
    ) |cu| cu.cuWaitExternalSemaphoresAsync(semaphores, params, count, stream);
}
