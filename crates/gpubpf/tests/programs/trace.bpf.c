// An event for the first thread of each launch, with its fields named by a struct.
#include "probe.h"

enum phase { ENTERED = 1, LEFT = 2 };

struct position {
    u64 x, y, z;
};

struct event {
    struct position block, thread;
    u64 time;
    enum phase phase;
    u8 lanes[4];
    char name[8];
};

struct {
    __uint(type, RING);
    __uint(max_entries, 16);
    __type(key, u32);
    __type(value, struct event);
} events SEC(".maps");

SEC("kprobe/_Z9vectorAddPKfS0_Pfi")
int cuda__entry(void *ctx) {
    struct event event = {.phase = ENTERED, .lanes = {1, 2, 3, 4}, .name = "vecadd"};
    block_idx(&event.block.x, &event.block.y, &event.block.z);
    thread_idx(&event.thread.x, &event.thread.y, &event.thread.z);
    if (event.block.x || event.thread.x) return 0;
    event.time = globaltimer();
    perf_event_output(ctx, &events, 0, &event, sizeof event);
    return 0;
}
