// Waits of several threads, each for its own stream and its own event: waits THREADS EACH
// Each thread launches and waits for its stream EACH times, then records an event, waits for it and
// makes its stream wait for it; at the end the context is waited for once.
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static const char *kernel =
    ".version 7.0\n.target sm_50\n.address_size 64\n.visible .entry nothing()\n{\nret;\n}\n";

static int (*launch)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **,
                     void **);
static int (*set_current)(void *), (*stream_create)(void **, unsigned), (*stream_synchronize)(void *);
static int (*event_create)(void **, unsigned), (*event_record)(void *, void *), (*event_synchronize)(void *);
static int (*stream_wait)(void *, void *, unsigned), (*synchronize)(void);
static void *context, *function;
static int each;

static void check(int status, const char *what) {
    if (status) {
        fprintf(stderr, "%s: %d\n", what, status);
        exit(1);
    }
}

static void *work(void *unused) {
    void *stream, *event;
    (void)unused;
    check(set_current(context), "cuCtxSetCurrent");
    check(stream_create(&stream, 0), "cuStreamCreate");
    check(event_create(&event, 0), "cuEventCreate");
    for (int i = 0; i < each; i++) {
        check(launch(function, 1, 1, 1, 1, 1, 1, 0, stream, 0, 0), "cuLaunchKernel");
        check(stream_synchronize(stream), "cuStreamSynchronize");
    }
    check(event_record(event, stream), "cuEventRecord");
    check(event_synchronize(event), "cuEventSynchronize");
    check(stream_wait(stream, event, 0), "cuStreamWaitEvent");
    return 0;
}

int main(int argc, char **argv) {
    pthread_t started[64];
    int threads = argc > 1 ? atoi(argv[1]) : 1;
    each = argc > 2 ? atoi(argv[2]) : 1;
    void *library = dlopen("libcuda.so.1", RTLD_NOW), *module;
    if (!library || threads > 64) return 2;
    int (*init)(unsigned) = dlsym(library, "cuInit");
    int (*retain)(void **, int) = dlsym(library, "cuDevicePrimaryCtxRetain");
    int (*load)(void **, const void *) = dlsym(library, "cuModuleLoadData");
    int (*get)(void **, void *, const char *) = dlsym(library, "cuModuleGetFunction");
    set_current = dlsym(library, "cuCtxSetCurrent");
    stream_create = dlsym(library, "cuStreamCreate");
    stream_synchronize = dlsym(library, "cuStreamSynchronize");
    event_create = dlsym(library, "cuEventCreate");
    event_record = dlsym(library, "cuEventRecord");
    event_synchronize = dlsym(library, "cuEventSynchronize");
    stream_wait = dlsym(library, "cuStreamWaitEvent");
    synchronize = dlsym(library, "cuCtxSynchronize");
    launch = dlsym(library, "cuLaunchKernel");
    check(init(0), "cuInit");
    check(retain(&context, 0), "cuDevicePrimaryCtxRetain");
    check(set_current(context), "cuCtxSetCurrent");
    check(load(&module, kernel), "cuModuleLoadData");
    check(get(&function, module, "nothing"), "cuModuleGetFunction");
    for (int t = 0; t < threads; t++) pthread_create(&started[t], 0, work, 0);
    for (int t = 0; t < threads; t++) pthread_join(started[t], 0);
    check(synchronize(), "cuCtxSynchronize");
    return 0;
}
