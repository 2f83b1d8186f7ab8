// Kernels for probes inside them, launched as told.
//   probed [KERNEL] [GRID] [BLOCK] [LAUNCHES]
//     vadd      c = a + b, one element a thread, and a count of threads in a variable of its own
//     vaddn     the same with a length
//     time      the same, told when it was launched
//     streams   vadd on two streams by turns
//     graph     vadd, captured and launched as a graph
//     hot       a quarter of the threads adds to one place; shared memory in strides of two
//     scattered threads read all over global and shared memory, 4, 8 and 16 bytes each, and some do not; what
//               that comes to is printed: threads, requests, sectors, passes, lines
//     wait      vadd, a line of input waited for, and vadd again
//     late      returns from main while a kernel is still running
#include "check.h"
#include <algorithm>
#include <ctime>
#include <set>
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

__device__ float sum(float one) { return one; }
__device__ float sum(float2 two) { return two.x + two.y; }
__device__ float sum(float4 four) { return four.x + four.y + four.z + four.w; }

// A block is as wide as its memory is long.
template <class T> __global__ void scattered(const int *index, const T *far, float *out) {
    extern __shared__ __align__(128) char raw[];
    T *near = reinterpret_cast<T *>(raw);
    near[threadIdx.x] = far[threadIdx.x];
    __syncthreads();
    int i = blockIdx.x * blockDim.x + threadIdx.x, place = index[i];
    if (place < 0) return;
    out[i] = sum(far[place]) + sum(near[place]);
}

// Places of each warp in one of several ways, from all in one to all anywhere; negative: none.
static std::vector<int> places(int grid, int block) {
    std::vector<int> index(grid * block);
    unsigned long long state = 42;
    auto next = [&state](unsigned below) {
        state = state * 6364136223846793005ULL + 1442695040888963407ULL;
        return unsigned(state >> 33) % below;
    };
    for (int warp = 0; warp < grid * block / 32; warp++) {
        unsigned way = next(6), base = next(block), step = 1 + next(33), holes = next(3);
        for (int lane = 0; lane < 32; lane++) {
            unsigned at = 0;
            if (way == 1) at = lane;
            if (way == 2) at = lane * step;
            if (way == 3) at = next(4) * step;
            if (way == 4) at = lane % 16 + (lane / 16) * 32;
            if (way == 5) at = next(block);
            bool is_left_out = holes == 2 ? next(2) : holes == 1 && next(8) == 0;
            index[warp * 32 + lane] = is_left_out ? -1 : int((base + at) % block);
        }
    }
    return index;
}

// The same by hand: what a warp's accesses of so many bytes each come to.
static void told(const std::vector<int> &index, int bytes) {
    long threads = 0, requests = 0, sectors = 0, passes = 0;
    std::set<int> lines;
    int bank_bytes = std::max(bytes, 4), banks = 128 / bank_bytes;
    for (size_t warp = 0; warp < index.size(); warp += 32) {
        std::set<int> touched, words;
        for (int lane = 0; lane < 32; lane++) {
            int place = index[warp + lane];
            if (place < 0) continue;
            threads++;
            touched.insert(place * bytes / 32);
            words.insert(place * bytes / bank_bytes);
            lines.insert(place * bytes / 128);
        }
        if (touched.empty()) continue;
        std::vector<int> served(banks);
        for (int word : words) served[word % banks]++;
        requests++;
        sectors += long(touched.size());
        passes += *std::max_element(served.begin(), served.end());
    }
    fact("scattered %d %ld %ld %ld %ld %zu", bytes, threads, requests, sectors, passes, lines.size());
}

template <class T> static void scatter(const std::vector<int> &index, const int *places, int grid, int block, float *out) {
    T *far;
    CUDA(cudaMalloc(&far, block * sizeof(T)));
    CUDA(cudaMemset(far, 0, block * sizeof(T)));
    scattered<T><<<grid, block, block * sizeof(T)>>>(places, far, out);
    CUDA(cudaGetLastError());
    told(index, sizeof(T));
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
    if (kernel == "scattered") {
        std::vector<int> index = places(grid, block);
        int *on_device;
        CUDA(cudaMalloc(&on_device, n * sizeof(int)));
        CUDA(cudaMemcpy(on_device, index.data(), n * sizeof(int), cudaMemcpyHostToDevice));
        scatter<float>(index, on_device, grid, block, dc);
        scatter<float2>(index, on_device, grid, block, dc);
        scatter<float4>(index, on_device, grid, block, dc);
        CUDA(cudaDeviceSynchronize());
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
