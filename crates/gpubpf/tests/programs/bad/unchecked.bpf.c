// A value that is used without a look at whether there is one, in a function of its own.
#include "../probe.h"

struct {
    __uint(type, GPU_ARRAY);
    __uint(max_entries, 4);
    __type(key, u32);
    __type(value, u64);
} counts SEC(".maps");

static noinline int count(u32 key) {
    u64 *value = map_lookup(&counts, &key);
    *value += 1;
    return 0;
}

SEC("kprobe/kernel")
int cuda__unchecked(void *ctx) { return count(1); }
