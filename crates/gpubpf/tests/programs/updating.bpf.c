// Values of different sizes written into arrays, and what is given where they cannot be.
#include "probe.h"

struct triple {
    u32 a, b, c;
};

struct {
    __uint(type, GPU_ARRAY);
    __uint(max_entries, 40);
    __type(key, u32);
    __type(value, u8);
} small SEC(".maps");

struct {
    __uint(type, ARRAY);
    __uint(max_entries, 32);
    __type(key, u32);
    __type(value, struct triple);
} triples SEC(".maps");

struct {
    __uint(type, PER_THREAD);
    __uint(max_entries, 1);
    __type(key, u32);
    __type(value, u64);
} own SEC(".maps");

struct {
    __uint(type, GPU_ARRAY);
    __uint(max_entries, 4);
    __type(key, u32);
    __type(value, s64);
} results SEC(".maps");

static void note(u32 key, s64 result) { map_update(&results, &key, &result, 0); }

SEC("kprobe/any")
int cuda__update(void *ctx) {
    u64 x, y, z;
    thread_idx(&x, &y, &z);
    u32 key = x;
    u8 byte = x + 100;
    note(0, map_update(&small, &key, &byte, 0));
    struct triple triple = {x, 2 * x, 3 * x};
    map_update(&triples, &key, &triple, 2);
    u64 word = x + 7;
    key = 0;
    map_update(&own, &key, &word, 0);
    key = 40 + x;
    note(1, map_update(&small, &key, &byte, 0));
    key = 39;
    note(2, map_update(&small, &key, &byte, 1));
    note(3, map_update(&small, &key, &byte, 3));
    return 0;
}
