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
unsigned cuGetErrorString(unsigned error, const char **text) {
    if (error > 1) return 1;
    *text = "no error";
    return 0;
}
unsigned cuMemcpyBatchAsync_v2(unsigned long *to, unsigned long *from, unsigned long *sizes, unsigned long count,
                               void *attributes, unsigned long *places, unsigned long attribute_count, void *stream) {
    return count == 0 ? 1 : 0;
}
unsigned cuPointerGetAttributes(unsigned count, int *attributes, void **data, unsigned long pointer) {
    for (unsigned i = 0; i < count; i++) *(int *)data[i] = attributes[i] + 40;
    return 0;
}
unsigned cuGraphGetNodes(void *graph, void **nodes, unsigned long *count) {
    for (unsigned long i = 0; nodes && i < *count; i++) nodes[i] = (void *)(0x100 + i);
    return 0;
}
unsigned cuTexRefSetMipmapLevelClamp(void *texture, float low, float high) { return low == 0.5f && high == 12.25f ? 0 : 1; }
const char *cudaGetErrorString(unsigned error) { return error ? "an error" : "no error"; }
unsigned cuCtxSynchronize(void) { return 0; }
unsigned cuDevicePrimaryCtxGetState(int device, unsigned *flags, int *active) {
    if (device > 0) return 101;
    if (flags) *flags = 0x11;
    if (active) memcpy(active, &(int){0x22}, sizeof *active);
    return 0;
}
