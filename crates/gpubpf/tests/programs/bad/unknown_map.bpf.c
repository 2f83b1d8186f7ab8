// A map of a type nobody knows.
#include "../probe.h"

struct {
    __uint(type, 4711);
    __uint(max_entries, 1);
    __type(key, u32);
    __type(value, u64);
} strange SEC(".maps");

SEC("kprobe/kernel")
int cuda__strange(void *ctx) {
    u32 key = 0;
    return map_lookup(&strange, &key) ? 1 : 0;
}
