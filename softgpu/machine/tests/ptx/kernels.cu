// Kernels behind kernels.ptx: nvcc -ptx -arch=sm_80 kernels.cu -o kernels.ptx
#include <cassert>
#include <cstdio>

extern "C" __global__ void vectorAdd(const float *a, const float *b, float *c, int n) {
    int i = blockDim.x * blockIdx.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}

#define TILE 16
extern "C" __global__ void matmul(const float *a, const float *b, float *c, int n) {
    __shared__ float as[TILE][TILE], bs[TILE][TILE];
    int row = blockIdx.y * TILE + threadIdx.y, col = blockIdx.x * TILE + threadIdx.x;
    float sum = 0;
    for (int t = 0; t < n; t += TILE) {
        as[threadIdx.y][threadIdx.x] = a[row * n + t + threadIdx.x];
        bs[threadIdx.y][threadIdx.x] = b[(t + threadIdx.y) * n + col];
        __syncthreads();
        for (int k = 0; k < TILE; k++) sum += as[threadIdx.y][k] * bs[k][threadIdx.x];
        __syncthreads();
    }
    c[row * n + col] = sum;
}

extern "C" __global__ void reduce(const int *in, int *out, int n) {
    __shared__ int partial[32];
    int sum = 0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) sum += in[i];
    for (int d = 16; d; d >>= 1) sum += __shfl_down_sync(~0u, sum, d);
    if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x < 32) {
        sum = threadIdx.x < blockDim.x / 32 ? partial[threadIdx.x] : 0;
        for (int d = 16; d; d >>= 1) sum += __shfl_xor_sync(~0u, sum, d);
        if (threadIdx.x == 0) atomicAdd(out, sum);
    }
}

extern "C" __global__ void histogram(const unsigned char *data, unsigned *bins, int n) {
    __shared__ unsigned local[256];
    for (int i = threadIdx.x; i < 256; i += blockDim.x) local[i] = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        atomicAdd(&local[data[i]], 1u);
    __syncthreads();
    for (int i = threadIdx.x; i < 256; i += blockDim.x) atomicAdd(&bins[i], local[i]);
}

// Different trip counts, nested ifs, early return, a switch.
extern "C" __global__ void diverge(int *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int v = i, steps = 0;
    while (v != 1 && v > 0) {
        if (v & 1) {
            if (v % 3 == 0) steps += 2; else steps += 1;
            v = 3 * v + 1;
        } else {
            v >>= 1;
            steps++;
        }
    }
    switch (i % 7) {
    case 0: steps ^= 0x100; break;
    case 1: steps *= 3; break;
    case 2: steps -= 5;  // falls through
    case 3: steps = -steps; break;
    case 4: if (steps > 50) { out[i] = -1; return; } break;
    case 5: steps <<= 2; break;
    default: steps += i;
    }
    out[i] = steps;
}

__device__ __noinline__ int ackermann(int m, int n) {
    if (m == 0) return n + 1;
    if (n == 0) return ackermann(m - 1, 1);
    return ackermann(m - 1, ackermann(m, n - 1));
}
extern "C" __global__ void recurse(int *out) {
    int i = threadIdx.x;
    out[i] = ackermann(i % 3, i % 5);
}

struct Big { int v[6]; double d; };
__device__ __noinline__ Big make(int i) {
    Big b;
    for (int k = 0; k < 6; k++) b.v[k] = i * k;
    b.d = i * 0.5;
    return b;
}
__device__ __noinline__ double total(Big b, char tag) {
    double s = b.d + tag;
    for (int k = 0; k < 6; k++) s += b.v[k];
    return s;
}
extern "C" __global__ void structs(double *out) { out[threadIdx.x] = total(make(threadIdx.x), 'A'); }

typedef int (*Op)(int, int);
__device__ __noinline__ int opAdd(int a, int b) { return a + b; }
__device__ __noinline__ int opMul(int a, int b) { return a * b; }
__device__ __noinline__ int opSub(int a, int b) { return a - b; }
__device__ Op ops[3] = {opAdd, opMul, opSub};
struct Shape { __device__ virtual float area() const = 0; };
struct Square : Shape { float s; __device__ Square(float s) : s(s) {} __device__ float area() const override { return s * s; } };
struct Circle : Shape { float r; __device__ Circle(float r) : r(r) {} __device__ float area() const override { return 3.0f * r * r; } };
extern "C" __global__ void indirect(int *out, float *areas) {
    int i = threadIdx.x;
    out[i] = ops[i % 3](i, 7);
    Square sq(i);
    Circle ci(i);
    Shape *s = i & 1 ? (Shape *)&sq : (Shape *)&ci;
    areas[i] = s->area();
}

__device__ int lock;
__device__ int guarded;
extern "C" __global__ void spinlock(int *order) {
    bool done = false;
    while (!done) {
        if (atomicCAS(&lock, 0, 1) == 0) {
            __threadfence();
            int v = *(volatile int *)&guarded;
            *(volatile int *)&guarded = v + 1;
            order[v] = blockIdx.x * blockDim.x + threadIdx.x;
            __threadfence();
            atomicExch(&lock, 0);
            done = true;
        }
    }
}
// The form that deadlocks without independent thread scheduling.
extern "C" __global__ void spinlockNaive(int *count) {
    while (atomicCAS(&lock, 0, 1) != 0) {}
    __threadfence();
    *(volatile int *)count = *(volatile int *)count + 1;
    __threadfence();
    atomicExch(&lock, 0);
}

__device__ unsigned arrived;
extern "C" __global__ void gridBarrier(int *data, int *out) {
    int i = blockIdx.x;
    if (threadIdx.x == 0) {
        data[i] = i + 1;
        __threadfence();
        atomicAdd(&arrived, 1u);
        while (*(volatile unsigned *)&arrived < gridDim.x) {}
        __threadfence();
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        int s = 0;
        for (int k = 0; k < gridDim.x; k++) s += ((volatile int *)data)[k];
        out[i] = s;
    }
}

extern "C" __global__ void say(int n, double x) {
    if (threadIdx.x < n)
        printf("thread %d of %s: %5.2f %c %llx %%\n", threadIdx.x, "block", x + threadIdx.x, 'z', 0x123456789abcLL + threadIdx.x);
}
extern "C" __global__ void check(const int *data) { assert(data[threadIdx.x] == 1); }

__constant__ float weights[4] = {1, 2, 3, 4};
extern __shared__ float dynamic[];
extern "C" __global__ void constants(float *out) {
    float w[4];
    for (int k = 0; k < 4; k++) w[(k + threadIdx.x) % 4] = weights[k] * threadIdx.x;
    dynamic[threadIdx.x] = w[threadIdx.x % 3] + w[3];
    __syncthreads();
    out[threadIdx.x] = dynamic[blockDim.x - 1 - threadIdx.x];
}

extern "C" __global__ void warpOps(unsigned *out) {
    unsigned lane = threadIdx.x & 31, r = 0;
    if (lane % 3 == 0) {
        r = __ballot_sync(0x49249249, lane > 10);
        r += __shfl_sync(0x49249249, lane * 2, 9);
    } else {
        unsigned m = __match_any_sync(__activemask(), lane / 8);
        r = m;
        __syncwarp(0xb6db6db6);
        r ^= __reduce_add_sync(0xb6db6db6, lane);
    }
    __syncwarp();
    int all = __all_sync(~0u, lane < 32), any = __any_sync(~0u, lane == 40);
    out[threadIdx.x] = r * 4 + all * 2 + any;
}
