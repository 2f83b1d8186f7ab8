// For programs of many threads: a kernel that does nothing, and what launches it.
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static int (*launch)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **,
                     void **);
static int (*set_current)(void *), (*stream_create)(void **, unsigned), (*synchronize)(void);
static void *context, *function;

static void check(int status, const char *what) {
    if (status) {
        fprintf(stderr, "%s: %d\n", what, status);
        exit(1);
    }
}

// Makes a context current and loads the kernel, of this name, into it; returns libcuda.
static void *prepare(const char *name) {
    void *library = dlopen("libcuda.so.1", RTLD_NOW), *module;
    char text[200];
    if (!library) exit(2);
    int (*init)(unsigned) = dlsym(library, "cuInit");
    int (*retain)(void **, int) = dlsym(library, "cuDevicePrimaryCtxRetain");
    int (*load)(void **, const void *) = dlsym(library, "cuModuleLoadData");
    int (*get)(void **, void *, const char *) = dlsym(library, "cuModuleGetFunction");
    set_current = dlsym(library, "cuCtxSetCurrent");
    stream_create = dlsym(library, "cuStreamCreate");
    synchronize = dlsym(library, "cuCtxSynchronize");
    launch = dlsym(library, "cuLaunchKernel");
    snprintf(text, sizeof text, ".version 7.0\n.target sm_50\n.address_size 64\n.visible .entry %s()\n{\nret;\n}\n",
             name);
    check(init(0), "cuInit");
    check(retain(&context, 0), "cuDevicePrimaryCtxRetain");
    check(set_current(context), "cuCtxSetCurrent");
    check(load(&module, text), "cuModuleLoadData");
    check(get(&function, module, name), "cuModuleGetFunction");
    return library;
}

// As many threads as said, 64 at most, each with its number; then waits for the context.
static void all(int threads, void *(*work)(void *)) {
    pthread_t started[64];
    for (int t = 0; t < threads; t++) pthread_create(&started[t], 0, work, (void *)(size_t)t);
    for (int t = 0; t < threads; t++) pthread_join(started[t], 0);
    check(synchronize(), "cuCtxSynchronize");
}
