// Kernels for probes inside them, launched as told.
//   probed [KERNEL] [GRID] [BLOCK] [LAUNCHES]
//     vadd      c = a + b, one element a thread, and a count of threads in a variable of its own
//     vaddn     the same with a length
//     time      the same, told when it was launched
//     streams   vadd on two streams by turns
//     graph     vadd, captured and launched as a graph
//     hot       a quarter of the threads adds to one place; shared memory in strides of two
//     wait      vadd, a line of input waited for, and vadd again
//     late      returns from main while a kernel is still running
#include "check.h"
#include <ctime>
#include <string>
#include <vector>

__device__ unsigned long long threads_run;

__global__ void vectorAdd(const float *a, const float *b, float *c) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    atomicAdd(&threads_run, 1ULL);
    c[i] = a[i] + b[i];
}

__global__ void vectorAdd(const float *a, const float *b, float *c, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    c[i] = a[i] + b[i];
}

__global__ void vectorAddTim(const float *a, const float *b, float *c, unsigned long long launched) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    c[i] = a[i] + b[i] + (launched ? 0.0f : 1.0f);
}

__global__ void hotspots(int *table, int *out) {
    extern __shared__ int tile[];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    atomicAdd(&table[threadIdx.x % 4 ? 64 + i : 0], 1);
    tile[threadIdx.x * 2] = i;
    __syncthreads();
    out[i] = tile[(threadIdx.x ^ 1) * 2];
}

__global__ void endless(volatile int *stop) {
    while (!*stop) {
    }
}

static unsigned long long now() {
    timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000ULL + time.tv_nsec;
}

int main(int argc, char **argv) {
    std::string kernel = argc > 1 ? argv[1] : "vadd";
    int grid = int(argument(argc, argv, 2, 4)), block = int(argument(argc, argv, 3, 64));
    int launches = int(argument(argc, argv, 4, 1));
    int n = grid * block;
    std::vector<float> a(n), b(n), c(n, -1.0f);
    for (int i = 0; i < n; i++) {
        a[i] = float(i);
        b[i] = 2.0f * float(i);
    }
    float *da, *db, *dc;
    CUDA(cudaMalloc(&da, n * sizeof(float)));
    CUDA(cudaMalloc(&db, n * sizeof(float)));
    CUDA(cudaMalloc(&dc, n * sizeof(float)));
    CUDA(cudaMemcpy(da, a.data(), n * sizeof(float), cudaMemcpyHostToDevice));
    CUDA(cudaMemcpy(db, b.data(), n * sizeof(float), cudaMemcpyHostToDevice));
    CUDA(cudaMemset(dc, 0, n * sizeof(float)));
    if (kernel == "hot") {
        int *table, *out;
        CUDA(cudaMalloc(&table, (n + 64) * sizeof(int)));
        CUDA(cudaMalloc(&out, n * sizeof(int)));
        CUDA(cudaMemset(table, 0, (n + 64) * sizeof(int)));
        for (int i = 0; i < launches; i++) hotspots<<<grid, block, block * 2 * sizeof(int)>>>(table, out);
        CUDA(cudaGetLastError());
        int first = 0;
        CUDA(cudaMemcpy(&first, table, sizeof first, cudaMemcpyDeviceToHost));
        fact("hot %d", first);
        return 0;
    }
    if (kernel == "late") {
        int *stop;
        CUDA(cudaHostAlloc(&stop, sizeof(int), cudaHostAllocDefault));
        *stop = 0;
        vectorAdd<<<grid, block>>>(da, db, dc);
        CUDA(cudaDeviceSynchronize());
        endless<<<1, 1>>>(stop);
        CUDA(cudaGetLastError());
        return 0;
    }
    if (kernel == "graph") {
        cudaStream_t stream;
        cudaGraph_t graph;
        cudaGraphExec_t exec;
        CUDA(cudaStreamCreate(&stream));
        CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
        vectorAdd<<<grid, block, 0, stream>>>(da, db, dc);
        CUDA(cudaStreamEndCapture(stream, &graph));
        CUDA(cudaGraphInstantiate(&exec, graph, 0));
        for (int i = 0; i < launches; i++) CUDA(cudaGraphLaunch(exec, stream));
        CUDA(cudaStreamSynchronize(stream));
    } else {
        cudaStream_t streams[2];
        for (cudaStream_t &stream : streams) CUDA(cudaStreamCreate(&stream));
        for (int i = 0; i < launches; i++) {
            cudaStream_t stream = kernel == "streams" ? streams[i % 2] : streams[0];
            if (kernel == "vaddn")
                vectorAdd<<<grid, block, 0, stream>>>(da, db, dc, n);
            else if (kernel == "time")
                vectorAddTim<<<grid, block, 0, stream>>>(da, db, dc, now());
            else
                vectorAdd<<<grid, block, 0, stream>>>(da, db, dc);
            CUDA(cudaGetLastError());
            if (kernel == "time") CUDA(cudaStreamSynchronize(stream));
        }
        CUDA(cudaDeviceSynchronize());
        if (kernel == "wait") {
            getchar();
            for (int i = 0; i < launches; i++) vectorAdd<<<grid, block>>>(da, db, dc);
            CUDA(cudaGetLastError());
            CUDA(cudaDeviceSynchronize());
        }
    }
    CUDA(cudaMemcpy(c.data(), dc, n * sizeof(float), cudaMemcpyDeviceToHost));
    unsigned long long ran = 0;
    CUDA(cudaMemcpyFromSymbol(&ran, threads_run, sizeof ran));
    fact("threads %llu", ran);
    if (n > 1) fact("c[1] %g", c[1]);
    if (n > 7) fact("c[7] %g", c[7]);
    int wrong = 0;
    for (int i = 0; i < n; i++) wrong += c[i] != 3.0f * float(i);
    fact("wrong %d", wrong);
    return 0;
}
