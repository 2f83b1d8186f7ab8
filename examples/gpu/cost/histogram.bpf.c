// A histogram of thread numbers.
#include "../probe.h"

struct {
    __uint(type, GPU_ARRAY);
    __uint(max_entries, 64);
    __type(key, u32);
    __type(value, u64);
} bins SEC(".maps");

static long (*const histogram)(void *map, u64 value) = (void *)601;

SEC("kprobe/*")
int cuda__enter(void *ctx) {
    histogram(&bins, thread_number());
    return 0;
}
