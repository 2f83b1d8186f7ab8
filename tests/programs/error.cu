// Makes mistakes on purpose and expects the errors that hardware gives; the last one, a kernel that
// stores to a wild address, ends the context's life.
#include "check.h"
#include <cstring>

__global__ void fill(int *where, int value) { where[threadIdx.x] = value; }

static void wrongArguments() {
    void *pointer = nullptr;
    EXPECT_ERROR(cudaMalloc(static_cast<void **>(nullptr), 16), cudaErrorInvalidValue);
    EXPECT_ERROR(cudaMalloc(&pointer, size_t(1) << 60), cudaErrorMemoryAllocation);
    EXPECT_ERROR(cudaFree(reinterpret_cast<void *>(0x1230)), cudaErrorInvalidValue);
    EXPECT_ERROR(cudaSetDevice(9999), cudaErrorInvalidDevice);
    int value = 0;
    CUDA(cudaMalloc(&pointer, 4096));
    EXPECT_ERROR(cudaMemcpy(pointer, &value, sizeof value, cudaMemcpyKind(42)), cudaErrorInvalidMemcpyDirection);
    EXPECT_ERROR(cudaMemset(pointer, 0, size_t(1) << 40), cudaErrorInvalidValue);
    CUDA(cudaFree(pointer));
    CUDA(cudaFree(nullptr));
    fact("wrong arguments are refused");
}

static void lastError() {
    (void)cudaGetLastError();
    EXPECT_ERROR(cudaSetDevice(-1), cudaErrorInvalidDevice);
    EXPECT_ERROR(cudaPeekAtLastError(), cudaErrorInvalidDevice);
    CUDA(cudaFree(nullptr));
    EXPECT_ERROR(cudaPeekAtLastError(), cudaErrorInvalidDevice);
    EXPECT_ERROR(cudaGetLastError(), cudaErrorInvalidDevice);
    CUDA(cudaGetLastError());
    fact("the last error is kept until it is fetched");
    EXPECT(!strcmp(cudaGetErrorName(cudaErrorInvalidValue), "cudaErrorInvalidValue"), "wrong name");
    EXPECT(!strcmp(cudaGetErrorString(cudaErrorInvalidValue), "invalid argument"), "wrong text");
    EXPECT(!strcmp(cudaGetErrorName(cudaError_t(12345)), "unrecognized error code"), "wrong name of no error");
    fact("errors have names and texts");
}

// Which of the two errors it is differs between versions of CUDA.
static void refused(const char *what) {
    cudaError_t status = cudaGetLastError();
    EXPECT(status == cudaErrorInvalidValue || status == cudaErrorInvalidConfiguration, "%s gave %s", what,
           cudaGetErrorName(status));
    fact("%s: %s", what, cudaGetErrorName(status));
}

static void wrongLaunches() {
    int *data, value = 0;
    CUDA(cudaMalloc(&data, 64 * sizeof(int)));
    fill<<<1, 2048>>>(data, 1);
    refused("2048 threads");
    fill<<<0, 32>>>(data, 1);
    refused("no blocks");
    fill<<<dim3(1, 70000), 32>>>(data, 1);
    refused("70000 blocks in y");
    fill<<<1, 32, 1 << 20>>>(data, 1);
    refused("1 MiB of shared memory");
    fill<<<1, 32>>>(data, 7);
    CUDA(cudaGetLastError());
    CUDA(cudaMemcpy(&value, data + 31, sizeof value, cudaMemcpyDeviceToHost));
    EXPECT(value == 7, "after refused launches a good one stored %d, not 7", value);
    CUDA(cudaFree(data));
    fact("impossible launches are refused, possible ones still work");
}

static void wildStore() {
    // Nothing is ever mapped there, on the device or the host.
    fill<<<1, 1>>>(reinterpret_cast<int *>(16), 1);
    CUDA(cudaGetLastError());
    EXPECT_ERROR(cudaDeviceSynchronize(), cudaErrorIllegalAddress);
    fact("a wild store is an illegal address");
    int *data;
    EXPECT_ERROR(cudaMalloc(&data, 16), cudaErrorIllegalAddress);
    EXPECT_ERROR(cudaDeviceSynchronize(), cudaErrorIllegalAddress);
    EXPECT_ERROR(cudaGetLastError(), cudaErrorIllegalAddress);
    EXPECT_ERROR(cudaDeviceSynchronize(), cudaErrorIllegalAddress);
    fact("the error is sticky");
}

int main() {
    wrongArguments();
    lastError();
    wrongLaunches();
    wildStore();
    return pass("error");
}
