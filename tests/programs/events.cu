// Events: recorded, queried, timed, and ordering work across streams.
#include "check.h"

constexpr int PAUSE_MS = 20;

__device__ unsigned long long now() {
    unsigned long long time;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(time));
    return time;
}

// Takes its time, then stores.
__global__ void storeLate(int *where, int value) {
    unsigned long long start = now();
    while (now() - start < PAUSE_MS * 1000000ull) {}
    *where = value;
}

__global__ void twice(const int *from, int *to) { *to = 2 * *from; }

int main() {
    cudaStream_t a, b;
    CUDA(cudaStreamCreateWithFlags(&a, cudaStreamNonBlocking));
    CUDA(cudaStreamCreateWithFlags(&b, cudaStreamNonBlocking));
    cudaEvent_t start, stop, untimed;
    CUDA(cudaEventCreate(&start));
    CUDA(cudaEventCreateWithFlags(&stop, cudaEventBlockingSync));
    CUDA(cudaEventCreateWithFlags(&untimed, cudaEventDisableTiming));
    int *data, values[2] = {};
    CUDA(cudaMalloc(&data, sizeof values));
    CUDA(cudaMemset(data, 0, sizeof values));
    // Loads the kernels, so that the timing below is theirs alone.
    storeLate<<<1, 1, 0, a>>>(data, 1);
    twice<<<1, 1, 0, a>>>(data, data + 1);
    CUDA(cudaDeviceSynchronize());
    CUDA(cudaMemset(data, 0, sizeof values));
    CUDA(cudaDeviceSynchronize());

    CUDA(cudaEventQuery(untimed));
    fact("an event not recorded yet counts as done");

    CUDA(cudaEventRecord(start, a));
    storeLate<<<1, 1, 0, a>>>(data, 21);
    CUDA(cudaEventRecord(stop, a));
    EXPECT_ERROR(cudaEventQuery(stop), cudaErrorNotReady);
    float milliseconds = -1;
    EXPECT_ERROR(cudaEventElapsedTime(&milliseconds, start, stop), cudaErrorNotReady);
    CUDA(cudaStreamWaitEvent(b, stop, 0));
    twice<<<1, 1, 0, b>>>(data, data + 1);
    CUDA(cudaStreamSynchronize(b));
    CUDA(cudaEventQuery(stop));
    CUDA(cudaMemcpy(values, data, sizeof values, cudaMemcpyDeviceToHost));
    EXPECT(values[0] == 21 && values[1] == 42, "stream b did not wait: %d, %d", values[0], values[1]);
    fact("an event orders work across streams");

    CUDA(cudaEventElapsedTime(&milliseconds, start, stop));
    EXPECT(milliseconds >= 0.99f * PAUSE_MS && milliseconds < 5000, "a %d ms kernel took %g ms", PAUSE_MS, milliseconds);
    float backwards = 0;
    CUDA(cudaEventElapsedTime(&backwards, stop, start));
    EXPECT(backwards == -milliseconds, "backwards %g ms, forwards %g ms", backwards, milliseconds);
    fact("elapsed time covers the kernel");

    CUDA(cudaEventRecord(untimed, a));
    CUDA(cudaEventSynchronize(untimed));
    EXPECT_ERROR(cudaEventElapsedTime(&milliseconds, start, untimed), cudaErrorInvalidResourceHandle);
    (void)cudaGetLastError();
    fact("an event without timing has no elapsed time");

    // Recorded again, an event stands for its latest record.
    CUDA(cudaEventRecord(stop, a));
    storeLate<<<1, 1, 0, a>>>(data, 5);
    CUDA(cudaEventRecord(stop, a));
    CUDA(cudaEventSynchronize(stop));
    CUDA(cudaMemcpy(values, data, sizeof values, cudaMemcpyDeviceToHost));
    EXPECT(values[0] == 5, "the second record came too early: %d", values[0]);
    fact("the latest record counts");

    CUDA(cudaEventDestroy(start));
    CUDA(cudaEventDestroy(stop));
    CUDA(cudaEventDestroy(untimed));
    CUDA(cudaStreamDestroy(a));
    CUDA(cudaStreamDestroy(b));
    CUDA(cudaFree(data));
    return pass("events");
}
