// What C++ programs use: templates, lambdas, constant memory, device globals and their symbols,
// structs as arguments, pitched copies, occupancy, much dynamic shared memory.
#include "check.h"
#include <vector>

// --- templates and lambdas ------------------------------------------------------------------------

template <typename Function> __global__ void forEach(int n, Function function) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) function(i);
}

template <typename T, int POWER> __global__ void power(T *data, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    T result = 1;
#pragma unroll
    for (int k = 0; k < POWER; k++) result *= data[i];
    data[i] = result;
}

template <typename T> __device__ T total(T last) { return last; }
template <typename T, typename... Rest> __device__ T total(T first, Rest... rest) { return first + total<T>(rest...); }
template <typename... Values> __global__ void sumAll(double *out, Values... values) { *out = total<double>(values...); }

struct Extra {
    int add;
    char text[6];
};

template <typename T, int POWER> static void checkPower() {
    constexpr int N = 100;
    T *data, values[N], expected[N];
    for (int i = 0; i < N; i++) {
        values[i] = T(i % 9 - 4);
        expected[i] = 1;
        for (int k = 0; k < POWER; k++) expected[i] *= values[i];
    }
    CUDA(cudaMalloc(&data, sizeof values));
    CUDA(cudaMemcpy(data, values, sizeof values, cudaMemcpyHostToDevice));
    power<T, POWER><<<1, 128>>>(data, N);
    CUDA(cudaMemcpy(values, data, sizeof values, cudaMemcpyDeviceToHost));
    for (int i = 0; i < N; i++) EXPECT(values[i] == expected[i], "power %d of element %d is wrong", POWER, i);
    CUDA(cudaFree(data));
}

static void templatesAndLambdas() {
    checkPower<int, 3>();
    checkPower<float, 5>();
    checkPower<double, 2>();
    checkPower<long long, 7>();
    double *out, sum = 0;
    CUDA(cudaMalloc(&out, sizeof sum));
    sumAll<<<1, 1>>>(out, 1.5f, 2, -3ll, (unsigned char)200, 0.25, (short)-7);
    CUDA(cudaMemcpy(&sum, out, sizeof sum, cudaMemcpyDeviceToHost));
    EXPECT(sum == 193.75, "the variadic kernel's sum is %g", sum);
    CUDA(cudaFree(out));

    constexpr int N = 1000;
    int *data, factor = 3;
    Extra extra = {7, "hello"};
    std::vector<int> values(N);
    CUDA(cudaMalloc(&data, N * sizeof(int)));
    forEach<<<4, 256>>>(N, [=] __device__(int i) { data[i] = i * factor + extra.add + extra.text[i % 5]; });
    CUDA(cudaMemcpy(values.data(), data, N * sizeof(int), cudaMemcpyDeviceToHost));
    for (int i = 0; i < N; i++) EXPECT(values[i] == 3 * i + 7 + "hello"[i % 5], "the lambda's element %d is %d", i, values[i]);
    CUDA(cudaFree(data));
    fact("templates, variadic kernels and lambdas right");
}

// --- symbols --------------------------------------------------------------------------------------

__constant__ float coefficients[4] = {1, 2, 3, 4};
__constant__ struct { short scale; double offset; } setting = {2, 0.5};
__device__ int counter = 40;
__device__ float table[16];
__device__ int *indirect = &counter;

__global__ void polynomial(const float *x, float *y) {
    int i = threadIdx.x;
    float result = 0;
    for (int k = 3; k >= 0; k--) result = result * x[i] + coefficients[k];
    y[i] = result * setting.scale + float(setting.offset);
    table[i] = y[i];
    if (i == 0) *indirect += 2;
}

static void symbols() {
    float x[16], y[16], fromTable[16], *dx, *dy;
    for (int i = 0; i < 16; i++) x[i] = float(i - 8);
    CUDA(cudaMalloc(&dx, sizeof x));
    CUDA(cudaMalloc(&dy, sizeof y));
    CUDA(cudaMemcpy(dx, x, sizeof x, cudaMemcpyHostToDevice));
    for (int round = 0; round < 2; round++) {
        float c[4] = {1, 2, 3, 4};
        if (round == 1) {
            float last[2] = {-1, 10};
            CUDA(cudaMemcpyToSymbol(coefficients, last, sizeof last, 2 * sizeof(float)));
            c[2] = -1, c[3] = 10;
        }
        polynomial<<<1, 16>>>(dx, dy);
        CUDA(cudaMemcpy(y, dy, sizeof y, cudaMemcpyDeviceToHost));
        CUDA(cudaMemcpyFromSymbol(fromTable, table, sizeof fromTable));
        for (int i = 0; i < 16; i++) {
            float expected = (((c[3] * x[i] + c[2]) * x[i] + c[1]) * x[i] + c[0]) * 2 + 0.5f;
            EXPECT(y[i] == expected && fromTable[i] == expected, "round %d: %g and %g, not %g", round, y[i], fromTable[i], expected);
        }
    }
    int count = 0;
    CUDA(cudaMemcpyFromSymbol(&count, counter, sizeof count));
    EXPECT(count == 44, "the counter is %d, not 44", count);
    void *address;
    size_t size = 0;
    CUDA(cudaGetSymbolAddress(&address, table));
    CUDA(cudaGetSymbolSize(&size, table));
    EXPECT(size == sizeof fromTable, "the table has %zu bytes", size);
    CUDA(cudaMemset(address, 0, size));
    CUDA(cudaMemcpyFromSymbol(fromTable, table, sizeof fromTable));
    EXPECT(fromTable[3] == 0, "the table's address is not the table's");
    CUDA(cudaFree(dx));
    CUDA(cudaFree(dy));
    fact("constant memory, device globals and symbol copies right");
}

