// Calls whose arguments and results are to be found in the payload, good and bad pointers alike.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

typedef struct {
    unsigned gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes;
    void *hStream, *attrs;
    unsigned numAttrs;
} Config;
unsigned cuInit(unsigned);
unsigned cuMemAlloc_v2(unsigned long *, unsigned long);
unsigned cuModuleGetFunction(void **, void *, const char *);
unsigned cuLaunchKernel(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **);
unsigned cuLaunchKernelEx(const Config *, void *, void **, void **);
unsigned cuDeviceGetName(char *, int, int);
unsigned cuGetErrorString(unsigned, const char **);
unsigned cuMemcpyBatchAsync_v2(unsigned long *, unsigned long *, unsigned long *, unsigned long, void *, unsigned long *,
                               unsigned long, void *);
unsigned cuPointerGetAttributes(unsigned, int *, void **, unsigned long);
unsigned cuGraphGetNodes(void *, void **, unsigned long *);
unsigned cuTexRefSetMipmapLevelClamp(void *, float, float);
const char *cudaGetErrorString(unsigned);
unsigned cuDevicePrimaryCtxGetState(int, unsigned *, int *);

typedef struct {
    unsigned id, pad;
    unsigned value[16];
} Attribute;

// Arrays, texts that come back, floats; `end` is where a page ends and nothing follows.
static int arrays(char *end) {
    int bad = 0;
    bad |= cuDeviceGetName(end - 9, 9, 0) != 0;
    const char *text;
    bad |= cuGetErrorString(0, &text) != 0;
    bad |= cuGetErrorString(5, (const char **)0xdead0000) != 1;
    bad |= strcmp(cudaGetErrorString(1), "an error") != 0;
    bad |= cuTexRefSetMipmapLevelClamp((void *)7, 0.5f, 12.25f) != 0;

    unsigned long sizes[100], nodes[3] = {0}, count = 3;
    for (int i = 0; i < 100; i++) sizes[i] = i;
    bad |= cuMemcpyBatchAsync_v2(sizes, sizes, sizes, 100, 0, 0, 0, 0) != 0;
    memcpy(end - 16, sizes + 5, 16);
    bad |= cuMemcpyBatchAsync_v2(sizes, (unsigned long *)0xdead0000, (unsigned long *)(end - 16), 100, 0, 0, 0, 0) != 0;
    bad |= cuMemcpyBatchAsync_v2(0, 0, 0, 0, 0, 0, 0, 0) != 1;
    bad |= cuGraphGetNodes(0, (void **)nodes, &count) != 0;

    int which[2] = {2, 9}, values[2] = {0};
    void *places[2] = {&values[0], end - 4};
    bad |= cuPointerGetAttributes(2, which, places, 0x7f00) != 0;

    Attribute attributes[6] = {{0}};
    for (int i = 0; i < 6; i++) attributes[i].id = i + 1, attributes[i].value[0] = 10 * i, attributes[i].value[7] = 77;
    Config config = {1, 1, 1, 1, 1, 1, 0, 0, attributes, 6};
    bad |= cuLaunchKernelEx(&config, (void *)1, 0, 0) != 0;
    config.numAttrs = 2;
    bad |= cuLaunchKernelEx(&config, (void *)1, 0, 0) != 0;
    config.attrs = (void *)0xdead0000;
    bad |= cuLaunchKernelEx(&config, 0, 0, 0) != 400;
    return bad;
}

int main(void) {
    unsigned long pointer = 0;
    void *function;
    int bad = 0;
    bad |= cuInit(0) != 0;
    bad |= cuMemAlloc_v2(&pointer, 4096) != 0;
    bad |= cuMemAlloc_v2(&pointer, 0) != 1;
    bad |= cuModuleGetFunction(&function, (void *)1, "_Z9vectorAddPKfS0_Pfi") != 0;
    bad |= cuModuleGetFunction(&function, 0, "missing") != 400;
    bad |= cuLaunchKernel((void *)0x1234, 1, 2, 3, 4, 5, 6, 7, (void *)0x88, &function, 0) != 0;
    Config config = {10, 20, 30, 40, 50, 60, 70, (void *)0x99, 0, 0};
    bad |= cuLaunchKernelEx(&config, (void *)0x1234, 0, 0) != 0;
    // Where the callee fails before it looks: not mapped, none, and a page that ends too soon.
    bad |= cuLaunchKernelEx((Config *)0x10000, 0, 0, 0) != 400;
    bad |= cuLaunchKernelEx(0, 0, 0, 0) != 400;
    bad |= cuModuleGetFunction(&function, 0, (char *)0xdead0000) != 400;
    char *pages = mmap(0, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    munmap(pages + 4096, 4096);
    char *edge = pages + 4096 - 6;
    strcpy(edge, "edges");
    bad |= cuModuleGetFunction(&function, (void *)1, edge) != 0;
    bad |= cuModuleGetFunction(&function, 0, edge) != 400;
    bad |= arrays(pages + 4096);
    // A value that lies across two pages.
    char *two = mmap(0, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    bad |= cuMemAlloc_v2((unsigned long *)(two + 4093), 77) != 0;
    // Two values: both, one, none, one that no compiler would put there, and a failure.
    unsigned flags, active;
    bad |= cuDevicePrimaryCtxGetState(0, &flags, (int *)&active) != 0;
    bad |= cuDevicePrimaryCtxGetState(0, 0, (int *)&active) != 0;
    bad |= cuDevicePrimaryCtxGetState(0, &flags, 0) != 0;
    bad |= cuDevicePrimaryCtxGetState(0, &flags, (int *)(two + 4094)) != 0;
    bad |= cuDevicePrimaryCtxGetState(1, (unsigned *)0xdead0000, (int *)0xdead0000) != 101;
    if (bad) puts("wrong result");
    return bad;
}
