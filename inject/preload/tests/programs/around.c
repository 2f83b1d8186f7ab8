// Calls with payloads of one slot and of four, again and again through a small ring.
#include <stdio.h>

typedef struct {
    unsigned gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes;
    void *hStream, *attrs;
    unsigned numAttrs;
} Config;
unsigned cuLaunchKernel(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **);
unsigned cuLaunchKernelEx(const Config *, void *, void **, void **);
unsigned cuTexRefSetMipmapLevelClamp(void *, float, float);

int main(void) {
    for (unsigned long i = 1; i <= 1000; i++) {
        unsigned n = i;
        cuLaunchKernel((void *)i, n, n, n, n + 1, n + 2, n + 3, n + 4, (void *)(i + 5), (void *)(i + 6), (void *)(i + 7));
        Config config = {n, n + 1, n + 2, n + 3, n + 4, n + 5, n + 6, (void *)(i + 7), 0, 0};
        cuLaunchKernelEx(&config, (void *)i, 0, 0);
        if (cuTexRefSetMipmapLevelClamp((void *)i, 0.5f, 12.25f) != 0) puts("floats were changed");
    }
}
