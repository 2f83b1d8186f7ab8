// Eight host threads at once: each with its own stream, then all on the default stream (which, built
// with --default-stream per-thread, is each thread's own).  threads8 [elements]
#include "check.h"
#include <thread>
#include <vector>

constexpr int THREADS = 8, ROUNDS = 5;

__global__ void step(int *data, int n, int thread) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) data[i] = data[i] * 3 + thread;
}

static void work(int thread, int n, bool ownStream) {
    cudaStream_t stream = nullptr;
    if (ownStream) CUDA(cudaStreamCreate(&stream));
    std::vector<int> values(n);
    for (int i = 0; i < n; i++) values[i] = i ^ thread;
    int *data;
    for (int round = 0; round < ROUNDS; round++) {
        CUDA(cudaMalloc(&data, n * sizeof(int)));
        CUDA(cudaMemcpyAsync(data, values.data(), n * sizeof(int), cudaMemcpyHostToDevice, stream));
        step<<<(n + 127) / 128, 128, 0, stream>>>(data, n, thread);
        CUDA(cudaGetLastError());
        CUDA(cudaMemcpyAsync(values.data(), data, n * sizeof(int), cudaMemcpyDeviceToHost, stream));
        CUDA(cudaStreamSynchronize(stream));
        CUDA(cudaFree(data));
    }
    for (int i = 0; i < n; i++) {
        unsigned expected = i ^ thread;
        for (int round = 0; round < ROUNDS; round++) expected = expected * 3 + thread;
        EXPECT(values[i] == int(expected), "thread %d, element %d: %d, not %d", thread, i, values[i], int(expected));
    }
    // The last error belongs to the thread that made it.
    if (thread == 0) EXPECT_ERROR(cudaSetDevice(-1), cudaErrorInvalidDevice);
    EXPECT_ERROR(cudaGetLastError(), thread == 0 ? cudaErrorInvalidDevice : cudaSuccess);
    if (ownStream) CUDA(cudaStreamDestroy(stream));
}

static void together(int n, bool ownStream) {
    std::vector<std::thread> threads;
    for (int thread = 0; thread < THREADS; thread++) threads.emplace_back(work, thread, n, ownStream);
    for (std::thread &thread : threads) thread.join();
}

int main(int argc, char **argv) {
    int n = int(argument(argc, argv, 1, 5000));
    together(n, true);
    fact("%d threads, each with a stream, %d rounds: right", THREADS, ROUNDS);
    together(n, false);
    fact("%d threads on the default stream, %d rounds: right", THREADS, ROUNDS);
#ifdef CUDA_API_PER_THREAD_DEFAULT_STREAM
    return pass("threads8_ptds");
#else
    return pass("threads8");
#endif
}
