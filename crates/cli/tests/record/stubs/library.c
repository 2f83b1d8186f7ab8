// A library with stubs for CUDA's functions, as XLA's plugin and programs built with implib.so have them: each
// looks the real function up when it is first called. How it does so is chosen by a macro:
//   LAZY         local functions of C that keep a pointer each (XLA's older ones)
//   TRAMPOLINES  local functions of assembly that jump through a table (implib.so, XLA's newer ones)
//   EXPORTED     as LAZY, but visible to everybody: a wrapper of the whole driver
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>
#include <stdio.h>

#ifdef EXPORTED
#define VISIBILITY
#else
#define VISIBILITY static
#endif

__attribute__((used)) static void *look_up(const char *name) {
    int is_runtime = name[2] == 'd' && name[3] == 'a';
    const char *library = is_runtime ? "libcudart.so.13" : "libcuda.so.1";
    void *handle = dlopen(library, RTLD_LAZY | RTLD_LOCAL);
    void *found = handle ? dlsym(handle, name) : NULL;
    if (!found) printf("%s is missing\n", name);
    return found;
}

#define FUNCTIONS(DO) \
    DO(cuInit, (unsigned a), (a)) \
    DO(cuDeviceGet, (int *a, int b), (a, b)) \
    DO(cuDevicePrimaryCtxRetain, (void **a, int b), (a, b)) \
    DO(cuCtxSetCurrent, (void *a), (a)) \
    DO(cuMemAlloc_v2, (unsigned long long *a, size_t b), (a, b)) \
    DO(cuMemsetD8Async, (unsigned long long a, unsigned char b, size_t c, void *d), (a, b, c, d)) \
    DO(cuMemcpyDtoH_v2, (void *a, unsigned long long b, size_t c), (a, b, c)) \
    DO(cuStreamSynchronize, (void *a), (a)) \
    DO(cuMemFree_v2, (unsigned long long a), (a)) \
    DO(cudaMalloc, (void **a, size_t b), (a, b)) \
    DO(cudaMemset, (void *a, int b, size_t c), (a, b, c)) \
    DO(cudaDeviceSynchronize, (void), ()) \
    DO(cudaFree, (void *a), (a))

#ifdef TRAMPOLINES
enum {
#define NUMBER(name, parameters, arguments) number_##name,
    FUNCTIONS(NUMBER)
    COUNT
};
static const char *const names[] = {
#define NAME(name, parameters, arguments) #name,
    FUNCTIONS(NAME)
};
__attribute__((used)) static void *table[COUNT];
__attribute__((used)) static void fill(long number) { table[number] = look_up(names[number]); }
#define TRAMPOLINE(name, parameters, arguments) \
    __attribute__((naked, noinline, used)) static int name parameters { \
        __asm__("cmpq $0, table + 8 * %c0(%%rip)\n\t" \
                "jne 1f\n\t" \
                "push %%rdi\n\tpush %%rsi\n\tpush %%rdx\n\tpush %%rcx\n\tsub $8, %%rsp\n\t" \
                "mov $%c0, %%edi\n\tcall fill\n\t" \
                "add $8, %%rsp\n\tpop %%rcx\n\tpop %%rdx\n\tpop %%rsi\n\tpop %%rdi\n\t" \
                "1: jmp *table + 8 * %c0(%%rip)" ::"i"(number_##name)); \
    }
FUNCTIONS(TRAMPOLINE)
#else
#define STUB(name, parameters, arguments) \
    __attribute__((noinline, used)) VISIBILITY int name parameters { \
        static int(*real) parameters; \
        if (!real) real = (int(*) parameters)look_up(#name); \
        return real arguments; \
    }
FUNCTIONS(STUB)
#endif

int work(int rounds) {
    int device;
    void *context, *memory;
    unsigned long long address;
    unsigned char bytes[4096];
    if (cuInit(0) || cuDeviceGet(&device, 0) || cuDevicePrimaryCtxRetain(&context, device) ||
        cuCtxSetCurrent(context) || cuMemAlloc_v2(&address, sizeof bytes))
        return 90;
    for (int i = 0; i < rounds; i++)
        if (cuMemsetD8Async(address, i, sizeof bytes, 0)) return 91;
    if (cuStreamSynchronize(0) || cuMemcpyDtoH_v2(bytes, address, sizeof bytes) || cuMemFree_v2(address))
        return 92;
    if (bytes[7] != (unsigned char)(rounds - 1)) return 93;
    for (int i = 0; i < rounds; i++)
        if (cudaMalloc(&memory, 256) || cudaMemset(memory, i, 256) || cudaFree(memory)) return 94;
    return cudaDeviceSynchronize() ? 95 : 0;
}
