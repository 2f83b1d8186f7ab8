// A shared object with device code of its own, for late.cu to load and unload.
#include <cuda_runtime.h>

__device__ int counter = 40;
__managed__ int seen = 1;

__global__ void fill(int *x, int value) {
    x[threadIdx.x] = value + counter;
    if (threadIdx.x == 0) seen += 1;
}

static int symbol_value() {
    int value = 0;
    return cudaMemcpyFromSymbol(&value, counter, sizeof value) == cudaSuccess ? value : -1;
}

// The number that the kernel computed, how often this copy of the object saw a
// launch, and the device variable.
extern "C" int plugin_run(int value) {
    int *d = nullptr, back[32] = {}, more = symbol_value();
    if (cudaMalloc(&d, sizeof back) != cudaSuccess) return -1;
    fill<<<1, 32>>>(d, value);
    if (cudaMemcpy(back, d, sizeof back, cudaMemcpyDeviceToHost) != cudaSuccess) return -2;
    if (cudaFree(d) != cudaSuccess) return -3;
    return back[31] * 1000 + seen * 100 + more;
}
