// Calls of a kernel, counted and timed by process, in ordinary hash maps.
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

static __attribute__((always_inline)) u32 own_number(void) {
    u64 x, y, z, bx, by, bz;
    block_idx(&bx, &by, &bz);
    thread_idx(&x, &y, &z);
    return (u32)(bx << 16 | x);
}

SEC("kprobe/_Z9vectorAddPKfS0_Pf")
int cuda__enter(void *ctx) {
    u32 process = pid_tgid() >> 32, thread = own_number();
    u64 now = globaltimer();
    COUNT(&calls, &process, 1);
    map_update(&began, &thread, &now, ANY);
    return 0;
}

SEC("kretprobe/_Z9vectorAddPKfS0_Pf")
int cuda__leave(void *ctx) {
    u32 process = pid_tgid() >> 32, thread = own_number();
    u64 *start = map_lookup(&began, &thread);
    if (!start) return 0;
    u64 took = globaltimer() - *start;
    // Clocks of GPUs may stand still for a microsecond.
    COUNT(&total_ns, &process, took + 1);
    map_delete(&began, &thread);
    return 0;
}
