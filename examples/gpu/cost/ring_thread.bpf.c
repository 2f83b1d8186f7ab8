// A record of each thread.
#include "../probe.h"

struct event {
    u64 timestamp, thread;
};

struct {
    __uint(type, RING);
    __uint(max_entries, 4096);
    __type(key, u32);
    __type(value, struct event);
} events SEC(".maps");

SEC("kprobe/*")
int cuda__enter(void *ctx) {
    struct event event = {.timestamp = globaltimer(), .thread = thread_number()};
    perf_event_output(ctx, &events, 0, &event, sizeof event);
    return 0;
}
