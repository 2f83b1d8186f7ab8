/* The calls whose ioctls are known from a real driver: what softgpu makes of them is compared. */
#include <dlfcn.h>
#include <stdio.h>

typedef int (*Call)();
static void *library;

static void call(const char *name, void *a, unsigned long b, unsigned long c)
{
    Call function = (Call)dlsym(library, name);
    int result = function ? function(a, b, c) : -1;
    if (result)
        printf("%s: %d\n", name, result);
}

int main(void)
{
    library = dlopen("libcuda.so.1", RTLD_NOW);
    void *context, *device, *host, *managed;
    call("cuInit", 0, 0, 0);
    call("cuDevicePrimaryCtxRetain", &context, 0, 0);
    call("cuCtxSetCurrent", context, 0, 0);
    call("cuMemAlloc_v2", &device, 3 << 20, 0);
    call("cuMemAllocHost_v2", &host, 1 << 20, 0);
    call("cuMemAllocManaged", &managed, 1 << 20, 1);
    call("cuMemFree_v2", device, 0, 0);
    call("cuMemFreeHost", host, 0, 0);
    call("cuMemFree_v2", managed, 0, 0);
    return 0;
}
