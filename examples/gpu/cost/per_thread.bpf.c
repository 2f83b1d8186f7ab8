// A counter for each thread, at entry and at every way out.
#include "../probe.h"

struct {
    __uint(type, PER_THREAD_ARRAY);
    __uint(max_entries, 1);
    __type(key, u32);
    __type(value, u64);
} count SEC(".maps");

SEC("kprobe/*")
int cuda__enter(void *ctx) {
    u32 key = 0;
    u64 *value = map_lookup(&count, &key);
    if (value) *value += 1;
    return 0;
}

SEC("kretprobe/*")
int cuda__leave(void *ctx) {
    u32 key = 0;
    u64 *value = map_lookup(&count, &key);
    if (value) *value += 1;
    return 0;
}
