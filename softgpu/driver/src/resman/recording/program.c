/* The driver calls whose requests are recorded, each after a mark with its name. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef uint64_t ptr;
static void *lib;
static void (*mark)(const char *);
static int failures;

static long call(const char *label, const char *name, uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e,
                 uint64_t f) {
    int (*function)(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t) = dlsym(lib, name);
    if (mark) mark(label);
    int result = function ? function(a, b, c, d, e, f) : -1;
    if (mark) mark("end");
    printf("%s = %d\n", label, result);
    failures += result != 0;
    return result;
}
#define P(x) ((uint64_t)(uintptr_t)(x))
#define C(label, name, ...) CALL6(label, name, __VA_ARGS__, 0, 0, 0, 0, 0, 0)
#define CALL6(label, name, a, b, c, d, e, f, ...) call(label, name, a, b, c, d, e, f)

static const char ptx[] = ".version 8.0\n.target sm_90\n.address_size 64\n"
                          ".visible .entry empty()\n{\nret;\n}\n";

int main(void) {
    lib = dlopen("libcuda.so.1", RTLD_NOW);
    if (!lib) return fprintf(stderr, "%s\n", dlerror()), 1;
    mark = dlsym(RTLD_DEFAULT, "sniff_mark");
    int device = 0, value = 0;
    char text[256];
    size_t size = 0, total = 0;
    ptr context = 0, second = 0, module = 0, function = 0, stream = 0, event = 0, host = 0;
    ptr small = 0, again = 0, mib = 0, big = 0, managed = 0, pool = 0, prio = 0;

    if (C("cuInit", "cuInit", 0)) return 1;
    C("cuDeviceGetCount", "cuDeviceGetCount", P(&value));
    C("cuDeviceGet", "cuDeviceGet", P(&device), 0);
    C("cuDeviceGetName", "cuDeviceGetName", P(text), sizeof text, device);
    C("cuDeviceTotalMem", "cuDeviceTotalMem_v2", P(&size), device);
    C("cuDeviceGetAttribute", "cuDeviceGetAttribute", P(&value), 16, device);
    C("cuDevicePrimaryCtxRetain", "cuDevicePrimaryCtxRetain", P(&context), device);
    C("cuCtxSetCurrent", "cuCtxSetCurrent", context);
    C("cuMemGetInfo", "cuMemGetInfo_v2", P(&size), P(&total));
    C("cuMemAlloc 4096", "cuMemAlloc_v2", P(&small), 4096);
    C("cuMemAlloc 4096 again", "cuMemAlloc_v2", P(&again), 4096);
    C("cuMemAlloc 1MiB", "cuMemAlloc_v2", P(&mib), 1 << 20);
    C("cuMemAlloc 4000000", "cuMemAlloc_v2", P(&big), 4000000);
    C("cuMemFree 4000000", "cuMemFree_v2", big);
    C("cuMemAlloc 256MiB", "cuMemAlloc_v2", P(&big), 256 << 20);
    C("cuMemcpyHtoD 4096", "cuMemcpyHtoD_v2", small, P(ptx), sizeof ptx);
    C("cuMemcpyDtoH 4096", "cuMemcpyDtoH_v2", P(text), small, sizeof text);
    void *pageable = malloc(8 << 20);
    memset(pageable, 1, 8 << 20);
    C("cuMemcpyHtoD 8MiB", "cuMemcpyHtoD_v2", big, P(pageable), 8 << 20);
    C("cuMemsetD8 1MiB", "cuMemsetD8_v2", mib, 7, 1 << 20);
    C("cuMemFree 256MiB", "cuMemFree_v2", big);
    C("cuMemFree 1MiB", "cuMemFree_v2", mib);
    C("cuMemFree 4096", "cuMemFree_v2", small);
    C("cuMemFree 4096 again", "cuMemFree_v2", again);
    C("cuMemAllocHost 4096", "cuMemAllocHost_v2", P(&host), 4096);
    C("cuMemFreeHost 4096", "cuMemFreeHost", host);
    C("cuMemAllocHost 8MiB", "cuMemAllocHost_v2", P(&host), 8 << 20);
    C("cuMemFreeHost 8MiB", "cuMemFreeHost", host);
    void *aligned = aligned_alloc(4096, 1 << 20);
    memset(aligned, 1, 1 << 20);
    C("cuMemHostRegister 1MiB", "cuMemHostRegister_v2", P(aligned), 1 << 20, 0);
    C("cuMemHostUnregister 1MiB", "cuMemHostUnregister", P(aligned));
    C("cuMemAllocManaged 1MiB", "cuMemAllocManaged", P(&managed), 1 << 20, 1);
    memset((void *)managed, 3, 1 << 20);
    C("cuMemFree managed 1MiB", "cuMemFree_v2", managed);
    C("cuMemAllocManaged 64MiB", "cuMemAllocManaged", P(&managed), 64 << 20, 1);
    C("cuMemPrefetchAsync 64MiB", "cuMemPrefetchAsync", managed, 64 << 20, device, 0);
    C("cuMemAdvise read-mostly", "cuMemAdvise", managed, 64 << 20, 1, device);
    C("cuCtxSynchronize", "cuCtxSynchronize", 0);
    C("cuMemFree managed 64MiB", "cuMemFree_v2", managed);
    C("cuStreamCreate", "cuStreamCreate", P(&stream), 1);
    C("cuStreamCreateWithPriority", "cuStreamCreateWithPriority", P(&prio), 1, (uint64_t)-5);
    C("cuEventCreate", "cuEventCreate", P(&event), 0);
    C("cuModuleLoadData", "cuModuleLoadData", P(&module), P(ptx));
    C("cuModuleGetFunction", "cuModuleGetFunction", P(&function), module, P("empty"));
    int (*launch)(ptr, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, ptr, void **, void **) =
        dlsym(lib, "cuLaunchKernel");
    if (mark) mark("cuLaunchKernel x100");
    for (int i = 0; i < 100; i++) failures += launch(function, 1, 1, 1, 32, 1, 1, 0, stream, NULL, NULL) != 0;
    if (mark) mark("end");
    C("cuEventRecord", "cuEventRecord", event, stream);
    C("cuEventSynchronize", "cuEventSynchronize", event);
    C("cuStreamSynchronize", "cuStreamSynchronize", stream);
    C("cuEventDestroy", "cuEventDestroy_v2", event);
    C("cuEventCreate blocking", "cuEventCreate", P(&event), 3);
    C("cuEventRecord blocking", "cuEventRecord", event, stream);
    C("cuEventSynchronize blocking", "cuEventSynchronize", event);
    C("cuEventDestroy blocking", "cuEventDestroy_v2", event);
    C("cuStreamDestroy", "cuStreamDestroy_v2", stream);
    C("cuStreamDestroy priority", "cuStreamDestroy_v2", prio);
    C("cuMemAllocAsync 1MiB", "cuMemAllocAsync", P(&pool), 1 << 20, 0);
    C("cuMemFreeAsync 1MiB", "cuMemFreeAsync", pool, 0);
    C("cuCtxSynchronize pool", "cuCtxSynchronize", 0);
    struct { int type, handles, location, id; void *meta; unsigned char rest[8]; } property = {1, 0, 1, 0, NULL, {0}};
    struct { int location, id, flags; } access = {1, 0, 3};
    ptr handle = 0, reserved = 0;
    C("cuMemCreate 2MiB", "cuMemCreate", P(&handle), 2 << 20, P(&property), 0);
    C("cuMemAddressReserve 2MiB", "cuMemAddressReserve", P(&reserved), 2 << 20, 0, 0, 0);
    C("cuMemMap 2MiB", "cuMemMap", reserved, 2 << 20, 0, handle, 0);
    C("cuMemSetAccess 2MiB", "cuMemSetAccess", reserved, 2 << 20, P(&access), 1);
    C("cuMemUnmap 2MiB", "cuMemUnmap", reserved, 2 << 20);
    C("cuMemRelease 2MiB", "cuMemRelease", handle);
    C("cuMemAddressFree 2MiB", "cuMemAddressFree", reserved, 2 << 20);
    C("cuModuleUnload", "cuModuleUnload", module);
    C("cuCtxCreate second", "cuCtxCreate_v2", P(&second), 0, device);
    C("cuMemAlloc 4096 second", "cuMemAlloc_v2", P(&small), 4096);
    C("cuCtxDestroy second", "cuCtxDestroy_v2", second);
    C("cuDevicePrimaryCtxRelease", "cuDevicePrimaryCtxRelease_v2", device);
    if (mark) mark("exit");
    printf("%d failures\n", failures);
    return failures != 0;
}
