// Programs that are kernels of their own: a matrix product with nested loops.
#include "probe.h"

struct matrix {
    __uint(type, GPU_ARRAY);
    __uint(max_entries, 4096);
    __type(key, u32);
    __type(value, u32);
};
struct matrix a SEC(".maps"), b SEC(".maps"), c SEC(".maps");

SEC("kprobe/__directly_run")
int cuda__product(void *ctx) {
    u64 x, y, z;
    thread_idx(&x, &y, &z);
    u32 sum = 0;
    for (u32 k = 0; k < 32; k++) {
        u32 left = y * 32 + k, right = k * 32 + x;
        u32 *p = map_lookup(&a, &left), *q = map_lookup(&b, &right);
        if (p && q) sum += *p * *q;
    }
    u32 key = y * 32 + x;
    u32 *r = map_lookup(&c, &key);
    if (r) *r = sum;
    return 0;
}

SEC("kprobe/__memcapture")
int cuda__access(void *ctx) {
    u32 key = 0;
    u32 *count = map_lookup(&c, &key);
    if (count) *count += 1;
    return 0;
}
