// All memory accesses, counted exactly, all threads in one counter.
#include "../probe.h"

struct {
    __uint(type, GPU_ARRAY);
    __uint(max_entries, 1);
    __type(key, u32);
    __type(value, u64);
} count SEC(".maps");

SEC("kprobe/__memcapture")
int cuda__access(void *ctx) {
    u32 key = 0;
    u64 *value = map_lookup(&count, &key);
    if (value) __sync_fetch_and_add(value, 1);
    return 0;
}
