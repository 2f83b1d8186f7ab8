// Counters in arrays of one copy and of one a thread, in global data, and in a hash map.
#include "probe.h"

struct {
    __uint(type, GPU_ARRAY);
    __uint(max_entries, 8);
    __type(key, u32);
    __type(value, u64);
} totals SEC(".maps");

struct {
    __uint(type, PER_THREAD);
    __uint(max_entries, 2);
    __type(key, u32);
    __type(value, u64);
} by_thread SEC(".maps");

struct {
    __uint(type, HASH);
    __uint(max_entries, 1024);
    __type(key, u32);
    __type(value, u64);
} calls SEC(".maps");

struct {
    __uint(type, GPU_ARRAY);
    __uint(max_entries, 8);
    __type(key, u32);
    __type(value, u64);
} histogram SEC(".maps");

u64 launches;
u32 small;
const volatile u64 step = 3;

static noinline u64 bucket(u64 value) {
    u64 bits = 0;
    for (int i = 0; i < 7 && value > 1; i++) {
        value >>= 1;
        bits++;
    }
    return bits;
}

SEC("kretprobe/vectorAdd*")
int cuda__return(void *ctx) {
    u32 key = 0;
    u64 *value = map_lookup(&totals, &key);
    if (value) (*value)++;
    key = 1;
    value = map_lookup(&totals, &key);
    if (value) __sync_fetch_and_add(value, 2);
    u64 x, y, z;
    thread_idx(&x, &y, &z);
    key = bucket(x);
    value = map_lookup(&totals, &key);
    if (value) __sync_fetch_and_add(value, step);
    value = map_lookup(&histogram, &key);
    if (value) *value += 5;
    key = 1;
    value = map_lookup(&by_thread, &key);
    if (value) *value += x;
    launches++;
    __sync_fetch_and_add(&small, 1);
    key = pid_tgid() >> 32;
    value = map_lookup(&calls, &key);
    if (value) {
        __sync_fetch_and_add(value, 1);
    } else {
        u64 one = 1;
        map_update(&calls, &key, &one, 0);
    }
    return 0;
}
