// A program of the GPU beside programs of the host.
#include "probe.h"

struct {
    __uint(type, GPU_ARRAY);
    __uint(max_entries, 10);
    __type(key, u32);
    __type(value, u64);
} times SEC(".maps");

struct {
    __uint(type, 27);
    __uint(max_entries, 4096);
} ring SEC(".maps");

SEC("uprobe/cudaLaunchKernel")
int launched(void *ctx) {
    u32 key = 0;
    u64 now = ktime_get_ns();
    map_update(&times, &key, &now, 0);
    return 0;
}

SEC("kprobe/do_exit")
int exiting(void *ctx) { return 0; }

SEC("kprobe/_Z9vectorAddPKfS0_Pf")
int cuda__late(void *ctx) {
    u32 key = 0;
    u64 *at = map_lookup(&times, &key);
    if (!at) return 0;
    u64 late = ktime_get_ns() - *at;
    key = 9;
    for (u32 i = 0; i < 9; i++)
        if (late < (1000ull << i)) {
            key = i;
            break;
        }
    u64 *bin = map_lookup(&times, &key);
    if (bin) __sync_fetch_and_add(bin, 1);
    return 0;
}
