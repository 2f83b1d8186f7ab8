// One line a call: the code, the last error after it, and the driver calls beneath when
// libcuda.so.1 is driver_log.c.
#pragma once
#include <cuda_runtime.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void (*take)(char *, size_t);
static char calls[1 << 16];

static void show(const char *what, int code) {
    int last = cudaPeekAtLastError();
    if (take)
        take(calls, sizeof calls);
    printf("%s = %d last=%d%s%s\n", what, code, last, take ? " | " : "", take ? calls : "");
    fflush(stdout);
}

// The driver library, which may already be open.
static void *open_driver(void) {
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    if (library)
        take = (void (*)(char *, size_t))dlsym(library, "driver_log_take");
    if (take)
        take(calls, sizeof calls);
    return library;
}

#define T(call) show(#call, (int)(call))
#define V(format, ...) printf("  " format "\n", __VA_ARGS__), fflush(stdout)
#define CLEAR() ((void)cudaGetLastError())
