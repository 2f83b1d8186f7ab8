// Two kinds of maps that all threads share: an array, and a hash with two keys.
#include "probe.h"

struct {
    __uint(type, GPU_ARRAY);
    __uint(max_entries, 1);
    __type(key, u32);
    __type(value, u64);
} all SEC(".maps");

struct {
    __uint(type, GPU_HASH);
    __uint(max_entries, 2);
    __type(key, u32);
    __type(value, u64);
} by_side SEC(".maps");

SEC("kprobe/_Z9vectorAddPKfS0_Pf")
int cuda__enter(void *ctx) {
    u32 zero = 0;
    u64 *count = map_lookup(&all, &zero);
    if (count) __sync_fetch_and_add(count, 1);
    COUNT(&by_side, &zero, 1);
    return 0;
}

SEC("kretprobe/_Z9vectorAddPKfS0_Pf")
int cuda__leave(void *ctx) {
    u32 one = 1;
    COUNT(&by_side, &one, 1);
    return 0;
}
