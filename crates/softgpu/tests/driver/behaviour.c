/* Calls libcuda in many right and wrong ways and prints every answer, so that two libraries can
 * be compared line by line. Handles and addresses are not printed, only results and values that
 * must agree. Usage: behaviour LIBCUDA [section]. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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
#define R(name, ...) printf("%3d %s(%s)\n", CALL(name, __VA_ARGS__), #name, #__VA_ARGS__)
#define V(what) printf("    %s = %lld\n", #what, (long long)(what))

static const char *ptx =
    ".version 7.0\n.target sm_70\n.address_size 64\n"
    ".global .align 4 .u32 counter = 5;\n"
    ".const .align 4 .u32 factor = 7;\n"
    /* out[i] = a[i] + b[i] for i < n */
    ".visible .entry add(.param .u64 a, .param .u64 b, .param .u64 out, .param .u32 n) {\n"
    "  .reg .pred %p; .reg .b32 %r<8>; .reg .b64 %d<8>;\n"
    "  ld.param.u64 %d1, [a]; ld.param.u64 %d2, [b]; ld.param.u64 %d3, [out]; ld.param.u32 %r1, [n];\n"
    "  mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x; mov.u32 %r4, %tid.x; mad.lo.s32 %r5, %r2, %r3, %r4;\n"
    "  setp.ge.u32 %p, %r5, %r1; @%p ret;\n"
    "  cvta.to.global.u64 %d1, %d1; cvta.to.global.u64 %d2, %d2; cvta.to.global.u64 %d3, %d3;\n"
    "  mul.wide.u32 %d4, %r5, 4; add.u64 %d1, %d1, %d4; add.u64 %d2, %d2, %d4; add.u64 %d3, %d3, %d4;\n"
    "  ld.global.u32 %r6, [%d1]; ld.global.u32 %r7, [%d2]; add.u32 %r6, %r6, %r7; st.global.u32 [%d3], %r6; ret;\n}\n"
    /* counter += factor */
    ".visible .entry count() {\n"
    "  .reg .b32 %r<4>;\n"
    "  ld.const.u32 %r1, [factor]; atom.global.add.u32 %r2, [counter], %r1; ret;\n}\n"
    /* waits until *flag is not 0 */
    ".visible .entry wait(.param .u64 flag) {\n"
    "  .reg .pred %p; .reg .b32 %r<2>; .reg .b64 %d<2>;\n"
    "  ld.param.u64 %d1, [flag];\n"
    "again: ld.volatile.u32 %r1, [%d1]; setp.eq.u32 %p, %r1, 0; @%p bra again; ret;\n}\n"
    /* *out += 1, in order */
    ".visible .entry bump(.param .u64 out, .param .u32 by) {\n"
    "  .reg .b32 %r<4>; .reg .b64 %d<2>;\n"
    "  ld.param.u64 %d1, [out]; ld.param.u32 %r2, [by]; ld.u32 %r1, [%d1]; add.u32 %r1, %r1, %r2; st.u32 [%d1], %r1; ret;\n}\n"
    ".visible .entry bounded() .maxntid 128, 1, 1 { ret; }\n"
    ".visible .entry required() .reqntid 64, 1, 1 { ret; }\n"
    ".visible .entry shared() { .shared .align 4 .b8 room[1024]; .reg .b32 %r<2>; .reg .b64 %d<2>;\n"
    "  mov.u32 %r1, room; st.shared.u32 [%r1], %r1; ret; }\n"
    ".visible .entry fault(.param .u64 at) { .reg .b32 %r; .reg .b64 %d; mov.u32 %r, 1; ld.param.u64 %d, [at]; st.u32 [%d], %r; ret; }\n"
    ".visible .entry misaligned(.param .u64 at) { .reg .b32 %r; .reg .b64 %d; mov.u32 %r, 1; ld.param.u64 %d, [at]; st.u32 [%d+1], %r; ret; }\n"
    ".visible .entry trapped() { trap; ret; }\n";

static u64 context, module, add, count_, wait_, bump;

static void *pinned(size_t bytes) {
    void *p = 0;
    CALL(cuMemHostAlloc, &p, bytes, 0);
    memset(p, 0, bytes);
    return p;
}

static u64 device_memory(size_t bytes) {
    u64 p = 0;
    CALL(cuMemAlloc_v2, &p, bytes);
    CALL(cuMemsetD8_v2, p, 0, bytes);
    CALL(cuCtxSynchronize);
    return p;
}

static unsigned word(u64 at) {
    unsigned value = 0xdead;
    CALL(cuMemcpyDtoH_v2, &value, at, (size_t)4);
    return value;
}

static void setup(void) {
    CALL(cuInit, 0);
    CALL(cuCtxCreate_v2, &context, 0, 0);
    CALL(cuModuleLoadData, &module, ptx);
    CALL(cuModuleGetFunction, &add, module, "add");
    CALL(cuModuleGetFunction, &count_, module, "count");
    CALL(cuModuleGetFunction, &wait_, module, "wait");
    CALL(cuModuleGetFunction, &bump, module, "bump");
}

static u64 function_of(const char *name) {
    u64 f = 0;
    CALL(cuModuleGetFunction, &f, module, name);
    return f;
}

/* Launches one thread. */
static int launch1(u64 f, u64 stream, void **params) {
    return CALL(cuLaunchKernel, f, 1, 1, 1, 1, 1, 1, 0, stream, params, (void **)0);
}

static void section_init(void) {
    int value = 0;
    u64 c = 0;
    R(cuDeviceGetCount, &value);
    R(cuCtxGetCurrent, &c);
    R(cuDriverGetVersion, &value);
    V(value);
    R(cuDriverGetVersion, (void *)0);
    R(cuInit, 1);
    R(cuInit, 0);
    R(cuInit, 0);
    R(cuDeviceGetCount, (void *)0);
    R(cuDeviceGet, &value, 0);
    R(cuDeviceGet, &value, -1);
    R(cuDeviceGet, &value, 99);
    R(cuDeviceGetAttribute, &value, 1, 0);
    V(value);
    R(cuDeviceGetAttribute, &value, 0, 0);
    R(cuDeviceGetAttribute, &value, 1, 77);
    R(cuDeviceGetAttribute, (void *)0, 1, 0);
    char name[8];
    memset(name, 'x', sizeof name);
    R(cuDeviceGetName, name, 4, 0);
    V(strlen(name));
    R(cuDeviceGetName, (void *)0, 4, 0);
    R(cuCtxGetDevice, &value);
    R(cuCtxSynchronize);
    R(cuMemAlloc_v2, &c, (size_t)16);
    R(cuStreamCreate, &c, 0);
    R(cuCtxPopCurrent_v2, &c);
    const char *text = 0;
    R(cuGetErrorName, 700, &text);
    V(text && !strcmp(text, "CUDA_ERROR_ILLEGAL_ADDRESS"));
    R(cuGetErrorName, 12345, &text);
    V(text == 0);
    R(cuGetErrorString, 12345, &text);
    void *f = 0;
    int status = -1;
    R(cuGetProcAddress_v2, "cuNoSuchThing", &f, 12000, (u64)0, &status);
    V(status);
    R(cuGetProcAddress_v2, "cuNoSuchThing", &f, 12000, (u64)0, (void *)0);
    R(cuGetProcAddress, "cuNoSuchThing", &f, 12000, (u64)0);
    R(cuGetProcAddress, "cuLaunchKernel", &f, 2000, (u64)0);
    R(cuGetProcAddress_v2, "cuLaunchKernel", &f, 2000, (u64)0, (void *)0);
    R(cuGetProcAddress_v2, "cuLaunchKernel", &f, 12000, (u64)3, &status);
    R(cuGetProcAddress_v2, "cuLaunchKernel", &f, 12000, (u64)4, &status);
    R(cuGetProcAddress_v2, "", &f, 12000, (u64)0, &status);
    R(cuGetProcAddress_v2, "cuInit", &f, 0, (u64)0, &status);
    R(cuGetProcAddress_v2, "cuInit", &f, -1, (u64)0, &status);
}

static void section_context(void) {
    CALL(cuInit, 0);
    u64 a = 0, b = 0, c = 0;
    unsigned flags = 99, version = 0;
    int active = 9, x = 0, y = 0;
    R(cuDevicePrimaryCtxGetState, 0, &flags, &active);
    V(flags);
    V(active);
    R(cuDevicePrimaryCtxRelease_v2, 0);
    R(cuDevicePrimaryCtxSetFlags_v2, 0, 4);
    R(cuDevicePrimaryCtxSetFlags_v2, 0, 3);
    R(cuDevicePrimaryCtxSetFlags_v2, 0, 0x100);
    R(cuDevicePrimaryCtxRetain, &a, 0);
    R(cuDevicePrimaryCtxRetain, &b, 0);
    V(a == b);
    R(cuDevicePrimaryCtxGetState, 0, &flags, &active);
    V(flags);
    V(active);
    R(cuCtxGetCurrent, &c);
    V(c == 0);
    R(cuCtxSetCurrent, a);
    R(cuCtxGetFlags, &flags);
    V(flags);
    R(cuCtxDestroy_v2, a);
    R(cuMemAlloc_v2, &c, (size_t)100);
    R(cuDevicePrimaryCtxReset_v2, 0);
    R(cuCtxGetCurrent, &b);
    V(a == b);
    R(cuCtxGetDevice, &x);
    R(cuMemFree_v2, c);
    R(cuMemAlloc_v2, &c, (size_t)100);
    R(cuDevicePrimaryCtxGetState, 0, &flags, &active);
    V(active);
    R(cuDevicePrimaryCtxRetain, &b, 0);
    V(a == b);
    R(cuMemAlloc_v2, &c, (size_t)100);
    R(cuDevicePrimaryCtxRelease_v2, 0);
    R(cuDevicePrimaryCtxRelease_v2, 0);
    R(cuDevicePrimaryCtxRelease_v2, 0);
    R(cuCtxGetDevice, &x);
    R(cuMemAlloc_v2, &c, (size_t)100);
    R(cuCtxSetCurrent, (u64)0);
    R(cuCtxCreate_v2, &a, 0, 0);
    R(cuCtxCreate_v2, &b, 8, 0);
    R(cuCtxCreate_v2, &c, 3, 0);
    R(cuCtxCreate_v2, &c, 0x1000, 0);
    R(cuCtxCreate_v2, &c, 0, 5);
    R(cuCtxCreate_v2, (void *)0, 0, 0);
    R(cuCtxGetCurrent, &c);
    V(c == b);
    R(cuCtxGetFlags, &flags);
    V(flags);
    R(cuCtxGetApiVersion, a, &version);
    V(version);
    R(cuCtxGetApiVersion, (u64)0, &version);
    R(cuCtxPushCurrent_v2, a);
    R(cuCtxPopCurrent_v2, &c);
    V(c == a);
    R(cuCtxPopCurrent_v2, &c);
    V(c == b);
    R(cuCtxPopCurrent_v2, &c);
    V(c == a);
    R(cuCtxPopCurrent_v2, &c);
    R(cuCtxSetCurrent, b);
    R(cuCtxGetStreamPriorityRange, &x, &y);
    V(x);
    V(y);
    size_t limit = 0;
    R(cuCtxGetLimit, &limit, 0);
    V(limit);
    R(cuCtxGetLimit, &limit, 2);
    V(limit);
    R(cuCtxGetLimit, &limit, 3);
    R(cuCtxGetLimit, &limit, 50);
    R(cuCtxSetLimit, 0, (size_t)4096);
    R(cuCtxGetLimit, &limit, 0);
    V(limit);
    R(cuCtxSetLimit, 2, (size_t)(16 << 20));
    R(cuCtxGetLimit, &limit, 2);
    V(limit);
    R(cuCtxSetLimit, 3, (size_t)2);
    R(cuCtxGetCacheConfig, &x);
    V(x);
    R(cuCtxSetCacheConfig, 2);
    R(cuCtxGetCacheConfig, &x);
    V(x);
    R(cuCtxSetCacheConfig, 9);
    R(cuCtxGetSharedMemConfig, &x);
    V(x);
    u64 stream = 0, event = 0, memory = 0;
    R(cuStreamCreate, &stream, 0);
    R(cuEventCreate, &event, 0);
    R(cuMemAlloc_v2, &memory, (size_t)64);
    R(cuCtxDestroy_v2, b);
    R(cuCtxGetCurrent, &c);
    V(c == 0);
    R(cuCtxSetCurrent, a);
    R(cuMemFree_v2, memory);
    R(cuCtxDestroy_v2, (u64)0);
    R(cuCtxDestroy_v2, a);
}

