//! Prefetching, advice, batches, pools by location and semaphores, as CUDA 13 has them.

use std::ffi::{c_int, c_uint, c_void};

use crate::call::given;
use crate::types::{DevicePtr, Handle, MemLocation};

cuda! {
    context fn cudaMemPrefetchAsync, cudaMemPrefetchAsync_ptsz(
        pointer: *const c_void, count: usize, location: MemLocation, flags: c_uint,
        stream: Handle,
    ) |cu| cu.cuMemPrefetchAsync(pointer as DevicePtr, count, location, flags, stream);

    context fn cudaMemAdvise(
        pointer: *const c_void, count: usize, advice: c_int, location: MemLocation,
    ) |cu| cu.cuMemAdvise(pointer as DevicePtr, count, advice, location);

    context fn cudaMemPrefetchBatchAsync, cudaMemPrefetchBatchAsync_ptsz(
        pointers: *mut DevicePtr, sizes: *mut usize, count: usize, locations: *mut MemLocation,
        indices: *mut usize, location_count: usize, flags: u64, stream: Handle,
    ) |cu| cu.cuMemPrefetchBatchAsync(
        pointers, sizes, count, locations.cast(), indices, location_count, flags, stream,
    );
    context fn cudaMemDiscardBatchAsync, cudaMemDiscardBatchAsync_ptsz(
        pointers: *mut DevicePtr, sizes: *mut usize, count: usize, flags: u64, stream: Handle,
    ) |cu| cu.cuMemDiscardBatchAsync(pointers, sizes, count, flags, stream);
    context fn cudaMemDiscardAndPrefetchBatchAsync, cudaMemDiscardAndPrefetchBatchAsync_ptsz(
        pointers: *mut DevicePtr, sizes: *mut usize, count: usize, locations: *mut MemLocation,
        indices: *mut usize, location_count: usize, flags: u64, stream: Handle,
    ) |cu| cu.cuMemDiscardAndPrefetchBatchAsync(
        pointers, sizes, count, locations.cast(), indices, location_count, flags, stream,
    );

    context fn cudaMemcpyBatchAsync, cudaMemcpyBatchAsync_ptsz(
        dsts: *mut DevicePtr, srcs: *mut DevicePtr, sizes: *mut usize, count: usize,
        attributes: *mut c_void, indices: *mut usize, attribute_count: usize, stream: Handle,
    ) |cu| cu.cuMemcpyBatchAsync(
        dsts, srcs, sizes, count, attributes, indices, attribute_count, stream,
    );
    context fn cudaMemcpy3DBatchAsync, cudaMemcpy3DBatchAsync_ptsz(
        count: usize, operations: *mut c_void, flags: u64, stream: Handle,
    ) |cu| cu.cuMemcpy3DBatchAsync(count, operations, flags, stream);

    plain fn cudaMemGetDefaultMemPool(
        pool: *mut Handle, location: *mut MemLocation, kind: c_int,
    ) |cu| {
        given(pool)?;
        cu.cuMemGetDefaultMemPool(pool, location.cast(), kind)
    };
    plain fn cudaMemGetMemPool(pool: *mut Handle, location: *mut MemLocation, kind: c_int) |cu| {
        given(pool)?;
        cu.cuMemGetMemPool(pool, location.cast(), kind)
    };
    plain fn cudaMemSetMemPool(
        location: *mut MemLocation, kind: c_int, pool: Handle,
    ) |cu| cu.cuMemSetMemPool(location.cast(), kind, pool);

    context fn cudaSignalExternalSemaphoresAsync, cudaSignalExternalSemaphoresAsync_ptsz(
        semaphores: *const Handle, params: *const c_void, count: c_uint, stream: Handle,
    ) |cu| cu.cuSignalExternalSemaphoresAsync(semaphores, params, count, stream);

    context fn cudaWaitExternalSemaphoresAsync, cudaWaitExternalSemaphoresAsync_ptsz(
        semaphores: *const Handle, params: *const c_void, count: c_uint, stream: Handle,
    ) |cu| cu.cuWaitExternalSemaphoresAsync(semaphores, params, count, stream);
}
