// How long a kernel takes to begin after it was launched, as a histogram. The time of the launch is in
// the kernel's own parameters here: probes can read them. launchlate asks the host instead.
#include "probe.h"

struct parameters {
    const float *a, *b;
    float *c;
    u64 launched;
};

struct {
    __uint(type, GPU_ARRAY);
    __uint(max_entries, 10);
    __type(key, u32);
    __type(value, u64);
} latency SEC(".maps");

SEC("kprobe/_Z12vectorAddTimPKfS0_Pfy")
int cuda__began(struct parameters *parameters) {
    u64 x, y, z, bx, by, bz;
    block_idx(&bx, &by, &bz);
    thread_idx(&x, &y, &z);
    if (x | bx) return 0;
    u64 took = ktime_get_ns() - parameters->launched;
    // Bins: below 1 us, 2 us, 4 us, …, and all the rest.
    u32 bin = 0;
    for (u64 limit = 1000; bin < 9 && took >= limit; limit *= 2) bin++;
    u64 *count = map_lookup(&latency, &bin);
    if (count) __sync_fetch_and_add(count, 1);
    return 0;
}
