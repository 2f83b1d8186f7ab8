/* What must hold under load and at a process's end: endurance LIBCUDA MODE [NAMES]. Checks itself; says
 * 'ok' and returns 0, or says what was wrong and returns 1. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

typedef uint64_t u64;
typedef int (*function)();

static void *library;

static function find(const char *name) {
    function f = (function)dlsym(library, name);
    if (!f) {
        printf("missing %s\n", name);
        exit(2);
    }
    return f;
}

#define CALL(name, ...) (find(#name)(__VA_ARGS__))
#define MUST(name, ...)                                                                            \
    do {                                                                                           \
        int result = CALL(name, __VA_ARGS__);                                                      \
        if (result) {                                                                              \
            printf("%s: %d, line %d\n", #name, result, __LINE__);                                  \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)
#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            printf("%s, line %d\n", #condition, __LINE__);                                         \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

static const char *ptx =
    ".version 7.0\n.target sm_70\n.address_size 64\n"
    ".visible .entry wait(.param .u64 flag) {\n"
    "  .reg .pred %p; .reg .b32 %r<2>; .reg .b64 %d<2>;\n"
    "  ld.param.u64 %d1, [flag];\n"
    "again: ld.volatile.u32 %r1, [%d1]; setp.eq.u32 %p, %r1, 0; @%p bra again; ret;\n}\n"
    /* data[i] = data[i] * 3 + i */
    ".visible .entry step(.param .u64 data, .param .u32 n) {\n"
    "  .reg .pred %p; .reg .b32 %r<8>; .reg .b64 %d<4>;\n"
    "  ld.param.u64 %d1, [data]; ld.param.u32 %r1, [n];\n"
    "  mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x; mov.u32 %r4, %tid.x; mad.lo.s32 %r5, %r2, %r3, %r4;\n"
    "  setp.ge.u32 %p, %r5, %r1; @%p ret;\n"
    "  mul.wide.u32 %d2, %r5, 4; add.u64 %d1, %d1, %d2; ld.u32 %r6, [%d1];\n"
    "  mad.lo.u32 %r6, %r6, 3, %r5; st.u32 [%d1], %r6; ret;\n}\n"
    /* Never ends. */
    ".visible .entry scribble(.param .u64 data) {\n"
    "  .reg .b32 %r<4>; .reg .b64 %d<4>;\n"
    "  ld.param.u64 %d1, [data]; mov.u32 %r1, %tid.x; mul.wide.u32 %d2, %r1, 4; add.u64 %d1, %d1, %d2;\n"
    "  mov.u32 %r2, 1;\n"
    "again: st.u32 [%d1], %r2; ld.u32 %r3, [%d1]; add.u32 %r2, %r3, 2; bra again;\n}\n"
    ".visible .entry nothing() { ret; }\n"
    ".visible .entry fault() { .reg .b64 %d; .reg .b32 %r; mov.u64 %d, 64; mov.u32 %r, 1; st.u32 [%d], %r; ret; }\n";

static u64 context, module;

static u64 function_of(const char *name) {
    u64 f = 0;
    MUST(cuModuleGetFunction, &f, module, name);
    return f;
}

static void setup(void) {
    MUST(cuInit, 0);
    MUST(cuDevicePrimaryCtxRetain, &context, 0);
    MUST(cuCtxSetCurrent, context);
    MUST(cuModuleLoadData, &module, ptx);
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec * 1e-9;
}

static void launch_endless(void) {
    u64 stream = 0, flag = 0;
    MUST(cuStreamCreate, &stream, 0);
    MUST(cuMemAlloc_v2, &flag, (size_t)4);
    MUST(cuMemsetD32_v2, flag, 0, (size_t)1);
    void *params[1] = {&flag};
    for (int i = 0; i < 3; i++)
        MUST(cuLaunchKernel, function_of("wait"), 4, 1, 1, 64, 1, 1, 0, stream, params, (void *)0);
    MUST(cuLaunchKernel, function_of("nothing"), 1, 1, 1, 1, 1, 1, 0, (u64)0, (void *)0, (void *)0);
}

/* The process ends while kernels run that never will. */
static void mode_pending(void) {
    setup();
    launch_endless();
}

static void late(void) {
    /* As __cudaUnregisterFatBinary is called: it must not wait for the kernels. */
    int result = CALL(cuModuleUnload, module);
    if (result != 4) {
        printf("cuModuleUnload at exit: %d\n", result);
        fflush(stdout);
        _exit(1);
    }
}

