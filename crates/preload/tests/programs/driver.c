// A few functions under the driver's names and signatures, for what is captured of their calls.
#include <string.h>

typedef struct {
    unsigned gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes;
    void *hStream, *attrs;
    unsigned numAttrs;
} Config;

unsigned cuInit(unsigned flags) { return flags == 0 ? 0 : 1; }
unsigned cuMemAlloc_v2(unsigned long *pointer, unsigned long bytes) {
    if (bytes == 0) return 1;
    *pointer = 0x7f0000001000 + bytes;
    return 0;
}
unsigned cuModuleGetFunction(void **function, void *module, const char *name) {
    if (!module) return 400;
    *function = (void *)strlen(name);
    return 0;
}
unsigned cuDeviceGetName(char *name, int length, int device) {
    strncpy(name, "a device", length);
    return device;
}
unsigned cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                        unsigned shared, void *stream, void **params, void **extra) {
    return gx + gy + gz + bx + by + bz + shared == 28 && stream == (void *)0x88 && !extra ? 0 : 1;
}
unsigned cuLaunchKernelEx(const Config *config, void *function, void **params, void **extra) {
    return function ? 0 : 400;
}
unsigned cuCtxSynchronize(void) { return 0; }
