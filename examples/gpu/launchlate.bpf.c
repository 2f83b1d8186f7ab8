// How long a kernel takes to begin after it was launched, as a histogram. A uprobe, which the host's
// kernel runs, writes down when the launch was; the kernel's first thread looks at it. Both see one array.
#include "probe.h"

struct {
    __uint(type, ARRAY);
    __uint(max_entries, 1);
    __type(key, u32);
    __type(value, u64);
} launched SEC(".maps");

struct {
    __uint(type, GPU_ARRAY);
    __uint(max_entries, 11);
    __type(key, u32);
    __type(value, u64);
} latency SEC(".maps");

static __attribute__((always_inline)) int now(void) {
    u32 key = 0;
    u64 time = ktime_get_ns();
    map_update(&launched, &key, &time, ANY);
    return 0;
}

SEC("uprobe/libcudart.so:cudaLaunchKernel")
int launch(void *registers) { return now(); }

// What <<<>>> becomes with newer compilers.
SEC("uprobe/libcudart.so:__cudaLaunchKernel")
int launch_inner(void *registers) { return now(); }

SEC("kprobe/vectorAdd*")
int cuda__began(void *parameters) {
    u64 x, y, z, bx, by, bz;
    block_idx(&bx, &by, &bz);
    thread_idx(&x, &y, &z);
    if (x | bx) return 0;
    u32 key = 0;
    u64 *when = map_lookup(&launched, &key);
    if (!when) return 0;
    s64 took = ktime_get_ns() - *when;
    // Bins: below 1 us, 2 us, 4 us, …, and all the rest; the last is of kernels that began before their
    // launch, which can be where launches do not wait for each other.
    u32 bin = 0;
    if (took < 0)
        bin = 10;
    else
        for (s64 limit = 1000; bin < 9 && took >= limit; limit *= 2) bin++;
    u64 *count = map_lookup(&latency, &bin);
    if (count) __sync_fetch_and_add(count, 1);
    return 0;
}