static void section_memory(void) {
    setup();
    u64 p = 0, q = 0, base = 0;
    size_t size = 0, pitch = 0;
    unsigned flags = 0;
    void *h = 0;
    R(cuMemAlloc_v2, &p, (size_t)0);
    R(cuMemAlloc_v2, (void *)0, (size_t)16);
    R(cuMemAlloc_v2, &p, (size_t)1 << 50);
    R(cuMemAlloc_v2, &p, (size_t)1000);
    V(p % 256);
    R(cuMemGetAddressRange_v2, &base, &size, p + 10);
    V(base == p);
    V(size);
    R(cuMemGetAddressRange_v2, &base, &size, (u64)64);
    R(cuMemFree_v2, p + 4);
    R(cuMemFree_v2, (u64)0);
    R(cuMemFree_v2, (u64)0x123456);
    R(cuMemFree_v2, p);
    R(cuMemFree_v2, p);
    R(cuMemAllocPitch_v2, &p, &pitch, (size_t)100, (size_t)10, 4);
    V(pitch);
    R(cuMemAllocPitch_v2, &q, &pitch, (size_t)100, (size_t)10, 3);
    R(cuMemFree_v2, p);
    R(cuMemAllocHost_v2, &h, (size_t)100);
    R(cuMemHostGetFlags, &flags, h);
    V(flags);
    R(cuMemHostGetDevicePointer_v2, &p, h, 0);
    V(p == (u64)h);
    R(cuMemHostGetDevicePointer_v2, &p, (void *)&p, 0);
    R(cuMemHostGetDevicePointer_v2, &p, h, 1);
    R(cuMemFreeHost, h);
    R(cuMemFreeHost, (void *)0);
    R(cuMemFreeHost, (void *)&p);
    R(cuMemHostAlloc, &h, (size_t)0, 0);
    R(cuMemHostAlloc, &h, (size_t)64, 0x100);
    R(cuMemHostAlloc, &h, (size_t)64, 3);
    R(cuMemHostGetFlags, &flags, h);
    V(flags);
    void *own = aligned_alloc(4096, 8192);
    R(cuMemHostRegister_v2, own, (size_t)8192, 0);
    R(cuMemHostRegister_v2, own, (size_t)8192, 0);
    R(cuMemHostRegister_v2, (void *)0, (size_t)8192, 0);
    R(cuMemHostRegister_v2, own, (size_t)0, 0);
    R(cuMemHostGetDevicePointer_v2, &p, own, 0);
    V(p == (u64)own);
    R(cuMemHostUnregister, own);
    R(cuMemHostUnregister, own);
    R(cuMemHostUnregister, h);
    u64 managed = 0;
    R(cuMemAllocManaged, &managed, (size_t)4096, 1);
    R(cuMemAllocManaged, &q, (size_t)4096, 0);
    R(cuMemAllocManaged, &q, (size_t)0, 1);
    *(volatile int *)managed = 42;
    V(word(managed));
    int type = 0, is_managed = 9, ordinal = 9;
    u64 pointer = 0, id = 0;
    p = 0;
    CALL(cuMemAlloc_v2, &p, (size_t)1000);
    R(cuPointerGetAttribute, &type, 2, p + 5);
    V(type);
    R(cuPointerGetAttribute, &type, 2, (u64)h);
    V(type);
    R(cuPointerGetAttribute, &type, 2, managed);
    V(type);
    R(cuPointerGetAttribute, &type, 2, (u64)&p);
    R(cuPointerGetAttribute, &pointer, 3, p + 5);
    V(pointer == p + 5);
    R(cuPointerGetAttribute, &pointer, 4, (u64)h + 5);
    V(pointer == (u64)h + 5);
    R(cuPointerGetAttribute, &pointer, 4, p);
    R(cuPointerGetAttribute, &pointer, 1, p);
    V(pointer == context);
    R(cuPointerGetAttribute, &is_managed, 8, p);
    V(is_managed);
    R(cuPointerGetAttribute, &is_managed, 8, managed);
    V(is_managed);
    R(cuPointerGetAttribute, &ordinal, 9, p);
    V(ordinal);
    R(cuPointerGetAttribute, &pointer, 11, p + 5);
    V(pointer == p);
    R(cuPointerGetAttribute, &size, 12, p + 5);
    V(size);
    R(cuPointerGetAttribute, &type, 13, p);
    V(type);
    R(cuPointerGetAttribute, &id, 7, p);
    R(cuPointerGetAttribute, &type, 99, p);
    int numbers[3] = {2, 9, 8};
    void *places[3] = {&type, &ordinal, &is_managed};
    R(cuPointerGetAttributes, 3, numbers, places, (u64)&p);
    V(type);
    V(ordinal);
    V(is_managed);
    R(cuMemAdvise, managed, (size_t)4096, 1, 0);
    R(cuMemAdvise, p, (size_t)100, 1, 0);
    R(cuMemAdvise, managed, (size_t)4096, 77, 0);
    R(cuMemPrefetchAsync, managed, (size_t)4096, 0, (u64)0);
    R(cuMemPrefetchAsync, managed, (size_t)4096, -1, (u64)0);
    R(cuMemPrefetchAsync, managed, (size_t)4096, 55, (u64)0);
    R(cuStreamAttachMemAsync, (u64)0, managed, (size_t)0, 1);
    R(cuMemFree_v2, managed);
    size_t total = 0;
    R(cuMemGetInfo_v2, &size, &total);
    V(size <= total);
    u64 pool = 0, threshold = 7;
    R(cuDeviceGetDefaultMemPool, &pool, 0);
    R(cuMemPoolGetAttribute, pool, 4, &threshold);
    V(threshold);
    R(cuMemAllocAsync, &q, (size_t)1000, (u64)0);
    R(cuMemsetD8Async, q, 1, (size_t)1000, (u64)0);
    R(cuMemFreeAsync, q, (u64)0);
    R(cuCtxSynchronize);
    R(cuMemAllocAsync, &q, (size_t)0, (u64)0);
}

static void section_copy(void) {
    setup();
    unsigned char host[4096], back[4096];
    for (int i = 0; i < 4096; i++)
        host[i] = i * 7;
    u64 p = device_memory(4096), q = device_memory(4096);
    R(cuMemcpyHtoD_v2, p, host, (size_t)4096);
    R(cuMemcpyDtoD_v2, q, p, (size_t)4096);
    R(cuMemcpyDtoH_v2, back, q, (size_t)4096);
    V(memcmp(host, back, 4096));
    R(cuMemcpyHtoD_v2, p, host, (size_t)4097);
    R(cuMemcpyHtoD_v2, p + 1, host, (size_t)4096);
    R(cuMemcpyHtoD_v2, p, (void *)0, (size_t)16);
    R(cuMemcpyHtoD_v2, (u64)0, host, (size_t)16);
    R(cuMemcpyHtoD_v2, p, host, (size_t)0);
    R(cuMemcpyHtoD_v2, (u64)0, host, (size_t)0);
    R(cuMemcpyDtoH_v2, back, (u64)host, (size_t)16);
    R(cuMemcpy, q, (u64)host, (size_t)64);
    R(cuMemcpy, (u64)back, q, (size_t)64);
    V(memcmp(host, back, 64));
    R(cuMemcpy, (u64)back, (u64)host, (size_t)64);
    R(cuMemcpyAsync, q, p, (size_t)4096, (u64)0);
    R(cuMemsetD8_v2, p, 0xab, (size_t)4096);
    R(cuMemsetD8_v2, p, 0xab, (size_t)4097);
    R(cuMemsetD16_v2, p + 1, 0xabcd, (size_t)10);
    R(cuMemsetD32_v2, p + 2, 0xabcd, (size_t)10);
    R(cuMemsetD32_v2, p + 4, 0x01020304, (size_t)2);
    R(cuMemsetD8_v2, p, 1, (size_t)0);
    V(word(p) == 0xabababab);
    V(word(p + 4));
    V(word(p + 12) == 0xabababab);
    R(cuMemsetD2D8_v2, p, (size_t)64, 9, (size_t)2, (size_t)3);
    V(word(p) == 0xabab0909);
    V(word(p + 64) == 0xabab0909);
    V(word(p + 192) == 0xabababab);
    R(cuMemsetD2D8_v2, p, (size_t)1, 9, (size_t)2, (size_t)3);
    R(cuMemsetD2D8_v2, p, (size_t)2048, 9, (size_t)2, (size_t)3);
    R(cuMemsetD2D32_v2, p, (size_t)64, 9, (size_t)2, (size_t)3);
    V(word(p + 68));
    struct {
        size_t sx, sy;
        unsigned st;
        const void *sh;
        u64 sd, sa;
        size_t sp, dx, dy;
        unsigned dt;
        void *dh;
        u64 dd, da;
        size_t dp, w, h;
    } c;
    memset(&c, 0, sizeof c);
    c.st = 1, c.sh = host, c.sp = 100, c.sx = 3, c.sy = 1;
    c.dt = 2, c.dd = p, c.dp = 512, c.dx = 5, c.dy = 2;
    c.w = 10, c.h = 4;
    CALL(cuMemsetD8_v2, p, 0, (size_t)4096);
    R(cuMemcpy2D_v2, &c);
    R(cuMemcpyDtoH_v2, back, p, (size_t)4096);
    V(memcmp(back + 2 * 512 + 5, host + 103, 10));
    V(memcmp(back + 5 * 512 + 5, host + 403, 10));
    V(back[2 * 512 + 4]);
    V(back[2 * 512 + 15]);
    c.h = 40;
    R(cuMemcpy2D_v2, &c);
    c.h = 4, c.dp = 10;
    R(cuMemcpy2D_v2, &c);
    c.dp = 512, c.st = 77;
    R(cuMemcpy2D_v2, &c);
    c.st = 1, c.w = 0;
    R(cuMemcpy2D_v2, &c);
    c.w = 10, c.h = 0;
    R(cuMemcpy2D_v2, &c);
    R(cuMemcpy2D_v2, (void *)0);
    c.h = 4;
    R(cuMemcpy2DUnaligned_v2, &c);
    R(cuMemcpy2DAsync_v2, &c, (u64)0);
    R(cuCtxSynchronize);
}

