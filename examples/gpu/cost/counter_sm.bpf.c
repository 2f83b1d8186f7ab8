// A counter for each multiprocessor.
#include "../probe.h"

struct {
    __uint(type, PER_SM_ARRAY);
    __uint(max_entries, 1);
    __type(key, u32);
    __type(value, u64);
} count SEC(".maps");

SEC("kprobe/*")
int cuda__enter(void *ctx) {
    u32 key = 0;
    u64 *value = map_lookup(&count, &key);
    if (value) __sync_fetch_and_add(value, 1);
    return 0;
}
