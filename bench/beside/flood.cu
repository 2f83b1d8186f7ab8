// What tracers are compared on: a flood of launches, a small call, a small copy. Prints a line for each:
//   launch_us 3.41     a launch of an empty kernel, until the GPU has done all of them
//   small_ns 9.2       cuCtxGetCurrent
//   copy_us 6.80       cudaMemcpy of 4 KiB
//   spin_ns 1.02       a loop that calls nothing: how fast the processor was just then
//   cpu_s 1.20         the process's own time
//   ended 123.456      CLOCK_MONOTONIC, in seconds, when it was done
//
//   nvcc -O2 -o flood flood.cu -ldl
//   flood [LAUNCHES [SMALL [COPIES]]]
#include <cuda_runtime.h>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <dlfcn.h>
#include <sys/resource.h>

__global__ void nothing(int *out, int value) {
    if (out && value < 0) *out = value;
}

static double now() {
    timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1e9 + time.tv_nsec;
}

static void check(cudaError_t status, const char *what) {
    if (status != cudaSuccess) {
        fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(status));
        exit(1);
    }
}

static double spin() {
    double begin = now();
    volatile unsigned total = 0;
    for (unsigned i = 0; i < 2000000; i++) total = total + (i & 7);
    return (now() - begin) / 2000000;
}

int main(int argc, char **argv) {
    int launches = argc > 1 ? atoi(argv[1]) : 200000;
    int small = argc > 2 ? atoi(argv[2]) : 200000;
    int copies = argc > 3 ? atoi(argv[3]) : 5000;
    int *device = nullptr;
    static char host[4096];
    check(cudaMalloc(&device, sizeof host), "cudaMalloc");
    for (int i = 0; i < 100; i++) nothing<<<1, 1>>>(device, i);
    check(cudaDeviceSynchronize(), "warming up");
    double before = spin();
    double begin = now();
    for (int i = 0; i < launches; i++) nothing<<<1, 1>>>(device, i);
    check(cudaDeviceSynchronize(), "launches");
    if (launches) printf("launch_us %.3f\n", (now() - begin) / launches / 1e3);
    void *driver = dlopen("libcuda.so.1", RTLD_NOW), *context;
    auto current = driver ? (int (*)(void **))dlsym(driver, "cuCtxGetCurrent") : nullptr;
    if (!current) small = 0;
    begin = now();
    for (int i = 0; i < small; i++) current(&context);
    if (small) printf("small_ns %.1f\n", (now() - begin) / small);
    begin = now();
    for (int i = 0; i < copies; i++) cudaMemcpy(device, host, sizeof host, cudaMemcpyHostToDevice);
    if (copies) printf("copy_us %.3f\n", (now() - begin) / copies / 1e3);
    printf("spin_ns %.3f\n", (before + spin()) / 2);
    rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    printf("cpu_s %.6f\n", usage.ru_utime.tv_sec + usage.ru_stime.tv_sec +
                               (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6);
    printf("ended %.6f\n", now() / 1e9);
    return 0;
}
