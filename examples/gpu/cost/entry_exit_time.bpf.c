// The time at entry and at every way out, summed up for each thread.
#include "../probe.h"

struct {
    __uint(type, PER_THREAD_ARRAY);
    __uint(max_entries, 1);
    __type(key, u32);
    __type(value, u64);
} spent SEC(".maps");

SEC("kprobe/*")
int cuda__enter(void *ctx) {
    u32 key = 0;
    u64 *sum = map_lookup(&spent, &key);
    if (sum) *sum -= globaltimer();
    return 0;
}

SEC("kretprobe/*")
int cuda__leave(void *ctx) {
    u32 key = 0;
    u64 *sum = map_lookup(&spent, &key);
    if (sum) *sum += globaltimer();
    return 0;
}