// --- pitched memory -------------------------------------------------------------------------------

__global__ void negate(char *data, size_t pitch, int width, int height) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < width && y < height) {
        int *row = reinterpret_cast<int *>(data + y * pitch);
        row[x] = -row[x];
    }
}

static void pitched() {
    constexpr int WIDTH = 100, HEIGHT = 37;
    std::vector<int> in(WIDTH * HEIGHT), out(WIDTH * HEIGHT), padded(128 * HEIGHT, -5);
    for (int i = 0; i < WIDTH * HEIGHT; i++) in[i] = i;
    char *data;
    size_t pitch = 0, row = WIDTH * sizeof(int);
    CUDA(cudaMallocPitch(&data, &pitch, row, HEIGHT));
    EXPECT(pitch >= row && pitch % 16 == 0, "the pitch is %zu", pitch);
    CUDA(cudaMemset2D(data, pitch, 0xff, pitch, HEIGHT));
    CUDA(cudaMemcpy2D(data, pitch, in.data(), row, row, HEIGHT, cudaMemcpyHostToDevice));
    negate<<<dim3(4, 3), dim3(32, 16)>>>(data, pitch, WIDTH, HEIGHT);
    CUDA(cudaMemcpy2D(out.data(), row, data, pitch, row, HEIGHT, cudaMemcpyDeviceToHost));
    for (int i = 0; i < WIDTH * HEIGHT; i++) EXPECT(out[i] == -i, "pitched element %d is %d", i, out[i]);
    // The inner part only, into wider rows; what lies between stays.
    CUDA(cudaMemcpy2D(padded.data(), 128 * sizeof(int), data + 4 * pitch + 40, pitch, 20 * sizeof(int), 8, cudaMemcpyDeviceToHost));
    for (int y = 0; y < HEIGHT; y++)
        for (int x = 0; x < 128; x++) {
            int expected = x < 20 && y < 8 ? -((y + 4) * WIDTH + x + 10) : -5;
            EXPECT(padded[y * 128 + x] == expected, "(%d, %d) is %d, not %d", x, y, padded[y * 128 + x], expected);
        }
    CUDA(cudaFree(data));
    fact("pitched memory and 2D copies right");
}

// --- occupancy and shared memory ------------------------------------------------------------------

__global__ void reverseShared(int *data, int n) {
    extern __shared__ int buffer[];
    for (int i = threadIdx.x; i < n; i += blockDim.x) buffer[n - 1 - i] = data[i];
    __syncthreads();
    for (int i = threadIdx.x; i < n; i += blockDim.x) data[i] = buffer[i];
}

static void sharedMemory() {
    constexpr int BYTES = 60 * 1024, N = BYTES / 4;
    int *data;
    std::vector<int> values(N);
    for (int i = 0; i < N; i++) values[i] = i;
    CUDA(cudaMalloc(&data, BYTES));
    CUDA(cudaMemcpy(data, values.data(), BYTES, cudaMemcpyHostToDevice));
    reverseShared<<<1, 256, BYTES>>>(data, N);
    EXPECT_ERROR(cudaGetLastError(), cudaErrorInvalidValue);
    CUDA(cudaFuncSetAttribute(reverseShared, cudaFuncAttributeMaxDynamicSharedMemorySize, BYTES));
    reverseShared<<<1, 256, BYTES>>>(data, N);
    CUDA(cudaGetLastError());
    CUDA(cudaMemcpy(values.data(), data, BYTES, cudaMemcpyDeviceToHost));
    for (int i = 0; i < N; i++) EXPECT(values[i] == N - 1 - i, "shared element %d is %d", i, values[i]);
    CUDA(cudaFree(data));
    fact("60 KiB of shared memory: refused, then asked for, then right");
}

static void occupancy() {
    int blocks = 0, grid = 0, block = 0;
    CUDA(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, reverseShared, 256, 0));
    EXPECT(blocks >= 1 && blocks <= 32, "%d blocks a multiprocessor", blocks);
    CUDA(cudaOccupancyMaxPotentialBlockSize(&grid, &block, reverseShared));
    EXPECT(grid >= 1 && block >= 32 && block <= 1024 && block % 32 == 0, "suggested %d blocks of %d", grid, block);
    cudaFuncAttributes attributes;
    CUDA(cudaFuncGetAttributes(&attributes, reverseShared));
    EXPECT(attributes.maxThreadsPerBlock >= 256 && attributes.numRegs > 0 && attributes.sharedSizeBytes == 0 &&
               attributes.maxDynamicSharedSizeBytes == 60 * 1024,
           "%d threads, %d registers, %zu + %d bytes shared", attributes.maxThreadsPerBlock, attributes.numRegs,
           attributes.sharedSizeBytes, attributes.maxDynamicSharedSizeBytes);
    fact("occupancy and function attributes sensible");
}

int main() {
    templatesAndLambdas();
    symbols();
    pitched();
    sharedMemory();
    occupancy();
    return pass("cpp_features");
}
