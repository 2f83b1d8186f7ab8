// A training loop on the driver API, for screens and dashboards:  training STEPS MILLISECONDS [quiet|stubborn]
// Seven kernels and a copy each way in a step; one call that fails at the beginning. 'stubborn' ignores SIGTERM.
#include <dlfcn.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define KERNEL(name)                                                                     \
    ".visible .entry " name "(.param .u64 data)\n"                                       \
    "{\n    .reg .b32 %r<4>;\n    .reg .b64 %rd<3>;\n"                                   \
    "    ld.param.u64 %rd0, [data];\n    cvta.to.global.u64 %rd0, %rd0;\n"               \
    "    mov.u32 %r0, %tid.x;\n    mul.wide.u32 %rd1, %r0, 4;\n    add.s64 %rd0, %rd0, %rd1;\n" \
    "    ld.global.u32 %r1, [%rd0];\n    add.u32 %r1, %r1, 1;\n    st.global.u32 [%rd0], %r1;\n    ret;\n}\n"

static const char ptx[] = ".version 7.0\n.target sm_75\n.address_size 64\n" KERNEL("forward_pass")
    KERNEL("backward_pass") KERNEL("adam_update");

static void *library;

static int call(const char *name, uintptr_t a, uintptr_t b, uintptr_t c) {
    int (*function)(uintptr_t, uintptr_t, uintptr_t) = dlsym(library, name);
    if (!function) {
        fprintf(stderr, "FAIL no %s\n", name);
        exit(1);
    }
    return function(a, b, c);
}

static void must(const char *name, uintptr_t a, uintptr_t b, uintptr_t c) {
    int status = call(name, a, b, c);
    if (status) {
        fprintf(stderr, "FAIL %s (%d)\n", name, status);
        exit(1);
    }
}

int main(int count, char **words) {
    int steps = count > 1 ? atoi(words[1]) : 100, rest = count > 2 ? atoi(words[2]) : 5;
    const char *how = count > 3 ? words[3] : "";
    if (!strcmp(how, "stubborn")) signal(SIGTERM, SIG_IGN);
    library = dlopen("libcuda.so.1", RTLD_NOW);
    if (!library) return 77;
    void *context, *module, *kernels[3];
    uintptr_t memory = 0;
    must("cuInit", 0, 0, 0);
    must("cuDevicePrimaryCtxRetain", (uintptr_t)&context, 0, 0);
    must("cuCtxSetCurrent", (uintptr_t)context, 0, 0);
    must("cuModuleLoadData", (uintptr_t)&module, (uintptr_t)ptx, 0);
    must("cuModuleGetFunction", (uintptr_t)&kernels[0], (uintptr_t)module, (uintptr_t) "forward_pass");
    must("cuModuleGetFunction", (uintptr_t)&kernels[1], (uintptr_t)module, (uintptr_t) "backward_pass");
    must("cuModuleGetFunction", (uintptr_t)&kernels[2], (uintptr_t)module, (uintptr_t) "adam_update");
    if (!call("cuMemAlloc_v2", (uintptr_t)&memory, (uintptr_t)1 << 60, 0)) return 1;
    must("cuMemAlloc_v2", (uintptr_t)&memory, 1 << 20, 0);
    int (*launch)(void *, int, int, int, int, int, int, int, void *, void **, void **) = dlsym(library, "cuLaunchKernel");
    static uint32_t host[16384];
    for (int step = 0; step < steps; step++) {
        must("cuMemcpyHtoD_v2", memory, (uintptr_t)host, sizeof host);
        void *arguments[] = {&memory};
        for (int kernel = 0; kernel < 7; kernel++)
            if (launch(kernels[kernel / 3], 1, 1, 1, 32, 1, 1, 0, 0, arguments, 0)) return 1;
        must("cuCtxSynchronize", 0, 0, 0);
        must("cuMemcpyDtoH_v2", (uintptr_t)host, memory, 128);
        if (strcmp(how, "quiet") && step % 10 == 0) printf("step %d value %u\n", step, host[0]), fflush(stdout);
        usleep(rest * 1000);
    }
    must("cuMemFree_v2", memory, 0, 0);
    printf("PASS training %u\n", host[0]);
    return 3;
}
