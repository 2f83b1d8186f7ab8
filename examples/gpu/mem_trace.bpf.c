// Memory accesses of kernels, counted: loads, stores, bytes, and all of them.
#include "probe.h"

struct access {
    u64 address;
    u32 size, space;
    u64 pc;
    u32 line, kind;
};

struct {
    __uint(type, GPU_ARRAY);
    __uint(max_entries, 4);
    __type(key, u32);
    __type(value, u64);
} counts SEC(".maps");

static __attribute__((always_inline)) void count(u32 key, u64 amount) {
    u64 *value = map_lookup(&counts, &key);
    if (value) __sync_fetch_and_add(value, amount);
}

SEC("kprobe/__memcapture")
int cuda__access(struct access *access) {
    count(access->kind == 0 ? 0 : 1, 1);
    count(2, access->size);
    count(3, 1);
    return 0;
}