/* Registered before cuInit, called after the driver has ended. */
static void mode_late(void) {
    atexit(late);
    setup();
    launch_endless();
}

static void *exits(void *unused) {
    (void)unused;
    MUST(cuCtxSetCurrent, context);
    launch_endless();
    puts("ok");
    exit(0);
}

/* The same, from a thread, with the library closed meanwhile. */
static void mode_thread_exit(void) {
    setup();
    pthread_t thread;
    pthread_create(&thread, 0, exits, 0);
    pthread_join(thread, 0);
}

static void mode_dlclose(void) {
    setup();
    launch_endless();
    dlclose(library);
    struct timespec t = {0, 50000000};
    nanosleep(&t, 0);
}

enum { THREADS = 8, ROUNDS = 40, N = 1000 };

static void *works(void *argument) {
    unsigned seed = (unsigned)(size_t)argument;
    MUST(cuCtxSetCurrent, context);
    u64 stream = 0, step = function_of("step"), start = 0, end = 0;
    MUST(cuStreamCreate, &stream, seed % 2);
    MUST(cuEventCreate, &start, 0);
    MUST(cuEventCreate, &end, 0);
    unsigned expected[N], *host = 0;
    MUST(cuMemAllocHost_v2, &host, sizeof expected);
    for (int round = 0; round < ROUNDS; round++) {
        u64 data = 0;
        int n = N, steps = 1 + (seed + round) % 5;
        for (int i = 0; i < N; i++)
            host[i] = expected[i] = seed * 1000 + round + i;
        for (int s = 0; s < steps; s++)
            for (int i = 0; i < N; i++)
                expected[i] = expected[i] * 3 + i;
        if (round % 2)
            MUST(cuMemAlloc_v2, &data, (size_t)sizeof expected);
        else
            MUST(cuMemAllocAsync, &data, (size_t)sizeof expected, stream);
        void *params[2] = {&data, &n};
        MUST(cuEventRecord, start, stream);
        MUST(cuMemcpyHtoDAsync_v2, data, host, (size_t)sizeof expected, stream);
        for (int s = 0; s < steps; s++)
            MUST(cuLaunchKernel, step, 4, 1, 1, 256, 1, 1, 0, stream, params, (void *)0);
        MUST(cuMemcpyDtoHAsync_v2, host, data, (size_t)sizeof expected, stream);
        MUST(cuEventRecord, end, stream);
        MUST(cuEventSynchronize, end);
        CHECK(!memcmp(host, expected, sizeof expected));
        float ms = -1;
        MUST(cuEventElapsedTime, &ms, start, end);
        CHECK(ms >= 0 && ms < 60000);
        if (round % 2)
            MUST(cuMemFree_v2, data);
        else
            MUST(cuMemFreeAsync, data, stream);
    }
    MUST(cuMemFreeHost, host);
    MUST(cuStreamDestroy_v2, stream);
    MUST(cuEventDestroy_v2, start);
    MUST(cuEventDestroy_v2, end);
    return 0;
}

/* Eight threads in one context, each checking its results. */
static void mode_threads(void) {
    setup();
    pthread_t threads[THREADS];
    for (size_t i = 0; i < THREADS; i++)
        pthread_create(&threads[i], 0, works, (void *)i);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], 0);
    MUST(cuCtxSynchronize);
}

/* Many allocations at once, found and freed in another order; nothing is left. */
static void mode_allocations(void) {
    setup();
    enum { COUNT = 100000 };
    static u64 at[COUNT];
    size_t before = 0, after = 0, total = 0;
    MUST(cuMemGetInfo_v2, &before, &total);
    double start = now();
    for (int i = 0; i < COUNT; i++)
        MUST(cuMemAlloc_v2, &at[i], (size_t)(1 + i % 3000));
    double allocated = now();
    for (int i = 0; i < COUNT; i += 7) {
        u64 base = 0;
        size_t size = 0;
        MUST(cuMemGetAddressRange_v2, &base, &size, at[i] + i % (1 + i % 3000));
        CHECK(base == at[i] && size == 1 + i % 3000);
    }
    double freeing = now();
    for (int i = 0; i < COUNT; i++)
        MUST(cuMemFree_v2, at[(i * 7919ull) % COUNT]);
    double end = now();
    MUST(cuMemGetInfo_v2, &after, &total);
    CHECK(before == after);
    fprintf(stderr, "allocate %.2f us, free %.2f us each\n", (allocated - start) * 1e6 / COUNT,
            (end - freeing) * 1e6 / COUNT);
}

