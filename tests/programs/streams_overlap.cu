// Streams: work in one is ordered, launches return before the work is done, two streams run at the
// same time, and copies run beside kernels. Every wait on the device ends by itself after 5 s, so
// that a device without overlap fails instead of hanging.  streams_overlap [elements a chunk]
#include "check.h"
#include <vector>

constexpr unsigned long long PATIENCE_NS = 5000000000ull;

__device__ unsigned long long now() {
    unsigned long long time;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(time));
    return time;
}

// Waits until *flag is not zero; says 1 in *seen if it came, 2 if patience ran out.
__global__ void waitFor(volatile int *flag, int *seen) {
    unsigned long long start = now();
    while (*flag == 0) {
        if (now() - start > PATIENCE_NS) {
            *seen = 2;
            return;
        }
    }
    *seen = 1;
}

__global__ void raise(volatile int *flag) { *flag = 1; }

__global__ void affine(int *data, int n, int factor, int offset) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        data[i] = data[i] * factor + offset;
}

static void pipeline(int n) {
    constexpr int STREAMS = 4, ROUNDS = 3;
    cudaStream_t streams[STREAMS];
    int *host[STREAMS], *device[STREAMS];
    for (int s = 0; s < STREAMS; s++) {
        CUDA(cudaStreamCreate(&streams[s]));
        CUDA(cudaMallocHost(&host[s], n * sizeof(int)));
        CUDA(cudaMalloc(&device[s], n * sizeof(int)));
        for (int i = 0; i < n; i++) host[s][i] = i + s;
    }
    for (int round = 0; round < ROUNDS; round++)
        for (int s = 0; s < STREAMS; s++) {
            CUDA(cudaMemcpyAsync(device[s], host[s], n * sizeof(int), cudaMemcpyHostToDevice, streams[s]));
            // In the wrong order these two give another number.
            affine<<<8, 128, 0, streams[s]>>>(device[s], n, 3, s);
            affine<<<8, 128, 0, streams[s]>>>(device[s], n, 1, -round);
            CUDA(cudaGetLastError());
            CUDA(cudaMemcpyAsync(host[s], device[s], n * sizeof(int), cudaMemcpyDeviceToHost, streams[s]));
        }
    for (int s = 0; s < STREAMS; s++) {
        CUDA(cudaStreamSynchronize(streams[s]));
        CUDA(cudaStreamQuery(streams[s]));
        for (int i = 0; i < n; i++) {
            int expected = i + s;
            for (int round = 0; round < ROUNDS; round++) expected = expected * 3 + s - round;
            EXPECT(host[s][i] == expected, "stream %d, element %d: %d, not %d", s, i, host[s][i], expected);
        }
        CUDA(cudaStreamDestroy(streams[s]));
        CUDA(cudaFreeHost(host[s]));
        CUDA(cudaFree(device[s]));
    }
    fact("%d streams, %d rounds of copy, kernel, kernel, copy: right", STREAMS, ROUNDS);
}

int main(int argc, char **argv) {
    pipeline(int(argument(argc, argv, 1, 20000)));

    cudaStream_t a, b;
    CUDA(cudaStreamCreateWithFlags(&a, cudaStreamNonBlocking));
    CUDA(cudaStreamCreateWithFlags(&b, cudaStreamNonBlocking));
    int *mapped, *flag, *seen, *one, answer = 0;
    CUDA(cudaHostAlloc(&mapped, sizeof(int), cudaHostAllocMapped));
    CUDA(cudaMallocHost(&one, sizeof(int)));
    CUDA(cudaMalloc(&flag, sizeof(int)));
    CUDA(cudaMalloc(&seen, sizeof(int)));
    *one = 1;
    int *mappedOnDevice;
    CUDA(cudaHostGetDevicePointer(&mappedOnDevice, mapped, 0));
    // Both kernels run once before: loading one lazily would wait for the other to end.
    raise<<<1, 1, 0, a>>>(flag);
    waitFor<<<1, 1, 0, a>>>(flag, seen);
    CUDA(cudaStreamSynchronize(a));

    *(volatile int *)mapped = 0;
    waitFor<<<1, 1, 0, a>>>(mappedOnDevice, seen);
    CUDA(cudaGetLastError());
    EXPECT_ERROR(cudaStreamQuery(a), cudaErrorNotReady);
    CUDA(cudaStreamQuery(b));
    *(volatile int *)mapped = 1;
    CUDA(cudaStreamSynchronize(a));
    CUDA(cudaStreamQuery(a));
    CUDA(cudaMemcpy(&answer, seen, sizeof answer, cudaMemcpyDeviceToHost));
    EXPECT(answer == 1, "the kernel did not see the host's flag");
    fact("a launch returns before the kernel ends");

    CUDA(cudaMemset(flag, 0, sizeof(int)));
    CUDA(cudaDeviceSynchronize());
    waitFor<<<1, 1, 0, a>>>(flag, seen);
    raise<<<1, 1, 0, b>>>(flag);
    CUDA(cudaDeviceSynchronize());
    CUDA(cudaMemcpy(&answer, seen, sizeof answer, cudaMemcpyDeviceToHost));
    EXPECT(answer == 1, "kernels in two streams did not overlap");
    fact("kernels of two streams overlap");

    CUDA(cudaMemset(flag, 0, sizeof(int)));
    CUDA(cudaDeviceSynchronize());
    waitFor<<<1, 1, 0, a>>>(flag, seen);
    CUDA(cudaMemcpyAsync(flag, one, sizeof(int), cudaMemcpyHostToDevice, b));
    CUDA(cudaDeviceSynchronize());
    CUDA(cudaMemcpy(&answer, seen, sizeof answer, cudaMemcpyDeviceToHost));
    EXPECT(answer == 1, "a copy did not overlap with a kernel of another stream");
    fact("a copy overlaps with a kernel");

    CUDA(cudaStreamDestroy(a));
    CUDA(cudaStreamDestroy(b));
    CUDA(cudaFreeHost(mapped));
    CUDA(cudaFreeHost(one));
    CUDA(cudaFree(flag));
    CUDA(cudaFree(seen));
    return pass("streams_overlap");
}
