// The program behind `cutrace demo`: three kernels through the CUDA driver API, each result checked.
// It finds libcuda.so.1 as any program does, so it also runs on a real GPU.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

__asm__(".section .rodata\n"
        ".global kernels_ptx\n"
        "kernels_ptx: .incbin \"kernels.ptx\"\n"
        ".byte 0\n"
        ".previous");
extern const char kernels_ptx[];

typedef unsigned long long Pointer;
static void *library;

static void *entry(const char *name) {
    void *found = dlsym(library, name);
    if (!found) {
        fprintf(stderr, "demo: libcuda.so.1 has no %s\n", name);
        exit(1);
    }
    return found;
}

#define CUDA(name, ...) check(#name, ((int (*)())entry(#name))(__VA_ARGS__))
static void check(const char *call, int result) {
    if (result == 0) return;
    const char *text = "unknown error";
    ((int (*)(int, const char **))entry("cuGetErrorString"))(result, &text);
    fprintf(stderr, "demo: %s: %s (%d)\n", call, text, result);
    exit(1);
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec * 1e-9;
}

static Pointer upload(const float *data, size_t count) {
    Pointer at;
    CUDA(cuMemAlloc_v2, &at, count * sizeof *data);
    CUDA(cuMemcpyHtoD_v2, at, data, count * sizeof *data);
    return at;
}

static float *numbers(size_t count) {
    float *data = malloc(count * sizeof *data);
    if (!data) exit(1);
    for (size_t i = 0; i < count; i++) data[i] = (float)(rand() % 1000) / 500.0f - 1.0f;
    return data;
}

static double launch(void *module, const char *name, unsigned gx, unsigned gy, unsigned bx, unsigned by,
                     void **parameters) {
    void *kernel;
    CUDA(cuModuleGetFunction, &kernel, module, name);
    double start = now();
    CUDA(cuLaunchKernel, kernel, gx, gy, 1u, bx, by, 1u, 0u, (void *)0, parameters, (void **)0);
    CUDA(cuCtxSynchronize);
    return (now() - start) * 1e3;
}

static int failures;
static void report(const char *what, double error, double limit, double ms) {
    int right = error <= limit;
    failures += !right;
    printf("  %-44s %8.1f ms   %s\n", what, ms, right ? "results right" : "RESULTS WRONG");
}

int main(void) {
    library = dlopen("libcuda.so.1", RTLD_NOW);
    if (!library) {
        fprintf(stderr, "demo: %s\n", dlerror());
        return 1;
    }
    void *context, *module;
    char name[128];
    CUDA(cuInit, 0u);
    CUDA(cuDeviceGetName, name, (int)sizeof name, 0);
    CUDA(cuDevicePrimaryCtxRetain, &context, 0);
    CUDA(cuCtxSetCurrent, context);
    CUDA(cuModuleLoadData, &module, kernels_ptx);
    printf("device: %s\n", name);

    int n = 1 << 20;
    float *a = numbers(n), *b = numbers(n), *c = malloc(n * sizeof *c);
    if (!c) return 1;
    Pointer da = upload(a, n), db = upload(b, n), dc = upload(a, n);
    double ms = launch(module, "vector_add", n / 256, 1, 256, 1, (void *[]){&da, &db, &dc, &n});
    CUDA(cuMemcpyDtoH_v2, c, dc, n * sizeof *c);
    double error = 0, sum = 0;
    for (int i = 0; i < n; i++) error = fmax(error, fabs(c[i] - (a[i] + b[i])));
    report("vector_add, 1,048,576 elements", error, 0, ms);

    for (int i = 0; i < n; i++) sum += a[i];
    double total = 0;
    Pointer dtotal;
    CUDA(cuMemAlloc_v2, &dtotal, sizeof total);
    CUDA(cuMemsetD8_v2, dtotal, 0, sizeof total);
    ms = launch(module, "reduce", n / 256, 1, 256, 1, (void *[]){&da, &dtotal, &n});
    CUDA(cuMemcpyDtoH_v2, &total, dtotal, sizeof total);
    report("reduce, shuffles and atomics", fabs(total - sum), 1e-6, ms);

    int side = 256;
    ms = launch(module, "matmul", side / 16, side / 16, 16, 16, (void *[]){&da, &db, &dc, &side});
    CUDA(cuMemcpyDtoH_v2, c, dc, (size_t)side * side * sizeof *c);
    error = 0;
    for (int row = 0; row < side; row++)
        for (int column = 0; column < side; column++) {
            double expected = 0;
            for (int k = 0; k < side; k++) expected += (double)a[row * side + k] * b[k * side + column];
            error = fmax(error, fabs(c[row * side + column] - expected));
        }
    report("matmul, 256 x 256 x 256, shared-memory tiles", error, 1e-3, ms);

    CUDA(cuMemFree_v2, da);
    CUDA(cuMemFree_v2, db);
    CUDA(cuMemFree_v2, dc);
    CUDA(cuMemFree_v2, dtotal);
    CUDA(cuModuleUnload, module);
    CUDA(cuDevicePrimaryCtxRelease_v2, 0);
    free(a), free(b), free(c);
    return failures != 0;
}
