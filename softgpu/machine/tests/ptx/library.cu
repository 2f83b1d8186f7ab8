// Kernels behind library_80.ptx and library_90.ptx: cooperative groups and libcu++.
// nvcc -std=c++17 -ptx -arch=sm_90 -I…/include/cccl library.cu -o library_90.ptx
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>
#include <cuda/atomic>
#include <cuda/barrier>
#include <cuda/pipeline>
namespace cg = cooperative_groups;

extern "C" __global__ void barrierCopy(int *out, const int *in) {
    __shared__ cuda::barrier<cuda::thread_scope_block> ready;
    __shared__ alignas(16) int tile[256];
    auto block = cg::this_thread_block();
    if (block.thread_rank() == 0) init(&ready, block.size());
    block.sync();
    cuda::memcpy_async(block, tile, in + blockIdx.x * 256, cuda::aligned_size_t<16>(sizeof tile), ready);
    ready.arrive_and_wait();
    out[blockIdx.x * 256 + threadIdx.x] = tile[255 - threadIdx.x];
}

extern "C" __global__ void pipeline(int *out, const int *in, int steps) {
    __shared__ alignas(16) int tile[2][256];
    __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, 2> state;
    auto block = cg::this_thread_block();
    auto pipe = cuda::make_pipeline(block, &state);
    int sum = 0;
    for (int fetched = 0, step = 0; step < steps; step++) {
        for (; fetched < steps && fetched < step + 2; fetched++) {
            pipe.producer_acquire();
            cuda::memcpy_async(block, tile[fetched % 2], in + fetched * 256, cuda::aligned_size_t<16>(1024), pipe);
            pipe.producer_commit();
        }
        pipe.consumer_wait();
        sum += tile[step % 2][(threadIdx.x + step) % 256];
        pipe.consumer_release();
    }
    out[threadIdx.x] = sum;
}

extern "C" __global__ void atomics(cuda::atomic<int, cuda::thread_scope_device> *value, int *out) {
    int old = value->fetch_add(1, cuda::std::memory_order_acq_rel);
    while (value->load(cuda::std::memory_order_acquire) < int(gridDim.x * blockDim.x)) {}
    out[old] = 1;
}

extern "C" __global__ void groups(int *out) {
    auto block = cg::this_thread_block();
    auto tile = cg::tiled_partition<8>(block);
    int i = block.thread_rank();
    int v = cg::reduce(tile, i, cg::plus<int>());
    v += 1000 * cg::exclusive_scan(tile, 1, cg::plus<int>());
    if (i % 3 == 0) {
        auto some = cg::coalesced_threads();
        v += 100000 * some.thread_rank() + 10000000 * (some.size() == 11 || some.size() == 10);
    }
    out[i] = v;
}

extern "C" __global__ void gridSync(int *data, int *out) {
    auto grid = cg::this_grid();
    int i = grid.thread_rank(), n = grid.size();
    data[i] = i;
    for (int d = 1; d < n; d *= 2) {
        grid.sync();
        int v = i >= d ? data[i - d] : 0;
        grid.sync();
        data[i] += v;
    }
    out[i] = data[i];
}
