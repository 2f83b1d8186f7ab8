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
    if (bad) puts("wrong result");
    return bad;
}
