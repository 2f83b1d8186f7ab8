// Maps in memory of the host: counts, numbers and times that it can read while kernels run.
#include "probe.h"

struct {
    __uint(type, PER_THREAD_HOST_ARRAY);
    __uint(max_entries, 10);
    __type(key, u32);
    __type(value, u64);
} timestamps SEC(".maps");

struct {
    __uint(type, GPU_HOST_ARRAY);
    __uint(max_entries, 10);
    __type(key, u32);
    __type(value, u64);
} thread_ids SEC(".maps");

struct {
    __uint(type, PER_THREAD_HOST_ARRAY);
    __uint(max_entries, 1);
    __type(key, u32);
    __type(value, u64);
} call_count SEC(".maps");

SEC("kprobe/_Z9vectorAddPKfS0_Pf")
int cuda__enter(void *ctx) {
    u64 x, y, z;
    u32 zero = 0;
    thread_idx(&x, &y, &z);
    u32 key = (u32)x;
    map_update(&thread_ids, &key, &x, ANY);
    u64 *count = map_lookup(&call_count, &zero);
    if (count) *count += 1;
    return 0;
}

SEC("kretprobe/_Z9vectorAddPKfS0_Pf")
int cuda__leave(void *ctx) {
    u64 x, y, z, now = globaltimer();
    thread_idx(&x, &y, &z);
    u32 key = (u32)x;
    map_update(&timestamps, &key, &now, ANY);
    return 0;
}