static void section_module(void) {
    setup();
    u64 m = 0, f = 0, g = 0;
    size_t size = 0;
    unsigned n = 0;
    R(cuModuleLoadData, &m, "this is no ptx");
    R(cuModuleLoadData, &m, "");
    R(cuModuleLoadData, &m, ".version 7.0\n.target sm_70\n.address_size 64\n.visible .entry x() { nonsense.u32 %r1; }");
    R(cuModuleLoadData, &m, (void *)0);
    R(cuModuleLoadData, (void *)0, ptx);
    char log[400] = "x";
    int options[2] = {5, 6};
    void *values[2] = {log, (void *)sizeof log};
    R(cuModuleLoadDataEx, &m, ".version 7.0\n.target sm_70\n.address_size 64\n.visible .entry x() { nonsense.u32 %r1; }", 2, options, values);
    V(strlen(log) > 10);
    R(cuModuleLoad, &m, "/no/such/file");
    R(cuModuleLoadData, &m, ptx);
    R(cuModuleGetFunction, &f, m, "add");
    R(cuModuleGetFunction, &f, m, "nothing");
    R(cuModuleGetFunction, &f, m, (void *)0);
    R(cuModuleGetFunction, (void *)0, m, "add");
    R(cuModuleGetFunction, &f, (u64)0, "add");
    u64 f1 = 0, f2 = 0;
    CALL(cuModuleGetFunction, &f1, m, "add");
    CALL(cuModuleGetFunction, &f2, m, "add");
    V(f1 == f2);
    R(cuModuleGetGlobal_v2, &g, &size, m, "counter");
    V(size);
    V(word(g));
    R(cuModuleGetGlobal_v2, &g, &size, m, "factor");
    V(word(g));
    R(cuModuleGetGlobal_v2, &g, &size, m, "nothing");
    R(cuModuleGetGlobal_v2, (void *)0, &size, m, "counter");
    R(cuModuleGetGlobal_v2, &g, (void *)0, m, "counter");
    R(cuModuleGetGlobal_v2, (void *)0, (void *)0, m, "counter");
    R(cuModuleGetFunctionCount, &n, m);
    V(n);
    CALL(cuModuleGetFunction, &f, m, "count");
    V(launch1(f, 0, 0));
    V(word(g));
    R(cuModuleUnload, m);
    R(cuModuleUnload, (u64)0);
    u64 library_ = 0, kernel = 0, kf = 0;
    R(cuLibraryLoadData, &library_, ptx, (void *)0, (void *)0, 0, (void *)0, (void *)0, 0);
    R(cuLibraryGetKernelCount, &n, library_);
    V(n);
    R(cuLibraryGetKernel, &kernel, library_, "bump");
    R(cuLibraryGetKernel, &kf, library_, "nothing");
    R(cuKernelGetFunction, &kf, kernel);
    const char *name = 0;
    R(cuKernelGetName, &name, kernel);
    V(name && !strcmp(name, "bump"));
    R(cuFuncGetName, &name, kf);
    V(name && !strcmp(name, "bump"));
    size_t offset = 9;
    R(cuKernelGetParamInfo, kernel, (size_t)1, &offset, &size);
    V(offset);
    V(size);
    R(cuKernelGetParamInfo, kernel, (size_t)2, &offset, &size);
    R(cuLibraryGetGlobal, &g, &size, library_, "counter");
    V(word(g));
    R(cuLibraryGetGlobal, &g, &size, library_, "nothing");
    R(cuLibraryGetManaged, &g, &size, library_, "counter");
    u64 at = device_memory(4);
    unsigned by = 3;
    void *params[2] = {&at, &by};
    V(launch1(kernel, 0, params));
    V(launch1(kf, 0, params));
    V(word(at));
    R(cuLibraryUnload, library_);
    int value = 0;
    R(cuFuncGetAttribute, &value, 0, add);
    V(value);
    R(cuFuncGetAttribute, &value, 1, function_of("shared"));
    V(value);
    R(cuFuncGetAttribute, &value, 8, function_of("shared"));
    V(value);
    R(cuFuncGetAttribute, &value, 2, add);
    R(cuFuncGetAttribute, &value, 3, add);
    V(value);
    R(cuFuncGetAttribute, &value, 5, add);
    V(value);
    R(cuFuncGetAttribute, &value, 6, add);
    V(value);
    R(cuFuncGetAttribute, &value, 8, add);
    V(value);
    R(cuFuncGetAttribute, &value, 9, add);
    V(value);
    R(cuFuncGetAttribute, &value, 0, function_of("bounded"));
    V(value);
    R(cuFuncGetAttribute, &value, 0, function_of("required"));
    V(value);
    R(cuFuncGetAttribute, &value, 99, add);
    R(cuFuncGetAttribute, &value, 0, (u64)0);
    R(cuFuncSetAttribute, add, 8, 100000);
    R(cuFuncGetAttribute, &value, 8, add);
    V(value);
    R(cuFuncSetAttribute, add, 8, 240000);
    R(cuFuncSetAttribute, add, 8, -1);
    R(cuFuncSetAttribute, add, 8, 1000);
    R(cuFuncSetAttribute, add, 9, 50);
    R(cuFuncSetAttribute, add, 9, 200);
    R(cuFuncSetAttribute, add, 4, 10);
    R(cuFuncGetParamInfo, add, (size_t)3, &offset, &size);
    V(offset);
    V(size);
    u64 owner = 0;
    R(cuFuncGetModule, &owner, add);
    V(owner == module);
    int blocks = 0, grid = 0, block = 0;
    R(cuOccupancyMaxActiveBlocksPerMultiprocessor, &blocks, add, 256, (size_t)0);
    V(blocks);
    R(cuOccupancyMaxActiveBlocksPerMultiprocessor, &blocks, add, 32, (size_t)0);
    V(blocks);
    R(cuOccupancyMaxActiveBlocksPerMultiprocessor, &blocks, add, 1000, (size_t)0);
    V(blocks);
    R(cuOccupancyMaxActiveBlocksPerMultiprocessor, &blocks, function_of("shared"), 64, (size_t)20000);
    V(blocks);
    R(cuOccupancyMaxActiveBlocksPerMultiprocessor, &blocks, function_of("shared"), 64, (size_t)48000);
    V(blocks);
    R(cuOccupancyMaxActiveBlocksPerMultiprocessor, &blocks, add, 0, (size_t)0);
    R(cuOccupancyMaxActiveBlocksPerMultiprocessor, &blocks, add, 2000, (size_t)0);
    V(blocks);
    R(cuOccupancyMaxActiveBlocksPerMultiprocessor, &blocks, function_of("bounded"), 256, (size_t)0);
    V(blocks);
    R(cuOccupancyMaxPotentialBlockSize, &grid, &block, add, (void *)0, (size_t)0, 0);
    V(block);
    R(cuOccupancyMaxPotentialBlockSize, &grid, &block, add, (void *)0, (size_t)0, 300);
    V(block);
    R(cuOccupancyAvailableDynamicSMemPerBlock, &size, add, 4, 128);
    V(size);
    R(cuOccupancyAvailableDynamicSMemPerBlock, &size, function_of("shared"), 1, 128);
    V(size);
}

static void section_launch(void) {
    setup();
    enum { N = 1000 };
    unsigned host[N];
    u64 a = device_memory(N * 4), b = device_memory(N * 4), out = device_memory(N * 4);
    for (int i = 0; i < N; i++)
        host[i] = i;
    CALL(cuMemcpyHtoD_v2, a, host, sizeof host);
    CALL(cuMemcpyHtoD_v2, b, host, sizeof host);
    int n = N;
    void *params[4] = {&a, &b, &out, &n};
    void **none = 0;
    R(cuLaunchKernel, add, 4, 1, 1, 256, 1, 1, 0, (u64)0, params, none);
    CALL(cuMemcpyDtoH_v2, host, out, sizeof host);
    V(host[0]);
    V(host[N - 1]);
    struct {
        u64 a, b, out;
        int n;
    } packed = {a, b, out, N};
    size_t size = sizeof packed;
    void *extra[] = {(void *)1, &packed, (void *)2, &size, 0};
    R(cuLaunchKernel, add, 4, 1, 1, 256, 1, 1, 0, (u64)0, none, extra);
    R(cuLaunchKernel, add, 4, 1, 1, 256, 1, 1, 0, (u64)0, params, extra);
    R(cuLaunchKernel, add, 4, 1, 1, 256, 1, 1, 0, (u64)0, none, none);
    size = 8;
    R(cuLaunchKernel, add, 4, 1, 1, 256, 1, 1, 0, (u64)0, none, extra);
    R(cuLaunchKernel, add, 0, 1, 1, 256, 1, 1, 0, (u64)0, params, none);
    R(cuLaunchKernel, add, 1, 1, 1, 0, 1, 1, 0, (u64)0, params, none);
    R(cuLaunchKernel, add, 1, 1, 1, 1025, 1, 1, 0, (u64)0, params, none);
    R(cuLaunchKernel, add, 1, 1, 1, 32, 32, 2, 0, (u64)0, params, none);
    R(cuLaunchKernel, add, 1, 1, 1, 1, 1, 65, 0, (u64)0, params, none);
    R(cuLaunchKernel, add, 1, 65536, 1, 1, 1, 1, 0, (u64)0, params, none);
    R(cuLaunchKernel, add, 1, 1, 65536, 1, 1, 1, 0, (u64)0, params, none);
    R(cuLaunchKernel, add, 0x80000000u, 1, 1, 1, 1, 1, 0, (u64)0, params, none);
    R(cuLaunchKernel, add, 1, 1, 1, 1, 1, 1, 49152, (u64)0, params, none);
    R(cuLaunchKernel, add, 1, 1, 1, 1, 1, 1, 49153, (u64)0, params, none);
    R(cuLaunchKernel, (u64)0, 1, 1, 1, 1, 1, 1, 0, (u64)0, params, none);
    R(cuLaunchKernel, add, 1, 1, 1, 1, 1, 1, 0, (u64)1, params, none);
    R(cuLaunchKernel, add, 1, 1, 1, 1, 1, 1, 0, (u64)2, params, none);
    u64 shared = function_of("shared"), bounded = function_of("bounded");
    R(cuLaunchKernel, shared, 1, 1, 1, 1, 1, 1, 48128, (u64)0, none, none);
    R(cuLaunchKernel, shared, 1, 1, 1, 1, 1, 1, 48129, (u64)0, none, none);
    R(cuFuncSetAttribute, shared, 8, 100000);
    R(cuLaunchKernel, shared, 1, 1, 1, 1, 1, 1, 100000, (u64)0, none, none);
    R(cuLaunchKernel, shared, 1, 1, 1, 1, 1, 1, 100001, (u64)0, none, none);
    R(cuLaunchKernel, bounded, 1, 1, 1, 128, 1, 1, 0, (u64)0, none, none);
    R(cuLaunchKernel, bounded, 1, 1, 1, 64, 2, 1, 0, (u64)0, none, none);
    R(cuLaunchKernel, bounded, 1, 1, 1, 129, 1, 1, 0, (u64)0, none, none);
    R(cuLaunchKernel, function_of("required"), 1, 1, 1, 64, 1, 1, 0, (u64)0, none, none);
    R(cuLaunchKernel, function_of("required"), 1, 1, 1, 32, 1, 1, 0, (u64)0, none, none);
    R(cuLaunchKernel, function_of("required"), 1, 1, 1, 128, 1, 1, 0, (u64)0, none, none);
    R(cuLaunchCooperativeKernel, count_, 1, 1, 1, 32, 1, 1, 0, (u64)0, none);
    R(cuLaunchCooperativeKernel, count_, 100000, 1, 1, 32, 1, 1, 0, (u64)0, none);
    struct {
        unsigned id, pad, value[16];
    } attribute = {0};
    struct {
        unsigned grid[3], block[3], shared;
        u64 stream;
        void *attributes;
        unsigned count;
    } config = {{4, 1, 1}, {32, 1, 1}, 0, 0, &attribute, 1};
    attribute.id = 4, attribute.value[0] = 2, attribute.value[1] = 1, attribute.value[2] = 1;
    R(cuLaunchKernelEx, &config, count_, none, none);
    attribute.value[0] = 3;
    R(cuLaunchKernelEx, &config, count_, none, none);
    config.grid[0] = 32;
    attribute.value[0] = 16;
    R(cuLaunchKernelEx, &config, count_, none, none);
    attribute.id = 2, attribute.value[0] = 1;
    R(cuLaunchKernelEx, &config, count_, none, none);
    attribute.id = 99;
    R(cuLaunchKernelEx, &config, count_, none, none);
    R(cuLaunchKernelEx, (void *)0, count_, none, none);
    R(cuCtxSynchronize);
    R(cuFuncSetBlockShape, add, 256, 1, 1);
    R(cuParamSetv, add, 0, &packed, (int)sizeof packed);
    R(cuParamSetSize, add, 28);
    R(cuLaunchGrid, add, 4, 1);
    R(cuCtxSynchronize);
}