/* More than there is, again and again. */
static void mode_exhaustion(void) {
    setup();
    size_t free_bytes = 0, total = 0;
    for (int round = 0; round < 3; round++) {
        u64 blocks[64], extra = 0;
        int count = 0;
        while (count < 64 && !CALL(cuMemAlloc_v2, &blocks[count], total ? total / 16 : (size_t)1 << 29))
            count++;
        CHECK(count > 0 && count < 64);
        CHECK(CALL(cuMemAlloc_v2, &extra, (size_t)1 << 45) == 2);
        while (count)
            MUST(cuMemFree_v2, blocks[--count]);
        MUST(cuMemGetInfo_v2, &free_bytes, &total);
        CHECK(free_bytes == total);
    }
}

/* A fault in one context leaves another alone; reset makes the primary context usable again. */
static void mode_recovery(void) {
    setup();
    u64 other = 0, fault = function_of("fault"), p = 0;
    MUST(cuCtxCreate_v2, &other, 0, 0);
    MUST(cuMemAlloc_v2, &p, (size_t)16);
    MUST(cuCtxSetCurrent, context);
    MUST(cuLaunchKernel, fault, 1, 1, 1, 1, 1, 1, 0, (u64)0, (void *)0, (void *)0);
    CHECK(CALL(cuCtxSynchronize) == 700);
    CHECK(CALL(cuMemAlloc_v2, &p, (size_t)16) == 700);
    MUST(cuCtxSetCurrent, other);
    MUST(cuMemAlloc_v2, &p, (size_t)16);
    MUST(cuCtxSynchronize);
    MUST(cuDevicePrimaryCtxReset_v2, 0);
    MUST(cuDevicePrimaryCtxRetain, &context, 0);
    MUST(cuCtxSetCurrent, context);
    MUST(cuMemAlloc_v2, &p, (size_t)16);
    MUST(cuModuleLoadData, &module, ptx);
    MUST(cuLaunchKernel, function_of("nothing"), 1, 1, 1, 1, 1, 1, 0, (u64)0, (void *)0, (void *)0);
    MUST(cuCtxSynchronize);
}

/* Contexts and streams by the hundred, each with work. */
static void mode_many(void) {
    setup();
    for (int i = 0; i < 100; i++) {
        u64 c = 0, m = 0, f = 0, streams[8];
        MUST(cuCtxCreate_v2, &c, 0, 0);
        MUST(cuModuleLoadData, &m, ptx);
        MUST(cuModuleGetFunction, &f, m, "nothing");
        for (int s = 0; s < 8; s++) {
            MUST(cuStreamCreate, &streams[s], s % 2);
            MUST(cuLaunchKernel, f, 8, 1, 1, 32, 1, 1, 0, streams[s], (void *)0, (void *)0);
            if (s % 3 == 0)
                MUST(cuStreamDestroy_v2, streams[s]);
        }
        MUST(cuCtxDestroy_v2, c);
    }
    size_t left = 0, total = 0;
    MUST(cuMemGetInfo_v2, &left, &total);
    CHECK(left == total);
    double start = now();
    u64 f = function_of("nothing");
    for (int i = 0; i < 10000; i++)
        MUST(cuLaunchKernel, f, 1, 1, 1, 1, 1, 1, 0, (u64)0, (void *)0, (void *)0);
    double issued = now();
    MUST(cuCtxSynchronize);
    double done = now();
    for (int i = 0; i < 1000; i++) {
        MUST(cuLaunchKernel, f, 1, 1, 1, 1, 1, 1, 0, (u64)0, (void *)0, (void *)0);
        MUST(cuCtxSynchronize);
    }
    double waited = now();
    u64 p = 0;
    int word = 0;
    MUST(cuMemAlloc_v2, &p, (size_t)4);
    for (int i = 0; i < 1000; i++)
        MUST(cuMemcpyDtoH_v2, &word, p, (size_t)4);
    fprintf(stderr, "launch %.2f us, run %.2f us, launch and wait %.2f us, copy %.2f us each\n",
            (issued - start) * 1e2, (done - start) * 1e2, (waited - done) * 1e3,
            (now() - waited) * 1e3);
}

enum { SLOTS = 16, CALLS = 20000 };

/* Handles shared by all threads without care: some are dead, or in use elsewhere. */
static volatile u64 streams[SLOTS], events[SLOTS], graphs[SLOTS], execs[SLOTS], blocks[SLOTS];

