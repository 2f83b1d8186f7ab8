// Launches of a kernel by graphs: counted by its first thread.
#include "probe.h"

#define COUNTERS(name) \
    struct { \
        __uint(type, HASH); \
        __uint(max_entries, 1024); \
        __type(key, u32); \
        __type(value, u64); \
    } name SEC(".maps")

COUNTERS(calls);
COUNTERS(began);
COUNTERS(total_ns);

static __attribute__((always_inline)) u64 position(void) {
    u64 x, y, z, bx, by, bz;
    block_idx(&bx, &by, &bz);
    thread_idx(&x, &y, &z);
    return x | y | z | bx | by | bz;
}

SEC("kprobe/_Z9vectorAddPKfS0_Pf")
int cuda__enter(void *ctx) {
    if (position()) return 0;
    u32 process = pid_tgid() >> 32;
    u64 now = globaltimer();
    COUNT(&calls, &process, 1);
    map_update(&began, &process, &now, ANY);
    return 0;
}

SEC("kretprobe/_Z9vectorAddPKfS0_Pf")
int cuda__leave(void *ctx) {
    if (position()) return 0;
    u32 process = pid_tgid() >> 32;
    u64 *start = map_lookup(&began, &process);
    if (!start) return 0;
    u64 took = globaltimer() - *start;
    COUNT(&total_ns, &process, took + 1);
    return 0;
}