static void host_function(void *data) { ++*(int *)data; }

static void callback(u64 stream, int status, void *data) {
    (void)stream;
    *(int *)data = 100 + status;
}

static void section_stream(void) {
    setup();
    u64 s = 0, t = 0, e = 0, f = 0, plain = 0;
    int value = 9;
    unsigned flags = 9;
    R(cuStreamCreate, &s, 0);
    R(cuStreamCreate, &t, 1);
    R(cuStreamCreate, &plain, 2);
    R(cuStreamCreate, (void *)0, 0);
    R(cuStreamGetFlags, t, &flags);
    V(flags);
    R(cuStreamGetFlags, (u64)0, &flags);
    V(flags);
    R(cuStreamGetPriority, s, &value);
    V(value);
    R(cuStreamCreateWithPriority, &plain, 1, -3);
    R(cuStreamGetPriority, plain, &value);
    V(value);
    R(cuStreamCreateWithPriority, &plain, 1, -100);
    R(cuStreamGetPriority, plain, &value);
    V(value);
    u64 owner = 0;
    R(cuStreamGetCtx, s, &owner);
    V(owner == context);
    R(cuStreamGetCtx, (u64)0, &owner);
    V(owner == context);
    R(cuStreamQuery, s);
    R(cuStreamQuery, (u64)0);
    R(cuEventCreate, &e, 0);
    R(cuEventCreate, &f, 0);
    R(cuEventCreate, &plain, 0x80);
    R(cuEventCreate, &plain, 4);
    R(cuEventCreate, &plain, 2);
    float ms = -1;
    R(cuEventQuery, e);
    R(cuEventSynchronize, e);
    R(cuEventElapsedTime, &ms, e, f);
    R(cuEventElapsedTime, &ms, e, plain);
    R(cuEventQuery, (u64)0);
    R(cuEventRecord, (u64)0, s);

    /* All memory now: allocating may wait for kernels that run. */
    volatile unsigned *flag = pinned(64), *seen = pinned(64);
    unsigned *cell = pinned(64);
    u64 free_stream = 0;
    CALL(cuStreamCreate, &free_stream, 1);
    u64 flag_at = (u64)flag;
    void *params[1] = {&flag_at};
    R(cuEventRecord, e, s);
    V(launch1(wait_, s, params));
    R(cuEventRecord, f, s);
    R(cuStreamQuery, s);
    R(cuStreamQuery, t);
    R(cuStreamQuery, (u64)0);
    R(cuEventQuery, f);
    R(cuEventElapsedTime, &ms, e, f);
    /* Another stream waits for the event; a third does not. */
    unsigned by = 1;
    u64 seen_at = (u64)seen, other_at = (u64)(seen + 1);
    void *bump_seen[2] = {&seen_at, &by}, *bump_other[2] = {&other_at, &by};
    R(cuStreamWaitEvent, t, f, 0);
    R(cuStreamWaitEvent, t, f, 9);
    V(launch1(bump, t, bump_seen));
    V(launch1(bump, free_stream, bump_other));
    R(cuStreamSynchronize, free_stream);
    V(seen[1]);
    V(seen[0]);
    R(cuStreamQuery, t);
    *flag = 1;
    R(cuStreamSynchronize, t);
    V(seen[0]);
    R(cuStreamQuery, s);
    R(cuEventElapsedTime, &ms, e, f);
    V(ms >= 0);
    R(cuEventElapsedTime, (void *)0, e, f);
    R(cuEventRecord, plain, s);
    R(cuEventSynchronize, plain);
    R(cuEventElapsedTime, &ms, e, plain);

    /* The legacy stream and blocking streams wait for each other; non-blocking ones do not. */
    *flag = 0, seen[0] = seen[1] = 0;
    V(launch1(wait_, s, params));
    V(launch1(bump, 0, bump_seen));
    V(launch1(bump, free_stream, bump_other));
    R(cuStreamSynchronize, free_stream);
    V(seen[1]);
    usleep(20000);
    V(seen[0]);
    *flag = 1;
    R(cuStreamSynchronize, (u64)0);
    V(seen[0]);
    *flag = 0, seen[0] = seen[1] = 0;
    V(launch1(wait_, 0, params));
    V(launch1(bump, s, bump_seen));
    V(launch1(bump, 2, bump_other));
    usleep(20000);
    V(seen[0]);
    V(seen[1]);
    *flag = 1;
    R(cuCtxSynchronize);
    V(seen[0]);
    V(seen[1]);

    /* Host functions, in order. */
    int calls = 0, called = 0;
    *flag = 0;
    V(launch1(wait_, s, params));
    R(cuLaunchHostFunc, s, host_function, &calls);
    R(cuStreamAddCallback, s, callback, &called, 0);
    R(cuStreamAddCallback, s, callback, &called, 1);
    R(cuStreamAddCallback, s, (void *)0, &called, 0);
    R(cuLaunchHostFunc, s, (void *)0, &calls);
    V(calls);
    *flag = 1;
    R(cuStreamSynchronize, s);
    V(calls);
    V(called);
    /* Waiting for and writing values. */
    R(cuStreamWaitValue32_v2, s, (u64)cell, 5, 0);
    V(launch1(bump, s, bump_seen));
    R(cuStreamQuery, s);
    R(cuStreamWriteValue32_v2, t, (u64)cell, 6, 0);
    R(cuStreamSynchronize, s);
    V(*cell);
    R(cuStreamWaitValue32_v2, s, (u64)cell + 1, 5, 0);
    /* A destroyed stream still finishes its work. */
    *flag = 0, seen[0] = 0;
    V(launch1(wait_, s, params));
    V(launch1(bump, s, bump_seen));
    R(cuStreamDestroy_v2, s);
    R(cuStreamDestroy_v2, (u64)0);
    *flag = 1;
    R(cuCtxSynchronize);
    V(seen[0]);
    R(cuEventDestroy_v2, e);
    R(cuEventDestroy_v2, (u64)0);
    R(cuStreamGetId, (u64)0, &owner);
    R(cuThreadExchangeStreamCaptureMode, &flags);
}

static void section_capture(void) {
    setup();
    u64 s = 0, t = 0, g = 9, e = 0, exec = 0, p = 0;
    unsigned status = 9;
    CALL(cuStreamCreate, &s, 1);
    CALL(cuStreamCreate, &t, 1);
    CALL(cuEventCreate, &e, 2);
    u64 out = device_memory(16), second = out + 4;
    unsigned by = 1, by10 = 10;
    void *params[2] = {&out, &by}, *params10[2] = {&second, &by10};
    R(cuStreamIsCapturing, s, &status);
    V(status);
    R(cuStreamEndCapture, s, &g);
    R(cuStreamBeginCapture_v2, (u64)0, 0);
    R(cuStreamBeginCapture_v2, s, 7);
    R(cuStreamBeginCapture_v2, s, 0);
    R(cuStreamBeginCapture_v2, s, 0);
    R(cuStreamIsCapturing, s, &status);
    V(status);
    V(launch1(bump, s, params));
    V(launch1(bump, s, params));
    R(cuEventRecord, e, s);
    R(cuStreamWaitEvent, t, e, 0);
    R(cuStreamIsCapturing, t, &status);
    V(status);
    V(launch1(bump, t, params10));
    R(cuEventRecord, e, t);
    V(launch1(bump, s, params));
    R(cuStreamWaitEvent, s, e, 0);
    R(cuMemsetD32Async, out + 8, 77, (size_t)1, s);
    R(cuStreamEndCapture, s, &g);
    V(word(out));
    size_t n = 0, edges = 0;
    R(cuGraphGetNodes, g, (void *)0, &n);
    V(n);
    R(cuGraphGetEdges, g, (void *)0, (void *)0, &edges);
    V(edges);
    R(cuGraphGetRootNodes, g, (void *)0, &n);
    V(n);
    R(cuGraphInstantiateWithFlags, &exec, g, (u64)0);
    R(cuGraphLaunch, exec, s);
    R(cuGraphLaunch, exec, s);
    R(cuStreamSynchronize, s);
    V(word(out));
    V(word(second));
    V(word(out + 8));
    R(cuGraphExecDestroy, exec);
    R(cuGraphDestroy, g);

    /* What spoils a capture. */
    R(cuStreamBeginCapture_v2, s, 0);
    R(cuStreamSynchronize, s);
    V(launch1(bump, s, params));
    R(cuStreamIsCapturing, s, &status);
    V(status);
    R(cuStreamEndCapture, s, &g);
    V(g == 0);
    R(cuStreamBeginCapture_v2, s, 0);
    R(cuStreamQuery, s);
    R(cuStreamEndCapture, s, &g);
    R(cuStreamBeginCapture_v2, s, 0);
    R(cuMemAlloc_v2, &p, (size_t)64);
    R(cuStreamEndCapture, s, &g);
    R(cuStreamBeginCapture_v2, s, 2);
    R(cuMemAlloc_v2, &p, (size_t)64);
    R(cuStreamEndCapture, s, &g);
    R(cuGraphDestroy, g);
    R(cuStreamBeginCapture_v2, s, 1);
    R(cuCtxSynchronize);
    R(cuStreamEndCapture, s, &g);
    R(cuStreamBeginCapture_v2, s, 0);
    R(cuEventRecord, e, s);
    R(cuEventQuery, e);
    R(cuEventSynchronize, e);
    R(cuStreamEndCapture, s, &g);
    /* Unjoined work. */
    R(cuStreamBeginCapture_v2, s, 0);
    V(launch1(bump, s, params));
    R(cuEventRecord, e, s);
    R(cuStreamWaitEvent, t, e, 0);
    V(launch1(bump, t, params));
    R(cuStreamEndCapture, t, &g);
    R(cuStreamEndCapture, s, &g);
    R(cuStreamIsCapturing, t, &status);
    V(status);
    R(cuStreamBeginCapture_v2, s, 0);
    V(launch1(bump, s, params));
    R(cuEventRecord, e, s);
    R(cuStreamWaitEvent, t, e, 0);
    V(launch1(bump, t, params));
    R(cuStreamEndCapture, s, &g);
    R(cuStreamIsCapturing, t, &status);
    V(status);
    /* An event from outside. */
    u64 outside = 0;
    CALL(cuEventCreate, &outside, 2);
    CALL(cuEventRecord, outside, t);
    CALL(cuCtxSynchronize);
    R(cuStreamBeginCapture_v2, s, 0);
    R(cuStreamWaitEvent, s, outside, 0);
    R(cuStreamEndCapture, s, &g);
    /* The legacy stream beside a capturing blocking stream. */
    u64 blocking = 0;
    CALL(cuStreamCreate, &blocking, 0);
    R(cuStreamBeginCapture_v2, blocking, 2);
    V(launch1(bump, 0, params));
    R(cuStreamEndCapture, blocking, &g);
    R(cuStreamBeginCapture_v2, blocking, 2);
    R(cuStreamIsCapturing, (u64)0, &status);
    R(cuStreamEndCapture, blocking, &g);
    int calls = 0;
    R(cuStreamBeginCapture_v2, s, 0);
    R(cuLaunchHostFunc, s, host_function, &calls);
    u64 id = 0, graph = 0;
    R(cuStreamGetCaptureInfo_v2, s, &status, &id, &graph, (void *)0, &n);
    V(status);
    V(n);
    R(cuStreamEndCapture, s, &g);
    V(g == graph);
    R(cuGraphInstantiateWithFlags, &exec, g, (u64)0);
    V(calls);
    R(cuGraphLaunch, exec, s);
    R(cuStreamSynchronize, s);
    V(calls);
    R(cuCtxSynchronize);
}

