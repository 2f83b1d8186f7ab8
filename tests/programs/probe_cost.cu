// Three kernels to measure what probes cost: a short one, one with shared memory, one that needs many
// registers.  probe_cost [LAUNCHES] [THREADS_OF_VECTOR_ADD]
#include "check.h"
#include <algorithm>
#include <vector>

__global__ void vectorAdd(const float *a, const float *b, float *c, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}

template <int TILE> __global__ void matmulTiled(const float *a, const float *b, float *c, int n) {
    __shared__ float left[TILE][TILE], right[TILE][TILE];
    int row = blockIdx.y * TILE + threadIdx.y, column = blockIdx.x * TILE + threadIdx.x;
    float sum = 0;
    for (int k = 0; k < n; k += TILE) {
        left[threadIdx.y][threadIdx.x] = a[row * n + k + threadIdx.x];
        right[threadIdx.y][threadIdx.x] = b[(k + threadIdx.y) * n + column];
        __syncthreads();
        for (int i = 0; i < TILE; i++) sum += left[threadIdx.y][i] * right[i][threadIdx.x];
        __syncthreads();
    }
    c[row * n + column] = sum;
}

// Each thread has an 8 x 8 part of the product in registers; 256 threads a block, 128 x 128 of it.
__global__ void sgemm(const float *a, const float *b, float *c, int n) {
    __shared__ float left[8][128], right[8][128];
    float sums[8][8] = {}, x[8], y[8];
    int thread = threadIdx.x, row = thread / 16 * 8, column = thread % 16 * 8;
    const float *from_a = a + blockIdx.y * 128 * n, *from_b = b + blockIdx.x * 128;
    for (int k = 0; k < n; k += 8) {
        for (int i = 0; i < 4; i++) {
            int at = thread + 256 * i;
            left[at % 8][at / 8] = from_a[at / 8 * n + k + at % 8];
            right[at / 128][at % 128] = from_b[(k + at / 128) * n + at % 128];
        }
        __syncthreads();
#pragma unroll
        for (int i = 0; i < 8; i++) {
#pragma unroll
            for (int j = 0; j < 8; j++) {
                x[j] = left[i][row + j];
                y[j] = right[i][column + j];
            }
#pragma unroll
            for (int p = 0; p < 8; p++)
#pragma unroll
                for (int q = 0; q < 8; q++) sums[p][q] += x[p] * y[q];
        }
        __syncthreads();
    }
    for (int p = 0; p < 8; p++)
        for (int q = 0; q < 8; q++) c[(blockIdx.y * 128 + row + p) * n + blockIdx.x * 128 + column + q] = sums[p][q];
}

template <class Launch> static void measure(const char *name, int launches, Launch launch) {
    cudaEvent_t begin, end;
    CUDA(cudaEventCreate(&begin));
    CUDA(cudaEventCreate(&end));
    std::vector<float> times;
    for (int i = 0; i < 3; i++) launch();
    CUDA(cudaDeviceSynchronize());
    for (int i = 0; i < launches; i++) {
        CUDA(cudaEventRecord(begin));
        launch();
        CUDA(cudaEventRecord(end));
        CUDA(cudaEventSynchronize(end));
        float milliseconds;
        CUDA(cudaEventElapsedTime(&milliseconds, begin, end));
        times.push_back(milliseconds * 1000);
    }
    CUDA(cudaGetLastError());
    std::sort(times.begin(), times.end());
    fact("%s %.2f %.2f", name, times[0], times[times.size() / 2]);
}

int main(int argc, char **argv) {
    int launches = int(argument(argc, argv, 1, 50)), threads = int(argument(argc, argv, 2, 4 << 20)), n = 1024;
    if (threads < n * n) n = 128;
    size_t bytes = size_t(std::max(threads, n * n)) * sizeof(float);
    float *a, *b, *c;
    CUDA(cudaMalloc(&a, bytes));
    CUDA(cudaMalloc(&b, bytes));
    CUDA(cudaMalloc(&c, bytes));
    CUDA(cudaMemset(a, 0, bytes));
    CUDA(cudaMemset(b, 0, bytes));
    measure("vectorAdd", launches, [&] { vectorAdd<<<(threads + 255) / 256, 256>>>(a, b, c, threads); });
    measure("matmulTiled", launches, [&] { matmulTiled<16><<<dim3(n / 16, n / 16), dim3(16, 16)>>>(a, b, c, n); });
    measure("sgemm", launches, [&] { sgemm<<<dim3(n / 128, n / 128), 256>>>(a, b, c, n); });
    return 0;
}
