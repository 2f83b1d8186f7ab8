// Work whose times are known, to be compared with what a trace says of it: gpu_times PART…
//
//   spin      kernels that run for so long by the GPU's own clock: "spin NANOSECONDS" of each, as
//             measured inside
//   blocked   a kernel behind a long one in its stream: "blocked LAUNCHED_AT BLOCKER_NS", host time
//   handshake kernels that greet the host when they begin and wait for its word to end:
//             "handshake LAUNCHED SEEN_BEGUN TOLD ACKNOWLEDGED", all host time
//   many      200,000 launches from four threads, and some copies and memsets
//   graph     a graph of 8 kernels, a copy and a memset, launched 100 times
//   managed   memory that both sides touch
// Host times are nanoseconds of CLOCK_MONOTONIC.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <time.h>
#include <vector>

#define CHECK(call)                                                                       \
    do {                                                                                  \
        cudaError_t status = (call);                                                      \
        if (status != cudaSuccess) {                                                      \
            fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(status));               \
            exit(1);                                                                      \
        }                                                                                 \
    } while (0)

static uint64_t now() {
    timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000ull + time.tv_nsec;
}

__device__ uint64_t globaltimer() {
    uint64_t time;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(time));
    return time;
}

__global__ void spin_for(uint64_t length, uint64_t *took) {
    uint64_t begin = globaltimer();
    while (globaltimer() - begin < length) {}
    *took = globaltimer() - begin;
}

__global__ void quick(int *value) { atomicAdd(value, 1); }

__global__ void greet(volatile uint32_t *begun, volatile uint32_t *word, volatile uint32_t *answer, uint32_t round) {
    *begun = round;
    __threadfence_system();
    while (*word != round) {}
    *answer = round;
    __threadfence_system();
}

static void spin() {
    // Not managed memory: moving it would be part of the kernel's time.
    uint64_t *took;
    CHECK(cudaHostAlloc(&took, 8, cudaHostAllocMapped));
    spin_for<<<1, 1>>>(1000, took);
    CHECK(cudaDeviceSynchronize());
    for (uint64_t length : {100000ull, 1000000ull, 10000000ull, 100000000ull, 50000ull, 20000ull, 5000000ull})
        for (int i = 0; i < 3; i++) {
            spin_for<<<1, 1>>>(length, took);
            CHECK(cudaDeviceSynchronize());
            printf("spin %llu\n", (unsigned long long)*took);
        }
}

static void blocked() {
    uint64_t *took;
    int *value;
    CHECK(cudaMallocManaged(&took, 8));
    CHECK(cudaMalloc(&value, 4));
    for (int i = 0; i < 5; i++) {
        uint64_t length = 5000000ull * (i + 1);
        spin_for<<<1, 1>>>(length, took);
        uint64_t launched = now();
        quick<<<1, 1>>>(value);
        CHECK(cudaDeviceSynchronize());
        printf("blocked %llu %llu\n", (unsigned long long)launched, (unsigned long long)length);
    }
}

static void handshake() {
    uint32_t *flags;
    CHECK(cudaHostAlloc(&flags, 4096, cudaHostAllocMapped));
    memset(flags, 0, 4096);
    volatile uint32_t *begun = flags, *word = flags + 64, *answer = flags + 128;
    for (uint32_t round = 1; round <= 500; round++) {
        uint64_t launched = now();
        greet<<<1, 1>>>(begun, word, answer, round);
        while (*begun != round) {}
        uint64_t seen = now();
        for (uint64_t until = seen + 20000; now() < until;) {}
        uint64_t told = now();
        *word = round;
        while (*answer != round) {}
        uint64_t acknowledged = now();
        CHECK(cudaDeviceSynchronize());
        printf("handshake %llu %llu %llu %llu\n", (unsigned long long)launched, (unsigned long long)seen,
               (unsigned long long)told, (unsigned long long)acknowledged);
        timespec pause = {0, 2000000};
        nanosleep(&pause, nullptr);
    }
}

static void many() {
    int threads = 4, each = 50000;
    std::vector<std::thread> all;
    for (int t = 0; t < threads; t++)
        all.emplace_back([=] {
            cudaStream_t stream;
            int *value, host[256] = {};
            CHECK(cudaStreamCreate(&stream));
            CHECK(cudaMalloc(&value, sizeof host));
            for (int i = 0; i < each; i++) {
                quick<<<1, 32, 0, t % 2 ? stream : 0>>>(value);
                if (i % 100 == 0) CHECK(cudaMemcpyAsync(value, host, sizeof host, cudaMemcpyHostToDevice, stream));
                if (i % 500 == 0) CHECK(cudaMemsetAsync(value, 0, sizeof host, stream));
            }
            CHECK(cudaStreamSynchronize(stream));
        });
    for (auto &thread : all) thread.join();
    CHECK(cudaDeviceSynchronize());
    printf("many kernels %d copies %d memsets %d\n", threads * each, threads * each / 100, threads * each / 500);
}

static void graph() {
    int *value, *host;
    cudaStream_t stream;
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    CHECK(cudaStreamCreate(&stream));
    CHECK(cudaMalloc(&value, 4096));
    CHECK(cudaMallocHost(&host, 4096));
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    CHECK(cudaMemsetAsync(value, 0, 4096, stream));
    for (int i = 0; i < 8; i++) quick<<<1, 32, 0, stream>>>(value);
    CHECK(cudaMemcpyAsync(host, value, 4096, cudaMemcpyDeviceToHost, stream));
    CHECK(cudaStreamEndCapture(stream, &graph));
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    for (int i = 0; i < 100; i++) CHECK(cudaGraphLaunch(exec, stream));
    CHECK(cudaStreamSynchronize(stream));
    printf("graph kernels 800 copies 100 memsets 100\n");
}

__global__ void touch(char *bytes, size_t count) {
    for (size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += size_t(gridDim.x) * blockDim.x) bytes[i]++;
}

static void managed() {
    size_t count = 64 << 20;
    char *bytes;
    CHECK(cudaMallocManaged(&bytes, count));
    memset(bytes, 1, count);
    touch<<<64, 256>>>(bytes, count);
    CHECK(cudaDeviceSynchronize());
    long sum = 0;
    for (size_t i = 0; i < count; i += 4096) sum += bytes[i];
    printf("managed %zu %ld\n", count, sum);
}

int main(int argc, char **argv) {
    struct { const char *name; void (*run)(); } parts[] = {
        {"spin", spin}, {"blocked", blocked}, {"handshake", handshake},
        {"many", many}, {"graph", graph},     {"managed", managed},
    };
    for (int i = 1; i < argc; i++)
        for (auto &part : parts)
            if (!strcmp(argv[i], part.name)) part.run();
    return 0;
}
