// Programs that are kernels themselves: two vectors are filled and added, two matrices multiplied.
#include "probe.h"

#define VECTOR(name) \
    struct { \
        __uint(type, GPU_ARRAY); \
        __uint(max_entries, 4096); \
        __type(key, u32); \
        __type(value, u32); \
    } name SEC(".maps")

VECTOR(a);
VECTOR(b);
VECTOR(c);
VECTOR(product);

#define LENGTH 1024
#define SIDE 32

SEC("kprobe/__directly_run")
int cuda__fill(void *ctx) {
    u32 i = (u32)thread_number();
    if (i >= LENGTH) return 0;
    u32 twice = 2 * i;
    map_update(&a, &i, &i, ANY);
    map_update(&b, &i, &twice, ANY);
    return 0;
}

SEC("kprobe/__directly_run")
int cuda__vec_add(void *ctx) {
    u32 i = (u32)thread_number();
    if (i >= LENGTH) return 0;
    u32 *x = map_lookup(&a, &i), *y = map_lookup(&b, &i);
    if (!x || !y) return 0;
    u32 sum = *x + *y;
    map_update(&c, &i, &sum, ANY);
    return 0;
}

SEC("kprobe/__directly_run")
int cuda__gemm(void *ctx) {
    u32 i = (u32)thread_number();
    if (i >= SIDE * SIDE) return 0;
    u32 row = i / SIDE, column = i % SIDE, sum = 0;
    for (u32 k = 0; k < SIDE; k++) {
        u32 left = row * SIDE + k, right = k * SIDE + column;
        u32 *x = map_lookup(&a, &left), *y = map_lookup(&b, &right);
        if (x && y) sum += *x * *y;
    }
    map_update(&product, &i, &sum, ANY);
    return 0;
}
