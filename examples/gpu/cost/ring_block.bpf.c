// A record of each block.
#include "../probe.h"

struct event {
    u64 timestamp, block, sm, warp;
};

struct {
    __uint(type, RING);
    __uint(max_entries, 1024);
    __type(key, u32);
    __type(value, struct event);
} events SEC(".maps");

SEC("kprobe/*")
int cuda__enter(void *ctx) {
    struct event event = {};
    u64 x, y, z, by, bz;
    thread_idx(&x, &y, &z);
    if (x | y | z) return 0;
    block_idx(&event.block, &by, &bz);
    event.timestamp = globaltimer();
    event.sm = sm_id();
    event.warp = warp_id();
    perf_event_output(ctx, &events, 0, &event, sizeof event);
    return 0;
}