static void section_graph(void) {
    setup();
    u64 s = 0, g = 0, exec = 0, a = 0, b = 0, c = 0, d = 0, h = 0, clone = 0, found = 0;
    CALL(cuStreamCreate, &s, 1);
    u64 out = device_memory(16), copy_to = device_memory(16);
    unsigned by = 2;
    void *params[2] = {&out, &by};
    struct {
        u64 f;
        unsigned grid[3], block[3], shared;
        void **params, **extra;
        u64 kernel, context;
    } k = {bump, {1, 1, 1}, {1, 1, 1}, 0, params, 0, 0, 0}, got;
    R(cuGraphCreate, &g, 0);
    R(cuGraphCreate, &d, 1);
    R(cuGraphAddKernelNode_v2, &a, g, (void *)0, (size_t)0, &k);
    R(cuGraphAddKernelNode_v2, &b, g, &a, (size_t)1, &k);
    u64 twice[2] = {a, a};
    R(cuGraphAddEmptyNode, &c, g, twice, (size_t)2);
    struct {
        u64 dst;
        size_t pitch;
        unsigned value, size;
        size_t width, height;
    } m = {out + 8, 0, 5, 4, 1, 1}, gotm;
    R(cuGraphAddMemsetNode, &c, g, (void *)0, (size_t)0, &m, context);
    struct {
        size_t sx, sy, sz, sl;
        unsigned st;
        const void *sh;
        u64 sd, sa, r0;
        size_t sp, shh, dx, dy, dz, dl;
        unsigned dt;
        void *dh;
        u64 dd, da, r1;
        size_t dp, dhh, w, h, d;
    } y;
    memset(&y, 0, sizeof y);
    y.st = 2, y.sd = out, y.dt = 2, y.dd = copy_to, y.w = 16, y.h = 1, y.d = 1;
    u64 after[2] = {b, c};
    R(cuGraphAddMemcpyNode, &d, g, after, (size_t)2, &y, context);
    int calls = 0;
    struct {
        void (*f)(void *);
        void *data;
    } hp = {host_function, &calls};
    R(cuGraphAddHostNode, &h, g, &d, (size_t)1, &hp);
    int type = 9;
    R(cuGraphNodeGetType, a, &type);
    V(type);
    R(cuGraphNodeGetType, d, &type);
    V(type);
    R(cuGraphNodeGetType, h, &type);
    V(type);
    size_t n = 0;
    u64 list[8] = {1, 1, 1, 1, 1, 1, 1, 1}, to[8];
    R(cuGraphGetNodes, g, (void *)0, &n);
    V(n);
    n = 8;
    R(cuGraphGetNodes, g, list, &n);
    V(n);
    V(list[7]);
    n = 2;
    R(cuGraphGetNodes, g, list, &n);
    V(n);
    n = 8;
    R(cuGraphGetEdges, g, list, to, &n);
    V(n);
    n = 8;
    R(cuGraphNodeGetDependencies, d, list, &n);
    V(n);
    n = 8;
    R(cuGraphNodeGetDependentNodes, a, list, &n);
    V(n);
    V(list[0] == b);
    R(cuGraphKernelNodeGetParams_v2, a, &got);
    V(got.f == bump || got.kernel != 0);
    V(*(unsigned *)got.params[1]);
    R(cuGraphKernelNodeGetParams_v2, d, &got);
    R(cuGraphMemsetNodeGetParams, c, &gotm);
    V(gotm.value);
    R(cuGraphInstantiateWithFlags, &exec, g, (u64)0);
    R(cuGraphLaunch, exec, s);
    R(cuStreamSynchronize, s);
    V(word(copy_to));
    V(word(copy_to + 8));
    V(calls);
    /* Changing the executable, not the graph. */
    by = 100;
    R(cuGraphExecKernelNodeSetParams_v2, exec, b, &k);
    R(cuGraphExecKernelNodeSetParams_v2, exec, d, &k);
    R(cuGraphLaunch, exec, s);
    R(cuStreamSynchronize, s);
    V(word(copy_to));
    R(cuGraphNodeSetEnabled, exec, b, 0);
    R(cuGraphLaunch, exec, s);
    R(cuStreamSynchronize, s);
    V(word(copy_to));
    R(cuGraphClone, &clone, g);
    R(cuGraphNodeFindInClone, &found, a, clone);
    V(found != a && found != 0);
    R(cuGraphNodeFindInClone, &found, a, g);
    R(cuGraphDestroyNode, h);
    R(cuGraphGetNodes, g, (void *)0, &n);
    V(n);
    int result = 9;
    u64 where = 0;
    R(cuGraphExecUpdate, exec, g, &where, &result);
    V(result);
    R(cuGraphExecUpdate, exec, clone, &where, &result);
    V(result);
    /* Edges by hand, and a cycle. */
    R(cuGraphAddDependencies, g, &c, &a, (size_t)1);
    R(cuGraphAddDependencies, g, &c, &a, (size_t)1);
    R(cuGraphRemoveDependencies, g, &c, &a, (size_t)1);
    R(cuGraphRemoveDependencies, g, &c, &a, (size_t)1);
    /* A child graph. */
    u64 parent = 0, child = 0;
    CALL(cuMemsetD8_v2, out, 0, (size_t)16);
    by = 1;
    CALL(cuGraphCreate, &parent, 0);
    R(cuGraphAddChildGraphNode, &child, parent, (void *)0, (size_t)0, g);
    R(cuGraphAddKernelNode_v2, &found, parent, &child, (size_t)1, &k);
    R(cuGraphNodeGetType, child, &type);
    V(type);
    u64 inner = 0;
    R(cuGraphChildGraphNodeGetGraph, child, &inner);
    V(inner != g);
    u64 parent_exec = 0;
    R(cuGraphInstantiateWithFlags, &parent_exec, parent, (u64)0);
    R(cuGraphLaunch, parent_exec, (u64)0);
    R(cuCtxSynchronize);
    V(word(out));
    V(word(copy_to));
    R(cuGraphDestroy, parent);
    R(cuGraphExecDestroy, parent_exec);
    /* Branches and an event. */
    u64 e = 0, wide = 0, root = 0, n1 = 0, n2 = 0, rec = 0;
    CALL(cuEventCreate, &e, 0);
    CALL(cuMemsetD8_v2, out, 0, (size_t)16);
    CALL(cuCtxSynchronize);
    CALL(cuGraphCreate, &wide, 0);
    R(cuGraphAddEmptyNode, &root, wide, (void *)0, (size_t)0);
    R(cuGraphAddKernelNode_v2, &n1, wide, &root, (size_t)1, &k);
    u64 second = out + 4;
    params[0] = &second;
    R(cuGraphAddKernelNode_v2, &n2, wide, &root, (size_t)1, &k);
    u64 both[2] = {n1, n2};
    R(cuGraphAddEventRecordNode, &rec, wide, both, (size_t)2, e);
    R(cuGraphInstantiateWithFlags, &exec, wide, (u64)0);
    R(cuGraphLaunch, exec, s);
    R(cuEventSynchronize, e);
    V(word(out));
    V(word(out + 4));
    R(cuGraphDestroy, wide);
    R(cuCtxSynchronize);
}

/* A fault is sticky in its context, and only there. */
static void faulty(const char *name, u64 at) {
    setup();
    u64 p = 0;
    void *params[1] = {&at};
    printf("%s\n", name);
    V(launch1(function_of(name), 0, params));
    R(cuCtxSynchronize);
    R(cuCtxSynchronize);
    R(cuMemAlloc_v2, &p, (size_t)64);
    R(cuStreamQuery, (u64)0);
    V(launch1(count_, 0, 0));
    R(cuMemFree_v2, (u64)0);
    u64 c = 0;
    int device = 0;
    R(cuCtxGetCurrent, &c);
    R(cuCtxGetDevice, &device);
    R(cuDeviceGetCount, &device);
    R(cuCtxDestroy_v2, context);
    }

static void section_fault_null(void) { faulty("fault", 0); }
static void section_fault_wild(void) { faulty("fault", 0x123456789000); }
static void section_fault_misaligned(void) {
    setup();
    u64 p = device_memory(64);
    faulty("misaligned", p);
}
static void section_fault_trap(void) { faulty("trapped", 0); }

static const char *talk =
    ".version 7.0\n.target sm_70\n.address_size 64\n"
    ".extern .func (.param .b32 result) vprintf (.param .b64 format, .param .b64 arguments);\n"
    /* "device %d\n" */
    ".global .align 1 .b8 text[11] = {100, 101, 118, 105, 99, 101, 32, 37, 100, 10, 0};\n"
    ".visible .entry say(.param .u32 n) {\n"
    "  .local .align 8 .b8 room[8]; .reg .b32 %r<3>; .reg .b64 %d<4>;\n"
    "  ld.param.u32 %r1, [n]; mov.u64 %d1, room; cvta.local.u64 %d2, %d1; st.local.u32 [room], %r1;\n"
    "  mov.u64 %d3, text; cvta.global.u64 %d3, %d3;\n"
    "  { .param .b64 p0; .param .b64 p1; .param .b32 back; st.param.b64 [p0], %d3; st.param.b64 [p1], %d2;\n"
    "    call.uni (back), vprintf, (p0, p1); ld.param.b32 %r2, [back]; }\n"
    "  ret;\n}\n";

