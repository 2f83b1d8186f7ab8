// One event a launch: the first thread of the first block says when it began.
#include "probe.h"

struct event {
    u64 timestamp;
    u64 block_x, block_y, block_z;
    u64 thread_x, thread_y, thread_z;
};

struct {
    __uint(type, RING);
    __uint(max_entries, 16);
    __type(key, u32);
    __type(value, struct event);
} events SEC(".maps");

SEC("kprobe/_Z9vectorAddPKfS0_Pfi")
int cuda__launched(void *ctx) {
    struct event event = {};
    block_idx(&event.block_x, &event.block_y, &event.block_z);
    thread_idx(&event.thread_x, &event.thread_y, &event.thread_z);
    if (event.block_x | event.block_y | event.block_z | event.thread_x | event.thread_y | event.thread_z) return 0;
    event.timestamp = globaltimer();
    perf_event_output(ctx, &events, 0, &event, sizeof event);
    return 0;
}
