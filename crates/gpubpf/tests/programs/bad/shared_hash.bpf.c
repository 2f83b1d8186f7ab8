// A hash that both sides use: the GPU cannot reach the kernel's.
#include "../probe.h"

struct {
    __uint(type, 1);
    __uint(max_entries, 16);
    __type(key, u32);
    __type(value, u64);
} counts SEC(".maps");

SEC("uprobe/cudaLaunchKernel")
int launched(void *registers) {
    u32 key = 1;
    u64 one = 1;
    map_update(&counts, &key, &one, 0);
    return 0;
}

SEC("kprobe/vectorAdd")
int cuda__began(void *parameters) {
    u32 key = 1;
    map_lookup(&counts, &key);
    return 0;
}