/* What kernels print comes out when the host synchronises, between its own lines. */
static void section_printf(void) {
    setup();
    u64 m = 0, say = 0, s = 0;
    R(cuModuleLoadData, &m, talk);
    R(cuModuleGetFunction, &say, m, "say");
    CALL(cuStreamCreate, &s, 0);
    int n = 1;
    void *params[1] = {&n};
    V(launch1(say, s, params));
    R(cuStreamSynchronize, s);
    n = 2;
    V(launch1(say, s, params));
    R(cuCtxSynchronize);
    n = 3;
    V(launch1(say, 0, params));
    u64 p = device_memory(4);
    n = 4;
    V(launch1(say, 0, params));
    V(word(p));
    u64 e = 0;
    CALL(cuEventCreate, &e, 0);
    n = 5;
    V(launch1(say, 0, params));
    CALL(cuEventRecord, e, (u64)0);
    R(cuEventSynchronize, e);
    n = 6;
    CALL(cuLaunchKernel, say, 2, 1, 1, 2, 1, 1, 0, (u64)0, params, (void *)0);
    R(cuModuleUnload, m);
}

static int destroyed;
static void destroy_object(void *data) { destroyed += *(int *)data; }

static void *other_thread(void *data) {
    u64 p = 0, c = 9;
    R(cuMemAlloc_v2, &p, (size_t)16);
    R(cuCtxGetCurrent, &c);
    V(c);
    R(cuCtxSetCurrent, context);
    R(cuMemAlloc_v2, &p, (size_t)16);
    *(u64 *)data = p;
    return 0;
}

static void section_more(void) {
    setup();
    u64 p = device_memory(4096), q = device_memory(4096), s = 0, e = 0, never = 0, x = 0, y = 0;
    int a = 9;
    unsigned words[16] = {0};
    CALL(cuStreamCreate, &s, 0);
    CALL(cuEventCreate, &e, 0);
    CALL(cuEventCreate, &never, 0);
    /* Addresses and directions. */
    unsigned char *pin = pinned(4096);
    R(cuMemcpyDtoD_v2, p, (u64)pin, (size_t)64);
    R(cuMemcpyHtoD_v2, p, (void *)q, (size_t)64);
    R(cuMemcpyDtoH_v2, (void *)q, p, (size_t)64);
    R(cuMemcpyDtoH_v2, pin, (u64)pin, (size_t)64);
    R(cuMemsetD8_v2, (u64)pin, 7, (size_t)64);
    V(pin[63]);
    R(cuMemsetD8Async, (u64)pin, 8, (size_t)64, s);
    R(cuStreamSynchronize, s);
    V(pin[63]);
    R(cuMemsetD8_v2, (u64)&p, 7, (size_t)4);
    R(cuMemcpyDtoHAsync_v2, pin, p, (size_t)4097, s);
    R(cuStreamAttachMemAsync, s, p, (size_t)0, 1);
    R(cuStreamWaitEvent, s, never, 0);
    R(cuEventRecordWithFlags, e, s, 1);
    R(cuEventRecordWithFlags, e, s, 8);
    R(cuStreamGetAttribute, s, 3, words);
    V(words[0]);
    words[0] = 3;
    R(cuStreamSetAttribute, s, 3, words);
    R(cuStreamGetAttribute, s, 3, words);
    V(words[0]);
    R(cuStreamGetAttribute, s, 8, words);
    V((int)words[0]);
    R(cuStreamGetAttribute, s, 200, words);
    R(cuDeviceCanAccessPeer, &a, 0, 0);
    R(cuDeviceCanAccessPeer, &a, 0, 9);
    R(cuDeviceGetP2PAttribute, &a, 1, 0, 0);
    R(cuCtxEnablePeerAccess, context, 0);
    R(cuCtxDisablePeerAccess, context);
    R(cuProfilerStart);
    R(cuProfilerStop);
    R(cuFuncIsLoaded, &a, add);
    V(a);
    R(cuFuncLoad, add);
    R(cuCtxResetPersistingL2Cache);
    const char id[16] = "no such table";
    void *table = 0;
    V(CALL(cuGetExportTable, &table, id) != 0);
    /* Two contexts. */
    u64 second = 0, s2 = 0, e2 = 0;
    R(cuCtxCreate_v2, &second, 0, 0);
    CALL(cuStreamCreate, &s2, 0);
    CALL(cuEventCreate, &e2, 0);
    V(launch1(count_, s2, 0));
    V(launch1(count_, s, 0));
    V(launch1(count_, 0, 0));
    R(cuEventRecord, e, s2);
    R(cuEventRecord, e2, s2);
    R(cuStreamWaitEvent, s, e2, 0);
    R(cuStreamSynchronize, s);
    R(cuMemcpyDtoD_v2, p, q, (size_t)64);
    R(cuMemFree_v2, q);
    R(cuPointerGetAttribute, &x, 1, p);
    V(x == context);
    R(cuCtxDestroy_v2, second);
    R(cuCtxGetCurrent, &x);
    V(x == context);
    R(cuEventDestroy_v2, e);
    R(cuCtxRecordEvent, context, never);
    R(cuEventSynchronize, never);
    R(cuCtxWaitEvent, context, never);
    /* Linking. */
    u64 link = 0, m = 0, f = 0;
    void *image = 0;
    size_t size = 0;
    R(cuLinkCreate_v2, 0, (void *)0, (void *)0, &link);
    R(cuLinkAddData_v2, link, 1, ptx, strlen(ptx) + 1, "one", 0, (void *)0, (void *)0);
    R(cuLinkAddData_v2, link, 1, "rubbish", (size_t)8, "two", 0, (void *)0, (void *)0);
    R(cuLinkAddFile_v2, link, 1, "/no/such/file", 0, (void *)0, (void *)0);
    R(cuLinkDestroy, link);
    R(cuLinkCreate_v2, 0, (void *)0, (void *)0, &link);
    R(cuLinkAddData_v2, link, 1, ptx, strlen(ptx) + 1, "one", 0, (void *)0, (void *)0);
    R(cuLinkComplete, link, &image, &size);
    V(size > 0 && image != 0);
    R(cuModuleLoadData, &m, image);
    R(cuLinkDestroy, link);
    R(cuModuleGetFunction, &f, m, "count");
    V(launch1(f, 0, 0));
    R(cuCtxSynchronize);
    /* User objects. */
    u64 object = 0, g = 0, n1 = 0, n2 = 0, exec = 0;
    int one = 1;
    R(cuUserObjectCreate, &object, &one, destroy_object, 1, 1);
    R(cuUserObjectCreate, &x, &one, destroy_object, 1, 0);
    R(cuUserObjectCreate, &x, &one, destroy_object, 0, 1);
    CALL(cuGraphCreate, &g, 0);
    R(cuGraphRetainUserObject, g, object, 1, 1);
    V(destroyed);
    R(cuGraphDestroy, g);
    usleep(100000);
    V(destroyed);
    /* Pools. */
    u64 pool = 0, now = 0;
    unsigned properties[22] = {1, 0, 1, 0};
    R(cuMemPoolCreate, &pool, properties);
    unsigned long long threshold = 12345;
    R(cuMemPoolSetAttribute, pool, 4, &threshold);
    threshold = 0;
    R(cuMemPoolGetAttribute, pool, 4, &threshold);
    V(threshold);
    R(cuMemPoolGetAttribute, pool, 1, &a);
    V(a);
    R(cuMemPoolGetAttribute, pool, 77, &a);
    R(cuMemAllocFromPoolAsync, &x, (size_t)1000, pool, s);
    R(cuMemsetD8Async, x, 1, (size_t)1000, s);
    R(cuMemFreeAsync, x, s);
    R(cuStreamSynchronize, s);
    R(cuMemFreeAsync, p, s);
    R(cuStreamSynchronize, s);
    R(cuMemPoolTrimTo, pool, (size_t)0);
    R(cuDeviceGetMemPool, &now, 0);
    V(now != pool);
    R(cuDeviceSetMemPool, 0, pool);
    R(cuDeviceGetMemPool, &now, 0);
    V(now == pool);
    R(cuMemPoolDestroy, pool);
    R(cuDeviceGetMemPool, &now, 0);
    V(now != pool);
    /* Graphs, by the general calls. */
    p = device_memory(64);
    unsigned by = 4;
    void *params[2] = {&p, &by};
    struct {
        int type, reserved[3];
        u64 words[30];
    } node;
    struct {
        u64 f;
        unsigned grid[3], block[3], shared;
        void **params, **extra;
        u64 kernel, context;
    } k = {bump, {1, 1, 1}, {1, 1, 1}, 0, params, 0, 0, 0};
    memset(&node, 0, sizeof node);
    memcpy(node.words, &k, sizeof k);
    CALL(cuGraphCreate, &g, 0);
    R(cuGraphAddNode_v2, &n1, g, (void *)0, (void *)0, (size_t)0, &node);
    R(cuGraphAddNode_v2, &n2, g, &n1, (void *)0, (size_t)1, &node);
    node.type = 40;
    R(cuGraphAddNode_v2, &x, g, &n1, (void *)0, (size_t)1, &node);
    R(cuGraphKernelNodeGetAttribute, n1, 2, words);
    V(words[0]);
    R(cuGraphKernelNodeGetAttribute, n1, 99, words);
    struct {
        u64 flags, stream, node;
        int result;
    } how = {0, 0, 9, 9};
    R(cuGraphInstantiateWithParams, &exec, g, &how);
    V(how.node);
    V(how.result);
    R(cuGraphUpload, exec, s);
    R(cuGraphLaunch, exec, s);
    R(cuStreamSynchronize, s);
    V(word(p));
    R(cuGraphDebugDotPrint, g, "/dev/null", 0);
    R(cuGraphExecGetFlags, exec, &x);
    V(x);
    R(cuGraphInstantiateWithFlags, &y, g, (u64)0x100);
    /* A cycle shows at instantiation at the latest. */
    CALL(cuGraphAddDependencies, g, &n2, &n1, (size_t)1);
    V(CALL(cuGraphInstantiateWithFlags, &y, g, (u64)0) != 0);
    /* Capture into a graph that exists, and a graph launched into a capture. */
    u64 whole = 0;
    u64 free_stream = 0;
    CALL(cuStreamCreate, &free_stream, 1);
    CALL(cuGraphCreate, &whole, 0);
    R(cuStreamBeginCaptureToGraph, free_stream, whole, (void *)0, (void *)0, (size_t)0, 0);
    V(launch1(bump, free_stream, params));
    R(cuGraphLaunch, exec, free_stream);
    R(cuStreamEndCapture, free_stream, &x);
    V(x == whole);
    size = 0;
    R(cuGraphGetNodes, whole, (void *)0, &size);
    V(size);
    R(cuGraphInstantiateWithFlags, &exec, whole, (u64)0);
    CALL(cuMemsetD8_v2, p, 0, (size_t)64);
    R(cuGraphLaunch, exec, (u64)0);
    V(word(p));
    /* Managed memory's ranges. */
    u64 managed = 0;
    CALL(cuMemAllocManaged, &managed, (size_t)65536, 1);
    R(cuMemRangeGetAttribute, &a, (size_t)4, 1, managed, (size_t)65536);
    V(a);
    R(cuMemRangeGetAttribute, &a, (size_t)4, 2, managed, (size_t)65536);
    V(a);
    R(cuMemRangeGetAttribute, &a, (size_t)4, 77, managed, (size_t)65536);
    R(cuMemRangeGetAttribute, &a, (size_t)3, 1, managed, (size_t)65536);
    R(cuMemRangeGetAttribute, &a, (size_t)4, 1, p, (size_t)64);
    /* A thread that has no context. */
    pthread_t thread;
    u64 from_thread = 0;
    pthread_create(&thread, 0, other_thread, &from_thread);
    pthread_join(thread, 0);
    R(cuMemFree_v2, from_thread);
}

