// How often each thread has run a kernel: a counter of its own for each.
#include "probe.h"

struct {
    __uint(type, PER_THREAD_ARRAY);
    __uint(max_entries, 1);
    __type(key, u32);
    __type(value, u64);
} runs SEC(".maps");

SEC("kretprobe/_Z9vectorAddPKfS0_Pf")
int cuda__ran(void *ctx) {
    u32 key = 0;
    u64 *count = map_lookup(&runs, &key);
    if (count) *count += 1;
    return 0;
}
