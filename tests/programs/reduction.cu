// Sums, minima, maxima and prefix sums by warp shuffles, shared memory and one atomic a block.
// reduction [elements]
#include "check.h"
#include <algorithm>
#include <vector>

constexpr unsigned ALL = 0xffffffffu;

__device__ int warpSum(int value) {
    for (int offset = 16; offset > 0; offset /= 2) value += __shfl_down_sync(ALL, value, offset);
    return value;
}

__global__ void blockSum(const int *in, int n, unsigned long long *total) {
    __shared__ int partial[32];
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32, sum = 0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) sum += in[i];
    sum = warpSum(sum);
    if (lane == 0) partial[warp] = sum;
    __syncthreads();
    if (warp == 0) {
        sum = lane < blockDim.x / 32 ? partial[lane] : 0;
        sum = warpSum(sum);
        if (lane == 0) atomicAdd(total, (unsigned long long)(long long)sum);
    }
}

// Butterfly: afterwards every lane of a warp has the warp's minimum and maximum.
__global__ void extremes(const float *in, int n, int *least, int *greatest, int *disagreements) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float low = in[min(i, n - 1)], high = low;
    for (int mask = 16; mask > 0; mask /= 2) {
        low = fminf(low, __shfl_xor_sync(ALL, low, mask));
        high = fmaxf(high, __shfl_xor_sync(ALL, high, mask));
    }
    if (!__all_sync(ALL, low == __shfl_sync(ALL, low, 0)) || __any_sync(ALL, high != __shfl_sync(ALL, high, 31)))
        atomicAdd(disagreements, 1);
    // The hardware's own integer reduction must find the same.
    if (__reduce_max_sync(ALL, int(in[min(i, n - 1)])) != int(high)) atomicAdd(disagreements, 1);
    if (threadIdx.x % 32 == 0) {
        atomicMin(least, int(low));
        atomicMax(greatest, int(high));
    }
}

// Inclusive prefix sum inside each block.
__global__ void blockScan(const int *in, int *out) {
    __shared__ int warps[32];
    int i = blockIdx.x * blockDim.x + threadIdx.x, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    int value = in[i];
    for (int offset = 1; offset < 32; offset *= 2) {
        int below = __shfl_up_sync(ALL, value, offset);
        if (lane >= offset) value += below;
    }
    if (lane == 31) warps[warp] = value;
    __syncthreads();
    for (int w = 0; w < warp; w++) value += warps[w];
    out[i] = value;
}

int main(int argc, char **argv) {
    int n = int(argument(argc, argv, 1, 300000));
    std::vector<int> values(n);
    std::vector<float> floats(n);
    Random random(3);
    long long expected = 0;
    for (int i = 0; i < n; i++) {
        values[i] = random.below(2001) - 1000;
        floats[i] = float(random.below(2000001) - 1000000);
        expected += values[i];
    }
    int *in, *results;
    float *inFloats;
    unsigned long long *total, sum = 0;
    CUDA(cudaMalloc(&in, n * sizeof(int)));
    CUDA(cudaMalloc(&inFloats, n * sizeof(float)));
    CUDA(cudaMalloc(&total, sizeof *total));
    CUDA(cudaMalloc(&results, 3 * sizeof(int)));
    CUDA(cudaMemcpy(in, values.data(), n * sizeof(int), cudaMemcpyHostToDevice));
    CUDA(cudaMemcpy(inFloats, floats.data(), n * sizeof(float), cudaMemcpyHostToDevice));
    CUDA(cudaMemset(total, 0, sizeof *total));
    blockSum<<<32, 256>>>(in, n, total);
    CUDA(cudaGetLastError());
    CUDA(cudaMemcpy(&sum, total, sizeof sum, cudaMemcpyDeviceToHost));
    EXPECT((long long)sum == expected, "the sum is %lld, not %lld", (long long)sum, expected);
    fact("sum of %d right", n);

    int found[3] = {INT32_MAX, INT32_MIN, 0};
    CUDA(cudaMemcpy(results, found, sizeof found, cudaMemcpyHostToDevice));
    extremes<<<(n + 255) / 256, 256>>>(inFloats, n, results, results + 1, results + 2);
    CUDA(cudaGetLastError());
    CUDA(cudaMemcpy(found, results, sizeof found, cudaMemcpyDeviceToHost));
    int least = int(*std::min_element(floats.begin(), floats.end()));
    int greatest = int(*std::max_element(floats.begin(), floats.end()));
    EXPECT(found[0] == least && found[1] == greatest, "extremes are %d and %d, not %d and %d", found[0], found[1],
           least, greatest);
    EXPECT(found[2] == 0, "%d lanes disagree about their warp's extremes", found[2]);
    fact("minimum and maximum right in every lane");

    constexpr int BLOCK = 256, BLOCKS = 16;
    int *scanned;
    std::vector<int> prefix(BLOCK * BLOCKS);
    EXPECT(n >= BLOCK * BLOCKS, "needs at least %d elements", BLOCK * BLOCKS);
    CUDA(cudaMalloc(&scanned, prefix.size() * sizeof(int)));
    blockScan<<<BLOCKS, BLOCK>>>(in, scanned);
    CUDA(cudaGetLastError());
    CUDA(cudaMemcpy(prefix.data(), scanned, prefix.size() * sizeof(int), cudaMemcpyDeviceToHost));
    for (int i = 0, running = 0; i < BLOCK * BLOCKS; i++) {
        running = (i % BLOCK ? running : 0) + values[i];
        EXPECT(prefix[i] == running, "prefix sum %d is %d, not %d", i, prefix[i], running);
    }
    fact("prefix sums of %d blocks right", BLOCKS);
    CUDA(cudaFree(in));
    CUDA(cudaFree(inFloats));
    CUDA(cudaFree(total));
    CUDA(cudaFree(results));
    CUDA(cudaFree(scanned));
    return pass("reduction");
}