static int refused_inside;
static void calls_inside(void *data) {
    u64 p = 0;
    (void)data;
    refused_inside = CALL(cuMemAlloc_v2, &p, (size_t)16);
}

/* Memory and memory operations as nodes of graphs. */
static void section_graph_memory(void) {
    setup();
    u64 s = 0, g = 0, exec = 0, p = 0, freed = 0;
    CALL(cuStreamCreate, &s, 1);
    u64 out = device_memory(64);
    size_t count = 0;
    int type = 0;
    R(cuStreamBeginCapture_v2, s, 0);
    R(cuMemAllocAsync, &p, (size_t)1000, s);
    V(p != 0);
    R(cuMemsetD32Async, p, 9, (size_t)10, s);
    R(cuMemcpyDtoDAsync_v2, out, p, (size_t)40, s);
    R(cuMemFreeAsync, p, s);
    R(cuStreamEndCapture, s, &g);
    R(cuGraphGetNodes, g, (void *)0, &count);
    V(count);
    u64 nodes[4];
    R(cuGraphGetNodes, g, nodes, &count);
    R(cuGraphNodeGetType, nodes[0], &type);
    V(type);
    R(cuGraphNodeGetType, nodes[3], &type);
    V(type);
    R(cuGraphMemFreeNodeGetParams, nodes[3], &freed);
    V(freed == p);
    R(cuGraphInstantiateWithFlags, &exec, g, (u64)0);
    R(cuGraphLaunch, exec, s);
    R(cuGraphLaunch, exec, s);
    R(cuStreamSynchronize, s);
    V(word(out + 36));
    struct {
        unsigned kind, handles, location, id;
        u64 rest[9];
        void *access;
        size_t access_count, size;
        u64 address;
    } a;
    memset(&a, 0, sizeof a);
    a.kind = 1, a.location = 1, a.size = 4096;
    u64 h = 0, made = 0, fill = 0, end = 0;
    CALL(cuGraphCreate, &h, 0);
    R(cuGraphAddMemAllocNode, &made, h, (void *)0, (size_t)0, &a);
    V(a.address != 0);
    R(cuGraphMemAllocNodeGetParams, made, &a);
    V(a.size);
    R(cuGraphAddMemFreeNode, &end, h, &made, (size_t)1, out);
    R(cuGraphAddMemFreeNode, &end, h, &made, (size_t)1, a.address);
    R(cuGraphInstantiateWithFlags, &exec, h, (u64)0);
    R(cuGraphLaunch, exec, s);
    R(cuStreamSynchronize, s);
    R(cuGraphExecDestroy, exec);
    R(cuGraphDestroy, h);
    R(cuDeviceGraphMemTrim, 0);
    /* Writing a value from a graph. */
    struct {
        unsigned operation;
        u64 address, value;
        unsigned flags;
        u64 alias, pad;
    } write = {2, out, 77, 0, 0, 0};
    struct {
        u64 context;
        unsigned count;
        void *operations;
        unsigned flags;
    } b = {context, 1, &write, 0};
    CALL(cuGraphCreate, &h, 0);
    R(cuGraphAddBatchMemOpNode, &fill, h, (void *)0, (size_t)0, &b);
    R(cuGraphNodeGetType, fill, &type);
    V(type);
    R(cuGraphInstantiateWithFlags, &exec, h, (u64)0);
    R(cuGraphLaunch, exec, s);
    R(cuStreamSynchronize, s);
    V(word(out));
    /* What host functions may not do. */
    R(cuLaunchHostFunc, s, calls_inside, (void *)0);
    R(cuStreamSynchronize, s);
    V(refused_inside);
}

/* Addresses and memory apart from each other. */
static void section_virtual_memory(void) {
    setup();
    enum { MIB2 = 2 << 20 };
    unsigned how[8] = {1, 0, 1, 0}, shared[8] = {1, 1, 1, 0}, wrong[8] = {0, 0, 1, 0};
    size_t granularity = 0;
    u64 at = 0, other = 0, a = 0, b = 0, kept = 0, flags = 0;
    R(cuMemGetAllocationGranularity, &granularity, how, 0);
    V(granularity);
    R(cuMemGetAllocationGranularity, &granularity, wrong, 0);
    R(cuMemAddressReserve, &at, (size_t)(4 * MIB2), (size_t)0, (u64)0, (u64)0);
    V(at % MIB2);
    R(cuMemAddressReserve, &other, (size_t)1000, (size_t)0, (u64)0, (u64)0);
    R(cuMemAddressReserve, &other, (size_t)0, (size_t)0, (u64)0, (u64)0);
    R(cuMemCreate, &a, (size_t)MIB2, how, (u64)0);
    R(cuMemCreate, &b, (size_t)MIB2, shared, (u64)0);
    R(cuMemCreate, &other, (size_t)1000, how, (u64)0);
    R(cuMemCreate, &other, (size_t)MIB2, wrong, (u64)0);
    R(cuMemsetD8_v2, at, 1, (size_t)16);
    R(cuMemMap, at, (size_t)MIB2, (size_t)0, a, (u64)0);
    R(cuMemMap, at, (size_t)MIB2, (size_t)0, b, (u64)0);
    R(cuMemMap, at + MIB2, (size_t)MIB2, (size_t)0, b, (u64)0);
    R(cuMemMap, at + 3 * MIB2 + 4096, (size_t)MIB2, (size_t)0, b, (u64)0);
    struct {
        unsigned location, id, flags;
    } access = {1, 0, 3};
    R(cuMemSetAccess, at, (size_t)(2 * MIB2), &access, (size_t)1);
    R(cuMemSetAccess, at, (size_t)(3 * MIB2), &access, (size_t)1);
    R(cuMemGetAccess, &flags, &access, at);
    V(flags);
    /* Across the border of two mappings. */
    R(cuMemsetD32_v2, at + MIB2 - 16, 7, (size_t)8);
    V(word(at + MIB2 + 12));
    R(cuMemsetD32_v2, at + 2 * MIB2 - 16, 7, (size_t)8);
    unsigned by = 5;
    u64 cell = at + MIB2;
    void *params[2] = {&cell, &by};
    V(launch1(bump, 0, params));
    V(word(cell));
    R(cuMemRetainAllocationHandle, &kept, (void *)at);
    V(kept == a);
    R(cuMemRelease, kept);
    R(cuMemRelease, a);
    int descriptor = -1;
    R(cuMemExportToShareableHandle, &descriptor, b, 1, (u64)0);
    V(descriptor >= 0);
    u64 again = 0;
    R(cuMemImportFromShareableHandle, &again, (void *)(size_t)descriptor, 1);
    R(cuMemMap, at + 2 * MIB2, (size_t)MIB2, (size_t)0, again, (u64)0);
    R(cuMemSetAccess, at + 2 * MIB2, (size_t)MIB2, &access, (size_t)1);
    V(word(at + 2 * MIB2));
    R(cuMemUnmap, at, (size_t)MIB2);
    R(cuMemsetD8_v2, at, 1, (size_t)16);
    R(cuMemUnmap, at, (size_t)MIB2);
    R(cuMemUnmap, at + MIB2, (size_t)(2 * MIB2));
    R(cuMemRelease, b);
    R(cuMemRelease, again);
    R(cuMemAddressFree, at, (size_t)MIB2);
    R(cuMemAddressFree, at, (size_t)(4 * MIB2));
    R(cuCtxSynchronize);
}

