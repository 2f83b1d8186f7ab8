// A histogram of bytes, once by global atomics alone and once through shared memory.
// histogram [bytes]
#include "check.h"
#include <vector>

constexpr int BINS = 256;

__global__ void histogramGlobal(const unsigned char *in, int n, unsigned *bins) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        atomicAdd(&bins[in[i]], 1u);
}

__global__ void histogramShared(const unsigned char *in, int n, unsigned *bins) {
    __shared__ unsigned mine[BINS];
    for (int bin = threadIdx.x; bin < BINS; bin += blockDim.x) mine[bin] = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        atomicAdd(&mine[in[i]], 1u);
    __syncthreads();
    for (int bin = threadIdx.x; bin < BINS; bin += blockDim.x)
        if (mine[bin]) atomicAdd(&bins[bin], mine[bin]);
}

int main(int argc, char **argv) {
    int n = int(argument(argc, argv, 1, 400000));
    std::vector<unsigned char> bytes(n);
    std::vector<unsigned> expected(BINS), seen(BINS);
    Random random(4);
    // Lopsided on purpose: many threads of a warp meet in the same bin.
    for (unsigned char &byte : bytes) {
        byte = (unsigned char)(random.below(4) ? random.below(8) : random.below(BINS));
        expected[byte]++;
    }
    unsigned char *in;
    unsigned *bins;
    CUDA(cudaMalloc(&in, n));
    CUDA(cudaMalloc(&bins, BINS * sizeof(unsigned)));
    CUDA(cudaMemcpy(in, bytes.data(), n, cudaMemcpyHostToDevice));
    for (int shared = 0; shared < 2; shared++) {
        const char *kind = shared ? "shared" : "global";
        CUDA(cudaMemset(bins, 0, BINS * sizeof(unsigned)));
        if (shared) histogramShared<<<16, 256>>>(in, n, bins);
        else histogramGlobal<<<16, 256>>>(in, n, bins);
        CUDA(cudaGetLastError());
        CUDA(cudaMemcpy(seen.data(), bins, BINS * sizeof(unsigned), cudaMemcpyDeviceToHost));
        for (int bin = 0; bin < BINS; bin++)
            EXPECT(seen[bin] == expected[bin], "%s: bin %d is %u, not %u", kind, bin, seen[bin], expected[bin]);
        fact("%d bytes counted right by %s atomics", n, kind);
    }
    CUDA(cudaFree(in));
    CUDA(cudaFree(bins));
    return pass("histogram");
}
