// Plain CUDA programs, each with at most one thing wrong: plain NAME
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cuda_runtime.h>
#include <vector>

#define CHECK(call)                                                                        \
    do {                                                                                   \
        cudaError_t error = (call);                                                        \
        if (error != cudaSuccess) {                                                        \
            printf("%s: %s\n", #call, cudaGetErrorString(error));                          \
            return 1;                                                                      \
        }                                                                                  \
    } while (0)

__global__ void saxpy(int n, float a, const float *x, float *y) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = a * x[i] + y[i];
}

__global__ void burn(float *out, int turns) {
    float x = threadIdx.x;
    for (int turn = 0; turn < turns; ++turn) x = x * 1.0001f + 0.5f;
    out[blockIdx.x * blockDim.x + threadIdx.x] = x;
}

static const int N = 1 << 20;

// The classic sample: allocate, copy in, run once, copy out.
static int sample() {
    std::vector<float> x(N, 1), y(N, 2);
    float *dx, *dy;
    CHECK(cudaMalloc(&dx, N * 4));
    CHECK(cudaMalloc(&dy, N * 4));
    CHECK(cudaMemcpy(dx, x.data(), N * 4, cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(dy, y.data(), N * 4, cudaMemcpyHostToDevice));
    saxpy<<<N / 256, 256>>>(N, 2, dx, dy);
    CHECK(cudaMemcpy(y.data(), dy, N * 4, cudaMemcpyDeviceToHost));
    printf("%f\n", y[0]);
    CHECK(cudaFree(dx));
    CHECK(cudaFree(dy));
    return 0;
}

// Long kernels back to back: nothing to say.
static int busy() {
    float *out;
    CHECK(cudaMalloc(&out, 1024 * 256 * 4));
    for (int step = 0; step < 100; ++step) burn<<<1024, 256>>>(out, 100000);
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaFree(out));
    return 0;
}

// Tiny kernels, a flood of them: bound by launching.
static int tiny() {
    float *out;
    CHECK(cudaMalloc(&out, 256 * 4));
    for (int step = 0; step < 5000; ++step) burn<<<1, 256>>>(out, 10);
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaFree(out));
    return 0;
}

// The host waits after every short kernel.
static int syncs() {
    float *out;
    CHECK(cudaMalloc(&out, 256 * 256 * 4));
    for (int step = 0; step < 2000; ++step) {
        burn<<<256, 256>>>(out, 200);
        CHECK(cudaDeviceSynchronize());
    }
    CHECK(cudaFree(out));
    return 0;
}

// Memory is taken and given back in every step.
static int churn() {
    for (int step = 0; step < 300; ++step) {
        float *x, *y;
        CHECK(cudaMalloc(&x, N * 4));
        CHECK(cudaMalloc(&y, N * 4));
        saxpy<<<N / 256, 256>>>(N, 2, x, y);
        CHECK(cudaFree(x));
        CHECK(cudaFree(y));
    }
    return 0;
}

// Every step leaves a megabyte behind.
static int leaks() {
    float *y;
    CHECK(cudaMalloc(&y, N * 4));
    for (int step = 0; step < 200; ++step) {
        float *x;
        CHECK(cudaMalloc(&x, N * 4));
        saxpy<<<N / 256, 256>>>(N, 2, x, y);
        CHECK(cudaDeviceSynchronize());
    }
    return 0;
}

// A copy and a kernel in turn on one stream, from pinned memory, where they could overlap.
static int serial() {
    const size_t size = 32 << 20;
    float *host, *device;
    CHECK(cudaMallocHost(&host, size));
    CHECK(cudaMalloc(&device, size));
    for (int step = 0; step < 60; ++step) {
        CHECK(cudaMemcpyAsync(device, host, size, cudaMemcpyHostToDevice));
        saxpy<<<size / 1024, 256>>>(size / 4, 2, device, device);
        CHECK(cudaMemcpyAsync(host, device, size, cudaMemcpyDeviceToHost));
    }
    CHECK(cudaDeviceSynchronize());
    return 0;
}

// One launch asks for more than a block may have, and nobody looks.
static int refused() {
    float *out;
    CHECK(cudaMalloc(&out, 4096 * 4));
    for (int step = 0; step < 50; ++step) {
        burn<<<1, 256>>>(out, 1000);
        burn<<<1, 4096>>>(out, 1000);
    }
    CHECK(cudaDeviceSynchronize());
    return 0;
}

int main(int count, char **words) {
    const char *names[] = {"sample", "busy", "tiny", "syncs", "churn", "leaks", "serial", "refused"};
    int (*programs[])() = {sample, busy, tiny, syncs, churn, leaks, serial, refused};
    for (int at = 0; at < 8; ++at)
        if (count > 1 && !strcmp(words[1], names[at])) return programs[at]();
    return 2;
}
