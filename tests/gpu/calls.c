// What a call of the driver costs in this process, the least of several rounds, in nanoseconds:
//   clock 8.5         reading the processor's counter, which a tracer does twice a call
//   trivial 13.1      cuCtxGetCurrent, without end
//   burst 13.1        the same, 30,000 at a time: a tracer has drained them before the next
//   launch 2300.0     an empty kernel
//   copy 6700.0       4 KiB from the host
// Built without CUDA: cc -O2 -o calls calls.c -ldl
// "calls [SCALE [TRIVIAL]]": TRIVIAL calls in each of the first rounds, 200,000 by default.
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
#include <x86intrin.h>

static const char *kernel = ".version 7.0\n.target sm_50\n.address_size 64\n.visible .entry nothing()\n{\nret;\n}\n";

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1e9 + time.tv_nsec;
}

static void *library;

static void *find(const char *name) {
    void *found = dlsym(library, name);
    if (!found) {
        fprintf(stderr, "%s: not there\n", name);
        exit(2);
    }
    return found;
}

static void check(int status, const char *what) {
    if (status != 0) {
        fprintf(stderr, "%s: %d\n", what, status);
        exit(1);
    }
}

#define ROUNDS 9
#define LEAST(name, count, sync, call)                       \
    do {                                                     \
        double least = 1e18;                                 \
        for (int round = 0; round < ROUNDS; round++) {       \
            double begin = now();                            \
            for (int i = 0; i < (count); i++) call;          \
            double time = (now() - begin) / (count);         \
            if (time < least) least = time;                  \
            sync;                                            \
        }                                                    \
        printf("%s %.1f\n", name, least);                    \
    } while (0)

int main(int argc, char **argv) {
    int scale = argc > 1 ? atoi(argv[1]) : 1;
    int trivial = argc > 2 ? atoi(argv[2]) : 200000 * scale;
    library = dlopen("libcuda.so.1", RTLD_NOW);
    if (!library) {
        fprintf(stderr, "%s\n", dlerror());
        return 2;
    }
    int (*init)(unsigned) = find("cuInit");
    int (*device_get)(int *, int) = find("cuDeviceGet");
    int (*retain)(void **, int) = find("cuDevicePrimaryCtxRetain");
    int (*set)(void *) = find("cuCtxSetCurrent");
    int (*current)(void **) = find("cuCtxGetCurrent");
    int (*synchronize)(void) = find("cuCtxSynchronize");
    int (*load)(void **, const void *) = find("cuModuleLoadData");
    int (*function_get)(void **, void *, const char *) = find("cuModuleGetFunction");
    int (*launch)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **,
                  void **) = find("cuLaunchKernel");
    int (*allocate)(unsigned long *, size_t) = find("cuMemAlloc_v2");
    int (*copy)(unsigned long, const void *, size_t) = find("cuMemcpyHtoD_v2");
    int device;
    void *context, *module, *function;
    unsigned long memory;
    static char host[4096];
    check(init(0), "cuInit");
    check(device_get(&device, 0), "cuDeviceGet");
    check(retain(&context, device), "cuDevicePrimaryCtxRetain");
    check(set(context), "cuCtxSetCurrent");
    check(load(&module, kernel), "cuModuleLoadData");
    check(function_get(&function, module, "nothing"), "cuModuleGetFunction");
    check(allocate(&memory, sizeof host), "cuMemAlloc");
    unsigned long ticks = 0;
    LEAST("clock", 200000, (void)0, ticks += __rdtsc());
    if (ticks == 0) return 3;
    LEAST("trivial", trivial, (void)0, current(&context));
    LEAST("burst", 30000, usleep(20000), current(&context));
    LEAST("launch", 500 * scale, check(synchronize(), "cuCtxSynchronize"),
          launch(function, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0));
    LEAST("copy", 500 * scale, (void)0, copy(memory, host, sizeof host));
    return 0;
}