/* The rest: less common calls of every subject. */
static void section_rest(void) {
    setup();
    u64 x = 0, y = 0, s = 0, list[16] = {0};
    int a = 9, b = 9;
    unsigned n = 0, words[16] = {0};
    size_t size = 0;
    CALL(cuStreamCreate, &s, 1);
    u64 p = device_memory(65536), q = device_memory(65536);
    unsigned char host[4096];
    for (int i = 0; i < 4096; i++)
        host[i] = i * 5;
    struct {
        size_t sx, sy, sz, sl;
        unsigned st;
        const void *sh;
        u64 sd, sa, sc;
        size_t sp, shh, dx, dy, dz, dl;
        unsigned dt;
        void *dh;
        u64 dd, da, dc;
        size_t dp, dhh, w, h, d;
    } c;
    memset(&c, 0, sizeof c);
    c.st = 1, c.sh = host, c.sp = 32, c.shh = 8, c.dt = 2, c.dd = p, c.dp = 128, c.dhh = 16;
    c.w = 16, c.h = 4, c.d = 3, c.sx = 2, c.sy = 1, c.sz = 1, c.dx = 4, c.dy = 2, c.dz = 1;
    R(cuMemcpy3D_v2, &c);
    unsigned char back[16];
    R(cuMemcpyDtoH_v2, back, p + 4 + 128 * (2 + 3) + 128 * 16 * (1 + 2), (size_t)16);
    V(memcmp(back, host + 2 + 32 * (1 + 3) + 32 * 8 * (1 + 2), 16));
    c.dz = 100;
    R(cuMemcpy3D_v2, &c);
    c.dz = 1, c.w = 0;
    R(cuMemcpy3D_v2, &c);
    c.w = 16, c.dp = 8;
    R(cuMemcpy3D_v2, &c);
    c.dp = 128;
    R(cuMemcpy3DAsync_v2, &c, s);
    R(cuMemcpy3D_v2, (void *)0);
    R(cuMemcpyPeer, q, context, p, context, (size_t)1024);
    R(cuMemcpyPeerAsync, q, context, p, context, (size_t)1024, s);
    R(cuMemcpyPeer, q, context, p, (u64)0, (size_t)1024);
    R(cuMemsetD2D16_v2, p, (size_t)64, 0x1234, (size_t)3, (size_t)2);
    V(word(p + 64));
    R(cuMemsetD2D16_v2, p, (size_t)63, 0x1234, (size_t)3, (size_t)2);
    R(cuMemsetD2D32Async, p, (size_t)64, 5, (size_t)3, (size_t)2, s);
    R(cuMemsetD16Async, p, 5, (size_t)3, s);
    R(cuStreamSynchronize, s);
    V(word(p));
    /* Libraries and kernels. */
    u64 l = 0, k = 0, f = 0, m = 0;
    CALL(cuLibraryLoadData, &l, ptx, (void *)0, (void *)0, 0, (void *)0, (void *)0, 0);
    R(cuLibraryEnumerateKernels, list, 16, l);
    V(list[0] != 0);
    R(cuLibraryEnumerateKernels, list, 0, l);
    R(cuLibraryGetKernel, &k, l, "shared");
    R(cuKernelGetLibrary, &x, k);
    V(x == l);
    R(cuLibraryGetModule, &m, l);
    R(cuModuleGetFunctionCount, &n, m);
    V(n);
    R(cuModuleEnumerateFunctions, list, 4, m);
    V(list[3] != 0);
    R(cuKernelGetAttribute, &a, 1, k, 0);
    V(a);
    R(cuKernelGetAttribute, &a, 8, k, 0);
    V(a);
    R(cuKernelSetAttribute, 8, 100000, k, 0);
    R(cuKernelGetAttribute, &a, 8, k, 0);
    V(a);
    R(cuKernelSetAttribute, 8, 100000, k, 7);
    R(cuKernelSetAttribute, 1, 10, k, 0);
    R(cuKernelGetFunction, &f, k);
    R(cuFuncGetAttribute, &a, 8, f);
    V(a);
    R(cuLaunchKernel, k, 1, 1, 1, 1, 1, 1, 90000, (u64)0, (void *)0, (void *)0);
    R(cuKernelSetCacheConfig, k, 1, 0);
    R(cuKernelSetCacheConfig, k, 9, 0);
    R(cuFuncSetCacheConfig, f, 9);
    R(cuFuncGetModule, &x, f);
    V(x == m);
    R(cuModuleUnload, m);
    R(cuLibraryLoadFromFile, &x, "/no/such/file", (void *)0, (void *)0, 0, (void *)0, (void *)0, 0);
    R(cuLibraryLoadData, &x, (void *)0, (void *)0, (void *)0, 0, (void *)0, (void *)0, 0);
    R(cuCtxSynchronize);
    R(cuLibraryUnload, l);
    /* Clusters. */
    struct {
        unsigned id, pad, value[16];
    } attribute = {4, 0, {2, 1, 1}};
    struct {
        unsigned grid[3], block[3], shared;
        u64 stream;
        void *attributes;
        unsigned count;
    } config = {{8, 1, 1}, {128, 1, 1}, 0, 0, &attribute, 1};
    R(cuOccupancyMaxPotentialClusterSize, &a, add, &config);
    V(a);
    R(cuOccupancyMaxActiveClusters, &a, add, &config);
    V(a > 0);
    R(cuFuncGetAttribute, &a, 10, add);
    V(a);
    R(cuFuncGetAttribute, &a, 11, add);
    V(a);
    R(cuFuncGetAttribute, &a, 14, add);
    V(a);
    R(cuFuncSetAttribute, add, 14, 1);
    R(cuFuncSetAttribute, add, 11, 2);
    R(cuFuncGetAttribute, &a, 15, add);
    V(a);
    R(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags, &a, bump, 64, (size_t)0, 1);
    V(a);
    R(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags, &a, bump, 64, (size_t)0, 5);
    R(cuOccupancyMaxActiveBlocksPerMultiprocessor, &a, bump, 33, (size_t)0);
    V(a);
    R(cuOccupancyMaxActiveBlocksPerMultiprocessor, &a, bump, 96, (size_t)5000);
    V(a);
    R(cuOccupancyMaxActiveBlocksPerMultiprocessor, &a, bump, 128, (size_t)300000);
    V(a);
    R(cuOccupancyMaxPotentialBlockSize, &a, &b, function_of("bounded"), (void *)0, (size_t)0, 0);
    V(b);
    R(cuOccupancyMaxPotentialBlockSize, &a, &b, bump, (void *)0, (size_t)40000, 0);
    V(b);
    /* Registered memory that overlaps. */
    char *own = aligned_alloc(4096, 16384);
    R(cuMemHostRegister_v2, own + 100, (size_t)1000, 0);
    R(cuMemHostRegister_v2, own + 8192, (size_t)4096, 2);
    R(cuMemHostRegister_v2, own + 8192 + 100, (size_t)10, 0);
    R(cuMemHostGetFlags, &n, own + 8192);
    V(n);
    R(cuMemHostUnregister, own + 8192 + 10);
    R(cuMemHostUnregister, own + 8192);
    R(cuMemHostUnregister, own + 100);
    R(cuMemHostRegister_v2, own, (size_t)4096, 0x80);
    /* Graphs. */
    u64 g = 0, h = 0, n1 = 0, n2 = 0, exec = 0;
    unsigned by = 1;
    void *params[2] = {&p, &by};
    struct {
        u64 f;
        unsigned grid[3], block[3], shared;
        void **params, **extra;
        u64 kernel, context;
    } kp = {bump, {1, 1, 1}, {1, 1, 1}, 0, params, 0, 0, 0};
    CALL(cuGraphCreate, &g, 0);
    CALL(cuGraphAddKernelNode_v2, &n1, g, (void *)0, (size_t)0, &kp);
    CALL(cuGraphAddEmptyNode, &n2, g, &n1, (size_t)1);
    CALL(cuGraphInstantiateWithFlags, &exec, g, (u64)0);
    CALL(cuGraphCreate, &h, 0);
    struct {
        int result;
        u64 node, from;
    } update = {9, 9, 9};
    R(cuGraphExecUpdate_v2, exec, h, &update);
    V(update.result);
    CALL(cuGraphAddEmptyNode, &x, h, (void *)0, (size_t)0);
    CALL(cuGraphAddEmptyNode, &y, h, &x, (size_t)1);
    R(cuGraphExecUpdate_v2, exec, h, &update);
    V(update.result);
    CALL(cuGraphClone, &y, g);
    R(cuGraphExecUpdate_v2, exec, y, &update);
    V(update.result);
    V(update.node);
    words[0] = 1;
    R(cuGraphKernelNodeSetAttribute, n1, 2, words);
    words[0] = 0;
    R(cuGraphKernelNodeGetAttribute, n1, 2, words);
    V(words[0]);
    R(cuGraphKernelNodeSetAttribute, n2, 2, words);
    R(cuGraphNodeGetEnabled, exec, n1, &n);
    V(n);
    R(cuGraphNodeSetEnabled, exec, n2, 0);
    kp.grid[0] = 0;
    R(cuGraphAddKernelNode_v2, &x, g, (void *)0, (size_t)0, &kp);
    kp.grid[0] = 1, kp.f = 0;
    R(cuGraphAddKernelNode_v2, &x, g, (void *)0, (size_t)0, &kp);
    R(cuGraphAddHostNode, &x, g, (void *)0, (size_t)0, (void *)0);
    R(cuGraphDestroyNode, n1);
    n = 0, size = 9;
    R(cuGraphNodeGetDependencies, n2, (void *)0, &size);
    V(size);
    R(cuGraphDestroy, g);
    R(cuGraphDestroy, h);
    R(cuGraphLaunch, exec, s);
    R(cuStreamSynchronize, s);
    R(cuGraphExecDestroy, exec);
    /* Capture. */
    u64 nodes[4], *given = 0, whole = 0;
    R(cuStreamBeginCapture_v2, s, 2);
    V(launch1(count_, s, 0));
    R(cuStreamGetCaptureInfo_v2, s, &n, &x, &whole, &given, &size);
    V(size);
    nodes[0] = given[0];
    V(launch1(count_, s, 0));
    R(cuStreamUpdateCaptureDependencies, s, nodes, (size_t)1, 1);
    V(launch1(count_, s, 0));
    R(cuStreamUpdateCaptureDependencies, s, nodes, (size_t)1, 7);
    R(cuStreamUpdateCaptureDependencies, s, nodes, (size_t)1, 0);
    V(launch1(count_, s, 0));
    R(cuStreamEndCapture, s, &g);
    R(cuGraphGetEdges, g, (void *)0, (void *)0, &size);
    V(size);
    R(cuStreamUpdateCaptureDependencies, s, nodes, (size_t)1, 0);
    R(cuStreamBeginCapture_v2, s, 0);
    R(cuMemcpyHtoDAsync_v2, p, host, (size_t)64, s);
    R(cuMemcpyHtoD_v2, p, host, (size_t)64);
    R(cuStreamEndCapture, s, &g);
    R(cuStreamBeginCapture_v2, s, 0);
    R(cuMemFree_v2, q);
    R(cuStreamEndCapture, s, &g);
    R(cuStreamBeginCapture_v2, s, 0);
    R(cuStreamAddCallback, s, callback, &a, 0);
    R(cuStreamEndCapture, s, &g);
    R(cuStreamBeginCapture_v2, s, 0);
    R(cuEventCreate, &x, 0);
    R(cuStreamCreate, &y, 0);
    R(cuModuleGetFunction, &f, module, "add");
    R(cuMemGetInfo_v2, &size, &size);
    R(cuStreamDestroy_v2, y);
    R(cuStreamEndCapture, s, &g);
    unsigned mode = 2;
    R(cuThreadExchangeStreamCaptureMode, &mode);
    V(mode);
    R(cuStreamBeginCapture_v2, s, 0);
    R(cuMemAlloc_v2, &y, (size_t)64);
    R(cuStreamEndCapture, s, &g);
    mode = 9;
    R(cuThreadExchangeStreamCaptureMode, &mode);
}

/* Handles that never were: a real driver may crash on some of these, softgpu must not. */
static void section_garbage(void) {
    setup();
    u64 bad = 0x12345678, p = device_memory(64), s = 0, g = 0, n = 0;
    int type = 0;
    CALL(cuStreamCreate, &s, 0);
    CALL(cuGraphCreate, &g, 0);
    R(cuMemcpyHtoDAsync_v2, p, &bad, (size_t)8, bad);
    R(cuStreamSynchronize, bad);
    R(cuEventQuery, bad);
    R(cuEventRecord, bad, s);
    R(cuGraphLaunch, bad, s);
    R(cuGraphNodeGetType, bad, &type);
    R(cuGraphAddEmptyNode, &n, g, &bad, (size_t)1);
    R(cuCtxSetCurrent, bad);
    R(cuCtxDestroy_v2, bad);
    R(cuModuleGetFunction, &n, bad, "add");
    R(cuLaunchKernel, bad, 1, 1, 1, 1, 1, 1, 0, s, (void *)0, (void *)0);
    R(cuLibraryGetKernel, &n, bad, "add");
    R(cuFuncGetAttribute, &type, 0, bad);
    R(cuStreamDestroy_v2, s);
    R(cuStreamSynchronize, s);
    R(cuStreamDestroy_v2, s);
    R(cuCtxSynchronize);
}

static const struct {
    const char *name;
    void (*run)(void);
} sections[] = {
    {"init", section_init},           {"context", section_context},
    {"memory", section_memory},       {"copy", section_copy},
    {"module", section_module},       {"launch", section_launch},
    {"stream", section_stream},       {"capture", section_capture},
    {"graph", section_graph},         {"fault_null", section_fault_null},
    {"fault_wild", section_fault_wild},
    {"fault_misaligned", section_fault_misaligned},
    {"fault_trap", section_fault_trap},
    {"printf", section_printf},
    {"more", section_more},
    {"graph_memory", section_graph_memory},
    {"virtual_memory", section_virtual_memory},
    {"rest", section_rest},
    {"garbage", section_garbage},
};

int main(int argc, char **argv) {
    if (argc < 3) {
        for (unsigned i = 0; i < sizeof sections / sizeof *sections; i++)
            printf("%s\n", sections[i].name);
        return 2;
    }
    library = dlopen(argv[1], RTLD_NOW);
    if (!library) {
        fprintf(stderr, "%s\n", dlerror());
        return 2;
    }
    setvbuf(stdout, 0, _IOLBF, 0);
    for (unsigned i = 0; i < sizeof sections / sizeof *sections; i++)
        if (!strcmp(argv[2], sections[i].name)) {
            sections[i].run();
            return 0;
        }
    return 2;
}
