// Managed memory with a known amount of everything:  uvm [MiB]
//
// The CPU writes every page, the GPU reads and writes every page (faults), the CPU reads every page
// (faults); then the same pages are moved by prefetches there and back. So each byte moves to the GPU
// twice and back twice, once by faults and once because it was asked for. Prints the bytes of each.
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>

#define CUDA(call) \
    do { \
        cudaError_t status = (call); \
        if (status != cudaSuccess) { \
            fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(status)); \
            exit(1); \
        } \
    } while (0)

__global__ void touch(unsigned *data, size_t words, size_t stride) {
    size_t at = (blockIdx.x * (size_t)blockDim.x + threadIdx.x) * stride;
    if (at < words) data[at] += 1;
}

int main(int argc, char **argv) {
    size_t bytes = (argc > 1 ? atoi(argv[1]) : 64) * (size_t)(1 << 20), words = bytes / 4, stride = 4096 / 4;
    unsigned *data;
    CUDA(cudaMallocManaged(&data, bytes));
    for (size_t at = 0; at < words; at += stride) data[at] = 7;
    size_t pages = words / stride;
    touch<<<(pages + 255) / 256, 256>>>(data, words, stride);
    CUDA(cudaDeviceSynchronize());
    unsigned long long sum = 0;
    for (size_t at = 0; at < words; at += stride) sum += data[at];
    cudaMemLocation gpu = {}, cpu = {};
    gpu.type = cudaMemLocationTypeDevice;
    gpu.id = 0;
    cpu.type = cudaMemLocationTypeHost;
    CUDA(cudaMemPrefetchAsync(data, bytes, gpu, 0, 0));
    CUDA(cudaDeviceSynchronize());
    CUDA(cudaMemPrefetchAsync(data, bytes, cpu, 0, 0));
    CUDA(cudaDeviceSynchronize());
    CUDA(cudaFree(data));
    if (sum != 8ull * pages) {
        fprintf(stderr, "the sum is %llu, not %llu\n", sum, 8ull * pages);
        return 1;
    }
    printf("%zu bytes to the GPU, %zu bytes back\n", 2 * bytes, 2 * bytes);
    return 0;
}