static void *rages(void *argument) {
    uint32_t seed = 12345 + 77 * (uint32_t)(size_t)argument;
    MUST(cuCtxSetCurrent, context);
    u64 nothing = function_of("nothing");
    for (int i = 0; i < CALLS; i++) {
        seed = seed * 1664525 + 1013904223;
        unsigned what = seed >> 27, slot = seed >> 20 & (SLOTS - 1), other = seed >> 10 & (SLOTS - 1);
        u64 made = 0;
        int result = 0;
        switch (what) {
        case 0: result = CALL(cuStreamCreate, &made, other & 1); if (!result) streams[slot] = made; break;
        case 1: result = CALL(cuStreamDestroy_v2, streams[slot]); break;
        case 2: result = CALL(cuEventCreate, &made, other & 3); if (!result) events[slot] = made; break;
        case 3: result = CALL(cuEventDestroy_v2, events[slot]); break;
        case 4: case 5: result = CALL(cuEventRecord, events[slot], streams[other]); break;
        case 6: case 7: result = CALL(cuStreamWaitEvent, streams[slot], events[other], 0); break;
        case 8: result = CALL(cuEventQuery, events[slot]); break;
        case 9: result = CALL(cuEventSynchronize, events[slot]); break;
        case 10: result = CALL(cuStreamBeginCapture_v2, streams[slot], other % 3); break;
        case 11: case 12: result = CALL(cuStreamEndCapture, streams[slot], &made); if (!result) graphs[other] = made; break;
        case 13: result = CALL(cuGraphInstantiateWithFlags, &made, graphs[slot], (u64)0); if (!result) execs[other] = made; break;
        case 14: result = CALL(cuGraphLaunch, execs[slot], streams[other]); break;
        case 15: result = CALL(cuGraphDestroy, graphs[slot]); break;
        case 16: result = CALL(cuGraphExecDestroy, execs[slot]); break;
        case 17: result = CALL(cuMemAllocAsync, &made, (size_t)(1 + other * 100), streams[slot]); if (!result) blocks[slot] = made; break;
        case 18: result = CALL(cuMemFreeAsync, blocks[slot], streams[other]); break;
        case 19: result = CALL(cuMemsetD8Async, blocks[slot], 1, (size_t)1, streams[other]); break;
        case 20: result = CALL(cuStreamSynchronize, streams[slot]); break;
        case 21: result = CALL(cuStreamQuery, streams[slot]); break;
        case 22: result = other ? 0 : CALL(cuCtxSynchronize); break;
        case 23: result = CALL(cuMemAlloc_v2, &made, (size_t)64); if (!result) result = CALL(cuMemFree_v2, made); break;
        case 24: result = CALL(cuGraphClone, &made, graphs[slot]); if (!result) graphs[other] = made; break;
        case 25: result = CALL(cuLaunchKernel, nothing, 1, 1, 1, 1, 1, 1, 0, (u64)(other % 3), (void *)0, (void *)0); break;
        default: result = CALL(cuLaunchKernel, nothing, 2, 1, 1, 32, 1, 1, 0, streams[slot], (void *)0, (void *)0); break;
        }
        if (result == 999 || result == 700 || result < 0) {
            printf("call %u: %d\n", what, result);
            exit(1);
        }
    }
    return 0;
}

/* Eight threads call at random on the same handles: answers, no crash, no hang. */
static void mode_random(void) {
    setup();
    pthread_t threads[THREADS];
    for (size_t i = 0; i < THREADS; i++)
        pthread_create(&threads[i], 0, rages, (void *)i);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], 0);
    /* Streams whose handles were lost may still be capturing. */
    int result = CALL(cuCtxSynchronize);
    CHECK(result == 0 || result == 900);
    MUST(cuDevicePrimaryCtxReset_v2, 0);
    setup();
    size_t left = 0, total = 0;
    MUST(cuMemGetInfo_v2, &left, &total);
    CHECK(left == total);
}

static const char *names_path;

/* Every function with nothing but zeros, before cuInit and in a context: an answer, no crash. */
static void mode_zeros(void) {
    FILE *names = fopen(names_path, "r");
    CHECK(names);
    char name[200];
    int called = 0;
    while (fscanf(names, "%199s", name) == 1) {
        if (!strncmp(name, "cudbg", 5))
            continue;
        for (int initialised = 0; initialised < 2; initialised++) {
            fflush(stdout);
            pid_t child = fork();
            if (child == 0) {
                alarm(20);
                if (initialised)
                    setup();
                int result = find(name)(0ull, 0ull, 0ull, 0ull, 0ull, 0ull, 0ull, 0ull, 0ull, 0ull,
                                        0ull, 0ull);
                _exit(result < 0 || result > 999 ? 3 : 0);
            }
            int status = 0;
            waitpid(child, &status, 0);
            if (status) {
                printf("%s, %s cuInit: status %#x\n", name, initialised ? "after" : "before", status);
                exit(1);
            }
        }
        called++;
    }
    CHECK(called > 600);
}

