// When each thread leaves a kernel.
#include "probe.h"

struct event {
    u64 thread_x, thread_y, thread_z;
    u64 timestamp;
};

struct {
    __uint(type, RING);
    __uint(max_entries, 16);
    __uint(key_size, 4);
    __uint(value_size, 1024);
} events SEC(".maps");

const struct event *unused __attribute__((unused));

SEC("kretprobe/_Z9vectorAddPKfS0_Pf")
int cuda__left(void *ctx) {
    struct event event = {};
    thread_idx(&event.thread_x, &event.thread_y, &event.thread_z);
    event.timestamp = globaltimer();
    perf_event_output(ctx, &events, 0, &event, sizeof event);
    return 0;
}
