// CUPTI in a process, to stand beside cutrace: loaded by CUDA_INJECTION64_PATH or LD_PRELOAD.
//
//   CUPTI_MODE=callbacks   counts every runtime and driver call by name (the default)
//   CUPTI_MODE=activity    collects activity records: calls, kernels, copies
//   CUPTI_MODE=kernels     the same without calls
//   CUPTI_COUNTS=FILE      where the counts go at exit: "driver cuLaunchKernel 24", a line each
//
//   cc -O2 -shared -fPIC -I $CUPTI_INCLUDE -o cupti.so cupti.c -ldl
#include <cupti.h>
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST 4096
static uint64_t counts[2][MOST];
static uint64_t records;
static CUptiResult (*callback_name)(CUpti_CallbackDomain, uint32_t, const char **);
static CUptiResult (*next_record)(uint8_t *, size_t, CUpti_Activity **);
static CUptiResult (*flush)(uint32_t);

static void CUPTIAPI called(void *unused, CUpti_CallbackDomain domain, CUpti_CallbackId id, const void *data) {
    (void)unused;
    const CUpti_CallbackData *call = data;
    if (call->callbackSite == CUPTI_API_ENTER && id < MOST)
        __atomic_fetch_add(&counts[domain == CUPTI_CB_DOMAIN_RUNTIME_API][id], 1, __ATOMIC_RELAXED);
}

static void CUPTIAPI give(uint8_t **buffer, size_t *size, size_t *most) {
    *size = 8 << 20;
    *buffer = aligned_alloc(8, *size);
    *most = 0;
}

static void CUPTIAPI take(CUcontext context, uint32_t stream, uint8_t *buffer, size_t size, size_t valid) {
    (void)context, (void)stream, (void)size;
    CUpti_Activity *record = NULL;
    while (next_record(buffer, valid, &record) == CUPTI_SUCCESS) records++;
    free(buffer);
}

static void finish(void) {
    if (flush) flush(1);
    const char *path = getenv("CUPTI_COUNTS");
    FILE *out = path ? fopen(path, "a") : NULL;
    if (!out) return;
    if (flush) fprintf(out, "activity records %lu\n", (unsigned long)records);
    for (int runtime = 0; runtime < 2; runtime++)
        for (uint32_t id = 0; id < MOST; id++) {
            const char *name = "?";
            if (!counts[runtime][id]) continue;
            callback_name(runtime ? CUPTI_CB_DOMAIN_RUNTIME_API : CUPTI_CB_DOMAIN_DRIVER_API, id, &name);
            fprintf(out, "%s %s %lu\n", runtime ? "runtime" : "driver", name, (unsigned long)counts[runtime][id]);
        }
    fclose(out);
}

static void *library;

static void *find(const char *name) {
    void *found = dlsym(library, name);
    if (!found) fprintf(stderr, "cupti.so: %s is not there\n", name);
    return found;
}

static void start(void) {
    static int done;
    if (__atomic_exchange_n(&done, 1, __ATOMIC_RELAXED)) return;
    const char *names[] = {getenv("CUPTI_LIBRARY"), "libcupti.so.13", "libcupti.so.12", "libcupti.so"};
    for (int i = 0; i < 4 && !library; i++)
        if (names[i]) library = dlopen(names[i], RTLD_NOW);
    if (!library) {
        fprintf(stderr, "cupti.so: %s\n", dlerror());
        return;
    }
    const char *mode = getenv("CUPTI_MODE");
    callback_name = find("cuptiGetCallbackName");
    int only_work = mode && strcmp(mode, "kernels") == 0;
    if (mode && (only_work || strcmp(mode, "activity") == 0)) {
        CUptiResult (*enable)(CUpti_ActivityKind) = find("cuptiActivityEnable");
        CUptiResult (*listen)(CUpti_BuffersCallbackRequestFunc, CUpti_BuffersCallbackCompleteFunc) =
            find("cuptiActivityRegisterCallbacks");
        next_record = find("cuptiActivityGetNextRecord");
        flush = find("cuptiActivityFlushAll");
        if (!enable || !listen || !next_record || !flush) return;
        listen(give, take);
        CUpti_ActivityKind kinds[] = {CUPTI_ACTIVITY_KIND_DRIVER, CUPTI_ACTIVITY_KIND_RUNTIME,
                                      CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, CUPTI_ACTIVITY_KIND_MEMCPY,
                                      CUPTI_ACTIVITY_KIND_MEMSET};
        for (int i = only_work ? 2 : 0; i < 5; i++)
            if (enable(kinds[i]) != CUPTI_SUCCESS) fprintf(stderr, "cupti.so: kind %d refused\n", kinds[i]);
    } else {
        CUptiResult (*subscribe)(CUpti_SubscriberHandle *, CUpti_CallbackFunc, void *) = find("cuptiSubscribe");
        CUptiResult (*enable)(uint32_t, CUpti_SubscriberHandle, CUpti_CallbackDomain) = find("cuptiEnableDomain");
        CUpti_SubscriberHandle subscriber;
        if (!subscribe || !enable || subscribe(&subscriber, called, NULL) != CUPTI_SUCCESS) {
            fprintf(stderr, "cupti.so: cannot subscribe\n");
            return;
        }
        enable(1, subscriber, CUPTI_CB_DOMAIN_DRIVER_API);
        enable(1, subscriber, CUPTI_CB_DOMAIN_RUNTIME_API);
    }
    atexit(finish);
}

int InitializeInjection(void) {
    start();
    return 1;
}

__attribute__((constructor)) static void preloaded(void) {
    if (getenv("CUPTI_EARLY")) start();
}