static char *pages;

static void unmap_pages(void) {
    munmap(pages, 1 << 20);
    /* Others have something to do at the end, too. */
    usleep(20000);
}

/* The process ends while a kernel writes memory of the host, and what runs at the end (a destructor of the
 * program's, that was there before the driver) takes that memory away. */
static void mode_unmapped(void) {
    pages = mmap(0, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(pages != MAP_FAILED);
    atexit(unmap_pages);
    setup();
    MUST(cuMemHostRegister_v2, pages, (size_t)(1 << 20), 2);
    void *params[1] = {&pages};
    MUST(cuLaunchKernel, function_of("scribble"), 64, 1, 1, 256, 1, 1, 0, (u64)0, params, (void *)0);
    while (!*(volatile unsigned *)pages)
        ;
    puts("ok");
    exit(0);
}

/* A stream forked into a capture may go once it was joined, or before, as long as its work is joined at the end; the
 * stream where the capture began takes it along. As on an H200 with driver 580.159.04. */
static void mode_joined(void) {
    setup();
    for (int late = 0; late < 3; late++) {
        u64 origin, forked, fork, join, graph = 0, exec;
        int status = 0;
        MUST(cuStreamCreate, &origin, 1);
        MUST(cuStreamBeginCapture_v2, origin, 0);
        MUST(cuStreamCreate, &forked, 1);
        MUST(cuEventCreate, &fork, 2);
        MUST(cuEventCreate, &join, 2);
        MUST(cuEventRecord, fork, origin);
        MUST(cuStreamWaitEvent, forked, fork, 0);
        MUST(cuLaunchKernel, function_of("nothing"), 1, 1, 1, 1, 1, 1, 0, forked, (void *)0, (void *)0);
        MUST(cuEventRecord, join, forked);
        if (late == 1)
            MUST(cuStreamDestroy_v2, forked);
        if (late < 2)
            MUST(cuStreamWaitEvent, origin, join, 0);
        if (late != 1)
            MUST(cuStreamDestroy_v2, forked);
        MUST(cuStreamIsCapturing, origin, &status);
        CHECK(status == 1);
        int ended = CALL(cuStreamEndCapture, origin, &graph);
        /* What was never joined is CUDA_ERROR_STREAM_CAPTURE_UNJOINED, whether or not its stream is there. */
        CHECK(ended == (late == 2 ? 904 : 0));
        if (ended == 0) {
            MUST(cuGraphInstantiateWithFlags, &exec, graph, 0ull);
            MUST(cuGraphLaunch, exec, origin);
            MUST(cuStreamSynchronize, origin);
        }
        MUST(cuStreamDestroy_v2, origin);
    }
    u64 origin, forked, fork;
    int status = 3;
    MUST(cuStreamCreate, &origin, 1);
    MUST(cuStreamCreate, &forked, 1);
    MUST(cuEventCreate, &fork, 2);
    MUST(cuStreamBeginCapture_v2, origin, 0);
    MUST(cuEventRecord, fork, origin);
    MUST(cuStreamWaitEvent, forked, fork, 0);
    MUST(cuStreamDestroy_v2, origin);
    MUST(cuStreamIsCapturing, forked, &status);
    CHECK(status == 0);
}

static const struct {
    const char *name;
    void (*run)(void);
} modes[] = {
    {"joined", mode_joined},
    {"unmapped", mode_unmapped},
    {"pending", mode_pending},         {"thread_exit", mode_thread_exit},
    {"late", mode_late},
    {"dlclose", mode_dlclose},         {"threads", mode_threads},
    {"allocations", mode_allocations}, {"exhaustion", mode_exhaustion},
    {"zeros", mode_zeros},
    {"random", mode_random},
    {"recovery", mode_recovery},       {"many", mode_many},
};

int main(int argc, char **argv) {
    if (argc < 3)
        return 2;
    names_path = argv[3];
    library = dlopen(argv[1], RTLD_NOW);
    if (!library) {
        printf("%s\n", dlerror());
        return 2;
    }
    for (unsigned i = 0; i < sizeof modes / sizeof *modes; i++)
        if (!strcmp(argv[2], modes[i].name)) {
            modes[i].run();
            puts("ok");
            return 0;
        }
    return 2;
}
